# SPDX-License-Identifier: Apache-2.0
"""How queues and partitions come to exist: by push, by pop, by configure, and what each leaves behind."""
import pytest

from lib import clock


def leased(api, queue, **params):
    """Push one message and lease it: the delivered message."""
    api.push({"queue": queue, "payload": 1})
    return api.pop(queue, **params)["messages"][0]


def approximately(seconds, expected):
    return expected <= seconds < expected + 10


def test_push_births_queue_and_partitions_with_lease_60(api, q):
    assert api.queue_reply(q).status == 404
    message = leased(api, q)
    assert approximately(clock.lease_seconds(message), 60)
    assert message["partition"] == "Default"
    api.push({"queue": q, "partition": "cust-42", "payload": 2})
    assert [lane["name"] for lane in api.queue(q)["partitions"]] == ["Default", "cust-42"]


@pytest.mark.parametrize("stem, labels", [("{}", ("{}", "")), ("{}.email", ("{}", "email")),
                                          ("{}.b.c.d", ("{}", "b")), ("{}.", ("{}", ""))])
def test_push_and_pop_derive_labels_from_the_dotted_name(api, name, stem, labels):
    pushed, popped = name("pushed"), name("popped")
    api.push({"queue": stem.format(pushed), "payload": 1})
    assert api.pop(stem.format(popped)) is None
    for base in (pushed, popped):
        document = api.queue(stem.format(base))
        assert (document["namespace"], document["task"]) == tuple(label.format(base) for label in labels)


def test_a_queue_wide_pop_births_the_queue_without_a_partition(api, q):
    assert api.pop(q, consumerGroup="g") is None
    assert api.queue(q)["partitions"] == []
    listed = [entry for entry in api.queues() if entry["name"] == q]
    assert len(listed) == 1 and listed[0]["partitions"] == 0
    message = leased(api, q)
    assert approximately(clock.lease_seconds(message), 60)


def test_a_group_subscribed_before_the_first_push_gets_it(api, q):
    assert api.pop(q, consumerGroup="g", subscriptionMode="new") is None
    api.send(q, "first")
    assert api.popped(q, consumerGroup="g") == ["first"]


def test_single_partition_and_discovery_pops_create_nothing(api, q, name):
    assert api.pop(q, "Default") is None
    assert api.pop(namespace=name("ns"), task="t") is None
    assert api.queue_reply(q).status == 404
    assert q not in [entry["name"] for entry in api.queues()]


def test_a_single_partition_pop_creates_no_partition(api, q):
    api.send(q, "m")
    assert api.pop(q, "elsewhere") is None
    assert [lane["name"] for lane in api.queue(q)["partitions"]] == ["Default"]


def test_configure_births_with_lease_300_without_labels_or_partition(api, name):
    q = name() + ".task"
    answer = api.configure(q)
    assert answer["configured"] is True and answer["partitionId"] is None
    assert (answer["namespace"], answer["task"], answer["options"]["leaseTime"]) == ("", "", 300)
    document = api.queue(q)
    assert (document["namespace"], document["task"], document["partitions"]) == ("", "", [])
    assert approximately(clock.lease_seconds(leased(api, q)), 300)


def test_lease_length_request_then_queue(api, q):
    api.configure(q, leaseTime=90)
    for lane, (params, expected) in enumerate([({}, 90), ({"leaseSeconds": 7}, 7), ({"leaseSeconds": 0}, 90),
                                               ({"leaseSeconds": -5}, 90), ({"leaseSeconds": 604801}, 604800)]):
        api.push({"queue": q, "partition": str(lane), "payload": 1})
        message = api.pop(q, str(lane), **params)["messages"][0]
        assert approximately(clock.lease_seconds(message), expected), params
    api.configure(q, leaseTime=120)
    api.push({"queue": q, "partition": "later", "payload": 1})
    assert approximately(clock.lease_seconds(api.pop(q, "later")["messages"][0]), 120)


def test_an_issued_lease_keeps_its_length_through_configure(api, q):
    message = leased(api, q)
    api.configure(q, leaseTime=1)
    assert clock.parse(message["leaseExpiresAt"]) - clock.parse(message["createdAt"]) >= 60
    assert api.pop(q) is None
    assert api.extend(message["leaseId"], 1)["newExpiresAt"] == message["leaseExpiresAt"]


def test_configure_of_a_pushed_queue_erases_its_labels(api, name):
    q = name() + ".task"
    api.push({"queue": q, "payload": 1})
    api.configure(q)
    document = api.queue(q)
    assert (document["namespace"], document["task"]) == ("", "")
    api.push({"queue": q, "payload": 2})
    assert api.queue(q)["namespace"] == "", "a later push must not derive labels again"


def test_one_body_may_mix_queues_and_partitions(api, name):
    a, b = name("a"), name("b")
    results = api.push({"queue": a, "payload": 1}, {"queue": b, "partition": "x", "payload": 2},
                       {"queue": a, "partition": "y", "payload": 3})
    assert [result["queueName"] for result in results] == [a, b, a]
    assert [lane["name"] for lane in api.queue(a)["partitions"]] == ["Default", "y"]
    assert [lane["name"] for lane in api.queue(b)["partitions"]] == ["x"]
