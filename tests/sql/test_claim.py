# SPDX-License-Identifier: Apache-2.0
"""ST-6 ... ST-8, ST-10, ST-12 as a claim decides them."""
import time

import pytest

from broker import (ALL, BUSY, COMPLETED, EMPTY, GONE, LABELS, LATER, LEASED, NEW, OTHER, QUEUE_MODE, RETRY, TIME, TOOK)


def now_us():
    return time.time_ns() // 1000


def test_delivery_over_segment_borders_up_to_the_budget(b):
    lane = b.push("a", "b", "c")["partition_id"]
    b.push("d")
    b.push("e", "f")
    (got,) = b.claim_lane(budget=5)["lanes"]
    assert got["ids"] == ["a", "b", "c", "d", "e"]
    assert (got["partition_id"], got["queue"], got["partition"]) == (lane, "q", "p")
    assert (got["first_offset"], got["batch_end"], got["last_offset"], got["n"]) == (0, 4, 5, 1)
    assert [(s["base_offset"], s["count"], s["first"], s["take"]) for s in got["slices"]] == [
        (0, 3, 0, 3), (3, 1, 0, 1), (4, 2, 0, 1)]


def test_delivery_starts_in_the_middle_of_a_segment(b):
    lane = b.push("a", "b", "c", "d")["partition_id"]
    b.claim_lane()
    b.settle(lane, ("b", COMPLETED), ("c", RETRY))
    assert b.ids(source=1, budget=1) == ["c"]


def test_a_lease_is_written_and_the_cursor_stays(b):
    lane = b.push("a", "b")["partition_id"]
    b.configure("q", lease_time=120)
    before = now_us()
    got = b.claim_lane(lease="lease-1")["lanes"][0]
    row = b.cursor(lane)
    assert (row["committed"], row["batch_end"], row["worker_id"]) == (-1, 1, "lease-1")
    assert before + 119_000_000 < got["at_us"] < now_us() + 121_000_000
    assert got["at_us"] == b.one("SELECT queen.to_us(lease_expires_at) FROM queen.log_consumers")


def test_lease_seconds_of_the_pop_win(b):
    b.push("a")
    got = b.claim_lane(lease_s=7)["lanes"][0]
    assert now_us() + 6_000_000 < got["at_us"] < now_us() + 7_000_000


def test_one_live_lease_per_lane_and_group(b):
    lane = b.push("a", "b")["partition_id"]
    assert b.ids(source=1, budget=1) == ["a"]
    second = b.claim_lane(lease="L2")
    assert second["lanes"] == []
    assert second["next_due"] == b.one("SELECT queen.to_us(lease_expires_at) FROM queen.log_consumers")
    assert b.ids("other", source=1) == ["a", "b"], "groups do not meet"
    b.expire(lane)
    assert b.ids(source=1, lease="L2") == ["a", "b"]


def test_expiry_charges_nothing_and_counts_the_delivery(b):
    lane = b.push("a", "b")["partition_id"]
    for attempt in (1, 2, 3):
        assert b.claim_lane()["lanes"][0]["n"] == attempt
        b.expire(lane)
    assert b.cursor(lane)["batch_retry_count"] == 0


def test_attempts_follow_the_head(b):
    lane = b.push("a", "b", "c")["partition_id"]
    b.claim_lane()
    b.settle(lane, ("a", COMPLETED))
    b.expire(lane)
    assert b.claim_lane()["lanes"][0]["n"] == 2, "b was delivered before"
    b.settle(lane, ("c", COMPLETED))
    b.push("d")
    assert b.claim_lane()["lanes"][0]["n"] == 1


def test_automatic_acknowledgement_moves_the_cursor(b):
    lane = b.push("a", "b")["partition_id"]
    got = b.claim_lane(lease="", budget=1)["lanes"][0]
    assert (got["ids"], got["at_us"]) == (["a"], 0)
    row = b.cursor(lane)
    assert (row["committed"], row["batch_end"], row["worker_id"], row["total_consumed"]) == (0, None, None, 1)
    assert b.ids(source=1, lease="") == ["b"]


