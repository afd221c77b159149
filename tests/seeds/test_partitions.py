# SPDX-License-Identifier: Apache-2.0
"""Partitions: made by the first push that names them, as many as wanted, told apart by their exact names."""
from lib.api import tids
from scene import lanes


def test_each_item_may_carry_a_partition(api, q):
    """The items of one body go to the partitions they name, in the order of the body."""
    api.push(*[{"queue": q, "partition": lane, "transactionId": tid, "payload": 1}
               for lane, tid in (("a", "a0"), ("b", "b0"), ("a", "a1"), ("c", "c0"))])
    assert [api.popped(q, lane) for lane in "abc"] == [["a0", "a1"], ["b0"], ["c0"]]


def test_an_omitted_partition_is_default(api, q):
    """Without a partition, or with null, a message goes to the partition Default."""
    api.push({"queue": q, "transactionId": "omitted", "payload": 1},
             {"queue": q, "transactionId": "null", "partition": None, "payload": 1},
             {"queue": q, "transactionId": "named", "partition": "Default", "payload": 1})
    assert list(lanes(api, q)) == ["Default"]
    assert api.popped(q, "Default") == ["omitted", "null", "named"]


def test_partition_names_are_opaque(api, q):
    """Nothing in a name means anything: case, dots, slashes, spaces and unicode forms all tell partitions apart."""
    opaque = ["a", "A", " a", "a ", "a.b", "a/b", "../a", "0", "00", "%61", "null", "\u00e9", "e\u0301", "", "*", "'\"\\"]
    api.push(*[{"queue": q, "partition": lane, "transactionId": f"in {lane}", "payload": 1} for lane in opaque])
    assert sorted(lanes(api, q)) == sorted(opaque)
    for lane in opaque:
        popped = api.pop(q, lane)
        assert (tids(popped), popped["partition"]) == ([f"in {lane}"], lane)


def test_identity_is_the_pair_of_queue_and_name(api, name):
    """The same name in two queues is two partitions with ids, offsets and cursors of their own."""
    a, b = name("a"), name("b")
    for queue in (a, b):
        api.send(queue, "m0", "m1", partition="same")
    first, second = api.pop(a, "same"), api.pop(b, "same")
    assert first["partitionId"] != second["partitionId"]
    assert [message["offset"] for popped in (first, second) for message in popped["messages"]] == [0, 1, 0, 1]
    assert {lane["id"] for lane in api.queue(a)["partitions"]} == {first["partitionId"]}


def test_the_example_request_creates_two_partitions(api, q):
    """One item with a partition, one without: cust-42 and Default."""
    api.push({"queue": q, "partition": "cust-42", "payload": {"id": 1}}, {"queue": q, "payload": {"id": 2}})
    assert sorted(lanes(api, q)) == ["Default", "cust-42"]
    assert [api.pop(q, lane)["messages"][0]["data"] for lane in ("cust-42", "Default")] == [{"id": 1}, {"id": 2}]


def test_the_set_of_partitions_grows_as_entities_appear(api, q):
    """There is no count to choose up front, neither by configure nor by the first push."""
    api.configure(q)
    for known in range(1, 30):
        api.send(q, f"m{known}", partition=f"device-{known}")
        assert len(lanes(api, q)) == known
