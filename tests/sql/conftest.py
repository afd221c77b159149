# SPDX-License-Identifier: Apache-2.0
"""A throw-away cluster on a unix socket for the run, a fresh database for each test."""
import glob
import os
import pwd
import shutil
import subprocess
import tempfile

import pytest

from broker import Broker
from libpq import Session

SQL = os.path.join(os.path.dirname(__file__), "..", "..", "sql")
ROLE = "broker"


def _bin(name):
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/" + name), key=lambda p: int(p.split("/")[4]))
    return found[-1] if found else name


def _as_server(args, **kwargs):
    """PostgreSQL refuses to run as root."""
    if os.geteuid() == 0:
        kwargs.update(user="postgres", group="postgres", extra_groups=[])
    subprocess.run(args, check=True, stdout=subprocess.DEVNULL, cwd="/", **kwargs)


class Server:
    def __init__(self, home):
        self.home = home
        self.user = "postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
        self.made = 0

    def conninfo(self, database, role=ROLE):
        return "host=%s dbname=%s user=%s options='-c timezone=UTC -c client_min_messages=warning'" % (
            self.home, database, role)

    def session(self, database, role=ROLE):
        return Session(self.conninfo(database, role))

    def admin(self, sql, database="postgres"):
        s = self.session(database, self.user)
        try:
            return s.run(sql)
        finally:
            s.close()


def apply_schema(server, database, before="SELECT 1"):
    """One transaction per file, as a broker does it."""
    for path in sorted(glob.glob(os.path.join(SQL, "[0-9]*.sql"))):
        subprocess.run(["psql", "-qX1", "-v", "ON_ERROR_STOP=1", "-c", before, "-f", path, server.conninfo(database)],
                       check=True, stdout=subprocess.DEVNULL)


@pytest.fixture(scope="session")
def server():
    home = tempfile.mkdtemp(prefix="qn-sql-test-")
    data = os.path.join(home, "data")
    try:
        os.chmod(home, 0o755)
        if os.geteuid() == 0:
            shutil.chown(home, "postgres", "postgres")
        _as_server([_bin("initdb"), "-D", data, "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "-N"])
        options = "-k %s -c listen_addresses='' -c max_connections=260 -c fsync=off -c deadlock_timeout=200ms" % home
        _as_server([_bin("pg_ctl"), "-D", data, "-o", options, "-l", os.path.join(home, "log"), "-w", "start"])
        try:
            s = Server(home)
            s.admin("CREATE ROLE %s LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE" % ROLE)
            s.admin("CREATE DATABASE template OWNER %s" % ROLE)
            apply_schema(s, "template")
            yield s
        finally:
            _as_server([_bin("pg_ctl"), "-D", data, "-m", "immediate", "-w", "stop"])
    finally:
        shutil.rmtree(home)


@pytest.fixture
def database(server):
    server.made += 1
    name = "test%d" % server.made
    server.admin("CREATE DATABASE %s TEMPLATE template OWNER %s" % (name, ROLE))
    yield name
    server.admin("DROP DATABASE %s WITH (FORCE)" % name)


@pytest.fixture
def connect(server, database):
    """Makes brokers, each with a session of its own."""
    made = []

    def make():
        made.append(Broker(server.session(database)))
        return made[-1]
    yield make
    for b in made:
        b.db.close()


@pytest.fixture
def b(connect):
    return connect()
