# SPDX-License-Identifier: Apache-2.0
"""Maintenance: whose turn it is, and what a step deletes. Rows are aged by their own columns."""
import concurrent.futures

from broker import COMPLETED, TENANT
from test_storage import cost

RETENTION, FINISHED, MAX_WAIT, HASHES, LANES, BOOKS = range(6)
NIL = "00000000-0000-0000-0000-000000000000"
HISTORY = {RETENTION: "retention", FINISHED: "completed_retention", MAX_WAIT: "max_wait_time_eviction"}


def turn(b, holder="me", fence=0, end=False, period_ms=0, lease_ms=60000, after=NIL, limit=100):
    rows = b.run("SELECT * FROM queen.maintain_v1($1,$2,$3,$4,$5,$6,$7)", holder, fence, end, period_ms, lease_ms, after,
                 limit)
    assert rows[0]["queue_id"] is None
    return dict(rows[0], queues=rows[1:])


def queue_id(b, queue="q"):
    return b.one("SELECT id FROM queen.queues WHERE tenant_id = $1 AND name = $2", TENANT, queue)


def now_us(b):
    return b.one("SELECT queen.to_us(clock_timestamp())")


def rule(b, queue="q", cutoff=None, at=0, after=None):
    return dict(queue=queue_id(b, queue), cutoff=now_us(b) if cutoff is None else cutoff, at=at, after=after)


def step(b, fence, kind, *rules, batch=1000):
    """One step; the rules' places move on."""
    rows = b.run("SELECT * FROM queen.sweep_v1($1,$2,$3,$4,$5,$6,$7,$8)", fence, 60000, kind, batch,
                 [r["queue"] for r in rules], [r["cutoff"] for r in rules], [r["at"] for r in rules],
                 [r["after"] for r in rules])
    for row, r in zip(rows, rules):
        r.update(at=row["at_us"], after=row["partition_id"])
    return rows


def sweep(b, kind, queue="q", cutoff=None, batch=1000, steps=1000):
    """A whole walk in a turn of its own; how many rows went."""
    fence = turn(b)["fence"]
    r = rule(b, queue, cutoff)
    deleted = 0
    for _ in range(steps):
        row = step(b, fence, kind, r, batch=batch)[0]
        assert row["deleted"] <= batch
        deleted += row["deleted"]
        if row["ended"]:
            break
    turn(b, fence=fence, end=True)
    return deleted


def lane(b, queue="q", partition="p"):
    return b.run("SELECT * FROM queen.log_partitions WHERE id = $1", b.lane_id(queue, partition))[0]


def bases(b, table="log_segments", partition="p"):
    return [r["base_offset"] for r in b.run("SELECT base_offset FROM queen.%s WHERE partition_id = $1 ORDER BY 1" % table,
                                            b.lane_id(partition=partition))]


def age(b, seconds, upto=1 << 60, partition="p"):
    """Makes messages up to an offset older."""
    for table, column, start in (("log_segments", "oldest_live_at", "log_start"), ("log_txns", "oldest_txn_at", "txns_start")):
        b.run("UPDATE queen.%s SET created_at = created_at - make_interval(secs => $1) WHERE partition_id = $2 "
              "AND base_offset <= $3" % table, seconds, b.lane_id(partition=partition), upto)
        b.run("UPDATE queen.log_partitions p SET %s = (SELECT s.created_at FROM queen.%s s WHERE s.partition_id = p.id "
              "AND s.base_offset = p.%s) WHERE p.id = $1" % (column, table, start), b.lane_id(partition=partition))


def history(b, partition_id):
    return [(r["retention_type"], r["messages_deleted"]) for r in b.run(
        "SELECT retention_type, messages_deleted FROM queen.retention_history WHERE partition_id = $1 ORDER BY id",
        partition_id)]


def check(b, partition="p"):
    """The watermarks say what the tables hold."""
    row = b.run("SELECT p.log_start, p.txns_start, p.last_offset, p.oldest_live_at AS live, p.oldest_txn_at AS txn, "
                "s.base_offset AS first, s.created_at AS first_at, t.base_offset AS hash, t.created_at AS hash_at "
                "FROM queen.log_partitions p "
                "LEFT JOIN LATERAL (SELECT * FROM queen.log_segments s WHERE s.partition_id = p.id ORDER BY base_offset "
                "LIMIT 1) s ON true LEFT JOIN LATERAL (SELECT * FROM queen.log_txns t WHERE t.partition_id = p.id "
                "ORDER BY base_offset LIMIT 1) t ON true WHERE p.id = $1", b.lane_id(partition=partition))[0]
    end = row["last_offset"] + 1
    assert (row["log_start"], row["live"]) == (end if row["first"] is None else row["first"], row["first_at"]), row
    assert (row["txns_start"], row["txn"]) == (end if row["hash"] is None else row["hash"], row["hash_at"]), row
    return row


