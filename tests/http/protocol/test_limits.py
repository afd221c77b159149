# SPDX-License-Identifier: Apache-2.0
"""Time-outs, connection cap, addresses."""
import socket
import time

import pytest
from wire import H1, H2, connect, stats, until


def closes_within(client, low, high):
    began = time.monotonic()
    assert client.is_closed(within=high + 2)
    assert low <= time.monotonic() - began <= high + 1.5  # a loaded machine is late, never early


def test_idle_timeout(serve):
    port = serve(idle_timeout=600, head_timeout=5000, body_timeout=5000).port
    closes_within(H1(port), 0.5, 1.0)
    client = H1(port)
    for _ in range(4):  # each request starts it anew
        assert client.ask("GET", "/echo").status == 200
        time.sleep(0.3)
    closes_within(client, 0.1, 1.0)
    client = H2(port)
    assert client.ask("GET", "/echo").status == 200
    closes_within(client, 0.3, 1.0)


def test_idle_timeout_spares_calls(serve):
    port = serve(idle_timeout=300, head_timeout=300, body_timeout=300).port
    assert H1(port).ask("GET", "/slow?1200").status == 200
    assert H2(port).ask("GET", "/slow?1200").status == 200


def test_head_timeout(serve):
    port = serve(head_timeout=600).port
    client = H1(port)
    client.send("GET / HT")
    closes_within(client, 0.5, 1.0)
    client = H1(port)
    began = time.monotonic()
    try:
        for byte in b"GET / HTTP/1.1\r\nX: " + b"y" * 200:  # slow and steady does not help
            client.send(bytes([byte]))
            time.sleep(0.05)
    except (BrokenPipeError, ConnectionResetError):
        pass
    assert time.monotonic() - began < 5
    client = H1(port)
    assert client.ask("GET", "/echo").status == 200
    time.sleep(1.0)  # idle is not a head
    assert client.ask("GET", "/echo").status == 200
    client.send("PRI *")
    closes_within(client, 0.4, 1.0)


def test_head_timeout_http2(serve):
    client = H2(serve(head_timeout=600).port)
    assert client.ask("GET", "/echo").status == 200
    client.sock.sendall(b"\0\0\4\1\0\0\0\0\5\x82\x84\x86\x41")  # HEADERS without END_HEADERS
    closes_within(client, 0.4, 1.2)


def test_body_timeout(serve):
    port = serve(body_timeout=600).port
    head = "POST /body HTTP/1.1\r\nHost: t\r\nContent-Length: 40000\r\n\r\n"
    client = H1(port)
    client.send(head)
    closes_within(client, 0.5, 1.0)
    client = H1(port)  # slow but moving
    client.send(head)
    for _ in range(20):
        client.send("x" * 2000)
        time.sleep(0.1)
    assert len(client.answer().body) == 40000
    client = H1(port)
    client.send(head)
    began = time.monotonic()
    try:
        while time.monotonic() - began < 8:  # a byte now and then is no progress
            client.send("x")
            time.sleep(0.1)
    except (BrokenPipeError, ConnectionResetError):
        pass
    assert time.monotonic() - began < 5


def test_body_timeout_http2(serve):
    port = serve(body_timeout=600, max_body_bytes=30_000).port
    client = H2(port)
    client.start("POST", "/body", end=False)
    closes_within(client, 0.4, 1.2)
    for status, size in ((200, 1400), (413, 4000)):  # slow but moving, also where it is thrown away
        client = H2(port)
        stream = client.start("POST", "/body", end=False)
        for _ in range(20):
            client.send_body(stream, b"x" * size, end=False)
            time.sleep(0.1)
        client.h2.end_stream(stream)
        client.flush()
        assert client.wait(stream).status == status
    client = H2(port)
    stream = client.start("POST", "/body", end=False)
    began = time.monotonic()
    try:
        while time.monotonic() - began < 8:  # neither pings nor single bytes are progress
            client.h2.ping(b"12345678")
            client.send_body(stream, b"x", end=False)
            time.sleep(0.1)
    except (BrokenPipeError, ConnectionResetError):
        pass
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("version", ["h1", "h2"])
def test_reader_that_takes_nothing(serve, version):
    server = serve(idle_timeout=600)
    if version == "h1":
        client = H1(server.port)
        client.send("GET /big?50000000 HTTP/1.1\r\nHost: t\r\n\r\n")
    else:
        client = H2(server.port)
        client.h2.increment_flow_control_window(2**30)
        stream = client.start("GET", "/big?50000000", headers=())
        client.h2.increment_flow_control_window(2**30, stream)
        client.flush()
    until(server.port, lambda now: now["calls"] > now["freed"] + 1)
    now = until(server.port, lambda now: now["connections"] == 1)
    assert now["calls"] - 1 == now["freed"]


def test_max_connections(serve):
    port = serve(max_connections=3).port
    clients = [H1(port) for _ in range(3)]
    for client in clients:
        assert client.ask("GET", "/echo").status == 200
    assert H1(port).is_closed()
    clients.pop().close()
    end = time.monotonic() + 5
    while True:
        client = H1(port)
        try:
            client.send("GET /echo HTTP/1.1\r\nHost: t\r\n\r\n")
            assert client.answer().status == 200
            break
        except (EOFError, ConnectionResetError, BrokenPipeError):
            assert time.monotonic() < end
            time.sleep(0.02)


def test_addresses(serve):
    server = serve()
    for host in ("127.0.0.1", "::1"):
        assert H1(server.port, host=host).ask("GET", "/echo").status == 200
    listening = [line for line in server.lines if line.startswith("http.listening")]
    assert len(listening) == 2
    server = serve(env={"PG_HOST": "db.example"})
    assert any("addr=0.0.0.0 " in line for line in server.lines) and any("addr=:: " in line for line in server.lines)
    server = serve(bind_addr="127.0.0.2, [::1]")
    assert H1(server.port, host="127.0.0.2").ask("GET", "/echo").status == 200
    assert H1(server.port, host="::1").ask("GET", "/echo").status == 200
    with pytest.raises(ConnectionRefusedError):
        connect(server.port)
    with pytest.raises(RuntimeError, match="numeric"):
        serve(bind_addr="nonsense")


def test_port_is_ours_alone(serve):
    port = serve().port
    assert H1(port).ask("GET", "/echo").status == 200
    with pytest.raises(RuntimeError, match="cannot listen"):
        serve(port=port)


def test_all_threads_serve(serve):
    port = serve(io_threads=2).port
    seen = set()
    for _ in range(200):
        client = H1(port)
        seen.add(client.ask("GET", "/echo").json()["thread"])
        client.close()
    assert seen == {0, 1}


def test_no_delay(serve):
    """Small replies in a row are not held back by Nagle and delayed acks (40 ms each)."""
    client = H1(serve().port)
    client.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    began = time.monotonic()
    for _ in range(100):
        assert client.ask("GET", "/echo").status == 200
    assert time.monotonic() - began < 2
