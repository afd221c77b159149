# SPDX-License-Identifier: Apache-2.0
"""The two named pop routes: answer shape, budgets, lanes and leases, autoAck, and refused queries."""
import uuid

import pytest

from lib import clock
from lib.api import QUEUE_MODE, ack_item, pop_path, tids

TOP_KEYS = {"success", "queue", "partition", "partitionId", "leaseId", "consumerGroup", "messages",
            "partitionsClaimed"}
MESSAGE_KEYS = {"id", "transactionId", "traceId", "data", "producerSub", "createdAt", "partitionId", "partition",
                "leaseId", "consumerGroup", "queue", "offset", "deliveryAttempt", "leaseExpiresAt"}


def lanes(api, q, count, each=1):
    """`count` partitions with `each` messages; a message's id names its lane and place."""
    api.push(*[{"queue": q, "partition": f"p{lane}", "transactionId": f"p{lane}-{number}", "payload": number}
               for lane in range(count) for number in range(each)])


def by_lane(popped):
    """partition name -> transactionIds in delivery order, after checking that lanes are not interleaved."""
    found, last = {}, None
    for message in popped["messages"]:
        assert message["partition"] == last or message["partition"] not in found, "a lane's messages stay together"
        last = message["partition"]
        found.setdefault(last, []).append(message["transactionId"])
    return found


def test_answer_shape(api, q):
    api.send(q, "t0", "t1", partition="site-7")
    popped = api.pop(q, consumerGroup="rollup", subscriptionMode="all")
    assert set(popped) == TOP_KEYS
    assert popped["success"] is True and popped["partitionsClaimed"] == 1
    assert (popped["queue"], popped["partition"], popped["consumerGroup"]) == (q, "site-7", "rollup")
    assert uuid.UUID(popped["leaseId"]).version == 7
    uuid.UUID(popped["partitionId"])
    for offset, message in enumerate(popped["messages"]):
        assert set(message) == MESSAGE_KEYS
        assert uuid.UUID(message["id"]).version == 7
        assert (message["transactionId"], message["data"]) == (f"t{offset}", {"tid": f"t{offset}"})
        assert message["traceId"] is None and message["producerSub"] is None
        assert all(message[key] == popped[key] for key in ("partitionId", "partition", "leaseId", "consumerGroup"))
        assert message["queue"] == q
        assert (message["offset"], type(message["offset"])) == (offset, int)
        assert (message["deliveryAttempt"], type(message["deliveryAttempt"])) == (1, int)
        clock.parse(message["createdAt"])
        assert 59 <= clock.lease_seconds(message) < 75


def test_queue_mode_is_the_reserved_group(api, q):
    api.send(q, "a")
    popped = api.pop(q)
    assert popped["consumerGroup"] == QUEUE_MODE == popped["messages"][0]["consumerGroup"]
    assert api.pop(q, consumerGroup=QUEUE_MODE) is None, "the same cursor, and its batch is leased"
    assert api.pop(q, consumerGroup="") is None, "an empty group means queue mode"
    result = api.acks([ack_item(popped["messages"][0])], group="")[0]
    assert result["success"] and result["leaseReleased"]
    assert api.pop(q, consumerGroup="") is None


def test_single_partition_route(api, q):
    lanes(api, q, 3, 2)
    popped = api.pop(q, "p1", partitions=3)
    assert tids(popped) == ["p1-0", "p1-1"]
    assert (popped["queue"], popped["partition"], popped["partitionsClaimed"]) == (q, "p1", 1)
    assert api.pop(q, "p1") is None
    assert api.pop(q, "p9") is None
    assert set(by_lane(api.pop(q, partitions=10))) == {"p0", "p2"}


def test_batch_default_and_lower_bound(api, q):
    api.push(*[{"queue": q, "payload": number} for number in range(205)])
    popped = api.pop(q)
    assert [message["data"] for message in popped["messages"]] == list(range(200))
    api.finish(popped)
    for batch, expected in ((0, [200]), (-5, [201]), (1, [202]), (2, [203, 204])):
        popped = api.pop(q, batch=batch)
        assert [message["data"] for message in popped["messages"]] == expected
        api.finish(popped)
    assert api.pop(q) is None


def test_offsets_are_dense_and_created_at_never_falls(api, q):
    for number in range(5):
        api.send(q, f"a{number}", f"b{number}")
    messages = api.pop(q)["messages"]
    assert [message["offset"] for message in messages] == list(range(10))
    stamps = [clock.parse(message["createdAt"]) for message in messages]
    assert stamps == sorted(stamps)


def test_a_batch_may_begin_inside_a_segment_and_span_several(api, q):
    for number in range(4):
        api.send(q, *[f"{number}{letter}" for letter in "abc"])
    seen = []
    while popped := api.pop(q, batch=5):
        seen += tids(popped)
        api.finish(popped)
    assert seen == [f"{number}{letter}" for number in range(4) for letter in "abc"]


