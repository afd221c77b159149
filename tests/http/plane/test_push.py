# SPDX-License-Identifier: Apache-2.0
"""POST /push: the result array, the whole-body refusals, and payload bytes that come back as they went in."""
import json
import re
import uuid

import pytest

from lib.api import pop_path

RESULT_KEYS = {"index", "message_id", "transaction_id", "queueName", "status"}


def raw_item(q, payload, extra=""):
    return b'{"items":[{"queue":"%s",%s"payload":%s}]}' % (q.encode(), extra.encode(), payload)


def assert_nothing_stored(api, q):
    assert api.queue_reply(q).status == 404, "a refused body left a queue behind"


def test_result_shape(api, q):
    results = api.push({"queue": q, "transactionId": "r-7", "payload": {"kwh": 4.2}}, {"queue": q, "payload": [1]})
    for index, result in enumerate(results):
        assert set(result) == RESULT_KEYS
        assert result["index"] == index and type(result["index"]) is int
        assert uuid.UUID(result["message_id"]).version == 7
        assert (result["queueName"], result["status"]) == (q, "queued")
    assert results[0]["transaction_id"] == "r-7"
    assert results[1]["transaction_id"] == results[1]["message_id"]


def test_no_items(api):
    reply = api.push_reply({"items": []})
    assert (reply.status, reply.body) == (201, b"[]")


def test_a_hundred_items_without_ids(api, q):
    results = api.push(*[{"queue": q, "payload": number} for number in range(100)])
    ids = [result["message_id"] for result in results]
    assert len(set(ids)) == 100
    messages = api.pop(q)["messages"]
    assert [message["data"] for message in messages] == list(range(100))
    assert [message["id"] for message in messages] == ids
    assert [message["transactionId"] for message in messages] == ids
    assert ids == sorted(ids), "message ids sort in the order of their offsets"


PAYLOADS = [
    b"null", b'""', b"0", b"false", b"true", b"[]", b"{}", b"-0", b"1e2", b"1.10", b"0.1", b"1E+400",
    b"123456789012345678901234567890.000000000000000000001", b'"a\\/b\\u00e9\xc3\xa9"',
    b'"\\u0000"', b'{"a":"x\\u0000y"}',
    b'{"s":"\\ud83d"}', b'{"s":"\\ude00\\ud83d"}', b'"\\ud83d\\ude00"', b'"\\u001f\\b\\f\\n\\r\\t\\"\\\\"', b'"\x7f"',
    b'{ "z":0.1,"y":1e2,"x":1.10,"w":-0,"v":1.0,"s":"a\\/b\\u00e9","z":0.1 , "n":[1 , 2]}',
    b'{\n\t"tabs" :\r\n [ 1,2 , 3 ]\n}', b'{"items":[{"queue":"fake","payload":1}]}', b'"]}],"', b'{"":{"":[[],{}]}}',
]


def test_payload_bytes_come_back_exactly(api, q):
    for payload in PAYLOADS:
        assert api.push_reply(raw_item(q, payload)).status == 201, payload
    reply = api.pop_reply(q, batch=len(PAYLOADS), autoAck=True)
    position = 0
    for payload in PAYLOADS:
        found = re.compile(rb'"data"\s*:\s*' + re.escape(payload) + rb"\s*[,}]").search(reply.body, position)
        assert found, f"{payload!r} is not in {reply.body[position:position + 400]!r}"
        position = found.end()
    assert len(reply.json["messages"]) == len(PAYLOADS)


def test_payloads_of_one_body_keep_their_bytes(api, q):
    items = b",".join(b'{"payload": %s ,"queue":"%s"}' % (payload, q.encode()) for payload in PAYLOADS)
    assert api.push_reply(b' {"items" : [' + items + b"] }\n").status == 201
    body = api.pop_reply(q, batch=100).body
    for payload in PAYLOADS:
        assert re.search(rb'"data"\s*:\s*' + re.escape(payload) + rb"\s*[,}]", body), payload


@pytest.mark.parametrize("deep", [b"[" * 2000 + b"]" * 2000, b"[" * 10000 + b"]" * 10000,
                                  b'{"a":' * 9999 + b"[]" + b"}" * 9999], ids=["2000", "10000", "objects"])
def test_deep_payloads_come_back_exactly(api, q, deep):
    assert api.push_reply(raw_item(q, deep)).status == 201
    reply = api.client.request("GET", pop_path(q))
    assert reply.status == 200 and deep in reply.body


