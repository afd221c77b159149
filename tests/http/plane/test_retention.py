# SPDX-License-Identifier: Apache-2.0
"""Deletion by the options of a queue, as clients see it. Ages of seconds are waited for; days are written into the
throw-away database."""
import time

import pytest

from lib import clock
from lib.api import Api, ack_item, tids
from lib.fixtures import CROSS, make_api

FAST = {"RETENTION_INTERVAL": "100"}
WITHIN = 20
DAY = 86400


@pytest.fixture(params=CROSS)
def swept(request, brokers, brokers_seen):
    """A client of a broker that looks for old messages all the time."""
    made = make_api(brokers, brokers_seen, request.param, **FAST)
    yield made
    made.close()


@pytest.fixture(params=["h1"])
def swept_pg(request, brokers, brokers_seen):
    made = make_api(brokers, brokers_seen, ("pg", request.param), **FAST)
    yield made
    made.close()


def total(api, q):
    return api.queue(q)["totals"]["total"]


def gone(api, q, left=0):
    clock.eventually(lambda: total(api, q) == left, WITHIN, f"{left} messages are left")


def passes(api, count=3):
    """Waits until deletion had that many more chances, shown by a queue of its own."""
    for number in range(count):
        q = f"witness-{time.monotonic_ns()}-{number}"
        api.configure(q, maxWaitTimeSeconds=1)
        api.send(q, "m")
        gone(api, q)
        api.delete(q)


def age(api, q, seconds, partition=None):
    """Makes everything a queue holds older."""
    lanes = (f"SELECT p.id FROM queen.log_partitions p JOIN queen.queues q ON q.id = p.queue_id WHERE q.name = '{q}'"
             + (f" AND p.name = '{partition}'" if partition else ""))
    by = f"interval '{seconds} seconds'"
    api.broker.psql(
        f"WITH l AS ({lanes}), s AS (UPDATE queen.log_segments SET created_at = created_at - {by} "
        f"WHERE partition_id IN (TABLE l)), t AS (UPDATE queen.log_txns SET created_at = created_at - {by} "
        f"WHERE partition_id IN (TABLE l)), c AS (UPDATE queen.log_consumers SET created_at = created_at - {by} "
        f"WHERE partition_id IN (TABLE l)) UPDATE queen.log_partitions SET oldest_live_at = oldest_live_at - {by}, "
        f"oldest_txn_at = oldest_txn_at - {by}, newest_at = newest_at - {by}, last_write_at = last_write_at - {by}, "
        f"created_at = created_at - {by} WHERE id IN (TABLE l)")


def history(api, q):
    return {kind: int(n) for kind, n in api.broker.psql(
        "SELECT h.retention_type, sum(h.messages_deleted) FROM queen.retention_history h JOIN queen.log_partitions p ON "
        f"p.id = h.partition_id JOIN queen.queues q ON q.id = p.queue_id WHERE q.name = '{q}' GROUP BY 1")}


# the rules

@pytest.mark.slow
def test_retention_takes_what_is_old_read_or_not(swept, q):
    api = swept
    api.configure(q, retentionEnabled=True, retentionSeconds=2)
    api.send(q, "a")
    born = clock.parse(api.pop(q)["messages"][0]["createdAt"])
    gone(api, q)
    assert time.time() - born >= 2, "not before its time"
    assert api.pop(q, consumerGroup="late", subscriptionMode="all") is None
    api.send(q, "b")
    assert api.popped(q, consumerGroup="late") == ["b"]
    gone(api, q)


@pytest.mark.slow
def test_without_the_switch_seconds_delete_nothing(swept, q):
    api = swept
    api.configure(q, retentionSeconds=1, completedRetentionSeconds=1)
    api.send(q, "a")
    assert api.popped(q, autoAck=True) == ["a"]
    passes(api)
    assert total(api, q) == 1
    api.configure(q, retentionEnabled=True, retentionSeconds=1)
    gone(api, q)


@pytest.mark.slow
def test_the_switch_alone_deletes_nothing(swept, q):
    api = swept
    api.configure(q, retentionEnabled=True)
    api.send(q, "a")
    passes(api)
    assert total(api, q) == 1


