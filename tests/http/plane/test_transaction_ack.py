# SPDX-License-Identifier: Apache-2.0
"""Acks inside a transaction: what they complete, what does nothing, what rolls the call back."""
import uuid

import pytest

from lib.api import QUEUE_MODE, ack_op, push_op
from lib.txn import NOBODY, batch_of, failed_for, held, rejected

UNKNOWN = "QTXN ack references unknown transactionId; transaction rolled back"


# what completes

def test_the_last_of_a_batch_completes_all_before_it(api, q):
    messages = batch_of(api, q, 5)
    api.commit(ack_op(messages[4]))
    assert api.pop(q) is None
    api.send(q, "next")
    assert api.popped(q) == ["next"], "the lease was released"


def test_a_partial_ack_keeps_the_lease(api, q):
    messages = batch_of(api, q, 5)
    api.commit(ack_op(messages[1]), leases=[messages[1]["leaseId"]])
    assert api.pop(q) is None
    assert api.extend(messages[0]["leaseId"], 30)["renewed"] == 1
    assert api.ack(messages[1])["noop"] is True
    api.commit(*[ack_op(message) for message in messages[2:]], leases=[messages[2]["leaseId"]])
    assert api.pop(q) is None
    assert api.extend(messages[0]["leaseId"], 30)["renewed"] == 0


def test_several_lanes_and_groups_in_one_call(api, q):
    for lane in "abc":
        api.send(q, f"{lane}0", f"{lane}1", partition=lane)
    popped = {(group, lane): api.pop(q, lane, consumerGroup=group, subscriptionMode="all")["messages"]
              for group in ("g1", "g2") for lane in "abc"}
    mode = api.pop(q, "a")["messages"]
    operations = [ack_op(messages[1], consumerGroup=group) for (group, _), messages in popped.items()]
    operations.insert(3, ack_op(mode[1]))
    results = api.commit(*operations)
    assert [result["transactionId"] for result in results] == ["a1", "b1", "c1", "a1", "a1", "b1", "c1"]
    assert all((result["type"], result["error"], result["dlq"]) == ("ack", None, False) for result in results)
    for group in ("g1", "g2"):
        assert api.pop(q, consumerGroup=group, partitions=3) is None
    assert sorted(api.popped(q, partitions=3, batch=10)) == ["b0", "b1", "c0", "c1"]


@pytest.mark.parametrize("group", [None, "", QUEUE_MODE, 7, []])
def test_queue_mode_by_default(api, q, group):
    message = batch_of(api, q, 1)[0]
    api.commit({**ack_op(message), "consumerGroup": group})
    assert api.ack(message)["noop"] is True


@pytest.mark.parametrize("status", ["completed", "success", "acked", "ok", None])
def test_spellings_of_completed(api, q, status):
    messages = batch_of(api, q, 2)
    api.commit({**ack_op(messages[0]), "status": status}, ack_op(messages[1], status))
    assert api.pop(q) is None
    api.send(q, "next")
    assert api.popped(q) == ["next"]


def test_a_status_that_is_no_text_completes_nothing(api, q):
    api.configure(q, retryLimit=9)
    messages = batch_of(api, q, 1)
    for status in (True, 7, [], {}):
        reply = api.transaction_reply({"operations": [{**ack_op(messages[0]), "status": status}]})
        assert reply.status == 400 or reply.json["success"] is True, reply
        if reply.status == 200:
            messages = api.pop(q)["messages"]
    assert held(api, messages[0])


def test_explicit_nulls_and_extras(api, q):
    message = batch_of(api, q, 1)[0]
    api.commit({**ack_op(message), "consumerGroup": None, "error": None, "leaseId": None, "payload": 1, "queue": "x"})
    assert api.pop(q) is None


def test_a_transaction_acks_what_another_pushed(api, q):
    stored = api.commit(push_op(q, "x"), push_op(q))
    messages = api.pop(q)["messages"]
    assert [message["id"] for message in messages] == [result["messageId"] for result in stored]
    api.commit(ack_op(messages[1]), leases=[messages[1]["leaseId"]])
    assert api.pop(q) is None


def test_push_and_ack_of_one_lane_in_one_call(api, q):
    """The pushes come first in the call: the ack moves the cursor to its own message, never over the new one."""
    message = batch_of(api, q, 1)[0]
    api.commit(ack_op(message), push_op(q, "new"), leases=[message["leaseId"]])
    assert api.popped(q) == ["new"]


# what does nothing and still commits

