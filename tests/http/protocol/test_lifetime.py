# SPDX-License-Identifier: Apache-2.0
"""Clients that leave during a call, and the server's own end."""
import socket
import threading
import time

import pytest
from wire import H1, H2, abort, connect, stats, until


@pytest.mark.parametrize("how", ["fin", "reset"])
def test_gone_http1(serve, how):
    port = serve().port
    clients = [H1(port) for _ in range(20)]
    for client in clients:
        client.send("GET /park HTTP/1.1\r\nHost: t\r\n\r\n")
    until(port, lambda now: now["parked"] == 20)
    assert stats(port)["peer_gone"] == 0
    for client in clients:
        client.close() if how == "fin" else abort(client.sock)
    until(port, lambda now: now["peer_gone"] == 20 or now["gone"] == 20, within=1)
    now = until(port, lambda now: now["gone"] == 20 and now["connections"] == 1, within=4)
    assert now["parked"] == 0


def test_pipelined_byte_is_not_death(serve):
    port = serve().port
    client = H1(port)
    client.send("GET /slow?1500 HTTP/1.1\r\nHost: t\r\n\r\nG")
    until(port, lambda now: now["parked"] == 1)
    assert client.answer().status == 200
    now = stats(port)
    assert now["peer_gone"] == 0 and now["gone"] == 0


def test_half_closed_client_is_answered(serve):
    port = serve().port
    client = H1(port)
    client.send("GET /slow?300 HTTP/1.1\r\nHost: t\r\n\r\n")
    client.sock.shutdown(socket.SHUT_WR)
    answer = client.answer()
    assert answer.json() == {"waited": True} and answer.headers["connection"] == "close"
    assert client.is_closed()


def test_gone_http2(serve):
    port = serve().port
    clients = [H2(port) for _ in range(20)]
    for i, client in enumerate(clients):
        client.start("GET", "/park")
        client.start("GET", "/park")
    until(port, lambda now: now["parked"] == 40)
    for i, client in enumerate(clients):
        client.close() if i % 2 else abort(client.sock)
    now = until(port, lambda now: now["gone"] == 40, within=2)
    assert now["parked"] == 0


def test_client_that_leaves_while_sending(serve):
    port = serve().port
    for head in ("GET / HT", "POST /body HTTP/1.1\r\nHost: t\r\nContent-Length: 9\r\n\r\nabc"):
        for end in (lambda client: client.close(), lambda client: abort(client.sock)):
            client = H1(port)
            client.send(head)
            end(client)
    client = H2(port)
    stream = client.start("POST", "/body", end=False)
    client.send_body(stream, b"x" * 1000, end=False)
    client.close()
    now = until(port, lambda now: now["connections"] == 1)
    assert now["gone"] == 0


def test_drain(serve, certificate):
    for secure in (False, True):
        server = serve(io_threads=2, **(certificate if secure else {}))
        port = server.port
        idle = [H1(port, tls=secure), H1(port, tls=secure)]
        assert idle[1].ask("GET", "/echo").status == 200
        idle2 = H2(port, tls=secure)
        assert idle2.ask("GET", "/echo").status == 200
        busy, busy2 = H1(port, tls=secure), H2(port, tls=secure)
        busy.send("GET /park HTTP/1.1\r\nHost: t\r\n\r\n")
        stream = busy2.start("GET", "/park")
        uploading = H1(port, tls=secure)
        uploading.send("POST /body HTTP/1.1\r\nHost: t\r\nContent-Length: 6\r\n\r\nabc")
        uploading2 = H2(port, tls=secure)
        stream2 = uploading2.start("POST", "/body", end=False)
        uploading2.send_body(stream2, b"abc", end=False)
        until(port, lambda now: now["parked"] == 2, tls=secure)
        server.terminate()
        answer = busy.answer(head_only=True)
        assert answer.status == 204 and answer.headers["connection"] == "close"
        assert busy2.wait(stream).status == 204
        for client in (*idle, busy, busy2, idle2):
            assert client.is_closed(within=2)
        assert busy2.goaway == 0
        with pytest.raises(OSError):
            connect(port)
        uploading.send("def")
        answer = uploading.answer()
        assert answer.body == b"abcdef" and answer.headers["connection"] == "close"
        time.sleep(1.2)
        uploading2.send_body(stream2, b"def")
        assert uploading2.wait(stream2).body == b"abcdef"
        assert uploading2.is_closed(within=1)
        server.finish()
        assert "drained left=0" in server.lines


def test_stop_cuts_what_is_left(serve, certificate):
    for secure in (False, True):
        server = serve(**(certificate if secure else {}))
        stuck = []
        for _ in range(3):
            stuck.append(H1(server.port, tls=secure))
            stuck[-1].send("POST /body HTTP/1.1\r\nHost: t\r\nContent-Length: 6\r\n\r\nabc")
            stuck.append(H1(server.port, tls=secure))
            stuck[-1].send("GET /big?50000000 HTTP/1.1\r\nHost: t\r\n\r\n")
            stuck.append(H2(server.port, tls=secure))
            stuck[-1].start("POST", "/body", end=False)
            stuck.append(H2(server.port, tls=secure))
            stuck[-1].h2.increment_flow_control_window(2**30)
            stream = stuck[-1].start("GET", "/big?50000000")
            stuck[-1].h2.increment_flow_control_window(2**30, stream)
            stuck[-1].flush()
        until(server.port, lambda now: now["connections"] == 13, tls=secure)
        server.finish()
        assert "drained left=12" in server.lines


def test_stop_under_load(serve):
    server = serve(io_threads=2)
    stop = threading.Event()

    def load(version):
        while not stop.is_set():
            try:
                client = H1(server.port) if version == 1 else H2(server.port)
                for _ in range(20):
                    client.ask("GET", "/echo")
                client.close()
            except (OSError, EOFError):
                pass

    threads = [threading.Thread(target=load, args=(1 + i % 2,)) for i in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    server.terminate()
    try:
        server.finish()
    finally:
        stop.set()
        for thread in threads:
            thread.join()
