# SPDX-License-Identifier: Apache-2.0
"""Pushes inside a transaction: bytes, order, repeats and duplicates, births, traces, who wakes up."""
import random
import re
import uuid

import pytest

from lib import clock
from lib.api import ack_item, ack_op, pop_path, push_op, tids
from lib.fixtures import CROSS, make_api

PAYLOADS = [
    b"null", b'""', b"-0", b"1e2", b"1.0", b"1.10", b"1E+400", b"123456789012345678901234567890.000000000000000000001",
    b'"a\\/b\\u00e9\xc3\xa9"', b'"\\u0000"', b'{"a":"x\\u0000y"}', b'{"s":"\\ud83d"}', b'{"s":"\\ude00\\ud83d"}',
    b'"\\u001f\\b\\f\\n\\r\\t\\"\\\\"', b'"\x7f"', b'{ "z":0.1,"y":1e2,"x":1.10,"w":-0,"v":1.0,"z":0.1 , "n":[1 , 2]}',
    b'{\n\t"tabs" :\r\n [ 1,2 , 3 ]\n}', b'{"type":"ack","queue":"fake"}', b'"]}],"', b'{"":{"":[[],{}]}}',
]


def duplicate(answer, q, partition):
    """A rollback because of history, naming the lane."""
    assert (answer["success"], answer["reason"]) == (False, "duplicate"), answer
    assert answer["error"] == f'QDUP duplicate messages in queue "{q}" partition "{partition}"; transaction rolled back'
    return True


# bytes

@pytest.mark.parametrize("key", [b"payload", b"data"])
def test_payload_bytes_come_back_exactly(api, q, key):
    flat = [b'{"type":"push" , "queue":"%s","%s":  %s }' % (q.encode(), key, payload) for payload in PAYLOADS]
    nested = b",".join(b'{ "%s":\t%s\n,"queue":"%s"}' % (key, payload, q.encode()) for payload in PAYLOADS)
    body = b'{"operations":[' + b",".join(flat) + b',{"items":[' + nested + b'],"type":"push"}]}'
    assert api.transaction_reply(body).json["success"] is True
    reply = api.pop_reply(q, batch=100)
    position = 0
    for payload in PAYLOADS * 2:
        found = re.compile(rb'"data"\s*:\s*' + re.escape(payload) + rb"\s*[,}]").search(reply.body, position)
        assert found, f"{payload!r} is not in {reply.body[position:position + 400]!r}"
        position = found.end()
    assert len(reply.json["messages"]) == len(PAYLOADS) * 2


@pytest.mark.parametrize("deep", [b"[" * 10000 + b"]" * 10000, b'{"a":' * 9999 + b"[]" + b"}" * 9999])
def test_deep_payloads_come_back_exactly(api, q, deep):
    body = b'{"operations":[{"type":"push","queue":"%s","payload":%s}]}' % (q.encode(), deep)
    assert api.transaction_reply(body).status == 200
    assert deep in api.client.request("GET", pop_path(q)).body


def test_a_megabyte_payload(api, q):
    text = "0123456789abcdef" * 65536
    api.commit(push_op(q, payload={"text": text}), push_op(q, payload={}))
    assert [message["data"] for message in api.pop(q)["messages"]] == [{"text": text}, {}]


def test_trace_ids(api, q):
    trace = str(uuid.uuid4())
    given = [(trace, trace), (trace.upper(), trace), (trace.replace("-", ""), trace), ("nope", None), ("", None),
             (trace[:-1], None), (trace + "0", None)]
    api.commit(*[push_op(q, traceId=text) for text, _ in given],
               {"type": "push", "items": [{"queue": q, "payload": 1, "traceId": trace}]}, push_op(q))
    assert [message["traceId"] for message in api.pop(q)["messages"]] == \
        [expected for _, expected in given] + [trace, None]


def test_the_producer_is_not_what_the_body_says(api, q):
    api.commit(push_op(q, producerSub="ceo"))
    assert api.pop(q)["messages"][0]["producerSub"] is None


# births

