# SPDX-License-Identifier: Apache-2.0
"""POST /configure: what it accepts, what it answers, what it replaces, where the values are kept."""
import pytest

from lib import clock
from scene import about

DEFAULTS = {"leaseTime": 300, "retryLimit": 3, "deadLetterQueue": True, "dlqAfterMaxRetries": True,
            "delayedProcessing": 0, "windowBuffer": 0, "retentionEnabled": False, "retentionSeconds": 0,
            "completedRetentionSeconds": 0, "maxWaitTimeSeconds": 0, "minPopWaitTime": 0,
            "encryptionEnabled": False, "dedupWindowSeconds": 3600}
# option: (column, a value that is not the default)
COLUMNS = {"leaseTime": ("lease_time", 120), "retryLimit": ("retry_limit", 5),
           "deadLetterQueue": ("dead_letter_queue", False), "dlqAfterMaxRetries": ("dlq_after_max_retries", False),
           "delayedProcessing": ("delayed_processing", 6), "windowBuffer": ("window_buffer", 7),
           "retentionEnabled": ("retention_enabled", True), "retentionSeconds": ("retention_seconds", 80),
           "completedRetentionSeconds": ("completed_retention_seconds", 90),
           "maxWaitTimeSeconds": ("max_wait_time_seconds", 100), "minPopWaitTime": ("min_pop_wait_time", 11),
           "dedupWindowSeconds": ("dedup_window_seconds", 1200)}
CHANGED = {option: value for option, (_, value) in COLUMNS.items()}


def documented(answer):
    """The options the document speaks of, with types: true is not 1."""
    return {key: (type(value), value) for key, value in answer["options"].items() if key in DEFAULTS}


def typed(options):
    return {key: (type(value), value) for key, value in options.items()}


def test_configure_is_a_full_replace_not_a_patch(api, q):
    """Every option a second call omits is at its default again."""
    assert documented(api.configure(q, **CHANGED)) == typed({**DEFAULTS, **CHANGED})
    assert documented(api.configure(q, retryLimit=9)) == typed({**DEFAULTS, "retryLimit": 9})


@pytest.mark.parametrize("option", DEFAULTS)
def test_the_default_of(api, q, option):
    """An option that is omitted, or null, has the type and value the document prints."""
    for body in ({}, {option: None}):
        value = api.configure(q, **body)["options"][option]
        assert (type(value), value) == (type(DEFAULTS[option]), DEFAULTS[option])


@pytest.mark.parametrize("body", [{"options": {"leaseTime": 120, "retryLimit": 5}}, {"leaseTime": 120, "retryLimit": 5}])
def test_options_may_be_nested_or_at_top_level(api, name, body):
    """The example body, and the same without the options object."""
    q = name() + ".shipped"
    answer = api.configure_reply({"queue": q, **body})
    assert answer.status == 200
    assert documented(answer.json) == typed({**DEFAULTS, "leaseTime": 120, "retryLimit": 5})


def test_beside_an_options_object_other_top_level_keys_are_no_options(api, q):
    """They are options when no options object is present."""
    answer = api.configure_reply({"queue": q, "leaseTime": 9, "retryLimit": 9, "options": {"retryLimit": 5}}).json
    assert documented(answer) == typed({**DEFAULTS, "retryLimit": 5})


def test_only_queue_is_required(api, q):
    """A body with nothing else is complete; a body with everything else is not."""
    assert api.configure_reply({"queue": q}).json["configured"] is True
    reply = api.configure_reply({"options": CHANGED, "namespace": "n"})
    assert reply.status == 400 and reply.error == "queue is required"


@pytest.mark.parametrize("queue", [None, 7, True, ["q"], {"name": "q"}])
def test_queue_must_be_a_string(api, queue):
    """Anything else is refused, and makes no queue named after it."""
    assert api.configure_reply({"queue": queue}).status == 400
    assert str(queue) not in [entry["name"] for entry in api.queues()]


def test_the_empty_string_is_a_valid_queue_name(api):
    """It can be configured, and used under this name."""
    answer = api.configure_reply({"queue": "", "options": {"leaseTime": 77}})
    assert (answer.status, answer.json["queue"], answer.json["configured"]) == (200, "", True)
    api.push({"queue": "", "transactionId": "m", "payload": 1})
    assert about(clock.lease_seconds(api.pop("")["messages"][0]), 77)
    assert api.delete("")["deleted"] is True


def test_labels_are_read_from_the_options_and_from_the_top_level(api, q):
    """Both places work; the options object wins."""
    inside = api.configure_reply({"queue": q, "options": {"namespace": "n1", "task": "t1"}}).json
    assert (inside["namespace"], inside["task"]) == ("n1", "t1")
    outside = api.configure_reply({"queue": q, "namespace": "n2", "task": "t2", "options": {"leaseTime": 9}}).json
    assert (outside["namespace"], outside["task"], outside["options"]["leaseTime"]) == ("n2", "t2", 9)
    both = api.configure_reply({"queue": q, "namespace": "n3", "task": "t3", "options": {"namespace": "n4"}}).json
    assert (both["namespace"], both["task"]) == ("n4", "t3")


def test_the_answer_says_what_was_configured(api, q):
    """200, configured, the queue's id, no partition id, name, labels and the resolved options."""
    reply = api.configure_reply({"queue": q, "options": {"namespace": "n", "task": "t", "leaseTime": 120}})
    assert reply.status == 200
    answer = reply.json
    assert (answer["configured"], answer["queueId"]) == (True, api.queue(q)["id"])
    assert (answer["queue"], answer["namespace"], answer["task"]) == (q, "n", "t")
    assert documented(answer) == typed({**DEFAULTS, "leaseTime": 120})
    assert answer["options"]["dedupWindowSeconds"] == 3600


def test_partition_id_is_always_null(api, q):
    """Configuring creates no partition, and tells of none that is there."""
    assert api.configure(q)["partitionId"] is None
    api.send(q, "m")
    assert api.configure(q)["partitionId"] is None


def test_one_row_holds_every_option(pg_api, q):
    """Each value stands in the queue's one row, and is replaced there."""
    columns = ", ".join(column for column, _ in COLUMNS.values())
    for options in (CHANGED, {}):
        pg_api.configure(q, **options)
        values = pg_api.broker.psql(f"SELECT {columns} FROM queen.queues WHERE name = '{q}'")
        expected = [{True: "t", False: "f"}[value] if isinstance(value, bool) else str(value)
                    for value in ({**DEFAULTS, **options}[option] for option in COLUMNS)]
        assert values == [tuple(expected)]


@pytest.mark.parametrize("given, kept", [(-1, 0), (0, 0), (1, 1), (60000, 60000), (60001, 60000), (3600000, 60000)])
def test_min_pop_wait_time_is_clamped_to_0_60000(api, q, given, kept):
    """Milliseconds below zero are zero, above a minute a minute."""
    assert api.configure(q, minPopWaitTime=given)["options"]["minPopWaitTime"] == kept


@pytest.mark.parametrize("option, bad", [(option, bad) for option, good in DEFAULTS.items()
                                         for bad in ("abc", 1.5, [], {}) if isinstance(good, (bool, int))])
def test_an_option_of_another_type_is_refused(api, q, option, bad):
    """Each option has the type the document names; anything else is 400 and makes no queue (decisions 11)."""
    assert api.configure_reply({"queue": q, "options": {option: bad}}).status == 400
    assert api.queue_reply(q).status == 404
