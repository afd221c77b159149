# SPDX-License-Identifier: Apache-2.0
"""Failed, retry and dlq: which signal decides a call, the retry budget, dead letters and drops."""
import re

import pytest

from lib import clock
from lib.api import ack_item, tids

NO_BATCH = "no leased batch"


def batch_of(api, q, count, **params):
    api.send(q, *[f"t{number}" for number in range(count)])
    return api.pop(q, **params)["messages"]


def settle(api, messages, statuses):
    """One call with {index: status} over a leased batch: the results by index."""
    results = api.acks([ack_item(messages[number], status) for number, status in statuses.items()])
    return dict(zip(statuses, results))


def outcomes(results):
    return {number: result["outcome"] for number, result in results.items()}


def dead(api, q):
    """Dead letters of a queue, oldest first: transactionId, error, retries, payload text."""
    return api.broker.psql(
        "SELECT d.transaction_id, d.error, d.retry_count, convert_from(d.payload, 'UTF8') FROM queen.log_dlq d "
        "JOIN queen.log_partitions p ON p.id = d.partition_id JOIN queen.queues q ON q.id = p.queue_id "
        f"WHERE q.name = '{q}' ORDER BY d.failed_at, d.\"offset\"")


def exhaust(api, q, limit):
    """Fail the lane's head until its budget is spent; returns the deciding result."""
    for _ in range(limit):
        result = api.ack(api.pop(q)["messages"][0], "failed")
        assert (result["success"], result["dlq"], result["outcome"]) == (True, False, "failed"), result
    return api.ack(api.pop(q)["messages"][0], "failed")


# one call, one signal

@pytest.mark.parametrize("signal, outcome", [("failed", "failed"), ("retry", "retried")])
def test_a_signal_in_the_middle_rewinds_to_it(api, q, signal, outcome):
    messages = batch_of(api, q, 5)
    results = settle(api, messages, {0: "completed", 1: signal, 2: "completed", 3: "completed", 4: "completed"})
    assert all(result["success"] and result["error"] is None and result["leaseReleased"] and not result["dlq"]
               for result in results.values()), results
    assert outcomes(results) == {0: "completed", 1: outcome, 2: "redelivered", 3: "redelivered", 4: "redelivered"}
    assert api.popped(q) == ["t1", "t2", "t3", "t4"], "at once, in order, everything from the signal on"


def test_a_signal_alone_keeps_what_is_below_pending(api, q):
    messages = batch_of(api, q, 3)
    assert outcomes(settle(api, messages, {2: "failed"})) == {2: "failed"}
    assert api.popped(q) == ["t0", "t1", "t2"], "only a completed ack completes what lies below it"


def test_a_failed_head_redelivers_the_batch(api, q):
    messages = batch_of(api, q, 3)
    results = settle(api, messages, {0: "failed", 1: "completed", 2: "completed"})
    assert outcomes(results) == {0: "failed", 1: "redelivered", 2: "redelivered"}
    assert api.popped(q) == ["t0", "t1", "t2"]


def test_completed_items_below_the_signal_complete_implicitly(api, q):
    messages = batch_of(api, q, 5)
    results = settle(api, messages, {2: "completed", 4: "retry"})
    assert outcomes(results) == {2: "completed", 4: "retried"}
    assert api.popped(q) == ["t3", "t4"]


def test_only_the_lowest_signal_acts(api, q):
    messages = batch_of(api, q, 5)
    for _ in range(5):
        results = settle(api, messages, {1: "retry", 3: "failed", 4: "dlq", 0: "completed"})
        expected = {1: "retried", 3: "redelivered", 4: "redelivered"}
        assert {number: outcomes(results)[number] for number in expected} == expected
        assert not any(result["dlq"] for result in results.values())
        assert all(result["success"] for number, result in results.items() if number), results
        messages = [None] + api.pop(q)["messages"]
        assert tids({"messages": messages[1:]}) == ["t1", "t2", "t3", "t4"]
        messages[0] = {**messages[1], "transactionId": "t0"}
    results = settle(api, messages, {1: "failed", 3: "dlq"})
    assert outcomes(results) == {1: "failed", 3: "redelivered"}


