# SPDX-License-Identifier: Apache-2.0
"""Acks, one by one and in batches: results, grouping, resolution, leases, and what cannot be acked."""
import uuid

import pytest

from lib import clock
from lib.api import ack_item, tids

RESULT_KEYS = {"index", "transactionId", "success", "error", "leaseReleased", "dlq", "noop", "outcome"}
GHOST = "unresolvable: transaction not in the ack window (hash purged or never pushed); " \
        "if leased, the message redelivers"
STALE = "invalid or expired lease"
COMMITTED = "already committed: the cursor moved past this message before this ack"


def batch_of(api, q, count, **params):
    """Push `count` messages t0.. and lease them all: the list of messages."""
    api.send(q, *[f"t{number}" for number in range(count)])
    popped = api.pop(q, **params)
    assert len(popped["messages"]) == count
    return popped["messages"]


def brief(result):
    return result["success"], result["outcome"], result["leaseReleased"]


def refused(result, error):
    """A result that did nothing, with exactly this error."""
    assert set(result) == RESULT_KEYS
    assert (result["success"], result["error"], result["outcome"]) == (False, error, "rejected"), result
    assert (result["leaseReleased"], result["dlq"], result["noop"]) == (False, False, False), result
    return True


def test_result_shape(api, q):
    message = batch_of(api, q, 1)[0]
    result = api.ack(message)
    assert set(result) == RESULT_KEYS
    assert result == {"index": 0, "transactionId": "t0", "success": True, "error": None, "leaseReleased": True,
                      "dlq": False, "noop": False, "outcome": "completed"}


def test_the_batch_form_answers_in_request_order(api, q):
    messages = batch_of(api, q, 4)
    results = api.acks([ack_item(messages[number]) for number in (2, 0, 3, 1)])
    assert [result["transactionId"] for result in results] == ["t2", "t0", "t3", "t1"]
    assert all(set(result) == RESULT_KEYS and result["success"] for result in results)
    assert api.pop(q) is None


def test_acking_the_last_completes_all_before_it(api, q):
    messages = batch_of(api, q, 5)
    assert brief(api.ack(messages[4])) == (True, "completed", True)
    assert api.pop(q) is None


def test_a_partial_ack_keeps_the_lease(api, q):
    messages = batch_of(api, q, 5)
    result = api.ack(messages[1])
    assert brief(result) == (True, "completed", False)
    assert api.pop(q) is None, "the rest is still leased"
    assert refused(api.ack(messages[0], "failed"), COMMITTED)
    result = api.ack(messages[0])
    assert (result["success"], result["noop"], result["outcome"], result["error"]) == (True, True, "noop", None)
    assert brief(api.ack(messages[4])) == (True, "completed", True)
    assert api.pop(q) is None


@pytest.mark.slow
def test_after_a_partial_ack_only_the_rest_redelivers(slow_api, q):
    api = slow_api
    watch = clock.Watch()
    messages = batch_of(api, q, 3, leaseSeconds=1)
    assert api.ack(messages[1])["success"]
    watch.sleep_until(1.3)
    assert api.popped(q) == ["t2"]


def test_repeating_a_successful_ack_is_a_noop(api, q):
    messages = batch_of(api, q, 2)
    for again in range(3):
        results = api.acks([ack_item(message) for message in messages])
        assert all(result["success"] and result["error"] is None for result in results), results
        assert all(result["noop"] is bool(again) for result in results), results
    result = api.ack(messages[1])
    assert (result["success"], result["noop"], result["outcome"]) == (True, True, "noop"), "with the lease that did it"
    result = api.ack(messages[1], leaseId=None)
    assert (result["success"], result["noop"]) == (True, True), "without any lease"
    assert refused(api.ack(messages[1], "failed", leaseId=None), COMMITTED)


def test_a_repeat_does_not_touch_the_next_batch(api, q):
    old = batch_of(api, q, 2)
    api.acks([ack_item(message) for message in old])
    api.send(q, "next")
    new = api.pop(q)["messages"][0]
    for item in (ack_item(old[1]), ack_item(old[1], leaseId=None)):
        result = api.acks([item])[0]
        assert (result["success"], result["noop"], result["leaseReleased"]) == (True, True, False), result
    assert api.pop(q) is None
    assert brief(api.ack(new)) == (True, "completed", True)


