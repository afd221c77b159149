# SPDX-License-Identifier: Apache-2.0
"""HTTP/2 with prior knowledge over a plain socket, many streams on one connection, no threads.

Whoever waits for a stream reads the socket for all of them. Used by one thread. The interface is the one of http1.
GOAWAY frames are taken out before the library sees them: it would refuse the answers that a graceful end still owes.
"""
import select
import socket
import struct
import time

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import h2.settings

from .http1 import Gone, as_bytes
from .reply import Reply

GOAWAY = 7
WINDOW = 1 << 24
STREAMS = 80


class Stream:
    def __init__(self):
        self.headers = None
        self.chunks = []
        self.ended = False
        self.reset = None


class Connection:
    def __init__(self, port, host="127.0.0.1"):
        self.port = port
        self.sock = socket.create_connection((host, port), timeout=10)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        config = h2.config.H2Configuration(client_side=True, header_encoding="latin-1",
                                           validate_outbound_headers=False, normalize_outbound_headers=False)
        self.h2 = h2.connection.H2Connection(config=config)
        self.h2.initiate_connection()
        self.h2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: WINDOW,
                                 h2.settings.SettingCodes.ENABLE_PUSH: 0})
        self.h2.increment_flow_control_window(WINDOW)
        self.streams = {}
        self.arrived = b""
        self.last = None
        self.closed = False
        self._flush()

    def _flush(self):
        data = self.h2.data_to_send()
        if data:
            self.sock.settimeout(60)
            self.sock.sendall(data)

    def _without_goaway(self, data):
        """Whole frames of what has arrived, less the GOAWAYs; `last` is the last stream the peer still answers."""
        self.arrived += data
        frames, position = [], 0
        while len(self.arrived) - position >= 9:
            end = position + 9 + int.from_bytes(self.arrived[position:position + 3], "big")
            if end > len(self.arrived):
                break
            if self.arrived[position + 3] == GOAWAY:
                self.last = int.from_bytes(self.arrived[position + 9:position + 13], "big") & 0x7fffffff
            else:
                frames.append(self.arrived[position:end])
            position = end
        self.arrived = self.arrived[position:]
        return b"".join(frames)

    def _event(self, event):
        stream = self.streams.get(getattr(event, "stream_id", None))
        if stream is None:
            return
        if isinstance(event, h2.events.ResponseReceived):
            stream.headers = event.headers
        elif isinstance(event, h2.events.DataReceived):
            stream.chunks.append(event.data)
            if event.flow_controlled_length:
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.StreamEnded):
            stream.ended = True
        elif isinstance(event, h2.events.StreamReset):
            stream.reset = event.error_code

    def pump(self, timeout):
        """Read what has arrived, waiting at most `timeout` seconds for the first byte."""
        if not select.select([self.sock], [], [], max(timeout, 0))[0]:
            return False
        try:
            data = self.sock.recv(1 << 18)
        except ConnectionError:
            data = b""
        if not data:
            self.closed = True
            return False
        for event in self.h2.receive_data(self._without_goaway(data)):
            self._event(event)
        self._flush()
        return True

    def send(self, method, target, body=None, headers=()):
        number = self.h2.get_next_available_stream_id()
        fields = [(b":method", as_bytes(method)), (b":scheme", b"http"),
                  (b":authority", b"127.0.0.1:%d" % self.port), (b":path", as_bytes(target))]
        given = [(as_bytes(key).lower(), as_bytes(value)) for key, value in headers]
        names = [key for key, _ in given]
        if body is not None and b"content-type" not in names:
            given.append((b"content-type", b"application/json"))
        if body is not None and b"content-length" not in names:
            given.append((b"content-length", b"%d" % len(body)))
        stream = self.streams[number] = Stream()
        self.h2.send_headers(number, fields + given, end_stream=not body)
        self._flush()
        if body:
            self._send_body(number, stream, body)
        return number

    def _send_body(self, number, stream, body):
        deadline = time.monotonic() + 60
        sent = 0
        while sent < len(body) and not (stream.ended or stream.reset is not None or self.closed):
            room = min(self.h2.local_flow_control_window(number), self.h2.max_outbound_frame_size)
            if room <= 0:
                assert time.monotonic() < deadline, "the peer's flow control window never opened"
                self.pump(1)
                continue
            piece = body[sent:sent + room]
            sent += len(piece)
            self.h2.send_data(number, piece, end_stream=sent == len(body))
            self._flush()
            self.pump(0)

    def done(self, number):
        stream = self.streams[number]
        refused = self.last is not None and number > self.last
        return stream.ended or stream.reset is not None or self.closed or refused

    def read(self, number, timeout):
        deadline = time.monotonic() + timeout
        stream = self.streams[number]
        while not self.done(number):
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError("no answer in time")
            self.pump(left)
        del self.streams[number]
        if stream.headers is None or not stream.ended:
            raise Gone(f"stream {number} ended without an answer (reset {stream.reset}, closed {self.closed})")
        status = int(dict(stream.headers)[":status"])
        fields = [(key, value) for key, value in stream.headers if not key.startswith(":")]
        return Reply(status, fields, b"".join(stream.chunks))

    def reset_stream(self, number):
        if not self.done(number):
            self.h2.reset_stream(number, error_code=8)
            self._flush()
        self.streams.pop(number, None)

    def close(self):
        self.closed = True
        self.sock.close()

    def reset(self):
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()


class Call:
    def __init__(self, connection, number):
        self.connection, self.number = connection, number
        self.reply = None

    def ready(self):
        if self.reply is not None:
            return True
        while not self.connection.done(self.number) and self.connection.pump(0):
            pass
        return self.connection.done(self.number)

    def wait(self, timeout=30):
        if self.reply is None:
            self.reply = self.connection.read(self.number, timeout)
        return self.reply

    def abandon(self, reset=False):
        """The client vanishes: the whole connection with RST when asked for, else only this stream."""
        if reset:
            self.connection.reset()
        elif not self.connection.closed:
            self.connection.reset_stream(self.number)


class Client:
    version = "h2"

    def __init__(self, port):
        self.port = port
        self.connections = []
        self.opened = 0

    def _connection(self):
        for connection in self.connections:
            while not connection.closed and connection.pump(0):
                pass
        self.connections = [connection for connection in self.connections
                            if not connection.closed and connection.last is None]
        for connection in self.connections:
            if len(connection.streams) < STREAMS:
                return connection
        self.opened += 1
        connection = Connection(self.port)
        self.connections.append(connection)
        return connection

    def start(self, method, target, body=None, headers=()):
        connection = self._connection()
        return Call(connection, connection.send(method, target, body, headers))

    def request(self, method, target, body=None, headers=(), timeout=30):
        return self.start(method, target, body, headers).wait(timeout)

    def close(self):
        for connection in self.connections:
            connection.close()
        self.connections = []