@pytest.mark.slow
def test_completed_retention_waits_for_the_slowest_group(swept, q):
    api = swept
    api.configure(q, retentionEnabled=True, completedRetentionSeconds=1)
    for tid in ("a", "b"):
        api.send(q, tid)
    passes(api)
    assert total(api, q) == 2, "nobody has read anything"
    for group in ("fast", "slow"):
        popped = api.pop(q, consumerGroup=group, subscriptionMode="all", batch=2 if group == "fast" else 1)
        api.finish(popped)
    gone(api, q, left=1)
    passes(api)
    assert api.popped(q, consumerGroup="slow", autoAck=True) == ["b"]
    gone(api, q)


@pytest.mark.slow
def test_maximum_wait_takes_leased_messages_and_needs_no_switch(swept, q):
    api = swept
    api.configure(q, maxWaitTimeSeconds=1, retryLimit=0)
    api.send(q, "a", "b")
    popped = api.pop(q, batch=2)
    gone(api, q)
    first, second = popped["messages"]
    buried = api.ack(first, "dlq")
    assert (buried["success"], buried["dlq"], buried["error"]) == (False, False, "dlq rejected"), buried
    assert api.ack(first)["success"] and api.ack(second)["leaseReleased"]
    api.send(q, "c")
    assert api.popped(q) == ["c"]


def test_each_rule_leaves_its_history(swept_pg, name):
    api = swept_pg
    queues = {"retention": name(), "completed_retention": name(), "max_wait_time_eviction": name()}
    api.configure(queues["retention"], retentionEnabled=True, retentionSeconds=60)
    api.configure(queues["completed_retention"], retentionEnabled=True, completedRetentionSeconds=60)
    api.configure(queues["max_wait_time_eviction"], maxWaitTimeSeconds=60)
    for kind, q in queues.items():
        api.send(q, "a", "b")
        assert api.popped(q, batch=2, autoAck=True) == ["a", "b"]
        age(api, q, 61)
        gone(api, q)
        assert history(api, q) == {kind: 2}


def test_a_big_backlog_goes_in_steps(brokers, brokers_seen, q):
    api = make_api(brokers, brokers_seen, ("pg", "h1"), RETENTION_BATCH_SIZE="7", **FAST)
    for number in range(50):
        api.send(q, f"m{number}", partition=f"p{number % 3}")
    age(api, q, 100)
    api.configure(q, retentionEnabled=True, retentionSeconds=60)
    gone(api, q)
    assert max(int(n) for n, in api.broker.psql("SELECT count(*) FROM queen.retention_history GROUP BY xmin::text")) <= 7
    api.close()


def test_an_interval_that_is_long_sweeps_rarely(pg_api, q):
    api = pg_api
    runs = api.broker.psql("SELECT runs, fence FROM queen.maintenance_leases")
    api.configure(q, maxWaitTimeSeconds=1)
    api.send(q, "a")
    age(api, q, 100)
    for number in range(40):
        api.send(q, f"w{number}")
    assert total(api, q) == 41
    assert api.broker.psql("SELECT runs, fence FROM queen.maintenance_leases") == runs


def test_a_group_that_never_reads_costs_no_busy_loop(swept_pg, q):
    """Its lanes are looked at and left; others go on."""
    api = swept_pg
    api.configure(q, retentionEnabled=True, completedRetentionSeconds=60)
    for number in range(30):
        api.send(q, "a", partition=f"p{number}")
    assert len(api.popped(q, consumerGroup="slow", subscriptionMode="all", leaseSeconds=600, batch=30, partitions=64)) == 30
    age(api, q, 100)
    api.send(q, "new", partition="late")
    assert api.popped(q, "late", autoAck=True, consumerGroup="slow", subscriptionMode="all") == ["new"]
    age(api, q, 100, partition="late")
    gone(api, q, left=30)
    before = int(api.broker.psql("SELECT runs FROM queen.maintenance_leases")[0][0])
    clock.eventually(lambda: int(api.broker.psql("SELECT runs FROM queen.maintenance_leases")[0][0]) >= before + 3, WITHIN,
                     "passes go on and end although nothing can be deleted")
    assert total(api, q) == 30


# hashes

