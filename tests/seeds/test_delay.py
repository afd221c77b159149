# SPDX-License-Identifier: Apache-2.0
"""delayedProcessing: a message can be seen once it is old enough, on every route, under the value of now."""
import time

import pytest

from lib import clock
from lib.api import tids
from lib.fixtures import CROSS
from scene import PATIENCE, names, partition_of, scene

DELAY = 2
ROUTES = {"queue": lambda q: {"queue": q}, "partition": lambda q: {"queue": q, "partition": "Default"},
          "discovery": lambda q: {"namespace": q}}
HOW = {"leased": {}, "autoAck": {"autoAck": True}, "group": {"consumerGroup": "g", "subscriptionMode": "all"}}


def age(popped):
    """Seconds since the youngest message of an answer was stored; broker and test share a clock."""
    return time.time() - max(clock.parse(message["createdAt"]) for message in popped["messages"])


def test_without_the_option_a_message_is_available_at_once(api, q):
    """The default is zero: off."""
    assert api.configure(q)["options"]["delayedProcessing"] == 0
    api.send(q, "m")
    assert api.popped(q) == ["m"]


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("how", HOW)
def test_the_rule_is_enforced_on_every_route(api, q, route, how):
    """Nobody gets a message that is too young, however they ask; lowering the value shows it was there."""
    api.configure(q, delayedProcessing=3600, namespace=q)
    api.send(q, "m")
    assert api.pop(**ROUTES[route](q), **HOW[how]) is None
    api.configure(q, namespace=q)
    assert api.popped(**ROUTES[route](q), **HOW[how]) == ["m"]


def test_raising_the_delay_hides_what_was_visible(api, q):
    """The new value applies to stored messages immediately, in both directions and again and again."""
    api.send(q, "m")
    for _ in range(3):
        api.configure(q, delayedProcessing=3600)
        assert api.pop(q, consumerGroup="g", subscriptionMode="all") is None
        api.configure(q, delayedProcessing=0)
        message = api.pop(q, consumerGroup="g", subscriptionMode="all")["messages"][0]
        assert api.ack(message, "retry")["success"] is True


def test_the_delay_cuts_a_contiguous_recent_tail(pg_api, q):
    """Of four messages the two that are old enough are delivered, in order, and the young ones behind them are not."""
    api = pg_api
    api.configure(q, delayedProcessing=600)
    for tid in "abcd":
        api.send(q, tid)
    past = "- interval '700 seconds'"
    api.broker.psql(f"UPDATE queen.log_segments SET created_at = created_at {past} "
                    f"WHERE base_offset < 2 AND partition_id IN {partition_of(q)}")
    api.broker.psql(f"UPDATE queen.log_partitions SET oldest_live_at = oldest_live_at {past} "
                    f"WHERE id IN {partition_of(q)}")
    popped = api.pop(q)
    assert tids(popped) == ["a", "b"]
    api.finish(popped)
    assert api.pop(q) is None
    api.configure(q)
    assert api.popped(q) == ["c", "d"]


def test_a_lowered_delay_wakes_a_parked_consumer_within_thirty_seconds(slow_api, q):
    """A fresh pop sees the change at once, a pop that waits already may take as long as a refresh."""
    api = slow_api
    api.configure(q, delayedProcessing=3600)
    api.send(q, "m")
    call = api.park(q, consumerGroup="g", subscriptionMode="all", timeout=60000)
    assert api.pop(q) is None
    api.configure(q, delayedProcessing=0)
    assert api.popped(q) == ["m"]
    clock.eventually(call.ready, 30 + PATIENCE, "the parked pop is woken")
    assert tids(api.got(call)) == ["m"]


@pytest.fixture(scope="module", params=CROSS)
def waited(request, brokers):
    """Pops that were parked before and after delayed pushes, with the ages of what they got."""
    name = names("delay")
    with scene(brokers, request.param) as api:
        before, after, polled = name("before"), name("after"), name("polled")
        for queue in (before, after, polled):
            api.configure(queue, delayedProcessing=DELAY)
        calls = {"parked before the push": api.park(before)}
        for queue in (before, after, polled):
            api.send(queue, "a", "b")
        calls["parked after the push"] = api.park(after)
        found, ages = {}, {}
        found["asking again"] = clock.eventually(lambda: api.pop(polled), PATIENCE, "the message becomes available")
        ages["asking again"] = age(found["asking again"])
        for what, call in calls.items():
            found[what] = api.got(call)
            ages[what] = age(found[what])
        yield found, ages


@pytest.mark.parametrize("what", ["asking again", "parked before the push", "parked after the push"])
def test_a_message_becomes_available_that_many_seconds_after_its_commit(waited, what):
    """Everything arrives, by itself, and none of it younger than the delay."""
    found, ages = waited
    assert tids(found[what]) == ["a", "b"]
    assert ages[what] >= DELAY
