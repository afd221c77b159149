# SPDX-License-Identifier: Apache-2.0
"""Transactions where the broker has to go again or tell others: repeats and windows, dead letters, parked pops, lanes
that pushes use too; and those that are in flight when something ends."""
import os
import signal
import threading
import uuid

from lib import clock
from lib.api import Api, tids
from lib.fixtures import CHANGED


def transact_reply(api, *operations, **more):
    return api.call("POST", "/api/v1/transaction", {"operations": list(operations), **more})


def transact(api, *operations, **more):
    reply = transact_reply(api, *operations, **more)
    assert reply.status == 200, reply
    return reply.json


def committed(api, *operations, **more):
    answer = transact(api, *operations, **more)
    assert answer["success"] is True, answer
    assert set(answer) == {"transactionId", "success", "results"}
    assert [result["index"] for result in answer["results"]] == list(range(len(answer["results"])))
    return answer["results"]


def refused(api, reason, error, *operations, **more):
    answer = transact(api, *operations, **more)
    assert set(answer) == {"transactionId", "success", "error", "reason", "results"}, answer
    assert (answer["success"], answer["reason"], answer["results"]) == (False, reason, []), answer
    assert error in answer["error"], answer
    return True


def push_op(queue, *tids_, partition="Default"):
    return {"type": "push", "items": [{"queue": queue, "partition": partition, "transactionId": tid,
                                       "payload": {"tid": tid}} for tid in tids_]}


def ack_op(message, status="completed", **more):
    return {"type": "ack", "transactionId": message["transactionId"], "partitionId": message["partitionId"],
            "status": status, **more}


def test_pushes_and_acks_in_one_call(api, q):
    api.send(q, "a", "b")
    messages = api.pop(q)["messages"]
    results = committed(api, ack_op(messages[1]), push_op(q + ".out", "x", "y"),
                        {"type": "push", "queue": q + ".flat", "data": [1.0, 2]},
                        requiredLeases=[messages[0]["leaseId"]])
    assert results[0] == {"index": 0, "type": "ack", "success": True, "transactionId": "b", "error": None, "dlq": False}
    assert [result["queueName"] for result in results[1:]] == [q + ".out", q + ".out", q + ".flat"]
    assert results[3]["transactionId"] == results[3]["messageId"]
    popped = api.pop(q + ".out")["messages"]
    assert [(message["transactionId"], message["id"]) for message in popped] == \
        [(result["transactionId"], result["messageId"]) for result in results[1:3]]
    assert b"[1.0, 2]" in api.pop_reply(q + ".flat").body
    assert api.pop(q) is None


def test_repeats_inside_the_call_follow_the_window(api, q):
    results = committed(api, push_op(q, "a", "b", "a"))
    assert "duplicate" not in results[0] and results[2]["duplicate"] is True
    assert results[2]["messageId"] == results[0]["messageId"]
    assert api.popped(q) == ["a", "b"]
    api.configure(q + "0", dedupWindowSeconds=0)
    for stored in (["a", "b", "a"], ["a", "b", "a"] * 2):
        results = committed(api, push_op(q + "0", "a", "b", "a"), push_op(q, f"c{len(stored)}", f"c{len(stored)}"))
        assert ["duplicate" in result for result in results] == [False, False, False, False, True]
        assert len({result["messageId"] for result in results[:3]}) == 3
        assert api.popped(q + "0", consumerGroup=f"g{len(stored)}", subscriptionMode="all") == stored


def test_a_dead_letter_commits_with_the_call(api, q):
    api.configure(q, retryLimit=0)
    api.send(q, "a", "b", "c")
    messages = api.pop(q)["messages"]
    results = committed(api, push_op(q + ".out", "x"), ack_op(messages[0]),
                        ack_op(messages[1], "failed", error="no good"), ack_op(messages[2]))
    assert [result.get("dlq") for result in results] == [None, False, True, False]
    assert api.queue(q)["totals"]["deadLetter"] == 1
    assert api.popped(q) == ["c"]
    assert api.popped(q + ".out") == ["x"]


def test_a_dead_letter_that_rolls_back_leaves_nothing(api, q):
    api.send(q + ".out", "x")
    api.send(q, "a")
    message = api.pop(q)["messages"][0]
    refused(api, "duplicate", f'QDUP duplicate messages in queue "{q}.out" partition "Default"',
            push_op(q + ".out", "x"), ack_op(message, "dlq"))
    assert api.queue(q)["totals"]["deadLetter"] == 0
    assert api.ack(message)["leaseReleased"] is True


def test_parked_pops_hear_of_pushes_and_of_lanes_set_free(api, q):
    park = api.park(q)
    committed(api, push_op(q, "a"))
    popped = api.got(park)
    assert tids(popped) == ["a"]
    park = api.park(q)
    committed(api, ack_op(popped["messages"][0], "retry"))
    assert tids(api.got(park)) == ["a"]