@pytest.mark.parametrize("first, second, winner", [("completed", "failed", "failed"), ("retry", "failed", "failed"),
                                                   ("retry", "dlq", "dlq"), ("failed", "dlq", "dlq"),
                                                   ("completed", "retry", "retry")])
@pytest.mark.parametrize("swap", [False, True], ids=["given", "swapped"])
def test_two_statuses_for_one_message(memory_api, q, first, second, winner, swap):
    api = memory_api
    message = batch_of(api, q, 2)[0]
    pair = [ack_item(message, first), ack_item(message, second)]
    results = api.acks(pair[::-1] if swap else pair)
    assert all(result["success"] for result in results), results
    assert any(result["dlq"] for result in results) is (winner == "dlq")
    assert api.popped(q) == (["t1"] if winner == "dlq" else ["t0", "t1"])


def test_the_same_item_twice_completed(api, q):
    message = batch_of(api, q, 1)[0]
    results = api.acks([ack_item(message), ack_item(message)])
    assert [result["success"] for result in results] == [True, True]
    assert api.pop(q) is None


def test_a_signal_without_a_leased_batch(api, q):
    messages = batch_of(api, q, 2)
    assert api.ack(messages[0], "retry")["leaseReleased"] is True
    for status in ("failed", "retry", "dlq"):
        result = api.ack(messages[0], status, leaseId=None)
        assert (result["success"], result["error"], result["leaseReleased"], result["dlq"], result["outcome"]) == \
            (False, NO_BATCH, False, False, "rejected"), result
    assert api.popped(q) == ["t0", "t1"]


# statuses

@pytest.mark.parametrize("status", ["completed", "success", "acked", "ok", None])
def test_spellings_of_completed(api, q, status):
    message = batch_of(api, q, 1)[0]
    assert api.ack(message, status)["outcome"] == "completed"
    assert api.pop(q) is None


def test_any_other_status_is_failed_and_charged(api, q):
    api.configure(q, retryLimit=6)
    api.send(q, "m")
    for status in ("Completed", "FAILED", "nack", "", "Retry", "DLQ"):
        result = api.ack(api.pop(q)["messages"][0], status)
        assert (result["success"], result["outcome"], result["dlq"]) == (True, "failed", False), (status, result)
    assert api.ack(api.pop(q)["messages"][0], "nope")["outcome"] == "dead_lettered", "six were charged"


# the budget

def test_the_default_budget_and_the_dead_letter(pg_api, q):
    api = pg_api
    api.push({"queue": q, "transactionId": "m", "payload": {"n": 1}}, {"queue": q, "transactionId": "n", "payload": 2})
    for number in range(1, 5):
        popped = api.pop(q)
        assert tids(popped) == ["m", "n"]
        result = api.ack(popped["messages"][0], "failed", error=f"E{number}")
        assert (result["success"], result["error"], result["leaseReleased"]) == (True, None, True)
        assert (result["dlq"], result["outcome"]) == (number == 4, "dead_lettered" if number == 4 else "failed")
        assert len(dead(api, q)) == (number == 4)
    assert [row[:3] for row in dead(api, q)] == [("m", "E4", "3")]
    assert api.popped(q) == ["n"], "the lane moves on"


def test_the_default_budget_without_looking_inside(api, q):
    api.send(q, "m")
    result = exhaust(api, q, 3)
    assert (result["success"], result["dlq"], result["outcome"], result["leaseReleased"]) == \
        (True, True, "dead_lettered", True)
    assert api.pop(q) is None
    api.send(q, "n")
    assert api.popped(q) == ["n"]


@pytest.mark.parametrize("limit", [0, 1, 2, 5])
def test_retry_limit(api, q, limit):
    api.configure(q, retryLimit=limit)
    api.send(q, "m", "n")
    assert exhaust(api, q, limit)["dlq"] is True
    assert api.popped(q) == ["n"]


def test_a_changed_retry_limit_applies_to_the_next_failure(api, q):
    api.send(q, "m")
    for _ in range(2):
        assert api.ack(api.pop(q)["messages"][0], "failed")["dlq"] is False
    api.configure(q, retryLimit=1)
    assert api.ack(api.pop(q)["messages"][0], "failed")["dlq"] is True


