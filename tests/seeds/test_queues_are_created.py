# SPDX-License-Identifier: Apache-2.0
"""Queues and partitions come to exist by a push, by configure or by a pop, and are not the same afterwards."""
import os

from lib import clock
from lib.api import tids
from scene import about, lanes, rows

DEFAULTS = {"lease_time": "60", "retry_limit": "3", "dead_letter_queue": "t", "dlq_after_max_retries": "t",
            "delayed_processing": "0", "window_buffer": "0", "retention_enabled": "f", "retention_seconds": "0",
            "completed_retention_seconds": "0", "max_wait_time_seconds": "0", "min_pop_wait_time": "0",
            "encryption_enabled": "f", "dedup_window_seconds": "3600"}


def lease_of(api, queue):
    """Seconds for which a fresh message of a queue is leased."""
    api.send(queue, "lease probe", partition="lease probe")
    return clock.lease_seconds(api.pop(queue, "lease probe")["messages"][0])


def row(api, queue):
    """The queue's configuration row, as far as options are concerned."""
    values = api.broker.psql(f"SELECT {', '.join(DEFAULTS)} FROM queen.queues WHERE name = '{queue}'")
    assert len(values) == 1
    return dict(zip(DEFAULTS, values[0]))


def test_a_queue_has_a_configuration_and_its_partitions_are_ordered_lanes(api, q):
    """A queue is a named container with a configuration; each partition keeps the order of its messages."""
    assert api.configure(q, retryLimit=5)["options"]["retryLimit"] == 5
    for number in range(20):
        api.send(q, f"{number}", partition="ab"[number % 2])
    for lane in (0, 1):
        popped = api.pop(q, "ab"[lane])
        assert tids(popped) == [f"{number}" for number in range(lane, 20, 2)]
        assert [message["offset"] for message in popped["messages"]] == list(range(10))


def test_neither_has_to_be_declared_a_push_creates_both(api, q):
    """Pushing to a queue and a partition that do not exist creates both."""
    assert api.queue_reply(q).status == 404
    api.send(q, "m", partition="new lane")
    assert list(lanes(api, q)) == ["new lane"]
    assert api.popped(q, "new lane") == ["m"]


def test_creation_happens_in_the_transaction_that_stores_the_message(pg_api, q):
    """While the message cannot be stored nobody sees a queue or a partition; then all three are there."""
    api = pg_api
    with api.broker.stalled("log_segments"):
        call = api.start("POST", "/api/v1/push", {"items": [{"queue": q, "transactionId": "m", "payload": 1}]})
        clock.eventually(lambda: api.broker.waiting() > 0, 20, "the push waits for the segments")
        assert api.broker.psql(f"SELECT 1 FROM queen.queues WHERE name = '{q}'") == []
        assert rows(api, "log_partitions", q) == 0
    assert call.wait().json[0]["status"] == "queued"
    assert (rows(api, "log_partitions", q), rows(api, "log_segments", q)) == (1, 1)


def test_the_first_push_provisions_the_configuration_row_and_the_named_partition(pg_api, q):
    """One configuration row and the partition named in the request; the second push adds nothing."""
    api = pg_api
    for tid in ("first", "second"):
        api.send(q, tid, partition="named")
        assert api.broker.psql(f"SELECT count(*) FROM queen.queues WHERE name = '{q}'") == [("1",)]
        assert list(lanes(api, q)) == ["named"]


def test_a_first_push_changes_no_schema_makes_no_file_and_starts_no_job(pg_api, q):
    """Apart from rows a first push leaves no trace: relations, columns, data directory and maintenance tasks stay."""
    api = pg_api
    api.send(q + "-warm", "m")

    def traces():
        schema = api.broker.psql("SELECT c.oid, c.relname, a.attname FROM pg_class c JOIN pg_attribute a ON "
                                 "a.attrelid = c.oid WHERE c.relnamespace = 'queen'::regnamespace ORDER BY 1, a.attnum")
        functions = api.broker.psql("SELECT count(*) FROM pg_proc WHERE pronamespace = 'queen'::regnamespace")
        tasks = api.broker.psql("SELECT task FROM queen.maintenance_leases ORDER BY 1")
        database = str(api.broker.socket_file().parent)
        files = sorted(os.path.join(where, file) for where, _, found in os.walk(api.broker.data) for file in found
                       if not where.startswith((str(api.broker.data / "pg"), database)))
        assert schema and files
        return schema, functions, tasks, files

    before = traces()
    api.send(q, "m", partition="p")
    assert traces() == before


def test_configure_creates_the_missing_queue_and_rewrites_the_existing_one(api, q):
    """The same call makes a queue or rewrites its configuration, under the same id."""
    assert api.queue_reply(q).status == 404
    made = api.configure(q, leaseTime=30)
    assert api.queue(q)["id"] == made["queueId"]
    again = api.configure(q, leaseTime=40, retryLimit=9)
    assert again["queueId"] == made["queueId"]
    assert (again["options"]["leaseTime"], again["options"]["retryLimit"]) == (40, 9)
    assert about(lease_of(api, q), 40)


def test_configure_creates_no_partition_the_first_push_does(api, q):
    """After configure the queue has no partition; it has one after the first push."""
    api.configure(q)
    assert lanes(api, q) == {}
    api.send(q, "m")
    assert list(lanes(api, q)) == ["Default"]


def test_a_pop_by_queue_creates_the_configuration_row_with_column_defaults(pg_api, q):
    """A pop on a missing name leaves a configuration row with the defaults of the columns and no partition."""
    assert pg_api.pop(q) is None
    assert row(pg_api, q) == DEFAULTS
    assert lanes(pg_api, q) == {}


def test_a_queue_born_by_a_push_has_every_column_at_its_default(pg_api, q):
    """It need not be configured: all options have the defaults of the columns (labels: see labels_and_discovery)."""
    pg_api.send(q, "m")
    assert row(pg_api, q) == DEFAULTS


def test_a_group_can_subscribe_before_the_first_push(api, q):
    """A group that popped the missing queue gets what is pushed afterwards, though it starts at new messages only."""
    assert api.pop(q, consumerGroup="early", subscriptionMode="new") is None
    api.send(q, "first", "second")
    assert api.popped(q, consumerGroup="early", subscriptionMode="new") == ["first", "second"]


def test_a_typo_in_a_consumers_queue_name_makes_an_empty_queue(api, q):
    """The mistyped name is listed, without partitions and messages."""
    api.send(q, "m")
    assert api.pop(q + "s") is None
    listed = {entry["name"]: entry for entry in api.queues(search=q)}
    assert set(listed) == {q, q + "s"}
    assert (listed[q + "s"]["partitions"], listed[q + "s"]["messages"]["total"]) == (0, 0)


def test_lease_time_is_60_after_a_push_or_a_pop_and_300_after_configure(api, name):
    """The paths do not make identical queues: the lease time differs."""
    pushed, popped, configured = name("pushed"), name("popped"), name("configured")
    api.send(pushed, "m")
    assert api.pop(popped) is None
    assert api.configure(configured)["options"]["leaseTime"] == 300
    assert about(lease_of(api, pushed), 60)
    assert about(lease_of(api, popped), 60)
    assert about(lease_of(api, configured), 300)


def test_configure_without_lease_time_turns_60_into_300(api, q):
    """The lease in effect depends on how the queue was made, and on whether configure touched it since."""
    api.send(q, "m")
    assert about(lease_of(api, q), 60)
    api.configure(q)
    api.send(q, "later", partition="later")
    assert about(clock.lease_seconds(api.pop(q, "later")["messages"][0]), 300)
