# SPDX-License-Identifier: Apache-2.0
"""What the schema promises about cost: HOT updates, look-ups by index at every size, blobs read only when delivered."""
from broker import COMPLETED, FAILED, TENANT, hash_of


def hot_share(b, table):
    b.run("SELECT pg_stat_force_next_flush()")
    row = b.run("SELECT n_tup_upd AS all, n_tup_hot_upd AS hot FROM pg_stat_user_tables WHERE schemaname = 'queen' "
                "AND relname = $1", table)[0]
    assert row["all"] > 100
    return row["hot"] / row["all"]


def test_updates_of_the_hot_tables_are_hot(b):
    lanes = [dict(partition=str(p), ids=["first"]) for p in range(20)]
    ids = [r["partition_id"] for r in b.push_lanes(lanes)]
    b.register("g")
    for n in range(30):
        b.push_lanes([dict(lane, ids=["m%d" % n]) for lane in lanes])
        b.claim(candidates=ids, budget=1000)
        b.settle_lanes([dict(id=i, lease="L", items=[("m%d" % n, FAILED if n % 5 == 0 else COMPLETED)]) for i in ids])
    assert hot_share(b, "log_consumers") > 0.95
    assert hot_share(b, "log_partitions") > 0.9


def reads(b):
    b.run("SELECT pg_stat_force_next_flush()")
    return b.run("SELECT sum(seq_tup_read)::int8 AS scanned, sum(idx_tup_fetch)::int8 AS fetched "
                 "FROM pg_stat_user_tables WHERE schemaname = 'queen' AND relname LIKE 'log%'")[0]


def hash_reads(b, call):
    count = "SELECT pg_stat_force_next_flush()", "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_user_tables " \
        "WHERE relname = 'log_txns'"
    b.run(count[0])
    before = b.one(count[1])
    call()
    b.run(count[0])
    return b.one(count[1]) - before


def cost(b, call):
    before = reads(b)
    call()
    after = reads(b)
    assert after["scanned"] == before["scanned"], "a sequential scan"
    return after["fetched"] - before["fetched"]


def test_rows_read_follow_the_lanes_of_the_call(b):
    """Also on plans made while the tables were empty, which a session keeps."""
    b.push("a")
    b.claim()
    b.settle(b.lane_id(), ("a", COMPLETED))
    for start in range(0, 3000, 500):
        b.push_lanes([dict(partition="p%d" % p, ids=["a", "b"]) for p in range(start, start + 500)])
    b.register("g2")
    for n in (1, 10, 100, 500):
        names = ["p%d" % p for p in range(n)]
        ids = [b.lane_id(partition=p) for p in names]
        pushed = cost(b, lambda: b.push_lanes([dict(partition=p, id=i, ids=["n%d" % n]) for p, i in zip(names, ids)]))
        claimed = cost(b, lambda: b.claim("g2", candidates=ids, budget=10000))
        settled = cost(b, lambda: b.settle_lanes([dict(id=i, group="g2", lease="L", items=[("n%d" % n, COMPLETED)])
                                                  for i in ids]))
        assert pushed <= 12 * n and claimed <= 24 * n and settled <= 16 * n, (n, pushed, claimed, settled)


def test_making_lanes_reads_no_other_lane_of_the_queue(b):
    """Before anybody told the planner how many lanes a queue may have."""
    for start in range(0, 2000, 500):
        lanes = [dict(partition="p%d" % p, ids=["a"]) for p in range(start, start + 500)]
        made = cost(b, lambda lanes=lanes: b.push_lanes(lanes))
        assert made <= 12 * 500, (start, made)


