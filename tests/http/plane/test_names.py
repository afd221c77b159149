# SPDX-License-Identifier: Apache-2.0
"""Names are opaque: every route finds exactly the object whose name was given, encoded or not."""
import pytest

from lib.api import pop_path, segment

LOOK_ALIKES = ["é", "e\u0301", " q", "q ", "q", "Q", ".", "..", "a/b", "a//b", "/", "a?b#c", "%41", "A", "a+b",
               "a b", "a&b=c", "🐝", "default", "Default", "NULL", "null", "a;b", "a:b", "~",
               "%2F", "%", "日本語", "a\u200bb", "\u202e"]
HOSTILE = ["'; DROP TABLE queen.queues; --", "%s%n%x", "{a,b}", 'a","b', "NULL", "\\", '"', "$1", "../../etc", "-1",
           "\\x41",
           "%d+[^" * 40, "a\\'b", "{}", "[]", "{\"a\":1}", "\\N", "a\\tb", "(1,2)", "<script>"]


@pytest.mark.parametrize("names", [LOOK_ALIKES, HOSTILE], ids=["look-alikes", "hostile"])
def test_partitions_and_ids(api, q, names):
    names = list(dict.fromkeys(names))
    results = api.push(*[{"queue": q, "partition": lane, "transactionId": lane, "payload": lane} for lane in names])
    assert [(result["transaction_id"], result["status"]) for result in results] == [(lane, "queued") for lane in names]
    for lane in names:
        popped = api.pop(q, lane)
        assert popped["partition"] == lane and [message["data"] for message in popped["messages"]] == [lane]
        result = api.ack(popped["messages"][0])
        assert (result["transactionId"], result["outcome"], result["leaseReleased"]) == (lane, "completed", True)
    assert sorted(item["name"] for item in api.queue(q)["partitions"]) == sorted(names)
    again = api.push(*[{"queue": q, "partition": lane, "transactionId": lane, "payload": lane} for lane in names])
    assert {result["status"] for result in again} == {"duplicate"}


@pytest.mark.parametrize("names", [LOOK_ALIKES, HOSTILE], ids=["look-alikes", "hostile"])
def test_queues(api, name, names):
    stem = name("n")
    queues = [stem + part for part in dict.fromkeys(names)]
    assert [result["queueName"] for result in api.push(*[{"queue": q, "payload": q} for q in queues])] == queues
    assert {item["name"] for item in api.queues()} >= set(queues)
    for q in queues:
        assert api.configure(q)["queue"] == q
        assert api.queue(q)["name"] == q
        popped = api.pop(q)
        assert popped["queue"] == q and [message["data"] for message in popped["messages"]] == [q]
        assert api.delete(q) == {"deleted": True, "queue": q, "existed": True}


@pytest.mark.parametrize("names", [LOOK_ALIKES, HOSTILE], ids=["look-alikes", "hostile"])
def test_groups(api, q, names):
    names = list(dict.fromkeys(names))
    api.send(q, "m")
    for group in names:
        popped = api.pop(q, consumerGroup=group, subscriptionMode="all")
        assert popped["consumerGroup"] == group
        assert api.ack(popped["messages"][0])["leaseReleased"] is True
        assert api.pop(q, consumerGroup=group) is None


def test_slashes_in_paths(api, name):
    q = name() + "/b"
    api.send(q, "m1", partition="c/d")
    for escape in ("%2F", "%2f"):
        path = f"/api/v1/pop/queue/{q.replace('/', escape)}/partition/c{escape}d"
        path += f"?consumerGroup=g{escape[1:]}&subscriptionMode=all"
        reply = api.call("GET", path)
        assert reply.status == 200 and (reply.json["queue"], reply.json["partition"]) == (q, "c/d"), reply
        assert api.call("GET", "/api/v1/resources/queues/" + q.replace("/", escape)).json["name"] == q
    assert api.call("GET", "/api/v1/pop/queue/" + q).status == 404, "a raw slash separates segments"
    assert api.call("DELETE", "/api/v1/resources/queues/" + q.replace("/", "%2f")).json["deleted"] is True


