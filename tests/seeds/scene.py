# SPDX-License-Identifier: Apache-2.0
"""What the seed tests share: environments, the state of a queue as its users see it, rows in the database, waiting.

A scene is prepared once per broker by a fixture of module scope: all its queues are filled first, then the test
waits once for all of them.
"""
import contextlib
import itertools

from lib import clock
from lib.fixtures import SERIAL, make_api

SEAL_KEY = "00112233445566778899aabbccddeeff" * 2
FURNISHED = {"RETENTION_INTERVAL": "200", "RETENTION_BATCH_SIZE": "10", "QUEEN_ENCRYPTION_KEY": SEAL_KEY}
SCAN = {"QUEEN_HOTLIST": "0", "QUEEN_DEDUP_CACHE_MB": "1"}

# How long a test waits for something that is promised, on a busy machine.
PATIENCE = 30


@contextlib.contextmanager
def scene(brokers, pair, **env):
    """An api for a fixture of module scope."""
    api = make_api(brokers, [], pair, **env)
    try:
        yield api
    finally:
        api.close()


def names(stem):
    """A factory of queue names nobody used before, for scenes."""
    serial = next(SERIAL)
    counter = itertools.count(1)
    return lambda what="q": f"{stem}-{serial}-{next(counter)}-{what}"


def lanes(api, queue):
    """name -> statistics of each partition of a queue."""
    return {lane["name"]: lane["stats"] for lane in api.queue(queue)["partitions"]}


def stored(api, queue):
    """How many messages are still stored in a queue, consumed or not."""
    return api.queue(queue)["totals"]["total"]


def dead(api, queue):
    """How many dead letters a queue has."""
    return sum(stats["deadLetter"] for stats in lanes(api, queue).values())


def fail(api, queue, **params):
    """Pop the next message and report a failure: the result of that ack."""
    message = api.pop(queue, batch=1, **params)["messages"][0]
    return api.ack(message, "failed", error="it broke")


def one(api, queue, tid, partition=None, payload=1):
    """Push one message: its result."""
    return api.push({"queue": queue, "transactionId": tid, "payload": payload, "partition": partition})[0]


def about(seconds, expected):
    """A lease by the broker's own clock; the message it is counted from was stored a moment earlier."""
    return expected <= seconds < expected + 20


def cycles(api, name, count=2):
    """Return when the maintenance has gone round: a message that must go, stored now, went; and that again."""
    for _ in range(count):
        queue = name("sentinel")
        api.configure(queue, maxWaitTimeSeconds=1)
        api.send(queue, "m")
        clock.eventually(lambda queue=queue: stored(api, queue) == 0, PATIENCE, "a sentinel is swept")


def partition_of(queue):
    """SQL for the ids of a queue's partitions."""
    return f"(SELECT p.id FROM queen.log_partitions p JOIN queen.queues k ON k.id = p.queue_id WHERE k.name = '{queue}')"


def rows(api, table, queue):
    """How many rows a queue's partitions have in a table."""
    column = "id" if table == "log_partitions" else "partition_id"
    return int(api.broker.psql(f"SELECT count(*) FROM queen.{table} WHERE {column} IN {partition_of(queue)}")[0][0])
