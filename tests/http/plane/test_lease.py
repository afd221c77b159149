# SPDX-License-Identifier: Apache-2.0
"""POST /lease/:leaseId/extend: never shortens, never revives, never refuses a body."""
import uuid

import pytest

from lib import clock

KEYS = {"leaseId", "success", "renewed", "newExpiresAt", "expiresAt", "lease_expires_at"}


def leased(api, q, **params):
    api.send(q, "m")
    return api.pop(q, **params)


def nothing(lease_id):
    return {"leaseId": lease_id, "success": False, "renewed": 0, "newExpiresAt": None, "expiresAt": None,
            "lease_expires_at": None}


def gained(popped, answer):
    return clock.parse(answer["newExpiresAt"]) - clock.parse(popped["messages"][0]["leaseExpiresAt"])


def test_answer_shape(api, q):
    popped = leased(api, q, leaseSeconds=10)
    answer = api.extend(popped["leaseId"], 120)
    assert set(answer) == KEYS
    assert (answer["leaseId"], answer["success"], answer["renewed"]) == (popped["leaseId"], True, 1)
    assert type(answer["renewed"]) is int
    assert answer["newExpiresAt"] == answer["expiresAt"] == answer["lease_expires_at"]
    assert 110 <= gained(popped, answer) < 125


def test_it_never_shortens(api, q):
    popped = leased(api, q, leaseSeconds=600)
    answer = api.extend(popped["leaseId"], 5)
    assert (answer["success"], answer["renewed"]) == (True, 1)
    assert answer["newExpiresAt"] == popped["messages"][0]["leaseExpiresAt"]


@pytest.mark.parametrize("body", [None, b"", b"{}", b"not json", b"[]", b"null", b'{"seconds":null}',
                                  b'{"seconds":"x"}', b'{"seconds":1.5}', b'{"seconds":99999999999}',
                                  b'{"other":1}', b"\xff"])
def test_sixty_seconds_whatever_the_body_says(api, q, body):
    popped = leased(api, q, leaseSeconds=1)
    answer = api.extend(popped["leaseId"], body)
    assert answer["success"] is True, answer
    assert 58 <= gained(popped, answer) < 65


@pytest.mark.parametrize("seconds", [0, -5])
def test_values_below_one_act_as_one(api, q, seconds):
    popped = leased(api, q, leaseSeconds=1)
    answer = api.extend(popped["leaseId"], seconds)
    assert answer["success"] is True
    assert 0 <= gained(popped, answer) < 1.5


def test_one_call_renews_every_partition(api, q):
    for lane in "abc":
        api.send(q, lane, partition=lane)
    popped = api.pop(q, partitions=3, leaseSeconds=20)
    answer = api.extend(popped["leaseId"], 200)
    assert answer["renewed"] == 3
    message = popped["messages"][0]
    assert api.ack(message)["leaseReleased"] is True
    assert api.extend(popped["leaseId"], 300)["renewed"] == 2


def test_the_broker_that_granted_a_lease_looks_at_its_lanes_only(pg_api, name):
    """A cursor that carries the same lease and was not part of the pop would be found by a search."""
    api, q, other = pg_api, name(), name()
    lease_id, stray = leased(api, q)["leaseId"], leased(api, other)["leaseId"]
    api.broker.psql(f"UPDATE queen.log_consumers SET worker_id = '{lease_id}' WHERE worker_id = '{stray}'")
    assert api.extend(lease_id, 500)["renewed"] == 1
    assert api.extend(stray, 500) == nothing(stray)


@pytest.mark.parametrize("lease_id", ["00000000-0000-7000-8000-000000000000", "garbage", "a/b", "é", "x" * 300, "%"])
def test_unknown_leases(api, lease_id):
    assert api.extend(lease_id, 60) == nothing(lease_id)
    assert api.extend(str(uuid.uuid4()), None)["renewed"] == 0


def test_a_released_lease_is_unknown(api, q):
    popped = leased(api, q)
    api.finish(popped)
    assert api.extend(popped["leaseId"], 60) == nothing(popped["leaseId"])
    popped = leased(api, q + "x")
    api.ack(popped["messages"][0], "retry")
    assert api.extend(popped["leaseId"], 60)["success"] is False


def test_a_lease_of_a_deleted_queue_is_unknown(api, q):
    popped = leased(api, q)
    api.delete(q)
    assert api.extend(popped["leaseId"], 60)["renewed"] == 0


@pytest.mark.slow
def test_an_extended_lease_lasts_and_an_expired_one_stays_dead(slow_api, name):
    api = slow_api
    kept, lost = name(), name()
    watch = clock.Watch()
    held, expired = leased(api, kept, leaseSeconds=1), leased(api, lost, leaseSeconds=1)
    assert api.extend(held["leaseId"], 30)["success"] is True
    watch.sleep_until(1.4)
    assert api.pop(kept) is None
    assert api.extend(expired["leaseId"], 30) == nothing(expired["leaseId"])
    assert api.popped(lost) == ["m"]
    result = api.ack(held["messages"][0])
    assert (result["success"], result["leaseReleased"]) == (True, True)


def test_the_popped_expiry_and_the_extension_agree(api, q):
    popped = leased(api, q, leaseSeconds=100)
    answer = api.extend(popped["leaseId"], 1)
    assert answer["newExpiresAt"] == popped["messages"][0]["leaseExpiresAt"]
