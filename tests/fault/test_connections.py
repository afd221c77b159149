# SPDX-License-Identifier: Apache-2.0
"""Connections to PostgreSQL lost at random under load, while the broker and the database go on.

Three groups take all messages of a queue; two acknowledge, the third settles by transactions that push what they
acknowledge to a second queue, whose own group acknowledges. Producers and transactions go again under the same ids
until their outcome is known.
A lease that was lost that way brings its messages again, but never after their acknowledgment succeeded.
"""
import os
import random
import re
import shutil
import subprocess
import threading
import time

import pytest

from cutter import Cutter
from under_load import Broker, check, load

LANES = 200
SECONDS = [pytest.param(8, id="8s"), pytest.param(60, id="60s", marks=pytest.mark.slow)]
EXPECTED = r"level=warn .*(sqlstate=(57P01|08006)|event=(loop.slow|storage.connect_failed) )"

# Mostly one that is at work: its statement may be anywhere before, within or after the commit.
KILL = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
    ORDER BY (state = 'active' AND random() < 0.7) DESC, random() LIMIT 1 + (random() < 0.2)::int;
SELECT pg_sleep({pause});
"""

# Everything below is empty, or one row of figures.
NOT_DENSE = """WITH spans AS (
    SELECT 'segments' AS part, partition_id, base_offset, end_offset FROM queen.log_segments
    UNION ALL SELECT 'hashes', partition_id, base_offset, end_offset FROM queen.log_txns
    UNION ALL SELECT part, id, last_offset + 1, last_offset FROM queen.log_partitions,
        (VALUES ('segments'), ('hashes')) parts (part)
), joints AS (
    SELECT *, base_offset - lag(end_offset, 1, -1::int8) OVER (PARTITION BY part, partition_id
        ORDER BY base_offset) AS step FROM spans
)
SELECT * FROM joints WHERE step <> 1"""
STORED_TWICE = """SELECT t.partition_id, substr(t.hashes, 16 * i + 1, 16), count(*)
    FROM queen.log_txns t, generate_series(0, (t.end_offset - t.base_offset)::int) i GROUP BY 1, 2 HAVING count(*) > 1"""
BEHIND = """SELECT c.partition_id, c.consumer_group, c.committed, p.last_offset, c.worker_id
    FROM queen.log_partitions p JOIN queen.log_consumers c ON c.partition_id = p.id
    WHERE c.committed <> p.last_offset OR c.batch_end IS NOT NULL"""
CURSORS = """SELECT q.name, c.consumer_group, count(*), sum(c.committed + 1) FROM queen.log_consumers c
    JOIN queen.log_partitions p ON p.id = c.partition_id JOIN queen.queues q ON q.id = p.queue_id
    GROUP BY 1, 2 ORDER BY 1, 2"""
LETTERS = "SELECT * FROM queen.log_dlq"


class Killer:
    """One session that terminates others, with pauses of 50 to 300 ms."""

    def __init__(self, broker, seconds):
        pauses, total = [], 0
        while total < seconds:
            pauses.append(random.uniform(0.05, 0.3))
            total += pauses[-1]
        self.process = subprocess.Popen(broker.psql_command("-f", "-"), env=broker.psql_env(), stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        script = "".join(KILL.format(pause=pause) for pause in pauses)
        self.result = None
        self.thread = threading.Thread(target=self._run, args=(script,))
        self.thread.start()

    def _run(self, script):
        self.result = self.process.communicate(script)[0]

    def killed(self):
        self.thread.join()
        assert self.process.returncode == 0
        return self.result.split().count("t")


def start_load(broker, seconds):
    return load(broker, seconds, lanes=LANES, producers=20, consumers=24, options=(
        "--queue", "chaos", "--groups", "3", "--forward", "forwarded", "--rate", "500", "--pop-batch", "30"))


def check_all(process, broker, database):
    f = check(process, broker)
    assert f["displaced"] == f["phantoms"] == f["missing"] == f["unsettled"] == 0, f
    assert f["failed"] > 0, "no client noticed anything"
    assert f["committed"] > 0 and f["rolled_back"] > 0, f
    for what in (NOT_DENSE, STORED_TWICE, BEHIND, LETTERS):
        assert database.sql(what) == "", what
    cursors = [line.split("|") for line in database.sql(CURSORS).splitlines()]
    assert [c[:3] for c in cursors] == [[queue, group, str(LANES)] for queue, group in (
        ("chaos", "qbench-0"), ("chaos", "qbench-1"), ("chaos", "qbench-2"), ("forwarded", "qbench"))], cursors
    assert len({c[3] for c in cursors}) == 1 and int(cursors[0][3]) >= f["pushed_total"], (cursors, f)
    print(f"{f['redelivered']:.0f} messages redelivered, {f['failed']:.0f} calls failed, {f['in_doubt']:.0f} tries of "
          f"transactions in doubt, {f['committed']:.0f} committed, {f['rolled_back']:.0f} rolled back")
    assert broker.process.poll() is None
    assert broker.stop() == 0, broker.text()
    complaints = re.findall(r"^.*level=(?:error|warn).*$", broker.text_all(), re.M)
    assert [line for line in complaints if not re.search(EXPECTED, line)] == []


@pytest.mark.parametrize("seconds", SECONDS)
def test_backends_killed_under_load(broker, seconds):
    process = start_load(broker, seconds)
    killed = Killer(broker, seconds).killed()
    print(f"{killed} backends killed")
    assert killed > seconds * 2
    check_all(process, broker, broker)


@pytest.fixture
def cut_broker(broker):
    """A second broker on the database of the first, with a cutter in between."""
    cutter = Cutter(os.path.join(broker.dir, "data", "pg-run", ".s.PGSQL.5432"), os.path.join(broker.dir, "cut"))
    cut = Broker(PG_HOST=os.path.dirname(cutter.path), PG_USER="postgres", PG_DATABASE="postgres",
                 PG_PASSWORD=broker.psql_env()["PGPASSWORD"], QUEEN_BIND_ADDR="127.0.0.1")
    try:
        cut.start()
        cut.cutter = cutter
        yield cut
    finally:
        cut.stop()
        cutter.close()
        cut.log.close()
        shutil.rmtree(cut.dir, ignore_errors=True)


@pytest.mark.parametrize("seconds", SECONDS)
def test_connections_cut_under_load(broker, cut_broker, seconds):
    process = start_load(cut_broker, seconds)
    cut_broker.cutter.start_cutting()
    time.sleep(seconds)
    cut_broker.cutter.stop_cutting()
    print(f"connections cut: {cut_broker.cutter.cut}")
    assert min(cut_broker.cutter.cut.values()) > seconds / 4
    check_all(process, cut_broker, broker)
