# SPDX-License-Identifier: Apache-2.0
"""Starting, stopping and dying: what a stop answers, and what survives kill -9."""
import json
import socket

import pytest

from lib import clock, http1
from lib.api import Api, tids

VERSIONS = ["h1", "h2"]


def body_of(q, tid):
    return {"items": [{"queue": q, "transactionId": tid, "payload": tid}]}


def arrived(api):
    """Calls sent before this have left the kernel's queues: later ones on as many connections were answered."""
    for _ in range(2):
        for call in [api.start("GET", "/status") for _ in range(40)]:
            assert call.wait().status == 200


@pytest.mark.slow
@pytest.mark.parametrize("storage", ["memory", "pg"])
@pytest.mark.parametrize("version", VERSIONS)
def test_sigterm_answers_everybody_and_exits_0(own_broker, storage, version):
    broker = own_broker(storage)
    api = Api(broker.port, version)
    api.configure("idle")
    parked = [api.park("idle", timeout=60000) for _ in range(20)]
    parked.append(api.park("idle", "p", timeout=60000))
    parked.append(api.park(namespace="idle", timeout=60000))
    arrived(api)
    pushes = [api.start("POST", "/api/v1/push", body_of("busy", f"t{number}")) for number in range(20)]
    watch = clock.Watch()
    broker.terminate()
    stored = []
    for number, call in enumerate(pushes):
        try:
            reply = call.wait(10)
        except http1.Gone:
            continue
        if reply.status == 201 and reply.json[0]["status"] == "queued":
            stored.append(f"t{number}")
    for call in parked:
        assert call.wait(10).status == 204
    assert watch.seconds < 10
    assert broker.exit_code() == 0
    assert "level=error" not in broker.log()
    api.close()
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", broker.port), timeout=5)
    if storage == "pg":
        broker.start()
        api = Api(broker.port, version)
        found = api.popped("busy", wait=False, batch=100)
        assert set(stored) <= set(found) and len(found) == len(set(found)), "every answered push was stored"
        api.close()
        broker.stop()


@pytest.mark.slow
def test_in_flight_pushes_are_answered(own_broker):
    """A request whose body is still arriving when the stop begins is answered before the exit."""
    broker = own_broker("memory")
    connection = http1.Connection(broker.port)
    body = json.dumps(body_of("q", "t")).encode()
    connection.send_raw(b"POST /api/v1/push HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body[:10])
    assert broker.healthy(), "the half request does not block the broker"
    broker.terminate()
    connection.send_raw(body[10:])
    reply = connection.read(timeout=10)
    assert reply.status == 201 and reply.json[0]["status"] == "queued"
    assert broker.exit_code() == 0
    connection.close()


@pytest.mark.slow
def test_kill_9_keeps_everything_acknowledged(own_broker):
    broker = own_broker("pg")
    api = Api(broker.port, "h1")
    api.configure("conf", leaseTime=123, retryLimit=1, namespace="ns")
    ids = {}
    for number in range(50):
        result = api.push({"queue": "q", "transactionId": f"t{number}", "payload": {"n": number}})[0]
        ids[f"t{number}"] = result["message_id"]
    first = api.pop("q", batch=10)
    api.finish(first)
    leased = api.pop("q", batch=10, leaseSeconds=120)
    api.ack(leased["messages"][2])
    short = api.pop("q", batch=5, consumerGroup="g", subscriptionMode="all", leaseSeconds=1)
    api.send("conf", "poison", "next")
    api.ack(api.pop("conf")["messages"][0], "failed")
    flight = [api.start("POST", "/api/v1/push", body_of("flight", f"f{number}")) for number in range(50)]
    answered = [f"f{number}" for number, call in enumerate(flight[:25]) if call.wait().status == 201]
    broker.kill()
    broker.start()
    api.close()
    api = Api(broker.port, "h2")

    again = api.push({"queue": "q", "transactionId": "t7", "payload": 1})[0]
    assert (again["status"], again["message_id"]) == ("duplicate", ids["t7"]), "deduplication survives"
    assert set(answered) <= set(api.popped("flight", batch=100, wait=True, timeout=5000))
    assert api.pop("q") is None, "the lease survives"
    result = api.ack(leased["messages"][9])
    assert (result["success"], result["leaseReleased"]) == (True, True), "and its holder can finish"
    rest = api.pop("q", batch=100)
    assert tids(rest) == [f"t{number}" for number in range(20, 50)], "the cursor survives"
    assert [message["id"] for message in rest["messages"]] == [ids[tid] for tid in tids(rest)]
    assert [message["data"] for message in rest["messages"]] == [{"n": number} for number in range(20, 50)]
    redelivered = api.pop("q", batch=5, consumerGroup="g", wait=True, timeout=10000)
    assert tids(redelivered) == tids(short), "a short lease runs out and the batch comes again"
    poison = api.pop("conf")["messages"][0]
    assert 123 <= clock.parse(poison["leaseExpiresAt"]) - clock.parse(poison["createdAt"]), "the configuration survives"
    assert api.ack(poison, "failed")["dlq"] is True, "and the spent budget"
    assert api.popped("conf") == ["next"]
    api.close()
    broker.stop()


@pytest.mark.slow
def test_a_restart_keeps_subscriptions(own_broker):
    broker = own_broker("pg")
    api = Api(broker.port, "h2")
    api.send("q", "before")
    assert api.pop("q", consumerGroup="g", subscriptionMode="new") is None
    api.close()
    broker.stop()
    broker.start()
    api = Api(broker.port, "h2")
    api.send("q", "after", partition="new lane")
    api.send("q", "after too")
    assert sorted(api.popped("q", consumerGroup="g", subscriptionMode="all", partitions=5)) == ["after", "after too"]
    api.close()
    broker.stop()


def test_memory_forgets(own_broker):
    broker = own_broker("memory")
    api = Api(broker.port, "h1")
    api.send("q", "m")
    api.close()
    broker.stop()
    broker.start()
    api = Api(broker.port, "h1")
    assert api.pop("q") is None
    assert api.push({"queue": "q", "transactionId": "m", "payload": 1})[0]["status"] == "queued"
    api.close()
    broker.stop()


def test_a_second_signal_exits_now(own_broker):
    """A call still in flight would hold the stop up; whoever signals twice does not want to wait for it."""
    broker = own_broker("memory")
    connection = http1.Connection(broker.port)
    body = json.dumps(body_of("q", "t")).encode()
    connection.send_raw(b"POST /api/v1/push HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body[:10])
    arrived(Api(broker.port, "h1"))
    broker.terminate()
    clock.eventually(lambda: "event=core.draining" in broker.log(), 5, "the stop has begun")
    assert broker.process.poll() is None, "the call in flight holds the stop up"
    broker.terminate()
    assert broker.exit_code() == 1
    assert "event=core.killed" in broker.log()
    connection.close()


def test_it_listens_on_loopback_only_by_default_with_an_embedded_database(brokers, brokers_seen):
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.2", brokers.get("pg").port), timeout=5)
