# SPDX-License-Identifier: Apache-2.0
"""Long polling: parked pops wake for work, end at their deadline, and vanish with their clients.

Elapsed times are compared with the poll's own timeout only: "woken" means well before it.
"""
import random
import time

import pytest

from lib import clock
from lib.api import Api, tids

LONG = 20000
WOKEN = 8


def woken(api, call):
    """The parked call's answer, which must come well before its deadline."""
    answer = api.got(call, timeout=WOKEN)
    assert answer is not None, "the poll ended empty although its deadline is far away"
    return answer


ROUTES = ["queue", "partition", "discovery"]


def where(route, q):
    """Positional and keyword arguments of a pop that finds queue `q` by this route."""
    return {"queue": ((q,), {}), "partition": ((q, "Default"), {}), "discovery": ((), {"namespace": q})}[route]


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("born", [True, False], ids=["idle queue", "queue born later"])
def test_a_push_wakes_a_parked_pop(api, q, route, born):
    if born:
        api.send(q, "old")
        api.finish(api.pop(q))
    args, params = where(route, q)
    call = api.park(*args, timeout=LONG, **params)
    api.send(q, "new")
    answer = woken(api, call)
    assert tids(answer) == ["new"]
    assert answer["queue"] == ("" if route == "discovery" else q)
    assert answer["messages"][0]["queue"] == q


@pytest.mark.parametrize("route", ROUTES)
def test_a_push_wakes_a_parked_pop_of_a_known_group(api, q, route):
    args, params = where(route, q)
    api.send(q, "old")
    assert api.pop(*args, consumerGroup="g", **params) is None
    call = api.park(*args, consumerGroup="g", autoAck=True, **params)
    api.send(q, "new")
    assert tids(woken(api, call)) == ["new"]


def test_a_label_that_no_queue_has_yet(api, name):
    ns = name("ns")
    call = api.park(namespace=ns, task="mail", consumerGroup="g", subscriptionMode="all")
    other = api.park(task=ns, consumerGroup="g", subscriptionMode="all")
    api.send(f"{ns}.other", "not this")
    api.send(f"{ns}.mail.eu", "this")
    answer = woken(api, call)
    assert (tids(answer), answer["messages"][0]["queue"]) == (["this"], f"{ns}.mail.eu")
    api.send(f"x.{ns}", "by task")
    assert tids(woken(api, other)) == ["by task"]


def test_a_pinned_pop_waits_for_its_own_partition(api, q):
    api.send(q, "a0", partition="a")
    call = api.park(q, "b")
    api.send(q, "a1", partition="a")
    api.send(q, "b0", partition="b")
    assert tids(woken(api, call)) == ["b0"]
    assert api.popped(q, "a") == ["a0", "a1"]


def test_one_push_one_answer(api, q):
    """One message wakes one of many waiters of a group; the others wait for theirs."""
    api.configure(q)
    calls = [api.park(q) for _ in range(10)]
    api.send(q, "m0")
    clock.eventually(lambda: any(call.ready() for call in calls), WOKEN, "somebody is woken")
    got = [call for call in calls if call.ready()]
    assert len(got) == 1
    assert tids(api.got(got[0])) == ["m0"]
    rest = [call for call in calls if call is not got[0]]
    api.push(*[{"queue": q, "partition": f"p{number}", "payload": number} for number in range(9)])
    lanes = [woken(api, call)["partition"] for call in rest]
    assert sorted(lanes) == [f"p{number}" for number in range(9)]


def test_every_group_is_woken(api, q):
    api.configure(q)
    calls = [api.park(q, consumerGroup=f"g{number}", subscriptionMode="all") for number in range(5)]
    api.send(q, "m")
    assert [tids(woken(api, call)) for call in calls] == [["m"]] * 5


