# SPDX-License-Identifier: Apache-2.0
"""What several sessions do at once. Order is arranged with locks and with pg_stat_activity, never by sleeping."""
import random
import threading
import time

from broker import BUSY, COMPLETED, FAILED, QUEUED, TENANT, TOOK, UNSEALED
from libpq import Error


def in_threads(*functions):
    """Runs all at once; the first error of any is raised here. Returns what they returned."""
    results, errors = [None] * len(functions), []
    gate = threading.Barrier(len(functions))

    def run(i):
        try:
            gate.wait()
            results[i] = functions[i]()
        except BaseException as e:
            errors.append(e)
    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(functions))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if errors:
        raise errors[0]
    return results


class Background:
    """One statement that is expected to wait for a lock."""

    def __init__(self, watcher, broker, call):
        self.pid = broker.one("SELECT pg_backend_pid()")
        self.result = None
        self.thread = threading.Thread(target=self._run, args=(call,))
        self.thread.start()
        deadline = time.monotonic() + 20
        while watcher.one("SELECT count(*) FROM pg_stat_activity WHERE pid = $1 AND wait_event_type = 'Lock'", self.pid) == 0:
            assert time.monotonic() < deadline and self.thread.is_alive(), "it does not wait"

    def _run(self, call):
        self.result = call()

    def end(self):
        self.thread.join()
        return self.result


def test_pushers_of_one_lane_make_dense_offsets_in_time_order(b, connect):
    def pusher(n):
        own = connect()
        return lambda: [own.push(*["%d-%d-%d" % (n, i, k) for k in range(1 + i % 3)])["status"] for i in range(60)]
    results = in_threads(*[pusher(n) for n in range(4)])
    assert {s for r in results for s in r} == {QUEUED}
    rows = b.run("SELECT base_offset, end_offset, queen.to_us(created_at) AS at FROM queen.log_segments ORDER BY base_offset")
    assert [r["base_offset"] for r in rows] == [0] + [r["end_offset"] + 1 for r in rows[:-1]]
    assert [r["at"] for r in rows] == sorted(r["at"] for r in rows)
    assert b.one("SELECT last_offset FROM queen.log_partitions") == rows[-1]["end_offset"] == 4 * 60 * 2 - 1


def test_a_push_that_waited_sees_the_duplicate_of_the_one_before(b, connect):
    b.push("first")
    one, two = connect(), connect()
    one.run("BEGIN")
    one.push("same")
    waiting = Background(b, two, lambda: two.push("new", "same"))
    one.run("COMMIT")
    r = waiting.end()
    assert (r["dup_index"], r["dup_offset"]) == ([1], [1])


def test_a_rolled_back_push_leaves_no_gap(b, connect):
    b.push("first")
    one = connect()
    one.run("BEGIN")
    assert one.push("lost")["base_offset"] == 1
    one.run("ROLLBACK")
    assert b.push("lost")["base_offset"] == 1


def test_a_changed_flag_is_seen_by_a_push_that_waits_for_it(b, connect):
    b.configure("q")
    b.push("a")
    one, two = connect(), connect()
    one.run("BEGIN")
    one.configure("q", encryption_enabled=True)
    for name, partition in (("known", "p"), ("lane to be made", "new")):
        waiting = Background(b, two, lambda: two.push(name, partition=partition))
        if partition == "new":
            one.run("COMMIT")
            assert waiting.end()["status"] == UNSEALED
        else:
            one.run("COMMIT")
            assert waiting.end()["status"] == UNSEALED
            b.configure("q")
            one.run("BEGIN")
            one.configure("q", encryption_enabled=True)
    assert b.one("SELECT count(*) FROM queen.log_segments") == 1


def test_turning_encryption_on_waits_for_pushes_in_flight(b, connect):
    b.configure("q")
    b.push("a")
    one, two = connect(), connect()
    one.run("BEGIN")
    assert one.push("b")["status"] == QUEUED
    waiting = Background(b, two, lambda: two.configure("q", encryption_enabled=True))
    one.run("COMMIT")
    waiting.end()
    assert b.push("c")["status"] == UNSEALED


def test_a_claim_skips_a_locked_lane_and_says_so(b, connect):
    lanes = [b.push("a", partition=p)["partition_id"] for p in ("p1", "p2")]
    b.register("g")
    one = connect()
    one.run("BEGIN")
    one.claim(candidates=[lanes[0]])
    got = b.claim(lease="L2", candidates=lanes)
    assert [got["verdicts"][lane]["n"] for lane in lanes] == [BUSY, TOOK]
    assert not got["contended"]
    got = b.claim(lease="L3", candidates=lanes[:1])
    assert (got["lanes"], got["contended"]) == ([], True)
    one.run("ROLLBACK")
    assert b.claim(lease="L4", candidates=lanes[:1])["lanes"]


def test_first_contact_of_two_claims_does_not_wait(b, connect):
    lane = b.push("a")["partition_id"]
    one = connect()
    one.run("BEGIN")
    assert one.claim(candidates=[lane])["lanes"]
    got = b.claim(lease="L2", candidates=[lane])
    assert (got["verdicts"][lane]["n"], got["contended"]) == (BUSY, True)
    one.run("COMMIT")
    assert b.one("SELECT count(*) FROM queen.log_consumers") == 1


