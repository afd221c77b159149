# SPDX-License-Identifier: Apache-2.0
"""Clocks and time zones: a broker an hour ahead of its database or behind it, and sessions in Kathmandu or Caracas that
write dates in other ways. Leases, delays, windows and stamps go by the database's clock, in UTC.

The broker's clock is moved by libfaketime, for the broker alone. A sanitized broker cannot be started this way.
"""
import glob
import time

import pytest

from lib import clock
from lib.api import ack_item, ack_op, push_op, tids
from lib.fixtures import make_api

HOUR = 3600
ZONE = ("ALTER DATABASE postgres SET timezone = 'Asia/Kathmandu'", "ALTER ROLE postgres SET datestyle = 'German, DMY'",
        "ALTER ROLE ALL SET timezone = 'Asia/Kathmandu'", "ALTER DATABASE postgres SET datestyle = 'German, DMY'",
        "ALTER DATABASE postgres SET intervalstyle = 'sql_standard'")


def moved(seconds):
    """The environment of a broker whose wall clock is wrong; its database and its monotonic clock are right."""
    library = glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")
    assert library, "the package faketime is missing"
    return {"LD_PRELOAD": library[0], "FAKETIME": f"{seconds:+d}", "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_SKIP_CMDS": "postgres,initdb,pg_ctl"}


def in_kathmandu(broker):
    """Every session of the embedded database from now on has another time zone and other ways to write dates."""
    if broker.psql("SHOW timezone") != [("Asia/Kathmandu",)]:
        for statement in ZONE:
            broker.psql(statement)
        broker.stop()
        broker.start()
    assert broker.psql("SHOW timezone") == [("Asia/Kathmandu",)]
    assert broker.psql("SELECT date '2026-03-04'") == [("04.03.2026",)]


CASES = {"ahead-h1": moved(HOUR), "behind-h2": moved(-HOUR), "kathmandu-h1": {"TZ": "Asia/Kathmandu"},
         "caracas-h2": {"PGTZ": "America/Caracas", "PGDATESTYLE": "SQL, DMY"}}


@pytest.fixture(params=CASES)
def api(request, brokers, brokers_seen):
    environment = CASES[request.param]
    if "TZ" in environment:
        in_kathmandu(brokers.get("pg", **environment))
    made = make_api(brokers, brokers_seen, ("pg", request.param[-2:]), **environment)
    yield made
    made.close()


def near(stamp, seconds=60):
    """A stamp of about now, by a clock that is right, in UTC."""
    return abs(clock.parse(stamp) - time.time()) < seconds


def listed(stamp):
    """A stamp of the listings, which has milliseconds."""
    return near(stamp[:-1] + "000Z")


def test_the_broker_has_the_clock_this_suite_means(api):
    """What the others rest on: the log's own stamps are the broker's clock."""
    environment = api.broker.env
    stamp = api.broker.log().split("ts=", 1)[1].split("Z", 1)[0]
    offset = clock.parse(stamp + "000Z") - time.time()
    expected = int(environment.get("FAKETIME", "0"))
    assert expected - 1800 < offset < expected + 1800, "the suite itself takes less than half an hour"
    skew = float(api.broker.psql("SELECT extract(epoch FROM clock_timestamp())")[0][0]) - time.time()
    assert abs(skew) < 60, "the database has the right time"


# stamps

def test_stamps_are_utc_by_the_clock_of_the_database(api, q):
    api.send(q, "m")
    message = api.pop(q, leaseSeconds=120)["messages"][0]
    assert near(message["createdAt"]), message
    assert 119 < clock.parse(message["leaseExpiresAt"]) - time.time() < 180, message
    answer = api.extend(message["leaseId"], 600)
    assert answer["success"] is True
    assert 595 < clock.parse(answer["newExpiresAt"]) - time.time() < 660
    assert api.ack(message)["success"] is True


def test_listings(api, q):
    api.send(q, "a", "b")
    api.pop(q, batch=1)
    document = api.queue(q)
    lane = document["partitions"][0]
    for stamp in (document["createdAt"], lane["createdAt"], lane["oldestMessage"], lane["newestMessage"],
                  next(item["createdAt"] for item in api.queues(search=q) if item["name"] == q)):
        assert listed(stamp), stamp
    totals = document["totals"]
    assert (totals["total"], totals["pending"], totals["processing"]) == (2, 2, 1)


def test_ids_sort_in_arrival_order(api, q):
    ids = [api.send(q, f"t{number}")[0]["message_id"] for number in range(5)]
    messages = api.pop(q)["messages"]
    assert [message["id"] for message in messages] == ids == sorted(ids)
    assert [message["createdAt"] for message in messages] == sorted(message["createdAt"] for message in messages)


# leases

@pytest.mark.slow
def test_a_lease_lasts_as_long_as_it_says(api, q):
    api.send(q, "m")
    watch = clock.Watch()
    first = api.pop(q, leaseSeconds=2)["messages"][0]
    assert api.pop(q) is None, "leased"
    again = api.got(api.park(q, timeout=15000))
    assert tids(again) == ["m"] and watch.seconds >= 1.9
    assert api.ack(first)["success"] is False
    assert api.ack(again["messages"][0])["success"] is True


@pytest.mark.slow
def test_an_extended_lease_lasts(api, q):
    api.send(q, "m")
    watch = clock.Watch()
    message = api.pop(q, leaseSeconds=1)["messages"][0]
    assert api.extend(message["leaseId"], 30)["renewed"] == 1
    watch.sleep_until(1.5)
    assert api.pop(q) is None
    assert api.ack(message)["leaseReleased"] is True
    assert api.extend(message["leaseId"], 30)["renewed"] == 0


