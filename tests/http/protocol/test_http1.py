# SPDX-License-Identifier: Apache-2.0
"""HTTP/1: framing, strictness, limits, errors as JSON."""
import pytest
from wire import H1, stats, until


def assert_error(answer, status):
    assert answer.status == status
    assert answer.headers["content-type"] == "application/json"
    assert list(answer.json()) == ["error"] and answer.json()["error"]
    assert answer.headers["connection"] == "close"
    assert answer.headers["server"] == "queend"


def test_request_and_reply(serve):
    client = H1(serve().port)
    answer = client.ask("PATCH", "/echo?a=%2Fb&c", "X-Test: \t v v \r\n")
    assert answer.status == 200 and answer.headers["server"] == "queend" and answer.headers["x-host"] == "fake"
    assert "connection" not in answer.headers
    got = answer.json()
    assert (got["method"], got["path"], got["query"]) == ("PATCH", "/echo", "a=%2Fb&c")
    assert (got["test"], got["host"], got["version"], got["tls"]) == ("v v", "t", 0x101, False)


def test_path_stays_raw(serve):
    client = H1(serve().port)
    answer = client.ask("GET", "/a%2Fb/../%63")
    assert answer.status == 404
    assert client.ask("GET", "http://any.host:1/echo?x=1").json()["path"] == "/echo"


def test_keep_alive_and_pipelining(serve):
    client = H1(serve().port)
    one = b"POST /body HTTP/1.1\r\nHost: t\r\nContent-Length: 3\r\n\r\n"
    client.send(one + b"abc" + one + b"def" + b"GET /slow?50 HTTP/1.1\r\nHost: t\r\n\r\n" + one + b"ghi")
    assert [client.answer().body for _ in range(4)] == [b"abc", b"def", b'{"waited":true}', b"ghi"]


def test_much_pipelined_behind_a_waiting_call(serve):
    client = H1(serve().port)
    body = b"x" * 1_000_000
    client.send(b"GET /slow?200 HTTP/1.1\r\nHost: t\r\n\r\n")
    client.send(b"POST /body HTTP/1.1\r\nHost: t\r\nContent-Length: 1000000\r\n\r\n" + body)
    assert client.answer().json() == {"waited": True}
    assert client.answer().body == body