def test_transactions_and_pushes_of_one_lane_at_once(api, q):
    """Every message once, each client's own order kept."""
    count, clients = 30, 3

    def run(number):
        own = Api(api.port, api.version)
        for i in range(count):
            tid = f"{number}-{i}"
            if (i + number) % 2:
                own.send(q, tid)
            else:
                committed(own, push_op(q, tid))
        own.close()
    threads = [threading.Thread(target=run, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seen = []
    while len(seen) < count * clients:
        popped = api.pop(q, batch=100)
        assert popped, seen
        assert [m["offset"] for m in popped["messages"]] == list(range(len(seen), len(seen) + len(popped["messages"])))
        seen += tids(popped)
        api.finish(popped)
    for number in range(clients):
        assert [tid for tid in seen if tid.startswith(f"{number}-")] == [f"{number}-{i}" for i in range(count)]


def test_a_large_call_over_many_lanes(api, q):
    text = "x" * 2000
    items = [{"queue": q, "partition": str(i % 50), "transactionId": str(i), "payload": {"i": i, "text": text}}
             for i in range(1000)]
    results = committed(api, {"type": "push", "items": items})
    assert [result["transactionId"] for result in results] == [str(i) for i in range(1000)]
    seen = {}
    while len(seen) < 1000:
        popped = api.pop(q, batch=1000, partitions=50)
        for message in popped["messages"]:
            assert message["data"] == {"i": int(message["transactionId"]), "text": text}
            seen.setdefault(message["transactionId"], message)
        api.finish(popped)
    refused(api, "duplicate", "QDUP", {"type": "push", "items": items[999:]})


def test_a_fence_on_a_lease_that_is_gone(api, q):
    api.send(q, "a")
    message = api.pop(q)["messages"][0]
    ack = ack_op(message)
    committed(api, ack, push_op(q + ".out", "x"), requiredLeases=[message["leaseId"]])
    refused(api, "duplicate", "QDUP", ack, push_op(q + ".out", "x"), requiredLeases=[message["leaseId"]])
    for lease in (message["leaseId"], str(uuid.uuid4()), "no uuid"):
        refused(api, "ack_rejected", "QTXN required lease", ack, push_op(q + ".out", "y"), requiredLeases=[lease])
    assert api.popped(q + ".out") == ["x"]


def test_without_a_key_nothing_of_an_encrypting_queue_is_stored(pg_api, q):
    pg_api.configure(q)
    pg_api.broker.psql(f"UPDATE queen.queues SET encryption_enabled = true WHERE name = '{q}'")
    refused(pg_api, "db_error", f'queue "{q}" wants encrypted payloads', push_op(q + ".open", "a"), push_op(q, "b"))
    assert pg_api.popped(q) == [] == pg_api.popped(q + ".open")
    pg_api.configure(q, encryptionEnabled=False)
    committed(pg_api, push_op(q + ".open", "a"), push_op(q, "b"))


# ---- what ends in the middle

WAITING = "SELECT {} FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%transaction_v1%'"


def in_flight(api, *operations):
    call = api.start("POST", "/api/v1/transaction", {"operations": list(operations)})
    clock.eventually(lambda: api.broker.psql(WAITING.format("pid")), 10, "the transaction waits for the lock")
    return call


def test_a_session_that_is_ended_stores_nothing_and_says_so(pg_api, q):
    pg_api.send(q, "first")
    with pg_api.broker.stalled("log_partitions"):
        call = in_flight(pg_api, push_op(q, "a"))
        assert pg_api.broker.psql(WAITING.format("pg_terminate_backend(pid)")) == [("t",)]
        reply = call.wait()
    assert (reply.status, reply.error) == (500, "pool"), reply
    committed(pg_api, push_op(q, "a"))
    assert pg_api.popped(q) == ["first", "a"]


def test_a_database_that_dies_in_the_middle_leaves_doubt(own_broker, q):
    broker = own_broker("pg")
    api = Api(broker.port)
    api.broker = broker
    api.send(q, "first")
    with broker.stalled("log_partitions"):
        call = in_flight(api, push_op(q, "a"))
        os.kill(int(broker.psql(WAITING.format("pid"))[0][0]), signal.SIGKILL)
        reply = call.wait()
    assert reply.status == 200, reply
    assert (reply.json["success"], reply.json["reason"], reply.json["results"]) == (False, "db_error", []), reply
    assert "may or may not have been applied" in reply.json["error"]

    def applied():
        """Other connections die a moment later: their transactions are in doubt as well."""
        again = transact_reply(api, push_op(q, "a"))
        return again.status == 200 and (again.json["success"] or again.json["reason"] == "duplicate")
    clock.eventually(applied, 20, "the database is back")

    def popped():
        """Each class of connections comes back by itself."""
        reply = api.pop_reply(q)
        return reply.status == 200 and reply.json
    assert tids(clock.eventually(popped, 20, "pops are served again")) == ["first", "a"]
    api.close()


def test_a_stop_waits_for_a_transaction_in_flight(own_broker, q):
    broker = own_broker("pg")
    api = Api(broker.port)
    api.broker = broker
    api.send(q, "first")
    with broker.stalled("log_partitions"):
        call = in_flight(api, push_op(q, "a"))
        broker.terminate()
        clock.eventually(lambda: "event=core.draining" in broker.log(), 5, "the stop has begun")
        assert broker.running()
    reply = call.wait(10)
    assert reply.status == 200 and reply.json["success"] is True, reply
    assert broker.exit_code() == 0
    api.close()


def test_transactions_beyond_the_memory_limit_are_shed(brokers, brokers_seen, q):
    broker = brokers.get("pg", **CHANGED)
    api = Api(broker.port)
    api.broker = broker
    api.configure(q)
    large = [{"type": "push", "queue": q, "transactionId": f"t{n}", "data": "x" * 1000000} for n in range(8)]
    with broker.stalled("log_partitions"):
        calls = [in_flight(api, large[0])] + [api.start("POST", "/api/v1/transaction", {"operations": [op]})
                                              for op in large[1:]]
        clock.eventually(lambda: sum(call.ready() for call in calls) >= 4, 10, "what does not fit is refused at once")
    replies = [call.wait() for call in calls]
    assert {reply.status for reply in replies} == {200, 429}
    for op, reply in zip(large, replies):
        if reply.status == 429:
            assert reply.header("retry-after") == "1" and reply.error
            committed(api, op)
    assert api.queue(q)["totals"]["total"] == 8
    api.close()
