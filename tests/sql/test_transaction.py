# SPDX-License-Identifier: Apache-2.0
"""transaction_v1: nothing of a refused call stays, locks meet those of the other functions in one order, and its cost
follows the lanes of the call."""
import random

import pytest

from broker import COMPLETED, DLQ, FAILED, OTHER, RETRY
from libpq import Error
from test_concurrency import Background, in_threads
from test_storage import cost

TABLES = ("queues", "log_partitions", "log_segments", "log_txns", "log_consumers", "log_dlq")


def contents(b):
    return [b.one("SELECT md5(COALESCE(string_agg(t::text, ',' ORDER BY t::text), '')) FROM queen.%s t" % t) for t in TABLES]


def ack(lane, *items, **more):
    return dict(more, id=lane, items=items)


def test_what_commits(b):
    lane = b.push("a", "b", "c")["partition_id"]
    b.claim_lane()
    r = b.transaction([dict(queue="out", partition="1", ids=["x", "y"]), dict(partition="p", ids=["d"])],
                      [ack(lane, ("a", COMPLETED), ("b", DLQ), lease="L")], letters=[(0, 1)])
    assert (r["verdict"], r["about"]) == ("committed", 0)
    assert [(p["lane"], p["status"], p["base_offset"]) for p in r["pushed"]] == [(0, 0, 0), (1, 0, 3)]
    assert [(p["encryption_enabled"], p["delayed_processing"], p["window_buffer"]) for p in r["pushed"]] == [(False, 0, 0)] * 2
    assert r["acked"][0]["outcomes"] == [0, 4] and r["acked"][0]["dedup_window_s"] is None
    assert [(f["lane"], f["has_more"]) for f in r["filed"]] == [(0, True)]
    assert b.cursor(lane)["committed"] == 1 and b.cursor(lane)["worker_id"] is None
    assert b.one('SELECT "offset" FROM queen.log_dlq WHERE payload = \'{}\' AND error = \'why\'') == 1
    assert b.ids() == ["c", "d"]


@pytest.mark.parametrize("verdict, about, call", [
    ("duplicate", 1, dict(pushes=[dict(queue="fresh", ids=["n"]), dict(ids=["new", "a"])])),
    ("window", 0, dict(pushes=[dict(queue="fresh", ids=["n"], repeats=2)])),
    ("unsealed", 0, dict(pushes=[dict(queue="secret", ids=["n"])])),
    ("fence", 1, dict(pushes=[dict(queue="fresh", ids=["n"])], fence=["L", "M"])),
    ("not owned", 1, dict(acks=[("a", COMPLETED), None])),
    ("no consumer", 0, dict(acks=[("a", COMPLETED)], group="nobody")),
    ("bad lease", 0, dict(acks=[("a", COMPLETED)], lease="M")),
    ("unknown", 0, dict(acks=[("ghost", COMPLETED)], lease="L")),
    ("poisoned", 0, dict(acks=[("a", DLQ)], lease="L")),
])
def test_a_refused_call_leaves_no_trace(b, verdict, about, call):
    b.configure("secret", encryption_enabled=True)
    lane = b.push("a", "b")["partition_id"]
    b.claim_lane()
    before = contents(b)
    acks = [ack(lane if item else "00000000-0000-0000-0000-0000000000ff", item or ("a", RETRY), group=call.get("group", "g"),
                lease=call.get("lease", "")) for item in call.get("acks", ())]
    r = b.transaction(call.get("pushes", [dict(queue="fresh", ids=["n"])]), acks, call.get("fence", ()))
    assert (r["verdict"], r["about"]) == (verdict, about)
    assert contents(b) == before


def test_other_tenants_lanes_and_leases_do_not_exist(b):
    lane = b.push("a")["partition_id"]
    b.claim_lane()
    before = contents(b)
    assert b.transaction((), [ack(lane, ("a", COMPLETED))], tenant=OTHER)["verdict"] == "not owned"
    assert b.transaction((), (), ["L"], tenant=OTHER)["verdict"] == "fence"
    assert contents(b) == before


def test_arrays_that_do_not_agree_are_refused(b):
    with pytest.raises(Error) as e:
        b.run("SELECT * FROM queen.transaction_v1($1,'{q}','{p}','{NULL}','{1}','{1}','{f}',$2,'{-1}',$2,'{0}','{}',"
              "'{}','{}','{}','{}','','{}','{}',false,'','{}','{}','{}','{}','{}','{}')", OTHER, [b"0123456789abcdef"])
    assert e.value.sqlstate == "22023"
    assert b.one("SELECT count(*) FROM queen.queues") == 0


def test_an_error_inside_undoes_everything_and_is_told(b):
    lane = b.push("a")["partition_id"]
    b.claim_lane()
    before = contents(b)
    with pytest.raises(Error) as e:
        b.run("SELECT * FROM queen.transaction_v1($1,'{q}','{p}','{NULL}','{1}','{1}','{f}',$2,'{-1}',$2,'{0}','{0}',"
              "'{}','{}','{}','{}','','{}','{}',false,'','{}','{}','{}','{}','{}','{}')", OTHER, [b"short"])
    assert e.value.sqlstate == "23514"
    assert contents(b) == before and lane


def test_it_waits_for_a_push_of_its_lane_and_sees_what_it_stored(b, connect):
    b.push("first")
    one, two = connect(), connect()
    one.run("BEGIN")
    one.push("same")
    waiting = Background(b, two, lambda: two.transaction([dict(ids=["same"])]))
    one.run("COMMIT")
    assert waiting.end()["verdict"] == "duplicate"


