# SPDX-License-Identifier: Apache-2.0
"""Adds up what meson and pytest reported and prints it, the closing line last.

Usage: count_tests.py TESTLOG_JSON REPORT_DIRECTORY

A cmocka program counts with each of its tests, any other program of meson's once. A line of the file
`broken` in the report directory is one failure: a suite that ended without a report. The exit status
is 1 when something failed or nothing ran.
"""
import json
import pathlib
import re
import sys
import xml.etree.ElementTree

PASSED = re.compile(r"\[  PASSED  \] (\d+) test")
FAILED = re.compile(r"\[  FAILED  \] (?:\[ [^\]]*\] )?(\d+) test")
SKIPPED = re.compile(r"\[  SKIPPED \] (\d+) test")


def cmocka(text, good):
    """Sums over the groups of one program; a program that died early has failed once more."""
    counts = [sum(map(int, pattern.findall(text))) for pattern in (PASSED, FAILED, SKIPPED)]
    if good and counts[0] == 0 and counts[2] == 0:
        counts[0] = 1
    if not good and counts[1] == 0:
        counts[1] = 1
    return counts


def meson_tests(path):
    for line in path.read_text().splitlines():
        test = json.loads(line)
        result = test["result"]
        if result == "SKIP":
            yield test["name"], [0, 0, 1]
        else:
            text = test.get("stdout", "") + test.get("stderr", "")
            yield test["name"], cmocka(text, result in ("OK", "EXPECTEDFAIL"))


def pytest_suites(folder):
    for report in sorted(folder.glob("*.xml")):
        for suite in xml.etree.ElementTree.parse(report).getroot().iter("testsuite"):
            total, failed, skipped = (int(suite.get(key, 0)) for key in ("tests", "failures", "skipped"))
            failed += int(suite.get("errors", 0))
            # A test that passed and whose teardown then failed is reported twice.
            yield "tests/" + report.stem, [max(total - failed - skipped, 0), failed, skipped]
    broken = folder / "broken"
    for line in broken.read_text().splitlines() if broken.exists() else ():
        yield line, [0, 1, 0]


def main():
    log, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    rows = list(meson_tests(log)) if log.exists() else []
    rows += pytest_suites(folder)
    for name, (passed, failed, skipped) in rows:
        print(f"{name:<40} {passed:5} passed {failed:4} failed" + (f" {skipped:4} skipped" if skipped else ""))
    passed, failed, skipped = (sum(row[1][i] for row in rows) for i in range(3))
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
