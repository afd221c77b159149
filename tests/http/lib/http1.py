# SPDX-License-Identifier: Apache-2.0
"""HTTP/1.1 over a plain socket: exact bytes out, a strict small parser in.

A connection is used by one thread. `start` sends a request and returns a Call; nothing is read until somebody
waits, so a test has many calls in flight without threads. Requests are never repeated behind the test's back.
"""
import select
import socket
import struct
import time

from .reply import NO_BODY, Reply

CRLF = b"\r\n"


class Gone(Exception):
    """The peer closed the connection before the answer was complete."""


def as_bytes(text):
    return text if isinstance(text, bytes) else text.encode("utf-8")


class Connection:
    def __init__(self, port, host="127.0.0.1"):
        self.port = port
        self.sock = socket.create_connection((host, port), timeout=10)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.pending = b""

    def send_raw(self, data):
        self.sock.settimeout(60)
        self.sock.sendall(data)

    def send(self, method, target, body=None, headers=()):
        lines = [as_bytes(method) + b" " + as_bytes(target) + b" HTTP/1.1", b"Host: 127.0.0.1:%d" % self.port]
        lines += [as_bytes(key) + b": " + as_bytes(value) for key, value in headers]
        names = [as_bytes(key).lower() for key, _ in headers]
        if body is not None:
            if b"content-type" not in names:
                lines.append(b"Content-Type: application/json")
            if b"content-length" not in names and b"transfer-encoding" not in names:
                lines.append(b"Content-Length: %d" % len(body))
        self.send_raw(CRLF.join(lines) + CRLF + CRLF + (body or b""))

    def _more(self, deadline):
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("no answer in time")
        self.sock.settimeout(left)
        try:
            data = self.sock.recv(1 << 18)
        except ConnectionError as error:
            raise Gone(str(error)) from None
        if not data:
            raise Gone("connection closed")
        self.pending += data

    def _line(self, deadline):
        while CRLF not in self.pending:
            self._more(deadline)
        line, self.pending = self.pending.split(CRLF, 1)
        return line

    def _take(self, size, deadline):
        chunks = [self.pending]
        have = len(self.pending)
        while have < size:
            self.pending = b""
            self._more(deadline)
            chunks.append(self.pending)
            have += len(self.pending)
        data = b"".join(chunks)
        self.pending = data[size:]
        return data[:size]

    def _chunked(self, deadline):
        body = []
        while True:
            size = int(self._line(deadline).split(b";")[0], 16)
            if size == 0:
                while self._line(deadline):
                    pass
                return b"".join(body)
            body.append(self._take(size, deadline))
            assert self._take(2, deadline) == CRLF

    def read(self, method="GET", timeout=30):
        """The next final answer on this connection; interim 1xx answers are skipped."""
        deadline = time.monotonic() + timeout
        while True:
            start = self._line(deadline)
            version, status = start.split(b" ", 2)[:2]
            assert version == b"HTTP/1.1", start
            headers = []
            while line := self._line(deadline):
                key, value = line.split(b":", 1)
                headers.append((key.decode("ascii").lower(), value.strip().decode("latin-1")))
            if not 100 <= int(status) < 200:
                break
        reply = Reply(int(status), headers, b"")
        if method == "HEAD" or reply.status in NO_BODY:
            return reply
        if reply.header("transfer-encoding") == "chunked":
            reply.body = self._chunked(deadline)
        else:
            assert reply.header("content-length") is not None, f"an answer without a length: {reply}"
            reply.body = self._take(int(reply.header("content-length")), deadline)
        return reply

    def readable(self):
        return bool(self.pending) or bool(select.select([self.sock], [], [], 0)[0])

    def close(self):
        self.sock.close()

    def reset(self):
        """Close with RST instead of FIN."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()


class Call:
    """A request that was sent and whose answer was not read yet."""

    def __init__(self, client, connection, method):
        self.client, self.connection, self.method = client, connection, method
        self.reply = None

    def ready(self):
        return self.reply is not None or self.connection.readable()

    def wait(self, timeout=30):
        if self.reply is None:
            self.reply = self.connection.read(self.method, timeout)
            self.client.give_back(self.connection, self.reply)
        return self.reply

    def abandon(self, reset=False):
        """The client vanishes: FIN, or RST when asked for."""
        if reset:
            self.connection.reset()
        else:
            self.connection.close()


class Client:
    """Keep-alive connections to one broker, as many as there are calls in flight."""

    version = "h1"

    def __init__(self, port):
        self.port = port
        self.idle = []
        self.opened = 0

    def _connection(self):
        while self.idle:
            connection = self.idle.pop()
            if not connection.readable():
                return connection
            connection.close()
        self.opened += 1
        return Connection(self.port)

    def give_back(self, connection, reply):
        if reply.header("connection") == "close" or connection.pending:
            connection.close()
        else:
            self.idle.append(connection)

    def start(self, method, target, body=None, headers=()):
        connection = self._connection()
        connection.send(method, target, body, headers)
        return Call(self, connection, method)

    def request(self, method, target, body=None, headers=(), timeout=30):
        return self.start(method, target, body, headers).wait(timeout)

    def close(self):
        while self.idle:
            self.idle.pop().close()
