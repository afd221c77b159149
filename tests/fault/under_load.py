# SPDX-License-Identifier: Apache-2.0
"""A broker whose process and database may be killed, and the verified load on it."""
import os
import pathlib
import re
import signal
import socket
import subprocess
import tempfile
import time
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

    def __init__(self, **env):
        self.env = env
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
        env.update(self.env)
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

    def psql_command(self, *options):
        return ["psql", "-h", os.path.join(self.dir, "data", "pg-run"), "-U", "postgres", "-d", "postgres", "-XAtq",
                "-v", "ON_ERROR_STOP=1", *options]

    def psql_env(self):
        with open(os.path.join(self.dir, "data", "pg.password")) as f:
            return {**os.environ, "PGPASSWORD": f.read().strip()}

    def sql(self, statement):
        return subprocess.run(self.psql_command("-c", statement), env=self.psql_env(), check=True, capture_output=True,
                              text=True, timeout=60).stdout.strip()

    def text_all(self):
        with open(os.path.join(self.dir, "broker.log"), errors="replace") as f:
            return f.read()

    def text(self):
        return self.text_all()[-8000:]


def load(broker, seconds, lanes=1000, producers=64, consumers=16, options=()):
    return subprocess.Popen(
        [BUILD / "tests" / "bench" / "qbench", "e2e", "--url", broker.url, "--verify", "--lanes", str(lanes),
         "--producers", str(producers), "--consumers", str(consumers), "--batch", "10", "--seconds", str(seconds),
         "--lease", "3", *options],
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
