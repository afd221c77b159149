# SPDX-License-Identifier: Apache-2.0
"""Every composition gives the same answers: the script's transcript is identical over both storages and versions, and
with another module in any section that must not change an answer."""
import difflib
import itertools

import pytest
from script import walk
from transcript import Transcript

from lib.api import Api
from lib.broker import STORAGES, with_fake

SERIAL = itertools.count(100)
PLAIN = [*itertools.product(STORAGES, ("h1", "h2"), ((),))]
# Without a key both modules of kind encryption refuse in the same words.
SWAPPED = [("memory", "h1", ("--set", "encryption.use=encryption_none")),
           ("memory", "h2", with_fake("hotlist")), ("pg", "h1", with_fake("hotlist")),
           *((storage, "h1", ("--set", f"{module.split('_')[0]}.use={module}")) for storage in STORAGES
             for module in ("hotlist_ring", "dedup_probe", "retention_none"))]


def label(composition):
    storage, version, options = composition
    return " ".join([storage, version, *(o.split("=")[1] for o in options if ".use=" in o)])


@pytest.fixture(scope="session")
def transcripts(brokers):
    """composition -> lines, each composition walked once."""
    made = {}

    def make(*composition):
        if composition not in made:
            storage, version, options = composition
            api = Api(brokers.get(storage, options).port, version)
            run = Transcript(api, f"walk{next(SERIAL)}")
            walk(run)
            api.close()
            made[composition] = run.lines
        return made[composition]

    return make


@pytest.mark.parametrize("composition", PLAIN[1:] + SWAPPED, ids=label)
def test_same_transcript(transcripts, composition):
    reference, other = transcripts(*PLAIN[0]), transcripts(*composition)
    assert len(reference) > 100
    names = (label(PLAIN[0]), label(composition))
    difference = "\n".join(difflib.unified_diff(reference, other, *names, lineterm="", n=0))
    assert not difference, difference
