# SPDX-License-Identifier: Apache-2.0
"""The HTTP suites' helpers, as `lib`, their fixtures and hooks, and the two brokers that differ from the default one.

`furnished`: a key to seal with and a maintenance that comes round often. `scan`: no hot list, so that the storage
looks for candidates, and hardly any memory for hashes. Both are started once per storage, like the default broker.
"""
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "http"))

from lib.fixtures import *  # noqa: E402,F401,F403
from lib.fixtures import CROSS, make_api  # noqa: E402
from scene import FURNISHED, SCAN  # noqa: E402


@pytest.fixture(params=CROSS)
def furnished(request, brokers, brokers_seen):
    made = make_api(brokers, brokers_seen, request.param, **FURNISHED)
    yield made
    made.close()


@pytest.fixture
def pg_furnished(brokers, brokers_seen):
    made = make_api(brokers, brokers_seen, ("pg", "h1"), **FURNISHED)
    yield made
    made.close()


@pytest.fixture(params=CROSS)
def scan(request, brokers, brokers_seen):
    made = make_api(brokers, brokers_seen, request.param, **SCAN)
    yield made
    made.close()


@pytest.fixture
def pg_once(brokers, brokers_seen):
    """Over storage_pg and HTTP/1.1 only, for tests about the database that cost a lot."""
    made = make_api(brokers, brokers_seen, ("pg", "h1"))
    yield made
    made.close()


@pytest.fixture
def pg_scan(brokers, brokers_seen):
    made = make_api(brokers, brokers_seen, ("pg", "h1"), **SCAN)
    yield made
    made.close()
