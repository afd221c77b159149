# SPDX-License-Identifier: Apache-2.0
"""Makes the shared helpers importable as `lib` and takes over their fixtures and hooks."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from lib.fixtures import *  # noqa: E402,F401,F403