@pytest.mark.parametrize("deep", [b"[" * 100000 + b"]" * 100000, b'{"a":' * 1000000, b"[" * 1000000])
def test_depth_bombs_do_not_hurt(api, q, deep):
    status = api.push_reply(raw_item(q, deep)).status
    assert status in (201, 400)
    if status == 201:
        assert deep in api.client.request("GET", pop_path(q)).body
    for path, body in (("/api/v1/ack", b'{"transactionId":"t","partitionId":"p","error":' + deep + b"}"),
                       ("/api/v1/configure", b'{"queue":"x","options":' + deep + b"}")):
        assert api.call("POST", path, body).status in (200, 400)
    assert api.call("GET", "/status").status == 200


def test_a_megabyte_payload(api, q):
    text = "0123456789abcdef" * 65536
    api.push({"queue": q, "payload": {"text": text}}, {"queue": q, "payload": None}, {"queue": q, "payload": {}})
    assert [message["data"] for message in api.pop(q)["messages"]] == [{"text": text}, None, {}]


def test_escapes_in_names_are_decoded(api, q):
    body = b'{"items":[{"queue":"%s","partition":"2026\\/07\\/BK-11","transactionId":"Bed\\u0026Breakfast-771",' \
           b'"payload":1},{"queu\\u0065":"%s","partition":"say \\"hi\\" \\\\ x","transactionId":"t\\"2","payload":2}]}'
    reply = api.push_reply(body % (q.encode(), q.encode()))
    assert reply.status == 201
    assert [result["transaction_id"] for result in reply.json] == ["Bed&Breakfast-771", 't"2']
    assert [result["status"] for result in reply.json] == ["queued", "queued"]
    for lane, tid in (("2026/07/BK-11", "Bed&Breakfast-771"), ('say "hi" \\ x', 't"2')):
        popped = api.pop(q, lane)
        assert (popped["partition"], popped["messages"][0]["transactionId"]) == (lane, tid)
    again = api.push({"queue": q, "partition": "2026/07/BK-11", "transactionId": "Bed&Breakfast-771", "payload": 1})
    assert again[0]["status"] == "duplicate"


BAD_BODIES = [
    b"", b"{", b"null", b"[]", b"7", b'"items"', b"{}", b'{"items":null}', b'{"items":{}}',
    b'{"items":"x\\"y"}', b'{"items":7}',
    b'{"items":[7]}', b'{"items":[null]}', b'{"items":[[]]}', b'{"items":["x"]}', b'{"items":[]} x',
    b'{"items":[]}{"items":[]}',
    b'{"items":[],}', b'\xef\xbb\xbf{"items":[]}', '{"items":[]}'.encode("utf-16"), b'{"items":[],"items":[]}',
]
BAD_ITEMS = [
    b'"payload":1', b'"queue":null,"payload":1', b'"queue":7,"payload":1', b'"queue":["Q"],"payload":1', b'"queue":"Q"',
    b'"queue":"Q","data":1', b'"queue":"Q","payload":', b'"queue":"Q","partition":7,"payload":1',
    b'"queue":"Q","partition":{},"payload":1', b'"queue":"Q","transactionId":7,"payload":1',
    b'"queue":"Q","transactionId":true,"payload":1', b'"queue":"Q","queue":"Q","payload":1',
    b'"queue":"Q","payload":1,"payload":2', b'"queue":"Q","partition":"a","partition":"a","payload":1',
    b'"queue":"Q","transactionId":"a","transactionId":"a","payload":1', b'"queue":"Q","payload":NaN',
    b'"queue":"Q","payload":{"v":-Infinity}', b'"queue":"Q","payload":1.', b'"queue":"Q","payload":.5',
    b'"queue":"Q","payload":+1', b'"queue":"Q","payload":0x10', b"\"queue\":\"Q\",\"payload\":'a'",
    b'"queue":"Q","payload":01', b'"queue":"Q","payload":1e', b'"queue":"Q","payload":tru',
    b'"queue":"Q","payload":[1,]',
    b'"queue":"Q","payload":{"a"}', b'"queue":"Q","payload":"\x01"', b'"queue":"Q","payload":"a\nb"',
    b'"queue":"Q","payload":"\\x"', b'"queue":"Q","payload":"\\u12g4"', b'"queue":"Q","payload":"\xff"',
    b'"queue":"Q","payload":"\xc0\xaf"', b'"queue":"Q","payload":"\xed\xa0\x80"', b'"queue":"Q","payload":"\xe2\x82"',
    b'"queue":"Q","payload":"\xe9"', b'"queue":"\xff","payload":1', b'"queue":"Q","partition":"\xe9","payload":1',
    b'"queue":"Q","transactionId":"\xf5\x80\x80\x80","payload":1', b'"queue":"Q","payload":1,"x":"\xff"',
]


