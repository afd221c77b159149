# SPDX-License-Identifier: Apache-2.0
"""Everything at once on a few queues: pushes, pops, acks, transactions, options that change all the time, retention,
deletes, listings. No call fails, nothing is left of what was deleted, and the broker stops clean."""
import random
import re
import threading
import time

import pytest

from lib.api import Api, ack_item

SECONDS = 8
QUEUES = ["a", "b", "c.d", "e.f"]
ORPHANS = "SELECT count(*) FROM queen.{} x WHERE NOT EXISTS (SELECT 1 FROM queen.log_partitions p WHERE p.id = x.partition_id)"


def push(api):
    yield api.push_reply({"items": [
        {"queue": random.choice(QUEUES), "partition": str(random.randrange(5)), "payload": {"x": random.random()},
         "transactionId": str(random.randrange(3000))} for _ in range(random.randrange(1, 20))]})


def consume(api):
    popped = api.pop_reply(random.choice(QUEUES), batch=random.choice([1, 10]), partitions=random.choice([1, 5]),
                           wait=random.choice(["true", "false"]), timeout=500, consumerGroup=random.choice(["g", ""]))
    yield popped
    if popped.status != 200 or not popped.json["messages"]:
        return
    group, words = popped.json["consumerGroup"], ["completed", "completed", "failed", "retry", "dlq", "nonsense"]
    items = [dict(ack_item(m, random.choice(words)), consumerGroup=group) for m in popped.json["messages"]]
    if random.random() < 0.5:
        yield api.ack_reply({"acknowledgments": items}, batch=True)
    else:
        operations = [dict(item, type="ack") for item in items] + [{"type": "push", "queue": random.choice(QUEUES), "data": 1}]
        yield api.call("POST", "/api/v1/transaction",
                       {"operations": operations, "requiredLeases": [popped.json["leaseId"]]})


def configure(api):
    yield api.configure_reply({"queue": random.choice(QUEUES), "options": {
        "encryptionEnabled": random.random() < 0.5, "dedupWindowSeconds": random.choice([0, 1, 3600]),
        "delayedProcessing": random.choice([0, 0, 1]), "windowBuffer": random.choice([0, 0, 1]),
        "minPopWaitTime": random.choice([0, 200]), "retentionEnabled": True, "retryLimit": random.choice([0, 3]),
        "retentionSeconds": random.choice([0, 1, 5]), "maxWaitTimeSeconds": random.choice([0, 2])}})
    time.sleep(0.05)


def delete(api):
    yield api.call("DELETE", "/api/v1/resources/queues/" + random.choice(QUEUES))
    time.sleep(0.4)


def look(api):
    for what in ("queues", "namespaces", "tasks"):
        yield api.call("GET", "/api/v1/resources/" + what)
    time.sleep(0.2)


@pytest.mark.slow
@pytest.mark.parametrize("hotlist", ["hotlist_scan", "hotlist_ring"])
@pytest.mark.parametrize("storage", ["memory", "pg"])
def test_everything_at_once(own_broker, storage, hotlist):
    broker = own_broker(storage, ("--set", f"hotlist.use={hotlist}"), QUEEN_ENCRYPTION_KEY="ab" * 32, RETENTION_INTERVAL="200")
    end = time.monotonic() + SECONDS
    wrong, calls = [], []

    def run(action, version):
        api = Api(broker.port, version)
        while time.monotonic() < end and not wrong:
            try:
                for reply in action(api):
                    calls.append(reply.status)
                    if reply.status >= 500:
                        wrong.append((action.__name__, reply))
            except Exception as fault:  # noqa: BLE001: whatever it is, the test fails with it
                wrong.append((action.__name__, repr(fault)))
        api.close()

    actions = [push] * 4 + [consume] * 6 + [configure, delete, look]
    threads = [threading.Thread(target=run, args=(a, ("h1", "h2")[n % 2])) for n, a in enumerate(actions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong[:3]
    assert len(calls) > 300
    if storage == "pg":
        assert [broker.psql(ORPHANS.format(t)) for t in ("log_segments", "log_txns", "log_dlq")] == [[("0",)]] * 3
    broker.terminate()
    assert broker.exit_code() == 0, broker.log()[-3000:]
    assert not re.search("level=error", broker.log())
