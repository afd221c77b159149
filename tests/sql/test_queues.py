# SPDX-License-Identifier: Apache-2.0
"""Leases given back or extended, configuration, deletion, listings, and applying the schema twice and at once."""
import subprocess
import threading
import time

from broker import COMPLETED, DEFAULTS, DLQ, FAILED, OTHER, TENANT
from conftest import ROLE, apply_schema


def test_extend_never_shortens_and_renews_all_lanes(b):
    for p in ("p1", "p2"):
        b.push("a", partition=p)
    b.claim(lease="L", lease_s=100)
    extend = "SELECT * FROM queen.extend_v1($1, $2, $3, '', '{}')"
    before = b.one("SELECT queen.to_us(min(lease_expires_at)) FROM queen.log_consumers")
    assert b.run(extend, TENANT, "L", 1)[0] == dict(renewed=2, expires_at_us=before)
    r = b.run(extend, TENANT, "L", 500)[0]
    assert r["renewed"] == 2 and 499_000_000 < r["expires_at_us"] - time.time_ns() // 1000 <= 500_000_000
    assert b.run(extend, TENANT, "none", 500)[0] == dict(renewed=0, expires_at_us=0)
    assert b.run(extend, OTHER, "L", 500)[0] == dict(renewed=0, expires_at_us=0)


def test_extend_looks_only_at_what_it_is_told(b):
    ids = [b.push("a", partition=p)["partition_id"] for p in ("p1", "p2", "p3")]
    b.claim(lease="L", lease_s=100)
    b.claim("h", lease="L", lease_s=100)
    extend = "SELECT renewed FROM queen.extend_v1($1, 'L', 500, $2, $3)"
    assert b.one(extend, TENANT, "g", ids[:2]) == 2
    expires = "SELECT lease_expires_at > now() + interval '400 seconds' AS late FROM queen.log_consumers ORDER BY 1"
    assert [r["late"] for r in b.run(expires)] == [False] * 4 + [True] * 2
    b.settle(ids[0], ("a", COMPLETED))
    assert b.one(extend, TENANT, "g", ids) == 2
    assert b.one(extend, TENANT, "other", ids) == 0
    assert b.one(extend, OTHER, "g", ids) == 0
    assert b.one(extend.replace("'L'", "'M'"), TENANT, "g", ids) == 0
    assert b.one(extend, TENANT, "", []) == 5


def test_extend_does_not_revive(b):
    lane = b.push("a")["partition_id"]
    b.claim_lane()
    b.expire(lane)
    assert b.run("SELECT * FROM queen.extend_v1($1,'L',60,'','{}')", TENANT)[0] == dict(renewed=0, expires_at_us=0)
    assert b.ids(source=1, lease="L2") == ["a"]


def test_release_is_as_if_the_claim_had_not_been(b):
    lane = b.push("a", "b")["partition_id"]
    b.claim_lane()
    b.settle(lane, ("a", FAILED))
    b.claim_lane(lease="L2")
    release = "SELECT * FROM queen.release_v1($1,'g',$2,$3)"
    assert b.one(release, OTHER, "L2", [lane]) == 0
    assert b.one(release, TENANT, "L1", [lane]) == 0
    assert b.one(release, TENANT, "L2", [lane]) == 1
    row = b.cursor(lane)
    assert (row["worker_id"], row["batch_end"], row["committed"], row["batch_retry_count"]) == (None, None, -1, 1)
    assert b.claim_lane()["lanes"][0]["n"] == 2, "one delivery had reached somebody"


def test_configure_replaces_everything(b):
    odd = {k: (not v if isinstance(v, bool) else v + 7) for k, v in DEFAULTS.items()}
    made = b.configure("q", namespace="n", task="t", **odd)
    assert made["created"]
    row = b.run("SELECT * FROM queen.queues")[0]
    assert {k: row[k] for k in odd} == odd and (row["namespace"], row["task"]) == ("n", "t")
    again = b.configure("q")
    assert again == dict(queue_id=made["queue_id"], created=False)
    row = b.run("SELECT * FROM queen.queues")[0]
    assert {k: row[k] for k in DEFAULTS} == DEFAULTS and (row["namespace"], row["task"]) == ("", "")


def test_delete_takes_everything_of_the_queue_only(b):
    for queue, tenant in (("q", TENANT), ("keep", TENANT), ("q", OTHER)):
        lane = b.push("a", "b", queue=queue, tenant=tenant)["partition_id"]
        b.register("g", queue=queue, tenant=tenant)
        b.claim(queue=queue, tenant=tenant)
        b.settle(lane, ("a", DLQ), tenant=tenant)
        b.dead_letter(lane, 0, tenant=tenant)
    tables = ("queues", "log_partitions", "log_segments", "log_txns", "log_consumers", "log_dlq", "consumer_groups_metadata")
    assert [b.one("SELECT count(*) FROM queen." + t) for t in tables] == [3] * 7
    assert b.one("SELECT * FROM queen.delete_queue_v1($1, 'q')", TENANT)
    assert [b.one("SELECT count(*) FROM queen." + t) for t in tables] == [2] * 7
    assert not b.one("SELECT * FROM queen.delete_queue_v1($1, 'q')", TENANT)
    assert b.push("c")["base_offset"] == 0


