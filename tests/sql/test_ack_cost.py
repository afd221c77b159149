# SPDX-License-Identifier: Apache-2.0
"""What an acknowledgement costs does not depend on how much its lane has behind or before it. Run with -s, the tests
print what they measured."""
import time

import pytest

from broker import COMPLETED, FAILED, Broker

SMALL, LARGE = 10_000, 10_000_000
KNOWN_NEW = 2 * LARGE
NOOP, GHOST = ("noop", "ok"), ("rejected", "unresolvable")


@pytest.fixture(scope="module")
def lanes(server):
    """A database with two lanes, a short history and a long one, all of it consumed by group g."""
    server.admin("CREATE DATABASE histories TEMPLATE template OWNER broker")
    b = Broker(server.session("histories"))
    for name, size in (("small", SMALL), ("large", LARGE)):
        lane = b.push("first", partition=name)["partition_id"]
        # A hash of 64 bytes is four of 16.
        b.run("INSERT INTO queen.log_txns SELECT $1, k * 100 + 1, k * 100 + 100, now() - interval '1 minute', "
              "(SELECT string_agg(sha512(int8send(k * 25 + i)), '') FROM generate_series(0, 24) i) "
              "FROM generate_series(0::int8, $2::int8 / 100 - 1) k", lane, size)
        b.run("UPDATE queen.log_partitions SET last_offset = $2 WHERE id = $1", lane, size)
        b.run("INSERT INTO queen.log_consumers (partition_id, consumer_group, committed) VALUES ($1, 'g', $2)", lane, size)
    b.run("ANALYZE queen.log_txns")
    yield b
    b.db.close()
    server.admin("DROP DATABASE histories WITH (FORCE)")


def work(b, call):
    """Rows and blocks of all tables and indexes that a call touches."""
    def sums():
        b.run("SELECT pg_stat_force_next_flush()")
        return b.run("SELECT sum(idx_tup_fetch + seq_tup_read)::int8 AS rows FROM pg_stat_user_tables "
                     "WHERE relname LIKE 'log%'")[0]["rows"], b.run(
                         "SELECT sum(COALESCE(heap_blks_hit + heap_blks_read, 0) + COALESCE(idx_blks_hit + idx_blks_read, 0)"
                         " + COALESCE(toast_blks_hit + toast_blks_read, 0) + COALESCE(tidx_blks_hit + tidx_blks_read, 0))"
                         "::int8 AS blocks FROM pg_statio_user_tables WHERE relname LIKE 'log%'")[0]["blocks"]
    before = sums()
    call()
    return [a - was for a, was in zip(sums(), before)]


def next_batch(b, partition, tag, backlog=0):
    """A leased batch of 100 in one segment, with more behind it and nothing open before it."""
    b.run("UPDATE queen.log_consumers c SET committed = p.last_offset, batch_end = NULL, worker_id = NULL, "
          "lease_expires_at = NULL FROM queen.log_partitions p WHERE p.id = c.partition_id AND p.name = $1", partition)
    ids = ["%s-%s-%d" % (partition, tag, i) for i in range(100)]
    for batch in [ids] + [["%s-later-%d" % (i, k) for i in ids] for k in range(backlog)]:
        # Vouched for, so that the push does not search the history.
        b.push(*batch, partition=partition, id=b.lane_id(partition=partition), verified=KNOWN_NEW)
    b.claim_lane(partition=partition, budget=100, lease=tag)
    return ids


def both(b, prepare, call, name):
    """The work of the same call on both lanes, the second time it is made in the session."""
    got = {}
    for partition in ("small", "large"):
        for tag in ("warm", "measured"):
            ids = prepare(partition, name + tag)
            got[partition] = work(b, lambda: call(b.lane_id(partition=partition), ids, name + tag))
    print("%s: rows and blocks with %d messages %s, with %d messages %s" % (name, SMALL, got["small"], LARGE, got["large"]))
    small, large = got["small"], got["large"]
    # Versions of a row that are not pruned yet count as rows, and a page that fills up while the test writes as a block;
    # the histories differ by a hundred thousand rows.
    assert large[0] <= small[0] + 3 and large[1] <= small[1] + 4, got
    return large


def completes(b, lease=None, told=("completed", "ok")):
    def call(lane, ids, tag):
        lane_told = b.settle(lane, *[(i, COMPLETED) for i in ids], lease=tag if lease is None else lease)["told"]
        assert lane_told == [told] * len(ids)
    return call


