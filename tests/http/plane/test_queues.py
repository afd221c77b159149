# SPDX-License-Identifier: Apache-2.0
"""Listing queues, looking at one, deleting it, and what a deleted name remembers (nothing)."""
import re
import uuid

LIST_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\Z")
ENTRY_KEYS = {"id", "name", "namespace", "task", "createdAt", "partitions", "retainedBytes", "segments", "messages"}
STATS_KEYS = {"total", "pending", "processing", "completed", "failed", "deadLetter"}
LANE_KEYS = {"id", "name", "createdAt", "stats", "oldestMessage", "newestMessage"}


def entry(api, q):
    found = [item for item in api.queues() if item["name"] == q]
    assert len(found) == 1
    return found[0]


def test_list_entry_shape(api, name):
    q = name() + ".task"
    api.send(q, "a", "b")
    api.send(q, "c", partition="x")
    item = entry(api, q)
    assert ENTRY_KEYS <= set(item)
    uuid.UUID(item["id"])
    assert LIST_STAMP.match(item["createdAt"]), item
    assert (item["namespace"], item["task"]) == tuple(q.split("."))
    assert item["partitions"] == 2
    assert item["segments"] == {"segments": 2, "messages": 3}
    assert {"total", "pending", "processing"} <= set(item["messages"]) and item["messages"]["total"] == 3
    assert isinstance(item["retainedBytes"], int)


def test_the_list_is_newest_first(api, name):
    queues = [name() for _ in range(4)]
    for q in queues:
        api.configure(q)
    listed = [item["name"] for item in api.queues() if item["name"] in queues]
    assert listed == queues[::-1]


def test_list_filters(api, name):
    ns = name("ns")
    queues = [f"{ns}.a", f"{ns}.b", f"{ns}x.a"]
    for q in queues:
        api.send(q, "m")

    def listed(**params):
        return [item["name"] for item in api.queues(**params)]

    assert listed(namespace=ns) == [f"{ns}.b", f"{ns}.a"]
    assert listed(namespace=ns, task="a") == [f"{ns}.a"]
    assert listed(search=ns) == queues[::-1]
    assert listed(search=ns, task="a") == [f"{ns}x.a", f"{ns}.a"]
    assert listed(search=ns, limit=2) == [f"{ns}x.a", f"{ns}.b"]
    assert listed(search=ns, limit=2, offset=2) == [f"{ns}.a"]
    assert listed(search=ns, limit=2, offset=5) == []
    assert listed(search=ns + "nothing") == [] == listed(namespace=ns[:-1])
    assert set(queues) <= set(listed(namespace="", task="", search="", unknown=1))


def test_one_queue(api, q):
    api.send(q, "a", "b", "c")
    api.send(q, "d", partition="x")
    api.ack(api.pop(q, "Default", batch=1)["messages"][0])
    leased = api.pop(q, "Default", batch=1)
    document = api.queue(q)
    assert {"id", "name", "namespace", "task", "createdAt", "partitions", "totals", "segments"} <= set(document)
    assert document["name"] == q and LIST_STAMP.match(document["createdAt"])
    default, other = document["partitions"]
    assert LANE_KEYS <= set(default) and STATS_KEYS <= set(default["stats"])
    assert (default["name"], other["name"]) == ("Default", "x")
    assert default["id"] == leased["partitionId"]
    assert LIST_STAMP.match(default["oldestMessage"]) and LIST_STAMP.match(default["newestMessage"])
    assert {key: default["stats"][key] for key in STATS_KEYS} == \
        {"total": 3, "pending": 2, "processing": 1, "completed": 1, "failed": None, "deadLetter": 0}
    assert {key: other["stats"][key] for key in ("total", "pending", "processing", "completed")} == \
        {"total": 1, "pending": 1, "processing": 0, "completed": 0}
    assert {key: document["totals"][key] for key in ("total", "pending", "processing", "completed")} == \
        {"total": 4, "pending": 3, "processing": 1, "completed": 1}
    assert document["segments"] == {"segments": 2, "messages": 4}


def test_dead_letters_are_counted(api, q):
    api.send(q, "a", "b")
    api.ack(api.pop(q)["messages"][0], "dlq")
    assert api.queue(q)["partitions"][0]["stats"]["deadLetter"] == 1


def test_the_slowest_group_decides_pending(api, q):
    api.send(q, "a", "b", "c")
    api.pop(q, consumerGroup="slow", subscriptionMode="all", batch=1)
    api.finish(api.pop(q, consumerGroup="fast", subscriptionMode="all"))
    stats = api.queue(q)["totals"]
    assert (stats["pending"], stats["processing"], stats["completed"]) == (3, 1, 0)


