# SPDX-License-Identifier: Apache-2.0
"""Where a new consumer group starts, decided once, at its first contact."""
import pytest

from lib.api import pop_path


def test_a_named_group_starts_at_new_by_default(api, q):
    api.send(q, "m1", "m2", "m3")
    assert api.pop(q, consumerGroup="g") is None
    api.send(q, "m4")
    assert api.popped(q, consumerGroup="g") == ["m4"]


@pytest.mark.parametrize("mode, backlog", [("new", False), ("new-only", False), ("all", True), ("banana", True),
                                           ("NEW", True)])
def test_mode_spellings(api, q, mode, backlog):
    api.send(q, "m1", "m2")
    expected = ["m1", "m2"] if backlog else []
    popped = api.pop(q, consumerGroup="g", subscriptionMode=mode, autoAck=True)
    assert [message["transactionId"] for message in popped["messages"]] == expected if popped else not expected
    api.send(q, "m3")
    assert api.popped(q, consumerGroup="g") == ["m3"]


def test_queue_mode_always_starts_at_the_oldest(api, q):
    api.send(q, "m1", "m2")
    assert api.popped(q, subscriptionMode="new", subscriptionFrom="now") == ["m1", "m2"]


@pytest.mark.parametrize("params, backlog", [
    ({"subscriptionFrom": "now"}, False), ({"subscriptionFrom": "now", "subscriptionMode": "all"}, False),
    ({"subscriptionFrom": "2000-01-01T00:00:00Z"}, True),
    ({"subscriptionFrom": "2000-01-01T00:00:00Z", "subscriptionMode": "new"}, True),
    ({"subscriptionFrom": "2999-01-01T00:00:00Z", "subscriptionMode": "all"}, False)])
def test_subscription_from(api, q, params, backlog):
    api.send(q, "m1", "m2")
    assert api.popped(q, consumerGroup="g", autoAck=True, **params) == (["m1", "m2"] if backlog else [])


def test_a_timestamp_between_two_pushes(api, q):
    api.send(q, "early")
    created = api.pop(q, autoAck=True)["messages"][0]["createdAt"]
    api.send(q, "late")
    stamp = api.pop(q, autoAck=True)["messages"][0]["createdAt"]
    assert stamp > created
    assert api.popped(q, consumerGroup="g", subscriptionFrom=stamp) == ["late"]
    assert api.popped(q, consumerGroup="h", subscriptionFrom=created) == ["early", "late"]


def test_the_first_contact_decides(api, q):
    api.send(q, "m1")
    assert api.pop(q, consumerGroup="g", subscriptionMode="new") is None
    assert api.pop(q, consumerGroup="g", subscriptionMode="all") is None
    assert api.pop(q, consumerGroup="g", subscriptionFrom="2000-01-01T00:00:00Z") is None
    api.send(q, "m2")
    assert api.popped(q, consumerGroup="g", subscriptionMode="all") == ["m2"]


def test_partitions_born_later(api, q):
    api.send(q, "old", partition="a")
    assert api.pop(q, consumerGroup="new", subscriptionMode="new") is None
    assert api.popped(q, consumerGroup="all", subscriptionMode="all") == ["old"]
    api.send(q, "later", partition="b")
    api.send(q, "also", partition="a")
    assert sorted(api.popped(q, consumerGroup="new", partitions=10)) == ["also", "later"]
    assert api.popped(q, consumerGroup="all", partitions=10) == ["later"]


def test_the_seed_covers_every_partition_that_exists(api, q):
    api.push(*[{"queue": q, "partition": f"p{lane}", "payload": 1} for lane in range(40)])
    assert api.pop(q, consumerGroup="new", subscriptionMode="new", partitions=100) is None
    assert api.pop(q, "p7", consumerGroup="new", subscriptionMode="all") is None, "the pinned route is seeded too"
    assert api.pop(q, consumerGroup="all", subscriptionMode="all", partitions=100)["partitionsClaimed"] == 40


def test_first_contact_through_a_single_partition(api, q):
    api.send(q, "a1", partition="a")
    assert api.pop(q, "a", consumerGroup="default") is None
    assert api.pop(q, "a", consumerGroup="new", subscriptionMode="new") is None
    assert api.popped(q, "a", consumerGroup="all", subscriptionMode="all") == ["a1"]
    assert api.popped(q, "a", consumerGroup="stamp", subscriptionFrom="2000-01-01T00:00:00Z") == ["a1"]
    api.send(q, "a2", partition="a")
    assert api.popped(q, "a", consumerGroup="default") == ["a2"]
    assert api.popped(q, "a", consumerGroup="new") == ["a2"]


def test_a_subscription_to_a_queue_that_is_not_born(api, q):
    assert api.pop(q, consumerGroup="g") is None
    api.send(q, "m1", partition="x")
    api.send(q, "m2", partition="y")
    assert sorted(api.popped(q, consumerGroup="g", partitions=5)) == ["m1", "m2"]


def test_default_subscription_mode_from_the_environment(changed_api, q):
    api = changed_api
    api.send(q, "m1")
    assert api.popped(q, consumerGroup="g") == ["m1"]
    assert api.popped(q, "Default", consumerGroup="pinned") == ["m1"]
    assert api.popped(namespace=q, consumerGroup="discovery") == ["m1"]
    assert api.pop(q, consumerGroup="h", subscriptionMode="new") is None


def test_new_groups_in_a_race(api, q):
    """Many first contacts at once: one registration, no message twice, none lost."""
    api.push(*[{"queue": q, "partition": f"p{lane}", "payload": lane} for lane in range(10)])
    calls = [api.start("GET", pop_path(q, consumerGroup="g", subscriptionMode="all")) for _ in range(12)]
    answers = [answer for answer in map(api.got, calls) if answer]
    while popped := api.pop(q, consumerGroup="g", partitions=10):
        answers.append(popped)
    seen = [message["data"] for answer in answers for message in answer["messages"]]
    assert sorted(seen) == list(range(10))
