# SPDX-License-Identifier: Apache-2.0
"""What lies in the embedded database: the frames of a queue's segments, opened with nothing but the format's own
description (core/wire/frame.h) and libzstd."""
import ctypes
import struct

ZSTD = ctypes.CDLL("libzstd.so.1")
ZSTD.ZSTD_decompress.restype = ctypes.c_size_t
ZSTD.ZSTD_getFrameContentSize.restype = ctypes.c_ulonglong
TRACE, SUB, SEALED = 1, 2, 4


def _open(blob):
    if blob[0] == 0:
        return blob[1:]
    size = ZSTD.ZSTD_getFrameContentSize(blob[1:], ctypes.c_size_t(len(blob) - 1))
    out = ctypes.create_string_buffer(size)
    got = ZSTD.ZSTD_decompress(out, ctypes.c_size_t(size), blob[1:], ctypes.c_size_t(len(blob) - 1))
    assert got == size, "a segment that is not whole"
    return out.raw[:size]


def _frame(body):
    flags, at = body[0], 17 + (16 if body[0] & TRACE else 0)
    for _ in range(2 if flags & SUB else 1):
        at += 2 + struct.unpack_from("<H", body, at)[0]
    return flags, body[at:]


def payloads(broker, q):
    """(sealed, stored payload) of every message, in order of partition and offset."""
    rows = broker.psql("SELECT encode(s.blob, 'hex') FROM queen.log_segments s JOIN queen.log_partitions p ON "
                       "p.id = s.partition_id JOIN queen.queues k ON k.id = p.queue_id "
                       f"WHERE k.name = '{q}' ORDER BY p.name, s.base_offset")
    found = []
    for (text,) in rows:
        raw, at = _open(bytes.fromhex(text)), 0
        while at < len(raw):
            size = struct.unpack_from("<I", raw, at)[0]
            flags, payload = _frame(raw[at + 4:at + 4 + size])
            found.append((bool(flags & SEALED), payload))
            at += 4 + size
    return found
