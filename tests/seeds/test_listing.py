# SPDX-License-Identifier: Apache-2.0
"""What the queue list says: filters that filter, retained messages, backlog, live partitions."""
from lib.api import ack_item


def entry(api, queue):
    found = [item for item in api.queues() if item["name"] == queue]
    assert len(found) == 1
    return found[0]


def test_the_queue_list_applies_namespace_and_task(api, name):
    """The filters that clients send are applied, instead of listing everything (decisions 27)."""
    ns, task = name("ns"), name("task")
    queues = [f"{ns}.{task}", f"{ns}.other", f"{ns}x.{task}"]
    for queue in queues:
        api.send(queue, "m")

    def listed(**params):
        return {item["name"] for item in api.queues(**params)}

    assert listed(namespace=ns) == set(queues[:2])
    assert listed(task=task) == {queues[0], queues[2]}
    assert listed(namespace=ns, task=task) == {queues[0]}
    assert listed(namespace=ns[:-1]) == set()
    assert set(queues) <= listed()


def test_total_is_what_is_stored_acked_or_not(api, q):
    """The retained count is the same before and after everything was consumed."""
    api.send(q, "a", "b", "c")
    assert entry(api, q)["messages"]["total"] == 3
    api.finish(api.pop(q))
    assert entry(api, q)["messages"]["total"] == 3
    assert entry(api, q)["segments"]["messages"] == 3


def test_pending_and_processing_are_the_backlog(api, q):
    """What is not acked yet, in and out of leases; counted from offsets, so it need not lag (decisions 27)."""
    api.send(q, "a", "b", "c", "d")

    def backlog():
        messages = entry(api, q)["messages"]
        return messages["pending"], messages["processing"]

    assert backlog() == (4, 0)
    popped = api.pop(q, batch=3)
    assert backlog() == (1, 3)
    api.acks([ack_item(popped["messages"][1])])
    assert backlog() == (1, 1)
    api.acks([ack_item(popped["messages"][2])])
    assert backlog() == (1, 0)


def test_the_queue_list_counts_partitions_live(api, q):
    """A queue that was only ever pushed to shows its partitions at once."""
    for count in range(1, 6):
        api.send(q, "m", partition=f"p{count}")
        assert entry(api, q)["partitions"] == count
    api.configure(q)
    assert entry(api, q)["partitions"] == 5


def test_the_namespace_and_task_listings_count_partitions_live(api, name):
    """Partitions of a queue that was only ever pushed to are counted at once (decisions 27)."""
    ns, task = name("ns"), name("task")
    api.send(f"{ns}.{task}", "a", partition="x")
    api.send(f"{ns}.{task}", "a", partition="y")
    for kind, label in (("namespace", ns), ("task", task)):
        rows = api.call("GET", f"/api/v1/resources/{kind}s").json[f"{kind}s"]
        assert [(r["queues"], r["partitions"]) for r in rows if r[kind] == label] == [(1, 2)]
