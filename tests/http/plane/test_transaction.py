# SPDX-License-Identifier: Apache-2.0
"""POST /transaction: bodies, envelopes, and how operations are read. What pushes and acks do inside one stands in
test_transaction_push.py, _ack.py, _lease.py and _signals.py, what a rollback leaves in test_transaction_rollback.py."""
import re
import uuid

import pytest

from lib.api import ack_op, push_op

PUSH_KEYS = {"index", "type", "success", "transactionId", "messageId", "queueName"}
ACK_KEYS = {"index", "type", "success", "transactionId", "error", "dlq"}
NEEDS_OPERATIONS = "transaction requires an operations array"
ONLY = "segments transaction supports only push and ack operations"


def refused(reply):
    """A 400 in the transaction's own envelope; returns its text."""
    assert reply.status == 400, reply
    answer = reply.json
    assert set(answer) == {"transactionId", "success", "error", "reason", "results"}, reply
    uuid.UUID(answer["transactionId"])
    assert (answer["success"], answer["reason"], answer["results"]) == (False, "bad_request", []), reply
    return answer["error"]


def raw(*operations, more=b""):
    return b'{"operations":[' + b",".join(operations) + b"]" + more + b"}"


# answers

def test_the_answer_of_a_commit(api, name):
    source, sink = name("source"), name("sink")
    api.send(source, "r-7")
    message = api.pop(source)["messages"][0]
    reply = api.transaction_reply({"operations": [
        ack_op(message, leaseId=message["leaseId"]),
        {"type": "push", "items": [push_op(sink, "h-7", {"s": 4.2}, "site-7")]},
        {"type": "push", "queue": sink, "data": {"seen": "r-7"}}], "requiredLeases": [message["leaseId"]]})
    assert reply.status == 200, reply
    answer = reply.json
    assert set(answer) == {"transactionId", "success", "results"} and answer["success"] is True, reply
    ack, first, second = answer["results"]
    assert len({uuid.UUID(answer["transactionId"]), uuid.UUID(first["messageId"]), uuid.UUID(second["messageId"])}) == 3
    assert ACK_KEYS <= set(ack) and set(first) == set(second) == PUSH_KEYS
    assert {key: ack[key] for key in ACK_KEYS} == \
        {"index": 0, "type": "ack", "success": True, "transactionId": "r-7", "error": None, "dlq": False}
    assert {**first, "messageId": ""} == {"index": 1, "type": "push", "success": True, "transactionId": "h-7",
                                          "messageId": "", "queueName": sink}
    assert (second["index"], second["queueName"]) == (2, sink)
    assert second["transactionId"] == second["messageId"], "a minted id is the key"
    assert [uuid.UUID(result["messageId"]).version for result in (first, second)] == [7, 7]
    assert api.pop(source) is None
    stored = {message["partition"]: message for message in api.pop(sink, partitions=2)["messages"]}
    assert (stored["site-7"]["id"], stored["site-7"]["data"]) == (first["messageId"], {"s": 4.2})
    assert (stored["Default"]["id"], stored["Default"]["data"]) == (second["messageId"], {"seen": "r-7"})


def test_no_operations(api):
    for more in ({}, {"requiredLeases": []}, {"unknown": {"a": [1]}}):
        reply = api.transaction_reply({"operations": [], **more})
        assert reply.status == 200, reply
        assert set(reply.json) == {"transactionId", "success", "results"}
        assert (reply.json["success"], reply.json["results"]) == (True, [])


def test_each_call_has_an_id_of_its_own(api):
    ids = {api.transaction_reply({"operations": []}).json["transactionId"] for _ in range(10)}
    assert len(ids) == 10


def test_the_content_type_of_a_request_does_not_matter(api, q):
    body = raw(b'{"type":"push","queue":"%s","payload":1}' % q.encode())
    for kind in ("text/plain", "application/x-www-form-urlencoded"):
        assert api.call("POST", "/api/v1/transaction", body, [("content-type", kind)]).json["success"] is True
    assert len(api.pop(q)["messages"]) == 2


def test_other_methods(api):
    for method in ("GET", "PUT", "DELETE"):
        reply = api.client.request(method, "/api/v1/transaction")
        assert reply.status in (404, 405), reply


# bodies

@pytest.mark.parametrize("body", [b"", b"{", b"{]", b'{"operations":[]', b'{"operations":[]} x', b'{"operations":[],}',
                                  b'{"operations":[{"type":"push","queue":"q","payload":tru}]}',
                                  b'{"operations":[{"type":"push","queue":"q","payload":"\x01"}]}',
                                  b'{"operations":[{"type":"push","queue":"q","payload":"\xff"}]}',
                                  b'{"operations":[{"type":"push","queue":"\xe9","payload":1}]}',
                                  b'{"operations":[{"type":"push","queue":"q","payload":01}]}',
                                  b'{"operations":[{"type":"push","queue":"q","payload":"\\x"}]}',
                                  b'{"operations":[],"requiredLeases":["\xff"]}'])
def test_what_is_no_json(api, body):
    reply = api.transaction_reply(body)
    assert reply.status == 400 and reply.error.startswith("bad body: "), reply


