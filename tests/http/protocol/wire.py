# SPDX-License-Identifier: Apache-2.0
"""Raw HTTP/1 and HTTP/2 clients that send exactly what a test says."""
import json
import socket
import ssl
import struct
import time

import h2.config
import h2.connection
import h2.events


def connect(port, tls=False, host="127.0.0.1", alpn=None):
    sock = socket.create_connection((host, port), timeout=20)
    if not tls:
        return sock
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if alpn:
        context.set_alpn_protocols(alpn)
    return context.wrap_socket(sock)


def abort(sock):
    """Closes with a reset."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return json.loads(self.body)


class H1:
    def __init__(self, port, **how):
        self.sock = connect(port, **how)
        self.pending = b""

    def send(self, data):
        self.sock.sendall(data if isinstance(data, bytes) else data.encode("latin-1"))

    def _more(self):
        data = self.sock.recv(65536)
        if not data:
            raise EOFError(self.pending)
        self.pending += data

    def answer(self, head_only=False):
        while b"\r\n\r\n" not in self.pending:
            self._more()
        head, self.pending = self.pending.split(b"\r\n\r\n", 1)
        lines = head.decode("latin-1").split("\r\n")
        headers = {}
        for line in lines[1:]:
            name, value = line.split(": ", 1)
            assert name.lower() not in headers, line
            headers[name.lower()] = value
        length = 0 if head_only else int(headers.get("content-length", 0))
        while len(self.pending) < length:
            self._more()
        body, self.pending = self.pending[:length], self.pending[length:]
        return Answer(int(lines[0].split()[1]), headers, body)

    def ask(self, method, target, headers="", body=b"", **how):
        self.send(f"{method} {target} HTTP/1.1\r\nHost: t\r\n{headers}\r\n".encode() + body)
        return self.answer(head_only=method == "HEAD", **how)

    def is_closed(self, within=5.0):
        """Waits for the server's close; bytes before it are a failure."""
        self.sock.settimeout(within)
        try:
            assert self.pending == b"" and self.sock.recv(1000) == b""
        except (TimeoutError, socket.timeout):
            return False
        except ConnectionResetError:
            pass
        return True

    def close(self):
        self.sock.close()


class H2:
    def __init__(self, port, tls=False, sock=None):
        self.sock = sock or connect(port, tls=tls, alpn=["h2"] if tls else None)
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8",
                                                                       validate_outbound_headers=False,
                                                                       normalize_outbound_headers=False))
        self.answers = {}
        self.resets = {}
        self.done = set()
        self.goaway = None
        self.is_eof = False
        self.input = b""
        if sock is None:
            self.h2.initiate_connection()
            self.flush()

    def flush(self):
        self.sock.sendall(self.h2.data_to_send())

    def start(self, method, path, end=True, headers=()):
        stream = self.h2.get_next_available_stream_id()
        self.h2.send_headers(stream, [(":method", method), (":scheme", "http"), (":authority", "t"), (":path", path),
                                      *headers], end_stream=end)
        self.flush()
        return stream

    def pump(self, timeout=20.0):
        """Handles one read. False when the connection has ended."""
        self.sock.settimeout(timeout)
        try:
            data = self.sock.recv(65536)
        except (ConnectionResetError, BrokenPipeError):
            data = b""
        if not data:
            self.is_eof = True
            return False
        self.input += data
        while len(self.input) >= 9 and len(self.input) >= 9 + int.from_bytes(self.input[:3], "big"):
            size = 9 + int.from_bytes(self.input[:3], "big")
            frame, self.input = self.input[:size], self.input[size:]
            self._take(frame)
        try:
            self.flush()
        except (ConnectionResetError, BrokenPipeError):
            pass
        return True

    def _take(self, frame):
        for event in self.h2.receive_data(frame):
            stream = getattr(event, "stream_id", None)
            if isinstance(event, h2.events.ResponseReceived):
                self.answers[stream] = Answer(int(dict(event.headers)[":status"]), dict(event.headers), b"")
            elif isinstance(event, h2.events.DataReceived):
                self.answers[stream].body += event.data
                self.h2.acknowledge_received_data(event.flow_controlled_length, stream)
            elif isinstance(event, h2.events.StreamEnded):
                self.done.add(stream)
            elif isinstance(event, h2.events.StreamReset):
                self.resets[stream] = event.error_code
            elif isinstance(event, h2.events.ConnectionTerminated):
                self.goaway = event.error_code
                # The library stops listening here; open streams still get their answers.
                self.h2.state_machine.state = h2.connection.ConnectionState.CLIENT_OPEN

    def wait(self, stream):
        while stream not in self.done and stream not in self.resets:
            if not self.pump():
                raise EOFError
        assert stream not in self.resets, self.resets
        return self.answers[stream]

    def ask(self, method, path, body=None, headers=()):
        stream = self.start(method, path, end=body is None, headers=headers)
        if body is not None:
            self.send_body(stream, body)
        return self.wait(stream)

    def send_body(self, stream, body, end=True):
        at = 0
        while at < len(body) and stream not in self.resets:
            room = min(self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size, len(body) - at)
            if room == 0:
                self.pump()
                continue
            self.h2.send_data(stream, body[at:at + room], end_stream=end and at + room == len(body))
            self.flush()
            at += room
        if not body and end:
            self.h2.end_stream(stream)
            self.flush()

    def is_closed(self, within=5.0):
        end = time.monotonic() + within
        while not self.is_eof and time.monotonic() < end:
            try:
                self.pump(timeout=max(0.01, end - time.monotonic()))
            except (TimeoutError, socket.timeout):
                break
        return self.is_eof

    def close(self):
        self.sock.close()


def stats(port, tls=False):
    client = H1(port, tls=tls)
    answer = client.ask("GET", "/stats", "Connection: close\r\n").json()
    client.close()
    return answer


def until(port, check, within=8.0, tls=False):
    """Polls the counters until check(counters) holds; returns them, fails when the time is over."""
    end = time.monotonic() + within
    while True:
        now = stats(port, tls)
        if check(now):
            return now
        assert time.monotonic() < end, now
        time.sleep(0.02)
