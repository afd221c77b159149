# SPDX-License-Identifier: Apache-2.0
"""ST-9: what one call of acknowledgements does, for every row of the decision table."""
import pytest

from broker import COMPLETED, DLQ, FAILED, OTHER, RETRY

IDS = ["m%d" % i for i in range(20)]
OK, NOOP = ("completed", "ok"), ("noop", "ok")
AGAIN = ("redelivered", "ok")


@pytest.fixture
def lane(b):
    """Offsets 10..14 leased, cursor 9, lane filled to 19."""
    lane_id = b.push(*IDS[:12])["partition_id"]
    b.push(*IDS[12:])
    b.claim_lane(budget=10)
    b.settle(lane_id, ("m9", COMPLETED))
    b.claim_lane(budget=5)
    assert (b.cursor(lane_id)["committed"], b.cursor(lane_id)["batch_end"]) == (9, 14)
    return lane_id


def state(b, lane_id):
    row = b.cursor(lane_id)
    return row["committed"], row["worker_id"], row["batch_retry_count"]


def test_completing_the_last_completes_the_batch(b, lane):
    r = b.settle(lane, ("m14", COMPLETED))
    assert (r["told"], r["lease_released"], r["committed"], r["has_more"]) == ([OK], True, 14, True)
    assert (r["queue"], r["partition"]) == ("q", "p")
    row = b.cursor(lane)
    assert (row["batch_end"], row["worker_id"], row["lease_expires_at"], row["last_worker_id"]) == (None, None, None, "L")
    assert (row["attempt_offset"], row["attempt_count"], row["total_consumed"]) == (None, 0, 15)


def test_completing_in_part_keeps_the_lease(b, lane):
    r = b.settle(lane, ("m11", COMPLETED))
    assert (r["told"], r["lease_released"], r["committed"], r["has_more"]) == ([OK], False, 11, False)
    assert state(b, lane) == (11, "L", 0)
    assert b.settle(lane, ("m10", FAILED))["told"] == [("rejected", "committed")]
    assert b.settle(lane, ("m10", COMPLETED))["told"] == [NOOP]
    assert state(b, lane) == (11, "L", 0)


def test_failed_in_the_middle_clamps(b, lane):
    items = [("m10", COMPLETED), ("m11", FAILED)] + [(i, COMPLETED) for i in IDS[12:15]]
    r = b.settle(lane, *items)
    assert r["told"] == [OK, ("failed", "ok"), AGAIN, AGAIN, AGAIN]
    assert (r["lease_released"], r["committed"]) == (True, 10)
    assert state(b, lane) == (10, None, 1)
    assert b.ids(source=1, budget=4) == IDS[11:15]


def test_retry_charges_nothing(b, lane):
    r = b.settle(lane, ("m11", RETRY), ("m10", COMPLETED), ("m12", COMPLETED))
    assert r["told"] == [("retried", "ok"), OK, AGAIN]
    assert state(b, lane) == (10, None, 0)


def test_only_the_lowest_signal_acts(b, lane):
    r = b.settle(lane, ("m13", FAILED), ("m11", RETRY))
    assert r["told"] == [AGAIN, ("retried", "ok")]
    assert state(b, lane) == (9, None, 0)


def test_a_ghost_is_unresolvable_and_the_rest_goes_on(b, lane):
    for status in (COMPLETED, FAILED):
        r = b.settle(lane, ("ghost", status), ("m10", COMPLETED))
        assert r["told"][0] == ("rejected", "unresolvable")
        assert (r["lease_released"], r["committed"]) == (False, 10)
    assert r["told"][1] == NOOP


def test_above_the_batch_is_unresolvable(b, lane):
    r = b.settle(lane, ("m15", COMPLETED), ("m16", FAILED))
    assert r["told"] == [("rejected", "unresolvable")] * 2
    assert state(b, lane) == (9, "L", 0)


def test_the_same_id_twice(b, lane):
    assert b.settle(lane, ("m11", COMPLETED), ("m11", COMPLETED))["told"] == [OK, OK]
    r = b.settle(lane, ("m13", COMPLETED), ("m13", FAILED), ("m12", COMPLETED))
    assert r["told"] == [AGAIN, ("failed", "ok"), OK]
    assert state(b, lane) == (12, None, 1)


def test_ties_at_one_offset(b, lane):
    r = b.settle(lane, ("m10", RETRY), ("m10", FAILED), ("m10", DLQ))
    assert (r["poison_item"], r["poison_offset"]) == (2, 10)
    b.settle(lane, ("m10", RETRY), ("m10", FAILED))
    assert state(b, lane) == (9, None, 1)