@pytest.mark.slow
def test_the_batch_stays_the_bound_after_its_lease_expired(slow_api, q):
    api = slow_api
    api.send(q, "t1", "t2", "t3")
    watch = clock.Watch()
    first = api.pop(q, batch=1, leaseSeconds=1)["messages"][0]
    watch.sleep_until(1.3)
    assert refused(api.ack({**first, "transactionId": "t3"}, leaseId=None), GHOST)
    assert api.ack(first, leaseId=None)["success"] is True
    assert api.popped(q) == ["t2", "t3"]


def test_a_ghost_is_unresolvable_and_the_rest_is_processed(api, q):
    messages = batch_of(api, q, 2)
    ghost = {**ack_item(messages[0]), "transactionId": "never pushed"}
    results = api.acks([ghost, ack_item(messages[0])])
    assert refused(results[0], GHOST)
    assert brief(results[1]) == (True, "completed", False)
    for status in ("completed", "failed", "retry", "dlq"):
        assert refused(api.acks([{**ghost, "status": status}])[0], GHOST)
    assert brief(api.ack(messages[1])) == (True, "completed", True)


def test_a_message_above_the_leased_batch_is_unresolvable(api, q):
    api.send(q, "t1", "t2", "t3")
    leased = api.pop(q, batch=2)["messages"]
    above = {**ack_item(leased[0]), "transactionId": "t3"}
    assert refused(api.acks([above])[0], GHOST)
    del above["leaseId"]
    assert refused(api.acks([above])[0], GHOST), "without a lease it must not jump over the leased batch either"
    api.ack(leased[1])
    assert api.popped(q) == ["t3"]


def test_without_a_live_batch_a_lease_less_ack_may_jump_ahead(api, q):
    api.send(q, "t1", "t2", "t3")
    first = api.pop(q, batch=1)["messages"][0]
    assert api.ack(first)["success"]
    result = api.ack({**first, "transactionId": "t3"}, leaseId=None)
    assert (result["success"], result["outcome"]) == (True, "completed")
    assert api.pop(q) is None, "t2 is completed implicitly"


def test_other_lanes_and_other_queues_do_not_resolve(api, q, name):
    other = name()
    api.send(q, "a", partition="a")
    api.send(q, "b", partition="b")
    api.send(other, "c")
    a, b = api.pop(q, "a")["messages"][0], api.pop(q, "b")["messages"][0]
    c = api.pop(other)["messages"][0]
    for message in (b, c):
        assert refused(api.ack({**a, "transactionId": message["transactionId"]}), GHOST)
        assert refused(api.ack({**a, "partitionId": message["partitionId"]}), STALE)
    for message in (a, b, c):
        assert api.ack(message)["leaseReleased"] is True


def test_an_empty_or_missing_transaction_id_resolves_to_nothing(api, q):
    message = batch_of(api, q, 1)[0]
    for body in ({"transactionId": ""}, {"transactionId": None}, {}):
        item = {key: value for key, value in ack_item(message).items() if key != "transactionId"}
        result = api.acks([{**item, **body}])[0]
        assert result["transactionId"] == "" and refused(result, GHOST)


def test_consumer_not_found(api, q):
    message = batch_of(api, q, 1)[0]
    assert refused(api.ack(message, group="never popped", leaseId=None), "consumer not found")
    assert refused(api.ack({**message, "partitionId": str(uuid.uuid4())}, leaseId=None), "consumer not found")


@pytest.mark.parametrize("partition", ["", "not-a-uuid", None, "x" * 5000])
def test_a_partition_id_that_is_no_uuid(api, q, partition):
    message = batch_of(api, q, 1)[0]
    good, bad = ack_item(message), {**ack_item(message), "partitionId": partition}
    results = api.acks([bad, good, {key: value for key, value in bad.items() if key != "partitionId"}])
    for result in (results[0], results[2]):
        assert result["success"] is False and isinstance(result["error"], str) and result["error"]
    assert results[1]["success"] is True


# leases

@pytest.mark.parametrize("lease", ["00000000-0000-7000-8000-000000000000", "garbage", "x" * 500])
def test_a_foreign_lease_is_refused(api, q, lease):
    messages = batch_of(api, q, 2)
    for status in ("completed", "failed", "retry", "dlq"):
        assert refused(api.ack(messages[1], status, leaseId=lease), STALE)
    assert api.pop(q) is None
    assert brief(api.ack(messages[1])) == (True, "completed", True)


@pytest.mark.slow
def test_an_expired_lease(slow_api, q, name):
    """After expiry the lease itself is refused, an ack without a lease still completes."""
    api, other = slow_api, name()
    watch = clock.Watch()
    with_lease = batch_of(api, q, 2, leaseSeconds=1)
    without = batch_of(api, other, 2, leaseSeconds=1)
    watch.sleep_until(1.3)
    assert refused(api.ack(with_lease[1]), STALE)
    assert refused(api.ack(with_lease[1], "failed"), STALE)
    assert api.ack(without[1], leaseId=None)["success"] is True
    assert api.pop(other) is None
    assert api.popped(q) == ["t0", "t1"]