def test_acks_signals_and_dead_letters(api, q):
    api.configure(q, retryLimit=1)
    api.send(q, "a", "b")
    for number in range(2):
        result = api.ack(api.pop(q)["messages"][0], "failed")
        assert (result["success"], result["dlq"]) == (True, number == 1)
    popped = api.pop(q)
    assert tids(popped) == ["b"]
    assert api.acks([ack_item(popped["messages"][0], "retry")])[0]["leaseReleased"] is True
    api.finish(api.pop(q))
    failed = api.broker.psql("SELECT extract(epoch FROM d.failed_at) FROM queen.log_dlq d JOIN queen.log_partitions p "
                             f"ON p.id = d.partition_id JOIN queen.queues q ON q.id = p.queue_id WHERE q.name = '{q}'")
    assert len(failed) == 1 and abs(float(failed[0][0]) - time.time()) < 60


# delays and windows

@pytest.mark.slow
def test_delayed_processing(api, q):
    api.configure(q, delayedProcessing=2)
    parked = api.park(q, timeout=20000)
    watch = clock.Watch()
    api.send(q, "m")
    assert api.pop(q) is None and api.pop(q, "Default") is None
    assert tids(api.got(parked)) == ["m"]
    assert 1.9 <= watch.seconds < 19, "neither at once nor by the deadline"


@pytest.mark.slow
def test_window_buffer(api, q):
    api.configure(q, windowBuffer=2)
    parked = api.park(q, timeout=20000, batch=10)
    watch = clock.Watch()
    api.send(q, "a")
    api.send(q, "b")
    assert api.pop(q, batch=10) is None and api.pop(q, "Default") is None
    assert tids(api.got(parked)) == ["a", "b"]
    assert 1.9 <= watch.seconds < 19


@pytest.mark.slow
def test_the_window_of_deduplication(api, name):
    short, long = name(), name()
    api.configure(short, dedupWindowSeconds=2)
    watch = clock.Watch()
    for q in (short, long):
        original = api.send(q, "x")[0]
        again = api.push({"queue": q, "transactionId": "x", "payload": 1})[0]
        assert (again["status"], again["message_id"]) == ("duplicate", original["message_id"])
    watch.sleep_until(2.5)
    assert api.push({"queue": short, "transactionId": "x", "payload": 1})[0]["status"] == "queued"
    assert api.push({"queue": long, "transactionId": "x", "payload": 1})[0]["status"] == "duplicate"


def test_long_polls_end_at_their_deadline(api, q):
    api.configure(q)
    watch = clock.Watch()
    assert api.pop(q, wait=True, timeout=700) is None
    assert 0.65 <= watch.seconds < 20
    parked = api.park(q, timeout=20000)
    watch = clock.Watch()
    api.send(q, "m")
    assert tids(api.got(parked)) == ["m"] and watch.seconds < 19


# subscriptions

def test_a_new_group_gets_what_comes_after_it(api, q):
    api.send(q, "old", partition="a")
    assert api.pop(q, consumerGroup="mode", subscriptionMode="new") is None
    assert api.pop(q, consumerGroup="now", subscriptionFrom="now") is None
    api.send(q, "same lane", partition="a")
    api.send(q, "later lane", partition="b")
    for group in ("mode", "now"):
        assert sorted(api.popped(q, consumerGroup=group, partitions=5)) == ["later lane", "same lane"]


def local(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


@pytest.mark.slow
def test_a_subscription_from_a_timestamp(api, q):
    api.send(q, "early")
    watch = clock.Watch()
    watch.sleep_until(1.2)
    api.send(q, "late")
    late = api.pop(q)["messages"][1]["createdAt"]
    moment = clock.parse(late)
    fraction = late[19:-1]
    spellings = {"utc": late, "no zone": late[:-1], "east": local(moment + 20700) + fraction + "+05:45",
                 "west": local(moment - 10800) + fraction + "-03:00"}
    for group, stamp in spellings.items():
        assert api.popped(q, consumerGroup=group, subscriptionFrom=stamp) == ["late"], stamp
        assert api.popped(q, "Default", consumerGroup=group + " pinned", subscriptionFrom=stamp) == ["late"], stamp
    assert api.popped(q, consumerGroup="before", subscriptionFrom=local(moment - 600) + "Z") == ["early", "late"]
    assert api.pop(q, consumerGroup="after", subscriptionFrom=local(moment + 600) + "Z") is None


def test_bad_timestamps_are_refused_in_every_zone(api, q):
    for stamp in ("yesterday-ish", "2026-13-01T00:00:00Z", "31.02.2026"):
        reply = api.pop_reply(q, consumerGroup="g", subscriptionFrom=stamp)
        assert reply.status == 400 and reply.error, (stamp, reply)


# transactions

def test_transactions(api, name):
    q, sink = name(), name()
    api.send(q, "m")
    message = api.pop(q, leaseSeconds=30)["messages"][0]
    parked = api.park(sink, timeout=20000)
    api.commit(push_op(sink, "x"), ack_op(message), leases=[message["leaseId"]])
    stored = api.got(parked)["messages"][0]
    assert stored["transactionId"] == "x" and near(stored["createdAt"])
    assert api.transact(push_op(sink, "x"))["reason"] == "duplicate"
    assert api.pop(q) is None
