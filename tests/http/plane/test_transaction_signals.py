# SPDX-License-Identifier: Apache-2.0
"""Failed, retry and dlq inside a transaction: the budget, and dead letters that exist only with the commit."""
import pytest

from lib import clock
from lib.api import ack_op, push_op
from lib.txn import NOBODY, batch_of


def dead(api, q):
    return api.broker.psql(
        "SELECT d.transaction_id, d.error, d.retry_count, convert_from(d.payload, 'UTF8') FROM queen.log_dlq d "
        "JOIN queen.log_partitions p ON p.id = d.partition_id JOIN queen.queues q ON q.id = p.queue_id "
        f"WHERE q.name = '{q}' ORDER BY d.failed_at, d.\"offset\"")


@pytest.mark.parametrize("signal", ["failed", "retry", "nack"])
def test_a_signal_rewinds_to_its_message(api, name, signal):
    q, sink = name(), name()
    messages = batch_of(api, q, 5)
    statuses = ["completed", signal, "completed", "completed", "completed"]
    results = api.commit(*[ack_op(message, status) for message, status in zip(messages, statuses)], push_op(sink, "s"),
                         leases=[messages[0]["leaseId"]])
    assert not any(result["dlq"] for result in results[:5])
    assert api.popped(q) == ["t1", "t2", "t3", "t4"]
    assert api.popped(sink) == ["s"], "a failed message is not a failed transaction"


def test_retry_is_free(api, q):
    api.configure(q, retryLimit=2)
    api.send(q, "m")
    for _ in range(5):
        assert api.commit(ack_op(api.pop(q)["messages"][0], "retry"))[0]["dlq"] is False
    for number in range(3):
        message = api.pop(q)["messages"][0]
        assert api.commit(ack_op(message, "failed"))[0]["dlq"] is (number == 2)
    assert api.pop(q) is None


def test_budget_of_acks_and_transactions_is_one(api, q):
    api.send(q, "m", "n")
    api.ack(api.pop(q)["messages"][0], "failed")
    api.commit(ack_op(api.pop(q)["messages"][0], "Completed"))
    assert api.ack(api.pop(q)["messages"][0], "failed")["dlq"] is False
    assert api.commit(ack_op(api.pop(q)["messages"][0], "failed"))[0]["dlq"] is True
    assert api.popped(q) == ["n"]


def test_a_completed_batch_resets_the_budget(api, q):
    api.send(q, "a")
    for _ in range(3):
        api.commit(ack_op(api.pop(q)["messages"][0], "failed"))
    api.commit(ack_op(api.pop(q)["messages"][0]))
    api.send(q, "b")
    for number in range(4):
        assert api.commit(ack_op(api.pop(q)["messages"][0], "failed"))[0]["dlq"] is (number == 3)


def test_no_budget_at_all(api, q):
    api.configure(q, retryLimit=0)
    api.send(q, "m", "n")
    assert api.commit(ack_op(api.pop(q)["messages"][0], "failed"))[0]["dlq"] is True
    assert api.popped(q) == ["n"]


def test_both_flags_off_drop_the_message(api, q):
    api.configure(q, retryLimit=0, deadLetterQueue=False, dlqAfterMaxRetries=False)
    api.send(q, "m", "n")
    assert api.commit(ack_op(api.pop(q)["messages"][0], "failed"))[0]["dlq"] is False
    assert api.popped(q) == ["n"]


# dead letters

def test_dlq_files_only_its_message(api, name):
    q, sink = name(), name()
    messages = batch_of(api, q, 4)
    results = api.commit(ack_op(messages[0]), ack_op(messages[1], "dlq"), ack_op(messages[2]), push_op(sink, "s"),
                         leases=[messages[0]["leaseId"]])
    assert [result["dlq"] for result in results[:3]] == [False, True, False]
    assert api.queue(q)["partitions"][0]["stats"]["deadLetter"] == 1
    assert api.popped(q) == ["t2", "t3"] and api.popped(sink) == ["s"]