def test_ids_are_forgotten_after_the_window(swept_pg, q):
    api = swept_pg
    api.configure(q, dedupWindowSeconds=1000)
    api.send(q, "a")
    popped = api.pop(q)
    api.finish(popped)
    age(api, q, 990)
    passes(api, 1)
    assert api.push({"queue": q, "transactionId": "a", "payload": 1})[0]["status"] == "duplicate"
    assert api.ack(popped["messages"][0])["noop"]
    age(api, q, 11)
    where = f"(SELECT p.id FROM queen.log_partitions p JOIN queen.queues q ON q.id = p.queue_id WHERE q.name = '{q}')"
    clock.eventually(lambda: api.broker.psql(f"SELECT count(*) FROM queen.log_txns WHERE partition_id IN {where}") == [("0",)],
                     WITHIN, "the hash row is purged")
    assert api.ack(popped["messages"][0], leaseId=None)["error"].startswith("unresolvable")
    api.send(q, "a")
    assert api.popped(q) == ["a"]


def test_a_backlog_older_than_the_window_is_still_acknowledged(swept_pg, q):
    api = swept_pg
    api.configure(q, dedupWindowSeconds=0)
    api.send(q, "a")
    age(api, q, 100 * DAY)
    passes(api, 1)
    popped = api.pop(q)
    api.finish(popped)
    assert api.pop(q) is None


# partitions

def emptied(api, q, partition="p"):
    """A partition that held a message, which was read, long ago."""
    api.configure(q, retentionEnabled=True, retentionSeconds=50 * DAY, dedupWindowSeconds=0)
    api.send(q, "old", partition=partition)
    popped = api.pop(q, partition, consumerGroup="g", subscriptionMode="all")
    api.finish(popped)
    return popped["messages"][0]["partitionId"]


def partitions(api, q):
    return [row["name"] for row in api.queue(q)["partitions"]]


def test_a_quiet_partition_goes_and_a_push_makes_it_anew(swept_pg, q):
    """The broker remembers its id, from its own pushes and pops, and must not believe it."""
    api = swept_pg
    old = emptied(api, q)
    age(api, q, 100 * DAY)
    parked = api.park(q, consumerGroup="g")
    clock.eventually(lambda: partitions(api, q) == [], WITHIN, "the partition is deleted")
    assert api.broker.psql(f"SELECT retention_type, messages_deleted FROM queen.retention_history WHERE partition_id = '{old}' "
                           "ORDER BY executed_at, id") == [("retention", "1"), ("__partition_deleted__", "0")]
    api.send(q, "new", partition="p")
    got = api.got(parked)
    assert tids(got) == ["new"]
    message = got["messages"][0]
    assert message["offset"] == 0 and message["partitionId"] != old
    api.finish(got)
    assert api.pop(q, "p", consumerGroup="g") is None
    stale = api.acks([{**ack_item(message), "partitionId": old}], "g")[0]
    assert not stale["success"] and stale["error"] == "consumer not found"


@pytest.mark.parametrize("veto", ["messages", "dead letter", "lease", "cursor"])
def test_what_keeps_a_quiet_partition(swept_pg, q, veto):
    api = swept_pg
    emptied(api, q)
    if veto == "messages":
        api.configure(q, retentionEnabled=False)
    elif veto == "dead letter":
        api.send(q, "poison", partition="p")
        assert api.ack(api.pop(q, "p", consumerGroup="g")["messages"][0], "dlq")["dlq"]
    elif veto == "lease":
        api.send(q, "leased", partition="p")
        assert api.popped(q, "p", consumerGroup="g", leaseSeconds=604800) == ["leased"]
    age(api, q, 100 * DAY)
    if veto == "cursor":
        assert api.pop(q, "p", consumerGroup="young", subscriptionMode="new") is None
    # Another one, born and aged likewise after it, goes: this one had its chance.
    other = q + "-other"
    emptied(api, other)
    age(api, other, 100 * DAY)
    clock.eventually(lambda: partitions(api, other) == [], WITHIN, "the other partition is deleted")
    assert partitions(api, q) == ["p"]


