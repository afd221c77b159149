# SPDX-License-Identifier: Apache-2.0
"""What the README shows is what happens."""
import subprocess

import pytest
import tour
from conftest import Broker, ENV, QUEEND, ROOT


@pytest.mark.parametrize("version", ["1.1", "2"])
def test_tour_prints_what_it_says(broker, version):
    found = [block for block in tour.blocks("tour") if block[0] != "http2" or version == "2"]
    assert len(found) > 8
    printed = tour.run([code for _, code, _ in found], broker.base, broker.data)
    for (_, code, shown), seen in zip(found, printed):
        assert tour.masked(seen) == tour.masked(shown or ""), code
    assert any(f"200 HTTP/{version}\n" in seen for seen in printed)


def test_tour_shows_every_promise():
    shown = "".join(text or "" for _, _, text in tour.blocks("tour"))
    for promise in ('"status":"queued"', '"status":"duplicate"', "12.50", "204", '"outcome":"completed"',
                    '"consumerGroup":"audit"', '"data":"late"', '"outcome":"dead_lettered"', "i-1|no such customer|"):
        assert promise in shown


def test_backup_holds_the_schema(broker):
    (_, code, _), = tour.blocks("backup")
    setup = tour.blocks("tour")[0][1]
    code = code.replace("queen.dump", str(broker.root / "queen.dump"))
    printed = tour.run([setup, code], broker.base, broker.data)
    assert "".join(printed) == ""
    listed = subprocess.run(["pg_restore", "-l", str(broker.root / "queen.dump")], capture_output=True, text=True,
                            check=True, env=ENV).stdout
    assert "TABLE DATA queen queues" in listed and "TABLE DATA queen log_dlq" in listed


def test_tls_as_described(tmp_path):
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1",
                    "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert], check=True,
                   capture_output=True, env=ENV)
    broker = Broker("--set", "storage.use=storage_memory", QUEEN_TLS_CERT=str(cert), QUEEN_TLS_KEY=str(key))
    try:
        seen = subprocess.run(["curl", "-sS", "--retry", "50", "--retry-delay", "1", "--retry-connrefused", "--cacert", cert,
                               "-w", " %{http_version}", f"https://127.0.0.1:{broker.port}/health"], text=True,
                              capture_output=True, timeout=90, check=False, env=ENV)
        assert '"status":"healthy"' in seen.stdout and seen.stdout.endswith(" 2"), seen
    finally:
        broker.stop()


def test_option_tables_are_current():
    done = subprocess.run(["/usr/bin/python3", str(ROOT / "scripts/options.py"), "--check", str(QUEEND)],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_local_links_lead_somewhere():
    for page in ("README.md", "CONTRIBUTING.md", "core/README.md"):
        path = ROOT / page
        for target in tour.re.findall(r"\]\(([^)#:]+)\)", path.read_text()):
            assert (path.parent / target).exists(), f"{page}: {target}"
