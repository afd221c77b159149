# SPDX-License-Identifier: Apache-2.0
"""POST /configure: a full replace of seventeen options and two labels, strict about types and bounds."""
import pytest

from lib import clock

DEFAULTS = {"priority": 0, "leaseTime": 300, "retryLimit": 3, "retryDelay": 1000, "maxSize": 0, "ttl": 3600,
            "deadLetterQueue": True, "dlqAfterMaxRetries": True, "delayedProcessing": 0, "windowBuffer": 0,
            "retentionSeconds": 0, "completedRetentionSeconds": 0, "retentionEnabled": False,
            "encryptionEnabled": False, "maxWaitTimeSeconds": 0, "minPopWaitTime": 0, "dedupWindowSeconds": 3600}
OTHERS = {"priority": 7, "leaseTime": 120, "retryLimit": 5, "retryDelay": 250, "maxSize": 9000, "ttl": 60,
          "deadLetterQueue": False, "dlqAfterMaxRetries": False, "delayedProcessing": 3, "windowBuffer": 4,
          "retentionSeconds": 3600, "completedRetentionSeconds": 1800, "retentionEnabled": True,
          "encryptionEnabled": False, "maxWaitTimeSeconds": 7200, "minPopWaitTime": 500, "dedupWindowSeconds": 0}
KEYS = {"configured", "queueId", "partitionId", "queue", "namespace", "task", "storage", "options"}
SECONDS = ("delayedProcessing", "windowBuffer", "retentionSeconds", "completedRetentionSeconds", "maxWaitTimeSeconds")


def same(answer, expected):
    """Equal values of equal JSON types: true is not 1."""
    return {key: (type(value), value) for key, value in answer.items()} == \
        {key: (type(value), value) for key, value in expected.items()}


def test_the_answer_shape_and_the_defaults(api, q):
    answer = api.configure(q)
    assert set(answer) == KEYS
    assert same({key: answer[key] for key in KEYS - {"queueId", "options"}},
                {"configured": True, "partitionId": None, "queue": q, "namespace": "", "task": "",
                 "storage": "segments"})
    assert same(answer["options"], DEFAULTS)
    assert answer["queueId"] == api.queue(q)["id"] == api.configure(q)["queueId"]


def test_every_option_round_trips(api, q):
    answer = api.configure(q, namespace="n", task="t", **OTHERS)
    assert same(answer["options"], OTHERS)
    assert (answer["namespace"], answer["task"]) == ("n", "t")


def test_configure_is_a_full_replace(api, q):
    api.configure(q, namespace="n", task="t", **OTHERS)
    answer = api.configure(q, leaseTime=10)
    assert same(answer["options"], {**DEFAULTS, "leaseTime": 10})
    assert (answer["namespace"], answer["task"]) == ("", "")


def test_options_may_stand_at_top_level(api, q):
    answer = api.configure_reply({"queue": q, "leaseTime": 11, "task": "t", "deadLetterQueue": False}).json
    assert same(answer["options"], {**DEFAULTS, "leaseTime": 11, "deadLetterQueue": False})
    assert answer["task"] == "t"
    answer = api.configure_reply({"queue": q, "options": None, "leaseTime": 12}).json
    assert answer["options"]["leaseTime"] == 12
    answer = api.configure_reply({"queue": q, "options": {"retryLimit": 1}, "leaseTime": 13}).json
    assert same(answer["options"], {**DEFAULTS, "retryLimit": 1}), "beside an options object the top level is ignored"


def test_top_level_labels_fill_what_the_options_leave_out(api, q):
    body = {"queue": q, "namespace": "top", "task": None, "options": {"leaseTime": 5}}
    answer = api.configure_reply(body).json
    assert (answer["namespace"], answer["task"]) == ("top", "")
    body["options"]["namespace"] = "inner"
    assert api.configure_reply(body).json["namespace"] == "inner"
    body = {"queue": q, "namespace": None, "task": None, "options": {}}
    answer = api.configure_reply(body).json
    assert (answer["namespace"], answer["task"]) == ("", "")


def test_null_is_the_default_and_unknown_keys_are_ignored(api, q):
    answer = api.configure(q, **{key: None for key in DEFAULTS}, bananas=3, mode="merge")
    assert same(answer["options"], DEFAULTS)


@pytest.mark.parametrize("given, stored", [(-5, 0), (0, 0), (60000, 60000), (60001, 60000), (2000000, 60000)])
def test_min_pop_wait_time_is_clamped(api, q, given, stored):
    assert api.configure(q, minPopWaitTime=given)["options"]["minPopWaitTime"] == stored