def test_repeating_with_the_lease_that_did_it_is_a_noop(b, lane):
    b.settle(lane, ("m14", COMPLETED))
    r = b.settle(lane, ("m14", COMPLETED), ("m10", COMPLETED), ("m10", FAILED), ("m16", COMPLETED))
    assert r["told"] == [NOOP, NOOP, ("rejected", "bad lease"), ("rejected", "bad lease")]
    assert (r["lease_released"], r["committed"]) == (False, 14)
    b.claim_lane(lease="L2", budget=2)
    assert b.settle(lane, ("m14", COMPLETED))["told"] == [NOOP], "also when somebody else has the lane"
    assert state(b, lane) == (14, "L2", 0)
    assert b.settle(lane, ("m14", COMPLETED), lease="stranger")["told"] == [("rejected", "bad lease")]


def test_repeating_without_a_lease_is_a_noop(b, lane):
    b.settle(lane, ("m14", COMPLETED))
    assert b.settle(lane, ("m14", COMPLETED), lease="")["told"] == [NOOP]


def test_a_foreign_or_expired_lease_is_refused(b, lane):
    assert b.settle(lane, ("m10", COMPLETED), lease="other")["told"] == [("rejected", "bad lease")]
    b.expire(lane)
    r = b.settle(lane, ("m10", COMPLETED), ("m10", FAILED))
    assert r["told"] == [("rejected", "bad lease")] * 2
    assert state(b, lane) == (9, "L", 0)
    assert r["has_more"], "an expired lease does not hold the lane"


def test_without_a_lease_after_expiry(b, lane):
    b.expire(lane)
    assert b.settle(lane, ("m15", COMPLETED), lease="")["told"] == [("rejected", "unresolvable")], "the batch still bounds it"
    r = b.settle(lane, ("m14", COMPLETED), lease="")
    assert (r["told"], r["lease_released"], r["committed"]) == ([OK], True, 14)


def test_signals_need_a_recorded_batch(b, lane):
    b.settle(lane, ("m10", RETRY))
    for status in (FAILED, RETRY, DLQ):
        r = b.settle(lane, ("m11", status), ("m10", COMPLETED), ("m12", COMPLETED), lease="")
        assert r["told"] == [("rejected", "no batch"), OK if status == FAILED else NOOP, AGAIN]
        assert (r["lease_released"], r["committed"], r["poison_item"]) == (False, 10, None)


def test_completing_without_a_batch_moves_the_cursor(b, lane):
    b.settle(lane, ("m10", FAILED))
    r = b.settle(lane, ("m16", COMPLETED), lease="")
    assert (r["told"], r["lease_released"], r["committed"]) == ([OK], False, 16)
    assert state(b, lane) == (16, None, 0), "the message that failed is done"


def test_the_budget_is_charged_by_failed_only_and_ends_in_a_dead_letter(b, lane):
    for n in range(3):
        assert b.settle(lane, ("m10", FAILED))["told"] == [("failed", "ok")]
        assert state(b, lane) == (9, None, n + 1)
        b.claim_lane(budget=5)
        assert b.settle(lane, ("m10", RETRY))["told"] == [("retried", "ok")]
        b.claim_lane(budget=5)
    r = b.settle(lane, ("m10", FAILED))
    assert r["told"] == [("dead", "ok")]
    assert (r["poison_item"], r["poison_offset"], r["retry_count"], r["lease_released"]) == (0, 10, 3, False)
    assert (r["seg_base"], r["seg_count"], r["seg_blob"]) == (0, 12, ",".join(IDS[:12]).encode())
    assert state(b, lane) == (9, "L", 3)
    filed = b.dead_letter(lane, 10, retries=3)
    assert (filed["filed"], filed["has_more"], filed["queue"], filed["partition"]) == (True, True, "q", "p")
    assert state(b, lane) == (10, None, 0)
    row = b.run("SELECT * FROM queen.log_dlq")[0]
    assert (row["partition_id"], row["consumer_group"], row["offset"], row["transaction_id"], row["payload"],
            row["error"], row["retry_count"], row["message_id"]) == (lane, "g", 10, "txn", b"\x00{not json", "why", 3, None)


def test_a_dead_letter_moves_to_the_completed_prefix_first(b, lane):
    r = b.settle(lane, ("m12", DLQ), ("m11", COMPLETED), ("m13", COMPLETED), ("m14", FAILED))
    assert r["told"] == [("dead", "ok"), OK, AGAIN, AGAIN]
    assert (r["committed"], r["poison_item"], r["poison_offset"], r["seg_base"]) == (11, 0, 12, 12)
    assert state(b, lane) == (11, "L", 0)
    assert b.dead_letter(lane, 12)["filed"]
    assert b.ids(source=1, budget=1) == ["m13"]


def test_a_dead_letter_twice_is_harmless(b, lane):
    b.settle(lane, ("m10", DLQ))
    assert b.dead_letter(lane, 10)["filed"]
    assert not b.dead_letter(lane, 10)["filed"]
    assert not b.dead_letter(lane, 10, lease="")["filed"], "the cursor is past it"
    assert b.one("SELECT count(*) FROM queen.log_dlq") == 1


