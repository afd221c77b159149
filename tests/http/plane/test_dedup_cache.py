# SPDX-License-Identifier: Apache-2.0
"""What the brokers remember of hashes never changes a verdict: two brokers that write one lane in turns, restarts,
windows that are narrowed and widened, deleted queues, wrong clocks, a cache that is too small.

Every repeat must be a duplicate with the original's message id. That the memory is of use is counted inside the
database: a push to a lane that is known does not search at all.
"""
import glob
import time

import pytest

from lib.api import Api
from lib.broker import Broker


def items(q, *ids, partition=None):
    return [{"queue": q, "partition": partition, "transactionId": tid, "payload": tid} for tid in ids]


def push(api, q, *ids, partition=None):
    """transactionId -> (status, message id) of one body without repeats."""
    return {result["transaction_id"]: (result["status"], result["message_id"])
            for result in api.push(*items(q, *ids, partition=partition))}


def expect_repeats(api, q, stored, partition=None):
    """Everything that was stored is a duplicate now, under its id, together with something new."""
    fresh = f"fresh-{time.monotonic_ns()}"
    results = push(api, q, *stored, fresh, partition=partition)
    assert results.pop(fresh)[0] == "queued"
    assert results == {tid: ("duplicate", message_id) for tid, (_, message_id) in stored.items()}
    return push(api, q, fresh, partition=partition)


def count_searches(broker):
    """From now on the database counts how often a push searches the window. Before the first push."""
    broker.psql("CREATE SEQUENCE queen.searches MINVALUE 0 START 1")
    broker.psql("SELECT setval('queen.searches', 0)")
    broker.psql("ALTER FUNCTION queen.find_duplicates RENAME TO find_duplicates_itself")
    broker.psql("""
        CREATE FUNCTION queen.find_duplicates(uuid[], int4[], bytea[], int8[], int8[], int4[], timestamptz)
        RETURNS TABLE (lane int4, index int4, at int8) LANGUAGE plpgsql AS $$
        BEGIN
            PERFORM nextval('queen.searches');
            RETURN QUERY SELECT * FROM queen.find_duplicates_itself($1, $2, $3, $4, $5, $6, $7);
        END $$""")


def searches(broker):
    return int(broker.psql("SELECT last_value FROM queen.searches")[0][0])


def until_known(broker, api, q):
    """Pushes until a push searches nothing any more; reading a window back takes milliseconds, pauses 1 second."""
    end = time.monotonic() + 30
    while True:
        before = searches(broker)
        push(api, q, f"known-{time.monotonic_ns()}")
        if searches(broker) == before:
            return
        assert time.monotonic() < end, "every push searches the window"
        time.sleep(0.05)


def second_on(first, **env):
    """Another broker on the embedded database of the first."""
    socket = first.socket_file()
    return {"PG_HOST": str(socket.parent), "PG_PORT": socket.name.rsplit(".", 1)[1], "PG_USER": "postgres",
            "PG_PASSWORD": (first.data / "pg.password").read_text(), "PG_DATABASE": "postgres",
            "QUEEN_BIND_ADDR": "127.0.0.1", **env}


def moved(seconds):
    """The environment of a broker whose wall clock is wrong; its database and its monotonic clock are right."""
    library = glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")
    assert library, "the package faketime is missing"
    return {"LD_PRELOAD": library[0], "FAKETIME": f"{seconds:+d}", "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_SKIP_CMDS": "postgres,initdb,pg_ctl"}


@pytest.fixture
def connect():
    made = []

    def make(broker):
        made.append(Api(broker.port, "h2"))
        return made[-1]
    yield make
    for api in made:
        api.close()


@pytest.fixture(scope="module")
def base():
    broker = Broker("pg")
    try:
        broker.start()
        count_searches(broker)
        yield broker
        broker.stop()
    finally:
        broker.reap()


@pytest.fixture
def first(base, brokers_seen):
    brokers_seen.append((base, base.log_size()))
    return base