def test_a_queue_born_by_a_transaction(api, name):
    q = name() + ".task.more"
    api.commit(push_op(q, "a"), push_op(q, "b", partition="x"))
    document = api.queue(q)
    assert (document["namespace"], document["task"]) == (q.split(".")[0], "task")
    assert {lane["name"] for lane in document["partitions"]} == {"Default", "x"}
    popped = api.pop(namespace=q.split(".")[0], task="task", partitions=2)
    assert sorted(tids(popped)) == ["a", "b"]
    assert 60 <= clock.lease_seconds(popped["messages"][0]) < 90, "the lease of a queue born by a push"


def test_counts_of_the_listing(api, q):
    api.commit(*[push_op(q, f"t{number}") for number in range(5)], push_op(q, "x", partition="other"))
    totals = api.queue(q)["totals"]
    assert (totals["total"], totals["pending"], totals["processing"], totals["completed"]) == (6, 6, 0, 0)


# order

def test_request_order_within_a_lane(api, q):
    order = [(lane, f"{lane}{number}") for number in range(40) for lane in "cab"]
    random.Random(3).shuffle(order)
    results = api.commit(*[push_op(q, tid, partition=lane) for lane, tid in order])
    assert [result["transactionId"] for result in results] == [tid for _, tid in order]
    for lane in "abc":
        messages = api.pop(q, lane)["messages"]
        assert [message["transactionId"] for message in messages] == [tid for at, tid in order if at == lane]
        assert [message["offset"] for message in messages] == list(range(40))
    assert len({result["messageId"] for result in results}) == len(order)


def test_pushes_and_transactions_of_one_lane(api, q):
    calls = []
    for number in range(30):
        calls.append(api.start("POST", "/api/v1/push", {"items": [
            {"queue": q, "transactionId": f"p{number}-{item}", "payload": 1} for item in range(3)]}))
        calls.append(api.start("POST", "/api/v1/transaction", {"operations": [
            push_op(q, f"t{number}-{item}") for item in range(3)]}))
    for call in calls:
        reply = call.wait()
        assert reply.status == 201 or reply.json["success"] is True, reply
    messages = api.pop(q, batch=1000)["messages"]
    assert [message["offset"] for message in messages] == list(range(180)), "no offset twice, none left out"
    order = [message["transactionId"] for message in messages]
    assert len(set(order)) == 180
    for call in {tid.split("-")[0] for tid in order}:
        assert [tid for tid in order if tid.startswith(call + "-")] == [f"{call}-{item}" for item in range(3)]


def test_a_transaction_follows_what_was_answered_before_it(api, q):
    api.send(q, "a")
    api.commit(push_op(q, "b"))
    api.send(q, "c")
    api.commit(push_op(q, "d"))
    assert api.popped(q) == list("abcd")


# repeats and duplicates

def test_repeats_in_one_call_echo_the_first(api, name):
    q, other = name(), name()
    results = api.commit(push_op(q, "x", payload=1), push_op(q, "y"), push_op(other, "x"),
                         {"type": "push", "items": [{"queue": q, "transactionId": "x", "payload": 2}]},
                         push_op(q, "x", partition="p"), push_op(q, "x", payload=3, partition="Default"))
    assert [result.get("duplicate", False) for result in results] == [False, False, False, True, False, True]
    assert results[0]["messageId"] == results[3]["messageId"] == results[5]["messageId"]
    assert len({result["messageId"] for result in results}) == 4
    assert [result["transactionId"] for result in results] == ["x", "y", "x", "x", "x", "x"]
    assert [(message["transactionId"], message["data"]) for message in api.pop(q, "Default")["messages"]] == \
        [("x", 1), ("y", 1)], "the first one wins"


def test_a_duplicate_against_history(api, q):
    original = api.send(q, "x", partition='p"1')[0]
    for operations in ([push_op(q, "x", partition='p"1')],
                       [push_op(q, "new", partition='p"1'), push_op(q, "x", partition='p"1'), push_op(q, "z")]):
        answer = api.transact(*operations)
        assert (answer["success"], answer["reason"]) == (False, "duplicate"), answer
        assert answer["error"].startswith(f'QDUP duplicate messages in queue "{q}" partition "p')
        assert answer["error"].endswith("; transaction rolled back")
    assert [lane["name"] for lane in api.queue(q)["partitions"]] == ['p"1']
    messages = api.pop(q, 'p"1')["messages"]
    assert [(message["transactionId"], message["id"]) for message in messages] == [("x", original["message_id"])]