def test_a_dead_letter_needs_the_lease_it_names(b, lane):
    b.settle(lane, ("m10", DLQ))
    assert not b.dead_letter(lane, 10, lease="other")["filed"]
    b.expire(lane)
    b.claim_lane(lease="L2", budget=5)
    assert not b.dead_letter(lane, 10)["filed"]
    assert state(b, lane) == (9, "L2", 0)
    assert not b.dead_letter(lane, 10, lease="L2", tenant=OTHER)["filed"]
    assert not b.dead_letter(lane, 20, lease="L2")["filed"], "there is no such message"


def test_a_whole_segment_is_filed_message_by_message(b, lane):
    assert b.dead_letter(lane, 10, count=2)["filed"]
    assert state(b, lane)[0] == 11
    assert [r["offset"] for r in b.run('SELECT "offset" FROM queen.log_dlq ORDER BY 1')] == [10, 11]


HEAD, BESIDE = 1, 2


def test_a_letter_beside_its_batch_is_filed_once_and_leaves_the_cursor(b, lane):
    for lease in ("", "L", "other"):
        assert b.dead_letter(lane, 11, lease=lease, kind=BESIDE)["filed"]
    assert state(b, lane) == (9, "L", 0)
    assert not b.dead_letter(lane, 11, tenant=OTHER, kind=BESIDE)["filed"]
    assert not b.dead_letter(lane, 20, kind=BESIDE)["filed"], "there is no such message"
    assert [r["offset"] for r in b.run('SELECT "offset" FROM queen.log_dlq')] == [11]


def test_letters_at_the_head_move_and_are_not_filed_again(b, lane):
    assert b.dead_letter(lane, 11, kind=BESIDE)["filed"]
    assert not b.dead_letter(lane, 10, lease="other", count=3, kind=HEAD)["filed"]
    assert b.dead_letter(lane, 10, count=3, kind=HEAD)["filed"]
    assert state(b, lane) == (12, None, 0)
    assert [r["offset"] for r in b.run('SELECT "offset" FROM queen.log_dlq ORDER BY 1')] == [10, 11, 12]


def test_the_poison_segment_is_gone(b, lane):
    b.drop_before(lane, 12)
    r = b.settle(lane, ("m10", DLQ))
    assert (r["poison_item"], r["poison_offset"], r["seg_base"], r["seg_blob"]) == (0, 10, None, None)
    assert state(b, lane) == (9, "L", 0)


@pytest.mark.parametrize("dlq, after, outcome", [(True, False, "dead"), (False, True, "dead"), (False, False, "dropped")])
def test_an_exhausted_message_is_kept_or_dropped(b, lane, dlq, after, outcome):
    b.configure("q", retry_limit=0, dead_letter_queue=dlq, dlq_after_max_retries=after)
    r = b.settle(lane, ("m11", FAILED), ("m10", COMPLETED), ("m12", COMPLETED))
    assert r["told"] == [(outcome, "ok"), OK, AGAIN]
    if outcome == "dropped":
        assert (r["lease_released"], r["poison_item"]) == (True, None)
        assert state(b, lane) == (11, None, 0)
    else:
        assert (r["lease_released"], r["poison_item"]) == (False, 0)
        assert state(b, lane) == (10, "L", 0)


def test_dlq_files_whatever_the_options_say(b, lane):
    b.configure("q", dead_letter_queue=False, dlq_after_max_retries=False)
    assert b.settle(lane, ("m10", DLQ))["told"] == [("dead", "ok")]


def test_a_completed_batch_resets_the_counter(b, lane):
    b.settle(lane, ("m10", FAILED))
    b.claim_lane(budget=5)
    assert state(b, lane)[2] == 1
    b.settle(lane, ("m12", COMPLETED))
    assert state(b, lane)[2] == 1, "the batch is not complete"
    b.settle(lane, ("m14", COMPLETED))
    assert state(b, lane) == (14, None, 0)


def test_an_automatic_acknowledgement_resets_the_counter(b, lane):
    b.settle(lane, ("m10", FAILED))
    b.claim_lane(lease="", budget=5)
    assert state(b, lane) == (14, None, 0)


def test_after_an_automatic_acknowledgement(b):
    lane_id = b.push("a", "b")["partition_id"]
    b.claim_lane(lease="")
    r = b.settle(lane_id, ("a", COMPLETED), ("b", FAILED), lease="")
    assert r["told"] == [NOOP, ("rejected", "committed")]


def test_no_consumer(b, lane):
    assert b.settle(lane, ("m10", COMPLETED), group="never")["told"] == [("rejected", "no consumer")]
    r = b.settle("00000000-0000-0000-0000-00000000abcd", ("m10", COMPLETED))
    assert (r["told"], r["queue"], r["committed"]) == ([("rejected", "no consumer")], None, -1)