def test_two_brokers_in_turns(first, own_broker, connect, q):
    a, b = connect(first), connect(own_broker("pg", **second_on(first)))
    stored = {}
    for turn in range(30):
        side, other = (a, b) if turn % 2 == 0 else (b, a)
        if turn % 7 == 3:
            side = other  # two turns of one side after the other
        stored.update(push(side, q, *[f"{turn}-{number}" for number in range(turn % 5 + 1)]))
        stored.update(expect_repeats(other, q, {tid: stored[tid] for tid in list(stored)[-8:]}))
    assert {status for status, _ in stored.values()} <= {"queued", "duplicate"}
    assert len({message_id for _, message_id in stored.values()}) == len(stored)
    expect_repeats(a, q, stored)
    expect_repeats(b, q, stored)


def test_two_brokers_at_once(first, own_broker, connect, q):
    """Bodies with the same ids and repeats inside, racing through both."""
    sides = [connect(first), connect(own_broker("pg", **second_on(first)))]
    ids = {}
    for turn in range(10):
        body = {"items": items(q, *[f"{turn}-{number % 4}" for number in range(8)])}
        calls = [side.start("POST", "/api/v1/push", body) for side in sides * 3]
        results = [result for call in calls for result in call.wait().json]
        assert sorted(result["status"] for result in results) == ["duplicate"] * 44 + ["queued"] * 4
        for result in results:
            ids.setdefault(result["transaction_id"], set()).add(result["message_id"])
    assert len(ids) == 40 and all(len(found) == 1 for found in ids.values())


def test_a_known_lane_is_pushed_to_without_reading_hashes(first, connect, q):
    api = connect(first)
    stored = push(api, q, *[f"m{number}" for number in range(500)])
    before = searches(first)
    for number in range(20):
        stored.update(push(api, q, f"one-{number}"))
    assert searches(first) == before, "a push of new ids searched the window"
    expect_repeats(api, q, stored)
    assert searches(first) > before


def test_a_transaction_to_a_known_lane_searches_nothing_and_teaches(first, connect, q):
    api = connect(first)
    stored = push(api, q, "x", "y")

    def transact(*ids):
        operations = [{"type": "push", "items": items(q, *ids)}]
        return api.start("POST", "/api/v1/transaction", {"operations": operations}).wait().json
    before = searches(first)
    assert transact("t1", "t2")["success"] is True
    stored.update(push(api, q, "z"))
    assert transact("t3")["success"] is True
    assert searches(first) == before, "neither calls nor transactions searched"
    assert {status for status, _ in push(api, q, "t1", "t2", "t3").values()} == {"duplicate"}
    assert transact("t4", "x")["success"] is False
    expect_repeats(api, q, stored)


def test_a_restart_then_a_repeat_and_the_lane_becomes_known_again(own_broker, connect, q):
    broker = own_broker("pg")
    count_searches(broker)
    stored = push(connect(broker), q, *[f"m{number}" for number in range(300)])
    broker.stop()
    broker.start()
    api = connect(broker)
    stored.update(expect_repeats(api, q, dict(list(stored.items())[::7])))
    until_known(broker, api, q)
    stored.update(expect_repeats(api, q, stored))
    broker.stop()


def test_a_gap_is_closed_by_reading_what_the_other_broker_wrote(first, own_broker, connect, q):
    a, b = connect(first), connect(own_broker("pg", **second_on(first)))
    stored = push(a, q, "a1", "a2")
    stored.update(push(b, q, *[f"b{number}" for number in range(50)]))
    stored.update(push(a, q, "a3"))
    until_known(first, a, q)
    expect_repeats(a, q, stored)