def test_the_scope_is_one_partition_of_one_queue(api, name):
    a, b = name(), name()
    api.commit(push_op(a, "x", partition="p1"))
    api.commit(push_op(a, "x", partition="p2"), push_op(b, "x", partition="p1"))
    assert duplicate(api.transact(push_op(b, "x", partition="p1")), b, "p1")


def test_consumed_does_not_mean_forgotten(api, q):
    api.commit(push_op(q, "x"))
    api.finish(api.pop(q))
    assert duplicate(api.transact(push_op(q, "x")), q, "Default")


def test_a_repeated_call_is_a_duplicate(api, name):
    source, sink = name(), name()
    api.send(source, "m")
    message = api.pop(source)["messages"][0]
    operations = [push_op(sink, "a"), push_op(sink, "b", partition="p")]
    api.commit(*operations, ack_op(message))
    for _ in range(3):
        answer = api.transact(*operations, ack_op(message))
        assert (answer["success"], answer["reason"]) == (False, "duplicate") and answer["error"].startswith("QDUP ")
    assert sorted(api.popped(sink, partitions=2)) == ["a", "b"]


def test_pushes_and_transactions_know_each_others_ids(api, q):
    stored = api.commit(push_op(q, "x"))[0]
    again = api.push({"queue": q, "transactionId": "x", "payload": 1})[0]
    assert (again["status"], again["message_id"]) == ("duplicate", stored["messageId"])
    minted = api.commit(push_op(q))[0]["messageId"]
    again = api.push({"queue": q, "transactionId": minted, "payload": 1})[0]
    assert (again["status"], again["message_id"]) == ("duplicate", minted)
    assert duplicate(api.transact(push_op(q, minted)), q, "Default")


def test_racing_calls_with_one_id_store_it_once(api, name):
    for born in (False, True):
        q = name()
        if born:
            api.send(q, "before")
        calls = [api.start("POST", "/api/v1/transaction", {"operations": [push_op(q, "x"), push_op(q, f"own{number}")]})
                 for number in range(10)]
        answers = [call.wait().json for call in calls]
        assert [answer["success"] for answer in answers].count(True) == 1, answers
        assert all(duplicate(answer, q, "Default") for answer in answers if not answer["success"])
        winner = f"own{[answer['success'] for answer in answers].index(True)}"
        assert api.popped(q) == (["before"] if born else []) + ["x", winner]


def test_racing_pushes_and_transactions_with_one_id(api, q):
    pushes = [api.start("POST", "/api/v1/push", {"items": [{"queue": q, "transactionId": "x", "payload": 1}]})
              for _ in range(6)]
    calls = [api.start("POST", "/api/v1/transaction", {"operations": [push_op(q, "x")]}) for _ in range(6)]
    won = [call.wait().json[0]["status"] for call in pushes].count("queued")
    won += [call.wait().json["success"] for call in calls].count(True)
    assert won == 1
    assert api.popped(q) == ["x"]


def test_window_zero_stores_every_copy(api, q):
    api.configure(q, dedupWindowSeconds=0)
    for _ in range(2):
        results = api.commit(push_op(q, "x"), push_op(q, "x"), push_op(q, "x"))
        assert len({result["messageId"] for result in results}) == 3
        assert not any(result.get("duplicate") for result in results)
    assert api.push({"queue": q, "transactionId": "x", "payload": 1})[0]["status"] == "queued"
    assert api.popped(q) == ["x"] * 7


