# SPDX-License-Identifier: Apache-2.0
"""What happens to calls that are in flight while the database holds them: a table lock makes the moment last."""
import pytest

from lib import clock
from lib.api import Api, pop_path, tids
from lib.fixtures import CHANGED

PARTITIONS, CONSUMERS = "log_partitions", "log_consumers"


def held_up(broker):
    return clock.eventually(broker.waiting, 10, "a statement waits for the lock")


def push(api, q, *transaction_ids, payload=1):
    """A push in flight."""
    items = [{"queue": q, "transactionId": tid, "payload": payload} for tid in transaction_ids]
    return api.start("POST", "/api/v1/push", {"items": items})


@pytest.mark.parametrize("reset", [False, True], ids=["close", "reset"])
@pytest.mark.parametrize("route", ["queue", "partition", "discovery"])
def test_a_client_that_vanishes_during_its_claim_keeps_no_lease(pg_api, q, route, reset):
    api = pg_api
    api.send(q, "m")
    args, params = {"queue": ((q,), {}), "partition": ((q, "Default"), {}), "discovery": ((), {"namespace": q})}[route]
    assert api.pop(*args, consumerGroup="other", **params) is None
    with api.broker.stalled(CONSUMERS):
        call = api.start("GET", pop_path(*args, leaseSeconds=600, **params))
        held_up(api.broker)
        call.abandon(reset)
        live = Api(api.port, api.version)
        assert live.call("GET", "/status").status == 200
    assert tids(live.pop(*args, wait=True, timeout=8000, **params)) == ["m"]
    live.close()


def test_pushes_beyond_the_memory_limit_are_shed(brokers, brokers_seen, q):
    """429 with Retry-After, nothing of the refused bodies stored, everything else answered once the database moves."""
    broker = brokers.get("pg", **CHANGED)
    api = Api(broker.port, "h1")
    api.configure(q)
    with broker.stalled(PARTITIONS):
        calls = [push(api, q, f"t{number}", payload="x" * 1000000) for number in range(12)]
        held_up(broker)
        clock.eventually(lambda: sum(call.ready() for call in calls) >= 7, 10, "what does not fit is refused at once")
        refused = [number for number, call in enumerate(calls) if call.ready()]
        assert len(refused) < 12
        for number in refused:
            reply = calls[number].wait()
            assert (reply.status, reply.header("retry-after")) == (429, "1"), reply
            assert reply.header("content-type") == "application/json" and reply.error
        assert api.call("GET", "/status").status == 200
    for number, call in enumerate(calls):
        if number not in refused:
            reply = call.wait()
            assert reply.status == 201 and reply.json[0]["status"] == "queued", reply
    assert api.queue(q)["totals"]["total"] == 12 - len(refused)
    for number in refused:
        api.send(q, f"t{number}")
    api.close()


@pytest.mark.slow
@pytest.mark.parametrize("version", ["h1", "h2"])
def test_a_stop_waits_for_pushes_in_flight(own_broker, version):
    broker = own_broker("pg")
    api = Api(broker.port, version)
    api.send("q", "first")
    with broker.stalled(PARTITIONS):
        calls = [push(api, "q", f"t{number}") for number in range(10)]
        held_up(broker)
        clock.eventually(lambda: sum(api.start("GET", "/status").wait().status == 200 for _ in range(20)) == 20, 5,
                         "the calls have arrived")
        broker.terminate()
        clock.eventually(lambda: "event=core.draining" in broker.log(), 5, "the stop has begun")
        assert broker.running()
    for call in calls:
        reply = call.wait(10)
        assert reply.status == 201 and reply.json[0]["status"] == "queued", reply
    assert broker.exit_code() == 0
    api.close()
    broker.start()
    api = Api(broker.port, version)
    assert sorted(api.popped("q", batch=100)) == sorted(["first"] + [f"t{number}" for number in range(10)])
    api.close()
    broker.stop()


def test_pushes_of_one_lane_keep_their_order_behind_a_stall(pg_api, q):
    api = pg_api
    api.send(q, "first")
    with api.broker.stalled(PARTITIONS):
        calls = [push(api, q, *[f"{number}:{place}" for place in range(5)]) for number in range(10)]
        held_up(api.broker)
    assert [call.wait().status for call in calls] == [201] * 10
    seen = api.popped(q, batch=100)
    assert seen[0] == "first" and len(seen) == len(set(seen)) == 51
    for number in range(10):
        assert [tid for tid in seen if tid.startswith(f"{number}:")] == [f"{number}:{place}" for place in range(5)]


def test_repeats_that_share_a_stalled_flush(pg_api, q):
    """Eight pushes of one key that wait together: one is stored, everybody gets its id."""
    api = pg_api
    api.send(q, "first")
    with api.broker.stalled(PARTITIONS):
        calls = [push(api, q, "x", f"y{number}") for number in range(8)]
        held_up(api.broker)
    results = [call.wait().json for call in calls]
    assert sorted(pair[0]["status"] for pair in results) == ["duplicate"] * 7 + ["queued"]
    assert len({pair[0]["message_id"] for pair in results}) == 1
    assert [pair[1]["status"] for pair in results] == ["queued"] * 8
    seen = api.popped(q, batch=100)
    assert sorted(seen) == sorted(["first", "x"] + [f"y{number}" for number in range(8)])