# whose turn

def test_one_holder_at_a_time(connect):
    a, b = connect(), connect()
    first = turn(a, "a", period_ms=60000)
    assert first["held"] and first["fence"] > 0
    second = turn(b, "b")
    assert not second["held"] and 0 < second["wait_ms"] <= 60000 and second["queues"] == []
    assert turn(a, "a", first["fence"])["held"]
    assert turn(a, "a", first["fence"], end=True, period_ms=60000)["held"]
    wait = turn(b, "b", period_ms=60000)
    assert not wait["held"] and 0 < wait["wait_ms"] <= 60000, "the period is not over"
    assert not turn(a, "a", first["fence"])["held"], "it was given back"


def test_the_period_counts_from_the_beginning(b):
    first = turn(b)
    b.run("UPDATE queen.maintenance_leases SET last_start_at = now() - interval '5 seconds'")
    assert turn(b, fence=first["fence"], end=True, period_ms=3000)["wait_ms"] == 0
    second = turn(b)
    assert second["held"] and second["fence"] > first["fence"]
    assert b.one("SELECT runs FROM queen.maintenance_leases") == 1


def test_who_asks_more_often_need_not_wait_for_the_last_holders_period(connect):
    a, b = connect(), connect()
    turn(a, "a", fence=turn(a, "a", period_ms=3600000)["fence"], end=True, period_ms=3600000)
    assert not turn(a, "a", period_ms=3600000)["held"]
    assert turn(b, "b", period_ms=1)["held"]


def test_a_dead_holder_is_replaced_after_its_lease(connect):
    a, b = connect(), connect()
    a.push("x")
    old = turn(a, "a", lease_ms=60000)
    assert not turn(b, "b")["held"]
    a.run("UPDATE queen.maintenance_leases SET lease_until = now() - interval '1 second'")
    new = turn(b, "b")
    assert new["held"] and new["fence"] > old["fence"]
    assert step(a, old["fence"], RETENTION, rule(a)) == [], "the old holder deletes nothing"
    assert bases(a) == [0]
    assert turn(a, "a", old["fence"], end=True)["held"] is False
    assert step(b, new["fence"], RETENTION, rule(b))[0]["deleted"] == 1


def test_a_running_step_keeps_the_turn_whatever_the_clock_says(connect):
    a, b = connect(), connect()
    fence = turn(a, "a", lease_ms=1)["fence"]
    a.push("x")
    a.run("BEGIN")
    assert step(a, fence, RETENTION, rule(a))[0]["deleted"] == 1
    a.run("SELECT pg_sleep(0.01)")
    assert not turn(b, "b")["held"]
    a.run("ROLLBACK")
    assert turn(b, "b")["held"]


def test_a_lease_switched_off_is_nobodys(b):
    turn(b, fence=turn(b)["fence"], end=True)
    b.run("UPDATE queen.maintenance_leases SET enabled = false")
    assert not turn(b)["held"]


def test_queues_come_in_pages_with_their_options(b):
    for q in ("q1", "q2", "q3", "empty"):
        b.configure(q, tenant=TENANT, retention_seconds=7, retention_enabled=True, dedup_window_seconds=11)
    for q in ("q1", "q2", "q3"):
        b.push("a", queue=q)
    fence, seen, after = 0, [], NIL
    while True:
        page = turn(b, fence=fence, after=after, limit=2)
        fence = page["fence"]
        seen += page["queues"]
        if len(page["queues"]) < 2:
            break
        after = page["queues"][-1]["queue_id"]
    assert [q["queue_id"] for q in seen] == sorted(queue_id(b, q) for q in ("q1", "q2", "q3"))
    for q in seen:
        assert (q["retention_seconds"], q["retention_enabled"], q["dedup_window_seconds"]) == (7, True, 11)
        assert q["live_us"] == q["txns_us"] > 0 and q["idle_us"] is None


# messages

def test_whole_segments_from_the_front(b):
    for k in range(5):
        b.push("a%d" % k, "b%d" % k)
    age(b, 100, upto=5)
    assert sweep(b, RETENTION, cutoff=now_us(b) - 50 * 10**6) == 3
    assert bases(b) == [6, 8]
    row = check(b)
    assert (row["log_start"], row["txns_start"], row["last_offset"]) == (6, 0, 9)
    assert history(b, b.lane_id()) == [("retention", 6)]
    assert sweep(b, MAX_WAIT) == 2
    assert check(b)["log_start"] == 10 and lane(b)["oldest_live_at"] is None
    assert history(b, b.lane_id())[1:] == [("max_wait_time_eviction", 4)]
    b.push("n")
    assert check(b)["live"] is not None
    assert b.ids() == ["n"]


