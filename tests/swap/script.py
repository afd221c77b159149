# SPDX-License-Identifier: Apache-2.0
"""One walk through the whole message plane, strictly sequential, so that every answer is determined.

It must not depend on time: leases are long, polls end at once or are answered by work that is already there.
"""
from lib.api import ack_item, ack_op, pop_path, push_op, segment

GHOST = "00000000-0000-7000-8000-000000000000"


def push(run, *items):
    return run.call("POST", "/api/v1/push", {"items": list(items)})


def message(q, tid, partition=None, payload=1):
    where = {} if partition is None else {"partition": partition}
    return {"queue": q, "transactionId": tid, "payload": payload, **where}


def pop(run, *args, **params):
    return run.call("GET", pop_path(*args, **params))


def ack(run, popped, group=None, **statuses):
    """Ack messages of a popped batch by position: m0="completed", m2="failed"."""
    items = [ack_item(popped["messages"][int(key[1:])], status) for key, status in statuses.items()]
    return run.call("POST", "/api/v1/ack/batch", {"consumerGroup": group, "acknowledgments": items})


def queue(run, q, method="GET"):
    return run.call(method, "/api/v1/resources/queues/" + segment(q))


def births(run):
    q, dotted = run.name("birth"), run.name("ns.task.more")
    queue(run, q)
    pop(run, q, "Default")
    queue(run, q)
    pop(run, q)
    queue(run, q)
    push(run, message(q, "a"), message(q, "b", "lane"), message(dotted, "c"))
    queue(run, q)
    queue(run, dotted)
    run.call("GET", "/api/v1/resources/queues?namespace=" + run.name("ns"))
    run.call("POST", "/api/v1/configure", {"queue": dotted})
    queue(run, dotted)
    pop(run, namespace=run.name("ns"))
    run.call("POST", "/api/v1/configure", {"queue": dotted, "namespace": run.name("n2"), "options": {"leaseTime": 500}})
    pop(run, namespace=run.name("n2"))
    pop(run)


def configurations(run):
    q = run.name("conf")
    for options in ({}, {"leaseTime": 10, "retryLimit": 0, "priority": 3, "ttl": 5, "maxSize": 6, "retryDelay": 7},
                    {"minPopWaitTime": 99999, "dedupWindowSeconds": -3, "deadLetterQueue": False, "bananas": 1},
                    {"leaseTime": 0}, {"leaseTime": "abc"}, {"retryLimit": -1}, {"windowBuffer": 1.5},
                    {"deadLetterQueue": "maybe"}, {"namespace": 7}, {"retentionSeconds": 315360001},
                    {"encryptionEnabled": True}, {"leaseTime": None, "namespace": "x" * 256}):
        run.call("POST", "/api/v1/configure", {"queue": q, "options": options})
    for body in (b"", b"{", b"{}", b'{"queue":7}', b'{"queue":"a\\u0000b"}', b"[]"):
        run.call("POST", "/api/v1/configure", body)
    queue(run, q)


def pushes(run):
    q = run.name("push")
    push(run)
    push(run, {"queue": q, "payload": {"b": 1, "a": [None, True, 1.5, "é\u0000"]}}, message(q, ""), message(q, "x"))
    push(run, message(q, "x"), message(q, "y", "p"), message(q, "x"), message(q, "z"), message(q, "y", "p"))
    push(run, {"queue": q, "partition": None, "payload": None, "traceId": GHOST, "producerSub": "me", "unknown": 1})
    pop(run, q, "Default")
    pop(run, q, "p", autoAck=True)
    for body in (b"", b"null", b'{"items":7}', b'{"items":[{"queue":"q"}]}', b'{"items":[{"payload":1}]}',
                 b'{"items":[{"queue":"q","payload":NaN}]}', b'{"items":[{"queue":"q","queue":"q","payload":1}]}',
                 b'{"items":[{"queue":"q","payload":1},{"queue":"a\\u0001","payload":1}]}',
                 b'{"items":[{"queue":"q","partition":"%s","payload":1}]}' % (b"x" * 2049),
                 b'{"items":[{"queue":"q","payload":"\xff"}]}'):
        run.call("POST", "/api/v1/push", body)
    window = run.name("nowindow")
    run.call("POST", "/api/v1/configure", {"queue": window, "options": {"dedupWindowSeconds": 0}})
    push(run, message(window, "x"), message(window, "x"))
    push(run, message(window, "x"))
    pop(run, window, batch=2)


def groups(run):
    q = run.name("groups")
    push(run, message(q, "m1"), message(q, "m2"))
    for params in ({"consumerGroup": "default"}, {"consumerGroup": "all", "subscriptionMode": "all"},
                   {"consumerGroup": "odd", "subscriptionMode": "odd"},
                   {"consumerGroup": "now", "subscriptionFrom": "now"},
                   {"consumerGroup": "then", "subscriptionFrom": "2000-01-01T00:00:00Z"},
                   {"consumerGroup": "bad", "subscriptionFrom": "never"}, {}, {"consumerGroup": "__QUEUE_MODE__"}):
        pop(run, q, **params)
    push(run, message(q, "m3"), message(q, "m4", "later"))
    pop(run, q, consumerGroup="default", partitions=5)
    pop(run, q, consumerGroup="now", partitions=5, autoAck=True)
    pop(run, q, consumerGroup="all", partitions=5)
    for query in ("batch=x", "batch=1&batch=1", "wait=1", "timeout=-1", "partitions=", "leaseSeconds=9999999999"):
        run.call("GET", pop_path(q) + "?" + query)


