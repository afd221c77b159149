# SPDX-License-Identifier: Apache-2.0
"""retryLimit, deadLetterQueue and dlqAfterMaxRetries: what is charged, where, and what happens to the poison."""
import pytest

from lib.api import ack_item, tids
from scene import dead, fail


def outcomes(api, queue, count, **params):
    return [fail(api, queue, **params)["outcome"] for _ in range(count)]


def test_three_failed_acks_are_the_default_budget(api, q):
    """The message comes again after the first, second and third failure; the fourth dead-letters it."""
    api.send(q, "m")
    assert outcomes(api, q, 3) == ["failed"] * 3
    assert dead(api, q) == 0
    last = fail(api, q)
    assert (last["outcome"], last["dlq"], last["success"]) == ("dead_lettered", True, True)
    assert (dead(api, q), api.pop(q)) == (1, None)


@pytest.mark.parametrize("limit", [0, 1, 5])
def test_retry_limit_is_the_number_of_failed_acks_before_the_dead_letter(api, q, limit):
    """After that many failures one more dead-letters (decisions 5)."""
    api.configure(q, retryLimit=limit)
    api.send(q, "m")
    assert outcomes(api, q, limit + 1) == ["failed"] * limit + ["dead_lettered"]


def test_the_counter_belongs_to_the_partition_and_the_group(api, q):
    """Failures in one lane or group charge neither another lane nor another group."""
    api.configure(q, retryLimit=1)
    for lane in "ab":
        api.send(q, "m", partition=lane)
    groups = [{"consumerGroup": group, "subscriptionMode": "all"} for group in ("g", "h")]
    for lane in "ab":
        for group in groups:
            assert outcomes(api, q, 1, partition=lane, **group) == ["failed"]
    for lane in "ab":
        for group in groups:
            assert outcomes(api, q, 1, partition=lane, **group) == ["dead_lettered"]
    assert dead(api, q) == 4


def test_the_counter_is_per_lane_and_not_per_message(api, q):
    """A failure of the first message is charged to the next one, when no batch was completed in between."""
    api.configure(q, retryLimit=1)
    api.send(q, "m0", "m1")
    assert outcomes(api, q, 1) == ["failed"]
    popped = api.pop(q)
    results = api.acks([ack_item(popped["messages"][0]), ack_item(popped["messages"][1], "failed")])
    assert [result["outcome"] for result in results] == ["completed", "dead_lettered"]


def test_a_completed_batch_resets_the_counter(api, q):
    """After it the budget is whole again."""
    api.configure(q, retryLimit=1)
    api.send(q, "m0", "m1")
    assert outcomes(api, q, 1) == ["failed"]
    assert api.ack(api.pop(q, batch=1)["messages"][0])["leaseReleased"] is True
    assert outcomes(api, q, 2) == ["failed", "dead_lettered"]


def test_retry_releases_the_lease_without_charging(api, q):
    """Any number of them; the budget is whole afterwards."""
    api.configure(q, retryLimit=1)
    api.send(q, "m")
    for _ in range(6):
        result = api.ack(api.pop(q)["messages"][0], "retry")
        assert (result["outcome"], result["leaseReleased"]) == ("retried", True)
    assert outcomes(api, q, 2) == ["failed", "dead_lettered"]


def test_raising_the_limit_acts_on_the_next_failed_ack(api, q):
    """Also for a message whose budget is used up already."""
    api.configure(q, retryLimit=1)
    api.send(q, "m")
    assert outcomes(api, q, 1) == ["failed"]
    api.configure(q, retryLimit=3)
    assert outcomes(api, q, 3) == ["failed", "failed", "dead_lettered"], "the counter was not reset"


def test_lowering_the_limit_below_the_counter_dead_letters_on_the_next_failed_ack(api, q):
    """Existing counters stay: two failures are more than a limit of one."""
    api.configure(q, retryLimit=10)
    api.send(q, "m")
    assert outcomes(api, q, 2) == ["failed"] * 2
    message = api.pop(q)["messages"][0]
    api.configure(q, retryLimit=1)
    assert api.ack(message, "failed")["outcome"] == "dead_lettered"


def test_a_queue_nobody_configured_dead_letters(api, q):
    """That is the default, and the dead letter keeps what failed and why."""
    api.send(q, "m")
    outcomes(api, q, 4)
    assert dead(api, q) == 1


def test_a_dead_letter_is_a_row_of_the_dead_letter_table(pg_api, q):
    """With the message's identity, its payload byte for byte and the error of the failed ack."""
    pg_api.configure(q, retryLimit=0)
    pg_api.push_reply(b'{"items":[{"queue":"%s","transactionId":"m","payload":{ "n": 1e2 }}]}' % q.encode())
    fail(pg_api, q)
    row = pg_api.broker.psql(
        "SELECT d.transaction_id, convert_from(d.payload, 'UTF8'), d.error, d.consumer_group FROM queen.log_dlq d "
        f"JOIN queen.log_partitions p ON p.id = d.partition_id JOIN queen.queues k ON k.id = p.queue_id "
        f"WHERE k.name = '{q}'")
    assert row == [("m", '{ "n": 1e2 }', "it broke", "__QUEUE_MODE__")]


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("second", [True, False])
def test_the_two_flags_are_combined_with_or(api, q, first, second):
    """The poison is dropped only when both are false; either way the lane goes on."""
    api.configure(q, retryLimit=0, deadLetterQueue=first, dlqAfterMaxRetries=second)
    api.send(q, "poison", "next")
    result = fail(api, q)
    kept = first or second
    assert (result["outcome"], result["dlq"]) == ("dead_lettered" if kept else "dropped", kept)
    assert dead(api, q) == (1 if kept else 0)
    assert api.popped(q) == ["next"]


def test_changing_the_flags_affects_future_exhaustions_only(api, q):
    """Rows that are there stay there; the next poison is dropped."""
    api.configure(q, retryLimit=0)
    api.send(q, "one", "two", "three")
    assert fail(api, q)["outcome"] == "dead_lettered"
    api.configure(q, retryLimit=0, deadLetterQueue=False, dlqAfterMaxRetries=False)
    assert dead(api, q) == 1
    assert fail(api, q)["outcome"] == "dropped"
    assert dead(api, q) == 1
    api.configure(q, retryLimit=0)
    assert fail(api, q)["outcome"] == "dead_lettered"
    assert (dead(api, q), api.pop(q)) == (2, None)


def test_failures_and_the_limit_count_for_whole_batches(api, q):
    """One failed ack of a batch charges once, whatever the size; the poison alone is taken out of it."""
    api.configure(q, retryLimit=1)
    api.send(q, "a", "b", "c")
    for expected in ("failed", "dead_lettered"):
        popped = api.pop(q)
        results = api.acks([ack_item(message, "failed") for message in popped["messages"]])
        assert results[0]["outcome"] == expected
    assert dead(api, q) == 1
    assert tids(api.pop(q)) == ["b", "c"]