def test_acks_below_the_cursor_do_nothing(api, name):
    q, sink = name(), name()
    messages = batch_of(api, q, 3)
    api.ack(messages[1])
    api.commit(ack_op(messages[0]), ack_op(messages[1]), push_op(sink, "s"))
    assert api.popped(sink) == ["s"]
    assert api.pop(q) is None and held(api, messages[2])


def test_an_ack_above_the_leased_batch_does_nothing(api, q):
    api.send(q, "t1", "t2", "t3")
    leased = api.pop(q, batch=2)["messages"]
    api.commit({**ack_op(leased[0]), "transactionId": "t3"}, leases=[leased[0]["leaseId"]])
    api.commit({**ack_op(leased[0], "failed"), "transactionId": "t3"})
    assert held(api, leased[1])
    assert api.popped(q) == ["t3"]


def test_repeating_an_ack_only_call(api, q):
    """Without a lease a repeat is harmless; as a fence the spent lease refuses it."""
    messages = batch_of(api, q, 2)
    operations = [ack_op(message) for message in messages]
    api.commit(*operations, leases=[messages[0]["leaseId"]])
    api.commit(*operations)
    assert rejected(api.transact(*operations, leases=[messages[0]["leaseId"]]))
    api.send(q, "next")
    assert api.popped(q) == ["next"]


# what is refused

def test_an_unknown_id_rolls_back(api, name):
    q, sink = name(), name()
    messages = batch_of(api, q, 2)
    for ghost in ("never pushed", "", None):
        for status in ("completed", "failed", "retry", "dlq"):
            operation = {**ack_op(messages[0], status), "transactionId": ghost}
            assert rejected(api.transact(push_op(sink), ack_op(messages[1]), operation), UNKNOWN)
    operation = ack_op(messages[0])
    del operation["transactionId"]
    assert rejected(api.transact(operation), UNKNOWN)
    assert api.queue_reply(sink).status == 404 and held(api, messages[1])


def test_an_id_of_another_lane_is_unknown(api, name):
    q, other = name(), name()
    a = batch_of(api, q, 1, "a")[0]
    api.send(q, "elsewhere", partition="b")
    api.send(other, "far")
    for tid in ("elsewhere", "far"):
        assert rejected(api.transact({**ack_op(a), "transactionId": tid}), UNKNOWN)
    assert held(api, a)


def test_an_unknown_partition(api, name):
    q, sink = name(), name()
    message = batch_of(api, q, 1)[0]
    for lease in (None, message["leaseId"], NOBODY):
        assert rejected(api.transact(push_op(sink), ack_op(message, partitionId=str(uuid.uuid4()), leaseId=lease)))
    assert api.queue_reply(sink).status == 404 and held(api, message)


def test_the_partition_of_a_deleted_queue(api, q):
    message = batch_of(api, q, 1)[0]
    api.delete(q)
    assert rejected(api.transact(ack_op(message)))
    assert rejected(api.transact(push_op(q), ack_op(message), leases=[message["leaseId"]]))
    assert api.queue_reply(q).status == 404


@pytest.mark.parametrize("partition", ["", "not-a-uuid", None, 7, "x" * 5000, "\u0000"])
def test_a_partition_id_that_is_no_uuid(api, name, partition):
    q, sink = name(), name()
    message = batch_of(api, q, 1)[0]
    reply = api.transaction_reply({"operations": [push_op(sink), ack_op(message),
                                                  {**ack_op(message), "partitionId": partition}]})
    assert reply.status == 200, reply
    answer = reply.json
    assert answer["success"] is False and answer["results"] == [] and answer["error"], answer
    assert answer["reason"] in ("db_error", "ack_rejected", "bad_request"), answer
    assert "invalid input syntax" not in answer["error"] and "ERROR" not in answer["error"]
    assert api.queue_reply(sink).status == 404 and held(api, message)


def test_a_group_that_never_popped(api, q):
    message = batch_of(api, q, 1)[0]
    assert rejected(api.transact(ack_op(message, consumerGroup="stranger")),
                    failed_for(message, "consumer not found", "stranger"))
    assert rejected(api.transact(ack_op(message, consumerGroup="stranger"), leases=[message["leaseId"]]))
    assert held(api, message)


@pytest.mark.parametrize("status", ["failed", "retry", "dlq"])
def test_a_signal_without_a_leased_batch(api, q, status):
    messages = batch_of(api, q, 2)
    api.ack(messages[0], "retry")
    assert rejected(api.transact(ack_op(messages[0], status)), failed_for(messages[0], "no leased batch"))
    assert api.popped(q) == ["t0", "t1"]
