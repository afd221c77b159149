# SPDX-License-Identifier: Apache-2.0
"""The examples start, check and run."""
import json
import subprocess

import pytest
from conftest import ENV, QUEEND, ROOT

CONFIGURATIONS = sorted(path.name for path in (ROOT / "examples").glob("module.conf.*"))


def test_there_are_configurations():
    assert {"module.conf.external", "module.conf.memory", "module.conf.tls"} <= set(CONFIGURATIONS)


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_configuration_is_accepted(name):
    done = subprocess.run([str(QUEEND), "--config", str(ROOT / "examples" / name), "--check-config"],
                          capture_output=True, text=True, check=False,
                          env=ENV | {"QUEEN_ENCRYPTION_KEY": "5a" * 32, "PG_PASSWORD": "x"})
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("arguments", ["", "--http2-prior-knowledge"], ids=["h1", "h2"])
def test_curl_producer_and_worker(broker, arguments):
    env = ENV | {"BASE": broker.base, "CURL_ARGS": arguments, "WAIT_MS": "300"}
    payloads = [1, "two words", {"three": [3]}, None]
    lines = "".join(json.dumps(payload) + "\n" for payload in payloads)
    pushed = subprocess.run([str(ROOT / "examples/curl/push"), "curl-example", "lane"], input=lines, text=True,
                            capture_output=True, env=env, timeout=30, check=False)
    assert (pushed.returncode, pushed.stdout.split(), pushed.stderr) == (0, ["queued"] * 4, "")
    worked = subprocess.run([str(ROOT / "examples/curl/work"), "curl-example", "workers", "cat"], text=True,
                            capture_output=True, env=env, timeout=60, check=False)
    assert (worked.returncode, worked.stderr) == (0, "")
    assert [json.loads(line) for line in worked.stdout.splitlines()] == payloads


def test_curl_worker_sends_back_what_its_command_refuses(broker):
    env = ENV | {"BASE": broker.base, "WAIT_MS": "300"}
    subprocess.run([str(ROOT / "examples/curl/push"), "refused"], input="7\n", text=True, capture_output=True, env=env,
                   timeout=30, check=True)
    seen = broker.root / "seen"
    worked = subprocess.run([str(ROOT / "examples/curl/work"), "refused", "workers", "sh", "-c",
                             f"cat >> {seen}; exit 1"], text=True, capture_output=True, env=env, timeout=60, check=False)
    assert worked.returncode == 0, worked.stderr
    assert seen.read_text() == "7\n" * 4  # retryLimit is 3: the fourth failure makes the dead letter
