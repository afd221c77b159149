# SPDX-License-Identifier: Apache-2.0
"""Retention: which of the three rules deletes what, what none of them touches, and how consumers get over the gaps.

One scene holds a queue for each case. They are filled together, with windows of a second, and looked at when the
maintenance has gone round for certain: every queue that must lose something has lost it, and so have two messages
stored after that.
"""
import subprocess

import pytest

from lib import clock
from lib.api import ack_item, tids
from lib.broker import executable
from lib.fixtures import CROSS
from scene import FURNISHED, PATIENCE, cycles, dead, fail, lanes, names, partition_of, rows, scene, stored

ON = {"retentionEnabled": True}
BY_AGE = {**ON, "retentionSeconds": 1}
COMPLETED = {**ON, "completedRetentionSeconds": 1}
MAX_WAIT = {"maxWaitTimeSeconds": 1}
# case: (options, messages that are left of three, stored as two segments: a b, c)
CASES = {
    "no options": ({}, 3), "consumed without options": ({}, 3), "only the switch": (ON, 3),
    "retentionSeconds without the switch": ({"retentionSeconds": 1}, 3),
    "completed without the switch": ({"completedRetentionSeconds": 1}, 3),
    "by age": (BY_AGE, 0), "by age, leased": (BY_AGE, 0), "by age, still young": ({**ON, "retentionSeconds": 3600}, 3),
    "completed": (COMPLETED, 0), "completed, slow group": (COMPLETED, 1), "completed in part": (COMPLETED, 3),
    "completed, nobody": (COMPLETED, 3), "completed, only leased": (COMPLETED, 3),
    "completed, still young": ({**ON, "completedRetentionSeconds": 3600}, 3),
    "max wait": (MAX_WAIT, 0), "max wait, leased": (MAX_WAIT, 0), "max wait, dead letter": (MAX_WAIT, 0),
    "max wait, consumed": (MAX_WAIT, 0)}


def group(api, queue, name, **params):
    return api.pop(queue, consumerGroup=name, subscriptionMode="all", leaseSeconds=3600, **params)


def consume(api, queue, name, tid="c"):
    """Complete everything up to a message in a group; its lease stays with what is above."""
    popped = group(api, queue, name)
    upto = next(message for message in popped["messages"] if message["transactionId"] == tid)
    assert api.acks([ack_item(upto)], name)[0]["success"] is True


def act(api, queues, leases):
    """What consumers do before anything is old enough."""
    for what in ("consumed without options", "completed without the switch", "completed", "completed, still young",
                 "max wait, consumed"):
        consume(api, queues[what], "g")
    for what in ("by age, leased", "completed, only leased", "max wait, leased"):
        leases[what] = group(api, queues[what], "g")
    consume(api, queues["completed, slow group"], "fast")
    consume(api, queues["completed, slow group"], "slow", "b")
    consume(api, queues["completed in part"], "g", "a")
    fail(api, queues["max wait, dead letter"])


@pytest.fixture(scope="module", params=CROSS)
def swept(request, brokers):
    """api, queue names, leases and partition ids of all cases, after the maintenance has gone round."""
    name = names("retention")
    with scene(brokers, request.param, **FURNISHED) as api:
        queues, leases, ids = {what: name() for what in CASES}, {}, {}
        # Without an option that deletes while the scene is being set, then with it: turning it on needs no push.
        for queue in queues.values():
            api.configure(queue, retryLimit=0)
            api.send(queue, "a", "b")
            api.send(queue, "c")
            ids[queue] = api.queue(queue)["partitions"][0]["id"]
        act(api, queues, leases)
        for what, (options, _) in CASES.items():
            api.configure(queues[what], retryLimit=0, **options)
        for what, (_, left) in CASES.items():
            clock.eventually(lambda queue=queues[what], left=left: stored(api, queue) <= left, PATIENCE,
                             f"{what}: messages are deleted")
        cycles(api, name)
        yield api, queues, leases, ids


