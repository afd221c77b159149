# SPDX-License-Identifier: Apache-2.0
"""For how long an ack can be resolved: while the hashes of its partition are kept, which deduplication, completed
retention and a floor of 900 seconds decide. Hashes are aged in the database, after their messages were consumed.
"""
import pytest

from lib import clock
from lib.api import ack_item
from scene import FURNISHED, PATIENCE, cycles, names, one, partition_of, rows, scene

# The larger of dedupWindowSeconds, completedRetentionSeconds and 900 s: (options, age, whether it can be resolved).
CASES = {"at 800 s with a window of one second": ({"dedupWindowSeconds": 1}, 800, True),
         "at 800 s with a window of zero": ({"dedupWindowSeconds": 0}, 800, True),
         "at 1000 s with a window of one second": ({"dedupWindowSeconds": 1}, 1000, False),
         "at 1000 s with a window of zero": ({"dedupWindowSeconds": 0}, 1000, False),
         "at 1000 s with a window of 2000": ({"dedupWindowSeconds": 2000}, 1000, True),
         "at 1000 s with a window shrunk from 2000": ({"dedupWindowSeconds": 950}, 1000, False),
         "at 1000 s with a completed retention of 2000":
         ({"dedupWindowSeconds": 1, "completedRetentionSeconds": 2000}, 1000, True)}
KEPT = [what for what, (_, _, kept) in CASES.items() if kept]
PURGED = [what for what, (_, _, kept) in CASES.items() if not kept]


@pytest.fixture(scope="module")
def late(brokers):
    """Consumed messages whose hashes were aged, after the maintenance came round."""
    name = names("late")
    with scene(brokers, ("pg", "h1"), **FURNISHED) as api:
        queues, messages = {}, {}
        for what, (_, seconds, _) in CASES.items():
            queue = queues[what] = name()
            api.configure(queue, dedupWindowSeconds=2000)
            api.send(queue, "m")
            popped = api.pop(queue)
            messages[what] = popped["messages"][0]
            api.finish(popped)
            past = f"- interval '{seconds} seconds'"
            api.broker.psql(f"UPDATE queen.log_txns SET created_at = created_at {past} "
                            f"WHERE partition_id IN {partition_of(queue)}")
            api.broker.psql(f"UPDATE queen.log_partitions SET oldest_txn_at = oldest_txn_at {past} "
                            f"WHERE id IN {partition_of(queue)}")
        for what, (options, _, _) in CASES.items():
            api.configure(queues[what], **options)
        for what in PURGED:
            clock.eventually(lambda queue=queues[what]: rows(api, "log_txns", queue) == 0, PATIENCE,
                             f"hashes are purged {what}")
        cycles(api, name)
        yield api, queues, messages


@pytest.mark.parametrize("what", KEPT)
def test_an_ack_can_be_resolved(late, what):
    """Within the larger of the deduplication window, the completed retention and 900 seconds: a known message."""
    api, _, messages = late
    result = api.acks([ack_item(messages[what], leaseId=None)])[0]
    assert (result["success"], result["noop"]) == (True, True)


@pytest.mark.parametrize("what", PURGED)
def test_past_it_the_ack_is_unresolvable_instead_of_succeeding(late, what):
    """The late ack is reported as what it is; a shrunk window shortens the time, too."""
    api, _, messages = late
    result = api.acks([ack_item(messages[what], leaseId=None)])[0]
    assert (result["success"], result["noop"]) == (False, False)
    assert "unresolvable" in result["error"]


def test_a_purged_hash_is_no_duplicate_any_more(late):
    """What the sidecar forgot is a new message, what it knows within the window is not."""
    api, queues, _ = late
    assert one(api, queues["at 1000 s with a window of one second"], "m")["status"] == "queued"
    assert one(api, queues["at 1000 s with a window of 2000"], "m")["status"] == "duplicate"