def test_several_partitions_share_one_lease(api, q):
    lanes(api, q, 3, 2)
    popped = api.pop(q, partitions=3, batch=100)
    assert popped["partitionsClaimed"] == 3
    assert by_lane(popped) == {f"p{lane}": [f"p{lane}-0", f"p{lane}-1"] for lane in range(3)}
    assert len({message["partitionId"] for message in popped["messages"]}) == 3
    assert {message["leaseId"] for message in popped["messages"]} == {popped["leaseId"]}
    assert popped["partitionId"] == popped["messages"][0]["partitionId"]
    assert popped["partition"] == popped["messages"][0]["partition"]


def test_one_partition_is_the_default(api, q):
    lanes(api, q, 3)
    assert api.pop(q)["partitionsClaimed"] == 1
    assert api.pop(q, partitions=2)["partitionsClaimed"] == 2
    assert api.pop(q, partitions=2) is None


def test_batch_is_a_global_budget(api, q):
    lanes(api, q, 3, 4)
    popped = api.pop(q, partitions=3, batch=6)
    assert len(popped["messages"]) == 6
    assert popped["partitionsClaimed"] == len(by_lane(popped))
    for lane, ids in by_lane(popped).items():
        assert ids == [f"{lane}-{number}" for number in range(len(ids))]


@pytest.mark.parametrize("partitions", [0, -1, 100])
def test_the_widest_claim(api, q, partitions):
    lanes(api, q, 30)
    popped = api.pop(q, partitions=partitions, batch=1000)
    assert popped["partitionsClaimed"] == 30
    assert sorted(tids(popped)) == sorted(f"p{lane}-0" for lane in range(30))


def test_a_leased_lane_is_locked_also_for_new_messages(api, q):
    api.send(q, "m1", "m2")
    assert api.popped(q, batch=10) == ["m1", "m2"]
    api.send(q, "m3")
    assert api.pop(q) is None
    assert api.pop(q, "Default") is None


def test_groups_are_independent(api, q):
    api.send(q, "a", "b")
    for group in ("g1", "g2"):
        popped = api.pop(q, consumerGroup=group, subscriptionMode="all")
        assert tids(popped) == ["a", "b"]
    api.finish(popped)
    assert api.pop(q, consumerGroup="g2") is None
    assert api.pop(q, consumerGroup="g1") is None, "g1 still holds its lease"
    assert api.popped(q) == ["a", "b"]


@pytest.mark.parametrize("pinned", [False, True], ids=["queue", "partition"])
def test_auto_ack_moves_on_without_a_lease(api, q, pinned):
    api.push(*[{"queue": q, "transactionId": f"t{number}", "payload": number} for number in range(20)])
    where = (q, "Default") if pinned else (q,)
    seen = []
    for _ in range(2):
        popped = api.pop(*where, consumerGroup="g", subscriptionMode="all", autoAck=True, batch=10)
        assert popped["leaseId"] == "" and set(popped) == TOP_KEYS
        for message in popped["messages"]:
            assert set(message) == MESSAGE_KEYS
            assert message["leaseId"] == "" and message["leaseExpiresAt"] is None
        seen += tids(popped)
    assert seen == [f"t{number}" for number in range(20)]
    assert api.pop(*where, consumerGroup="g", autoAck=True) is None
    api.send(q, "next")
    assert api.popped(*where, consumerGroup="g") == ["next"], "no lease is left behind"
    late = popped["messages"][3]
    result = api.ack(late, "completed", leaseId=None)
    assert (result["success"], result["noop"]) == (True, True)
    for status in ("failed", "retry", "dlq"):
        result = api.ack(late, status, leaseId=None)
        assert result["success"] is False and "committed" in result["error"].lower(), result


def test_auto_ack_over_several_partitions(api, q):
    lanes(api, q, 5, 2)
    popped = api.pop(q, partitions=10, autoAck=True)
    assert popped["partitionsClaimed"] == 5 and len(popped["messages"]) == 10
    assert api.pop(q, partitions=10) is None


def test_delivery_attempts_are_counted(api, q):
    api.send(q, "a", "b")
    for attempt in (1, 2, 3):
        popped = api.pop(q, batch=2)
        assert [message["deliveryAttempt"] for message in popped["messages"]] == [attempt, attempt]
        assert api.ack(popped["messages"][0], "retry")["success"]
    popped = api.pop(q)
    api.finish(popped)
    api.send(q, "c")
    assert api.pop(q)["messages"][0]["deliveryAttempt"] == 1, "a new batch head starts again"


@pytest.mark.slow
def test_expired_leases_redeliver_in_order_before_newer_work(slow_api, q):
    api = slow_api
    api.send(q, "m1", "m2", "m3", "m4", "m5", "m6")
    watch = clock.Watch()
    first = api.pop(q, batch=2, leaseSeconds=1)
    api.send(q, "m7")
    assert api.pop(q) is None
    watch.sleep_until(1.2)
    again = api.pop(q, batch=10)
    assert tids(again) == [f"m{number}" for number in range(1, 8)]
    assert again["leaseId"] != first["leaseId"]
    assert again["messages"][0]["deliveryAttempt"] == 2
    assert [message["id"] for message in again["messages"][:2]] == [message["id"] for message in first["messages"]]


