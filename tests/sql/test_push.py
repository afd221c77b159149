# SPDX-License-Identifier: Apache-2.0
"""ST-1 ... ST-5: offsets, time, deduplication, creation, sealing."""
import uuid

import pytest

from broker import DUPLICATE, OTHER, QUEUED, UNSEALED, hash_of
from libpq import Error


def age(b, lane_id, seconds):
    """Makes everything stored so far older."""
    for table in ("log_segments", "log_txns"):
        b.run("UPDATE queen.%s SET created_at = created_at - $2 * interval '1 second' WHERE partition_id = $1" % table,
              lane_id, seconds)
    b.run("UPDATE queen.log_partitions SET newest_at = newest_at - $2 * interval '1 second' WHERE id = $1", lane_id,
          seconds)


def test_offsets_are_dense_over_calls(b):
    assert [b.push("a", "b")["base_offset"], b.push("c")["base_offset"], b.push("d")["base_offset"]] == [0, 2, 3]
    lane = b.run("SELECT * FROM queen.log_partitions")[0]
    assert (lane["last_offset"], lane["log_start"], lane["txns_start"]) == (3, 0, 0)
    rows = b.run("SELECT base_offset, end_offset, raw_bytes, hashes FROM queen.log_segments JOIN queen.log_txns "
                 "USING (partition_id, base_offset, end_offset, created_at) ORDER BY base_offset")
    assert [(r["base_offset"], r["end_offset"], r["raw_bytes"]) for r in rows] == [(0, 1, 200), (2, 2, 100), (3, 3, 100)]
    assert rows[0]["hashes"] == hash_of("a") + hash_of("b")


def test_rows_come_in_the_order_of_the_lanes(b):
    rows = b.push_lanes([dict(partition=str(i), ids=["x%d" % k for k in range(i + 1)]) for i in (5, 1, 4, 0)])
    assert [r["ord"] for r in rows] == [0, 1, 2, 3]
    assert [r["partition_id"] for r in rows] == [b.lane_id(partition=str(i)) for i in (5, 1, 4, 0)]
    assert [b.run("SELECT last_offset FROM queen.log_partitions WHERE id = $1", r["partition_id"])[0]["last_offset"]
            for r in rows] == [5, 1, 4, 0]


def test_created_at_never_decreases_when_the_clock_steps_back(b):
    first = b.push("a")
    age(b, first["partition_id"], -3600)
    newest = b.one("SELECT queen.to_us(created_at) FROM queen.log_segments")
    second = b.push("b")
    assert second["created_at_us"] == newest


def test_creation_with_labels_of_the_dotted_name_and_the_implicit_lease(b):
    b.push("a", queue="shop.orders.eu")
    b.push("a", queue="plain")
    rows = b.run("SELECT name, namespace, task, lease_time, dedup_window_seconds FROM queen.queues ORDER BY name")
    assert [tuple(r.values()) for r in rows] == [("plain", "plain", "", 60, 3600),
                                                 ("shop.orders.eu", "shop", "orders", 60, 3600)]


def test_empty_names_are_names(b):
    assert b.push("a", queue="", partition="")["status"] == QUEUED
    assert b.lane_id(queue="", partition="") is not None


def test_partition_ids_are_version_7(b):
    made = uuid.UUID(b.push("a")["partition_id"])
    assert (made.version, made.variant) == (7, uuid.RFC_4122)


def test_a_duplicate_writes_nothing_and_names_every_one(b):
    b.push("a", "b", "c")
    r = b.push("x", "c", "y", "a")
    assert (r["status"], r["dup_index"], r["dup_offset"]) == (DUPLICATE, [1, 3], [2, 0])
    assert (r["base_offset"], r["created_at_us"], r["dedup_window_s"]) == (None, None, 3600)
    assert b.one("SELECT count(*) FROM queen.log_segments") == 1
    assert b.push("x", "y")["base_offset"] == 3


def test_a_duplicate_lane_does_not_harm_the_others(b):
    b.push("a", partition="p1")
    rows = b.push_lanes([dict(partition="p0", ids=["a"]), dict(partition="p1", ids=["n", "a"]),
                         dict(partition="p2", ids=["a"])])
    assert [r["status"] for r in rows] == [QUEUED, DUPLICATE, QUEUED]
    assert (rows[1]["dup_index"], rows[1]["dup_offset"]) == ([1], [0])


def test_deduplication_is_within_one_lane_and_one_tenant(b):
    b.push("a")
    assert b.push("a", partition="other")["status"] == QUEUED
    assert b.push("a", queue="other")["status"] == QUEUED
    assert b.push("a", tenant=OTHER)["status"] == QUEUED