def test_a_push_waits_for_it(b, connect):
    b.push("first")
    one, two = connect(), connect()
    one.run("BEGIN")
    assert one.transaction([dict(ids=["same"])])["verdict"] == "committed"
    waiting = Background(b, two, lambda: two.push("same"))
    one.run("COMMIT")
    assert waiting.end()["dup_offset"] == [1]


def test_a_refused_call_gives_its_locks_back_at_once(b, connect):
    lane = b.push("a")["partition_id"]
    b.claim_lane()
    one, two = connect(), connect()
    one.run("BEGIN")
    assert one.transaction([dict(ids=["b"])], [ack(lane, ("ghost", COMPLETED), lease="L")])["verdict"] == "unknown"
    two.run("SET lock_timeout = '5s'")
    assert two.push("c")["base_offset"] == 1
    assert two.settle(lane, ("a", COMPLETED))["lease_released"]
    one.run("COMMIT")


def test_a_lease_is_judged_when_the_lock_is_had(b, connect):
    lane = b.push("a")["partition_id"]
    b.claim_lane(lease_s=600)
    for call in (dict(fence=["L"]), dict(acks=[ack(lane, ("a", COMPLETED), lease="L")])):
        one, two = connect(), connect()
        one.run("BEGIN")
        one.expire(lane)
        waiting = Background(b, two, lambda: two.transaction((), call.get("acks", ()), call.get("fence", ())))
        one.run("COMMIT")
        assert waiting.end()["verdict"] in ("fence", "bad lease")
        b.run("UPDATE queen.log_consumers SET lease_expires_at = now() + interval '1 hour'")


def test_a_fence_keeps_its_lease_until_the_commit(b, connect):
    lane = b.push("a")["partition_id"]
    b.claim_lane()
    one, two = connect(), connect()
    one.run("BEGIN")
    assert one.transaction([dict(queue="out", ids=["x"])], (), ["L"])["verdict"] == "committed"
    waiting = Background(b, two, lambda: two.settle(lane, ("a", COMPLETED)))
    one.run("COMMIT")
    assert waiting.end()["lease_released"]


def test_no_deadlock_against_push_claim_and_settle(b, connect):
    """Transactions that move messages in a ring of queues, in every direction, among the other calls."""
    names = ["p%d" % p for p in range(12)]
    ids = {r["ord"]: r["partition_id"] for r in b.push_lanes([dict(queue="ring", partition=n, ids=["seed"]) for n in names])}
    lanes = [ids[i] for i in range(12)]
    b.claim(source=0, queue="ring", budget=1000)

    def mover(n):
        own, order = connect(), random.Random(n)

        def run():
            done = 0
            for k in range(40):
                to = order.sample(names, 4)
                of = order.sample(lanes, 4)
                r = own.transaction([dict(queue="ring", partition=p, ids=["%d-%d" % (n, k)]) for p in to],
                                    [ack(lane, ("seed", COMPLETED), group=order.choice("gh")) for lane in of],
                                    ["L"] if k % 2 else [])
                done += r["verdict"] == "committed"
            return done
        return run

    def others(n):
        own, order = connect(), random.Random(100 + n)

        def run():
            for k in range(40):
                own.push_lanes([dict(queue="ring", partition=p, ids=["o%d-%d" % (n, k)]) for p in order.sample(names, 6)])
                own.claim("h", queue="ring", lease="H%d-%d" % (n, k), budget=50)
                own.settle_lanes([ack(lane, ("seed", FAILED), group="h", lease="H%d-%d" % (n, k))
                                  for lane in order.sample(lanes, 6)])
            return 0
        return run
    moved = in_threads(*[mover(n) for n in range(4)], *[others(n) for n in range(3)])
    assert sum(moved) > 0
    assert b.one("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()") == 0
    assert b.one("SELECT count(*) FROM queen.log_partitions p WHERE last_offset + 1 <> "
                 "(SELECT sum(end_offset - base_offset + 1) FROM queen.log_segments s WHERE s.partition_id = p.id)") == 0


def test_rows_read_follow_the_lanes_of_the_call(b):
    """Also on plans made while the tables were empty."""
    b.push("a")
    b.claim()
    b.transaction([dict(ids=["b"])], [ack(b.lane_id(), ("a", COMPLETED), lease="L")], ["L"])
    for start in range(0, 2000, 500):
        b.push_lanes([dict(partition="p%d" % p, ids=["a", "b"]) for p in range(start, start + 500)])
    b.register("g2")
    for n in (1, 10, 100, 400):
        ids = [b.lane_id(partition="p%d" % p) for p in range(n)]
        b.claim("g2", candidates=ids, budget=10000, lease="M%d" % n)
        read = cost(b, lambda: b.transaction(
            [dict(partition="p%d" % (1000 + p), ids=["x%d" % n]) for p in range(n)],
            [ack(i, ("b", COMPLETED), group="g2") for i in ids], ["M%d" % n], True, "M%d" % n))
        assert read <= 24 * n, (n, read)
        assert b.cursor(ids[-1], "g2")["committed"] == 1
        for i in ids:
            b.run("UPDATE queen.log_consumers SET committed = -1 WHERE partition_id = $1 AND consumer_group = 'g2'", i)


def test_it_does_not_read_the_history_of_a_lane(b):
    for n in range(400):
        b.push("x%d" % n)
    lane = b.lane_id()
    b.claim_lane(lease="", budget=400)
    b.push("last")
    b.claim_lane()
    last = b.one("SELECT last_offset FROM queen.log_partitions")
    assert cost(b, lambda: b.transaction([dict(queue="q", ids=["new"], id=lane, verified=last)],
                                         [ack(lane, ("last", COMPLETED), lease="L")])) <= 60
