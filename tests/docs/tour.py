# SPDX-License-Identifier: Apache-2.0
"""The shell blocks of README.md: finding them, running them in one shell, comparing what they print.

A block is a fence ```sh; the fence ```text that follows it, if one does, is what it printed. Identifiers,
times and versions are masked on both sides, everything else counts.

    tour.py --write BASE DATA     runs the tour over HTTP/1.1 and writes the printed text into README.md
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
FENCE = re.compile(r"^```sh(?P<tag>[^\n]*)\n(?P<code>.*?)^```\n(?P<out>\n```text\n(?P<text>.*?)^```\n)?", re.M | re.S)
MASKS = [
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "<id>"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z"), "<time>"),
    (re.compile(r'"version":"[^"]*"'), '"version":"<version>"'),
    (re.compile(r"HTTP/(1\.1|2)\b"), "HTTP/<version>"),
]
MARK = "\x1e"


def part(name, text=None):
    """What stands between the markers of that name."""
    return (text or README.read_text()).split(f"<!-- {name}:begin -->\n")[1].split(f"<!-- {name}:end -->")[0]


def blocks(name):
    return [(m["tag"].strip(), m["code"], m["text"]) for m in FENCE.finditer(part(name))]


def masked(text):
    for pattern, name in MASKS:
        text = pattern.sub(name, text)
    return text


def run(codes, base, data, timeout=120):
    """Runs the blocks in one shell, as pasting them would; returns what each printed, errors included."""
    script = ""
    for code in codes:
        code = re.sub(r"^BASE=.*$", f"BASE={base}", code, flags=re.M)
        code = re.sub(r"^DATA=.*$", f"DATA={data}", code, flags=re.M)
        script += f"{code}\nprintf '\\036'\n"
    done = subprocess.run(["/bin/bash", "-c", script], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=timeout, cwd="/tmp", check=False,
                          env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"})
    printed = done.stdout.split(MARK)
    assert len(printed) == len(codes) + 1 and printed[-1] == "", done.stdout
    return printed[:-1]


def write(base, data):
    found = blocks("tour")
    codes = [code for tag, code, _ in found if tag != "http2"]
    printed = iter(run(codes, base, data))

    def replace(match):
        if match["tag"].strip() == "http2":
            return match[0]
        out = next(printed)
        fence = f"```sh{match['tag']}\n{match['code']}```\n"
        return fence + (f"\n```text\n{out}```\n" if out else "")

    text = README.read_text()
    tour = part("tour", text)
    README.write_text(text.replace(tour, FENCE.sub(replace, tour)))


if __name__ == "__main__":
    if sys.argv[1:2] != ["--write"] or len(sys.argv) != 4:
        sys.exit(__doc__)
    write(sys.argv[2], sys.argv[3])
