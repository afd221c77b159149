# SPDX-License-Identifier: Apache-2.0
"""The message plane's calls as a client library makes them, over either HTTP version.

Every answer passes `reply.check`. Methods that return a bare value also assert the status the API promises for
success; the `*_reply` and `call` forms return the answer for tests about statuses.
"""
import json
import uuid
from urllib.parse import quote, urlencode

from . import http1, http2
from .reply import check

CLIENTS = {"h1": http1.Client, "h2": http2.Client}
QUEUE_MODE = "__QUEUE_MODE__"
REASONS = ("bad_request", "duplicate", "ack_rejected", "payload_too_large", "misaligned", "db_error")


def segment(name):
    """One path segment: percent-encoded, slashes included; bytes pass through as they are encoded already."""
    return name.decode("ascii") if isinstance(name, bytes) else quote(name, safe="")


def query_string(params):
    def text(value):
        return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)
    pairs = [(key, text(value)) for key, value in params.items() if value is not None]
    return "?" + urlencode(pairs) if pairs else ""


def pop_path(queue=None, partition=None, **params):
    path = "/api/v1/pop"
    if queue is not None:
        path += "/queue/" + segment(queue)
    if partition is not None:
        path += "/partition/" + segment(partition)
    return path + query_string(params)


def tids(popped):
    """transactionIds of a pop, in delivery order; a 204 is an empty list."""
    return [message["transactionId"] for message in popped["messages"]] if popped else []


def ack_item(message, status="completed", **changes):
    """An ack item for a popped message, with its lease; a change to None leaves the key out."""
    item = {"transactionId": message["transactionId"], "partitionId": message["partitionId"],
            "status": status, "leaseId": message["leaseId"]}
    item.update(changes)
    return {key: value for key, value in item.items() if value is not None}


def push_op(queue, tid=None, payload=1, partition=None, **more):
    """A push operation of a transaction in its flat form; None leaves a key out."""
    item = {"type": "push", "queue": queue, "transactionId": tid, "payload": payload, "partition": partition, **more}
    return {key: value for key, value in item.items() if value is not None}


def ack_op(message, status="completed", **changes):
    """An ack operation for a popped message in its own group. It carries no lease, as client libraries send it."""
    group = message["consumerGroup"]
    changes = {"leaseId": None, "consumerGroup": None if group == QUEUE_MODE else group, **changes}
    return {"type": "ack", **ack_item(message, status, **changes)}


def transaction_answer(reply):
    """What holds for every 200 of a transaction: committed with results in order, or rolled back without any."""
    answer = reply.json
    uuid.UUID(answer["transactionId"])
    if answer["success"] is True:
        assert set(answer) == {"transactionId", "success", "results"}, answer
        assert [result["index"] for result in answer["results"]] == list(range(len(answer["results"]))), answer
        assert all(result["success"] is True for result in answer["results"]), answer
    else:
        assert set(answer) == {"transactionId", "success", "error", "reason", "results"}, answer
        assert answer["success"] is False and answer["results"] == [], answer
        assert answer["error"] and answer["reason"] in REASONS, answer
    return answer


