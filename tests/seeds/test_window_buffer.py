# SPDX-License-Identifier: Apache-2.0
"""windowBuffer: a partition that is being written to is held back, so that a burst is delivered in one piece.

Where a test is about the storage's rule alone it uses a broker without a hot list.
"""
import time

import pytest

from lib import clock
from lib.api import tids
from lib.fixtures import CROSS
from scene import PATIENCE, SCAN, names, partition_of, scene

WINDOW = 3


def stamps(popped):
    return [clock.parse(message["createdAt"]) for message in popped["messages"]]


def test_without_the_option_a_partition_delivers_at_once(api, q):
    """The default is zero: off."""
    assert api.configure(q)["options"]["windowBuffer"] == 0
    api.send(q, "m")
    assert api.popped(q) == ["m"]


@pytest.mark.parametrize("how", [{}, {"autoAck": True}, {"partition": "Default"}])
def test_a_partition_that_was_just_written_delivers_nothing(api, q, how):
    """Within the window nobody gets a message of it."""
    api.configure(q, windowBuffer=3600)
    api.send(q, "m")
    assert api.pop(q, **how) is None


def test_the_window_is_evaluated_per_partition(pg_scan, q):
    """A partition that has been quiet for long delivers although another one of the queue was just written."""
    api = pg_scan
    api.configure(q, windowBuffer=600)
    for lane in ("quiet", "busy"):
        api.send(q, lane, partition=lane)
    api.broker.psql("UPDATE queen.log_partitions SET newest_at = newest_at - interval '700 seconds' "
                    f"WHERE name = 'quiet' AND id IN {partition_of(q)}")
    assert api.popped(q, partitions=2) == ["quiet"]
    api.send(q, "once more", partition="quiet")
    assert api.pop(q, partitions=2, consumerGroup="g", subscriptionMode="all") is None


def test_changing_the_window_does_not_touch_stored_data(slow_api, q):
    """What was held comes out as it was, soon after the window is gone."""
    api = slow_api
    api.configure(q, windowBuffer=3600)
    ids = [result["message_id"] for result in api.send(q, "a", "b")]
    assert api.pop(q) is None
    api.configure(q, windowBuffer=0)
    popped = clock.eventually(lambda: api.pop(q), 30 + PATIENCE, "the broker's copy of the value is refreshed")
    assert [(message["id"], message["offset"]) for message in popped["messages"]] == list(zip(ids, (0, 1)))


def test_without_the_hot_list_a_large_batch_is_not_promoted_early(scan, q):
    """The storage's rule knows no batch size: twice a hundred messages stay held."""
    scan.configure(q, windowBuffer=3600)
    scan.send(q, *[f"m{number}" for number in range(200)])
    assert scan.pop(q, batch=200) is None
    scan.configure(q)
    assert len(scan.popped(q, batch=200)) == 200


@pytest.fixture(scope="module", params=CROSS)
def burst(request, brokers):
    """What a consumer got, and when, that waited while five separate pushes came to a queue with a window."""
    name = names("window")
    with scene(brokers, request.param) as api:
        q = name()
        api.configure(q, windowBuffer=WINDOW)
        call = api.park(q)
        for number in range(5):
            api.send(q, f"m{number}")
        popped = api.got(call)
        yield popped, time.time()


def test_a_burst_is_delivered_in_one_batch(burst):
    """Five pushes become one delivery."""
    popped, _ = burst
    assert tids(popped) == [f"m{number}" for number in range(5)]


def test_nothing_is_delivered_before_the_window_has_passed(burst):
    """Counted from the first message of the burst at least."""
    popped, when = burst
    assert when - min(stamps(popped)) >= WINDOW


@pytest.fixture(scope="module", params=CROSS)
def steady(request, brokers):
    """A partition written all the time for longer than its window, by the storage's rule, and what pops saw."""
    name = names("steady")
    with scene(brokers, request.param, **SCAN) as api:
        q = name()
        api.configure(q, windowBuffer=WINDOW)
        watch, early, looked = clock.Watch(), [], 0
        while watch.seconds < WINDOW + 1:
            sent = time.time()
            api.send(q, f"m{watch.seconds}")
            popped = api.pop(q)
            # A pop that comes late on a busy machine may find the partition quiet.
            if time.time() - sent < WINDOW:
                early += tids(popped)
                looked += 1
            clock.Watch().sleep_until(0.1)
        popped = clock.eventually(lambda: api.pop(q, batch=1000), PATIENCE, "the partition becomes quiet")
        yield early, looked, popped, time.time()


def test_while_the_partition_keeps_receiving_it_delivers_nothing(steady):
    """A quiet period is what it waits for: steady writing holds it for longer than the window."""
    early, looked, popped, _ = steady
    assert looked > 5 and early == []
    assert max(stamps(popped)) - min(stamps(popped)) >= WINDOW - 1


def test_it_delivers_after_a_quiet_period_of_the_window(steady):
    """Counted from the last message."""
    _, _, popped, when = steady
    assert when - max(stamps(popped)) >= WINDOW