def test_window_zero_acks_resolve_to_the_right_copy(api, q):
    api.configure(q, dedupWindowSeconds=0)
    api.commit(push_op(q, "x"), push_op(q, "x"), push_op(q, "y"))
    first = api.pop(q, batch=1)["messages"][0]
    api.commit(ack_op(first), leases=[first["leaseId"]])
    second = api.pop(q, batch=2)["messages"]
    assert tids({"messages": second}) == ["x", "y"]
    api.commit(ack_op(second[0]), leases=[second[0]["leaseId"]])
    assert api.pop(q) is None, "the lease holds y"
    api.commit(ack_op(second[1]), leases=[second[1]["leaseId"]])
    assert api.pop(q) is None


@pytest.mark.slow
def test_the_window_ends(slow_api, q):
    api = slow_api
    api.configure(q, dedupWindowSeconds=2)
    watch = clock.Watch()
    api.commit(push_op(q, "x"))
    watch.sleep_until(2.5)
    api.commit(push_op(q, "x"))
    assert duplicate(api.transact(push_op(q, "x")), q, "Default")


# who wakes up

@pytest.fixture(params=CROSS)
def patient(request, brokers, brokers_seen):
    """A broker whose parked pops hardly ever look by themselves: only what wakes them makes them answer early."""
    made = make_api(brokers, brokers_seen, request.param, POP_WAIT_INITIAL_INTERVAL_MS="18000",
                    POP_WAIT_MAX_INTERVAL_MS="18000")
    yield made
    made.close()


def woken(api, calls):
    """What each of the parked pops delivers, all of them long before they would have looked again."""
    watch = clock.Watch()
    delivered = [tids(api.got(call)) for call in calls]
    assert watch.seconds < 15, "they were not woken"
    return delivered


def parked(api, *args, **params):
    """A pop that has looked once and is waiting now."""
    call = api.park(*args, **params)
    assert not call.ready()
    return call


def test_parked_pops_wake_after_the_commit(patient, name):
    api, wide, pinned, found = patient, name(), name(), name()
    api.configure(wide)
    api.send(found + ".t", "old")
    api.finish(api.pop(found + ".t"))
    calls = [parked(api, wide), parked(api, pinned, "p"), parked(api, namespace=found)]
    api.commit(push_op(wide, "a"), push_op(pinned, "b", partition="p"), push_op(found + ".t", "c"))
    assert woken(api, calls) == [["a"], ["b"], ["c"]]


def test_groups_parked_on_nothing_get_what_a_transaction_stores(patient, q):
    api = patient
    for group, mode in (("g", "new"), ("h", "all")):
        assert api.pop(q, consumerGroup=group, subscriptionMode=mode) is None
    calls = [parked(api, q, consumerGroup=group) for group in "gh"]
    api.commit(push_op(q, "a"))
    assert woken(api, calls) == [["a"], ["a"]]


@pytest.mark.parametrize("status, expected", [("completed", "b"), ("retry", "a"), ("failed", "a"), ("dlq", "b")])
def test_a_lane_freed_by_a_transaction_wakes_a_parked_pop(patient, q, status, expected):
    api = patient
    api.send(q, "a", "b")
    message = api.pop(q, batch=1)["messages"][0]
    call = parked(api, q, batch=1)
    api.commit(ack_op(message, status))
    assert woken(api, [call]) == [[expected]]


def test_a_chain_of_transactions_moves_everything_once(api, name):
    """Consume, transform, produce: what goes in comes out once, in order."""
    source, sink = name("source"), name("sink")
    api.send(source, *[f"t{number}" for number in range(60)])
    while popped := api.pop(source, batch=7):
        api.commit(*[push_op(sink, "out-" + tid) for tid in tids(popped)],
                   *[ack_op(message) for message in popped["messages"]], leases=[popped["leaseId"]])
    assert api.popped(sink, batch=100) == [f"out-t{number}" for number in range(60)]


def test_many_pushes_in_one_call(api, q):
    results = api.commit(*[push_op(q, f"t{number}", partition=f"p{number % 50}") for number in range(2000)])
    assert len({result["messageId"] for result in results}) == 2000
    seen = []
    while popped := api.pop(q, batch=1000, partitions=64):
        seen += tids(popped)
        results = api.acks([ack_item(message) for message in popped["messages"]])
        assert all(result["success"] for result in results)
    assert sorted(seen) == sorted(f"t{number}" for number in range(2000))
