# SPDX-License-Identifier: Apache-2.0
"""Every composition gives the same answers: the script's transcript is identical over both storages and versions."""
import difflib
import itertools

import pytest
from script import walk
from transcript import Transcript

from lib.api import Api
from lib.broker import STORAGES

SERIAL = itertools.count(100)


@pytest.fixture(scope="session")
def transcripts(brokers):
    """composition -> lines, each composition walked once."""
    made = {}

    def make(storage, version):
        if (storage, version) not in made:
            api = Api(brokers.get(storage).port, version)
            run = Transcript(api, f"walk{next(SERIAL)}")
            walk(run)
            api.close()
            made[storage, version] = run.lines
        return made[storage, version]

    return make


@pytest.mark.parametrize("storage, version", list(itertools.product(STORAGES, ("h1", "h2")))[1:])
def test_same_transcript(transcripts, storage, version):
    reference, other = transcripts(STORAGES[0], "h1"), transcripts(storage, version)
    assert len(reference) > 100
    names = (f"{STORAGES[0]} h1", f"{storage} {version}")
    difference = "\n".join(difflib.unified_diff(reference, other, *names, lineterm="", n=0))
    assert not difference, difference
