# SPDX-License-Identifier: Apache-2.0
"""Two brokers on one database: what one deletes or configures, the other does not remember.

The first broker runs the database, the second uses its socket. Both have seen, pushed to and popped from every queue of
a test before the other one deletes it, so that whatever they keep about queues, lanes, ids and groups is warm.
"""
import pytest

from lib import clock
from lib.api import Api, ack_item, ack_op, pop_path, push_op, tids
from lib.broker import Broker

OWNED = (("log_partitions", "queue_id", "queues"), ("log_segments", "partition_id", "log_partitions"),
         ("log_txns", "partition_id", "log_partitions"), ("log_dlq", "partition_id", "log_partitions"),
         ("log_consumers", "partition_id", "log_partitions"), ("consumer_watermarks", "queue_id", "queues"))
ORPHANS = " UNION ALL ".join(f"SELECT '{table}', count(*) FROM queen.{table} t WHERE NOT EXISTS "
                             f"(SELECT FROM queen.{owner} o WHERE o.id = t.{column})" for table, column, owner in OWNED)


@pytest.fixture(scope="module")
def two():
    first = Broker("pg")
    second = None
    try:
        first.start()
        socket = first.socket_file()
        second = Broker("pg", {
            "PG_HOST": str(socket.parent), "PG_PORT": socket.name.rsplit(".", 1)[1], "PG_USER": "postgres",
            "PG_PASSWORD": (first.data / "pg.password").read_text(), "PG_DATABASE": "postgres",
            "QUEEN_BIND_ADDR": "127.0.0.1"})
        second.start()
        yield first, second
        second.stop()
        first.stop()
    finally:
        if second is not None:
            second.reap()
        first.reap()


@pytest.fixture(params=["h1", "h2"])
def pair(two, request, brokers_seen):
    brokers_seen.extend((broker, broker.log_size()) for broker in two)
    apis = [Api(broker.port, request.param) for broker in two]
    for api, broker in zip(apis, two):
        api.broker = broker
    yield apis
    for api in apis:
        api.close()


@pytest.fixture(params=["delete by the first", "delete by the second"])
def sides(pair, request):
    """The broker that deletes and the one that must notice."""
    return pair if request.param == "delete by the first" else pair[::-1]


def embedded(apis):
    """The broker that runs the database and can look into it."""
    return next(api.broker for api in apis if "PG_HOST" not in api.broker.env)


def warm(api, q, *transaction_ids, partition=None):
    """Push, pop and ack through one broker, so that it knows the queue, its lane and these ids."""
    api.send(q, *transaction_ids, partition=partition)
    api.finish(api.pop(q, partition, batch=100))


def test_both_see_one_queue(pair, q):
    a, b = pair
    a.send(q, "x")
    again = b.push({"queue": q, "transactionId": "x", "payload": 1})[0]
    assert again["status"] == "duplicate"
    message = b.pop(q)["messages"][0]
    assert a.pop(q) is None, "leased through the other one"
    assert a.ack(message)["leaseReleased"] is True
    assert b.ack(message)["noop"] is True


def test_a_deleted_queue_starts_from_nothing_on_the_other_broker(sides, q):
    a, b = sides
    warm(b, q, "x", "y")
    warm(a, q, "z")
    b.send(q, "ghost")
    assert a.delete(q) == {"deleted": True, "queue": q, "existed": True}
    assert b.queue_reply(q).status == 404
    assert q not in [item["name"] for item in b.queues(search=q)]
    assert b.delete(q)["deleted"] is False
    results = b.push(*[{"queue": q, "transactionId": tid, "payload": tid} for tid in "xyz"])
    assert [result["status"] for result in results] == ["queued"] * 3, "its ids are forgotten everywhere"
    popped = b.pop(q)
    assert [(message["transactionId"], message["offset"]) for message in popped["messages"]] == \
        [("x", 0), ("y", 1), ("z", 2)]
    assert [message["id"] for message in popped["messages"]] == [result["message_id"] for result in results]
    b.finish(popped)
    assert a.pop(q) is None and b.pop(q) is None


def test_no_ghost_is_delivered_after_a_delete(sides, q):
    """The other broker knows of work in three lanes that are gone."""
    a, b = sides
    for lane in "abc":
        warm(b, q, "old", partition=lane)
        b.send(q, "ghost", partition=lane)
    assert a.delete(q)["deleted"] is True
    assert b.pop(q, "a") is None
    assert b.pop(q, partitions=10) is None, "and the queue is born again, empty"
    assert b.queue(q)["totals"]["total"] == 0 and b.queue(q)["partitions"] == []
    a.send(q, "new", partition="b")
    assert b.got(b.park(q, partitions=10))["messages"][0]["transactionId"] == "new"


