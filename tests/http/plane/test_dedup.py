# SPDX-License-Identifier: Apache-2.0
"""Deduplication: one transactionId, one message, per partition and window, whoever pushes how often."""
import random

import pytest

from lib import clock
from lib.api import tids


def push_one(api, q, tid, partition=None):
    return api.push({"queue": q, "transactionId": tid, "payload": 1, "partition": partition})[0]


def statuses(results):
    return [result["status"] for result in results]


def test_repeats_inside_one_body(api, q):
    results = api.push(*[{"queue": q, "transactionId": "x", "payload": number} for number in range(4)])
    assert statuses(results) == ["queued", "duplicate", "duplicate", "duplicate"]
    assert len({result["message_id"] for result in results}) == 1
    assert [message["data"] for message in api.pop(q)["messages"]] == [0], "the first one wins"


def test_a_key_that_exists_makes_all_repeats_duplicates(api, q):
    original = push_one(api, q, "x")
    results = api.push(*[{"queue": q, "transactionId": tid, "payload": 1} for tid in "xyxz"])
    assert statuses(results) == ["duplicate", "queued", "duplicate", "queued"]
    assert results[0]["message_id"] == results[2]["message_id"] == original["message_id"]
    assert results[0]["transaction_id"] == "x"
    popped = api.pop(q)
    assert tids(popped) == ["x", "y", "z"]
    assert [message["offset"] for message in popped["messages"]] == [0, 1, 2], "a duplicate takes no offset"


def test_results_follow_request_order_over_partitions(api, q):
    results = api.push(*[{"queue": q, "partition": lane, "transactionId": tid, "payload": 1} for lane, tid in
                         (("p1", "t1"), ("p2", "t2"), ("p1", "t1"), ("p3", "t3"), ("p2", "t4"))])
    assert [result["index"] for result in results] == [0, 1, 2, 3, 4]
    assert statuses(results) == ["queued", "queued", "duplicate", "queued", "queued"]
    assert results[2]["message_id"] == results[0]["message_id"]
    assert [result["transaction_id"] for result in results] == ["t1", "t2", "t1", "t3", "t4"]


def test_the_scope_is_one_partition_of_one_queue(api, name):
    a, b = name("a"), name("b")
    results = [push_one(api, a, "x", "p1"), push_one(api, a, "x", "p2"), push_one(api, b, "x", "p1")]
    assert statuses(results) == ["queued"] * 3
    assert len({result["message_id"] for result in results}) == 3


def test_consumed_does_not_mean_forgotten(api, q):
    original = push_one(api, q, "x")
    api.finish(api.pop(q))
    again = push_one(api, q, "x")
    assert (again["status"], again["message_id"]) == ("duplicate", original["message_id"])
    assert api.pop(q) is None


def test_an_omitted_id_is_never_a_duplicate_but_its_id_is_a_key(api, q):
    first = api.push({"queue": q, "payload": 1}, {"queue": q, "payload": 1})
    assert statuses(first) == ["queued", "queued"]
    assert push_one(api, q, first[0]["message_id"])["status"] == "duplicate"


def test_ids_are_compared_as_text(api, q):
    variants = ["a", "A", "a ", " a", "\u00e9", "e\u0301", "1", "01"]
    assert statuses([push_one(api, q, tid) for tid in variants]) == ["queued"] * len(variants)
    reply = api.push_reply(b'{"items":[{"queue":"%s","transactionId":"\\u0061","payload":1}]}' % q.encode())
    assert statuses(reply.json) == ["duplicate"]


@pytest.mark.parametrize("born", [True, False], ids=["existing lane", "lane born by the race"])
def test_eight_concurrent_pushes_of_one_key(api, name, born):
    for _ in range(5):
        q = name()
        if born:
            api.send(q, "before")
        body = b'{"items":[{"queue":"%s","transactionId":"x","payload":1}]}' % q.encode()
        calls = [api.start("POST", "/api/v1/push", body) for _ in range(8)]
        replies = [call.wait() for call in calls]
        assert [reply.status for reply in replies] == [201] * 8
        results = [reply.json[0] for reply in replies]
        assert sorted(statuses(results)) == ["duplicate"] * 7 + ["queued"]
        winner = next(result for result in results if result["status"] == "queued")
        assert {result["message_id"] for result in results} == {winner["message_id"]}
        assert api.popped(q).count("x") == 1