def test_retry_is_free(api, q):
    api.send(q, "m")
    for _ in range(8):
        result = api.ack(api.pop(q)["messages"][0], "retry")
        assert (result["success"], result["leaseReleased"], result["dlq"], result["outcome"]) == \
            (True, True, False, "retried")
    assert exhaust(api, q, 3)["dlq"] is True


@pytest.mark.parametrize("path", ["whole batch", "last only", "without lease", "item by item", "dead letter"])
def test_a_completed_batch_resets_the_budget(api, q, path):
    api.send(q, "m1", "m2")
    for _ in range(3):
        api.ack(api.pop(q)["messages"][0], "failed")
    messages = api.pop(q)["messages"]
    if path == "whole batch":
        api.acks([ack_item(message) for message in messages])
    elif path == "last only":
        api.ack(messages[1])
    elif path == "without lease":
        api.ack(messages[1], leaseId=None)
    elif path == "item by item":
        assert [api.ack(message)["leaseReleased"] for message in messages] == [False, True]
    else:
        assert api.ack(messages[0], "failed")["dlq"] is True
    api.send(q, "m3")
    assert exhaust(api, q, 3)["dlq"] is True, "three failures are free again"


def test_the_budget_belongs_to_one_group(api, q):
    api.send(q, "m")
    for group in ("g1", "g2"):
        for _ in range(3):
            popped = api.pop(q, consumerGroup=group, subscriptionMode="all")
            assert api.ack(popped["messages"][0], "failed")["dlq"] is False
    assert api.ack(api.pop(q, consumerGroup="g1")["messages"][0], "failed")["dlq"] is True
    assert api.popped(q, consumerGroup="g2") == ["m"]


@pytest.mark.slow
def test_expiry_charges_nothing(slow_api, q):
    """A crashing consumer never uses the budget up, however often its lease expires."""
    api = slow_api
    api.configure(q, retryLimit=1)
    api.send(q, "m")
    for attempt in range(1, 5):
        watch = clock.Watch()
        message = api.pop(q, leaseSeconds=1)["messages"][0]
        assert message["deliveryAttempt"] == attempt
        watch.sleep_until(1.25)
    assert exhaust(api, q, 1)["dlq"] is True


# dead letters

def test_dlq_files_at_once_and_only_that_message(api, q):
    messages = batch_of(api, q, 4)
    results = settle(api, messages, {0: "completed", 1: "dlq", 2: "completed"})
    assert outcomes(results) == {0: "completed", 1: "dead_lettered", 2: "redelivered"}
    assert [result["dlq"] for result in results.values()] == [False, True, False]
    assert all(result["success"] and result["leaseReleased"] for result in results.values())
    assert api.popped(q) == ["t2", "t3"]


def test_what_a_dead_letter_row_holds(pg_api, q):
    api = pg_api
    api.push({"queue": q, "partition": 'a"b\\c', "transactionId": "m", "payload": None})
    message = api.pop(q, consumerGroup="g", subscriptionMode="all")["messages"][0]
    api.ack(message, "dlq", error="broken: \"é\" \\")
    rows = api.broker.psql(
        'SELECT d.partition_id, d.consumer_group, d."offset", d.message_id, d.transaction_id, d.error, d.retry_count '
        f"FROM queen.log_dlq d WHERE d.message_id = '{message['id']}'")
    assert rows == [(message["partitionId"], "g", "0", message["id"], "m", "broken: \"é\" \\", "0")]
    assert dead(api, q)[0][3] == "null"


def test_the_error_of_a_dead_letter(pg_api, q):
    """The poison's own error, else the first error of the call, else a fixed text."""
    api = pg_api
    messages = batch_of(api, q, 3)
    api.acks([ack_item(messages[1], "retry", error="other"), ack_item(messages[0], "dlq", error="own")])
    messages = api.pop(q)["messages"]
    api.acks([ack_item(messages[1], "retry", error="other"), ack_item(messages[0], "dlq")])
    messages = api.pop(q)["messages"]
    api.ack(messages[0], "dlq", error="")
    assert [row[:2] for row in dead(api, q)] == \
        [("t0", "own"), ("t1", "other"), ("t2", "Retries exhausted")]


