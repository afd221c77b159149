# SPDX-License-Identifier: Apache-2.0
"""A real broker process with a private data directory, its log in a file and a psql for its embedded database.

A broker is stopped by its own process id only. With storage_pg the embedded PostgreSQL is the broker's child: a clean
stop takes it down; after a kill -9 the next start on the same directory takes it over, and `reap` sees to the rest.
"""
import atexit
import contextlib
import csv
import functools
import io
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from . import http1

REPO = pathlib.Path(__file__).resolve().parents[3]
csv.field_size_limit(1 << 30)  # a stored segment is one field
READY_SECONDS = 60
STOP_SECONDS = 10
STORAGES = ("memory", "pg")


def executable():
    return pathlib.Path(os.environ.get("QN_BUILD_DIR", REPO / "build")) / "queend"


def free_port():
    """A port nobody listens on, below those the kernel gives to clients, in a range of this worker's own."""
    first = 12000 + 4000 * int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])
    while True:
        port = random.randrange(first, first + 4000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


@functools.cache
def module_dir(fake):
    """A directory with the shipped modules and one of the test subjects of tests/fakes."""
    build = executable().parent
    made = pathlib.Path(tempfile.mkdtemp(prefix="qn-modules-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    made.chmod(0o755)
    for module in (build / "modules").glob("*.so"):
        (made / module.name).symlink_to(module)
    (made / f"{fake}.so").symlink_to(build / "tests" / "contract" / f"{fake}_.so")
    return made


def with_fake(kind):
    """Options that make a broker use the right test subject of the kind."""
    fake = f"fake_{kind}"
    return ("--set", f"core.module_dir={module_dir(fake)}", "--set", f"{kind}.use={fake}")


class Broker:
    def __init__(self, storage, env=None, options=()):
        self.storage = storage
        self.env = dict(env or {})
        self.options = list(options)
        # pytest's own directories are closed to the account the embedded database runs under.
        self.root = pathlib.Path(tempfile.mkdtemp(prefix=f"qn-{storage}-"))
        self.root.chmod(0o755)
        self.log_path = self.root / "queend.log"
        self.data = self.root / "data"
        self.process = None
        self.port = None
        self.expected = []

    def __repr__(self):
        return f"<broker {self.storage} port {self.port} log {self.log_path}>"

    def start(self):
        self.port = free_port()
        env = {key: value for key, value in os.environ.items()
               if not key.startswith(("PG", "QUEEN_", "JWT_", "DEFAULT_", "POP_", "RETENTION_", "PARTITION_"))}
        # Maintenance runs at the start and then hardly ever: a statement that waits for a lock is a test's own.
        env.update({"RETENTION_INTERVAL": "86400000", "PORT": str(self.port), "QUEEN_DATA_DIR": str(self.data), **self.env})
        command = [str(executable()), *self.options, "--set", f"storage.use=storage_{self.storage}"]
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            cwd=self.root)
        self._until_ready()
        return self

    def _until_ready(self):
        deadline = time.monotonic() + READY_SECONDS
        while True:
            assert self.process.poll() is None, f"{self} ended with {self.process.returncode}:\n{self.log()[-4000:]}"
            if self.healthy():
                return
            assert time.monotonic() < deadline, f"{self} is not ready after {READY_SECONDS} s:\n{self.log()[-4000:]}"
            time.sleep(0.05)

    def healthy(self):
        client = http1.Client(self.port)
        try:
            return client.request("GET", "/health", timeout=5).status == 200
        except (OSError, http1.Gone):
            return False
        finally:
            client.close()

    def running(self):
        return self.process is not None and self.process.poll() is None

    def log(self, start=0):
        if not self.log_path.exists():
            return ""
        with open(self.log_path, "rb") as log:
            log.seek(start)
            return log.read().decode("utf-8", "replace")

    def log_size(self):
        return self.log_path.stat().st_size if self.log_path.exists() else 0

    def expect_error(self, *texts):
        """Lines at level=error that hold all these texts are a test's intention, not a fault."""
        self.expected.append(texts)

    def errors(self):
        lines = [line for line in self.log().splitlines() if "level=error" in line]
        return [line for line in lines if not any(all(text in line for text in texts) for texts in self.expected)]

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)

    def exit_code(self, within=STOP_SECONDS):
        try:
            return self.process.wait(within)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self} still runs {within} s after SIGTERM:\n{self.log()[-4000:]}") from None

    def kill(self):
        """kill -9 of the broker alone."""
        self.process.kill()
        self.process.wait(STOP_SECONDS)

    def stop(self):
        """SIGTERM to a running broker; the stop must be clean and the whole log free of errors."""
        assert self.running(), f"{self} died with {self.process.returncode}:\n{self.log()[-4000:]}"
        self.terminate()
        code = self.exit_code()
        assert code == 0, f"{self} exited with {code}:\n{self.log()[-4000:]}"
        errors = "\n".join(self.errors()[:20])
        assert not errors, f"{self} logged errors:\n{errors}"

    def reap(self):
        """Whatever happened, leave no process of this broker and no directory behind."""
        if self.running():
            self.kill()
        for pid_file in self.data.rglob("postmaster.pid") if self.data.exists() else ():
            self._kill_postmaster(int(pid_file.read_text().split()[0]))
        if not os.environ.get("QN_KEEP"):
            shutil.rmtree(self.root, ignore_errors=True)

    def _kill_postmaster(self, pid):
        try:
            command = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return
        if str(self.data).encode() in command:
            os.kill(pid, signal.SIGQUIT)

    def socket_file(self):
        found = [path for path in self.data.rglob(".s.PGSQL.*") if not path.name.endswith(".lock")]
        if found:
            return found[0]
        for line in self.log().splitlines():
            if "event=storage.ready" in line and "socket=" in line:
                where = pathlib.Path(line.split("socket=", 1)[1].split()[0].strip('"'))
                return where if where.name.startswith(".s.PGSQL.") else next(where.glob(".s.PGSQL.*[0-9]"))
        raise AssertionError(f"{self}: no socket of the embedded database:\n{self.log()[-2000:]}")

    def _psql(self):
        where = self.socket_file()
        command = ["psql", "-X", "-q", "-t", "--csv", "-v", "ON_ERROR_STOP=1", "-h", str(where.parent),
                   "-p", where.name.rsplit(".", 1)[1], "-U", "postgres", "-d", "postgres", "-w"]
        return command, {**os.environ, "PGPASSWORD": (self.data / "pg.password").read_text()}

    def psql(self, sql):
        """Rows of one statement on the embedded database, every value as text."""
        command, env = self._psql()
        done = subprocess.run([*command, "-c", sql], capture_output=True, text=True, env=env, timeout=30, check=False)
        assert done.returncode == 0, f"{sql}\n{done.stderr}"
        return [tuple(row) for row in csv.reader(io.StringIO(done.stdout)) if row]

    @contextlib.contextmanager
    def stalled(self, table):
        """While inside, nobody else can use this table of the embedded database: calls that need it stay in flight."""
        command, env = self._psql()
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env) as session:
            try:
                session.stdin.write(f"BEGIN; LOCK TABLE queen.{table} IN ACCESS EXCLUSIVE MODE; SELECT 'held';\n")
                session.stdin.flush()
                assert session.stdout.readline().strip() == "held"
                yield
            finally:
                session.stdin.close()

    def waiting(self):
        """How many statements of the embedded database wait for a lock."""
        return int(self.psql("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")[0][0])


class Brokers:
    """The brokers of a test session, started when first asked for and shared from then on."""

    def __init__(self):
        self.running = {}
        self.refused = {}
        self.faults = []

    def get(self, storage, options=(), **env):
        """The shared broker of this kind; one that died or hangs is a fault of the session and is replaced."""
        key = (storage, tuple(options), tuple(sorted(env.items())))
        assert key not in self.refused, self.refused[key]
        broker = self.running.get(key)
        if broker is not None and not broker.healthy():
            state = "hangs" if broker.running() else f"died with {broker.process.returncode}"
            self.faults.append(f"{broker} {state}:\n{broker.log()[-3000:]}")
            broker.reap()
            broker = None
        if broker is None:
            broker = Broker(storage, env, options)
            try:
                broker.start()
            except AssertionError as fault:
                self.refused[key] = str(fault)
                broker.reap()
                raise
            self.running[key] = broker
        return broker

    def close(self):
        """Stop them all; returns what was wrong with any of them over the whole session."""
        for broker in self.running.values():
            try:
                broker.stop()
            except AssertionError as fault:
                self.faults.append(str(fault))
            finally:
                broker.reap()
        return self.faults