def test_cleanup_can_be_switched_off_and_its_age_set(brokers, brokers_seen, name):
    off = make_api(brokers, brokers_seen, ("pg", "h1"), QUEEN_PARTITION_CLEANUP_ENABLED="false", **FAST)
    soon = make_api(brokers, brokers_seen, ("pg", "h1"), PARTITION_CLEANUP_DAYS="2", **FAST)
    for api, days in ((off, 100), (soon, 3)):
        q = name()
        emptied(api, q)
        age(api, q, days * DAY)
        api.configure(q, retentionEnabled=True, retentionSeconds=60, dedupWindowSeconds=0)
        gone(api, q)
        if api is soon:
            clock.eventually(lambda q=q, api=api: partitions(api, q) == [], WITHIN, "three days are enough")
        else:
            begun = int(api.broker.psql("SELECT runs FROM queen.maintenance_leases")[0][0])
            clock.eventually(lambda api=api, begun=begun:
                             int(api.broker.psql("SELECT runs FROM queen.maintenance_leases")[0][0]) > begun + 30, WITHIN,
                             "more passes than lie between two looks for partitions")
            assert partitions(api, q) == ["p"]
        api.close()


def test_history_is_kept_as_long_as_asked(brokers, brokers_seen, q):
    api = make_api(brokers, brokers_seen, ("pg", "h1"), METRICS_RETENTION_DAYS="2", **FAST)
    api.broker.psql("INSERT INTO queen.retention_history (partition_id, messages_deleted, retention_type, executed_at) "
                    "SELECT gen_random_uuid(), i, 'test', now() - make_interval(days => i) FROM generate_series(1, 4) i")
    clock.eventually(lambda: api.broker.psql("SELECT messages_deleted FROM queen.retention_history WHERE "
                                             "retention_type = 'test' ORDER BY 1") == [("1",)], WITHIN, "one day is left")
    api.close()


# keeping everything

@pytest.mark.parametrize("storage", ["memory", "pg"])
def test_retention_none_keeps_everything(own_broker, storage, q):
    broker = own_broker(storage, ("--set", "retention.use=retention_none"), **FAST)
    api = Api(broker.port)
    api.broker = broker
    api.configure(q, retentionEnabled=True, retentionSeconds=1, completedRetentionSeconds=1, maxWaitTimeSeconds=1)
    api.send(q, "a")
    assert api.popped(q, autoAck=True) == ["a"]
    if storage == "pg":
        age(api, q, 100 * DAY)
        begun = int(broker.psql("SELECT runs FROM queen.maintenance_leases")[0][0])
        clock.eventually(lambda: int(broker.psql("SELECT runs FROM queen.maintenance_leases")[0][0]) > begun + 20, WITHIN,
                         "passes happen")
        assert broker.psql("SELECT count(*) FROM queen.log_txns") == [("1",)]
    else:
        clock.Watch().sleep_until(3)
    assert total(api, q) == 1
    api.close()
    broker.stop()


# several brokers, and losing one

def peer(own_broker, first, **env):
    where = first.socket_file()
    return own_broker("pg", QUEEN_BIND_ADDR="127.0.0.1", PG_HOST=str(where.parent), PG_PORT=where.name.rsplit(".", 1)[1],
                      PG_USER="postgres", PG_DATABASE="postgres",
                      PG_PASSWORD=(first.data / "pg.password").read_text().strip(), **env)


def lease(broker):
    rows = broker.psql("SELECT holder, fence, lease_until IS NOT NULL, runs FROM queen.maintenance_leases")
    return rows[0][0], int(rows[0][1]), rows[0][2] == "t", int(rows[0][3])


@pytest.mark.slow
def test_another_broker_takes_over_from_one_that_is_killed_at_work(own_broker, q):
    first = own_broker("pg")
    worker = peer(own_broker, first, **FAST)
    api = Api(first.port)
    api.broker = first
    clock.eventually(lambda: lease(first)[3] > 2, WITHIN, "the worker sweeps")
    holder = lease(first)[0]
    api.send(q, "a")
    age(api, q, 100)
    with first.stalled("retention_history"):
        api.configure(q, retentionEnabled=True, retentionSeconds=60)
        clock.eventually(first.waiting, WITHIN, "a step is under way")
        worker.kill()
        heir = peer(own_broker, first, **FAST)
        assert lease(first)[0] == holder and lease(first)[2]
    gone(api, q)
    assert history(api, q) == {"retention": 1}
    clock.eventually(lambda: lease(first)[0] != holder, WITHIN, "the other one takes over")
    api.send(q, "b")
    age(api, q, 100)
    gone(api, q)
    heir.stop()
    api.close()
    first.stop()


