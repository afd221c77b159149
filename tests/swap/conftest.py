# SPDX-License-Identifier: Apache-2.0
"""The HTTP suites' helpers, as `lib`, and their fixtures and hooks."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "http"))

from lib.fixtures import *  # noqa: E402,F401,F403
