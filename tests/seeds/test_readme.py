# SPDX-License-Identifier: Apache-2.0
"""The tables of the README and the tests of this folder name each other."""
import pathlib
import re

HERE = pathlib.Path(__file__).resolve().parent


def test_every_test_is_named_in_the_tables_and_every_name_is_a_test():
    """No clause without its test, no test without its clause."""
    named = set(re.findall(r"`(test_\w+)`", (HERE / "README.md").read_text()))
    defined = {name for path in HERE.glob("test_*.py") if path != pathlib.Path(__file__).resolve()
               for name in re.findall(r"^def (test_\w+)\(", path.read_text(), re.M)}
    assert len(defined) > 100
    assert named == defined


def test_every_test_says_what_its_clause_claims():
    """A docstring directly below each test's head."""
    for path in HERE.glob("test_*.py"):
        for head, text in re.findall(r"^def (test_\w+)\(.*\):\n(.*)$", path.read_text(), re.M):
            assert text.startswith('    """'), (path.name, head)
