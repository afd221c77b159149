# SPDX-License-Identifier: Apache-2.0
"""Fixtures and hooks of the black-box suites, taken over by their conftest.py files: one broker per storage for the
whole session, a client per test, fresh names.

`api` runs a test over both HTTP versions on both storages. `slow_api` is for tests that must wait for a lease or a
delay of a second or more: each storage and each version once.
"""
import itertools

import pytest

from .api import Api
from .broker import STORAGES, Broker, Brokers

ALL = [pytest.param((storage, version), id=f"{storage}-{version}") for storage in STORAGES for version in ("h1", "h2")]
CROSS = [pytest.param(pair, id="-".join(pair)) for pair in (("memory", "h1"), ("pg", "h2"))]
SERIAL = itertools.count(1)


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: takes more than about five seconds")


@pytest.fixture(scope="session")
def brokers():
    made = Brokers()
    yield made
    faults = made.close()
    assert not faults, "\n".join(faults)  # of brokers all tests shared: nobody else's to report


@pytest.fixture
def brokers_seen(request):
    """The brokers a test used and where their logs stood, for the report of a failure."""
    request.node.brokers_seen = seen = []
    return seen


def make_api(brokers, seen, pair, **env):
    storage, version = pair
    broker = brokers.get(storage, **env)
    seen.append((broker, broker.log_size()))
    api = Api(broker.port, version)
    api.broker = broker
    return api


@pytest.fixture(params=ALL)
def api(request, brokers, brokers_seen):
    made = make_api(brokers, brokers_seen, request.param)
    yield made
    made.close()


@pytest.fixture(params=CROSS)
def slow_api(request, brokers, brokers_seen):
    made = make_api(brokers, brokers_seen, request.param)
    yield made
    made.close()


@pytest.fixture(params=["h1", "h2"])
def pg_api(request, brokers, brokers_seen):
    """Over storage_pg only, for tests that look into the database."""
    made = make_api(brokers, brokers_seen, ("pg", request.param))
    yield made
    made.close()


@pytest.fixture
def memory_api(brokers, brokers_seen):
    made = make_api(brokers, brokers_seen, ("memory", "h1"))
    yield made
    made.close()


# One broker whose environment differs from the defaults in every variable the suites check.
CHANGED = {"DEFAULT_SUBSCRIPTION_MODE": "all", "QUEEN_MAX_BODY_BYTES": "3000000", "QUEEN_POP_MAX_MB": "1",
           "DEFAULT_TIMEOUT": "700", "QUEEN_PUSH_MEMORY_MB": "4"}


@pytest.fixture(params=CROSS)
def changed_api(request, brokers, brokers_seen):
    made = make_api(brokers, brokers_seen, request.param, **CHANGED)
    yield made
    made.close()


@pytest.fixture
def own_broker(request):
    """A factory of brokers that belong to one test; what they logged is shown when it fails."""
    made = []
    request.node.brokers_seen = []

    def make(storage, options=(), **env):
        broker = Broker(storage, env, options)
        made.append(broker)
        request.node.brokers_seen.append((broker, 0))
        return broker.start()

    yield make
    for broker in made:
        broker.reap()


@pytest.fixture
def name():
    """A factory of queue names nobody used before; they hold no dot, so their namespace is the whole name."""
    serial = next(SERIAL)
    counter = itertools.count(1)
    return lambda stem="q": f"{stem}-{serial}-{next(counter)}"


@pytest.fixture
def q(name):
    return name()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    outcome = yield
    report = outcome.get_result()
    if report.failed:
        for broker, start in getattr(item, "brokers_seen", ()):
            text = broker.log(start)[-6000:]
            if text:
                report.sections.append((f"log of {broker}", text))
