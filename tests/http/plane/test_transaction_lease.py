# SPDX-License-Identifier: Apache-2.0
"""Leases in a transaction: on an operation, as a hint for operations without one, and as fences of the whole call."""
import pytest

from lib import clock
from lib.api import ack_op, push_op
from lib.txn import NOBODY, batch_of, failed_for, held, rejected


@pytest.mark.parametrize("lease", [NOBODY, "garbage", "x" * 500])
def test_a_foreign_lease_on_an_operation(api, name, lease):
    q, sink = name(), name()
    message = batch_of(api, q, 1)[0]
    for status in ("completed", "failed", "retry", "dlq"):
        assert rejected(api.transact(push_op(sink), ack_op(message, status, leaseId=lease)),
                        failed_for(message, "invalid or expired lease"))
    assert api.queue_reply(sink).status == 404 and held(api, message)


def test_a_lease_of_one_group_is_worthless_for_another(api, q):
    api.send(q, "m")
    one = api.pop(q, consumerGroup="g1", subscriptionMode="all")["messages"][0]
    two = api.pop(q, consumerGroup="g2", subscriptionMode="all")["messages"][0]
    assert rejected(api.transact(ack_op(two, leaseId=one["leaseId"])),
                    failed_for(two, "invalid or expired lease", "g2"))
    assert held(api, one) and held(api, two)


def test_the_first_lease_of_a_lanes_operations_counts(api, q):
    messages = batch_of(api, q, 3)
    lease = messages[0]["leaseId"]
    assert rejected(api.transact(ack_op(messages[0]), ack_op(messages[1], leaseId=NOBODY),
                                 ack_op(messages[2], leaseId=lease)))
    api.commit(ack_op(messages[0]), ack_op(messages[1], leaseId=""), ack_op(messages[2], leaseId=lease))
    assert api.pop(q) is None


def test_one_lease_over_several_lanes_as_a_hint(api, q):
    for lane in "abc":
        api.send(q, lane, partition=lane)
    popped = api.pop(q, partitions=3)
    assert len(popped["messages"]) == 3
    api.commit(*[ack_op(message) for message in popped["messages"]], leases=[popped["leaseId"]])
    assert api.pop(q, partitions=3) is None


def test_several_leases_fence_together(api, name):
    q, sink = name(), name()
    a, b = (batch_of(api, q, 1, lane)[0] for lane in "ab")
    leases = [a["leaseId"], b["leaseId"]]
    assert rejected(api.transact(ack_op(a), ack_op(b), push_op(sink), leases=[*leases, NOBODY]))
    assert api.queue_reply(sink).status == 404
    assert api.pop(q, partitions=2) is None
    api.commit(ack_op(a), ack_op(b), push_op(sink), leases=leases + leases)
    assert api.pop(q, partitions=2) is None and len(api.popped(sink)) == 1


@pytest.mark.parametrize("lease", [NOBODY, "garbage", "x" * 500])
def test_a_lease_nobody_holds_fences_everything(api, name, lease):
    """Also a call whose acks would pass without it, and one with pushes only."""
    q, sink = name(), name()
    message = batch_of(api, q, 1)[0]
    for operations in ([push_op(sink)], [ack_op(message)], [ack_op(message, leaseId=message["leaseId"])],
                       [push_op(sink), ack_op(message)]):
        assert rejected(api.transact(*operations, leases=[lease]))
        assert rejected(api.transact(*operations, leases=[message["leaseId"], lease]))
    assert api.queue_reply(sink).status == 404 and held(api, message)


def test_a_live_lease_fences_pushes_without_acks(api, name):
    q, sink = name(), name()
    message = batch_of(api, q, 2)[0]
    api.commit(push_op(sink, "a"), leases=[message["leaseId"]])
    assert api.ack(message, "retry")["leaseReleased"] is True
    assert rejected(api.transact(push_op(sink, "b"), leases=[message["leaseId"]]))
    assert api.popped(sink) == ["a"]


def test_of_many_calls_with_one_lease_one_commits(api, name):
    """What makes consume-and-produce exactly once: the work of one lease is stored once."""
    q, sink = name(), name()
    for number in range(5):
        api.send(q, f"m{number}")
        message = api.pop(q)["messages"][0]
        body = {"operations": [push_op(sink), ack_op(message)], "requiredLeases": [message["leaseId"]]}
        calls = [api.start("POST", "/api/v1/transaction", body) for _ in range(8)]
        answers = [call.wait().json for call in calls]
        assert [answer["success"] for answer in answers].count(True) == 1, answers
        assert all(rejected(answer) for answer in answers if not answer["success"])
        assert len(api.popped(sink, autoAck=True)) == 1


@pytest.mark.slow
def test_after_expiry(slow_api, name):
    api, lease_less, by_operation, fenced, hinted = slow_api, name(), name(), name(), name()
    sink, other = name(), name()
    watch = clock.Watch()
    a, b, c, d = (batch_of(api, q, 1, leaseSeconds=1)[0] for q in (lease_less, by_operation, fenced, hinted))
    live = batch_of(api, other, 1)[0]
    watch.sleep_until(1.3)
    api.commit(ack_op(a))
    assert rejected(api.transact(push_op(sink), ack_op(b, leaseId=b["leaseId"])),
                    failed_for(b, "invalid or expired lease"))
    assert rejected(api.transact(push_op(sink), ack_op(c), leases=[c["leaseId"]]))
    assert rejected(api.transact(push_op(sink), ack_op(d), ack_op(live), leases=[live["leaseId"]])), \
        "a lease anywhere in the call makes every lane's own lease count"
    assert api.queue_reply(sink).status == 404
    assert [api.popped(q) for q in (lease_less, by_operation, fenced, hinted)] == [[], ["t0"], ["t0"], ["t0"]]
    assert held(api, live)


@pytest.mark.slow
def test_a_zombie_cannot_use_its_successors_lease(slow_api, name):
    api, q, sink = slow_api, name(), name()
    watch = clock.Watch()
    slow = batch_of(api, q, 2, leaseSeconds=1)
    watch.sleep_until(1.3)
    fast = api.pop(q, leaseSeconds=60)["messages"]
    for operations in ([ack_op(slow[1])], [ack_op(slow[1], leaseId=slow[1]["leaseId"])], []):
        assert rejected(api.transact(push_op(sink), *operations, leases=[slow[0]["leaseId"]]))
    assert rejected(api.transact(ack_op(slow[1], "failed", leaseId=slow[0]["leaseId"])))
    assert api.queue_reply(sink).status == 404 and api.pop(q) is None
    api.commit(ack_op(fast[1]), push_op(sink, "once"), leases=[fast[0]["leaseId"]])
    assert api.popped(sink) == ["once"]