def test_a_parked_pop_of_the_other_broker_survives_a_delete(sides, q):
    a, b = sides
    warm(b, q, "old")
    parked = b.park(q, timeout=25000)
    assert a.delete(q)["deleted"] is True
    b.send(q, "new")
    popped = b.got(parked)
    assert [(message["transactionId"], message["offset"]) for message in popped["messages"]] == [("new", 0)]


def test_a_parked_pop_gets_what_the_other_broker_stores(sides, q):
    a, b = sides
    warm(b, q, "old")
    parked = b.park(q, timeout=25000)
    a.delete(q)
    a.send(q, "new")
    assert tids(b.got(parked)) == ["new"]


def test_options_of_a_deleted_queue_are_forgotten(sides, q):
    a, b = sides
    b.configure(q, leaseTime=900, retryLimit=0, delayedProcessing=300, dedupWindowSeconds=0, namespace="elsewhere")
    b.send(q, "x", "x")
    assert b.pop(q) is None, "delayed"
    assert a.delete(q)["deleted"] is True
    assert [result["status"] for result in b.push(*[{"queue": q, "transactionId": "x", "payload": 1}] * 2)] == \
        ["queued", "duplicate"]
    message = b.pop(q)["messages"][0]
    assert 60 <= clock.lease_seconds(message) < 90
    assert b.queue(q)["namespace"] == q
    assert b.ack(message, "failed")["dlq"] is False


def test_groups_of_a_deleted_queue_are_forgotten(sides, q):
    a, b = sides
    b.send(q, "old")
    assert b.pop(q, consumerGroup="g", subscriptionMode="new") is None
    assert a.pop(q, consumerGroup="g") is None
    assert a.delete(q)["deleted"] is True
    a.send(q, "before")
    assert tids(b.got(b.park(q, consumerGroup="g", subscriptionMode="all"))) == ["before"]


def test_leases_of_a_deleted_queue_are_worthless(sides, q):
    a, b = sides
    b.send(q, "x", "y")
    popped = b.pop(q)
    message = popped["messages"][0]
    assert a.delete(q)["deleted"] is True
    b.send(q, "x", "y")
    assert b.extend(popped["leaseId"], 60)["renewed"] == 0
    for status in ("completed", "failed", "retry", "dlq"):
        result = b.ack(message, status)
        assert result["success"] is False and result["dlq"] is False and result["error"], result
    assert [result["success"] for result in b.acks([ack_item(each) for each in popped["messages"]])] == [False, False]
    assert b.popped(q) == ["x", "y"]


def test_dead_letters_go_with_their_queue(sides, q):
    a, b = sides
    b.send(q, "poison")
    message = b.pop(q)["messages"][0]
    assert b.ack(message, "dlq")["dlq"] is True
    count = f"SELECT count(*) FROM queen.log_dlq WHERE partition_id = '{message['partitionId']}'"
    assert embedded(sides).psql(count) == [("1",)]
    assert a.delete(q)["deleted"] is True
    assert embedded(sides).psql(count) == [("0",)]
    b.send(q, "poison")
    assert b.queue(q)["totals"]["deadLetter"] == 0


def test_delete_here_create_there_in_a_hurry(sides, q):
    """The set-up idiom of client tests, spread over two brokers by a load balancer."""
    a, b = sides
    for number in range(12):
        a.delete(q)
        (a if number % 2 else b).configure(q, leaseTime=30 + number)
        b.send(q, "same", "ids")
        popped = (a if number % 3 else b).got(b.park(q) if number % 3 == 0 else a.park(q))
        assert [(message["transactionId"], message["offset"]) for message in popped["messages"]] == \
            [("same", 0), ("ids", 1)]
        assert 30 + number <= clock.lease_seconds(popped["messages"][0]) < 60
        assert a.queue(q)["totals"]["total"] == b.queue(q)["totals"]["total"] == 2
        a, b = b, a


