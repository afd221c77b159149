# SPDX-License-Identifier: Apache-2.0
"""leaseTime: for how long a leased batch is hidden, where the length comes from, what expiry does not do."""
import pytest

from lib import clock
from lib.api import tids
from lib.fixtures import CROSS
from scene import PATIENCE, about, dead, names, scene


def leased_for(api, queue, **params):
    """Seconds for which the next message of a queue is leased; its lane is one that is used only once."""
    api.send(queue, "m", partition=f"lane {params}")
    return clock.lease_seconds(api.pop(queue, f"lane {params}", **params)["messages"][0])


def test_a_leased_batch_is_invisible_to_others_of_its_group_only(api, q):
    """Another consumer of the group gets nothing, another group gets everything."""
    api.send(q, "a", "b")
    first = api.pop(q, consumerGroup="g", subscriptionMode="all")
    assert tids(first) == ["a", "b"]
    assert api.pop(q, consumerGroup="g") is None
    assert api.popped(q, consumerGroup="other", subscriptionMode="all") == ["a", "b"]
    assert api.popped(q) == ["a", "b"]


def test_the_requests_lease_seconds_win_when_positive(api, q):
    """Else the queue's value is used."""
    api.configure(q, leaseTime=120)
    assert about(leased_for(api, q, leaseSeconds=500), 500)
    assert about(leased_for(api, q, leaseSeconds=0), 120)
    assert about(leased_for(api, q, leaseSeconds=-7), 120)
    assert about(leased_for(api, q), 120)


def test_a_change_affects_new_pops_and_acts_at_once(api, q):
    """The broker that served the configure uses the new value for the very next pop."""
    for seconds in (600, 100, 1000):
        api.configure(q, leaseTime=seconds)
        api.send(q, f"{seconds}", partition=f"{seconds}")
        assert about(clock.lease_seconds(api.pop(q, f"{seconds}")["messages"][0]), seconds)


def test_issued_leases_keep_the_expiry_they_were_given(api, q):
    """Neither a longer nor a shorter leaseTime touches a lease that is out."""
    api.configure(q, leaseTime=200)
    api.send(q, "m")
    message = api.pop(q)["messages"][0]
    for seconds in (900, 2):
        api.configure(q, leaseTime=seconds)
        assert api.pop(q) is None
        answer = api.extend(message["leaseId"], 1)
        assert answer["newExpiresAt"] == message["leaseExpiresAt"]


# Leases that run out: prepared together, waited for together.
@pytest.fixture(scope="module", params=CROSS)
def expired(request, brokers):
    """Queues whose one-second leases ran out four times, by leaseTime or by the request."""
    name = names("lease")
    with scene(brokers, request.param) as api:
        by_queue, by_request, long = name("queue"), name("request"), name("long")
        api.configure(by_queue, leaseTime=1, retryLimit=0)
        api.configure(by_request, leaseTime=3600, retryLimit=0)
        api.configure(long, leaseTime=1)
        for queue in (by_queue, by_request, long):
            api.send(queue, "a", "b")
        held = api.pop(long, leaseSeconds=3600)
        seen = {by_queue: [], by_request: []}
        for _ in range(4):
            for queue, params in ((by_queue, {}), (by_request, {"leaseSeconds": 1})):
                popped = clock.eventually(lambda queue=queue, params=params: api.pop(queue, batch=1, **params),
                                          PATIENCE, "the message comes again")
                seen[queue].append(popped)
        yield api, by_queue, by_request, long, held, seen


def test_a_batch_is_redelivered_when_its_lease_has_expired(expired):
    """The same message under a new lease each time, also when the lease time of the request decided."""
    _, by_queue, by_request, _, _, seen = expired
    for queue in (by_queue, by_request):
        assert [tids(popped) for popped in seen[queue]] == [["a"]] * 4
        assert len({popped["leaseId"] for popped in seen[queue]}) == 4


def test_a_lease_hides_its_batch_until_it_expires_and_not_shorter(expired):
    """No delivery came before the expiry of the one before it, by the broker's own times."""
    _, by_queue, by_request, _, _, seen = expired
    for queue in (by_queue, by_request):
        ends = [clock.parse(popped["messages"][0]["leaseExpiresAt"]) for popped in seen[queue]]
        assert all(later - earlier >= 1 for earlier, later in zip(ends, ends[1:])), ends


def test_a_longer_lease_of_the_request_outlives_the_queues_lease_time(expired):
    """After four of the queue's lease times it still hides the batch."""
    api, _, _, long, held, _ = expired
    assert api.pop(long) is None
    assert api.ack(held["messages"][1])["leaseReleased"] is True


def test_expiry_redelivers_without_ever_dead_lettering(expired):
    """Four expiries charge nothing even with a retry limit of zero; the message can still be completed."""
    api, by_queue, _, _, _, _ = expired
    assert dead(api, by_queue) == 0
    api.configure(by_queue, leaseTime=60, retryLimit=0)
    popped = clock.eventually(lambda: api.pop(by_queue), PATIENCE, "the last lease expires")
    assert tids(popped) == ["a", "b"]
    api.finish(popped)
    assert (dead(api, by_queue), api.pop(by_queue)) == (0, None)
