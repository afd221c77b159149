# SPDX-License-Identifier: Apache-2.0
"""What a partition costs: segments instead of message rows, a quantised write time, cursors in bulk, bounded scans."""
import pytest

from lib import clock
from scene import partition_of, rows


def entry(api, queue):
    return next(item for item in api.queues(search=queue) if item["name"] == queue)


def push_lanes(api, queue, count, each=1):
    """`each` messages in each of `count` partitions, by requests for a thousand of them."""
    for first in range(0, count, 1000):
        results = api.push(*[{"queue": queue, "partition": f"lane {number:05}", "payload": position}
                             for position in range(each) for number in range(first, min(first + 1000, count))])
        assert {result["status"] for result in results} == {"queued"}


def test_many_messages_are_packed_into_one_segment_row(api, q):
    """A hundred messages of one push are one segment."""
    api.send(q, *[f"m{number}" for number in range(100)])
    assert entry(api, q)["segments"] == {"segments": 1, "messages": 100}


def test_a_thousand_partitions_of_ten_messages_are_a_thousand_rows(pg_once, q):
    """Not ten thousand."""
    push_lanes(pg_once, q, 1000, each=10)
    assert entry(pg_once, q)["segments"] == {"segments": 1000, "messages": 10000}
    assert rows(pg_once, "log_segments", q) == 1000


def test_last_write_at_is_renewed_at_most_once_a_second(pg_once, q):
    """Of many pushes to one partition only those a second apart move its last_write_at; the column is indexed."""
    api = pg_once
    api.send(q, "m")
    seen, watch = [], clock.Watch()
    while len(seen) < 3 and watch.seconds < 30:
        for number in range(5):
            api.push({"queue": q, "payload": number})
        stamp = float(api.broker.psql("SELECT extract(epoch FROM last_write_at) FROM queen.log_partitions "
                                      f"WHERE id IN {partition_of(q)}")[0][0])
        if stamp not in seen:
            seen.append(stamp)
    assert len(seen) == 3, "it is renewed at all"
    assert all(later - earlier >= 1 for earlier, later in zip(seen, seen[1:])), seen
    assert rows(api, "log_segments", q) > 10, "there were many more pushes than renewals"
    indexes = api.broker.psql("SELECT indexdef FROM pg_indexes WHERE schemaname = 'queen' "
                              "AND tablename = 'log_partitions'")
    assert any("(queue_id, last_write_at" in index[0] for index in indexes)


def test_candidate_selection_tolerates_two_minutes_of_staleness(pg_scan, q):
    """A write time that lags behind the group's last empty scan by less than two minutes hides nothing."""
    api = pg_scan
    api.send(q, "old")
    api.finish(api.pop(q))
    assert api.pop(q) is None
    api.send(q, "m")
    api.broker.psql("UPDATE queen.log_partitions SET last_write_at = last_write_at - interval '110 seconds' "
                    f"WHERE id IN {partition_of(q)}")
    assert api.popped(q) == ["m"]


def test_the_scan_considers_only_partitions_written_since_the_group_last_found_the_queue_empty(pg_scan, q):
    """A partition that was written long before that, as its row says, is no candidate; one written later is."""
    api = pg_scan
    api.send(q, "a0", partition="a")
    api.send(q, "b0", partition="b")
    api.finish(api.pop(q, partitions=2))
    assert api.pop(q) is None
    for lane in "ab":
        api.send(q, f"{lane}1", partition=lane)
    api.broker.psql("UPDATE queen.log_partitions SET last_write_at = last_write_at - interval '10 minutes' "
                    f"WHERE id IN {partition_of(q)} AND name = 'a'")
    assert api.popped(q, partitions=2) == ["b1"]
    assert api.popped(q, "a") == ["a1"], "it is there for those who name it"


@pytest.mark.parametrize("route", ["queue", "discovery"])
def test_first_contact_seeds_cursors_for_every_partition_in_one_statement(pg_api, q, route):
    """The first pop by queue or by labels writes one row per partition, all in one transaction; the second none."""
    api = pg_api
    push_lanes(api, q, 300)
    where = {"queue": {"queue": q}, "discovery": {"namespace": q}}[route]
    writers = (f"SELECT count(*), count(DISTINCT xmin::text) FROM queen.log_consumers WHERE consumer_group = 'g' "
               f"AND partition_id IN {partition_of(q)}")
    assert api.broker.psql(writers) == [("0", "0")]
    assert api.pop(consumerGroup="g", subscriptionMode="new", **where) is None
    assert api.broker.psql(writers) == [("300", "1")]
    assert api.pop(consumerGroup="g", subscriptionMode="new", **where) is None
    assert api.broker.psql(writers) == [("300", "1")]


def test_a_queue_of_ten_thousand_partitions_costs_a_new_group_ten_thousand_rows_once(pg_once, q):
    """At that moment, and not again; thousands of partitions in one queue work like a few."""
    api = pg_once
    push_lanes(api, q, 10000)
    assert entry(api, q)["partitions"] == 10000
    assert api.pop(q, consumerGroup="g", subscriptionMode="new") is None
    assert rows(api, "log_consumers", q) == 10000
    api.send(q, "new", partition="lane 09999")
    assert api.popped(q, consumerGroup="g") == ["new"]
    assert rows(api, "log_consumers", q) == 10000


@pytest.mark.parametrize("partitions", [600, 0])
def test_the_scan_takes_at_most_512_candidates(scan, q, partitions):
    """However many partitions a pop asks for; from 128 on it is these 512."""
    push_lanes(scan, q, 700)
    assert scan.pop(q, partitions=partitions, batch=10000)["partitionsClaimed"] == 512
    assert scan.pop(q, partitions=partitions, batch=10000)["partitionsClaimed"] == 188


def test_the_scan_takes_four_candidates_for_each_partition_asked_for(scan, q):
    """A pop for fewer than 128 partitions gets all it asked for, the candidates being four times as many."""
    push_lanes(scan, q, 400)
    assert scan.pop(q, partitions=127, batch=10000)["partitionsClaimed"] == 127
    assert scan.pop(q, partitions=128, batch=10000)["partitionsClaimed"] == 128


def test_the_candidate_set_is_capped_well_below_a_large_partition_count(api, q):
    """With the default composition too a pop never takes more than the widest candidate set."""
    push_lanes(api, q, 700)
    assert 16 <= api.pop(q, partitions=700, batch=10000)["partitionsClaimed"] <= 512


def test_candidates_come_in_random_order(scan, q):
    """Consumers of many groups do not all begin with the same partition."""
    push_lanes(scan, q, 60)
    first = {scan.pop(q, batch=1, consumerGroup=f"g{number}", subscriptionMode="all")["partition"]
             for number in range(12)}
    assert len(first) > 1