def test_a_lane_by_an_unknown_name_creates_nothing(b):
    assert b.claim_lane()["lanes"] == []
    b.push("a")
    assert b.claim_lane(partition="nope")["lanes"] == []
    assert b.one("SELECT (SELECT count(*) FROM queen.queues) + (SELECT count(*) FROM queen.log_partitions)") == 2


def test_gaps_of_retention_are_skipped(b):
    lane = b.push("a", "b")["partition_id"]
    b.push("c")
    b.push("d")
    b.register("g")
    b.drop_before(lane, 3)
    got = b.claim_lane()["lanes"][0]
    assert (got["ids"], got["first_offset"], got["batch_end"]) == (["d"], 3, 3)


def test_the_cursor_of_an_emptied_lane_is_sealed(b):
    lane = b.push("a", "b")["partition_id"]
    b.register("g")
    b.run("DELETE FROM queen.log_segments")
    got = b.claim(candidates=[lane])
    assert (got["lanes"], got["verdicts"][lane]["n"]) == ([], EMPTY)
    assert b.cursor(lane)["committed"] == 1
    b.push("c")
    assert b.ids(candidates=[lane]) == ["c"]


def test_a_delayed_lane_is_later_and_is_not_sealed(b):
    b.configure("q", delayed_processing=100)
    first = b.push("a")
    lane = first["partition_id"]
    got = b.claim(candidates=[lane])
    due = first["created_at_us"] + 100_000_000
    assert (got["verdicts"][lane]["n"], got["verdicts"][lane]["at_us"], got["next_due"]) == (LATER, due, due)
    assert b.cursor(lane)["committed"] == -1
    b.run("UPDATE queen.log_segments SET created_at = created_at - interval '101 seconds'")
    b.push("b")
    assert b.ids(candidates=[lane]) == ["a"], "the recent tail is cut"


def test_the_window_buffer_waits_for_quiet(b):
    b.configure("q", window_buffer=50)
    first = b.push("a")
    lane = first["partition_id"]
    got = b.claim(candidates=[lane])
    assert (got["verdicts"][lane]["n"], got["verdicts"][lane]["at_us"]) == (LATER, first["created_at_us"] + 50_000_000)
    b.run("UPDATE queen.log_partitions SET newest_at = newest_at - interval '51 seconds'")
    assert b.ids(candidates=[lane]) == ["a"]


def test_verdicts_name_every_candidate_once(b):
    lanes = {p: b.push("a", "b", partition=p)["partition_id"] for p in ("took", "empty", "leased", "unused")}
    other = b.push("a", queue="other")["partition_id"]
    foreign = b.push("a", tenant=OTHER)["partition_id"]
    b.register("g")
    b.claim_lane(partition="leased", lease="someone")
    b.claim_lane(partition="empty", lease="")
    got = b.claim(candidates=[lanes["took"], lanes["empty"], lanes["leased"], other, foreign, lanes["unused"]], budget=2)
    kinds = {k: v["n"] for k, v in got["verdicts"].items()}
    assert kinds == {lanes["took"]: TOOK, lanes["empty"]: EMPTY, lanes["leased"]: LEASED, other: GONE, foreign: GONE,
                     lanes["unused"]: BUSY}
    took = got["verdicts"][lanes["took"]]
    assert (took["batch_end"], took["last_offset"]) == (1, 1)
    assert not got["contended"]


def test_budget_and_lanes_are_shared_in_the_order_of_the_candidates(b):
    lanes = [b.push(*["%d-%d" % (p, i) for i in range(3)], partition=str(p))["partition_id"] for p in range(4)]
    got = b.claim(candidates=lanes[::-1], budget=7)
    assert [(x["partition"], len(x["ids"])) for x in got["lanes"]] == [("3", 3), ("2", 3), ("1", 1)]
    assert b.cursor(lanes[0])["worker_id"] is None
    got = b.claim("h", candidates=lanes, budget=100, lanes=2)
    assert [x["partition"] for x in got["lanes"]] == ["0", "1"]