@pytest.mark.parametrize("body", BAD_BODIES, ids=range(len(BAD_BODIES)))
def test_a_bad_body_is_refused(api, body):
    reply = api.push_reply(body)
    assert reply.status == 400, reply
    assert reply.error.startswith("bad body: ")


def test_a_bad_item_refuses_the_whole_body(api, q):
    for bad in BAD_ITEMS:
        body = b'{"items":[{"queue":"Q","payload":1},{%s}]}' % bad
        reply = api.push_reply(body.replace(b"Q", q.encode()))
        assert reply.status == 400, (bad, reply)
        assert reply.error.startswith("bad body: "), (bad, reply)
    assert_nothing_stored(api, q)


NAME_FAULTS = [
    ("queue", "x" * 256), ("queue", "é" * 256), ("queue", "a\u0000b"), ("queue", "a\u001fb"), ("queue", "a\u007fb"),
    ("partition", "x" * 2049), ("partition", "é" * 1025), ("partition", "\u0000"), ("partition", "tab\there"),
    ("transactionId", "x" * 65536), ("transactionId", "é" * 32768), ("transactionId", "t\u0000u"),
    ("transactionId", "\u007f"), ("queue", "\ud83d"), ("partition", "a\ud83d"), ("transactionId", "\ude00"),
]


@pytest.mark.parametrize("field, bad", NAME_FAULTS, ids=range(len(NAME_FAULTS)))
def test_name_rules_name_the_item_and_the_field(api, q, field, bad):
    reply = api.push_reply({"items": [{"queue": q, "payload": 1}, {"queue": q, "payload": 2},
                                      {"queue": q, "payload": 3, **{field: bad}}]})
    assert reply.status == 400, reply
    assert field in reply.error and re.search(r"\b2\b", reply.error), reply
    assert_nothing_stored(api, q)


def test_names_at_their_limits(api, name):
    q = name("edge") + "é"
    q += "é" * (255 - len(q))
    for lane, tid in (("é" * 1024, "x" * 65535), ("p", "é" * 32767 + "y"), ("", "")):
        assert api.push({"queue": q, "partition": lane, "transactionId": "a", "payload": 1},
                        {"queue": q, "partition": lane, "transactionId": tid, "payload": 2},
                        {"queue": q, "partition": lane, "transactionId": "c", "payload": 3})[1]["transaction_id"] == tid
        popped = api.pop(q, lane)
        assert (popped["partition"], popped["queue"]) == (lane, q)
        assert [(message["transactionId"], message["data"]) for message in popped["messages"]] == \
            [("a", 1), (tid, 2), ("c", 3)]
        api.finish(popped)


def test_an_empty_transaction_id_is_a_key(api, q):
    first = api.push({"queue": q, "transactionId": "", "payload": 1}, {"queue": q, "transactionId": "", "payload": 2})
    assert [result["status"] for result in first] == ["queued", "duplicate"]
    assert first[0]["transaction_id"] == "" and first[1]["message_id"] == first[0]["message_id"]


def test_nulls_and_extras(api, q):
    results = api.push({"queue": q, "partition": None, "transactionId": None, "payload": 1, "producerSub": "ceo",
                        "bufferMs": 5, "data": 9, "traceId": None, "nested": {"queue": "other"}})
    assert results[0]["transaction_id"] == results[0]["message_id"]
    message = api.pop(q)["messages"][0]
    assert (message["partition"], message["data"], message["producerSub"], message["traceId"]) == \
        ("Default", 1, None, None)


def test_trace_id_is_stored_when_it_is_a_uuid(api, q):
    trace = str(uuid.uuid4())
    api.push({"queue": q, "payload": 1, "traceId": trace}, {"queue": q, "payload": 2, "traceId": "nonsense"},
             {"queue": q, "payload": 3, "traceId": 7}, {"queue": q, "payload": 4, "traceId": ""})
    assert [message["traceId"] for message in api.pop(q)["messages"]] == [trace, None, None, None]


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_the_content_type_is_not_inspected(api, q, content_type):
    reply = api.call("POST", "/api/v1/push", {"items": [{"queue": q, "payload": 1}]},
                     headers=[("content-type", content_type), ("accept", "text/html")])
    assert reply.status == 201, reply


def test_error_bodies_escape_what_they_quote(api):
    for body in (b'{"items":[{"queue":"a\\"b","payload":}]}', b'{"items":"x\\"y"}', b'{"items":[{"que\\"ue":1}]}'):
        assert api.push_reply(body).status == 400
    assert json.loads(api.push_reply(b'{"it\\u0022').body)["error"]