@pytest.mark.slow
def test_the_slow_worker_cannot_touch_its_successors_batch(slow_api, q):
    api = slow_api
    watch = clock.Watch()
    slow = batch_of(api, q, 2, leaseSeconds=1)
    watch.sleep_until(1.3)
    fast = api.pop(q, leaseSeconds=30)["messages"]
    assert refused(api.ack(slow[1]), STALE)
    for _ in range(5):
        assert refused(api.ack(slow[0], "failed"), STALE)
    assert api.pop(q) is None
    for _ in range(3):
        assert brief(api.ack(fast[0], "failed")) == (True, "failed", True), "the budget was not charged"
        fast = api.pop(q)["messages"]
    assert brief(api.ack(fast[1])) == (True, "completed", True)


def test_a_lease_of_one_group_is_worthless_for_another(api, q):
    api.send(q, "m")
    one = api.pop(q, consumerGroup="g1", subscriptionMode="all")["messages"][0]
    two = api.pop(q, consumerGroup="g2", subscriptionMode="all")["messages"][0]
    assert refused(api.ack(one, group="g2"), STALE)
    assert refused(api.ack(two, group="g1"), STALE)
    assert api.pop(q, consumerGroup="g2") is None
    assert api.ack(one)["leaseReleased"] is True
    assert api.ack(two)["leaseReleased"] is True


# groups of one call

def test_lanes_of_one_call_are_independent(api, q):
    for lane in "abc":
        api.send(q, f"{lane}0", f"{lane}1", partition=lane)
    a, b, c = (api.pop(q, lane)["messages"] for lane in "abc")
    results = api.acks([ack_item(a[0]), ack_item(b[1], leaseId=str(uuid.uuid4())), ack_item(c[0], "failed"),
                        ack_item(a[1]), ack_item(c[1])])
    assert [result["transactionId"] for result in results] == ["a0", "b1", "c0", "a1", "c1"]
    assert [result["success"] for result in results] == [True, False, True, True, True]
    assert results[1]["error"] == STALE
    assert [result["outcome"] for result in results] == ["completed", "rejected", "failed", "completed", "redelivered"]
    assert api.pop(q, "a") is None and api.pop(q, "b") is None
    assert api.popped(q, "c") == ["c0", "c1"]


def test_the_groups_of_one_call_with_per_item_consumer_groups(api, q):
    api.send(q, "m")
    one = api.pop(q, consumerGroup="g1", subscriptionMode="all")["messages"][0]
    two = api.pop(q, consumerGroup="g2", subscriptionMode="all")["messages"][0]
    mode = api.pop(q)["messages"][0]
    results = api.acks([ack_item(two, consumerGroup="g2"), ack_item(one), {**ack_item(one), "consumerGroup": None},
                        ack_item(mode, consumerGroup="")], group="g1")
    assert [result["success"] for result in results] == [True] * 4, results
    for group in ("g1", "g2", ""):
        assert api.pop(q, consumerGroup=group) is None
        assert api.acks([ack_item(one, leaseId=None)], group=group)[0]["noop"] is True


def test_clients_send_explicit_nulls(api, q):
    message = batch_of(api, q, 2)
    body = {**ack_item(message[0]), "consumerGroup": None, "error": None}
    assert api.ack_reply(body).json[0]["success"] is True
    body = {"acknowledgments": [{**ack_item(message[1]), "error": None}], "consumerGroup": None}
    assert api.ack_reply(body, batch=True).json[0]["leaseReleased"] is True
    body = {**ack_item(message[1]), "status": None, "leaseId": None}
    assert api.ack_reply(body).json[0]["noop"] is True


# bodies

def test_no_acknowledgments(api):
    for body in ({"acknowledgments": []}, {}, {"consumerGroup": "g"}):
        reply = api.ack_reply(body, batch=True)
        assert (reply.status, reply.json) == (200, []), reply


def test_a_misspelt_key_acks_nothing(api, q):
    message = batch_of(api, q, 1)[0]
    reply = api.ack_reply({"acknowledgements": [ack_item(message)]}, batch=True)
    assert (reply.status, reply.json) == (200, [])
    assert api.ack(message)["noop"] is False


