# SPDX-License-Identifier: Apache-2.0
"""TLS: ALPN, both protocols over it, options that do not fit together, and sockets that must not stay."""
import os
import signal
import subprocess
import time

import pytest
from conftest import make_certificate
from wire import H1, H2, abort, connect, stats, until


def test_alpn(serve, certificate):
    port = serve(**certificate).port
    client = connect(port, tls=True, alpn=["h2", "http/1.1"])
    assert client.selected_alpn_protocol() == "h2"
    got = H2(port, tls=True).ask("POST", "/echo", b"abc").json()
    assert (got["version"], got["tls"], got["body"]) == (0x200, True, 3)
    client = H1(port, tls=True, alpn=["http/1.1"])
    assert client.sock.selected_alpn_protocol() == "http/1.1"
    got = client.ask("GET", "/echo").json()
    assert (got["version"], got["tls"]) == (0x101, True)
    assert H1(port, tls=True).ask("GET", "/echo").json()["version"] == 0x101


def test_bodies(serve, certificate):
    port = serve(**certificate).port
    body = os.urandom(3_000_000)
    assert H1(port, tls=True).ask("POST", "/body", "Content-Length: 3000000\r\n", body).body == body
    assert H2(port, tls=True).ask("POST", "/body", body).body == body


def test_body_limit(serve, certificate):
    port = serve(max_body_bytes=1000, **certificate).port
    client = H1(port, tls=True)
    client.send(b"POST /body HTTP/1.1\r\nHost: t\r\nContent-Length: 2000000\r\n\r\n" + b"x" * 2_000_000)
    assert client.answer().status == 413
    assert H2(port, tls=True).ask("POST", "/body", b"x" * 1001).status == 413


def test_clear_text_is_not_answered(serve, certificate):
    client = H1(serve(**certificate).port)
    client.send("GET /echo HTTP/1.1\r\nHost: t\r\n\r\n")
    client.sock.settimeout(5)
    assert not client.sock.recv(1000).startswith(b"HTTP")


def test_handshake_timeout(serve, certificate):
    port = serve(head_timeout=300, **certificate).port
    assert H1(port).is_closed()


def test_options(serve, certificate, tmp_path):
    other = make_certificate(tmp_path, "other")
    for options, why in (({"tls_cert": certificate["tls_cert"]}, "together"),
                         ({"tls_key": certificate["tls_key"]}, "together"),
                         ({"tls_cert": certificate["tls_cert"], "tls_key": other["tls_key"]}, "tls_key"),
                         ({"tls_cert": tmp_path / "missing", "tls_key": other["tls_key"]}, "tls_cert")):
        with pytest.raises(RuntimeError, match=why):
            serve(**options)


@pytest.mark.parametrize("version", ["h1", "h2"])
def test_gone_clients(serve, certificate, version):
    port = serve(**certificate).port
    clients = []
    for _ in range(10):
        if version == "h1":
            clients.append(H1(port, tls=True))
            clients[-1].send("GET /park HTTP/1.1\r\nHost: t\r\n\r\n")
        else:
            clients.append(H2(port, tls=True))
            clients[-1].start("GET", "/park")
    until(port, lambda now: now["parked"] == 10, tls=True)
    for i, client in enumerate(clients):
        abort(client.sock) if i % 2 else client.close()
    now = until(port, lambda now: now["gone"] == 10 and now["connections"] == 1, within=4, tls=True)
    assert now["parked"] == 0


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("flags", [[], ["--h1"]])
def test_killed_load_generator(serve, certificate, secure, flags):
    """h2load dies with kill -9 in the middle of everything; no socket stays."""
    port = serve(**(certificate if secure else {})).port
    for path in ("/echo", "/park", "/big?200000"):
        url = f"{'https' if secure else 'http'}://127.0.0.1:{port}{path}"
        streams = [] if flags else ["-m", "10"]
        load = subprocess.Popen(["h2load", *flags, *streams, "-c", "40", "-n", "10000000", url], stdout=subprocess.DEVNULL)
        before = stats(port, secure)["calls"]
        until(port, lambda now: now["calls"] - before > 200 or now["parked"] >= 40, tls=secure)
        time.sleep(0.2)
        load.send_signal(signal.SIGKILL)
        load.wait()
        now = until(port, lambda now: now["connections"] == 1 and now["parked"] == 0, within=10, tls=secure)
        assert now["calls"] > before