def test_racing_bodies_share_their_winners(api, q):
    """Many bodies with the same keys in different orders: every key is stored once, everybody learns its id."""
    keys = [f"k{number}" for number in range(30)]
    generator = random.Random(7)
    calls = []
    for _ in range(12):
        generator.shuffle(keys)
        items = [{"queue": q, "transactionId": key, "payload": key} for key in keys]
        calls.append((list(keys), api.start("POST", "/api/v1/push", {"items": items})))
    ids, queued = {}, 0
    for order, call in calls:
        results = call.wait().json
        assert [result["transaction_id"] for result in results] == order
        for result in results:
            ids.setdefault(result["transaction_id"], set()).add(result["message_id"])
            queued += result["status"] == "queued"
            assert result["status"] in ("queued", "duplicate")
    assert queued == 30 and all(len(found) == 1 for found in ids.values())
    messages = api.pop(q, batch=100)["messages"]
    assert sorted(message["transactionId"] for message in messages) == sorted(keys)
    assert {message["transactionId"]: {message["id"]} for message in messages} == ids


def test_window_zero_stores_every_copy(api, q):
    api.configure(q, dedupWindowSeconds=0)
    one_body = api.push(*[{"queue": q, "transactionId": "x", "payload": 1}] * 3)
    assert statuses(one_body) == ["queued"] * 3
    assert len({result["message_id"] for result in one_body}) == 3
    assert push_one(api, q, "x")["status"] == "queued"
    body = b'{"items":[{"queue":"%s","transactionId":"x","payload":1}]}' % q.encode()
    calls = [api.start("POST", "/api/v1/push", body) for _ in range(8)]
    assert [call.wait().json[0]["status"] for call in calls] == ["queued"] * 8
    popped = api.pop(q)
    assert tids(popped) == ["x"] * 12
    assert [message["offset"] for message in popped["messages"]] == list(range(12))


def test_window_zero_acks_resolve_to_the_right_copy(api, q):
    api.configure(q, dedupWindowSeconds=0)
    api.send(q, "x", "x", "y")
    first = api.pop(q, batch=1)["messages"][0]
    assert api.ack(first)["success"]
    second = api.pop(q, batch=2)
    assert tids(second) == ["x", "y"]
    result = api.ack(second["messages"][0])
    assert (result["success"], result["leaseReleased"]) == (True, False)
    result = api.ack(second["messages"][1])
    assert (result["success"], result["leaseReleased"]) == (True, True)
    assert api.pop(q) is None


def test_turning_the_window_off_and_on_acts_at_once(api, q):
    push_one(api, q, "x")
    api.configure(q, dedupWindowSeconds=0)
    assert push_one(api, q, "x")["status"] == "queued"
    api.configure(q, dedupWindowSeconds=3600)
    assert push_one(api, q, "x")["status"] == "duplicate"


@pytest.mark.slow
def test_the_window_ends(slow_api, q):
    api = slow_api
    api.configure(q, dedupWindowSeconds=2)
    watch = clock.Watch()
    original = push_one(api, q, "x")
    assert push_one(api, q, "x")["message_id"] == original["message_id"]
    watch.sleep_until(2.5)
    later = push_one(api, q, "x")
    assert later["status"] == "queued" and later["message_id"] != original["message_id"]
    again = push_one(api, q, "x")
    assert (again["status"], again["message_id"]) == ("duplicate", later["message_id"])


def test_a_push_whose_answer_was_lost_is_stored_once(api, q):
    """The client vanishes right after sending; its retry is a duplicate, or the original never arrived."""
    for number in range(20):
        body = b'{"items":[{"queue":"%s","transactionId":"t%d","payload":1}]}' % (q.encode(), number)
        lost = api.start("POST", "/api/v1/push", body)
        lost.abandon(reset=number % 2 == 1)
        retry = api.push_reply(body)
        assert retry.status == 201 and retry.json[0]["status"] in ("queued", "duplicate"), retry
    assert sorted(api.popped(q)) == sorted(f"t{number}" for number in range(20))
    assert api.pop(q, autoAck=True, consumerGroup="all", subscriptionMode="all", batch=100) is not None
    assert api.pop(q, autoAck=True, consumerGroup="all", batch=100) is None