@pytest.mark.parametrize("what", ["no options", "consumed without options"])
def test_retention_is_opt_in(swept, what):
    """Without the flag and without a window nothing is ever deleted, consumed or not."""
    api, queues, _, _ = swept
    assert stored(api, queues[what]) == 3
    assert tids(group(api, queues[what], "later")) == ["a", "b", "c"]


def test_the_switch_alone_deletes_nothing(swept):
    """A positive window is needed too."""
    api, queues, _, _ = swept
    assert stored(api, queues["only the switch"]) == 3


@pytest.mark.parametrize("what", ["retentionSeconds without the switch", "completed without the switch"])
def test_the_two_time_based_rules_need_the_switch(swept, what):
    """A window without the flag deletes nothing."""
    api, queues, _, _ = swept
    assert stored(api, queues[what]) == 3


@pytest.mark.parametrize("what", ["by age", "by age, leased"])
def test_retention_seconds_deletes_whether_or_not_anything_consumed_it(swept, what):
    """A backlog that nobody read, or that is being read, is gone."""
    api, queues, _, _ = swept
    assert stored(api, queues[what]) == 0
    assert group(api, queues[what], "later") is None


@pytest.mark.parametrize("what", ["by age, still young", "completed, still young"])
def test_what_is_younger_than_the_window_stays(swept, what):
    """Only what is older than now less the window is deleted."""
    api, queues, _, _ = swept
    assert tids(group(api, queues[what], "later")) == ["a", "b", "c"]


def test_completed_retention_deletes_what_was_consumed(swept):
    """When every group is past it."""
    api, queues, _, _ = swept
    assert stored(api, queues["completed"]) == 0


def test_completed_retention_is_capped_at_the_slowest_group(swept):
    """The segment that both groups finished is gone, the one the slow group has not read is there for it."""
    api, queues, _, _ = swept
    queue = queues["completed, slow group"]
    assert stored(api, queue) == 1
    assert api.queue(queue)["segments"] == {"segments": 1, "messages": 1}
    assert lanes(api, queue)["Default"]["pending"] == 1


def test_a_segment_survives_until_every_message_in_it_may_go(swept):
    """One of its two messages was consumed: nothing of it is deleted."""
    api, queues, _, _ = swept
    queue = queues["completed in part"]
    assert api.queue(queue)["segments"] == {"segments": 2, "messages": 3}
    assert tids(group(api, queue, "later")) == ["a", "b", "c"]


@pytest.mark.parametrize("what", ["completed, nobody", "completed, only leased"])
def test_unconsumed_backlog_is_never_lost_to_completed_retention(swept, what):
    """Without a group nothing is consumed, and a lease is no acknowledgement: old messages survive."""
    api, queues, leases, _ = swept
    assert stored(api, queues[what]) == 3
    assert tids(leases.get(what) or api.pop(queues[what])) == ["a", "b", "c"]


@pytest.mark.parametrize("what", ["max wait", "max wait, consumed"])
def test_max_wait_time_ignores_the_switch(swept, what):
    """A queue with this option alone is swept, for every group."""
    api, queues, _, _ = swept
    assert stored(api, queues[what]) == 0
    assert group(api, queues[what], "later") is None


def test_max_wait_time_deletes_leased_batches(swept):
    """The batch is gone although its lease is live; who holds it can still complete it and give the lease back."""
    api, queues, leases, _ = swept
    assert stored(api, queues["max wait, leased"]) == 0
    result = api.ack(leases["max wait, leased"]["messages"][-1])
    assert (result["success"], result["leaseReleased"]) == (True, True)


@pytest.mark.parametrize("what", ["max wait", "max wait, leased", "by age"])
def test_deleting_does_not_dead_letter(swept, what):
    """Nothing tells of the deleted messages."""
    api, queues, _, _ = swept
    assert dead(api, queues[what]) == 0


def test_retention_never_touches_dead_letters(swept):
    """The segment of the poison is gone, its dead letter is there."""
    api, queues, _, _ = swept
    assert (stored(api, queues["max wait, dead letter"]), dead(api, queues["max wait, dead letter"])) == (0, 1)