@pytest.mark.parametrize("body", [b"{}", b"null", b"7", b"[]", b'"operations"', b'{"operations":null}',
                                  b'{"operations":{}}', b'{"operations":"[]"}', b'{"operations":7}',
                                  b'{"operation":[]}', b'{"requiredLeases":[]}'])
def test_operations_must_be_an_array(api, body):
    assert refused(api.transaction_reply(body)).startswith(NEEDS_OPERATIONS)


@pytest.mark.parametrize("operation", [b"7", b"null", b"[]", b'"push"', b"{}", b'{"type":null}', b'{"type":7}',
                                       b'{"type":["push"]}', b'{"type":""}', b'{"type":"Push"}', b'{"type":"ACK"}',
                                       b'{"type":"delete"}', b'{"type":"push "}', b'{"type":"kv"}',
                                       b'{"type":"na\\"ug\\\\hty"}', b'{"items":[]}', b'{"queue":"x","payload":1}'])
def test_an_unknown_operation_refuses_the_call_before_anything_happens(api, q, operation):
    push = b'{"type":"push","queue":"%s","payload":1}' % q.encode()
    for operations in ((operation,), (push, operation), (operation, push)):
        text = refused(api.transaction_reply(raw(*operations)))
        assert text.startswith(ONLY) or text.startswith("every transaction operation needs a `type`"), text
    assert api.queue_reply(q).status == 404, "a refused call left a queue behind"


def test_an_unknown_operation_acks_nothing(api, q):
    api.send(q, "m")
    message = api.pop(q)["messages"][0]
    refused(api.transaction_reply({"operations": [ack_op(message), {"type": "delete"}]}))
    assert api.pop(q) is None, "still leased"
    result = api.ack(message)
    assert (result["success"], result["noop"]) == (True, False)


def test_a_body_beyond_the_cap(changed_api, q):
    api = changed_api
    reply = api.transaction_reply({"operations": [push_op(q, payload="x" * 3000000)]})
    assert reply.status == 413 and reply.error, reply
    assert api.queue_reply(q).status == 404


def test_depth_bombs_do_not_hurt(api):
    for deep in (b"[" * 100000 + b"]" * 100000, b'{"a":' * 1000000, b"[" * 1000000):
        for body in (b'{"operations":' + deep, raw(deep), raw(b'{"type":' + deep + b"}"),
                     raw(more=b',"requiredLeases":' + deep)):
            assert api.transaction_reply(body).status in (200, 400)
    assert api.call("GET", "/status").status == 200


# operations

def test_nested_and_flat_pushes_share_one_numbering(api, name):
    q, other = name(), name()
    results = api.commit({"type": "push", "items": [{"queue": q, "transactionId": "a", "payload": 1},
                                                    {"queue": other, "transactionId": "b", "payload": 2}]},
                         {"type": "push", "items": []},
                         {"type": "push", "queue": q, "transactionId": "c", "payload": 3},
                         {"type": "push", "items": [{"queue": q, "transactionId": "d", "payload": 4}], "queue": other,
                          "payload": "the items count, not the operation around them"})
    assert [(result["transactionId"], result["queueName"]) for result in results] == \
        [("a", q), ("b", other), ("c", q), ("d", q)]
    assert [(message["transactionId"], message["data"]) for message in api.pop(q)["messages"]] == \
        [("a", 1), ("c", 3), ("d", 4)]
    assert api.popped(other) == ["b"]


def test_items_that_are_no_array_are_an_unknown_key(api, q):
    for items in (b"null", b"{}", b'"x"', b"7"):
        body = raw(b'{"type":"push","items":%s,"queue":"%s","payload":%s}' % (items, q.encode(), items))
        assert api.transaction_reply(body).json["success"] is True, body
    assert [message["data"] for message in api.pop(q)["messages"]] == [None, {}, "x", 7]


def test_only_empty_item_lists(api):
    assert api.commit({"type": "push", "items": []}, {"type": "push", "items": []}) == []


def test_payload_and_data(api, q):
    shapes = [(b'"payload":1', 1), (b'"data":2', 2), (b'"payload":3,"data":4', 3), (b'"data":5,"payload":6', 6),
              (b'"payload":null', None), (b'"payload":null,"data":7', None), (b'"data":null', None), (b'"x":0', {})]
    operations = [b'{"type":"push","queue":"%s",%s}' % (q.encode(), keys) for keys, _ in shapes]
    nested = [b'{"type":"push","items":[{"queue":"%s",%s}]}' % (q.encode(), keys) for keys, _ in shapes]
    assert api.transaction_reply(raw(*operations, *nested)).json["success"] is True
    assert [message["data"] for message in api.pop(q)["messages"]] == [data for _, data in shapes] * 2
    assert b'"data":{}' in api.pop_reply(q, consumerGroup="g", subscriptionMode="all").body.replace(b" ", b"")


