# SPDX-License-Identifier: Apache-2.0
"""Every composition gives the same answers: the script's transcript is identical over both storages and versions, and
with another module in any section that must not change an answer."""
import difflib
import itertools

import pytest
from script import walk
from transcript import Transcript

from lib.api import Api
from lib.broker import STORAGES

SERIAL = itertools.count(100)
PLAIN = [*itertools.product(STORAGES, ("h1", "h2"), ("",))]
# Without a key both modules of kind encryption refuse in the same words.
SWAPPED = [("memory", "h1", "encryption.use=encryption_none")]


@pytest.fixture(scope="session")
def transcripts(brokers):
    """composition -> lines, each composition walked once."""
    made = {}

    def make(*composition):
        if composition not in made:
            storage, version, setting = composition
            api = Api(brokers.get(storage, ["--set", setting] if setting else ()).port, version)
            run = Transcript(api, f"walk{next(SERIAL)}")
            walk(run)
            api.close()
            made[composition] = run.lines
        return made[composition]

    return make


@pytest.mark.parametrize("composition", PLAIN[1:] + SWAPPED, ids=lambda parts: " ".join(filter(None, parts)))
def test_same_transcript(transcripts, composition):
    reference, other = transcripts(*PLAIN[0]), transcripts(*composition)
    assert len(reference) > 100
    names = (" ".join(PLAIN[0]), " ".join(composition))
    difference = "\n".join(difflib.unified_diff(reference, other, *names, lineterm="", n=0))
    assert not difference, difference
