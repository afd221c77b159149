# SPDX-License-Identifier: Apache-2.0
"""encryptionEnabled: what is stored, what is read, what a missing or malformed key does (decisions 23)."""
import base64
import ctypes
import ctypes.util
import json
import re

import pytest

from lib.api import tids
from scene import SEAL_KEY, partition_of

SECRET = "the payload nobody may read"
ENVELOPE = re.compile(rb'\{"encrypted":"[A-Za-z0-9+/]+=*","iv":"[A-Za-z0-9+/]+=*","authTag":"[A-Za-z0-9+/]+=*"\}')
SET_TAG = 0x11


def blobs(api, queue):
    """The stored segments of a queue. One small message is stored uncompressed, so its bytes can be searched."""
    return [bytes.fromhex(row[0]) for row in api.broker.psql(
        f"SELECT encode(blob, 'hex') FROM queen.log_segments WHERE partition_id IN {partition_of(queue)} "
        "ORDER BY base_offset")]


def forms(api, queue):
    """"sealed" or "plain" for each stored segment; nothing else is possible."""
    found = []
    for blob in blobs(api, queue):
        sealed, plain = ENVELOPE.search(blob) is not None, SECRET.encode() in blob
        assert sealed != plain, blob
        found.append("sealed" if sealed else "plain")
    return found


def opened(envelope, key):
    """The plain text of an envelope by AES-256-GCM, or None when its tag does not fit."""
    crypto = ctypes.CDLL(ctypes.util.find_library("crypto"))
    crypto.EVP_CIPHER_CTX_new.restype = crypto.EVP_aes_256_gcm.restype = ctypes.c_void_p
    parts = {name: base64.b64decode(value, validate=True) for name, value in json.loads(envelope).items()}
    assert (len(parts["iv"]), len(parts["authTag"])) == (16, 16)
    context, size = ctypes.c_void_p(crypto.EVP_CIPHER_CTX_new()), ctypes.c_int()
    plain = ctypes.create_string_buffer(len(parts["encrypted"]) + 32)
    crypto.EVP_DecryptInit_ex(context, ctypes.c_void_p(crypto.EVP_aes_256_gcm()), None, key, parts["iv"][:12])
    crypto.EVP_DecryptUpdate(context, plain, ctypes.byref(size), parts["encrypted"], len(parts["encrypted"]))
    crypto.EVP_CIPHER_CTX_ctrl(context, SET_TAG, 16, parts["authTag"])
    fits = crypto.EVP_DecryptFinal_ex(context, ctypes.create_string_buffer(32), ctypes.byref(ctypes.c_int()))
    crypto.EVP_CIPHER_CTX_free(context)
    return plain.raw[:size.value] if fits == 1 else None


def push(api, queue, tid):
    assert api.push({"queue": queue, "transactionId": tid, "payload": SECRET})[0]["status"] == "queued"


def test_by_default_payloads_are_stored_as_they_are(pg_furnished, q):
    """Off, also on a broker that has a key."""
    api = pg_furnished
    assert api.configure(q)["options"]["encryptionEnabled"] is False
    push(api, q, "m")
    assert forms(api, q) == ["plain"]


def test_payloads_are_stored_as_an_aes_256_gcm_envelope(pg_furnished, q):
    """No plain text in the row; with the broker's key, and no other, the envelope opens to the very bytes pushed."""
    api = pg_furnished
    assert api.configure(q, encryptionEnabled=True)["options"]["encryptionEnabled"] is True
    text = b'{ "secret": "%s", "n": 1e2 }' % SECRET.encode()
    assert api.push_reply(b'{"items":[{"queue":"%s","payload":%s}]}' % (q.encode(), text)).status == 201
    blob = blobs(api, q)[0]
    assert SECRET.encode() not in blob
    envelope = ENVELOPE.search(blob).group()
    assert opened(envelope, bytes.fromhex(SEAL_KEY)) == text
    assert opened(envelope, bytes.fromhex(SEAL_KEY)[::-1]) is None
    assert text in api.pop_reply(q).body


def test_consumers_read_plain_payloads(furnished, q):
    """A consumer of an encrypting queue notices nothing."""
    furnished.configure(q, encryptionEnabled=True)
    push(furnished, q, "m")
    message = furnished.pop(q)["messages"][0]
    assert (message["data"], message["transactionId"]) == (SECRET, "m")


def test_changing_the_flag_is_not_retroactive_in_either_direction(pg_furnished, q):
    """What is stored stays as it was stored; only what is pushed afterwards follows the flag, at once."""
    api = pg_furnished
    push(api, q, "plain before")
    api.configure(q, encryptionEnabled=True)
    assert forms(api, q) == ["plain"]
    push(api, q, "sealed")
    assert forms(api, q) == ["plain", "sealed"]
    before = blobs(api, q)
    api.configure(q, encryptionEnabled=False)
    assert blobs(api, q) == before
    push(api, q, "plain after")
    assert forms(api, q) == ["plain", "sealed", "plain"]


@pytest.mark.parametrize("flag", [True, False])
def test_a_queue_can_hold_both_forms_and_both_read_back(furnished, q, flag):
    """How a message is read is decided by its stored form, not by the flag at that time."""
    api = furnished
    for number in range(4):
        api.configure(q, encryptionEnabled=number % 2 == 1)
        push(api, q, f"m{number}")
    api.configure(q, encryptionEnabled=flag)
    popped = api.pop(q)
    assert tids(popped) == ["m0", "m1", "m2", "m3"]
    assert [message["data"] for message in popped["messages"]] == [SECRET] * 4


def test_the_broker_that_served_the_configure_applies_it_at_once(pg_furnished, q):
    """The very next push is sealed, the one after switching off is not, ten times over (decisions 23)."""
    api = pg_furnished
    for number in range(10):
        api.configure(q, encryptionEnabled=True)
        push(api, q, f"on {number}")
        api.configure(q, encryptionEnabled=False)
        push(api, q, f"off {number}")
    assert forms(api, q) == ["sealed", "plain"] * 10


def test_without_a_key_encryption_cannot_be_configured(api, q):
    """400, and neither a queue is made nor one changed (decisions 23)."""
    assert api.configure_reply({"queue": q, "options": {"encryptionEnabled": True}}).status == 400
    assert api.queue_reply(q).status == 404
    api.configure(q, leaseTime=77)
    assert api.configure_reply({"queue": q, "options": {"encryptionEnabled": True, "leaseTime": 9}}).status == 400
    assert api.configure(q)["options"]["encryptionEnabled"] is False


@pytest.mark.parametrize("key", ["00", "0" * 63, "0" * 65, "g" * 64, "0" * 62 + "0x"])
def test_a_key_that_is_not_64_hex_characters_stops_the_start(own_broker, key):
    """With an error that names the variable (decisions 23)."""
    with pytest.raises(AssertionError, match="(?s)ended with [1-9].*QUEEN_ENCRYPTION_KEY"):
        own_broker("memory", QUEEN_ENCRYPTION_KEY=key)


def test_a_push_to_an_encrypting_queue_without_a_key_fails(pg_api, q):
    """The item is answered `failed` and nothing is stored, least of all in plain (decisions 23)."""
    api = pg_api
    api.configure(q)
    api.broker.psql(f"UPDATE queen.queues SET encryption_enabled = true WHERE name = '{q}'")
    assert api.push({"queue": q, "payload": SECRET})[0]["status"] == "failed"
    assert api.queue(q)["totals"]["total"] == 0
    assert api.push({"queue": q + "x", "payload": SECRET})[0]["status"] == "queued"