def test_a_configuration_reaches_the_other_broker(sides, q):
    a, b = sides
    b.configure(q, leaseTime=100, dedupWindowSeconds=3600)
    warm(b, q, "x")
    a.configure(q, leaseTime=500, dedupWindowSeconds=0)
    assert b.push({"queue": q, "transactionId": "x", "payload": 1})[0]["status"] == "queued"
    assert 500 <= clock.lease_seconds(b.pop(q)["messages"][0]) < 530


def test_races_with_deletes_leave_no_orphans(pair, q):
    """Pushes, pops and acks through both while both delete: every answer is true and nothing is left behind."""
    a, b = pair
    for number in range(6):
        for api in pair:
            api.send(q, f"seed{api.port}")
        popped = [api.pop(q, consumerGroup=f"g{api.port}", subscriptionMode="all") for api in pair]
        calls = []
        for api in pair:
            calls += [(201, api.start("POST", "/api/v1/push", {"items": [
                {"queue": q, "partition": lane, "payload": 1} for lane in "ab"]})) for _ in range(4)]
        for found in popped:
            body = {**ack_item(found["messages"][0], "dlq"), "consumerGroup": found["consumerGroup"]}
            calls.append((200, b.start("POST", "/api/v1/ack", body)))
        gone = (a if number % 2 else b).start("DELETE", "/api/v1/resources/queues/" + q)
        for api in pair:
            calls += [(201, api.start("POST", "/api/v1/push", {"items": [
                {"queue": q, "partition": lane, "payload": 1} for lane in "ba"]})) for _ in range(4)]
            calls.append((None, api.start("GET", pop_path(q, partitions=5))))
        assert gone.wait().json["deleted"] is True
        for status, call in calls:
            reply = call.wait()
            assert reply.status == status or status is None and reply.status in (200, 204), reply
            if status == 201:
                assert [result["status"] for result in reply.json] == ["queued", "queued"], reply
        b.delete(q)
        assert a.queue_reply(q).status == b.queue_reply(q).status == 404
    assert {count for _, count in embedded(pair).psql(ORPHANS)} == {"0"}


def test_a_lease_is_extended_by_either(pair, q):
    a, b = pair
    for lane in "xyz":
        a.send(q, lane, partition=lane)
    popped = a.pop(q, partitions=3, leaseSeconds=20)
    for api in (b, a):
        assert api.extend(popped["leaseId"], 200)["renewed"] == 3
    a.ack(popped["messages"][0])
    for api in (b, a):
        assert api.extend(popped["leaseId"], 300)["renewed"] == 2


# transactions

def test_of_the_same_work_through_both_brokers_one_commits(pair, name):
    q, sink = name(), name()
    for number in range(5):
        pair[number % 2].send(q, f"m{number}")
        message = pair[0].got(pair[0].park(q))["messages"][0]
        body = {"operations": [push_op(sink, partition=f"p{number}"), ack_op(message)],
                "requiredLeases": [message["leaseId"]]}
        calls = [api.start("POST", "/api/v1/transaction", body) for _ in range(3) for api in pair]
        assert [call.wait().json["success"] for call in calls].count(True) == 1
        assert len(pair[0].pop(sink, f"p{number}")["messages"]) == 1


def test_opposite_orders_through_both_brokers_do_not_deadlock(pair, q):
    lanes = [f"p{number}" for number in range(6)]
    calls = []
    for number in range(20):
        for api, order in zip(pair, (lanes, lanes[::-1])):
            calls.append(api.start("POST", "/api/v1/transaction", {"operations": [
                push_op(q, f"{api.port}-{number}", partition=lane) for lane in order]}))
            calls.append(api.start("POST", "/api/v1/push", {"items": [
                {"queue": q, "partition": lane, "payload": 1} for lane in order]}))
    for call in calls:
        reply = call.wait()
        assert reply.status == 201 or reply.json["success"] is True, reply
    for lane in lanes:
        messages = pair[0].pop(q, lane, batch=200)["messages"]
        assert [message["offset"] for message in messages] == list(range(80))


def test_ids_of_a_transaction_are_known_to_the_other_broker(sides, q):
    a, b = sides
    stored = a.commit(push_op(q, "x"))[0]
    again = b.push({"queue": q, "transactionId": "x", "payload": 1})[0]
    assert (again["status"], again["message_id"]) == ("duplicate", stored["messageId"])
    assert b.transact(push_op(q, "x"))["reason"] == "duplicate"
    a.delete(q)
    assert "duplicate" not in b.commit(push_op(q, "x"))[0]
    assert tids(a.got(a.park(q))) == ["x"]
