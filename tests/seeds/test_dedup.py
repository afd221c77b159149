# SPDX-License-Identifier: Apache-2.0
"""dedupWindowSeconds: what a repeat is, what it leaves behind, how the window is changed, and its zero."""
import pytest

from lib import clock
from lib.api import tids
from lib.fixtures import CROSS
from scene import names, one, partition_of, scene


def test_deduplication_is_on_by_default(api, name):
    """In a queue that a push made, that a pop made, and that configure made without the option."""
    pushed, popped, configured = name("pushed"), name("popped"), name("configured")
    api.pop(popped)
    api.configure(configured)
    for queue in (pushed, popped, configured):
        assert [one(api, queue, "x")["status"] for _ in range(2)] == ["queued", "duplicate"]


def test_a_repeat_reports_duplicate_with_the_original_messages_id(api, q):
    """However often, whatever its payload, consumed or not."""
    original = one(api, q, "x")
    for payload in (1, "another", None):
        again = one(api, q, "x", payload=payload)
        assert (again["status"], again["message_id"]) == ("duplicate", original["message_id"])
    api.finish(api.pop(q))
    again = one(api, q, "x")
    assert (again["status"], again["message_id"]) == ("duplicate", original["message_id"])


def test_a_repeat_is_one_of_the_same_partition_only(api, name):
    """The same id in another partition, or in another queue, is another message."""
    a, b = name("a"), name("b")
    results = [one(api, a, "x", "p"), one(api, a, "x", "q"), one(api, b, "x", "p"), one(api, a, "x", "p")]
    assert [result["status"] for result in results] == ["queued", "queued", "queued", "duplicate"]
    assert results[3]["message_id"] == results[0]["message_id"]


def test_a_duplicate_writes_nothing_at_all(pg_api, q):
    """No segment, no hashes, no offset: the rows are the same and the next message follows directly."""
    api = pg_api
    one(api, q, "x")

    def state():
        where = f"partition_id IN {partition_of(q)}"
        return [api.broker.psql(sql) for sql in (
            f"SELECT ctid, xmin, base_offset FROM queen.log_segments WHERE {where}",
            f"SELECT ctid, xmin, base_offset FROM queen.log_txns WHERE {where}",
            f"SELECT last_offset FROM queen.log_partitions WHERE id IN {partition_of(q)}")]

    before = state()
    assert one(api, q, "x")["status"] == "duplicate"
    assert state() == before


def test_a_duplicate_takes_no_offset(api, q):
    """Offsets are without a gap although repeats stood between the messages."""
    for tid in ("a", "a", "b", "a", "b", "c"):
        one(api, q, tid)
    assert [(message["transactionId"], message["offset"]) for message in api.pop(q)["messages"]] == \
        [("a", 0), ("b", 1), ("c", 2)]


@pytest.mark.parametrize("window", [0, -1])
def test_zero_turns_it_off_completely(api, q, window):
    """Every copy is stored, inside one body as well (decisions 13); a negative window is a zero (decisions 11)."""
    assert api.configure(q, dedupWindowSeconds=window)["options"]["dedupWindowSeconds"] == 0
    one_body = api.push(*[{"queue": q, "transactionId": "x", "payload": 1}] * 3)
    assert [result["status"] for result in one_body] == ["queued"] * 3
    assert one(api, q, "x")["status"] == "queued", "a client's retry duplicates the message"
    assert tids(api.pop(q)) == ["x"] * 4


@pytest.mark.parametrize("omitted", [{}, {"dedupWindowSeconds": None}, {"leaseTime": 30}])
def test_only_an_explicit_zero_turns_it_off(api, q, omitted):
    """A later configure that does not say zero turns it on again."""
    api.configure(q, dedupWindowSeconds=0)
    assert api.configure(q, **omitted)["options"]["dedupWindowSeconds"] == 3600
    assert [one(api, q, "x")["status"] for _ in range(2)] == ["queued", "duplicate"]


def test_the_window_stands_on_the_queues_row_and_in_the_answer(pg_api, q):
    """Like every other option."""
    assert pg_api.configure(q, dedupWindowSeconds=1234)["options"]["dedupWindowSeconds"] == 1234
    assert pg_api.broker.psql(f"SELECT dedup_window_seconds FROM queen.queues WHERE name = '{q}'") == [("1234",)]


@pytest.fixture(scope="module", params=CROSS)
def windows(request, brokers):
    """Queues with windows of one second that have passed; two were widened, one narrowed, at the end."""
    name = names("dedup")
    with scene(brokers, request.param) as api:
        queues = {what: name(what) for what in ("short", "long", "widened", "narrowed")}
        originals = {}
        for what, queue in queues.items():
            api.configure(queue, dedupWindowSeconds=2 if what in ("short", "widened") else 3600)
            originals[what] = one(api, queue, "x")
        watch = clock.Watch()
        watch.sleep_until(3)
        # A push that expires what has passed, in whatever memory the broker keeps.
        for queue in queues.values():
            one(api, queue, "another")
        api.configure(queues["widened"], dedupWindowSeconds=3600)
        api.configure(queues["narrowed"], dedupWindowSeconds=2)
        repeats = {what: one(api, queue, "x") for what, queue in queues.items()}
        yield originals, repeats


def test_within_the_window_a_repeat_is_recognised(windows):
    """After three seconds of an hour."""
    originals, repeats = windows
    assert (repeats["long"]["status"], repeats["long"]["message_id"]) == ("duplicate", originals["long"]["message_id"])


def test_past_the_window_a_repeat_is_a_new_message(windows):
    """After three seconds of two."""
    originals, repeats = windows
    assert repeats["short"]["status"] == "queued"
    assert repeats["short"]["message_id"] != originals["short"]["message_id"]


def test_widening_the_window_brings_expired_hashes_back(windows):
    """A message older than the old window and younger than the new one is known again, at once."""
    originals, repeats = windows
    assert (repeats["widened"]["status"], repeats["widened"]["message_id"]) == \
        ("duplicate", originals["widened"]["message_id"])


def test_narrowing_the_window_acts_at_once(windows):
    """A message older than the new window is no longer known."""
    _, repeats = windows
    assert repeats["narrowed"]["status"] == "queued"


def test_an_exhausted_cache_falls_back_to_the_full_probe(pg_scan, q):
    """With one megabyte for more hashes than fit every repeat is found all the same, in the lanes that did not fit."""
    api = pg_scan
    bodies = [[{"queue": q, "partition": f"lane {lane}", "transactionId": f"t{number}", "payload": 1}
               for number in range(2500)] for lane in range(40)]
    for body in bodies:
        assert {result["status"] for result in api.push(*body)} == {"queued"}
    for body in bodies:
        again = api.push(*[body[0], body[-1], {**body[0], "transactionId": "new"}])
        assert [result["status"] for result in again] == ["duplicate", "duplicate", "queued"]