def leases(run):
    q = run.name("lease")
    push(run, *[message(q, f"{lane}{number}", lane) for lane in "abc" for number in range(3)])
    popped = pop(run, q, partitions=3, batch=9, leaseSeconds=500)
    pop(run, q, partitions=3)
    extend = f"/api/v1/lease/{popped['leaseId']}/extend"
    run.call("POST", extend, {"seconds": 1})
    run.call("POST", extend, b"garbage")
    run.call("POST", extend)
    run.call("POST", f"/api/v1/lease/{GHOST}/extend", {"seconds": 5})
    lane = [item for item in popped["messages"] if item["partition"] == "b"]
    ack(run, {"messages": lane}, m0="completed", m1="failed", m2="completed")
    run.call("POST", extend, {"seconds": 600})
    again = pop(run, q, "b")
    ack(run, again, m1="completed")
    ack(run, again, m1="completed")
    ack(run, again, m0="failed")


def settlements(run):
    q = run.name("ack")
    push(run, *[message(q, f"t{number}") for number in range(12)])
    popped = pop(run, q, batch=5)
    ack(run, popped, m1="completed")
    ack(run, popped, m0="completed", m1="failed")
    ghost = {**ack_item(popped["messages"][2]), "transactionId": "ghost"}
    run.call("POST", "/api/v1/ack/batch", {"acknowledgments": [ghost, ack_item(popped["messages"][2])]})
    stale = {**ack_item(popped["messages"][3]), "leaseId": GHOST}
    for body in (stale, {**stale, "status": "dlq"}, {**stale, "partitionId": GHOST}, {**stale, "partitionId": "x"},
                 {**stale, "consumerGroup": "nobody"}, {}):
        run.call("POST", "/api/v1/ack", body)
    ack(run, popped, m3="retry", m4="failed")
    run.call("POST", "/api/v1/ack", {**ack_item(popped["messages"][3], "failed", leaseId=None)})
    for _ in range(4):
        popped = pop(run, q, batch=3)
        ack(run, popped, m0="failed", m1="completed")
    popped = pop(run, q, batch=4)
    ack(run, popped, m0="completed", m1="dlq", m2="completed")
    queue(run, q)
    popped = pop(run, q, batch=2)
    ack(run, popped, m0="nack")
    ack(run, pop(run, q), m0="ok", m1="success")
    drop = run.name("drop")
    run.call("POST", "/api/v1/configure", {"queue": drop, "options": {"retryLimit": 0, "deadLetterQueue": False,
                                                                      "dlqAfterMaxRetries": False}})
    push(run, message(drop, "a"), message(drop, "b"))
    ack(run, pop(run, drop), m0="failed")
    pop(run, drop)
    for body in (b"", b'{"acknowledgments":null}', b'{"acknowledgments":[7]}', b"{}"):
        run.call("POST", "/api/v1/ack/batch", body)


def transact(run, *operations, leases=()):
    return run.call("POST", "/api/v1/transaction", {"operations": list(operations), "requiredLeases": list(leases)})


def transactions(run):
    q, sink = run.name("txn"), run.name("sink.of")
    push(run, *[message(q, f"t{number}") for number in range(8)])
    transact(run)
    popped = pop(run, q, batch=4)
    lease, messages = popped["leaseId"], popped["messages"]
    transact(run, push_op(sink, "a"), push_op(sink, "a", 2), push_op(sink, payload={"b": 1e2, "a": None}),
             {"type": "push", "items": [{"queue": sink, "data": 1, "partition": "p", "traceId": GHOST}]},
             ack_op(messages[0]), leases=[lease])
    victim = messages[1]
    for spoiler in (push_op(sink, "a"), ack_op(victim, transactionId="ghost"), ack_op(victim, leaseId=GHOST),
                    ack_op(victim, consumerGroup="nobody"), ack_op(victim, partitionId="x"),
                    ack_op(victim, partitionId=GHOST), ack_op(victim, "dlq", leaseId="no"),
                    {"type": "push", "payload": 1}, {"type": "delete"}, {}, 7, push_op("x" * 256),
                    push_op(sink, "c", partition="a\u0001b")):
        transact(run, push_op(sink, "never"), ack_op(messages[2], "failed"), spoiler, leases=[lease])
    transact(run, push_op(sink, "never"), leases=[lease, GHOST])
    transact(run, ack_op(messages[0]), ack_op(messages[0], "failed"), ack_op(messages[1], "dlq", error="why"))
    transact(run, ack_op(messages[2], "retry"))
    for status in ("failed", "nack", "failed", "failed", "completed"):
        transact(run, ack_op(pop(run, q, batch=2)["messages"][0], status))
    transact(run, push_op(sink, "late"), leases=[lease])
    for body in (b"", b"{", b"{}", b"[]", b'{"operations":{}}', b'{"operations":[null]}'):
        run.call("POST", "/api/v1/transaction", body)
    queue(run, q)
    pop(run, sink, partitions=2)


def deletions(run):
    q = run.name("delete/me ü")
    push(run, message(q, "x", ""), message(q, "x", "a/b"))
    popped = pop(run, q, "a/b")
    queue(run, q)
    queue(run, q, "DELETE")
    queue(run, q, "DELETE")
    ack(run, popped, m0="completed")
    push(run, message(q, "x", "a/b"))
    pop(run, q, "", timeout=0, wait=True)
    pop(run, q, "a/b", wait=True, timeout=5000)
    for method, path in (("GET", "/api/v1/nope"), ("POST", "/nope"), ("PUT", "/api/v1/push"),
                         ("GET", "/api/v1/pop/queue/%ff"),
                         ("HEAD", pop_path(q)), ("GET", "/health"), ("GET", "/status")):
        run.call(method, path)


def walk(run):
    for part in (births, configurations, pushes, groups, leases, settlements, transactions, deletions):
        part(run)