@pytest.mark.parametrize("status", ["retry", "failed"])
def test_a_nack_wakes_a_parked_pop(api, q, status):
    api.send(q, "m")
    message = api.pop(q)["messages"][0]
    call = api.park(q)
    api.ack(message, status)
    assert tids(woken(api, call)) == ["m"]


def test_a_completed_batch_frees_the_lane_for_a_parked_pop(api, q):
    api.send(q, "m1", "m2")
    message = api.pop(q, batch=1)["messages"][0]
    call = api.park(q)
    api.ack(message)
    assert tids(woken(api, call)) == ["m2"]


@pytest.mark.slow
@pytest.mark.parametrize("route", ROUTES)
def test_an_expiring_lease_wakes_a_parked_pop(slow_api, q, route):
    api = slow_api
    args, params = where(route, q)
    api.send(q, "m")
    assert api.popped(*args, leaseSeconds=1, **params) == ["m"]
    watch = clock.Watch()
    call = api.park(*args, **params)
    answer = woken(api, call)
    assert tids(answer) == ["m"] and answer["messages"][0]["deliveryAttempt"] == 2
    assert watch.seconds >= 0.5


@pytest.mark.parametrize("route", ROUTES)
def test_the_deadline(api, q, route):
    args, params = where(route, q)
    api.send(q, "m")
    api.finish(api.pop(q))
    watch = clock.Watch()
    assert api.pop(*args, wait=True, timeout=400, **params) is None
    assert 0.35 <= watch.seconds < 3
    watch = clock.Watch()
    assert api.pop(*args, wait=True, timeout=0, **params) is None
    assert api.pop(*args, wait=False, timeout=60000, **params) is None
    assert api.pop(*args, timeout=60000, **params) is None
    assert watch.seconds < 5


def test_the_deadline_while_the_lane_is_leased(api, q):
    api.send(q, "m")
    api.pop(q)
    watch = clock.Watch()
    assert api.pop(q, wait=True, timeout=300) is None
    assert 0.25 <= watch.seconds < 3


def test_the_default_timeout_from_the_environment(changed_api, q):
    watch = clock.Watch()
    assert changed_api.pop(q, wait=True) is None
    assert 0.65 <= watch.seconds < 5


def test_the_older_name_of_the_default_timeout(own_broker):
    api = Api(own_broker("memory", POP_DEFAULT_TIMEOUT_MS="600").port, "h1")
    watch = clock.Watch()
    assert api.pop("q", wait=True) is None
    assert 0.55 <= watch.seconds < 5
    api.close()


@pytest.mark.slow
def test_empty_polls_over_a_leased_lane_never_hide_its_backlog(pg_api, q):
    """However old the lane's last write is by then, the expired batch is offered again."""
    api = pg_api
    api.send(q, "m")
    message = api.pop(q, consumerGroup="g", subscriptionMode="all", leaseSeconds=1)["messages"][0]
    for _ in range(5):
        assert api.pop(q, consumerGroup="g") is None
    api.broker.psql("UPDATE queen.log_partitions SET last_write_at = now() - interval '10 min' "
                    f"WHERE id = '{message['partitionId']}'")
    assert api.pop(q, consumerGroup="g") is None
    call = api.park(q, consumerGroup="g")
    assert tids(woken(api, call)) == ["m"]


def test_no_lost_wake_ups(api, q):
    """A push at any moment around the parking of a pop is delivered by that pop."""
    api.configure(q)
    generator = random.Random(11)
    for number in range(60):
        call = api.park(q, autoAck=True, timeout=LONG)
        time.sleep(generator.random() * 0.003)
        api.send(q, f"m{number}")
        assert tids(woken(api, call)) == [f"m{number}"]


@pytest.mark.parametrize("reset", [False, True], ids=["close", "reset"])
@pytest.mark.parametrize("route", ROUTES)
def test_a_vanished_client_gets_no_message(api, q, route, reset):
    """Pops whose clients are gone neither take a message nor keep one leased."""
    args, params = where(route, q)
    api.configure(q, namespace=q)
    for _ in range(8):
        call = api.park(*args, leaseSeconds=600, **params)
        call.abandon(reset)
    api.send(q, "m")
    answer = api.pop(*args, wait=True, timeout=WOKEN * 1000, **params)
    assert tids(answer) == ["m"]
    api.finish(answer)
    assert api.pop(q) is None


