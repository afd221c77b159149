# SPDX-License-Identifier: Apache-2.0
"""A broker on a private PostgreSQL and a free port, of the build under test."""
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("QN_BUILD_DIR", ROOT / "build"))
QUEEND = BUILD / "queend"
ENV = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}


class Broker:
    def __init__(self, *arguments, **env):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        # pytest's own directories are closed to the account the private PostgreSQL runs under.
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="qn-docs-", dir="/tmp"))
        self.root.chmod(0o755)
        self.data = self.root / "data"
        self.log = self.root / "log"
        self.scheme, self.base = "http", f"http://127.0.0.1:{self.port}"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [str(QUEEND), "--config", str(ROOT / "module.conf"), *arguments], stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, cwd=self.root,
                env=ENV | {"PORT": str(self.port), "QUEEN_DATA_DIR": str(self.data)} | env)

    def wait_ready(self):
        deadline = time.monotonic() + 60
        while True:
            assert self.process.poll() is None and time.monotonic() < deadline, self.log.read_text()
            try:
                with urllib.request.urlopen(f"{self.base}/health", timeout=5):
                    return self
            except (urllib.error.URLError, OSError):
                time.sleep(0.05)

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(20)
        shutil.rmtree(self.root, ignore_errors=True)


@pytest.fixture
def broker():
    made = Broker()
    yield made.wait_ready()
    made.stop()