def test_twenty_pops_of_one_lane(api, q):
    """One partition serves one consumer of a group at a time, whatever arrives together."""
    api.push(*[{"queue": q, "payload": number} for number in range(50)])
    for _ in range(10):
        calls = [api.start("GET", pop_path(q, batch=5)) for _ in range(20)]
        answers = [api.got(call) for call in calls]
        got = [answer for answer in answers if answer]
        assert len(got) == 1
        assert len(got[0]["messages"]) == 5
        api.finish(got[0])
    assert api.pop(q) is None


def test_a_huge_lane_does_not_starve_small_ones(api, q):
    api.push(*[{"queue": q, "partition": "big", "payload": number} for number in range(3000)])
    api.push(*[{"queue": q, "partition": f"s{number}", "payload": number} for number in range(20)])
    small = set()
    for _ in range(60):
        popped = api.pop(q, batch=20)
        if popped["partition"] != "big":
            small.add(popped["partition"])
        api.finish(popped)
        if len(small) == 20:
            break
    assert len(small) == 20


BAD_QUERIES = ["batch=abc", "batch=", "batch=1.5", "batch=1e3", "batch=2147483648", "batch=-2147483649",
               "batch=1&batch=2",
               "partitions=x", "partitions=2147483648", "partitions=", "leaseSeconds=x",
               "leaseSeconds=9223372036854775807",
               "leaseSeconds=", "timeout=-1", "timeout=x", "timeout=", "timeout=99999999999999999999", "timeout=1.5",
               "autoAck=1", "autoAck=TRUE", "autoAck=", "wait=yes", "wait=1", "wait=TRUE", "wait=true&wait=true",
               "consumerGroup=a&consumerGroup=b", "consumerGroup=%00", "consumerGroup=a%0Ab", "consumerGroup=%ff",
               "consumerGroup=" + "x" * 256, "subscriptionFrom=yesterday-ish", "subscriptionFrom=2026-13-45T00:00:00Z"]


def test_bad_queries_are_json_400_and_lease_nothing(api, q):
    api.send(q, "m")
    for route in (pop_path(q), pop_path(q, "Default"), pop_path(namespace=q)):
        for query in BAD_QUERIES:
            reply = api.call("GET", route + ("&" if "?" in route else "?") + query)
            assert reply.status == 400, (route, query, reply)
            assert reply.error
    assert api.popped(q) == ["m"]


def test_odd_queries_that_are_fine(api, q):
    for query in ("unknown=1&unknown=2", "conflation=true&autopilot=true", "timeout=18446744073709551615",
                  "batch=2147483647",
                  "partitions=-2147483648", "leaseSeconds=2147483647", "wait=false&autoAck=false", "consumerGroup=",
                  "namespace=x&task=y", "", "&&", "subscriptionMode=", "subscriptionFrom="):
        api.send(q, f"for {query}")
        reply = api.call("GET", pop_path(q) + "?" + query)
        assert reply.status == 200, (query, reply)
        assert set(reply.json) == TOP_KEYS, "nothing is echoed"
        assert tids(reply.json) == [f"for {query}"]
        api.finish(reply.json)


def test_name_rules_on_pop(api):
    for path in ("/api/v1/pop/queue/" + "x" * 256, "/api/v1/pop/queue/a%00b", "/api/v1/pop/queue/a%ffb",
                 "/api/v1/pop/queue/a%0Ab", "/api/v1/pop/queue/a%7Fb", "/api/v1/pop/queue/%E2%82",
                 "/api/v1/pop/queue/q/partition/" + "x" * 2049, "/api/v1/pop/queue/q/partition/a%00b",
                 "/api/v1/pop/queue/q/partition/%ED%A0%80", "/api/v1/pop?namespace=" + "x" * 256,
                 "/api/v1/pop?namespace=a%01", "/api/v1/pop?task=%ff"):
        reply = api.call("GET", path)
        assert reply.status == 400 and reply.error, (path, reply)


def test_a_group_name_of_255_characters(api, q):
    group = "é" * 255
    api.send(q, "m")
    popped = api.pop(q, consumerGroup=group, subscriptionMode="all")
    assert popped["consumerGroup"] == group
    api.finish(popped)
    assert api.pop(q, consumerGroup=group) is None
    assert api.call("GET", pop_path(q, consumerGroup="é" * 256)).status == 400


def test_head_on_a_pop_is_refused_and_leases_nothing(api, q):
    api.send(q, "m")
    for path in (pop_path(q), pop_path(q, "Default"), pop_path(namespace=q)):
        assert api.call("HEAD", path).status == 405
    assert api.popped(q) == ["m"]


def test_an_answer_is_bounded_in_bytes(changed_api, q):
    api = changed_api
    text = "x" * 400000
    api.push(*[{"queue": q, "payload": text} for _ in range(5)])
    api.push({"queue": q, "payload": text * 5})
    seen = []
    while (reply := api.pop_reply(q, batch=100)).status == 200:
        messages = reply.json["messages"]
        assert len(messages) == 1 or len(reply.body) <= 1200000
        seen += [message["offset"] for message in messages]
        api.finish(reply.json)
    assert seen == list(range(6)), "every message comes, the one above the bound alone"