def test_a_step_takes_no_more_rows_than_it_was_told(b):
    for p in ("p", "p2", "p3"):
        for k in range(10):
            b.push("%d" % k, partition=p)
    fence, r = turn(b)["fence"], rule(b)
    rows = [step(b, fence, RETENTION, r, batch=7)[0]]
    while not rows[-1]["ended"]:
        rows.append(step(b, fence, RETENTION, r, batch=7)[0])
    assert max(row["deleted"] for row in rows) <= 7
    assert sum(row["deleted"] for row in rows) == 30 == sum(row["messages"] for row in rows)
    for p in ("p", "p2", "p3"):
        assert check(b, p)["log_start"] == 10


def test_one_queue_does_not_wait_for_another(b):
    for k in range(50):
        b.push("%d" % k, queue="big")
    b.push("a", queue="small")
    fence = turn(b)["fence"]
    rules = sorted((rule(b, q) for q in ("big", "small")), key=lambda r: r["queue"])
    assert [r["deleted"] > 0 for r in step(b, fence, RETENTION, *rules, batch=4)] == [True, True]


def test_completed_retention_stops_at_the_slowest_cursor(b):
    for k in range(4):
        b.push("a%d" % k, "b%d" % k)
    for g in ("g", "h"):
        b.register(g)
    assert b.ids("g", lease="") == ["a0", "b0", "a1", "b1", "a2", "b2", "a3", "b3"]
    assert sweep(b, FINISHED) == 0
    assert b.ids("h", lease="", budget=5) == ["a0", "b0", "a1", "b1", "a2"]
    assert sweep(b, FINISHED) == 2, "the segment in which the slower one stands stays"
    assert check(b)["log_start"] == 4
    assert history(b, b.lane_id()) == [("completed_retention", 4)]
    assert b.ids("h") == ["b2", "a3", "b3"]


def test_completed_retention_takes_nothing_that_nobody_reads(b):
    b.push("a")
    assert sweep(b, FINISHED) == 0
    assert bases(b) == [0]


def test_a_lane_that_yields_nothing_stops_no_other(b):
    b.push("a", partition="slow")
    b.push("a", partition="fast")
    b.register("g")
    b.claim_lane(partition="fast", lease="")
    fence, r = turn(b)["fence"], rule(b)
    walk = [step(b, fence, FINISHED, r, batch=1)[0] for _ in range(3)]
    assert [(w["lanes"], w["deleted"], w["ended"]) for w in walk] == [(1, 0, False), (1, 1, False), (0, 0, True)]


def test_a_lane_in_use_is_passed_over(connect):
    a, b = connect(), connect()
    a.push("x")
    a.push("y", partition="p2")
    a.run("BEGIN")
    a.push("z")
    assert sweep(b, RETENTION) == 1
    a.run("COMMIT")
    assert bases(b) == [0, 1] and bases(b, partition="p2") == []
    assert sweep(b, RETENTION) == 2


def test_leased_messages_go_and_their_acks_are_honest(b):
    b.configure("q", retry_limit=0)
    b.push("a", "b")
    b.claim()
    assert sweep(b, MAX_WAIT) == 1
    r = b.settle(b.lane_id(), ("a", 1))
    assert r["poison_item"] == 0 and r["seg_base"] is None and not r["lease_released"]
    r = b.settle(b.lane_id(), ("a", COMPLETED), ("b", COMPLETED))
    assert [t[0] for t in r["told"]] == ["completed", "completed"] and r["lease_released"] and not r["has_more"]


def test_consumers_resume_behind_the_gap(b):
    for k in range(4):
        b.push("m%d" % k)
    b.register("g")
    assert b.ids(lease="", budget=1) == ["m0"]
    age(b, 100, upto=2)
    assert sweep(b, RETENTION, cutoff=now_us(b) - 50 * 10**6) == 3
    got = b.claim()["lanes"][0]
    assert (got["first_offset"], got["batch_end"], got["ids"]) == (3, 3, ["m3"])


def test_an_empty_lane_is_no_work(b):
    b.push("a", "b")
    b.register("g")
    assert sweep(b, RETENTION) == 1
    assert b.claim()["lanes"] == [] and b.claim(candidates=[b.lane_id()])["lanes"] == []
    b.push("c")
    assert b.ids() == ["c"]


