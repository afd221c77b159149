# SPDX-License-Identifier: Apache-2.0
"""Discovery pops: queues by namespace and task, exactly, with the queue named on every message."""
import pytest

from lib import clock
from lib.api import ack_item, tids


@pytest.mark.parametrize("query", ["", "?namespace=", "?task=", "?namespace=&task=", "?batch=5&wait=true&timeout=10"])
def test_a_scope_is_required(api, query):
    reply = api.call("GET", "/api/v1/pop" + query)
    assert reply.status == 400
    assert reply.json == {"success": False, "error": "namespace or task is required", "messages": []}


def test_labels_match_exactly(api, name):
    ns, task = name("ns"), name("task")
    queues = [f"{ns}.{task}", f"{ns}.{task}.eu", ns, f"{ns}x.{task}", f"x{ns}.{task}", f"{ns.upper()}.{task}"]
    for queue in queues:
        api.send(queue, queue)

    def found(**params):
        return sorted(api.popped(partitions=50, consumerGroup=name("g"), subscriptionMode="all", **params))

    assert found(namespace=ns) == sorted(queues[:3])
    assert found(namespace=ns, task=task) == sorted(queues[:2])
    assert found(task=task) == sorted(queue for queue in queues if queue != ns)
    assert found(namespace=ns.upper()) == [queues[5]]
    assert found(namespace=ns, task="") == sorted(queues[:3])
    assert found(namespace=ns[:-1]) == found(namespace=ns, task=task + "x") == []


def test_answer_names_the_queue_of_every_message(api, name):
    ns = name("ns")
    for task in ("a", "b"):
        api.send(f"{ns}.{task}", f"{task}0", f"{task}1")
    answer = api.pop(namespace=ns, partitions=5)
    assert (answer["queue"], answer["partitionsClaimed"], answer["success"]) == ("", 2, True)
    assert {message["leaseId"] for message in answer["messages"]} == {answer["leaseId"]}
    found = {}
    for message in answer["messages"]:
        found.setdefault(message["queue"], []).append(message["transactionId"])
    assert found == {f"{ns}.a": ["a0", "a1"], f"{ns}.b": ["b0", "b1"]}
    assert all(result["success"] for result in api.acks([ack_item(message) for message in answer["messages"]]))
    assert api.pop(namespace=ns) is None


def test_budget_and_partitions(api, name):
    ns = name("ns")
    for task in range(4):
        api.send(f"{ns}.{task}", "x", "y", "z")
    assert api.pop(namespace=ns)["partitionsClaimed"] == 1
    answer = api.pop(namespace=ns, partitions=3, batch=5)
    assert len(answer["messages"]) == 5
    seen = len(answer["messages"]) + 3
    while answer := api.pop(namespace=ns, partitions=0, autoAck=True, batch=2):
        assert len(answer["messages"]) <= 2
        seen += len(answer["messages"])
    assert seen >= 9, "the fourth queue and what the budget left"


def test_the_lease_time_is_each_queues_own(api, name):
    ns = name("ns")
    for task, seconds in (("a", 100), ("b", 200)):
        api.configure(f"{ns}.{task}", namespace=ns, task=task, leaseTime=seconds)
        api.send(f"{ns}.{task}", task)
    answer = api.pop(namespace=ns, partitions=2)
    lengths = {message["transactionId"]: clock.lease_seconds(message) for message in answer["messages"]}
    assert 100 <= lengths["a"] < 115 and 200 <= lengths["b"] < 215
    api.send(f"{ns}.c", "c")
    assert 7 <= clock.lease_seconds(api.pop(namespace=ns, leaseSeconds=7)["messages"][0]) < 20


def test_an_unlabelled_queue_is_never_found(api, name):
    ns = name("ns")
    q = f"{ns}.mail"
    api.send(q, "m1")
    assert api.popped(namespace=ns, autoAck=True) == ["m1"]
    api.send(q, "m2")
    api.configure(q)
    assert api.pop(namespace=ns) is None and api.pop(task="mail", namespace=ns) is None
    api.configure(q, namespace=ns + "-new")
    assert api.popped(namespace=ns + "-new") == ["m2"], "the cursor stays where it was"


def test_a_group_is_registered_on_every_matching_queue(api, name):
    ns = name("ns")
    for task in "ab":
        api.send(f"{ns}.{task}", f"old {task}")
    assert api.pop(namespace=ns, consumerGroup="g", partitions=9) is None
    for task in "ab":
        api.send(f"{ns}.{task}", f"new {task}")
    assert api.popped(f"{ns}.a", consumerGroup="g", autoAck=True) == ["new a"]
    assert api.popped(namespace=ns, consumerGroup="g", partitions=9, autoAck=True) == ["new b"]


def test_a_queue_born_later_belongs_to_the_subscription(api, name):
    ns = name("ns")
    assert api.pop(namespace=ns, consumerGroup="g", subscriptionMode="all") is None
    api.send(f"{ns}.later", "m")
    assert api.popped(namespace=ns, consumerGroup="g", subscriptionMode="all") == ["m"]


def test_leases_are_shared_with_the_named_routes(api, name):
    ns = name("ns")
    api.send(f"{ns}.a", "m")
    message = api.pop(namespace=ns)["messages"][0]
    assert api.pop(f"{ns}.a") is None
    assert api.ack(message, "failed")["leaseReleased"] is True
    assert api.popped(f"{ns}.a") == ["m"]
    assert api.pop(namespace=ns) is None


def test_auto_ack(api, name):
    ns = name("ns")
    api.send(f"{ns}.a", "m")
    answer = api.pop(namespace=ns, autoAck=True)
    assert (answer["leaseId"], tids(answer), answer["messages"][0]["leaseExpiresAt"]) == ("", ["m"], None)
    assert api.pop(namespace=ns) is None and api.pop(f"{ns}.a") is None
