# SPDX-License-Identifier: Apache-2.0
"""minPopWaitTime: an under-full batch waits for more, but only when the caller waits and asked for more than one.

The option is set to its maximum of a minute unless a test is about its end, and no HTTP call here waits that long: a
pop that is held although it must be served immediately fails its test.
"""
import pytest

from lib import clock
from lib.api import tids
from lib.fixtures import CROSS
from scene import PATIENCE, names, scene

MINUTE = 60000


def parked(api, queue, **params):
    """A long poll that the broker has had the time to look at: later calls were answered meanwhile."""
    call = api.park(queue, timeout=MINUTE, **params)
    for number in range(5):
        assert api.popped(queue, consumerGroup=f"look {number}", subscriptionMode="all") == ["m0"]
    return call


def test_an_under_full_batch_is_held_until_it_is_full(api, q):
    """One message is there, three are asked for: the pop answers when the other two have come, with all three."""
    api.configure(q, minPopWaitTime=MINUTE)
    api.send(q, "m0")
    call = parked(api, q, batch=3)
    api.send(q, "m1")
    api.send(q, "m2")
    assert tids(api.got(call, PATIENCE)) == ["m0", "m1", "m2"]


def test_a_waiting_pop_holds_nothing_that_others_need(api, q):
    """It has claimed nothing yet: somebody who does not wait gets the message."""
    api.configure(q, minPopWaitTime=MINUTE)
    api.send(q, "m0")
    call = parked(api, q, batch=2)
    assert api.popped(q) == ["m0"]
    call.abandon()


@pytest.mark.parametrize("off", [0, None])
def test_by_default_it_is_off(api, q, off):
    """Without a positive value an under-full batch is served immediately."""
    api.configure(q, minPopWaitTime=off)
    api.send(q, "m0")
    assert tids(api.got(api.park(q, batch=3, timeout=MINUTE), PATIENCE)) == ["m0"]


def test_a_caller_that_does_not_wait_is_served_immediately(api, q):
    """Only wait=true engages it."""
    api.configure(q, minPopWaitTime=MINUTE)
    api.send(q, "m0")
    assert api.popped(q, batch=3, http_timeout=PATIENCE) == ["m0"]


def test_a_batch_of_one_is_served_immediately(api, q):
    """The requested batch has to be larger than one."""
    api.configure(q, minPopWaitTime=MINUTE)
    api.send(q, "m0")
    assert tids(api.got(api.park(q, batch=1, timeout=MINUTE), PATIENCE)) == ["m0"]


def test_a_full_batch_is_served_immediately(api, q):
    """When a claim would take the whole batch right now there is nothing to wait for."""
    api.configure(q, minPopWaitTime=MINUTE)
    api.send(q, "m0", "m1", "m2", "m3")
    popped = api.got(api.park(q, batch=3, timeout=MINUTE), PATIENCE)
    assert tids(popped) == ["m0", "m1", "m2"]


def test_an_empty_queue_parks_as_ever(api, q):
    """Nothing is there: the pop ends empty at its own time-out."""
    api.configure(q, minPopWaitTime=MINUTE)
    assert api.got(api.park(q, batch=3, timeout=300), PATIENCE) is None


def test_a_change_affects_future_pops_within_thirty_seconds(slow_api, q):
    """Turned on, a later pop is held; turned off, a later pop is served immediately."""
    api = slow_api
    api.send(q, "m0")
    assert tids(api.got(api.park(q, batch=3, consumerGroup="a", subscriptionMode="all"), PATIENCE)) == ["m0"]
    api.configure(q, minPopWaitTime=MINUTE)

    def held():
        call = api.park(q, batch=2, consumerGroup="b", subscriptionMode="all", timeout=500)
        watch = clock.Watch()
        popped = api.got(call, PATIENCE)
        for message in popped["messages"]:
            api.ack(message, "retry")
        return watch.seconds >= 0.5

    clock.eventually(held, 30 + PATIENCE, "a pop is held until its own time-out")
    api.configure(q, minPopWaitTime=0)

    def served():
        call = api.park(q, batch=2, consumerGroup="b", timeout=PATIENCE * 1000)
        watch = clock.Watch()
        popped = api.got(call, PATIENCE + 5)
        for message in popped["messages"]:
            api.ack(message, "retry")
        return watch.seconds < PATIENCE

    assert served()


@pytest.fixture(scope="module", params=CROSS)
def ended(request, brokers):
    """Pops that were held to the end: by the option, by their own time-out."""
    name = names("fill")
    with scene(brokers, request.param) as api:
        option, own = name("option"), name("own")
        api.configure(option, minPopWaitTime=1000)
        api.configure(own, minPopWaitTime=MINUTE)
        for queue in (option, own):
            api.send(queue, "m0")
        watch = clock.Watch()
        calls = {"option": api.park(option, batch=3, timeout=MINUTE), "own": api.park(own, batch=3, timeout=1500)}
        found, seconds = {}, {}
        for what, call in calls.items():
            found[what] = api.got(call, PATIENCE)
            seconds[what] = watch.seconds
        yield found, seconds


def test_the_option_is_how_long_a_batch_may_be_held(ended):
    """Then what is there is delivered, long before the caller's time-out, and not before the wait is over."""
    found, seconds = ended
    assert tids(found["option"]) == ["m0"]
    assert seconds["option"] >= 1


def test_the_callers_own_timeout_caps_the_wait(ended):
    """What is there is delivered when the caller's time is up, instead of an empty answer."""
    found, seconds = ended
    assert tids(found["own"]) == ["m0"]
    assert seconds["own"] >= 1.5 - 0.1
