# SPDX-License-Identifier: Apache-2.0
"""A transaction that rolls back leaves everything as it was, and many at once neither block nor lose anything."""
import json
import random
import uuid

import pytest

from lib.api import Api, ack_op, push_op, tids
from lib.txn import NOBODY


def spoilers(history, message):
    """One operation each that makes a call roll back, with the reason it must give."""
    return [(push_op(history, "x"), "duplicate"),
            ({**ack_op(message), "transactionId": "ghost"}, "ack_rejected"),
            (ack_op(message, consumerGroup="stranger"), "ack_rejected"),
            (ack_op(message, leaseId=NOBODY), "ack_rejected"),
            (ack_op(message, partitionId=str(uuid.uuid4())), "ack_rejected")]


def test_nothing_stays_of_a_rolled_back_call(api, name):
    """Whatever spoils it, wherever it stands: no queue, no lane, no message, no ack, no charge."""
    source, history, lanes, born = name("source"), name("history"), name("lanes"), name("born")
    api.send(history, "x")
    api.send(lanes, "here")
    api.send(source, "s0", "s1", partition="a")
    api.send(source, "t0", "t1", partition="b")
    a, b = (api.pop(source, lane)["messages"] for lane in "ab")
    before = [api.queue(q) for q in (source, history, lanes)]
    listed = {item["name"] for item in api.queues()}
    for spoiler, reason in spoilers(history, b[0]):
        for where in (0, 2, 4):
            operations = [push_op(born, "n"), push_op(lanes, "p", partition="new"), push_op(lanes, "q"),
                          ack_op(a[1], "failed")]
            operations.insert(where, spoiler)
            answer = api.transact(*operations)
            assert (answer["success"], answer["reason"], answer["results"]) == (False, reason, []), answer
    assert [api.queue(q) for q in (source, history, lanes)] == before
    assert {item["name"] for item in api.queues()} == listed
    assert api.pop(source, partitions=2) is None, "both lanes are still leased"
    assert api.extend(a[0]["leaseId"], 30)["success"] is True
    for number in range(4):
        assert api.ack(a[0], "failed")["dlq"] is (number == 3), "nothing was charged before"
        a = api.pop(source, "a")["messages"]
    assert api.ack(b[1])["noop"] is False
    assert api.popped(lanes) == ["here"] and api.pop(lanes, "new") is None


def test_ids_of_a_rolled_back_call_are_not_remembered(api, name):
    history, q = name(), name()
    api.send(history, "x")
    for _ in range(2):
        assert api.transact(push_op(q, "a"), push_op(q, "b", partition="p"), push_op(history, "x"))["success"] is False
    assert api.push({"queue": q, "transactionId": "a", "payload": 1})[0]["status"] == "queued"
    assert "duplicate" not in api.commit(push_op(q, "b", partition="p"))[0]
    messages = api.pop(q, partitions=2)["messages"]
    assert [message["offset"] for message in messages] == [0, 0], "no offset was spent"


def test_a_rollback_does_not_disturb_the_lanes_it_touched(api, q):
    api.send(q, "x")
    for number in range(5):
        assert api.transact(push_op(q, f"lost{number}"), push_op(q, "x"))["success"] is False
        api.send(q, f"kept{number}")
    messages = api.pop(q)["messages"]
    assert tids({"messages": messages}) == ["x"] + [f"kept{number}" for number in range(5)]
    assert [message["offset"] for message in messages] == list(range(6))


def test_the_call_can_be_mended_and_sent_again(api, name):
    q, sink = name(), name()
    api.send(sink, "x")
    api.send(q, "m")
    message = api.pop(q)["messages"][0]
    assert api.transact(push_op(sink, "x"), ack_op(message), leases=[message["leaseId"]])["reason"] == "duplicate"
    api.commit(push_op(sink, "y"), ack_op(message), leases=[message["leaseId"]])
    assert api.popped(sink) == ["x", "y"] and api.pop(q) is None


def test_which_refusal_is_told_is_one_of_the_true_ones(api, name):
    q, history = name(), name()
    api.send(history, "x")
    api.send(q, "m")
    message = api.pop(q)["messages"][0]
    answer = api.transact(push_op(history, "x"), {**ack_op(message), "transactionId": "ghost"})
    assert answer["reason"] in ("duplicate", "ack_rejected"), answer
    assert answer["error"].startswith("QDUP " if answer["reason"] == "duplicate" else "QTXN ")


def test_nothing_of_the_database_shows_in_an_answer(api, name):
    q, history = name(), name()
    api.send(history, "x")
    api.send(q, "m")
    message = api.pop(q)["messages"][0]
    for spoiler, _ in spoilers(history, message):
        text = json.dumps(api.transact(spoiler))
        for word in ("ERROR", "SQLSTATE", "CONTEXT", "PL/pgSQL", "queen.", "constraint"):
            assert word not in text, text