def test_wrong_types_act_as_absent(api, q):
    results = api.commit(push_op(q, partition=7, tid=8, traceId=9), push_op(q, partition={}, tid=[], traceId={}),
                         push_op(q, tid=""), push_op(q, tid=""))
    assert [result["transactionId"] == result["messageId"] for result in results] == [True] * 4
    assert not any("duplicate" in result for result in results)
    popped = api.pop(q)
    assert [message["id"] for message in popped["messages"]] == [result["messageId"] for result in results]
    assert {message["partition"] for message in popped["messages"]} == {"Default"}


def test_a_push_without_a_queue_stores_nothing(api, q):
    """No name is not the empty name."""
    api.delete("")
    for item in ({}, {"queue": None}, {"queue": 7}, {"queue": [q]}):
        for operation in ({"type": "push", "payload": 1, **item}, {"type": "push", "items": [{"payload": 1, **item}]}):
            reply = api.transaction_reply({"operations": [push_op(q), operation]})
            assert reply.status == 400 or reply.json["success"] is False, reply
            assert reply.error and reply.json["results"] == [], reply
    reply = api.transaction_reply(raw(b'{"type":"push","items":[7,null,[]]}'))
    assert reply.status == 400 or reply.json["success"] is False, reply
    assert api.queue_reply(q).status == 404 and api.queue_reply("").status == 404


def test_the_empty_names_are_names(api, q):
    api.delete("")
    results = api.commit(push_op("", "a"), push_op("", "b", partition=""), push_op(q, "c", partition=""))
    assert [result["queueName"] for result in results] == ["", "", q]
    assert api.popped("", "Default") == ["a"] and api.popped("", "") == ["b"] and api.popped(q, "") == ["c"]
    api.delete("")


FAULTS = [("queue", "x" * 256), ("queue", "é" * 256), ("queue", "a\u0000b"), ("queue", "a\u001fb"),
          ("queue", "a\u007fb"), ("queue", "\ud83d"), ("partition", "x" * 2049), ("partition", "é" * 1025),
          ("partition", "\u0000"), ("partition", "tab\there"), ("partition", "a\ud83d"), ("transactionId", "x" * 65536),
          ("transactionId", "é" * 32768), ("transactionId", "t\u0000u"), ("transactionId", "\u007f"),
          ("transactionId", "\ude00")]


@pytest.mark.parametrize("field, bad", FAULTS, ids=range(len(FAULTS)))
def test_name_rules_of_pushes(api, q, field, bad):
    good = push_op(q)
    for operations in ([good, good, {**good, field: bad}],
                       [{"type": "push", "items": [{"queue": q}, {"queue": q}, {"queue": q, field: bad}]}]):
        reply = api.transaction_reply({"operations": operations})
        assert reply.status == 400, reply
        assert field in reply.error and re.search(r"\b2\b", reply.error), reply
    assert api.queue_reply(q).status == 404


@pytest.mark.parametrize("field, bad", [("transactionId", "x" * 65536), ("transactionId", "\u0000"),
                                        ("consumerGroup", "x" * 256), ("consumerGroup", "a\u0001"),
                                        ("transactionId", "\ud83d"), ("consumerGroup", "\ude00")])
def test_name_rules_of_acks(api, name, field, bad):
    source, sink = name(), name()
    api.send(source, "m")
    message = api.pop(source)["messages"][0]
    reply = api.transaction_reply({"operations": [push_op(sink), ack_op(message), {**ack_op(message), field: bad}]})
    assert reply.status == 400, reply
    assert field in reply.error and re.search(r"\b2\b", reply.error), reply
    assert api.queue_reply(sink).status == 404
    assert api.ack(message)["noop"] is False


def test_names_at_their_limits(api, name):
    q = name("edge") + "é"
    q += "é" * (255 - len(q))
    lane, tid = "é" * 1024, "é" * 32767 + "y"
    result = api.commit(push_op(q, tid, partition=lane))[0]
    assert (result["transactionId"], result["queueName"]) == (tid, q)
    message = api.pop(q, lane)["messages"][0]
    assert (message["transactionId"], message["queue"], message["partition"]) == (tid, q, lane)
    assert api.commit(ack_op(message), leases=[message["leaseId"]])[0]["transactionId"] == tid
    assert api.pop(q, lane) is None


def test_escapes_in_names_are_decoded(api, q):
    operation = b'{"ty\\u0070e":"pu\\u0073h","queue":"%s","partition":"a\\/b \\"c\\"","transactionId":"B\\u0026B",' \
                b'"payload":1}'
    results = api.transaction_reply(raw(operation % q.encode())).json["results"]
    assert results[0]["transactionId"] == "B&B"
    message = api.pop(q, 'a/b "c"')["messages"][0]
    assert message["transactionId"] == "B&B"
    assert api.commit(ack_op(message))[0]["transactionId"] == "B&B"


def test_required_leases_of_other_shapes_are_ignored(api, q):
    for leases in (b"null", b"{}", b'"x"', b"7", b"true", b'[null,7,{},[],true,""]'):
        body = raw(b'{"type":"push","queue":"%s","payload":1}' % q.encode(), more=b',"requiredLeases":' + leases)
        assert api.transaction_reply(body).json["success"] is True, leases
    assert len(api.pop(q)["messages"]) == 6