RAW = ['{"a":"x\\u0000y"}', '"\\ud83d"', '{ "z":1.10 , "a":1e2,"z":0 }', "[" * 10000 + "]" * 10000,
       "12345678901234567890.0"]


def test_dead_letter_payloads_are_exact_bytes(pg_api, q):
    api = pg_api
    items = ",".join(f'{{"queue":"{q}","payload":{payload}}}' for payload in RAW)
    assert api.push_reply(f'{{"items":[{items}]}}'.encode()).status == 201
    for _ in RAW:
        reply = api.client.request("GET", f"/api/v1/pop/queue/{q}?batch=1")
        head, tail = reply.body.split(b'"data":', 1)[0], reply.body.rsplit(b',"producerSub"', 1)[-1]
        message = find(head + b" " + tail)
        result = api.ack_reply({**message, "status": "dlq"}).json[0]
        assert (result["success"], result["dlq"]) == (True, True), result
    rows = api.broker.psql("SELECT encode(d.payload, 'hex') FROM queen.log_dlq d JOIN queen.log_partitions p "
                           "ON p.id = d.partition_id JOIN queen.queues q ON q.id = p.queue_id "
                           f"WHERE q.name = '{q}' ORDER BY d.\"offset\"")
    assert [bytes.fromhex(row[0]).decode() for row in rows] == RAW
    assert api.pop(q) is None


def find(text):
    """The ack addresses of the only message in a pop's text, whose payload is too deep for a parser."""
    found = {key: re.search(rb'"%s"\s*:\s*"([^"]*)"' % key.encode(), text).group(1).decode()
             for key in ("transactionId", "partitionId", "leaseId")}
    assert all(found.values())
    return found


def test_awkward_payloads_can_be_dead_lettered(api, q):
    for payload in (b'{"a":"x\\u0000y"}', b'"\\ud83d"'):
        assert api.push_reply(b'{"items":[{"queue":"%s","payload":%s}]}' % (q.encode(), payload)).status == 201
    api.send(q, "m2")
    for _ in range(2):
        reply = api.call("GET", f"/api/v1/pop/queue/{q}?batch=1")
        assert api.ack_reply({**find(reply.body), "status": "dlq"}).json[0]["dlq"] is True
    assert api.popped(q) == ["m2"]


@pytest.mark.parametrize("flags, dropped", [
    ({}, False), ({"deadLetterQueue": False}, False), ({"dlqAfterMaxRetries": False}, False),
    ({"deadLetterQueue": False, "dlqAfterMaxRetries": False}, True)])
def test_both_flags_off_drop_exactly_one_message(api, q, flags, dropped):
    api.configure(q, **flags)
    api.send(q, "A", "B", "C")
    result = exhaust(api, q, 3)
    assert (result["success"], result["dlq"], result["outcome"], result["leaseReleased"]) == \
        (True, not dropped, "dropped" if dropped else "dead_lettered", True)
    assert api.popped(q, batch=1) == ["B"]


def test_explicit_dlq_files_although_dead_lettering_is_off(pg_api, q):
    """`dlq` bypasses the budget; the flags concern exhausted failures."""
    api = pg_api
    api.configure(q, deadLetterQueue=False, dlqAfterMaxRetries=False)
    api.send(q, "A", "B")
    assert api.ack(api.pop(q)["messages"][0], "dlq")["dlq"] is True
    assert [row[0] for row in dead(api, q)] == ["A"]
    assert api.popped(q) == ["B"]


def test_dead_letters_of_several_lanes_in_one_call(api, q):
    for lane in "ab":
        api.send(q, f"{lane}0", f"{lane}1", partition=lane)
    messages = [api.pop(q, lane)["messages"] for lane in "ab"]
    results = api.acks([ack_item(lane[number], status) for number, status in ((0, "dlq"), (1, "completed"))
                        for lane in messages])
    assert [result["outcome"] for result in results] == ["dead_lettered", "dead_lettered", "redelivered", "redelivered"]
    assert sorted(api.popped(q, partitions=2)) == ["a1", "b1"]
