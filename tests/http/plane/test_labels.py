# SPDX-License-Identifier: Apache-2.0
"""GET /api/v1/resources/namespaces and /tasks: queues summed up by label, with live counts."""
import pytest

KINDS = {"namespace": "namespaces", "task": "tasks"}


def listed(api, kind):
    reply = api.call("GET", f"/api/v1/resources/{KINDS[kind]}")
    assert reply.status == 200, reply
    assert list(reply.json) == [KINDS[kind]]
    return reply.json[KINDS[kind]]


def row(api, kind, label):
    """The one row of the label, without its name; None when there is none."""
    rows = [r for r in listed(api, kind) if r[kind] == label]
    assert len(rows) <= 1, rows
    return {k: v for k, v in rows[0].items() if k != kind} if rows else None


def counts(queues, partitions, total, pending):
    return {"queues": queues, "partitions": partitions, "messages": {"total": total, "pending": pending}}


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


def labelled(kind, label):
    """Options of /configure, and a queue name from which a push derives the label."""
    return {kind: label}, f"{label}.x" if kind == "namespace" else f"any.{label}"


def test_a_label_sums_its_queues_up(api, name, kind):
    label, a, b = name("label"), name(), name()
    options, derived = labelled(kind, label)
    api.configure(a, **options)
    api.configure(b, **options)
    assert row(api, kind, label) == counts(2, 0, 0, 0)
    api.send(a, "m1", "m2")
    api.send(a, "m1", partition="other")
    api.send(b, "m1")
    api.send(derived, "m1")
    assert row(api, kind, label) == counts(3, 4, 5, 5)


def test_a_queue_that_was_only_pushed_to_is_counted(api, name, kind):
    label = name("label")
    derived = labelled(kind, label)[1]
    api.send(derived, "a", "b")
    api.send(derived, "a", partition="p")
    assert row(api, kind, label) == counts(1, 2, 3, 3)


def test_what_is_leased_or_done_is_not_pending(api, name, kind):
    label, q = name("label"), name()
    api.configure(q, **labelled(kind, label)[0])
    api.send(q, "a", "b", "c")
    popped = api.pop(q, batch=2)
    assert row(api, kind, label) == counts(1, 1, 3, 1)
    api.finish(popped)
    assert row(api, kind, label) == counts(1, 1, 3, 1)
    api.finish(api.pop(q, batch=2))
    assert row(api, kind, label) == counts(1, 1, 3, 0)


def test_a_changed_label_moves_the_queue(api, name, kind):
    old, new, q = name("label"), name("label"), name()
    api.configure(q, **labelled(kind, old)[0])
    api.send(q, "a")
    api.configure(q, **labelled(kind, new)[0])
    assert row(api, kind, old) is None
    assert row(api, kind, new) == counts(1, 1, 1, 1)


def test_a_deleted_queue_is_gone(api, name, kind):
    label, q = name("label"), name()
    api.configure(q, **labelled(kind, label)[0])
    api.delete(q)
    assert row(api, kind, label) is None


def test_labels_come_in_order_and_none_is_empty(api, name, kind):
    stem = name("label")
    for suffix in ("b", "B", "a", "é", "aa", "\""):
        api.configure(name(), **labelled(kind, stem + suffix)[0])
    api.configure(name())
    labels = [r[kind] for r in listed(api, kind)]
    assert labels == sorted(set(labels), key=lambda text: text.encode())
    assert [text[len(stem):] for text in labels if text.startswith(stem)] == ["\"", "B", "a", "aa", "b", "é"]
    assert "" not in labels


def test_head_and_other_methods(api, kind):
    path = f"/api/v1/resources/{KINDS[kind]}"
    head = api.call("HEAD", path)
    assert (head.status, head.body) == (200, b"")
    assert api.call("POST", path, {}).status == 405
