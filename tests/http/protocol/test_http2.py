# SPDX-License-Identifier: Apache-2.0
"""HTTP/2: three ways in, bodies and their limit, errors, resets, streams."""
import base64
import subprocess
import time

import pytest
from wire import H1, H2, connect, stats, until


def test_prior_knowledge(serve):
    client = H2(serve().port)
    answer = client.ask("POST", "/echo?a=1", b"hello", [("x-test", "v")])
    got = answer.json()
    assert answer.headers["server"] == "queend" and answer.headers["content-type"] == "application/json"
    assert (got["method"], got["path"], got["query"], got["body"]) == ("POST", "/echo", "a=1", 5)
    assert (got["version"], got["test"], got["host"]) == (0x200, "v", "t")
    assert client.ask("GET", "/a%2Fb").status == 404


def test_preface_in_pieces(serve):
    sock = connect(serve().port)
    for byte in b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0":
        sock.sendall(bytes([byte]))
    assert sock.recv(9)[3] == 4  # SETTINGS


def test_upgrade(serve):
    port = serve().port
    client = H1(port)
    settings = base64.urlsafe_b64encode(b"\0\3\0\0\0\x64").decode().rstrip("=")
    client.send("GET /echo?up=1 HTTP/1.1\r\nHost: t\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
                f"HTTP2-Settings: {settings}\r\n\r\n")
    answer = client.answer(head_only=True)
    assert answer.status == 101 and answer.headers["upgrade"] == "h2c"
    out = subprocess.run(["curl", "-sS", "--http2", f"http://127.0.0.1:{port}/echo?up=2", "-w", "%{http_version}"],
                         capture_output=True, check=True, text=True).stdout
    assert '"query":"up=2"' in out and '"version":512' in out and out.endswith("2")
    client.close()
    until(port, lambda now: now["connections"] == 1)


def test_refused_upgrade_is_http1_or_an_error(serve):
    port = serve().port
    client = H1(port)
    # An offer that is not complete is ignored.
    assert client.ask("GET", "/echo", "Connection: Upgrade\r\nUpgrade: h2c\r\n").json()["version"] == 0x101
    answer = client.ask("GET", "/echo", "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAA\r\n")
    assert answer.status == 400 and list(answer.json()) == ["error"]
    assert client.is_closed()


def test_head_and_204(serve):
    client = H2(serve().port)
    answer = client.ask("HEAD", "/big?12345")
    assert answer.status == 200 and answer.headers["content-length"] == "12345" and answer.body == b""
    answer = client.ask("GET", "/empty")
    assert answer.status == 204 and "content-length" not in answer.headers and answer.body == b""


@pytest.mark.parametrize("size", [0, 1, 65535, 3_000_000])
def test_bodies(serve, size):
    client = H2(serve().port)
    body = bytes(i % 251 for i in range(size))
    assert client.ask("POST", "/body", body).body == body
    assert client.ask("POST", "/body", body, [("content-length", str(size))]).body == body


def test_body_limit(serve):
    client = H2(serve(max_body_bytes=100_000).port)
    assert client.ask("POST", "/body", b"x" * 100_000).status == 200
    for headers in ((), (("content-length", "3000000"),)):
        answer = client.ask("POST", "/body", b"x" * 3_000_000, headers)
        assert answer.status == 413 and answer.headers["content-type"] == "application/json"
        assert list(answer.json()) == ["error"]
    assert client.ask("GET", "/echo").status == 200
    assert stats(client.sock.getpeername()[1])["calls"] == 3
    assert client.goaway is None


def test_curl_sees_413(serve, tmp_path):
    port = serve(max_body_bytes=1000).port
    (tmp_path / "body").write_bytes(b"x" * 2_000_000)
    for way in ("--http2-prior-knowledge", "--http1.1"):
        out = subprocess.run(["curl", "-sS", way, f"http://127.0.0.1:{port}/echo", "--data-binary",
                              f"@{tmp_path / 'body'}", "-w", "%{http_code}"], capture_output=True, text=True)
        assert out.returncode == 0 and out.stdout.endswith("413") and '{"error":' in out.stdout, (way, out)


@pytest.mark.parametrize("path", ["*", "echo", "/a b", "http://t/echo"])
def test_bad_targets(serve, path):
    client = H2(serve().port)
    answer = client.ask("GET", path)
    assert answer.status == 400 and answer.headers["content-type"] == "application/json"
    assert list(answer.json()) == ["error"]
    assert stats(client.sock.getpeername()[1])["calls"] == 1


def test_errors_of_h2o_are_json(serve):
    client = H2(serve().port)
    answer = client.ask("GET", "/echo", headers=[("x-test", "a\x01b")])
    assert answer.status == 400 and answer.headers["content-type"] == "application/json"
    assert answer.headers["content-length"] == str(len(answer.body)) and list(answer.json()) == ["error"]
    assert client.ask("GET", "/echo").status == 200


def test_big_replies_side_by_side(serve):
    client = H2(serve().port)
    streams = [client.start("GET", "/big?3000000") for _ in range(5)]
    assert all(client.wait(stream).body == b"x" * 3_000_000 for stream in streams)


def test_max_streams(serve):
    server = serve(max_streams=2)
    client = H2(server.port)
    streams = [client.start("GET", "/slow?1000") for _ in range(4)]
    first = until(server.port, lambda now: now["parked"] >= 2)
    assert first["parked"] == 2
    for stream in streams:
        assert client.wait(stream).status == 200
    assert stats(server.port)["calls"] == first["calls"] + 2 + 1, "the other two, and this question"


def test_reset_streams_are_noticed(serve):
    server = serve()
    client = H2(server.port)
    for _ in range(20):
        client.h2.reset_stream(client.start("GET", "/park"))
    client.flush()
    now = until(server.port, lambda now: now["gone"] == 20)
    assert now["parked"] == 0
    assert client.ask("GET", "/echo").status == 200


@pytest.mark.parametrize("path,end", [("/park", True), ("/echo", False)])
def test_reset_flood_closes(serve, path, end):
    server = serve(max_resets=50)
    client = H2(server.port)
    try:
        for _ in range(200):
            client.h2.reset_stream(client.start("GET", path, end=end))
            client.flush()
    except (BrokenPipeError, ConnectionResetError):
        client.is_eof = True
    assert client.is_closed()
    now = until(server.port, lambda now: now["connections"] == 1 and now["parked"] == 0)
    assert now["gone"] <= 200
    deadline = time.monotonic() + 10
    while not any(line.startswith("http.reset_flood") for line in list(server.lines)):
        assert time.monotonic() < deadline, "the flood is not logged"
        time.sleep(0.02)


def test_answered_streams_are_no_flood(serve):
    client = H2(serve(max_resets=5).port)
    for _ in range(100):
        assert client.ask("GET", "/echo").status == 200


def test_reset_window_moves_on(serve):
    client = H2(serve(max_resets=10).port)
    end = time.monotonic() + 11
    count = 0
    while time.monotonic() < end:
        client.h2.reset_stream(client.start("GET", "/park"))
        client.flush()
        count += 1
        time.sleep(1.3)
    assert count > 8
    for _ in range(5):
        client.h2.reset_stream(client.start("GET", "/park"))
    assert client.ask("GET", "/echo").status == 200
