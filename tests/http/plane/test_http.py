# SPDX-License-Identifier: Apache-2.0
"""The HTTP surface a client library meets: routes, methods, bodies, bare 204s, one connection for many calls."""
import gzip
import json

import pytest

from lib import clock, http1
from lib.api import pop_path
from lib.fixtures import CHANGED

NO_ROUTE = {"error": "Not Found", "code": "no_such_route"}


def test_health_and_status(api):
    health = api.call("GET", "/health")
    assert health.status == 200 and {"status", "database", "engine", "version"} <= set(health.json)
    assert (health.json["status"], health.json["database"]) == ("healthy", "connected")
    status = api.call("GET", "/status")
    assert status.status == 200 and status.json["status"] == "ok" and isinstance(status.json["engine"], str)


@pytest.mark.parametrize("method, path", [
    ("GET", "/api/v1/nope"), ("GET", "/api/v1"), ("GET", "/api"), ("GET", "/api/"), ("POST", "/api/v1/migration/start"),
    ("POST", "/whatever"), ("DELETE", "/"), ("PUT", "/nowhere"), ("GET", "/api/v2/pop/queue/q"),
    ("POST", "/api/v1/push/x"),
    ("GET", "/api/v1/pop/queue"), ("GET", "/api/v1/pop/queue/a/b"), ("GET", "/api/v1/pop/queue/a/partition"),
    ("GET", "/api/v1/pop/queue/a/partition/b/c"), ("POST", "/api/v1/lease/x"), ("POST", "/API/v1/push"),
    ("GET", "/api/v1/resources/queues/a/b")])
def test_unknown_routes(api, method, path):
    reply = api.call(method, path, b"{}" if method == "POST" else None)
    assert (reply.status, reply.json) == (404, NO_ROUTE), reply


@pytest.mark.parametrize("method, path", [
    ("GET", "/api/v1/push"), ("PUT", "/api/v1/push"), ("DELETE", "/api/v1/ack"), ("GET", "/api/v1/ack/batch"),
    ("GET", "/api/v1/configure"), ("POST", "/api/v1/pop/queue/q"), ("GET", "/api/v1/lease/x/extend"),
    ("PATCH", "/api/v1/resources/queues/q"), ("POST", "/api/v1/pop")])
def test_a_known_path_with_another_method(api, method, path):
    reply = api.call(method, path, b"{}" if method in ("POST", "PUT", "PATCH") else None)
    assert reply.status in (404, 405) and reply.error, reply


def test_head(api, q):
    api.configure(q)
    for path in ("/health", "/status", "/api/v1/resources/queues", "/api/v1/resources/queues/" + q):
        head, get = api.call("HEAD", path), api.call("GET", path)
        assert (head.status, get.status) == (200, 200)
        assert head.header("content-type") == get.header("content-type")
        assert head.header("content-length") in (None, get.header("content-length"))
    assert api.call("HEAD", "/api/v1/resources/queues/" + q + "x").status == 404
    assert api.call("HEAD", "/api/v1/nope").status == 404


def test_head_leaves_an_http1_connection_in_step(brokers, brokers_seen):
    broker = brokers.get("memory")
    connection = http1.Connection(broker.port)
    connection.send("HEAD", "/api/v1/resources/queues")
    connection.send("GET", "/status")
    assert connection.read("HEAD").status == 200
    assert connection.read().json["status"] == "ok"
    connection.close()


@pytest.mark.parametrize("storage", ["memory", "pg"])
def test_an_empty_pop_is_a_bare_204_on_a_live_connection(brokers, brokers_seen, q, storage):
    connection = http1.Connection(brokers.get(storage).port)
    connection.send_raw(b"GET /api/v1/pop/queue/%s HTTP/1.1\r\nHost: x\r\n\r\nGET /status HTTP/1.1\r\nHost: x\r\n\r\n"
                        % q.encode())
    first = connection.read()
    assert (first.status, first.body) == (204, b"")
    for name in ("content-length", "transfer-encoding", "content-type"):
        assert first.header(name) is None, first
    assert first.header("connection") != "close"
    assert connection.read().json["status"] == "ok"
    connection.close()


def test_hundreds_of_empty_pops_use_one_connection(api, q):
    for _ in range(300):
        assert api.pop(q) is None
    assert api.client.opened == 1


def test_sequences_of_calls_use_one_connection(api, q):
    for number in range(20):
        api.send(q, f"m{number}")
        api.finish(api.pop(q))
        api.push_reply(b"{")
        api.call("GET", "/api/v1/nope")
    assert api.client.opened == 1


