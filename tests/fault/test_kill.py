# SPDX-License-Identifier: Apache-2.0
"""The verified load with the broker, or its PostgreSQL, killed and restarted in the middle.

Every push a producer was told is stored must be delivered exactly once and in its lane's order; what
was delivered but not acknowledged may come again. 64 producers, 16 consumers, 1000 lanes.
"""
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("QN_BUILD_DIR", ROOT / "build"))
LENGTHS = [pytest.param(12, id="12s"), pytest.param(60, id="60s", marks=pytest.mark.slow)]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Broker:
    """One data directory; the broker on it can be killed and started again."""

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="queend-fault.")
        os.chmod(self.dir, 0o711)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = open(os.path.join(self.dir, "broker.log"), "ab")
        self.process = None

    def start(self):
        env = {**os.environ, "PORT": str(self.port), "QUEEN_DATA_DIR": os.path.join(self.dir, "data")}
        for name in ("PG_HOST", "QUEEN_DSN"):
            env.pop(name, None)
        self.process = subprocess.Popen([BUILD / "queend"], env=env, stdout=self.log, stderr=self.log)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            assert self.process.poll() is None, self.text()
            try:
                with urllib.request.urlopen(self.url + "/health", timeout=2) as answer:
                    if answer.status == 200:
                        return
            except OSError:
                time.sleep(0.05)
        raise AssertionError("not healthy within 60 s\n" + self.text())

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        if self.process is None or self.process.poll() is not None:
            return None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=15)

    def text_all(self):
        with open(os.path.join(self.dir, "broker.log"), errors="replace") as f:
            return f.read()

    def text(self):
        return self.text_all()[-8000:]


@pytest.fixture
def broker():
    b = Broker()
    try:
        b.start()
        yield b
    finally:
        b.stop()
        b.log.close()
        shutil.rmtree(b.dir, ignore_errors=True)


def load(broker, seconds):
    return subprocess.Popen(
        [BUILD / "tests" / "bench" / "qbench", "e2e", "--url", broker.url, "--verify", "--lanes", "1000",
         "--producers", "64", "--consumers", "16", "--batch", "10", "--seconds", str(seconds), "--lease", "3"],
        stdout=subprocess.PIPE, text=True)


def figures(out):
    return {k: float(v) for k, v in re.findall(r"(\w+)=([0-9.]+)", out)}


def check(process, broker):
    out, _ = process.communicate(timeout=400)
    f = figures(out)
    assert process.returncode == 0, out + broker.text()
    assert f["duplicates"] == f["gaps"] == f["disorders"] == 0, out
    assert f["pushed_total"] > 1000 and f["popped"] >= f["pushed_total"], out
    return f


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