def test_extending_known_lanes_reads_them_alone(b):
    extend = "SELECT renewed FROM queen.extend_v1($1, 'L', 500, 'g', $2)"
    first = b.push("a", partition="first")["partition_id"]
    b.claim()
    release = "SELECT released FROM queen.release_v1($1, 'g', 'L', $2)"
    assert b.one(extend, TENANT, [first]) == 1
    assert b.one(release, TENANT, []) == 0
    for start in range(0, 1000, 500):
        b.push_lanes([dict(partition="p%d" % p, ids=["a"]) for p in range(start, start + 500)])
    for _ in range(2):  # a scan finds 512 lanes at most
        b.claim(budget=1000, lease="others")
    assert cost(b, lambda: b.one(extend, TENANT, [first])) <= 5
    assert b.one(extend, TENANT, []) == 1
    assert cost(b, lambda: b.one(release, TENANT, [first])) <= 5
    hot = "SELECT pg_stat_get_tuples_hot_updated('queen.log_consumers'::regclass)"
    before = b.one(hot)
    for _ in range(200):
        b.one(extend.replace("'L'", "'others'"), TENANT, [b.lane_id(partition="p999")])
    b.run("SELECT pg_stat_force_next_flush()")
    assert b.one(hot) - before >= 190


def test_settle_does_not_read_the_history_of_a_lane(b):
    for n in range(400):
        b.push("x%d" % n)
    lane = b.lane_id()
    b.claim_lane(lease="", budget=400)
    b.push("last")
    b.claim_lane()
    assert cost(b, lambda: b.settle(lane, ("last", COMPLETED))) <= 20


def test_a_claim_reads_the_segments_it_needs(b):
    for n in range(400):
        b.push("x%d" % n)
    lane = b.lane_id()
    b.register("g")
    assert cost(b, lambda: b.claim(candidates=[lane], budget=5)) <= 40


def test_blobs_are_stored_uncompressed_and_out_of_line(b):
    assert b.run("SELECT attname, attstorage FROM pg_attribute WHERE attrelid IN ('queen.log_segments'::regclass, "
                 "'queen.log_txns'::regclass) AND attname IN ('blob', 'hashes') ORDER BY 1") == [
                     dict(attname="blob", attstorage="e"), dict(attname="hashes", attstorage="e")]


def test_a_cold_probe_of_a_large_window(b):
    """Both sides of the comparison are large: it must not be their product."""
    for k in range(20):
        b.push(*["%d-%d" % (k, i) for i in range(5000)])
    b.run("SET statement_timeout = '20s'")
    r = b.push(*(["n%d" % i for i in range(4000)] + ["7-4999"]))
    assert (r["dup_index"], r["dup_offset"]) == ([4000], [7 * 5000 + 4999])
    assert b.run("SELECT item, lowest FROM queen.match_hashes($1, '{-1}', '{99999}', '{-infinity}', '{1,1}', $2)",
                 [b.lane_id()], hash_of("none") + hash_of("19-0")) == [dict(item=2, lowest=95000)]


def test_a_push_that_was_compared_reads_no_hashes(b):
    lane = b.push("a")["partition_id"]
    for n in range(50):
        b.push("x%d" % n)
    assert hash_reads(b, lambda: b.push("y", id=lane)) >= 51
    assert hash_reads(b, lambda: b.push("z", id=lane, verified=51)) == 0


def test_a_page_of_hashes_reads_the_page_not_the_past(b):
    for n in range(300):
        b.push("x%d" % n)
    lane = b.lane_id()
    b.run("UPDATE queen.log_txns SET created_at = created_at - interval '2 hours' WHERE base_offset < 200")
    assert [row[0] for row in b.hashes(lane)["rows"]] == list(range(200, 300))
    assert hash_reads(b, lambda: b.hashes(lane, -1, 10 * 16)) <= 40


def test_nothing_needs_more_than_a_plain_role(b):
    assert b.one("SELECT count(*) FROM pg_extension WHERE extname <> 'plpgsql'") == 0
    assert not b.one("SELECT rolsuper FROM pg_roles WHERE rolname = current_user")
    assert b.one("SELECT queen.from_us(queen.to_us('2026-01-02 03:04:05.678901+00')) = '2026-01-02 03:04:05.678901+00'")
    assert TENANT == b.one("SELECT column_default FROM information_schema.columns WHERE table_schema = 'queen' "
                           "AND table_name = 'queues' AND column_name = 'tenant_id'")[1:37]
