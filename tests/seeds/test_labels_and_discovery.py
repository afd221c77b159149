# SPDX-License-Identifier: Apache-2.0
"""Namespace and task: where a queue's labels come from, and which queues a pop by labels reaches."""
import pytest

from lib import clock
from lib.api import tids
from scene import PATIENCE


def labels(api, queue):
    document = api.queue(queue)
    return document["namespace"], document["task"]


def by_queue(popped):
    """queue -> partition -> transactionIds of a discovery pop's answer."""
    found = {}
    for message in popped["messages"] if popped else ():
        found.setdefault(message["queue"], {}).setdefault(message["partition"], []).append(message["transactionId"])
    return found


def test_a_consumer_asks_for_work_without_naming_a_queue(api, name):
    """By namespace with a consumer group, and by task in queue mode."""
    ns, task = name("ns"), name("task")
    api.send(f"{ns}.{task}", "m")
    assert api.popped(namespace=ns, consumerGroup="billing", subscriptionMode="all") == ["m"]
    assert api.popped(task=task) == ["m"]


def test_a_discovery_pop_pops_across_the_partitions_of_all_matching_queues(api, name):
    """One call finds the lanes of the two labelled queues; the unlabelled one is never found."""
    ns = name("ns")
    email, invoice, audit = f"{ns}.email", f"{ns}.invoice", f"{ns}.audit"
    api.send(email, "e0", "e1", "e2")
    api.send(email, "c0", "c1", partition="cust-42")
    api.send(invoice, "i0", "i1", "i2", "i3")
    api.configure(audit)
    api.send(audit, "a0")
    found = api.pop(namespace=ns, partitions=20, consumerGroup="g", subscriptionMode="all")
    assert found["partitionsClaimed"] == 3
    assert by_queue(found) == {email: {"Default": ["e0", "e1", "e2"], "cust-42": ["c0", "c1"]},
                               invoice: {"Default": ["i0", "i1", "i2", "i3"]}}
    for params in ({"namespace": ns}, {"namespace": ns, "task": "audit"}):
        again = api.pop(partitions=20, consumerGroup="h", subscriptionMode="all", **params)
        assert audit not in by_queue(again)
    assert api.popped(audit) == ["a0"], "by its name it can be reached"


def test_namespace_and_task_together_both_have_to_match(api, name):
    """The configuration row has to match the namespace and the task when both are given."""
    ns, task = name("ns"), name("task")
    for queue in (f"{ns}.{task}", f"{ns}.other", f"other{ns}.{task}"):
        api.send(queue, queue)
    assert api.popped(namespace=ns, task=task, partitions=20) == [f"{ns}.{task}"]


@pytest.mark.parametrize("query", ["", "?consumerGroup=billing", "?namespace=&task=", "?batch=3&wait=true&timeout=5"])
def test_a_request_with_neither_is_rejected_with_400(api, query):
    """At least one of the two labels has to be there, and an empty one is not."""
    reply = api.call("GET", "/api/v1/pop" + query)
    assert reply.status == 400 and reply.error == "namespace or task is required"


def test_only_a_queue_holds_lanes(api, name):
    """Two queues of one namespace and task have partitions of the same name that have nothing in common."""
    ns = name("ns")
    first, second = f"{ns}.t.first", f"{ns}.t.second"
    for queue in (first, second):
        api.send(queue, "same id", partition="same lane")
    found = api.pop(namespace=ns, task="t", partitions=20)
    assert by_queue(found) == {queue: {"same lane": ["same id"]} for queue in (first, second)}
    assert len({message["partitionId"] for message in found["messages"]}) == 2
    assert api.queue_reply(ns).status == 404, "the namespace is no queue"


@pytest.mark.parametrize("rest, task", [(".email", "email"), (".email.eu", "email"), (".email.eu.x", "email"),
                                        ("", ""), (".", ""), ("..x", "")])