def test_pipelined_requests_are_answered_in_order(brokers, brokers_seen, q):
    connection = http1.Connection(brokers.get("memory").port)
    for number in range(20):
        connection.send("POST", "/api/v1/push", json.dumps({"items": [{"queue": q, "payload": number}]}).encode())
        connection.send("GET", f"/api/v1/pop/queue/{q}?autoAck=true")
    for number in range(20):
        assert connection.read().status == 201
        assert [message["data"] for message in connection.read().json["messages"]] == [number]
    connection.close()


def test_a_body_above_the_limit(changed_api, q):
    api = changed_api
    frame = b'{"items":[{"queue":"%s","payload":"%s"}]}'
    room = 3000000 - len(frame % (q.encode(), b""))
    exact = frame % (q.encode(), b"x" * room)
    assert len(exact) == 3000000
    assert api.push_reply(exact).status == 201
    reply = api.client.request("POST", "/api/v1/push", exact + b" ")
    assert reply.status == 413 and reply.error, reply
    assert reply.header("content-type") == "application/json"
    assert api.queue(q)["totals"]["total"] == 1
    for path in ("/api/v1/ack", "/api/v1/ack/batch", "/api/v1/configure"):
        assert api.client.request("POST", path, b" " * 3000001).status == 413


def test_a_body_above_the_limit_is_refused_before_it_is_sent(brokers, brokers_seen):
    """With an announced length the answer comes without the body, and no 100 invites it."""
    connection = http1.Connection(brokers.get("memory").port)
    connection.send_raw(b"POST /api/v1/push HTTP/1.1\r\nHost: x\r\nContent-Length: 73400320\r\n"
                        b"Expect: 100-continue\r\n\r\n")
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.sock.recv(65536)
    assert data.startswith(b"HTTP/1.1 413 "), data
    connection.close()


def test_a_chunked_body_above_the_limit(brokers, brokers_seen):
    connection = http1.Connection(brokers.get("memory", **CHANGED).port)
    connection.send("POST", "/api/v1/push", b"", [("Transfer-Encoding", "chunked")])
    try:
        for _ in range(70):
            connection.send_raw(b"c350\r\n" + b" " * 50000 + b"\r\n")
        connection.send_raw(b"0\r\n\r\n")
    except ConnectionError:
        pass
    reply = connection.read()
    assert reply.status == 413 and reply.error
    connection.close()


@pytest.mark.parametrize("storage", ["memory", "pg"])
def test_chunked_uploads(brokers, brokers_seen, q, storage):
    connection = http1.Connection(brokers.get(storage).port)
    text = "y" * 2000000
    body = json.dumps({"items": [{"queue": q, "payload": text}]}).encode()
    connection.send("POST", "/api/v1/push", b"", [("Transfer-Encoding", "chunked")])
    for start in range(0, len(body), 50000):
        piece = body[start:start + 50000]
        connection.send_raw(b"%x\r\n" % len(piece) + piece + b"\r\n")
    connection.send_raw(b"0\r\n\r\n")
    assert connection.read().status == 201
    connection.send("GET", pop_path(q))
    assert connection.read().json["messages"][0]["data"] == text
    connection.close()


def test_expect_continue(brokers, brokers_seen, q):
    connection = http1.Connection(brokers.get("memory").port)
    body = json.dumps({"items": [{"queue": q, "payload": 1}]}).encode()
    connection.send_raw(b"POST /api/v1/push HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n"
                        % len(body))
    clock.eventually(connection.readable, 10, "100 Continue")
    connection.send_raw(body)
    assert connection.read().status == 201
    connection.close()


def test_a_body_on_a_get_is_ignored(api, q):
    api.send(q, "m")
    reply = api.call("GET", pop_path(q), b'{"batch":"x"}')
    assert reply.status == 200 and len(reply.json["messages"]) == 1


def test_compressed_bodies_are_not_json(api, q):
    body = gzip.compress(json.dumps({"items": [{"queue": q, "payload": 1}]}).encode())
    reply = api.call("POST", "/api/v1/push", body, headers=[("content-encoding", "gzip")])
    assert reply.status == 400 and reply.error


def test_answers_are_utf8_json_whatever_was_asked(api):
    for body in (b'{"items":[{"queue":"\xff\xfe"}]}', b"\x00\x01", b'{"\\ud83d":'):
        reply = api.push_reply(body)
        assert reply.status == 400
        json.loads(reply.body.decode("utf-8", "strict"))
