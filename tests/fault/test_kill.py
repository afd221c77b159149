# SPDX-License-Identifier: Apache-2.0
"""The verified load with the broker, or its PostgreSQL, killed and restarted in the middle.

Every push a producer was told is stored must be delivered exactly once and in its lane's order; what
was delivered but not acknowledged may come again. 64 producers, 16 consumers, 1000 lanes.
"""
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request

import pytest

from under_load import LENGTHS, check, load


@pytest.mark.parametrize("seconds", LENGTHS)
def test_verified_load(broker, seconds):
    f = check(load(broker, seconds), broker)
    assert f["failed"] == f["lost"] == 0, f
    assert broker.stop() == 0, broker.text()


@pytest.mark.parametrize("seconds", LENGTHS)
def test_broker_killed_twice_under_load(broker, seconds):
    process = load(broker, seconds)
    for _ in range(2):
        time.sleep(seconds / 3)
        broker.kill()
        broker.start()
    f = check(process, broker)
    assert f["lost"] > 0, "the kills were not noticed by any client"
    assert broker.stop() == 0, broker.text()


def test_database_killed_twice_under_load(broker):
    process = load(broker, 12)
    for _ in range(2):
        time.sleep(4)
        with open(os.path.join(broker.dir, "data", "pg", "postmaster.pid")) as f:
            os.kill(int(f.readline()), signal.SIGKILL)
    f = check(process, broker)
    assert f["failed"] > 0, "the kills were not noticed by any client"
    assert "event=storage.server_died" in broker.text_all()
    assert broker.stop() == 0, broker.text()


def test_a_hanging_database_is_reported_before_the_statement_timeout(broker):
    with open(os.path.join(broker.dir, "data", "pg", "postmaster.pid")) as f:
        postmaster = int(f.readline())
    children = subprocess.run(["pgrep", "-P", str(postmaster)], capture_output=True, text=True, check=True).stdout.split()
    pids = [postmaster, *map(int, children)]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(urllib.error.HTTPError) as answer:
            urllib.request.urlopen(broker.url + "/health", timeout=20)
        assert answer.value.code == 503 and b'"database":"disconnected"' in answer.value.read()
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
    deadline = time.monotonic() + 20
    while True:
        try:
            assert urllib.request.urlopen(broker.url + "/health", timeout=20).status == 200
            break
        except urllib.error.HTTPError:
            assert time.monotonic() < deadline, broker.text()
            time.sleep(0.1)