def test_dots_are_names_not_directions(api, name):
    q = name()
    api.send(q, "m1", partition="..")
    api.send(q, "m2", partition=".")
    for path, tid in ((f"/api/v1/pop/queue/{q}/partition/..", "m1"), (f"/api/v1/pop/queue/{q}/partition/%2E", "m2")):
        reply = api.call("GET", path)
        assert reply.status == 200 and reply.json["messages"][0]["transactionId"] == tid, reply


def test_percent_escapes_are_decoded_once(api, q):
    api.push({"queue": q, "partition": "%41", "payload": "escaped"}, {"queue": q, "partition": "A", "payload": "plain"})
    assert api.pop(q, b"%2541")["messages"][0]["data"] == "escaped"
    assert api.pop(q, b"%41")["messages"][0]["data"] == "plain"


def test_raw_and_escaped_utf8_are_the_same_name(api, name):
    q = name() + "é"
    api.send(q, "m")
    raw = b"/api/v1/pop/queue/" + q.encode("utf-8") + b"?consumerGroup=%C3%A9&subscriptionMode=all"
    reply = api.call("GET", raw)
    assert reply.status == 200 and (reply.json["queue"], reply.json["consumerGroup"]) == (q, "é")
    assert api.popped(q) == ["m"]


@pytest.mark.parametrize("bad", ["%zz", "%2", "%", "a%"])
def test_broken_escapes_are_literal_or_refused(api, bad):
    reply = api.call("GET", "/api/v1/pop/queue/" + bad)
    assert reply.status in (204, 400), reply
    if reply.status == 204:
        assert api.queue(bad)["name"] == bad
        api.delete(bad)


def test_plus_signs(api, q):
    for lane in ("a+b", "a b"):
        api.push({"queue": q, "partition": lane, "payload": lane})
    for raw, lane in ((b"a+b", "a+b"), (b"a%20b", "a b")):
        popped = api.pop(q, raw)
        assert popped["partition"] == lane
        api.finish(popped)
    api.send(q, "m", partition="a+b")
    assert api.pop(q, b"a%2Bb")["partition"] == "a+b"
    for raw, group in (("g+1", "g 1"), ("h%201", "h 1"), ("h%2B1", "h+1")):
        reply = api.call("GET", pop_path(q, "a b") + f"?consumerGroup={raw}&subscriptionMode=all")
        assert reply.json["consumerGroup"] == group, "in a query a plus is a space"


def test_empty_partition_in_the_path(api, q):
    api.send(q, "empty", partition="")
    api.send(q, "default")
    assert api.pop(q, "")["partition"] == ""
    assert api.popped(q, "Default") == ["default"]


def test_a_nul_never_truncates(api, q):
    api.send(q, "m")
    for method, path, body in (
            ("GET", f"/api/v1/pop/queue/{q}%00x", None), ("DELETE", f"/api/v1/resources/queues/{q}%00x", None),
            ("GET", f"/api/v1/pop/queue/{q}/partition/Default%00x", None),
            ("GET", f"/api/v1/pop/queue/{q}?consumerGroup=g%00x", None),
            ("POST", "/api/v1/configure", {"queue": q + "\0x"}),
            ("POST", "/api/v1/push", {"items": [{"queue": q + "\0x", "payload": 1}]}),
            ("POST", "/api/v1/ack", {"transactionId": "m\0x", "partitionId": "p"})):
        reply = api.call(method, path, body)
        assert reply.status == 400 and reply.error, (path, reply)
    assert api.popped(q) == ["m"]


def test_segment_encoding_of_the_test_client():
    assert (segment("a/b c"), segment(b"%41")) == ("a%2Fb%20c", "%41")