def test_claims_never_share_a_lane(b, connect):
    b.push_lanes([dict(partition=str(i), ids=["m%d" % i]) for i in range(200)])
    b.register("g")

    def claimer(n):
        own = connect()

        def run():
            taken = []
            for i in range(30):
                taken += own.ids(lease="%d-%d" % (n, i), budget=7)
            return taken
        return run
    results = in_threads(*[claimer(n) for n in range(6)])
    delivered = [i for r in results for i in r]
    assert len(delivered) == len(set(delivered)) == 200


def test_a_claim_waits_neither_for_pushes_nor_for_settles(b, connect):
    lanes = [b.push("a", "b", partition=p)["partition_id"] for p in ("p1", "p2", "p3")]
    b.register("g")
    b.claim(candidates=lanes[:1])
    b.run("SET lock_timeout = '1ms'")
    one, two = connect(), connect()
    one.run("BEGIN")
    one.push("c", partition="p2")
    two.run("BEGIN")
    two.settle(lanes[0], ("b", COMPLETED))
    got = b.claim(lease="L2", candidates=lanes)
    assert [x["partition"] for x in got["lanes"]] == ["p2", "p3"]
    assert b.claim("brand new group", lease="L3", candidates=lanes)["lanes"][0]["partition"] == "p1"


def test_settles_of_one_lane_are_decided_one_after_the_other(b, connect):
    lane = b.push("a", "b", "c")["partition_id"]
    b.claim_lane()
    one, two = connect(), connect()
    one.run("BEGIN")
    one.settle(lane, ("b", FAILED))
    waiting = Background(b, two, lambda: two.settle(lane, ("c", COMPLETED)))
    one.run("COMMIT")
    r = waiting.end()
    assert (r["told"], r["committed"]) == ([("rejected", "bad lease")], -1)
    assert b.cursor(lane)["batch_retry_count"] == 1


def test_a_settle_that_waited_is_judged_by_the_clock_then(b, connect):
    lane = b.push("a")["partition_id"]
    b.claim_lane(lease_s=600)
    one, two = connect(), connect()
    one.run("BEGIN")
    one.expire(lane)
    waiting = Background(b, two, lambda: two.settle(lane, ("a", COMPLETED)))
    one.run("COMMIT")
    assert waiting.end()["told"] == [("rejected", "bad lease")]


def test_settles_over_many_lanes_in_any_order_do_not_deadlock(b, connect):
    lanes = [r["partition_id"] for r in b.push_lanes([dict(partition=str(p), ids=["%d" % i for i in range(40)])
                                                      for p in range(25)])]
    b.claim(budget=1000)

    def settler(n):
        own, order = connect(), random.Random(n)

        def run():
            for i in range(n, 40, 4):
                calls = [dict(id=lane, items=[(str(i), COMPLETED)], lease="") for lane in lanes]
                order.shuffle(calls)
                own.settle_lanes(calls)
        return run
    in_threads(*[settler(n) for n in range(4)])
    assert {b.cursor(lane)["committed"] for lane in lanes} == {39}


def test_two_hundred_clients_create_a_thousand_lanes_at_once(b, connect):
    def creator(n):
        own, order = connect(), random.Random(n)

        def run():
            lanes = [dict(queue="q%d" % (p % 5), partition=str(p), ids=["%d-%d" % (n, p)])
                     for p in order.sample(range(1000), 20)]
            rows = own.push_lanes(lanes + [dict(queue="q%d" % (p % 5), partition=str(p), ids=["%d+%d" % (n, p)])
                                           for p in range(n * 5, n * 5 + 5)
                                           if all(lane["partition"] != str(p) for lane in lanes)])
            return {r["status"] for r in rows}
        return run
    assert set().union(*in_threads(*[creator(n) for n in range(200)])) == {QUEUED}
    assert b.one("SELECT count(*) FROM queen.log_partitions") == 1000
    assert b.one("SELECT count(*) FROM queen.log_partitions p WHERE last_offset + 1 <> "
                 "(SELECT sum(end_offset - base_offset + 1) FROM queen.log_segments s WHERE s.partition_id = p.id)") == 0
    assert b.one("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()") == 0


def test_registration_seeds_once(b, connect):
    b.push_lanes([dict(partition=str(i), ids=["x"]) for i in range(50)])

    def registrar():
        own = connect()
        return lambda: own.register("g")["registered"]
    assert sorted(in_threads(*[registrar() for _ in range(8)])) == [False] * 7 + [True]
    assert b.one("SELECT count(*) FROM queen.log_consumers") == 50


def test_deleting_a_queue_in_use(b, connect):
    done = threading.Event()

    def user():
        own = connect()

        def run():
            n = 0
            while not done.is_set():
                n += 1
                lane = own.push("m%d" % n)["partition_id"]
                try:
                    own.claim(lease="L")
                    own.settle(lane, ("m%d" % n, COMPLETED))
                except Error as e:
                    assert e.sqlstate in ("40001", "40P01"), e
            return n
        return run

    def deleter():
        own = connect()

        def run():
            deleted = 0
            try:
                while deleted < 40:
                    deleted += own.one("SELECT existed FROM queen.delete_queue_v1($1, 'q')", TENANT)
                return deleted
            finally:
                done.set()
        return run
    one, other, deletions = in_threads(user(), user(), deleter())
    assert one + other >= deletions == 40, "each queue that was deleted had been born by a push"
    for table in ("log_txns", "log_segments", "log_consumers"):
        assert b.one("SELECT count(*) FROM queen.%s t WHERE NOT EXISTS (SELECT 1 FROM queen.log_partitions p "
                     "WHERE p.id = t.partition_id)" % table) == 0