def acked(b, partition, tag, **more):
    ids = next_batch(b, partition, tag, **more)
    completes(b)(b.lane_id(partition=partition), ids, tag)
    return ids


def test_the_newest_batch(lanes):
    b = lanes
    rows, _ = both(b, lambda p, t: next_batch(b, p, t), completes(b), "batch")
    assert rows <= 16
    rows, _ = both(b, lambda p, t: next_batch(b, p, t), lambda lane, ids, tag: b.settle(
        lane, *[(i, FAILED if i == ids[50] else COMPLETED) for i in ids], lease=tag), "failed")
    assert rows <= 16


def test_a_repeated_acknowledgement(lanes):
    b = lanes
    both(b, lambda p, t: acked(b, p, t), completes(b, told=NOOP), "repeated")
    both(b, lambda p, t: acked(b, p, t), completes(b, lease="", told=NOOP), "repeated without lease")

    def while_the_next_is_out(partition, tag):
        ids = acked(b, partition, tag)
        next_batch(b, partition, tag + "next")
        return ids
    both(b, while_the_next_is_out, completes(b, told=NOOP), "repeated late")


def test_a_repeated_acknowledgement_with_a_backlog(lanes):
    """Without a lease and without a batch also the backlog could hold the ids: it is read when the queue may have them
    twice, and not otherwise."""
    b = lanes
    ids = acked(b, "small", "ahead", backlog=200)
    lane = b.lane_id(partition="small")
    call = completes(b, lease="", told=NOOP)
    assert work(b, lambda: call(lane, ids, ""))[0] <= 80
    b.configure("q", dedup_window_seconds=0)
    b.push(*ids, partition="small")
    assert b.settle(lane, (ids[-1], COMPLETED), lease="")["told"] == [("completed", "ok")]
    b.configure("q", dedup_window_seconds=3600)
    assert b.cursor(lane)["committed"] == b.one("SELECT last_offset FROM queen.log_partitions WHERE id = $1", lane)


def test_the_distance_below_the_cursor_bounds_the_search(lanes):
    b = lanes
    lane = b.lane_id(partition="large")
    acked(b, "large", "top")
    found = {}
    for back in (1000, 20_000, 400_000):
        at = LARGE - back
        b.run("UPDATE queen.log_txns SET hashes = overlay(hashes PLACING decode(md5($3), 'hex') FROM 1) "
              "WHERE partition_id = $1 AND base_offset = $2", lane, at + 1, "at%d" % back)
        started = time.monotonic()
        found[back] = work(b, lambda: completes(b, lease="", told=NOOP)(lane, ["at%d" % back], ""))[0]
        print("%d below the cursor: %d rows, %.1f ms" % (back, found[back], 1000 * (time.monotonic() - started)))
        assert found[back] <= 200 + 12 * back / 100
    for ids in (["nowhere"], ["nowhere%d" % i for i in range(100)]):
        started = time.monotonic()
        rows = work(b, lambda: completes(b, lease="", told=GHOST)(lane, ids, ""))[0]
        print("%d ids that are nowhere: %d rows, %.0f ms" % (len(ids), rows, 1000 * (time.monotonic() - started)))
        assert rows >= LARGE / 100
    # Outside the window nothing is looked at: neither found nor paid for.
    b.configure("q", dedup_window_seconds=0)
    b.run("UPDATE queen.log_txns SET created_at = now() - interval '901 seconds' WHERE partition_id = $1 "
          "AND base_offset <= $2", lane, LARGE - 300_000)
    b.run("VACUUM queen.log_txns")
    assert work(b, lambda: completes(b, lease="", told=GHOST)(lane, ["at400000"], ""))[0] <= 20_000
    b.configure("q", dedup_window_seconds=3600)
    completes(b, lease="", told=NOOP)(lane, ["at400000"], "")


def test_the_rate(lanes):
    """Printed, not judged."""
    b = lanes
    for partition in ("small", "large", "small", "large"):
        lane = b.lane_id(partition=partition)
        spent = 0.0
        for n in range(50):
            ids = next_batch(b, partition, "%f" % time.monotonic())
            lease = b.cursor(lane)["worker_id"]
            items = [(i, COMPLETED) for i in ids]
            started = time.monotonic()
            done = b.settle(lane, *items, lease=lease)
            spent += time.monotonic() - started
            assert done["lease_released"]
        print("%s: %.0f acks/s, one batch of 100 a call" % (partition, 5000 / spent))