def test_a_scan_after_a_mark_of_emptiness_finds_what_comes_next(b):
    """consumer_watermarks of a lane that was swept empty, deleted and made again."""
    b.push("a")
    b.register("g")
    b.claim(lease="")
    assert b.claim()["lanes"] == []
    assert b.one("SELECT count(*) FROM queen.consumer_watermarks") == 1
    assert sweep(b, RETENTION) == 1 and sweep(b, HASHES) == 1
    old = b.lane_id()
    b.run("UPDATE queen.log_consumers SET created_at = '2020-01-01'")
    b.run("UPDATE queen.log_partitions SET created_at = '2020-01-01', last_write_at = '2020-01-01'")
    assert sweep(b, LANES) == 1
    b.push("b")
    assert b.lane_id() != old and b.ids() == ["b"]


# hashes

def test_hashes_of_settled_messages_go(b):
    for k in range(3):
        b.push("m%d" % k)
    b.register("g")
    assert sweep(b, HASHES) == 0, "they can still be acknowledged"
    b.claim(lease="", budget=2)
    assert sweep(b, HASHES) == 2
    assert bases(b, "log_txns") == [2]
    assert check(b)["txns_start"] == 2
    assert sweep(b, RETENTION) == 3 and sweep(b, HASHES) == 1
    assert check(b)["txns_start"] == 3 and lane(b)["oldest_txn_at"] is None


def test_a_backlog_older_than_every_window_can_be_acknowledged(b):
    b.push("m")
    age(b, 10**6)
    assert sweep(b, HASHES) == 0
    b.claim()
    assert b.settle(b.lane_id(), ("m", COMPLETED))["told"] == [("completed", "ok")]
    assert sweep(b, HASHES) == 1
    assert b.settle(b.lane_id(), ("m", COMPLETED), lease="")["told"] == [("rejected", "unresolvable")]


def test_hashes_of_deleted_messages_still_tell_duplicates(b):
    b.push("m")
    assert sweep(b, RETENTION) == 1
    assert b.push("m")["status"] == 1
    assert sweep(b, HASHES) == 1
    assert b.push("m")["status"] == 0
    check(b)


# lanes

def rest(b, days=100, partition="p"):
    """A lane that was emptied and has rested for a while."""
    b.push("a", partition=partition)
    b.register("g")
    b.claim_lane(lease="", partition=partition)
    b.run("UPDATE queen.log_partitions SET last_write_at = last_write_at - make_interval(days => $1), "
          "created_at = created_at - make_interval(days => $1) WHERE id = $2", days, b.lane_id(partition=partition))
    b.run("UPDATE queen.log_consumers SET created_at = created_at - make_interval(days => $1) WHERE partition_id = $2", days,
          b.lane_id(partition=partition))
    assert sweep(b, RETENTION) == 1 and sweep(b, HASHES) == 1
    return b.lane_id(partition=partition)


def dead(b, days=30):
    return sweep(b, LANES, cutoff=now_us(b) - days * 86400 * 10**6)


def test_a_quiet_lane_goes_and_comes_back_anew(b):
    old = rest(b)
    assert dead(b) == 1
    assert history(b, old) == [("retention", 1), ("__partition_deleted__", 0)]
    for table in ("log_segments", "log_txns", "log_consumers"):
        assert b.one("SELECT count(*) FROM queen.%s" % table) == 0
    assert b.claim(candidates=[old])["verdicts"][old]["n"] == 5
    assert b.settle(old, ("a", COMPLETED))["told"] == [("rejected", "no consumer")]
    row = b.push("n", id=old, verified=1000)
    assert row["base_offset"] == 0 and row["partition_id"] != old
    assert b.ids() == ["n"]


def test_what_was_verified_of_a_lane_says_nothing_of_its_successor(b):
    old = rest(b)
    assert dead(b) == 1
    b.push("n")
    row = b.push("n", id=old, verified=1000)
    assert (row["status"], row["dup_offset"]) == (1, [0])


def veto(b, sql, *args):
    rest(b)
    b.run(sql, *args)
    assert dead(b) == 0
    assert b.lane_id() is not None


def test_messages_keep_a_lane(b):
    rest(b)
    b.push("n")
    b.run("UPDATE queen.log_partitions SET last_write_at = '2020-01-01'")
    assert dead(b) == 0 and bases(b) == [1]


def test_hashes_keep_a_lane(b):
    rest(b)
    b.push("n")
    assert sweep(b, RETENTION) == 1
    b.run("UPDATE queen.log_partitions SET last_write_at = '2020-01-01'")
    assert dead(b) == 0
    assert sweep(b, HASHES) == 1
    assert dead(b) == 1