@pytest.mark.parametrize("what", ["by age", "by age, leased", "max wait", "max wait, leased", "completed"])
def test_consumers_resume_at_the_next_existing_offset(swept, what):
    """They skip what is deleted without an error: the next message is offset 3 of the same partition."""
    api, queues, leases, ids = swept
    queue = queues[what]
    api.configure(queue)
    if what in leases:
        api.finish(leases[what])
    api.send(queue, "next")
    for reader in ("g", "newcomer"):
        popped = clock.eventually(lambda reader=reader: group(api, queue, reader), PATIENCE, "the lane goes on")
        assert [(message["transactionId"], message["offset"]) for message in popped["messages"]] == [("next", 3)]
        assert popped["partitionId"] == ids[queue]


def test_turning_it_off_stops_deletion_and_brings_nothing_back(swept, name):
    """What was deleted stays deleted, what comes afterwards stays."""
    api, _, _, _ = swept
    q = name()
    api.configure(q, **BY_AGE)
    api.send(q, "lost")
    clock.eventually(lambda: stored(api, q) == 0, PATIENCE, "the message is deleted")
    api.configure(q, retentionEnabled=False, retentionSeconds=1)
    api.send(q, "kept")
    cycles(api, name)
    assert tids(group(api, q, "g")) == ["kept"]


def test_the_next_cycle_is_five_seconds_away_at_most_by_default():
    """RETENTION_INTERVAL is five seconds, by the broker's own account."""
    listed = subprocess.run([str(executable()), "--list-options"], capture_output=True, text=True, timeout=30, check=True)
    row = next(line for line in listed.stdout.splitlines() if "`RETENTION_INTERVAL`" in line)
    assert "| `5s` |" in row


def test_lowering_the_window_deletes_a_backlog_in_bounded_steps(pg_furnished, q):
    """Forty segments go in steps of at most ten, the configured RETENTION_BATCH_SIZE; before they were all there."""
    api = pg_furnished
    api.configure(q, **ON, retentionSeconds=3600)
    for number in range(40):
        api.send(q, f"m{number}")
    assert stored(api, q) == 40
    api.configure(q, **BY_AGE)
    clock.eventually(lambda: stored(api, q) == 0, PATIENCE, "the backlog is deleted")
    steps = [int(row[0]) for row in api.broker.psql(
        f"SELECT messages_deleted FROM queen.retention_history WHERE partition_id IN {partition_of(q)}")]
    assert sum(steps) == 40 and max(steps) <= 10
    assert rows(api, "log_segments", q) == 0


def test_only_the_segments_past_the_cutoff_go(pg_furnished, q):
    """Of three segments the two that are older than the window are deleted as a whole, the young one stays whole."""
    api = pg_furnished
    api.configure(q, **ON, retentionSeconds=3600)
    api.send(q, "a", "b")
    api.send(q, "c")
    api.send(q, "d", "e")
    past = "- interval '4000 seconds'"
    api.broker.psql(f"UPDATE queen.log_segments SET created_at = created_at {past} "
                    f"WHERE base_offset < 3 AND partition_id IN {partition_of(q)}")
    api.broker.psql(f"UPDATE queen.log_partitions SET oldest_live_at = oldest_live_at {past} "
                    f"WHERE id IN {partition_of(q)}")
    clock.eventually(lambda: stored(api, q) <= 2, PATIENCE, "the old segments are deleted")
    popped = group(api, q, "g")
    assert [(message["transactionId"], message["offset"]) for message in popped["messages"]] == [("d", 3), ("e", 4)]


def test_a_listing_no_longer_counts_what_was_deleted(swept):
    """The retained count of the queue list is what is still stored."""
    api, queues, _, _ = swept
    totals = {item["name"]: item["messages"]["total"] for item in api.queues()}
    for what in ("by age, still young", "max wait, dead letter", "completed, slow group"):
        assert totals[queues[what]] == CASES[what][1]
