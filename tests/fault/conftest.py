# SPDX-License-Identifier: Apache-2.0
import shutil

import pytest

from under_load import Broker


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: takes more than about five seconds")


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