def test_a_client_that_vanishes_among_live_ones(api, q):
    api.configure(q)
    dead = [api.park(q, leaseSeconds=600) for _ in range(4)]
    live = api.park(q)
    dead += [api.park(q, leaseSeconds=600) for _ in range(4)]
    for call in dead:
        call.abandon()
    api.send(q, "m")
    assert tids(woken(api, live)) == ["m"]


def test_deleting_the_queue_under_a_parked_pop(api, q):
    api.send(q, "old")
    api.finish(api.pop(q))
    call = api.park(q)
    assert api.delete(q)["deleted"] is True
    api.send(q, "reborn")
    assert tids(woken(api, call)) == ["reborn"]


def test_a_parked_pop_uses_the_lease_time_of_its_delivery(api, q):
    api.send(q, "old")
    api.finish(api.pop(q))
    call = api.park(q)
    api.configure(q, leaseTime=777)
    api.send(q, "m")
    assert 777 <= clock.lease_seconds(woken(api, call)["messages"][0]) < 790


def test_more_parked_pops_than_any_pool_has_connections(api, q):
    """Parked pops hold nothing that a push or another queue's consumer would need."""
    api.configure(q)
    calls = [api.park(q, timeout=LONG) for _ in range(150)]
    for number in range(3):
        api.send(q + "x", f"m{number}")
        api.finish(api.pop(q + "x"))
    api.push(*[{"queue": q, "partition": f"p{number}", "payload": number} for number in range(150)])
    assert sorted(woken(api, call)["messages"][0]["data"] for call in calls) == list(range(150))


# options that hold messages back

@pytest.mark.slow
@pytest.mark.parametrize("route", ROUTES)
def test_delayed_processing(slow_api, q, route):
    api = slow_api
    api.configure(q, delayedProcessing=2, namespace=q)
    args, params = where(route, q)
    parked = api.park(*args, consumerGroup="parked", subscriptionMode="all", **params)
    watch = clock.Watch()
    api.send(q, "m")
    for other in ROUTES:
        args, params = where(other, q)
        assert api.pop(*args, **params) is None
    assert not parked.ready()
    answer = woken(api, parked)
    assert tids(answer) == ["m"] and watch.seconds >= 1.95
    assert api.popped(q) == ["m"]


def test_lowering_the_delay_acts_on_stored_messages(api, q):
    api.configure(q, delayedProcessing=300)
    api.send(q, "m")
    assert api.pop(q) is None
    api.configure(q, delayedProcessing=0)
    assert api.popped(q) == ["m"]


@pytest.mark.slow
def test_a_delay_cuts_only_the_recent_tail(slow_api, q):
    api = slow_api
    api.configure(q, delayedProcessing=1)
    watch = clock.Watch()
    api.send(q, "old")
    watch.sleep_until(1.3)
    api.send(q, "young")
    answer = api.pop(q)
    assert tids(answer) == ["old"]
    api.finish(answer)
    assert api.pop(q) is None
    assert tids(woken(api, api.park(q))) == ["young"]


@pytest.mark.slow
def test_window_buffer(slow_api, q):
    api = slow_api
    api.configure(q, windowBuffer=2)
    watch = clock.Watch()
    for number in range(3):
        api.send(q, f"m{number}")
    assert api.pop(q) is None and api.pop(q, "Default") is None
    parked = api.park(q, consumerGroup="parked", subscriptionMode="all", batch=10)
    watch.sleep_until(2.5)
    assert tids(woken(api, parked)) == ["m0", "m1", "m2"]
    assert api.popped(q) == ["m0", "m1", "m2"]