def test_what_a_dead_letter_of_a_transaction_holds(pg_api, q):
    api = pg_api
    payload = '{ "z":1.10 , "a":"\\u0000\\ud83d","z":1e2 }'
    body = '{"operations":[{"type":"push","queue":"%s","transactionId":"m","payload":%s}]}' % (q, payload)
    assert api.transaction_reply(body.encode()).json["success"] is True
    message = api.pop(q, consumerGroup="g", subscriptionMode="all")["messages"][0]
    assert api.commit(ack_op(message, "dlq", error='own "é"'))[0]["dlq"] is True
    assert dead(api, q) == [("m", 'own "é"', "0", payload)]
    rows = api.broker.psql('SELECT partition_id, consumer_group, "offset", message_id FROM queen.log_dlq '
                           f"WHERE message_id = '{message['id']}'")
    assert rows == [(message["partitionId"], "g", "0", message["id"])]


def test_the_error_of_a_dead_letter(pg_api, q):
    api = pg_api
    messages = batch_of(api, q, 3)
    api.commit(ack_op(messages[1], "retry", error="other"), ack_op(messages[0], "dlq", error="own"))
    messages = api.pop(q)["messages"]
    api.commit(ack_op(messages[1], "retry", error="other"), ack_op(messages[0], "dlq", error=""))
    messages = api.pop(q)["messages"]
    api.commit(ack_op(messages[0], "dlq", error=7))
    assert [row[:2] for row in dead(api, q)] == [("t0", "own"), ("t1", "other"), ("t2", "Retries exhausted")]


def test_dead_letters_of_several_lanes_and_groups(pg_api, q):
    api = pg_api
    for lane in "ab":
        api.send(q, f"{lane}0", f"{lane}1", partition=lane)
    popped = [api.pop(q, lane, consumerGroup=group, subscriptionMode="all")["messages"]
              for group in ("g1", "g2") for lane in "ab"]
    results = api.commit(*[ack_op(messages[0], "dlq") for messages in popped])
    assert [result["dlq"] for result in results] == [True] * 4
    assert sorted(row[0] for row in dead(api, q)) == ["a0", "a0", "b0", "b0"]
    for group in ("g1", "g2"):
        assert sorted(api.popped(q, consumerGroup=group, partitions=2)) == ["a1", "b1"]


@pytest.mark.parametrize("spoiled_by", ["duplicate", "ghost", "fence"])
def test_a_rollback_files_nothing(pg_api, name, spoiled_by):
    api, q, sink = pg_api, name(), name()
    api.send(sink, "x")
    messages = batch_of(api, q, 2)
    spoiler = {"duplicate": push_op(sink, "x"), "ghost": {**ack_op(messages[1]), "transactionId": "ghost"},
               "fence": push_op(sink, "y")}[spoiled_by]
    leases = [messages[0]["leaseId"]] + ([NOBODY] if spoiled_by == "fence" else [])
    for operations in ([ack_op(messages[0], "dlq"), spoiler], [spoiler, ack_op(messages[0], "dlq")]):
        assert api.transact(*operations, leases=leases)["success"] is False
    assert dead(api, q) == [] and api.queue(q)["partitions"][0]["stats"]["deadLetter"] == 0
    assert api.ack(messages[0], "dlq")["dlq"] is True and len(dead(api, q)) == 1


def test_a_poison_whose_segment_is_damaged(pg_api, name):
    """Its dead letter, the answer and the rest of the call agree, and the lane goes on."""
    api, q, sink = pg_api, name(), name()
    api.broker.expect_error("event=segment.undecodable", f"queue={q} ")
    api.send(q, "t0")
    message = api.pop(q)["messages"][0]
    api.send(q, "t1")
    api.broker.psql("UPDATE queen.log_segments SET blob = '\\x07' WHERE base_offset = 0 AND partition_id = "
                    f"'{message['partitionId']}'")
    answer = api.transact(push_op(sink, "s"), ack_op(message, "dlq"), leases=[message["leaseId"]])
    assert answer["success"] is bool(dead(api, q)) is (api.queue_reply(sink).status == 200), answer
    api.ack(message, "retry")
    assert clock.eventually(lambda: api.popped(q), 10, "the message behind the damage") == ["t1"]
    assert len(dead(api, q)) == 1