def test_bytes_bound_the_answer_but_one_message_always_comes(b):
    b.push("a", "b", "c", "d", raw=4000)
    b.push("e", partition="p2", raw=10)
    for budget, expected in ((1, "a"), (3 * 1401, "abc"), (4 * 1401 - 1, "abc"), (4 * 1401, "abcd")):
        got = b.claim("g%d" % budget, bytes=budget, candidates=[b.lane_id(), b.lane_id(partition="p2")])
        assert [i for x in got["lanes"] for i in x["ids"]] == list(expected)


def test_several_pops_in_one_call_share_no_lane(b):
    lanes = [b.push("a%d" % p, partition=str(p))["partition_id"] for p in range(20)]
    b.register("g")
    pops = b.claim_pops([dict(lease="L%d" % i, budget=20) for i in range(4)] + [dict(lease="H", group="h", budget=50)])
    got = [[x["partition_id"] for x in pop["lanes"]] for pop in pops]
    shared = [lane for pop in got[:4] for lane in pop]
    assert sorted(shared) == sorted(lanes)
    assert sorted(got[4]) == sorted(lanes)
    owners = {r["partition_id"]: r["worker_id"] for r in
              b.run("SELECT partition_id, worker_id FROM queen.log_consumers WHERE consumer_group = 'g'")}
    assert all(owners[lane] == "L%d" % i for i, pop in enumerate(got[:4]) for lane in pop)


def test_a_candidate_of_two_pops_goes_to_one(b):
    lane = b.push("a")["partition_id"]
    pops = b.claim_pops([dict(lease="1", candidates=[lane]), dict(lease="2", candidates=[lane])])
    assert sorted(pop["verdicts"][lane]["n"] for pop in pops) == [TOOK, BUSY]


def test_a_pop_that_loses_its_lanes_to_others_of_the_call_is_told_to_look_again(b):
    for number in range(4):
        b.push("m", partition=f"p{number}")
    for attempt in range(40):
        group = f"g{attempt}"
        b.register(group)
        answers = b.claim_pops([dict(group=group, lease=f"L{number}", lanes=1) for number in range(4)])
        assert all(bool(a["lanes"]) != a["contended"] for a in answers), answers


def test_every_pop_has_a_row_and_answers_keep_their_order(b):
    b.push("a")
    pops = b.claim_pops([dict(queue="none"), dict(source=1), dict(source=1, partition="none")])
    assert [len(pop["lanes"]) for pop in pops] == [0, 1, 0]


def test_queue_mode_always_starts_at_the_oldest(b):
    b.push("a")
    assert b.ids(QUEUE_MODE, source=1, mode=NEW) == ["a"]
    b.push("b", queue="other")
    b.register(QUEUE_MODE, queue="other", mode=NEW)
    assert b.ids(QUEUE_MODE, queue="other") == ["b"]


def test_the_start_of_a_pop_counts_where_nothing_is_registered(b):
    b.push("a")
    assert b.ids("new", source=1, mode=NEW) == []
    second = b.push("b")
    assert b.ids("new", source=1, mode=ALL) == ["b"], "it was decided on first contact"
    b.push("c")
    assert b.ids("time", source=1, mode=TIME, from_us=second["created_at_us"]) == ["b", "c"]


def test_a_registration_decides_for_existing_and_later_lanes(b):
    b.push("old")
    assert b.register("g", mode=NEW) == dict(created_queue=False, registered=True)
    assert b.register("g", mode=ALL) == dict(created_queue=False, registered=False)
    b.push("fresh")
    b.push("first of a later lane", partition="later")
    assert sorted(b.ids()) == ["first of a later lane", "fresh"]


def test_registration_by_time(b):
    b.push("a")
    at = b.push("b")["created_at_us"]
    b.push("c")
    b.register("g", mode=TIME, from_us=at)
    b.register("future", mode=TIME, from_us=now_us() + 10**9)
    assert b.ids() == ["b", "c"]
    assert b.ids("future") == []


def test_registration_creates_the_queue(b):
    assert b.register("g", queue="made.here") == dict(created_queue=True, registered=True)
    row = b.run("SELECT namespace, task, lease_time FROM queen.queues")[0]
    assert row == dict(namespace="made", task="here", lease_time=60)


