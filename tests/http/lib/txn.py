# SPDX-License-Identifier: Apache-2.0
"""What the suites about transactions share: leased batches, and how a refused ack reads."""
from .api import QUEUE_MODE

NOBODY = "00000000-0000-7000-8000-000000000000"


def batch_of(api, q, count, partition=None, **params):
    api.send(q, *[f"t{number}" for number in range(count)], partition=partition)
    return api.pop(q, partition, **params)["messages"]


def rejected(answer, text=None):
    """A rollback because of an ack; all such texts share a prefix."""
    assert (answer["success"], answer["reason"]) == (False, "ack_rejected"), answer
    assert answer["error"].startswith("QTXN ") and answer["error"].endswith("; transaction rolled back"), answer
    assert text is None or answer["error"] == text, answer
    return True


def failed_for(message, reason, group=QUEUE_MODE):
    return f'QTXN ack failed for partition {message["partitionId"]} group "{group}": {reason}; transaction rolled back'


def held(api, message):
    """The message's lease is as good as ever and nothing of its batch was settled: completing it does something."""
    result = api.ack(message)
    return result["success"] is True and result["noop"] is False
