# SPDX-License-Identifier: Apache-2.0
"""DELETE of a queue: everything goes, the answer is 200 whatever was there, and the name can be used again."""
from lib.api import ack_item
from scene import dead, fail

TABLES = (("log_partitions", "id"), ("log_segments", "partition_id"), ("log_txns", "partition_id"),
          ("log_consumers", "partition_id"), ("log_dlq", "partition_id"))


def used(api, queue):
    """A queue with two partitions, messages, an open lease, a group's cursor and a dead letter."""
    api.configure(queue, retryLimit=0)
    api.send(queue, "poison", "next")
    api.send(queue, "m", partition="other")
    assert fail(api, queue, partition="Default")["dlq"] is True
    return api.pop(queue, consumerGroup="g", subscriptionMode="all", partitions=2)


def test_delete_removes_every_row_of_the_queue(pg_api, q):
    """Partitions, segments, deduplication hashes, cursors and dead letters are gone from their tables."""
    api = pg_api
    used(api, q)
    ids = ", ".join(f"'{lane['id']}'" for lane in api.queue(q)["partitions"])

    def counts():
        return [int(api.broker.psql(f"SELECT count(*) FROM queen.{table} WHERE {column} IN ({ids})")[0][0])
                for table, column in TABLES]

    assert min(counts()) > 0
    assert api.delete(q)["deleted"] is True
    assert counts() == [0] * len(TABLES)
    assert api.broker.psql(f"SELECT 1 FROM queen.queues WHERE name = '{q}'") == []


def test_a_deleted_queue_is_gone_for_its_users(api, q):
    """It is not listed, cannot be looked at, delivers nothing, and its leases are worth nothing."""
    popped = used(api, q)
    assert api.delete(q)["deleted"] is True
    assert api.queue_reply(q).status == 404
    assert api.queues(search=q) == []
    assert api.pop(q, "Default", consumerGroup="new", subscriptionMode="all") is None
    assert api.extend(popped["leaseId"], 60)["success"] is False
    assert all(result["success"] is False for result in
               api.acks([ack_item(message) for message in popped["messages"]], "g"))


def test_messages_hashes_and_cursors_do_not_come_back_with_the_name(api, q):
    """The same ids pushed again are new messages from offset 0, for a group that had consumed them as well."""
    api.send(q, "a", "b")
    api.finish(api.pop(q, consumerGroup="g", subscriptionMode="all"))
    api.delete(q)
    api.send(q, "a", "b")
    popped = api.pop(q, consumerGroup="g", subscriptionMode="all")
    assert [(message["transactionId"], message["offset"]) for message in popped["messages"]] == [("a", 0), ("b", 1)]


def test_deleting_the_queue_makes_its_dead_letters_go_away(api, q):
    """They are counted before, and not by the queue that gets the name next."""
    used(api, q)
    assert dead(api, q) == 1
    api.delete(q)
    api.send(q, "m")
    assert dead(api, q) == 0


def test_deleted_is_true_only_if_a_queue_was_removed(api, q):
    """The status is 200 both times; the second answer says that nothing was there."""
    api.send(q, "m")
    assert api.delete(q)["deleted"] is True
    again = api.delete(q)
    assert (again["deleted"], again["message"]) == (False, "Queue not found, nothing was deleted")


def test_delete_is_idempotent_on_a_name_that_never_existed(api, q):
    """Clean-up before the first use does no harm and makes nothing."""
    for _ in range(3):
        assert api.delete(q)["deleted"] is False
    assert api.queue_reply(q).status == 404


def test_delete_then_create_is_a_clean_start(api, q):
    """The set-up idiom of client tests, again and again."""
    for leaseTime in (30, 40, 50):
        api.delete(q)
        assert api.configure(q, leaseTime=leaseTime)["options"]["leaseTime"] == leaseTime
        assert api.queue(q)["partitions"] == []
        api.send(q, "same", "ids")
        assert api.popped(q, consumerGroup="g", subscriptionMode="all") == ["same", "ids"]