def test_discovery_by_labels(b):
    b.push("1", queue="shop.orders")
    b.push("2", queue="shop.refunds")
    b.push("3", queue="farm.orders")
    b.push("4", queue="shop.orders", tenant=OTHER)
    labels = dict(source=LABELS, queue="")
    assert sorted(b.ids("a", namespace="shop", **labels)) == ["1", "2"]
    assert sorted(b.ids("b", task="orders", **labels)) == ["1", "3"]
    assert sorted(b.ids("c", namespace="farm", task="orders", **labels)) == ["3"]
    assert b.ids("d", namespace="none", **labels) == []


def test_label_registration_reaches_queues_made_later(b):
    b.push("old", queue="shop.a")
    assert b.register("g", labels=("shop", ""), mode=NEW)["registered"]
    assert not b.register("g", labels=("shop", ""), mode=NEW)["registered"]
    b.push("new", queue="shop.a")
    b.push("first", queue="shop.b")
    assert sorted(b.ids(source=LABELS, namespace="shop", mode=NEW)) == ["first", "new"]
    assert b.register("g", queue="shop.b", mode=ALL)["registered"]
    assert b.one("SELECT count(DISTINCT subscription_timestamp) FROM queen.consumer_groups_metadata") == 1


def test_scan_leaves_a_lane_with_work_due_first_in_sight(b):
    for p in ("p1", "p2"):
        b.push("a", partition=p)
    assert len(b.claim(lease="L1")["lanes"]) == 2
    again = b.claim(lease="L2")
    assert again["lanes"] == [] and again["verdicts"] == {}
    assert again["next_due"] == b.one("SELECT queen.to_us(min(lease_expires_at)) FROM queen.log_consumers")


def test_the_watermark_moves_only_when_nothing_is_left(b):
    lane = b.push("a")["partition_id"]
    b.claim()
    assert b.claim(lease="L2")["lanes"] == []
    assert b.run("SELECT * FROM queen.consumer_watermarks") == [], "leased is not empty"
    b.settle(lane, ("a", COMPLETED))
    assert b.claim()["lanes"] == []
    moved = b.one("SELECT last_empty_scan_at FROM queen.consumer_watermarks")
    assert b.claim()["lanes"] == []
    assert b.one("SELECT last_empty_scan_at FROM queen.consumer_watermarks") == moved, "at most every 30 s"
    b.run("UPDATE queen.consumer_watermarks SET updated_at = updated_at - interval '31 seconds'")
    b.claim()
    assert b.one("SELECT last_empty_scan_at > $1 FROM queen.consumer_watermarks", moved)


def test_the_watermark_hides_lanes_that_were_quiet_before_it(b):
    lane = b.push("a")["partition_id"]
    b.register("g")
    b.run("INSERT INTO queen.consumer_watermarks SELECT id, 'g', now(), now() FROM queen.queues")
    assert b.ids() == ["a"], "written within the two minutes of slack"
    b.run("UPDATE queen.log_consumers SET worker_id = NULL")
    b.run("UPDATE queen.log_partitions SET last_write_at = now() - interval '3 minutes' WHERE id = $1", lane)
    assert b.ids() == []


@pytest.mark.parametrize("lanes, expected", [(1, 64), (20, 80), (127, 508), (128, 512), (0, 512)])
def test_width_of_a_scan(b, lanes, expected):
    b.push_lanes([dict(partition=str(i), ids=["x"]) for i in range(600)])
    rows = b.run("SELECT * FROM queen.claim_scan('{1}', $1, '{0}', '{q}', '{\"\"}', '{\"\"}', '{\"\"}', '{g}', $2, now())",
                 ["00000000-0000-0000-0000-000000000001"], [lanes])
    assert len(rows) == expected == len({r["id"] for r in rows})


def test_leases_commit_asynchronously_and_acknowledgements_do_not(b):
    b.push("a", "b")

    def setting(*leases, lease_async=True):
        b.run("BEGIN")
        b.claim_pops([dict(lease=lease, group="g" + lease) for lease in leases], lease_async=lease_async)
        value = b.one("SHOW synchronous_commit")
        b.run("ROLLBACK")
        return value
    assert setting("L") == "off"
    assert setting("L", "") == "on"
    assert setting("L", lease_async=False) == "on"