def test_an_unknown_queue(api, q):
    reply = api.queue_reply(q)
    assert (reply.status, reply.json) == (404, {"error": "Queue not found"})


def test_delete(api, q):
    api.send(q, "m")
    assert api.delete(q) == {"deleted": True, "queue": q, "existed": True}
    assert api.delete(q) == {"deleted": False, "queue": q, "existed": False,
                             "message": "Queue not found, nothing was deleted"}
    assert api.queue_reply(q).status == 404
    assert q not in [item["name"] for item in api.queues()]
    assert api.pop(q, "Default") is None


def test_a_deleted_name_starts_from_nothing(api, q):
    api.configure(q, leaseTime=900, namespace="labelled")
    api.send(q, "x", "y")
    old = api.pop(q, consumerGroup="g", subscriptionMode="all")
    api.ack(old["messages"][0])
    assert api.delete(q)["deleted"] is True
    again = api.push({"queue": q, "transactionId": "x", "payload": 1})[0]
    assert again["status"] == "queued", "deduplication has forgotten the old queue"
    assert api.queue(q)["namespace"] == q, "born by a push again"
    new = api.pop(q)
    assert [message["offset"] for message in new["messages"]] == [0]
    assert new["partitionId"] != old["partitionId"]
    assert api.popped(q, consumerGroup="g", subscriptionMode="all") == ["x"], "cursors and subscriptions are gone"
    result = api.ack(old["messages"][1])
    assert result["success"] is False and result["error"]
    api.finish(new)


def test_delete_then_create_in_a_hurry(api, q):
    """The set-up idiom of client tests: delete, configure, push, pop, over and over."""
    for number in range(10):
        api.delete(q)
        api.configure(q, leaseTime=30 + number)
        api.send(q, "same", "ids")
        popped = api.pop(q, consumerGroup="g", subscriptionMode="all")
        assert [message["offset"] for message in popped["messages"]] == [0, 1]
        assert api.queue(q)["totals"]["total"] == 2


def test_pushes_racing_a_delete_are_answered_truthfully(api, q):
    for _ in range(5):
        api.send(q, "seed")
        calls = [api.start("POST", "/api/v1/push", {"items": [{"queue": q, "payload": 1}]}) for _ in range(6)]
        gone = api.start("DELETE", "/api/v1/resources/queues/" + q)
        calls += [api.start("POST", "/api/v1/push", {"items": [{"queue": q, "payload": 1}]}) for _ in range(6)]
        assert gone.wait().json["deleted"] is True
        for call in calls:
            reply = call.wait()
            assert reply.status == 201 and reply.json[0]["status"] == "queued", reply
        api.delete(q)


def test_delete_takes_dead_letters_and_everything_else(pg_api, q):
    api = pg_api
    api.send(q, "m", "n")
    message = api.pop(q)["messages"][0]
    api.ack(message, "dlq")
    lane = message["partitionId"]
    counts = " UNION ALL ".join(f"SELECT count(*) FROM queen.{table} WHERE {column} = '{lane}'" for table, column in (
        ("log_dlq", "partition_id"), ("log_txns", "partition_id"), ("log_segments", "partition_id"),
        ("log_consumers", "partition_id"), ("log_partitions", "id")))
    assert all(int(row[0]) > 0 for row in api.broker.psql(counts))
    assert api.delete(q)["deleted"] is True
    assert [row[0] for row in api.broker.psql(counts)] == ["0"] * 5


def test_the_empty_queue_name(api):
    api.delete("")
    assert api.delete("")["deleted"] is False
    answer = api.configure("", leaseTime=45)
    assert (answer["configured"], answer["queue"]) == (True, "")
    api.push({"queue": "", "transactionId": "t1", "payload": 1},
             {"queue": "", "partition": "", "transactionId": "t2", "payload": 2})
    assert "" in [item["name"] for item in api.queues()]
    assert api.queue("")["name"] == ""
    popped = api.pop("", "")
    assert (popped["queue"], popped["partition"]) == ("", "")
    assert popped["messages"][0]["transactionId"] == "t2"
    assert api.popped("", consumerGroup="g", subscriptionMode="all", partitions=2, batch=5) != []
    assert api.popped("") == ["t1"]
    assert api.delete("") == {"deleted": True, "queue": "", "existed": True}
    assert api.pop("", autoAck=True) is None
    assert api.queue("")["namespace"] == "", "born by the pop, with labels of an empty name"
    api.delete("")


def test_name_rules_on_queue_routes(api):
    for segment in ("x" * 256, "a%00b", "a%0Ab", "%ff", "%7F"):
        for method in ("GET", "DELETE"):
            reply = api.call(method, "/api/v1/resources/queues/" + segment)
            assert reply.status == 400 and reply.error, (method, segment, reply)