def test_dedup_window_is_floored_at_zero(api, q):
    assert api.configure(q, dedupWindowSeconds=-1)["options"]["dedupWindowSeconds"] == 0
    assert api.configure(q, dedupWindowSeconds=315360000)["options"]["dedupWindowSeconds"] == 315360000


GOOD_BOUNDS = [("leaseTime", 1), ("leaseTime", 604800), ("retryLimit", 0), ("retryLimit", 1000000)] + \
    [(key, bound) for key in SECONDS for bound in (0, 315360000)]
BAD_VALUES = [("leaseTime", 0), ("leaseTime", -1), ("leaseTime", 604801), ("retryLimit", -1), ("retryLimit", 1000001),
              ("dedupWindowSeconds", 315360001), ("leaseTime", 1.5), ("leaseTime", "abc"), ("leaseTime", ""),
              ("leaseTime", []), ("retryLimit", {}), ("retryLimit", 99999999999999999999), ("priority", "high"),
              ("minPopWaitTime", "soon"), ("deadLetterQueue", "maybe"), ("deadLetterQueue", []),
              ("retentionEnabled", 7), ("encryptionEnabled", {}), ("namespace", 7), ("task", ["t"])] + \
    [(key, bad) for key in SECONDS for bad in (-1, 315360001)]


def test_the_bounds_themselves_are_accepted(api, q):
    for key, value in GOOD_BOUNDS:
        assert api.configure(q, **{key: value})["options"][key] == value


def test_a_bad_value_is_400_and_changes_nothing(api, q, name):
    before = api.configure(q, leaseTime=77, namespace="kept")
    fresh = name("fresh")
    for key, value in BAD_VALUES:
        for queue in (q, fresh):
            reply = api.configure_reply({"queue": queue, "options": {key: value, "task": "changed"}
                                         if key != "task" else {key: value}})
            assert reply.status == 400, (key, value, reply)
            assert reply.error
    document = api.queue(q)
    assert (document["namespace"], document["task"]) == ("kept", "")
    assert api.queue_reply(fresh).status == 404
    api.send(q, "m")
    message = api.pop(q)["messages"][0]
    assert 77 <= clock.lease_seconds(message) < 87
    assert before["options"]["leaseTime"] == 77


@pytest.mark.parametrize("body", [b"{}", b'{"queue":null}', b'{"queue":7}', b'{"queue":[]}', b"[]", b'"x"', b"7",
                                  b"null", b'{"options":{"leaseTime":5}}'])
def test_the_queue_is_required(api, body):
    reply = api.configure_reply(body)
    assert reply.status == 400 and reply.json == {"error": "queue is required"}, reply


@pytest.mark.parametrize("body", [b"", b"{", b'{"queue":"x"} x', b"queue=x", b'{"queue":"x",}',
                                  b'{"queue":"a","queue":"b\xff"}'])
def test_a_body_that_is_not_json(api, body):
    reply = api.configure_reply(body)
    assert reply.status == 400 and reply.error.startswith("bad body: "), reply


@pytest.mark.parametrize("queue", ["x" * 256, "é" * 256, "a\u0000b", "a\nb", "a\u007fb"])
def test_queue_name_rules(api, queue):
    reply = api.configure_reply({"queue": queue})
    assert reply.status == 400 and "queue" in reply.error, reply


def test_label_rules(api, q):
    for key in ("namespace", "task"):
        for bad in ("x" * 256, "a\u0001b"):
            reply = api.configure_reply({"queue": q, "options": {key: bad}})
            assert reply.status == 400 and key in reply.error, reply
        assert api.configure(q, **{key: "é" * 255})[key] == "é" * 255


def test_a_queue_name_of_255_characters_works(api, name):
    q = name("wide") + "-"
    q += "🐝" * (255 - len(q))
    assert api.configure(q)["queue"] == q
    api.send(q, "m")
    assert api.popped(q) == ["m"]
    assert api.delete(q)["deleted"] is True


def test_encryption_without_a_key_is_refused(api, q):
    reply = api.configure_reply({"queue": q, "options": {"encryptionEnabled": True}})
    assert reply.status == 400 and reply.error
    assert api.queue_reply(q).status == 404


def test_configure_is_idempotent_and_keeps_messages(api, q):
    api.send(q, "a", "b")
    first = api.configure(q, retryLimit=9)
    assert api.configure(q, retryLimit=9) == first
    assert api.popped(q) == ["a", "b"]
