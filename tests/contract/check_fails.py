#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a contract suite on a module that breaks a rule: it must fail in the named cases, and end by itself.

usage: check_fails.py SUITE MODULE CASE [CASE ...]
"""
import re
import subprocess
import sys


def main():
    suite, module, *cases = sys.argv[1:]
    run = subprocess.run([suite, module], capture_output=True, text=True, timeout=120)
    output = run.stdout + run.stderr
    failed = set(re.findall(r"^\[  FAILED  \] (?:\w+: )?(\S.*?)$", output, re.MULTILINE))
    missing = [case for case in cases if case not in failed]
    if run.returncode <= 0 or missing:
        print(output)
        sys.exit(f"exit status {run.returncode}; did not fail: {missing}; failed: {sorted(failed)}")


if __name__ == "__main__":
    main()