class Api:
    def __init__(self, port, version="h1"):
        self.client = CLIENTS[version](port)
        self.version = version
        self.port = port

    def call(self, method, path, body=None, headers=(), timeout=30):
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode("utf-8")
        return check(self.client.request(method, path, data, headers, timeout), method)

    def start(self, method, path, body=None):
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode("utf-8")
        return self.client.start(method, path, data)

    # push
    def push_reply(self, body):
        return self.call("POST", "/api/v1/push", body)

    def push(self, *items):
        reply = self.push_reply({"items": list(items)})
        assert reply.status == 201, reply
        results = reply.json
        assert isinstance(results, list) and len(results) == len(items), reply
        return results

    def send(self, queue, *transaction_ids, partition=None):
        """Push one message per transactionId; all must be stored."""
        where = {} if partition is None else {"partition": partition}
        results = self.push(*[{"queue": queue, "transactionId": tid, "payload": {"tid": tid}, **where}
                              for tid in transaction_ids])
        assert [result["status"] for result in results] == ["queued"] * len(transaction_ids), results
        return results

    # pop
    def pop_reply(self, queue=None, partition=None, http_timeout=30, **params):
        return self.call("GET", pop_path(queue, partition, **params), timeout=http_timeout)

    def pop(self, queue=None, partition=None, **params):
        """The parsed answer of a delivering pop, None for 204."""
        reply = self.pop_reply(queue, partition, **params)
        assert reply.status in (200, 204), reply
        return reply.json if reply.status == 200 else None

    def popped(self, queue=None, partition=None, **params):
        return tids(self.pop(queue, partition, **params))

    def park(self, queue=None, partition=None, timeout=20000, **params):
        """A long poll that is in flight; ask `got` for its outcome."""
        return self.start("GET", pop_path(queue, partition, wait=True, timeout=timeout, **params))

    def got(self, call, timeout=30):
        reply = check(call.wait(timeout))
        assert reply.status in (200, 204), reply
        return reply.json if reply.status == 200 else None

    # ack
    def ack_reply(self, body, batch=False):
        return self.call("POST", "/api/v1/ack/batch" if batch else "/api/v1/ack", body)

    def ack(self, message, status="completed", group=None, **changes):
        """Ack one popped message in its own group; returns the one result."""
        body = ack_item(message, status, **changes)
        body["consumerGroup"] = group or message["consumerGroup"]
        reply = self.ack_reply(body)
        assert reply.status == 200, reply
        results = reply.json
        assert isinstance(results, list) and len(results) == 1, reply
        return results[0]

    def acks(self, items, group=None):
        """Ack several items in one call; results come back in request order."""
        body = {"acknowledgments": list(items)}
        if group is not None:
            body["consumerGroup"] = group
        reply = self.ack_reply(body, batch=True)
        assert reply.status == 200, reply
        results = reply.json
        assert [result["index"] for result in results] == list(range(len(items))), reply
        return results

    def finish(self, popped):
        """Complete a whole popped batch."""
        results = self.acks([ack_item(message) for message in popped["messages"]], popped["consumerGroup"])
        assert all(result["success"] for result in results), results

    def extend(self, lease_id, body=None):
        reply = self.call("POST", f"/api/v1/lease/{segment(lease_id)}/extend",
                          body if body is None or isinstance(body, (bytes, dict)) else {"seconds": body})
        assert reply.status == 200, reply
        return reply.json

    # transaction
    def transaction_reply(self, body):
        return self.call("POST", "/api/v1/transaction", body)

    def transact(self, *operations, leases=None):
        """The parsed answer of a transaction that was understood, committed or not."""
        body = {"operations": list(operations)}
        if leases is not None:
            body["requiredLeases"] = leases
        reply = self.transaction_reply(body)
        assert reply.status == 200, reply
        return transaction_answer(reply)

    def commit(self, *operations, leases=None):
        """A transaction that must commit: its results."""
        answer = self.transact(*operations, leases=leases)
        assert answer["success"] is True, answer
        return answer["results"]

    # queues
    def configure_reply(self, body):
        return self.call("POST", "/api/v1/configure", body)

    def configure(self, queue, **options):
        reply = self.configure_reply({"queue": queue, "options": options})
        assert reply.status == 200, reply
        return reply.json

    def delete(self, queue):
        reply = self.call("DELETE", "/api/v1/resources/queues/" + segment(queue))
        assert reply.status == 200, reply
        return reply.json

    def queue_reply(self, queue):
        return self.call("GET", "/api/v1/resources/queues/" + segment(queue))

    def queue(self, queue):
        reply = self.queue_reply(queue)
        assert reply.status == 200, reply
        return reply.json

    def queues(self, **params):
        reply = self.call("GET", "/api/v1/resources/queues" + query_string(params))
        assert reply.status == 200, reply
        return reply.json["queues"]

    def close(self):
        self.client.close()