def test_a_foreign_tenant_sees_no_consumer(b, lane):
    r = b.settle(lane, ("m14", COMPLETED), tenant=OTHER)
    assert (r["told"], r["queue"]) == ([("rejected", "no consumer")], None)
    assert state(b, lane) == (9, "L", 0)


def test_hashes_are_found_below_the_cursor_only_inside_the_resolvable_window(b, lane):
    b.configure("q", dedup_window_seconds=10)
    b.run("UPDATE queen.log_txns SET created_at = now() - interval '850 seconds'")
    assert b.settle(lane, ("m3", COMPLETED))["told"] == [NOOP]
    b.run("UPDATE queen.log_txns SET created_at = now() - interval '950 seconds'")
    assert b.settle(lane, ("m3", COMPLETED))["told"] == [("rejected", "unresolvable")]
    b.configure("q", dedup_window_seconds=10, completed_retention_seconds=1000)
    assert b.settle(lane, ("m3", COMPLETED))["told"] == [NOOP]
    assert b.settle(lane, ("m14", COMPLETED))["told"] == [OK], "the batch itself is never too old"


@pytest.mark.parametrize("dedup, completed, known", [(0, 0, 900), (3600, 0, 3600), (60, 7200, 7200), (0, 800, 900)])
def test_ids_are_known_for_the_longest_window(b, dedup, completed, known):
    b.configure("q", dedup_window_seconds=dedup, completed_retention_seconds=completed)
    lane_id = b.push("a")["partition_id"]
    b.claim_lane(lease="")
    for age, told in ((known - 20, [NOOP, ("rejected", "committed")]), (known + 20, [("rejected", "unresolvable")] * 2)):
        b.run("UPDATE queen.log_txns SET created_at = now() - $1 * interval '1 second'", age)
        assert b.settle(lane_id, ("a", COMPLETED), ("a", FAILED), lease="")["told"] == told


def test_far_below_the_cursor(b):
    lane_id = b.push(*["x%d" % i for i in range(5000)])["partition_id"]
    b.push(*["y%d" % i for i in range(5000)])
    b.claim_lane(lease="", budget=10000)
    r = b.settle(lane_id, ("x3", COMPLETED), ("y4999", COMPLETED), ("x4999", FAILED), ("none", COMPLETED), lease="")
    assert r["told"] == [NOOP, NOOP, ("rejected", "committed"), ("rejected", "unresolvable")]


def test_the_same_id_above_and_below_the_cursor_means_the_one_above(b):
    b.configure("q", dedup_window_seconds=0)
    lane_id = b.push("a", "b")["partition_id"]
    b.claim_lane(lease="")
    b.push("a")
    b.claim_lane()
    assert b.settle(lane_id, ("a", COMPLETED))["told"] == [OK]
    assert state(b, lane_id)[0] == 2


def test_many_lanes_in_one_call(b):
    lanes = [r["partition_id"] for r in b.push_lanes([dict(partition=str(p), ids=["a", "b", "c"]) for p in range(30)])]
    b.claim(budget=90)
    unknown = "00000000-0000-0000-0000-00000000abcd"
    calls = []
    for i, lane_id in enumerate(lanes):
        calls.append(dict(id=lane_id, lease="L", items=[[("c", COMPLETED)], [("a", COMPLETED), ("b", RETRY)],
                                                        [("b", DLQ), ("a", COMPLETED), ("c", COMPLETED)]][i % 3]))
    calls.insert(7, dict(id=unknown, items=[("a", COMPLETED), ("b", FAILED)]))
    rows = b.settle_lanes(calls)
    dead = rows.pop(7)
    assert dead["told"] == [("rejected", "no consumer")] * 2
    for i, row in enumerate(rows):
        assert row["partition"] == str(i)
        assert (row["told"], row["committed"], row["lease_released"], row["poison_item"]) == [
            ([OK], 2, True, None), ([OK, ("retried", "ok")], 0, True, None),
            ([("dead", "ok"), OK, AGAIN], 0, False, 0)][i % 3]


def test_two_groups_of_one_lane_in_one_call(b):
    lane_id = b.push("a", "b")["partition_id"]
    b.claim_lane("g1", lease="1")
    b.claim_lane("g2", lease="2")
    rows = b.settle_lanes([dict(id=lane_id, group="g2", lease="2", items=[("b", COMPLETED)]),
                           dict(id=lane_id, group="g1", lease="1", items=[("a", FAILED)])])
    assert [r["told"] for r in rows] == [[OK], [("failed", "ok")]]
    assert [b.cursor(lane_id, g)["committed"] for g in ("g1", "g2")] == [-1, 1]