def test_http10(serve):
    port = serve().port
    client = H1(port)
    client.send("GET /echo HTTP/1.0\r\n\r\n")
    answer = client.answer()
    assert answer.status == 200 and answer.headers["connection"] == "close" and client.is_closed()
    client = H1(port)
    client.send("GET /echo HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
    assert client.answer().headers["connection"] == "keep-alive"
    assert client.ask("GET", "/echo").status == 200


def test_head_and_204(serve):
    client = H1(serve().port)
    answer = client.ask("HEAD", "/big?12345")
    assert answer.status == 200 and answer.headers["content-length"] == "12345"
    assert client.ask("GET", "/echo").status == 200
    answer = client.ask("GET", "/empty")
    assert answer.status == 204
    assert not {"content-length", "content-type", "transfer-encoding", "connection"} & set(answer.headers)
    assert client.ask("GET", "/echo").status == 200


def test_connection_close(serve):
    client = H1(serve().port)
    answer = client.ask("GET", "/echo", "Connection: close\r\n")
    assert answer.headers["connection"] == "close" and client.is_closed()


@pytest.mark.parametrize("size", [0, 1, 4095, 65536, 65537, 3_000_000])
def test_bodies(serve, size):
    client = H1(serve().port)
    body = bytes(i % 251 for i in range(size))
    assert client.ask("POST", "/body", f"Content-Length: {size}\r\n", body).body == body
    chunks = b"".join(b"%x;e=1\r\n%b\r\n" % (len(body[i:i + 70000]), body[i:i + 70000]) for i in range(0, size, 70000))
    answer = client.ask("POST", "/body", "Transfer-Encoding: Chunked\r\n", chunks + b"0\r\nT: x\r\n\r\n")
    assert answer.body == body
    assert client.ask("GET", "/echo").status == 200


def test_byte_by_byte(serve):
    client = H1(serve().port)
    for byte in b"POST /body HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n":
        client.send(bytes([byte]))
    assert client.answer().body == b"abc"


def test_expect_continue(serve):
    client = H1(serve(max_body_bytes=1000).port)
    client.send("POST /body HTTP/1.1\r\nHost: t\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n")
    assert client.answer(head_only=True).status == 100
    client.send("abc")
    assert client.answer().body == b"abc"
    # Nobody waits for a 100 when the body came along.
    assert client.ask("POST", "/body", "Content-Length: 3\r\nExpect: 100-continue\r\n", b"abc").status == 200
    client.send("POST /body HTTP/1.1\r\nHost: t\r\nContent-Length: 1001\r\nExpect: 100-continue\r\n\r\n")
    assert_error(client.answer(), 413)
    assert client.is_closed()


SMUGGLED = "GET /status?500 HTTP/1.1\r\nHost: t\r\n\r\n"
BAD = {
    "two lengths": f"POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 0\r\nContent-Length: 38\r\n\r\n{SMUGGLED}",
    "same length twice": "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx",
    "length and chunked": "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "bad length and chunked": "POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\nContent-Length: blah\r\n\r\n",
    "chunked twice": "POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
    "other coding": "POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
    "signed length": "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: +1\r\n\r\n",
    "bare LF": "GET /echo HTTP/1.1\nHost: t\n\n",
    "one bare LF": "GET /echo HTTP/1.1\r\nHost: t\nX: y\r\n\r\n",
    "no host": "GET /echo HTTP/1.1\r\n\r\n",
    "two hosts": "GET /echo HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
    "folded": "GET /echo HTTP/1.1\r\nHost: t\r\nX: a\r\n b\r\n\r\n",
    "space before colon": "GET /echo HTTP/1.1\r\nHost: t\r\nX : a\r\n\r\n",
    "NUL": "GET /echo HTTP/1.1\r\nHost: t\r\nX: a\0b\r\n\r\n",
    "star": "OPTIONS * HTTP/1.1\r\nHost: t\r\n\r\n",
    "no slash": "GET echo HTTP/1.1\r\nHost: t\r\n\r\n",
    "authority form": "CONNECT t:80 HTTP/1.1\r\nHost: t\r\n\r\n",
    "empty target": "GET  HTTP/1.1\r\nHost: t\r\n\r\n",
    "TLS hello": "\x16\x03\x01\x02\0",
    "chunk LF": "POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n1\nx\r\n0\r\n\r\n",
    "chunk size": "POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n0x1\r\nx\r\n0\r\n\r\n",
    "negative chunk": "POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\nx\r\n0\r\n\r\n",
    "huge chunk": "POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffffff\r\n",
}


@pytest.mark.parametrize("name", BAD)
def test_strictness(serve, name):
    port = serve().port
    client = H1(port)
    client.send(BAD[name])
    assert_error(client.answer(), 400)
    assert client.is_closed()
    assert stats(port)["calls"] == 1  # this one


def test_other_refusals(serve):
    port = serve().port
    for status, head in ((417, "GET /echo HTTP/1.1\r\nHost: t\r\nExpect: foo\r\n\r\n"),
                         (505, "GET /echo HTTP/2.0\r\nHost: t\r\n\r\n"),
                         (431, "GET /echo HTTP/1.1\r\nHost: t\r\n" + "X: y\r\n" * 101 + "\r\n"),
                         (431, "GET /echo HTTP/1.1\r\nHost: t\r\nX: " + "y" * 70000)):
        client = H1(port)
        client.send(head)
        assert_error(client.answer(), status)
        assert client.is_closed()
    assert stats(port)["calls"] == 1


def test_body_limit(serve):
    port = serve(max_body_bytes=1000).port
    client = H1(port)
    assert client.ask("POST", "/body", "Content-Length: 1000\r\n", b"x" * 1000).status == 200
    assert client.ask("POST", "/body", "Transfer-Encoding: chunked\r\n", b"3e8\r\n" + b"x" * 1000 + b"\r\n0\r\n\r\n").status == 200
    assert_error(client.ask("POST", "/body", "Content-Length: 1001\r\n"), 413)  # before any byte of it
    assert client.is_closed()
    client = H1(port)
    client.send("POST /body HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n" + "x" * 1001)
    assert_error(client.answer(), 413)
    client = H1(port)  # everything is sent before the answer is read: it must not be lost to a reset
    client.send(b"POST /body HTTP/1.1\r\nHost: t\r\nContent-Length: 5000000\r\n\r\n" + b"x" * 5_000_000)
    assert_error(client.answer(), 413)


def test_default_body_limit(serve):
    port = serve().port
    answer = H1(port).ask("POST", "/echo", "Content-Length: 67108864\r\n", b"x" * 67108864)
    assert answer.json()["body"] == 67108864
    assert_error(H1(port).ask("POST", "/echo", "Content-Length: 67108865\r\n"), 413)


def test_reply_bodies_are_given_back(serve):
    port = serve().port
    client = H1(port)
    client.send("GET /big?50000000 HTTP/1.1\r\nHost: t\r\n\r\n")
    client.sock.recv(1000)
    client.close()  # in the middle of the reply
    until(port, lambda now: now["calls"] - 1 == now["freed"] and now["connections"] == 1)