def test_a_push_derives_labels_from_the_dotted_name(api, name, rest, task):
    """Before the first dot the namespace, up to the second the task; without a dot the whole name and no task."""
    base = name("orders")
    api.send(base + rest, "m")
    assert labels(api, base + rest) == (base, task)


def test_a_pop_that_makes_a_queue_derives_labels_too(api, name):
    """A queue born by a pop is labelled like one born by a push (decisions 6b)."""
    base = name("orders")
    assert api.pop(base + ".email") is None
    assert labels(api, base + ".email") == (base, "email")


def test_configure_sets_labels_explicitly(api, name):
    """What the request says, whatever the name looks like."""
    q = name() + ".dotted"
    answer = api.configure(q, namespace="given namespace", task="given.task")
    assert (answer["namespace"], answer["task"]) == ("given namespace", "given.task")
    assert labels(api, q) == ("given namespace", "given.task")


def test_configure_without_labels_writes_empty_strings(api, name):
    """It is a full replace: labels given before, or derived by a push, are gone."""
    pushed, configured = name("pushed") + ".task", name("configured")
    api.send(pushed, "m")
    api.configure(configured, namespace="n", task="t")
    for queue in (pushed, configured):
        answer = api.configure(queue, leaseTime=30)
        assert (answer["namespace"], answer["task"]) == ("", "")
        assert labels(api, queue) == ("", "")
    assert api.pop(namespace=pushed.split(".")[0]) is None


@pytest.mark.parametrize("label", ["namespace", "task"])
def test_labels_match_by_exact_equality(api, name, label):
    """No prefix, no pattern, no case folding, no trimming."""
    value = name("Label")
    others = [value + "x", "x" + value, value.lower(), value + " ", value + ".x", value[:-1], value.replace("-", "_")]
    exact = name("exact")
    api.configure(exact, **{label: value})
    api.send(exact, "exact")
    for number, other in enumerate(others):
        queue = name(f"other{number}")
        api.configure(queue, **{label: other})
        api.send(queue, f"other{number}")
    assert api.popped(partitions=50, batch=50, **{label: value}) == ["exact"]
    assert api.pop(**{label: value[:-3] + "%"}) is None


@pytest.mark.parametrize("label", ["namespace", "task"])
def test_the_default_label_is_empty(api, q, label):
    """Type string, default empty; another type is an error (decisions 11)."""
    assert api.configure(q)[label] == ""
    assert api.configure(q, **{label: None})[label] == ""
    assert api.configure_reply({"queue": q, "options": {label: 7}}).status == 400


@pytest.mark.parametrize("label", ["namespace", "task"])
def test_changing_a_label_moves_nothing(api, name, label):
    """Messages stay; from the next call on the queue matches the new label only, and the group keeps its cursor."""
    q, old, new = name(), name("old"), name("new")
    api.configure(q, **{label: old})
    api.send(q, "m0", "m1", "m2")
    message = api.pop(consumerGroup="g", subscriptionMode="all", batch=1, **{label: old})["messages"][0]
    api.ack(message)
    before = api.queue(q)["partitions"][0]
    api.configure(q, **{label: new})
    after = api.queue(q)["partitions"][0]
    assert (after["id"], after["stats"]) == (before["id"], before["stats"])
    assert api.pop(consumerGroup="g", **{label: old}) is None, "who discovered the old label sees it no more"
    assert api.popped(consumerGroup="g", batch=1, **{label: new}) == ["m1"], "the cursor is where it was"
    assert api.popped(q, consumerGroup="other", subscriptionMode="all") == ["m0", "m1", "m2"]


def test_a_parked_discovery_pop_follows_a_changed_label(api, name):
    """A pop that waits for a label finds a queue that gets this label while it waits."""
    q, label = name(), name("label")
    api.configure(q, namespace="other")
    api.send(q, "m")
    call = api.park(namespace=label)
    api.configure(q, namespace=label)
    clock.eventually(call.ready, PATIENCE, "the parked pop finds the queue")
    assert tids(api.got(call)) == ["m"]
