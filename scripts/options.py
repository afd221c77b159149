# SPDX-License-Identifier: Apache-2.0
"""Writes the option tables into README.md, between the options markers.

Usage: options.py [--check] [QUEEND]

The tables are what `queend --list-options` prints, for module.conf and for every other module of the
build. With --check nothing is written; the exit status is 1 when the README is out of date.
"""
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
BEGIN, END = "<!-- options:begin -->", "<!-- options:end -->"


def sections(queend, *settings):
    command = [str(queend), "--config", str(ROOT / "module.conf")]
    for setting in settings:
        command += ["--set", setting]
    text = subprocess.run([*command, "--list-options"], check=True, capture_output=True, text=True,
                          env={"PATH": "/usr/bin:/bin"}).stdout
    for part in re.split(r"^## ", text, flags=re.M)[1:]:
        name, _, body = part.partition("\n")
        yield name.strip(), body.strip()


def tables(queend):
    found = dict(sections(queend))
    for module in sorted((queend.parent / "modules").glob("*.so")):
        kind = module.stem.split("_")[0]
        for name, body in sections(queend, f"{kind}.use={module.stem}"):
            found.setdefault(name, body)
    kinds = ["core", "http", "storage", "encryption", "hotlist", "dedup", "retention"]
    order = sorted(found, key=lambda name: (kinds.index(name.split("_")[0]), name))
    return "\n\n".join(f"#### {name}\n\n{found[name]}" for name in order)


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--check"]
    build = pathlib.Path(os.environ.get("QN_BUILD_DIR", ROOT / "build"))
    queend = pathlib.Path(arguments[0]).resolve() if arguments else build / "queend"
    readme = ROOT / "README.md"
    old = readme.read_text()
    head, rest = old.split(BEGIN)
    tail = rest.split(END)[1]
    new = f"{head}{BEGIN}\n\n{tables(queend)}\n\n{END}{tail}"
    if "--check" in sys.argv:
        if new != old:
            print("README.md: the option tables are out of date, run scripts/options.py", file=sys.stderr)
        return new != old
    readme.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