def test_a_wider_window_covers_what_the_narrow_one_had_forgotten(first, connect, q):
    api = connect(first)
    api.configure(q, dedupWindowSeconds=1)
    old = push(api, q, "old", "older")
    age = f"UPDATE queen.%s SET %s = %s - interval '100 seconds' WHERE %s IN (SELECT p.id FROM queen.log_partitions p " \
          f"JOIN queen.queues q ON q.id = p.queue_id WHERE q.name = '{q}')"
    for table, column, key in (("log_txns", "created_at", "partition_id"), ("log_segments", "created_at", "partition_id"),
                               ("log_partitions", "newest_at", "id")):
        first.psql(age % (table, column, column, key))
    # The broker saw these a moment ago; the window of one second and the slack of five pass by its clock.
    end = time.monotonic() + 9
    while time.monotonic() < end:
        push(api, q, f"now-{time.monotonic_ns()}")
        time.sleep(0.2)
    api.configure(q, dedupWindowSeconds=3600)
    expect_repeats(api, q, old)
    until_known(first, api, q)
    expect_repeats(api, q, old)


def test_off_and_on_again(first, connect, q):
    api = connect(first)
    stored = push(api, q, "x", "y")
    api.configure(q, dedupWindowSeconds=0)
    assert push(api, q, "x")["x"][0] == "queued"
    unseen = push(api, q, "while off")
    api.configure(q, dedupWindowSeconds=3600)
    expect_repeats(api, q, {"y": stored["y"], **unseen})
    until_known(first, api, q)
    expect_repeats(api, q, {"y": stored["y"], **unseen})


@pytest.mark.parametrize("who", ["this broker", "the other broker"])
def test_a_queue_that_is_born_again_has_no_past_and_gets_its_own(first, own_broker, connect, q, who):
    a = connect(first)
    b = a if who == "this broker" else connect(own_broker("pg", **second_on(first)))
    for _ in range(3):
        stored = push(a, q, *[f"m{number}" for number in range(5)])
        assert {status for status, _ in stored.values()} == {"queued"}
        expect_repeats(a, q, stored)
        b.delete(q)
        # Shorter than what the brokers know of the lane of the same name that is gone.
        other = push(b, q, "m1", "other")
        assert {status for status, _ in other.values()} == {"queued"}
        expect_repeats(a, q, other)
        expect_repeats(b, q, other)
        b.delete(q)


@pytest.mark.parametrize("offset", [3600, -3600], ids=["ahead", "behind"])
def test_a_broker_whose_clock_is_an_hour_off(first, own_broker, connect, q, offset):
    skewed = own_broker("pg", **second_on(first, **moved(offset)))
    a, b = connect(first), connect(skewed)
    a.configure(q, dedupWindowSeconds=1800)
    stored = push(b, q, *[f"m{number}" for number in range(50)])
    stored.update(push(a, q, "from the right clock"))
    stored.update(push(b, q, "and back"))
    expect_repeats(b, q, stored)
    until_known(first, b, q)
    expect_repeats(b, q, stored)
    skewed.stop()


def test_a_cache_that_is_too_small_searches(first, own_broker, connect, name):
    """1 MiB holds some 50,000 hashes; 90,000 are pushed, to a large lane and to many small ones."""
    small = own_broker("pg", **second_on(first, QUEEN_DEDUP_CACHE_MB="1"))
    api, q = connect(small), name()
    sample = {}
    for part in range(30):
        stored = push(api, q, *[f"m{part}-{number}" for number in range(2000)])
        sample.update(list(stored.items())[:3])
    lanes = [f"lane{number}" for number in range(60)]
    kept = {lane: push(api, q, *[f"{lane}-{number}" for number in range(500)], partition=lane) for lane in lanes}
    expect_repeats(api, q, sample)
    for lane in lanes[::6]:
        expect_repeats(api, q, dict(list(kept[lane].items())[::50]), partition=lane)
    small.stop()


def test_without_the_cache_every_push_searches(first, own_broker, connect, q):
    plain = own_broker("pg", **second_on(first, QUEEN_DEDUP_CACHE="0"))
    api = connect(plain)
    stored = push(api, q, "x", "y")
    before = searches(first)
    stored.update(push(api, q, "z"))
    assert searches(first) > before
    expect_repeats(api, q, stored)
    plain.stop()