def test_dead_letters_keep_a_lane(b):
    veto(b, "INSERT INTO queen.log_dlq (partition_id, consumer_group, \"offset\") SELECT id, 'g', 0 FROM queen.log_partitions")
    b.run("DELETE FROM queen.log_dlq")
    assert dead(b) == 1


def test_a_live_lease_keeps_a_lane(b):
    veto(b, "UPDATE queen.log_consumers SET worker_id = 'L', lease_expires_at = now() + interval '1 minute', "
            "lease_acquired_at = '2020-01-01'")
    b.run("UPDATE queen.log_consumers SET lease_expires_at = '2020-01-01'")
    assert dead(b) == 1


def test_a_recent_lease_keeps_a_lane(b):
    veto(b, "UPDATE queen.log_consumers SET worker_id = 'L', lease_expires_at = now() - interval '1 day', "
            "lease_acquired_at = now() - interval '2 days'")


def test_a_recent_cursor_keeps_a_lane(b):
    veto(b, "UPDATE queen.log_consumers SET created_at = now()")


def test_a_recent_push_keeps_a_lane(b):
    veto(b, "UPDATE queen.log_partitions SET last_write_at = now()")


def test_a_recent_birth_keeps_a_lane(b):
    veto(b, "UPDATE queen.log_partitions SET created_at = now()")


def test_a_push_that_waits_for_a_lane_being_deleted_makes_it_anew(connect):
    a, b = connect(), connect()
    old = rest(a)
    fence = turn(a)["fence"]
    a.run("BEGIN")
    assert step(a, fence, LANES, rule(a))[0]["deleted"] == 1
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        pushed = pool.submit(b.push, "n", id=old)
        while not a.one("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"):
            assert not pushed.done()
        a.run("COMMIT")
        row = pushed.result(30)
    assert row["base_offset"] == 0 and row["partition_id"] != old


# bookkeeping

def test_old_history_goes_in_steps(b):
    b.push("a")
    b.run("INSERT INTO queen.retention_history (partition_id, messages_deleted, retention_type, executed_at) "
          "SELECT $1, i, 'retention', CASE WHEN i > 5 THEN now() ELSE now() - interval '91 days' END "
          "FROM generate_series(1, 8) i", b.lane_id())
    b.run("INSERT INTO queen.consumer_watermarks SELECT id, 'old', now(), now() - interval '91 days' FROM queen.queues "
          "UNION ALL SELECT id, 'new', now(), now() FROM queen.queues")
    fence = turn(b)["fence"]
    r = dict(queue=None, cutoff=now_us(b) - 90 * 86400 * 10**6, at=0, after=None)
    steps = [step(b, fence, BOOKS, r, batch=4)[0] for _ in range(2)]
    assert [(s["deleted"], s["ended"]) for s in steps] == [(4, False), (2, True)]
    assert sorted(m for _, m in history(b, b.lane_id())) == [6, 7, 8]
    assert b.one("SELECT string_agg(consumer_group, ',') FROM queen.consumer_watermarks") == "new"


# cost

def test_rows_read_follow_what_a_step_takes(b):
    """Neither the lanes that are not due nor the rest of a lane is read, on plans made while the tables were empty."""
    b.push("first", partition="warm")
    b.register("g")
    for kind in (RETENTION, FINISHED, HASHES, LANES):
        sweep(b, kind)
    for start in range(0, 4000, 500):
        b.push_lanes([dict(partition="p%d" % p, ids=["a"]) for p in range(start, start + 500)])
    b.push_lanes([dict(partition="long", ids=["a"])])
    for k in range(300):
        b.push("x%d" % k, partition="long")
    b.run("UPDATE queen.log_partitions SET oldest_live_at = oldest_live_at - interval '1 day', "
          "oldest_txn_at = oldest_txn_at - interval '1 day' WHERE name IN ('p0', 'p1', 'long')")
    b.run("UPDATE queen.log_segments SET created_at = created_at - interval '1 day' WHERE partition_id IN "
          "(SELECT id FROM queen.log_partitions WHERE name IN ('p0', 'p1') UNION SELECT $1) AND base_offset = 0",
          b.lane_id(partition="long"))
    fence, r = turn(b)["fence"], rule(b, cutoff=now_us(b) - 3600 * 10**6)
    for kind, most in ((FINISHED, 60), (HASHES, 60), (RETENTION, 90)):
        r.update(at=0, after=None)
        assert cost(b, lambda: step(b, fence, kind, r, batch=6)) <= most, kind
    assert lane(b, partition="p0")["log_start"] == 1 and lane(b, partition="long")["log_start"] == 1
    assert cost(b, lambda: turn(b, fence=fence)) <= 20