BAD_SINGLE = [b"", b"{", b"null", b"7", b"[]", b'{"transactionId":7}', b'{"partitionId":7}',
              b'{"status":true}', b'{"status":7}',
              b'{"leaseId":{}}', b'{"error":[]}', b'{"consumerGroup":7}', b'{"status":"ok","status":"failed"}',
              b'{"transactionId":"a","transactionId":"a"}', b'{"transactionId":"\xff"}', b'{} x',
              b'{"consumerGroup":"a\\u0000b"}', b'{"transactionId":"t\\u0000u"}']
BAD_BATCH = [b"", b"{", b"null", b"[]", b'{"acknowledgments":null}', b'{"acknowledgments":{}}',
             b'{"acknowledgments":"x"}',
             b'{"acknowledgments":[7]}', b'{"acknowledgments":[null]}', b'{"acknowledgments":[{"status":true}]}',
             b'{"acknowledgments":[],"acknowledgments":[]}', b'{"acknowledgments":[{"status":"ok","status":"ok"}]}',
             b'{"consumerGroup":[],"acknowledgments":[]}', b'{"consumerGroup":"a\\u0000b","acknowledgments":[]}']


@pytest.mark.parametrize("batch, bodies", [(False, BAD_SINGLE), (True, BAD_BATCH)], ids=["single", "batch"])
def test_bad_bodies(api, batch, bodies):
    for body in bodies:
        reply = api.ack_reply(body, batch=batch)
        assert reply.status == 400 and reply.error, (body, reply)


def test_one_bad_item_refuses_the_whole_call(api, q):
    messages = batch_of(api, q, 2)
    for field, bad in (("consumerGroup", "x" * 256), ("transactionId", "x" * 65536), ("consumerGroup", "a\u0001"),
                       ("transactionId", "\u0000"), ("status", True)):
        items = [ack_item(messages[0]), {**ack_item(messages[1]), field: bad}]
        reply = api.ack_reply({"acknowledgments": items}, batch=True)
        assert reply.status == 400, (field, reply)
        if isinstance(bad, str):
            assert field in reply.error and "1" in reply.error, reply
    assert api.ack(messages[0])["noop"] is False, "nothing of a refused call was carried out"


def test_a_long_transaction_id_acks(api, q):
    tid = "é" * 32767
    api.send(q, "before", tid)
    messages = api.pop(q)["messages"]
    assert tids({"messages": messages}) == ["before", tid]
    result = api.ack(messages[1])
    assert (result["transactionId"], result["leaseReleased"]) == (tid, True)


def test_fifty_copies_of_one_ack(api, q):
    messages = batch_of(api, q, 10)
    api.send(q, "next")
    body = {**ack_item(messages[9]), "consumerGroup": messages[9]["consumerGroup"]}
    calls = [api.start("POST", "/api/v1/ack", body) for _ in range(50)]
    results = [call.wait().json[0] for call in calls]
    assert all(result["success"] for result in results), results
    assert sum(result["leaseReleased"] for result in results) == 1
    assert sum(result["noop"] for result in results) == 49
    assert api.popped(q) == ["next"]
    assert api.pop(q) is None, "no late copy released the next batch"


def test_an_id_outside_the_window_is_unresolvable_and_its_message_comes_again(pg_api, q):
    """Whatever the options, an id is known for 900 s; of a batch in work it is known as long as its hash is there."""
    api = pg_api
    api.configure(q, dedupWindowSeconds=1, leaseTime=1000)
    api.send(q, "done", "open")
    first = api.pop(q, batch=1)
    assert api.ack(first["messages"][0])["leaseReleased"]
    rows = ("queen.log_txns t {} FROM queen.log_partitions p, queen.queues q "
            f"WHERE p.id = t.partition_id AND q.id = p.queue_id AND q.name = '{q}'")
    age = "UPDATE " + rows.format("SET created_at = now() - interval '{} seconds'")
    api.broker.psql(age.format(880))
    assert api.ack(first["messages"][0])["noop"] is True
    api.broker.psql(age.format(920))
    late = api.ack(first["messages"][0], leaseId=None)
    assert (late["success"], late["noop"], late["error"]) == (False, False, GHOST)
    leased = api.pop(q)
    assert tids(leased) == ["open"]
    api.broker.psql("DELETE FROM queen.log_txns t USING " + rows.split("FROM ", 1)[1])
    purged = api.ack(leased["messages"][0])
    assert (purged["success"], purged["leaseReleased"], purged["error"]) == (False, False, GHOST)
    api.broker.psql(f"UPDATE queen.log_consumers SET lease_expires_at = now() WHERE worker_id = '{leased['leaseId']}'")
    assert tids(api.pop(q)) == ["open"]
