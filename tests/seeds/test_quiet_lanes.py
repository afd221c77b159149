# SPDX-License-Identifier: Apache-2.0
"""A partition that is empty and untouched for thirty days is reclaimed; one that still holds something never is.

Rows are aged in the database, since nobody waits for thirty days.
"""
import pytest

from lib import clock
from lib.api import ack_item, tids
from scene import FURNISHED, PATIENCE, lanes, names, partition_of, rows, scene, stored

AGED = 31


def age(api, queue, days):
    """Everything about a queue happened this many days ago, a live lease excepted."""
    psql, past = api.broker.psql, f"- interval '{days} days'"
    psql(f"UPDATE queen.log_partitions SET created_at = created_at {past}, last_write_at = last_write_at {past}, "
         f"newest_at = newest_at {past}, oldest_txn_at = oldest_txn_at {past} WHERE id IN {partition_of(queue)}")
    psql(f"UPDATE queen.log_consumers SET created_at = created_at {past}, lease_acquired_at = lease_acquired_at {past} "
         f"WHERE partition_id IN {partition_of(queue)}")
    psql(f"UPDATE queen.log_txns SET created_at = created_at {past} WHERE partition_id IN {partition_of(queue)}")
    psql(f"UPDATE queen.log_dlq SET failed_at = failed_at {past} WHERE partition_id IN {partition_of(queue)}")


@pytest.fixture(scope="module")
def quiet(brokers):
    """Queues with one lane each, all emptied by the maintenance but one, then aged, then the clean-up came round."""
    name = names("quiet")
    with scene(brokers, ("pg", "h1"), **FURNISHED) as api:
        queues = {what: name(what) for what in ("empty", "consumed", "younger", "segments", "dead letter", "leased")}
        ids, leased = {}, None
        for what, queue in queues.items():
            api.configure(queue, maxWaitTimeSeconds=0 if what == "segments" else 1)
            api.send(queue, "x", "y")
            ids[what] = api.queue(queue)["partitions"][0]["id"]
        api.finish(api.pop(queues["consumed"]))
        api.ack(api.pop(queues["dead letter"])["messages"][0], "dlq")
        leased = api.pop(queues["leased"], leaseSeconds=3600)
        for what, queue in queues.items():
            if what != "segments":
                clock.eventually(lambda queue=queue: stored(api, queue) == 0, PATIENCE, f"{what} is emptied")
        for what, queue in queues.items():
            age(api, queue, 29 if what == "younger" else AGED)
        for what in ("empty", "consumed"):
            clock.eventually(lambda what=what: lanes(api, queues[what]) == {}, 90, f"the lane of {what} is reclaimed")
        # All were due together; another clean-up would take what this one left by chance.
        last = name("last")
        api.configure(last, maxWaitTimeSeconds=1)
        api.send(last, "m")
        clock.eventually(lambda: stored(api, last) == 0, PATIENCE, "the last one is emptied")
        age(api, last, AGED)
        clock.eventually(lambda: lanes(api, last) == {}, 90, "the last one is reclaimed")
        yield api, queues, ids, leased


def test_a_lane_empty_and_untouched_for_thirty_days_is_deleted(quiet):
    """Its row is gone, whether anybody ever consumed from it or not; the queue itself stays."""
    api, queues, ids, _ = quiet
    for what in ("empty", "consumed"):
        assert lanes(api, queues[what]) == {}
        assert api.queue_reply(queues[what]).status == 200
        counts = [api.broker.psql(f"SELECT count(*) FROM queen.{table} WHERE {column} = '{ids[what]}'")[0][0]
                  for table, column in (("log_partitions", "id"), ("log_txns", "partition_id"),
                                        ("log_consumers", "partition_id"))]
        assert counts == ["0", "0", "0"]


def test_thirty_is_the_default_a_younger_lane_stays(quiet):
    """Twenty-nine days are not enough."""
    api, queues, _, _ = quiet
    assert list(lanes(api, queues["younger"])) == ["Default"]


@pytest.mark.parametrize("what", ["segments", "dead letter", "leased"])
def test_a_lane_that_still_holds_something_is_never_deleted(quiet, what):
    """Segments, a dead letter or a live lease keep a lane, whatever its age."""
    api, queues, ids, leased = quiet
    assert [lane["id"] for lane in api.queue(queues[what])["partitions"]] == [ids[what]]
    if what == "leased":
        assert api.extend(leased["leaseId"], 5)["success"] is True
    elif what == "segments":
        assert api.popped(queues[what]) == ["x", "y"]
    else:
        assert rows(api, "log_dlq", queues[what]) == 1


@pytest.mark.parametrize("what", ["empty", "consumed"])
def test_a_later_push_recreates_the_lane_under_a_new_id_from_offset_zero(quiet, what):
    """The broker that knew the old lane makes a new one; the old id is worth nothing any more."""
    api, queues, ids, _ = quiet
    api.send(queues[what], "x", "again")
    popped = api.pop(queues[what], consumerGroup="anybody", subscriptionMode="all")
    assert tids(popped) == ["x", "again"], "the deduplication of the old lane is gone with it"
    assert [message["offset"] for message in popped["messages"]] == [0, 1]
    assert popped["partitionId"] != ids[what]
    old = api.acks([ack_item(popped["messages"][0], partitionId=ids[what], leaseId=None)], "anybody")[0]
    assert old["success"] is False
    assert api.popped(queues[what]) == ["x", "again"], "queue mode starts anew as well"
