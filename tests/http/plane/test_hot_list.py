# SPDX-License-Identifier: Apache-2.0
"""A hot list that answers with lanes is driven: it is told of lanes by pages of a walk, by marks and by its clock.

The list under test never lets the storage scan. Waiting pops hardly look by themselves here, so what wakes them is
what is being tested.
"""
import itertools
import time

import pytest

from lib.api import Api
from lib.broker import STORAGES, with_fake

PATIENT = {"POP_WAIT_INITIAL_INTERVAL_MS": "60000", "POP_WAIT_MAX_INTERVAL_MS": "60000"}


@pytest.fixture(params=itertools.product(STORAGES, ("h1", "h2")), ids="-".join)
def listed(request, brokers, brokers_seen):
    storage, version = request.param
    broker = brokers.get(storage, with_fake("hotlist"), **PATIENT)
    brokers_seen.append((broker, broker.log_size()))
    api = Api(broker.port, version)
    yield api
    api.close()


def everything(api, q, expected, **params):
    """Payloads by partition, popped until as many as expected have come."""
    got = {}
    deadline = time.monotonic() + 20
    while sum(map(len, got.values())) < expected:
        assert time.monotonic() < deadline, got
        popped = api.pop(q, batch=100, partitions=20, wait="true", timeout=15000, autoAck="true", **params)
        for message in popped["messages"] if popped else ():
            got.setdefault(message["partition"], []).append(message["transactionId"])
    return got


def test_a_new_group_is_shown_what_was_there_before(listed, q):
    for lane in range(10):
        listed.send(q, "a", "b", partition=f"lane-{lane}")
    expected = {f"lane-{lane}": ["a", "b"] for lane in range(10)}
    assert everything(listed, q, 20) == expected
    assert everything(listed, q, 20, consumerGroup="late", subscriptionMode="all") == expected


@pytest.mark.parametrize("version", ["h1", "h2"])
def test_a_walk_finds_what_another_broker_stored(own_broker, brokers, version):
    """Nobody marks this broker's list; only a page of a later walk can end the wait."""
    writer = own_broker("pg")
    socket = writer.data / "pg-run"
    reader = own_broker("pg", with_fake("hotlist"), PG_HOST=str(socket), PG_USER="postgres",
                        PG_PASSWORD=(writer.data / "pg.password").read_text().strip(), **PATIENT)
    push, pop = Api(writer.port, version), Api(reader.port, version)
    assert pop.pop_reply("q").status == 204
    call = pop.park("q", timeout=60000)
    for lane in range(10):
        push.send("q", f"m{lane}", partition=f"lane-{lane}")
    assert pop.got(call, timeout=30)["messages"]
    push.close()
    pop.close()


def test_marks_are_enough_once_the_group_is_known(listed, q):
    assert listed.pop_reply(q).status == 204
    call = listed.park(q, timeout=20000)
    listed.send(q, "a")
    assert [m["transactionId"] for m in listed.got(call, timeout=8)["messages"]] == ["a"]


def test_a_delayed_lane_wakes_its_waiter_by_the_lists_clock(listed, q):
    listed.configure(q, delayedProcessing=2)
    listed.send(q, "a")
    call = listed.park(q, timeout=30000)
    assert [m["transactionId"] for m in listed.got(call, timeout=15)["messages"]] == ["a"]


def test_an_expired_lease_wakes_a_waiter_by_the_lists_clock(listed, q):
    listed.send(q, "a")
    first = listed.pop(q, wait="true", timeout=20000, leaseSeconds=2)
    assert first["messages"]
    call = listed.park(q, timeout=30000)
    again = listed.got(call, timeout=15)
    assert [m["transactionId"] for m in again["messages"]] == ["a"]
    assert again["messages"][0]["deliveryAttempt"] == 2


def test_a_deleted_queue_begins_anew(listed, q):
    listed.send(q, "a")
    assert everything(listed, q, 1) == {"Default": ["a"]}
    listed.send(q, "b")
    listed.delete(q)
    assert listed.pop_reply(q).status == 204
    listed.send(q, "c")
    assert everything(listed, q, 1) == {"Default": ["c"]}