def test_the_window_is_counted_from_the_original(b):
    b.configure("q", dedup_window_seconds=100)
    lane = b.push("a")["partition_id"]
    age(b, lane, 99)
    b.push("b")
    assert b.push("a")["status"] == DUPLICATE
    age(b, lane, 2)
    assert b.push("a")["status"] == QUEUED
    assert b.push("b")["status"] == DUPLICATE


def test_window_zero_turns_it_off_but_keeps_the_hashes(b):
    b.configure("q", dedup_window_seconds=0)
    r = [b.push("a"), b.push("a")]
    assert [x["status"] for x in r] == [QUEUED, QUEUED]
    assert r[1]["dedup_window_s"] == 0
    assert b.one("SELECT count(*) FROM queen.log_txns") == 2


def test_verified_narrows_the_search(b):
    lane = b.push("a")["partition_id"]
    b.push("b")
    assert b.push("a", id=lane, verified=0)["status"] == QUEUED, "the caller vouched for offset 0"
    assert b.push("b", id=lane, verified=0)["status"] == DUPLICATE
    assert b.push("b", id=lane, verified=2)["status"] == QUEUED, "nothing is left to search"


def test_verified_inside_a_segment(b):
    lane = b.push("a", "b", "c")["partition_id"]
    r = b.push("a", "b", "c", id=lane, verified=0)
    assert (r["dup_index"], r["dup_offset"]) == ([1, 2], [1, 2])


def test_verified_counts_for_its_own_lane_only(b):
    other = b.push("x", partition="other")["partition_id"]
    lane = b.push("a")["partition_id"]
    for wrong in (None, other, str(uuid.uuid4())):
        assert b.push("a", id=wrong, verified=7)["status"] == DUPLICATE
    assert b.run("SELECT * FROM queen.delete_queue_v1($1,'q')", "00000000-0000-0000-0000-000000000001")[0]["existed"]
    b.push("a")
    assert b.push("a", id=lane, verified=7)["status"] == DUPLICATE, "the lane was born again"


def test_verified_counts_while_it_reaches_back_as_far_as_the_window(b):
    b.configure("q", dedup_window_seconds=100)
    lane = b.push("a")["partition_id"]
    since = b.run("SELECT queen.to_us(clock_timestamp()) - 100 * 1000000::int8 AS us")[0]["us"]
    assert b.push("a", id=lane, verified=0, since=since)["status"] == QUEUED
    b.configure("q", dedup_window_seconds=200)
    assert b.push("a", id=lane, verified=1, since=since)["status"] == DUPLICATE, "the window was widened"
    b.configure("q", dedup_window_seconds=100)
    assert b.push("a", id=lane, verified=1, since=since + 3600 * 1000000)["status"] == DUPLICATE, "a clock ran ahead"


def test_hashes_are_read_back_in_pages_of_whole_rows(b):
    lane = b.push("a", "b")["partition_id"]
    b.push("c")
    b.push("d", "e", "f")
    page = b.hashes(lane)
    assert (page["last_offset"], page["dedup_window_s"], page["more"]) == (5, 3600, False)
    assert page["rows"] == [(0, hash_of("a") + hash_of("b")), (2, hash_of("c")),
                            (3, hash_of("d") + hash_of("e") + hash_of("f"))]
    assert [(p["more"], [row[0] for row in p["rows"]]) for p in
            (b.hashes(lane, -1, 16), b.hashes(lane, -1, 48), b.hashes(lane, 1, 16), b.hashes(lane, 4), b.hashes(lane, 5))
            ] == [(True, [0]), (True, [0, 2]), (True, [2]), (False, [3]), (False, [])]
    assert b.hashes(str(uuid.uuid4())) is None


def test_hashes_leave_out_what_is_older_than_the_window_or_purged(b):
    b.configure("q", dedup_window_seconds=100)
    lane = None
    for start in range(0, 40, 4):
        lane = b.push(*["m%d" % i for i in range(start, start + 4)])["partition_id"]
        age(b, lane, 11)
    page = b.hashes(lane)
    assert [row[0] for row in page["rows"]] == list(range(4, 40, 4)), "the first row is 110 seconds old"
    assert abs(page["since_us"] - b.one("SELECT queen.to_us(clock_timestamp())") + 100 * 1000000) < 10 * 1000000
    b.run("DELETE FROM queen.log_txns WHERE base_offset < 20")
    b.run("UPDATE queen.log_partitions SET txns_start = 20")
    assert [row[0] for row in b.hashes(lane)["rows"]] == [20, 24, 28, 32, 36]
    age(b, lane, 1000)
    page = b.hashes(lane)
    assert (page["rows"], page["more"], page["last_offset"]) == ([], False, 39)
    b.configure("q", dedup_window_seconds=0)
    page = b.hashes(lane)
    assert (page["rows"], page["more"], page["dedup_window_s"]) == ([], False, 0)


