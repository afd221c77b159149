# SPDX-License-Identifier: Apache-2.0
"""A stored segment that cannot be read never stalls its lane: its messages become dead letters with the reason."""
import pytest

from lib import clock
from lib.api import tids


def lane_of(q):
    """SQL for the id of the queue's only partition."""
    return f"(SELECT p.id FROM queen.log_partitions p JOIN queen.queues k ON k.id = p.queue_id WHERE k.name = '{q}')"


@pytest.mark.parametrize("damage", ["'\\x07'::bytea", "''::bytea", "substring(blob FOR 9)", "'\\x01ffffffff'::bytea"])
def test_a_damaged_segment_is_dead_lettered_and_the_lane_goes_on(pg_api, q, damage):
    pg_api.broker.expect_error("event=segment.undecodable", f"queue={q} ")
    pg_api.send(q, "t0", "t1")
    pg_api.send(q, "t2")
    partition = lane_of(q)
    pg_api.broker.psql(f"UPDATE queen.log_segments SET blob = {damage} "
                       f"WHERE partition_id = {partition} AND base_offset = 0")

    found = clock.eventually(lambda: pg_api.pop(q, batch=10), 10, "the message behind the damage")

    assert tids(found) == ["t2"] and found["messages"][0]["offset"] == 2
    rows = pg_api.broker.psql(
        f'SELECT "offset", error FROM queen.log_dlq WHERE partition_id = {partition} ORDER BY "offset"')
    assert [row[0] for row in rows] == ["0", "1"], rows
    assert all(row[1].startswith("undecodable segment") for row in rows), rows


def test_good_messages_before_the_damage_are_delivered_and_kept_until_acknowledged(pg_api, q):
    pg_api.broker.expect_error("event=segment.undecodable", f"queue={q} ")
    pg_api.send(q, "t0")
    pg_api.send(q, "t1")
    partition = lane_of(q)
    pg_api.broker.psql(f"UPDATE queen.log_segments SET blob = '\\x07' "
                       f"WHERE partition_id = {partition} AND base_offset = 1")

    assert tids(pg_api.pop(q, batch=10, leaseSeconds=1)) == ["t0"]
    again = clock.eventually(lambda: pg_api.pop(q, batch=10, leaseSeconds=1), 10, "t0 comes again, unacknowledged")
    assert tids(again) == ["t0"]
    pg_api.finish(again)
    pg_api.send(q, "t2")
    assert tids(pg_api.pop(q, batch=10)) == ["t2"], "the lease ended with t0, not by its time"


@pytest.mark.parametrize("auto", [False, True])
def test_what_is_good_around_the_damage_is_delivered_by_the_same_pop(pg_api, q, auto):
    pg_api.broker.expect_error("event=segment.undecodable", f"queue={q} ")
    for tid in ("t0", "t1", "t2"):
        pg_api.send(q, tid)
    partition = lane_of(q)
    pg_api.broker.psql(f"UPDATE queen.log_segments SET blob = '\\x07' "
                       f"WHERE partition_id = {partition} AND base_offset = 1")

    found = pg_api.pop(q, batch=10, autoAck=auto)

    assert tids(found) == ["t0", "t2"]
    if not auto:
        pg_api.finish(found)
    assert pg_api.pop(q) is None
    rows = pg_api.broker.psql(f'SELECT "offset", error FROM queen.log_dlq WHERE partition_id = {partition}')
    assert [row[0] for row in rows] == ["1"] and rows[0][1].startswith("undecodable segment"), rows