# many at once

def test_opposite_orders_do_not_deadlock(api, q):
    lanes = [f"p{number}" for number in range(8)]
    for round_number in range(3):
        calls = []
        for number in range(24):
            order = lanes if number % 2 else lanes[::-1]
            calls.append(api.start("POST", "/api/v1/transaction", {"operations": [
                push_op(q, f"r{round_number}-{number}", partition=lane) for lane in order]}))
        for call in calls:
            reply = call.wait()
            assert reply.status == 200 and reply.json["success"] is True, reply
    for lane in lanes:
        messages = api.pop(q, lane, batch=100)["messages"]
        assert [message["offset"] for message in messages] == list(range(72))


def test_pushes_and_acks_of_the_same_lanes_do_not_deadlock(api, q):
    """Acks and pushes over the same lanes in any order, beside ordinary pushes and acks of those lanes."""
    lanes = [f"p{number}" for number in range(6)]
    generator = random.Random(11)
    groups = [f"g{number}" for number in range(6)]
    for lane in lanes:
        api.send(q, "first", partition=lane)
    for round_number in range(4):
        calls = []
        for group in groups:
            popped = api.pop(q, consumerGroup=group, subscriptionMode="all", partitions=6, batch=1000)
            by_lane = {message["partition"]: message for message in popped["messages"]}
            assert sorted(by_lane) == lanes
            operations = [ack_op(message) for message in by_lane.values()]
            operations += [push_op(q, f"{group}-{round_number}", partition=lane) for lane in lanes]
            generator.shuffle(operations)
            body = {"operations": operations, "requiredLeases": [popped["leaseId"]]}
            calls.append(("/api/v1/transaction", body))
        calls += [("/api/v1/push", {"items": [{"queue": q, "partition": lane, "payload": 1} for lane in
                                              generator.sample(lanes, 4)]}) for _ in range(6)]
        generator.shuffle(calls)
        for call in [api.start("POST", path, body) for path, body in calls]:
            reply = call.wait()
            assert reply.status == 201 or reply.json["success"] is True, reply
    assert api.queue(q)["totals"]["total"] == 6 + 4 * 6 * 6 + 4 * 6 * 4


def test_a_call_is_visible_as_a_whole_or_not_at_all(api, q):
    """A group that reads both lanes after each answer finds as much in one as in the other."""
    calls = [api.start("POST", "/api/v1/transaction", {"operations": [
        push_op(q, f"t{number}", partition="a"), push_op(q, f"t{number}" if number % 3 else "twice", partition="b")]})
        for number in range(30)]
    committed = sorted(f"t{number}" for number, call in enumerate(calls) if call.wait().json["success"])
    assert len(committed) == 21, "of ten calls with one id one commits"
    assert sorted(api.popped(q, "a", batch=100)) == committed
    assert len(api.popped(q, "b", batch=100)) == 21


def test_a_client_that_vanishes_leaves_a_whole_or_nothing(api, q):
    for number in range(20):
        body = {"operations": [push_op(q, f"t{number}", partition=lane) for lane in "ab"]}
        api.start("POST", "/api/v1/transaction", body).abandon(reset=number % 2 == 1)
        answer = api.transact(*body["operations"])
        assert answer["success"] is True or answer["reason"] == "duplicate", answer
    expected = sorted(f"t{number}" for number in range(20))
    assert sorted(api.popped(q, "a", batch=100)) == sorted(api.popped(q, "b", batch=100)) == expected


@pytest.mark.slow
def test_a_commit_survives_kill_9(own_broker):
    broker = own_broker("pg")
    api = Api(broker.port, "h2")
    api.send("in", "m", "poison")
    messages = api.pop("in")["messages"]
    api.commit(push_op("out", "o"), ack_op(messages[0]), ack_op(messages[1], "dlq"), leases=[messages[0]["leaseId"]])
    flight = [api.start("POST", "/api/v1/transaction", {"operations": [
        push_op("pair", f"t{number}", partition=lane) for lane in "ab"]}) for number in range(40)]
    answered = [f"t{number}" for number, call in enumerate(flight[:20]) if call.wait().json["success"]]
    broker.kill()
    broker.start()
    api.close()
    api = Api(broker.port, "h1")
    assert api.popped("out") == ["o"] and api.pop("in") is None
    assert broker.psql("SELECT transaction_id FROM queen.log_dlq") == [("poison",)]
    a, b = (sorted(api.popped("pair", lane, batch=100, wait=True, timeout=5000)) for lane in "ab")
    assert a == b and set(answered) <= set(a) and len(answered) == 20
    api.close()
    broker.stop()