def test_a_known_id_is_used_and_a_stale_one_is_not_trusted(b):
    one, two = b.push("a", partition="one"), b.push("a", partition="two")
    assert b.push("b", partition="one", id=one["partition_id"])["partition_id"] == one["partition_id"]
    assert b.push("c", partition="one", id=two["partition_id"])["partition_id"] == one["partition_id"]
    assert b.push("d", partition="one", id=str(uuid.uuid4()))["base_offset"] == 3
    foreign = b.push("a", partition="one", tenant=OTHER, id=one["partition_id"])
    assert (foreign["partition_id"] != one["partition_id"], foreign["base_offset"]) == (True, 0)
    assert b.run("SELECT * FROM queen.delete_queue_v1($1,'q')", "00000000-0000-0000-0000-000000000001")[0]["existed"]
    again = b.push("e", partition="one", id=one["partition_id"])
    assert (again["partition_id"] != one["partition_id"], again["base_offset"]) == (True, 0)


def test_unsealed_is_not_stored_in_an_encrypted_queue(b):
    b.configure("q", encryption_enabled=True)
    b.configure("open")
    rows = b.push_lanes([dict(queue="q", ids=["a"]), dict(queue="open", ids=["a"]),
                         dict(queue="q", partition="s", ids=["a"], sealed=True)])
    assert [r["status"] for r in rows] == [UNSEALED, QUEUED, QUEUED]
    assert b.one("SELECT last_offset FROM queen.log_partitions WHERE id = $1", b.lane_id()) == -1


def test_last_write_is_rewritten_at_most_once_a_second(b):
    lane = b.push("a")["partition_id"]
    before = b.one("SELECT last_write_at FROM queen.log_partitions")
    b.push("b")
    assert b.one("SELECT last_write_at FROM queen.log_partitions") == before
    b.run("UPDATE queen.log_partitions SET last_write_at = last_write_at - interval '1 second' WHERE id = $1", lane)
    b.push("c")
    assert b.one("SELECT last_write_at > $1 FROM queen.log_partitions", before)


def test_the_oldest_times_change_only_when_the_lane_was_empty(b):
    first = b.push("a")
    b.push("b")
    row = b.run("SELECT queen.to_us(oldest_live_at) AS live, queen.to_us(oldest_txn_at) AS txn FROM queen.log_partitions")[0]
    assert row == dict(live=first["created_at_us"], txn=first["created_at_us"])
    b.run("UPDATE queen.log_partitions SET oldest_live_at = NULL")
    third = b.push("c")
    assert b.one("SELECT queen.to_us(oldest_live_at) FROM queen.log_partitions") == third["created_at_us"]


@pytest.mark.parametrize("change", [dict(ids=[], queue="bad"), dict(ids=["a"], queue="x" * 256)])
def test_a_bad_lane_fails_the_call_and_stores_nothing(b, change):
    with pytest.raises(Error):
        b.push_lanes([dict(ids=["ok"]), change])
    assert b.one("SELECT count(*) FROM queen.queues") == 0


def test_arrays_that_do_not_agree_are_refused(b):
    call = "SELECT * FROM queen.push_v1($1,$4,'{p}','{NULL}','{2}','{1}','{f}',$2,'{-1}',$3,'{0}')"
    tenant = ["00000000-0000-0000-0000-000000000001"]
    for hashes, queues, state in (([hash_of("a")], ["q"], "23514"), ([hash_of("a") + hash_of("b")], ["q", "r"], "22023")):
        with pytest.raises(Error) as e:
            b.run(call, tenant, hashes, [b"x"], queues)
        assert e.value.sqlstate == state
    assert b.one("SELECT count(*) FROM queen.log_segments") == 0


def test_fetch_finds_the_segment_of_an_offset(b):
    lane = b.push("a", "b", "c")["partition_id"]
    b.push("d")
    fetch = "SELECT * FROM queen.fetch_v1($1, $2, $3)"
    tenant = "00000000-0000-0000-0000-000000000001"
    rows = b.run(fetch, tenant, [lane] * 4, [3, 0, 2, 4])
    assert [(r["ord"], r["base_offset"], r["count"], r["blob"]) for r in rows] == [
        (0, 3, 1, b"d"), (1, 0, 3, b"a,b,c"), (2, 0, 3, b"a,b,c"), (3, None, None, None)]
    b.drop_before(lane, 3)
    assert b.run(fetch, tenant, [lane], [1])[0]["blob"] is None
    assert b.run(fetch, OTHER, [lane], [3])[0]["blob"] is None
