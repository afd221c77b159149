# SPDX-License-Identifier: Apache-2.0
"""Counts of the queue listing and of one queue: retained, pending, processing, completed, dead letters (decisions 27).

`total` is what is retained. In the view of one queue `pending` is what the slowest group has not finished, leased or
not; the list shows what is leased apart from it.
"""
import pytest

from lib import clock
from lib.api import ack_item

NAMES = ("total", "pending", "processing", "completed", "deadLetter")


def counts(api, q, partition=None):
    """The counts of a queue, or of one of its lanes, in the order of NAMES; the list must agree with the queue."""
    document = api.queue(q)
    totals = document["totals"]
    lanes = [lane["stats"] for lane in document["partitions"]]
    assert {key: sum(lane[key] for lane in lanes) for key in NAMES} == {key: totals[key] for key in NAMES}, document
    listed = next(item for item in api.queues(search=q) if item["name"] == q)
    assert (listed["partitions"], listed["messages"]["total"]) == (len(lanes), totals["total"]), listed
    assert listed["messages"]["pending"] == totals["pending"] - totals["processing"], listed
    assert listed["messages"]["processing"] == totals["processing"], listed
    stats = totals if partition is None else \
        next(lane["stats"] for lane in document["partitions"] if lane["name"] == partition)
    return tuple(stats[key] for key in NAMES)


def test_nobody_has_popped(api, q):
    api.configure(q)
    assert counts(api, q) == (0, 0, 0, 0, 0)
    api.send(q, "a", "b", "c")
    api.send(q, "d", partition="x")
    assert counts(api, q) == (4, 4, 0, 0, 0)
    assert counts(api, q, "x") == (1, 1, 0, 0, 0)


def test_a_duplicate_is_not_counted(api, q):
    api.send(q, "a")
    api.push({"queue": q, "transactionId": "a", "payload": 1}, {"queue": q, "transactionId": "b", "payload": 1})
    assert counts(api, q) == (2, 2, 0, 0, 0)


def test_a_lease_and_its_acks(api, q):
    api.send(q, *"abcdef")
    messages = api.pop(q, batch=4)["messages"]
    assert counts(api, q) == (6, 6, 4, 0, 0)
    api.ack(messages[1])
    assert counts(api, q) == (6, 4, 2, 2, 0)
    api.ack(messages[2], "retry")
    assert counts(api, q) == (6, 4, 0, 2, 0), "a retry gives up the lease, c to f are pending"
    api.finish(api.pop(q))
    assert counts(api, q) == (6, 0, 0, 6, 0), "acked messages are retained"


def test_auto_ack_leaves_nothing_processing(api, q):
    api.send(q, "a", "b", "c")
    api.pop(q, batch=2, autoAck=True)
    assert counts(api, q) == (3, 1, 0, 2, 0)


def test_a_dead_letter_is_not_completed(api, q):
    api.send(q, "a", "b", "c")
    messages = api.pop(q)["messages"]
    api.acks([ack_item(messages[0]), ack_item(messages[1], "dlq")])
    assert counts(api, q) == (3, 1, 0, 1, 1)
    api.finish(api.pop(q))
    assert counts(api, q) == (3, 0, 0, 2, 1)


def test_the_slowest_group_is_what_counts(api, q):
    api.send(q, *"abcd")
    slow = api.pop(q, consumerGroup="slow", subscriptionMode="all", batch=1)["messages"]
    assert counts(api, q) == (4, 4, 1, 0, 0)
    fast = api.pop(q, consumerGroup="fast", subscriptionMode="all", batch=3)
    assert counts(api, q) == (4, 4, 4, 0, 0), "one and three leased"
    api.finish(fast)
    assert counts(api, q) == (4, 4, 1, 0, 0)
    api.ack(slow[0])
    assert counts(api, q) == (4, 3, 0, 1, 0)


def test_more_leased_than_pending_is_no_more_than_pending(api, q):
    api.send(q, "a", "b")
    for group in ("g1", "g2", "g3"):
        api.pop(q, consumerGroup=group, subscriptionMode="all")
    assert counts(api, q) == (2, 2, 2, 0, 0)


def test_a_group_that_begins_at_the_end_owes_nothing(api, q):
    api.send(q, "a", "b")
    assert api.pop(q, consumerGroup="g", subscriptionMode="new") is None
    assert counts(api, q) == (2, 0, 0, 2, 0)
    api.send(q, "c")
    assert counts(api, q) == (3, 1, 0, 2, 0)


@pytest.mark.slow
def test_an_expired_lease_is_not_processing(slow_api, q):
    api = slow_api
    api.send(q, "a", "b")
    watch = clock.Watch()
    api.pop(q, leaseSeconds=1)
    assert counts(api, q) == (2, 2, 2, 0, 0)
    watch.sleep_until(1.2)
    assert counts(api, q) == (2, 2, 0, 0, 0)


def test_oldest_and_newest(api, q):
    api.send(q, "a")
    api.send(q, "b")
    stamps = [message["createdAt"] for message in api.pop(q)["messages"]]

    def ends():
        lane = api.queue(q)["partitions"][0]
        return lane["oldestMessage"], lane["newestMessage"]

    first, last = (stamp[:23] + "Z" for stamp in stamps)
    assert ends() == (first, last)
    for tid, oldest in (("a", last), ("b", None)):
        api.acks([{"transactionId": tid, "partitionId": api.queue(q)["partitions"][0]["id"]}])
        assert ends() == (oldest, last)


def test_after_delete_everything_counts_from_zero(api, q):
    api.send(q, "a", "b")
    api.ack(api.pop(q)["messages"][0], "dlq")
    api.delete(q)
    api.send(q, "a")
    assert counts(api, q) == (1, 1, 0, 0, 0)


def test_search_takes_every_character_literally(api, name):
    stem = name("find")
    queues = [f"{stem} 100%", f"{stem} 1000", f"{stem}_x", f"{stem}-x", f"{stem}\\y", f"{stem}'z", f"{stem} é"]
    for queue in queues:
        api.configure(queue)

    def found(text):
        return sorted(item["name"] for item in api.queues(search=text))

    for text, expected in (("100%", 0), ("_x", 2), ("\\y", 4), ("'z", 5), (" é", 6)):
        assert queues[expected] in found(text)
        assert [queue for queue in found(text) if queue.startswith(stem)] == [queues[expected]], text
    assert found(stem) == sorted(queues)
    assert found(stem + ".*") == [] == found(stem + "%")


def test_paging_visits_every_queue_once(api, name):
    ns = name("ns")
    queues = [f"{ns}.{number}" for number in range(7)]
    for queue in queues:
        api.configure(queue, namespace=ns, task="t")
    for size in (1, 3, 7, 100):
        pages, offset = [], 0
        while page := api.queues(namespace=ns, task="t", limit=size, offset=offset):
            assert len(page) <= size
            pages += [item["name"] for item in page]
            offset += len(page)
        assert pages == queues[::-1], size


@pytest.mark.parametrize("query", ["limit=x", "offset=-1", "limit=1.5", "limit=1&limit=2"])
def test_bad_paging_is_refused(api, query):
    reply = api.call("GET", "/api/v1/resources/queues?" + query)
    assert reply.status == 400 and reply.error, reply