LIST = "SELECT * FROM queen.list_queues_v1($1,$2,$3,$4,$5,$6,$7,$8,true)"


def test_listing_filters_and_pages(b):
    for name in ("shop.a", "shop.b", "farm.a"):
        b.push("x", queue=name)
    b.push("x", queue="shop.c", tenant=OTHER)

    def names(namespace="", task="", search="", limit=-1, offset=0):
        return [r["name"] for r in b.run(LIST, TENANT, False, "", namespace, task, search, limit, offset)]
    assert names() == ["farm.a", "shop.b", "shop.a"], "newest first"
    assert names(namespace="shop") == ["shop.b", "shop.a"]
    assert names(task="a") == ["farm.a", "shop.a"]
    assert names(search="rm.") == ["farm.a"]
    assert names(search="%") == []
    assert (names(limit=1), names(limit=1, offset=1), names(limit=0)) == (["farm.a"], ["shop.b"], [])
    assert [r["name"] for r in b.run(LIST, TENANT, True, "shop.a", "no", "no", "no", 0, 5)] == ["shop.a"]
    assert b.run(LIST, TENANT, True, "shop.c", "", "", "", -1, 0) == []


def test_a_list_without_sizes_looks_at_no_segment(b):
    b.push("a")
    with_sizes = b.run(LIST, TENANT, True, "q", "", "", "", -1, 0)[0]
    without = b.run(LIST.replace("true", "false"), TENANT, True, "q", "", "", "", -1, 0)[0]
    assert (with_sizes["segments"], without["segments"], without["retained_bytes"]) == (1, 0, 0)
    assert without["messages"] == with_sizes["messages"] == 1


def test_counts(b):
    b.configure("q", namespace="n", lease_time=77)
    first = b.push("a", "b", "c")
    lane = first["partition_id"]
    last = b.push("d", "e")
    b.push("z", partition="quiet")
    for group, upto in (("fast", "e"), ("slow", "b")):
        b.claim_lane(group, lease=group)
        b.settle(lane, (upto, COMPLETED), group=group, lease=group)
    b.settle(lane, ("d", DLQ), group="slow", lease="slow")
    b.run("INSERT INTO queen.log_dlq (partition_id, consumer_group, \"offset\") VALUES ($1, 'slow', 0)", lane)
    q = b.run(LIST, TENANT, True, "q", "", "", "", -1, 0)[0]
    assert (q["namespace"], q["lease_time"], q["partitions"], q["segments"]) == ("n", 77, 2, 3)
    assert (q["messages"], q["pending"], q["processing"], q["retained_bytes"]) == (6, 4, 3, 5 + 3 + 1)
    p, quiet = b.run("SELECT * FROM queen.list_partitions_v1($1,'q')", TENANT)
    assert (p["id"], p["name"], p["total"], p["pending"], p["processing"], p["completed"], p["dead_letter"]) == (
        lane, "p", 5, 3, 3, 1, 1)
    assert (p["oldest_pending_at_us"], p["newest_at_us"]) == (first["created_at_us"], last["created_at_us"])
    assert (quiet["name"], quiet["total"], quiet["pending"]) == ("quiet", 1, 1)
    b.drop_before(lane, 5)
    p = b.run("SELECT * FROM queen.list_partitions_v1($1,'q')", TENANT)[0]
    assert (p["total"], p["pending"], p["processing"], p["oldest_pending_at_us"], p["newest_at_us"]) == (0, 0, 0, 0, 0)
    assert b.run("SELECT * FROM queen.list_partitions_v1($1,'q')", OTHER) == []


def test_the_schema_applies_again_over_data(b, server, database):
    b.push("a")
    apply_schema(server, database)
    assert b.ids() == ["a"]


def test_two_brokers_apply_the_schema_to_an_empty_database(server):
    server.admin("CREATE DATABASE empty OWNER %s" % ROLE)
    try:
        failures = []

        def apply():
            try:
                apply_schema(server, "empty", "SELECT pg_advisory_xact_lock(778120010)")
            except subprocess.CalledProcessError as e:
                failures.append(e)
        threads = [threading.Thread(target=apply) for _ in range(3)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert failures == []
        s = server.session("empty")
        assert s.one("SELECT count(*) FROM pg_proc WHERE pronamespace = 'queen'::regnamespace") > 12
        s.close()
    finally:
        server.admin("DROP DATABASE empty WITH (FORCE)")