def test_a_turn_nobody_ends_is_over_after_its_lease(swept_pg, q):
    api = swept_pg
    api.configure(q, maxWaitTimeSeconds=60)
    api.send(q, "a")
    fence = lease(api.broker)[1]
    api.broker.psql("UPDATE queen.maintenance_leases SET holder = 'dead', fence = fence + 1, "
                    "lease_until = now() + interval '3 seconds'")
    fence = lease(api.broker)[1]
    age(api, q, 100)
    assert total(api, q) == 1 and lease(api.broker)[0] == "dead"
    gone(api, q)
    assert lease(api.broker)[1] > fence


@pytest.mark.slow
def test_two_brokers_delete_everything_once(own_broker, q):
    first = own_broker("pg", **FAST)
    second = peer(own_broker, first, **FAST)
    api = Api(first.port)
    api.broker = first
    api.configure(q, retentionEnabled=True, retentionSeconds=60)
    for number in range(300):
        api.send(q, f"m{number}", partition=f"p{number % 20}")
        if number % 30 == 29:
            age(api, q, 61)
    gone(api, q)
    assert history(api, q) == {"retention": 300}
    second.stop()
    api.close()
    first.stop()


def test_sessions_that_are_ended_in_the_middle_lose_nothing(swept_pg, q):
    api = swept_pg
    for number in range(20):
        api.send(q, f"m{number}")
    age(api, q, 100)
    for _ in range(3):
        with api.broker.stalled("retention_history"):
            api.configure(q, retentionEnabled=True, retentionSeconds=60)
            clock.eventually(api.broker.waiting, WITHIN, "a step is under way")
            ended = api.broker.psql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
                                    "AND query LIKE '%sweep_v1%'")
            assert ended == [("t",)]
            assert total(api, q) == 20
            api.configure(q)
    api.configure(q, retentionEnabled=True, retentionSeconds=60)
    gone(api, q)
    assert history(api, q) == {"retention": 20}


@pytest.mark.parametrize("storage", ["memory", "pg"])
def test_a_broker_stops_in_the_middle_of_a_step(own_broker, storage, q):
    broker = own_broker(storage, **FAST)
    api = Api(broker.port)
    api.broker = broker
    api.configure(q, maxWaitTimeSeconds=1)
    for number in range(20):
        api.send(q, f"m{number}", partition=f"p{number}")
    if storage == "memory":
        broker.stop()
        return
    age(api, q, 100)
    with broker.stalled("retention_history"):
        clock.eventually(broker.waiting, WITHIN, "a step is under way")
        broker.terminate()
        code = broker.exit_code()
    assert code == 0, broker.log()[-3000:]


# work going on meanwhile

@pytest.mark.slow
def test_order_holds_while_messages_are_deleted(swept, q):
    """Every lane's messages come in order, and what is missing was old enough to go."""
    api = swept
    api.configure(q, retentionEnabled=True, retentionSeconds=2, completedRetentionSeconds=1, leaseTime=30)
    lanes, seen, sent = [f"p{n}" for n in range(5)], {}, dict.fromkeys([f"p{n}" for n in range(5)], 0)
    watch = clock.Watch()
    while watch.seconds < 8:
        for lane in lanes:
            api.send(q, str(sent[lane]), partition=lane)
            sent[lane] += 1
        popped = api.pop(q, partitions=5, batch=20, consumerGroup="g", subscriptionMode="all")
        for message in popped["messages"] if popped else ():
            order = (message["offset"], int(message["transactionId"]))
            assert order[0] == order[1] and order[0] > seen.get(message["partition"], -1), message
            seen[message["partition"]] = order[0]
        if popped:
            api.finish(popped)
    assert sum(sent.values()) > 100
    for lane in lanes:
        while seen.get(lane, -1) < sent[lane] - 1:
            popped = api.pop(q, lane, batch=1000, consumerGroup="g")
            assert popped, (lane, seen, sent)
            offsets = [message["offset"] for message in popped["messages"]]
            assert offsets == list(range(seen.get(lane, -1) + 1, offsets[-1] + 1))
            seen[lane] = offsets[-1]
            api.finish(popped)
    gone(api, q)
