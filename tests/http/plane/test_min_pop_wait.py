# SPDX-License-Identifier: Apache-2.0
"""minPopWaitTime: a waiting pop holds a batch that is not full back, for that time and no longer."""
import time

import pytest

from lib.api import tids

LONG = 30000
ROUTES = ["queue", "partition", "discovery"]


def where(route, q):
    return {"queue": ((q,), {}), "partition": ((q, "Default"), {}), "discovery": ((), {"namespace": q})}[route]


@pytest.mark.parametrize("route", ROUTES)
def test_a_full_batch_ends_the_wait(api, q, route):
    api.configure(q, namespace=q, minPopWaitTime=60000)
    api.send(q, "a")
    args, params = where(route, q)
    call = api.park(*args, timeout=LONG, batch=3, **params)
    api.send(q, "b")
    time.sleep(0.5)
    assert not call.ready()
    api.send(q, "c")
    assert tids(api.got(call, timeout=10)) == ["a", "b", "c"]


@pytest.mark.parametrize("route", ROUTES)
def test_the_time_ends_the_wait(api, q, route):
    api.configure(q, namespace=q, minPopWaitTime=700)
    api.send(q, "a")
    args, params = where(route, q)
    started = time.monotonic()
    assert tids(api.pop(*args, wait="true", timeout=LONG, batch=3, **params)) == ["a"]
    assert 0.7 <= time.monotonic() - started < 20


def test_the_callers_own_timeout_bounds_the_wait(api, q):
    api.configure(q, minPopWaitTime=60000)
    api.send(q, "a")
    started = time.monotonic()
    assert tids(api.pop(q, wait="true", timeout=800, batch=3)) == ["a"]
    assert 0.8 <= time.monotonic() - started < 20


@pytest.mark.parametrize("params", [{"batch": 3}, {"batch": 3, "wait": "false"}, {"wait": "true", "batch": 1},
                                    {"wait": "true", "batch": 2}], ids=str)
def test_nothing_waits_without_a_reason(api, q, params):
    """No wait asked for, a batch of one, or a batch that is full already."""
    api.configure(q, minPopWaitTime=60000)
    api.send(q, "a", "b")
    started = time.monotonic()
    popped = api.pop(q, timeout=LONG, **params)
    assert tids(popped) == ["a", "b"][:params.get("batch", 1)]
    assert time.monotonic() - started < 10


def test_zero_serves_at_once(api, q):
    api.configure(q, minPopWaitTime=0)
    api.send(q, "a")
    started = time.monotonic()
    assert tids(api.pop(q, wait="true", timeout=LONG, batch=3)) == ["a"]
    assert time.monotonic() - started < 10


def test_an_empty_queue_is_long_polling(api, q):
    """The first message after an empty look begins a fill of its own."""
    api.configure(q, minPopWaitTime=600)
    call = api.park(q, timeout=LONG, batch=3)
    started = time.monotonic()
    api.send(q, "a")
    assert tids(api.got(call, timeout=20)) == ["a"]
    assert time.monotonic() - started >= 0.6


def test_the_wait_counts_messages_of_all_lanes(api, q):
    api.configure(q, minPopWaitTime=60000)
    api.send(q, "a", partition="x")
    call = api.park(q, timeout=LONG, batch=3, partitions=10)
    api.send(q, "b", partition="y")
    api.send(q, "c", partition="z")
    assert sorted(tids(api.got(call, timeout=10))) == ["a", "b", "c"]


def test_a_change_counts_from_the_next_pop_on(api, q):
    api.configure(q, minPopWaitTime=60000)
    api.send(q, "a")
    api.configure(q, minPopWaitTime=0)
    started = time.monotonic()
    assert tids(api.pop(q, wait="true", timeout=LONG, batch=3)) == ["a"]
    assert time.monotonic() - started < 10


def test_two_waiters_share_what_comes(api, q):
    api.configure(q, minPopWaitTime=500)
    calls = [api.park(q, timeout=4000, batch=5, autoAck="true") for _ in range(2)]
    api.send(q, "a", "b", "c", "d", "e", "f")
    got = [t for call in calls for t in tids(api.got(call, timeout=35))]
    assert sorted(got) == ["a", "b", "c", "d", "e", "f"]
