# SPDX-License-Identifier: Apache-2.0
"""The functions of the schema, called the way a broker calls them."""
import hashlib

TENANT = "00000000-0000-0000-0000-000000000001"
OTHER = "00000000-0000-0000-0000-000000000002"
QUEUE_MODE = "__QUEUE_MODE__"
QUEUED, DUPLICATE, UNSEALED = 0, 1, 2
QUEUE, LANE, LABELS = 0, 1, 2
ALL, NEW, TIME = 0, 1, 2
TOOK, EMPTY, LEASED, BUSY, LATER, GONE = range(6)
COMPLETED, FAILED, RETRY, DLQ = range(4)
OUT = ["completed", "noop", "retried", "failed", "dead", "dropped", "redelivered", "rejected"]
VERDICTS = ["committed", "duplicate", "unsealed", "window", "fence", "not owned", "no consumer", "bad lease", "unknown",
            "no batch", "poisoned"]
WHY = ["ok", "bad lease", "no consumer", "unresolvable", "committed", "no batch"]

DEFAULTS = dict(priority=0, lease_time=300, retry_limit=3, retry_delay=1000, max_queue_size=0, ttl=3600,
                delayed_processing=0, window_buffer=0, retention_seconds=0, completed_retention_seconds=0,
                max_wait_time_seconds=0, min_pop_wait_time=0, dedup_window_seconds=3600, dead_letter_queue=True,
                dlq_after_max_retries=True, retention_enabled=False, encryption_enabled=False)


def hash_of(txn):
    return hashlib.md5(txn.encode()).digest()


class Broker:
    """A session with the calls; messages are named by transaction ids, blobs are made of them."""

    def __init__(self, session):
        self.db = session
        self.run, self.one = session.run, session.one

    def configure(self, queue, tenant=TENANT, namespace="", task="", **options):
        o = dict(DEFAULTS, **options)
        return self.run("SELECT * FROM queen.configure_queue_v1($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14,$15,$16,"
                        "$17,$18,$19,$20,$21)", tenant, queue, namespace, task, *[o[k] for k in DEFAULTS])[0]

    def push_lanes(self, lanes):
        """lanes: dictionaries with queue, partition, ids and what else differs from the defaults."""
        def column(key, default):
            return [lane.get(key, default) for lane in lanes]
        return self.run("SELECT * FROM queen.push_v1($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11)",
                        column("tenant", TENANT),
                        column("queue", "q"), column("partition", "p"), column("id", None),
                        [len(lane["ids"]) for lane in lanes],
                        [lane.get("raw", 100 * len(lane["ids"])) for lane in lanes], column("sealed", False),
                        [b"".join(hash_of(i) for i in lane["ids"]) for lane in lanes], column("verified", -1),
                        [lane.get("blob", ",".join(lane["ids"]).encode()) for lane in lanes], column("since", 0))

    def push(self, *ids, queue="q", partition="p", **more):
        return self.push_lanes([dict(more, queue=queue, partition=partition, ids=ids)])[0]

    def hashes(self, lane_id, after=-1, limit=1 << 20):
        """The page, with its rows as (base, hashes); None when the lane is gone."""
        rows = self.run("SELECT * FROM queen.hashes_v1($1,$2,$3)", lane_id, after, limit)
        for page in rows:
            page["rows"] = list(zip(page["base_offset"] or [], page["hashes"] or []))
        return rows[0] if rows else None

    def lane_id(self, queue="q", partition="p", tenant=TENANT):
        return self.one("SELECT p.id FROM queen.log_partitions p JOIN queen.queues q ON q.id = p.queue_id "
                        "WHERE q.tenant_id = $1 AND q.name = $2 AND p.name = $3", tenant, queue, partition)

    def register(self, group, queue="q", labels=None, mode=ALL, from_us=0, tenant=TENANT):
        namespace, task = labels or ("", "")
        return self.run("SELECT * FROM queen.register_v1($1,$2,$3,$4,$5,$6,$7,$8)", tenant, labels is not None, queue,
                        namespace, task, group, mode, from_us)[0]

    def claim_pops(self, pops, lease_async=True):
        def column(key, default):
            return [pop.get(key, default) for pop in pops]
        candidates = [(i, c) for i, pop in enumerate(pops) for c in pop.get("candidates", [])]
        rows = self.run("SELECT * FROM queen.claim_v1($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14,$15,$16,$17,$18,$19)",
                        column("tenant", TENANT), column("source", QUEUE), column("queue", "q"), column("partition", "p"),
                        column("namespace", ""), column("task", ""), column("group", "g"), column("mode", ALL),
                        column("from_us", 0), column("lease", "L"), column("lease_s", 0), column("budget", 100),
                        column("bytes", 1 << 24), column("lanes", 0), [c[0] for c in candidates],
                        [c[1] for c in candidates], lease_async, column("may_hold", False),
                        column("window_kept", False))
        out = []
        for row in rows:
            if row["kind"] == 0:
                assert row["pop"] == len(out)
                out.append(dict(contended=row["n"] == 1, next_due=row["at_us"], hold=row["count"],
                                ready=row["last_offset"], now=row["base_offset"], verdicts={}, lanes=[]))
            elif row["kind"] == 1:
                assert row["partition_id"] not in out[-1]["verdicts"]
                out[-1]["verdicts"][row["partition_id"]] = row
            elif row["kind"] == 2:
                assert row["lane"] == len(out[-1]["lanes"])
                out[-1]["lanes"].append(dict(row, slices=[]))
            else:
                lane = out[-1]["lanes"][row["lane"]]
                ids = row["blob"].decode().split(",")
                assert len(ids) == row["count"]
                lane["slices"].append(dict(row, ids=ids[row["first"]:row["first"] + row["take"]]))
        assert len(out) == len(pops)
        for pop in out:
            for lane in pop["lanes"]:
                assert len(lane["slices"]) == lane["count"]
                lane["ids"] = [i for s in lane["slices"] for i in s["ids"]]
        return out

    def claim(self, group="g", **pop):
        return self.claim_pops([dict(pop, group=group)])[0]

    def claim_lane(self, group="g", **pop):
        return self.claim(group, source=LANE, **pop)

    def ids(self, group="g", **pop):
        """What a pop delivers, lanes in order."""
        return [i for lane in self.claim(group, **pop)["lanes"] for i in lane["ids"]]

    def settle_lanes(self, lanes):
        items = [(i, txn, status) for i, lane in enumerate(lanes) for txn, status in lane["items"]]
        rows = self.run("SELECT * FROM queen.settle_v1($1,$2,$3,$4,$5,$6,$7)", [s.get("tenant", TENANT) for s in lanes],
                        [s["id"] for s in lanes], [s.get("group", "g") for s in lanes], [s.get("lease", "") for s in lanes],
                        [i[0] for i in items], b"".join(hash_of(i[1]) for i in items), [i[2] for i in items])
        assert [r["lane"] for r in rows] == list(range(len(lanes)))
        for row in rows:
            row["told"] = [(OUT[o], WHY[r]) for o, r in zip(row["outcomes"], row["reasons"])]
        return rows

    def settle(self, lane_id, *items, group="g", lease="L", tenant=TENANT):
        return self.settle_lanes([dict(id=lane_id, items=items, group=group, lease=lease, tenant=tenant)])[0]

    def transaction(self, pushes=(), acks=(), fence=(), borrow=False, hint="", letters=(), tenant=TENANT):
        """pushes as in push_lanes, with repeats; acks as in settle_lanes; letters: (lane, offset). A dictionary with the
        verdict's name, what it is about, and the rows by kind."""
        def column(rows, key, default):
            return [row.get(key, default) for row in rows]
        items = [(i, txn, status) for i, lane in enumerate(acks) for txn, status in lane["items"]]
        rows = self.run("SELECT * FROM queen.transaction_v1(%s)" % ",".join("$%d" % n for n in range(1, 28)), tenant,
                        column(pushes, "queue", "q"), column(pushes, "partition", "p"), column(pushes, "id", None),
                        [len(lane["ids"]) for lane in pushes], [100 * len(lane["ids"]) for lane in pushes],
                        column(pushes, "sealed", False), [b"".join(hash_of(i) for i in lane["ids"]) for lane in pushes],
                        column(pushes, "verified", -1), [",".join(lane["ids"]).encode() for lane in pushes],
                        column(pushes, "since", 0), column(pushes, "repeats", 0),
                        column(acks, "id", None), column(acks, "group", "g"), column(acks, "lease", ""),
                        [i[0] for i in items], b"".join(hash_of(i[1]) for i in items), [i[2] for i in items],
                        list(fence), borrow, hint, [lane for lane, _ in letters], [offset for _, offset in letters],
                        [None for _ in letters], ["txn" for _ in letters], [b"{}" for _ in letters],
                        ["why" for _ in letters])
        assert [row["kind"] for row in rows].count(0) == 1 and rows[-1]["kind"] == 0
        return dict(verdict=VERDICTS[rows[-1]["status"]], about=rows[-1]["lane"],
                    pushed=[row for row in rows if row["kind"] == 1], acked=[row for row in rows if row["kind"] == 2],
                    filed=[row for row in rows if row["kind"] == 3])

    def dead_letter(self, lane_id, offset, group="g", lease="L", count=1, tenant=TENANT, retries=0, kind=0):
        return self.run("SELECT * FROM queen.dead_letter_v1($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12)", [tenant], [lane_id],
                        [group], [lease], [offset], [count], [None], ["txn"], [b"\x00{not json"], ["why"], [retries],
                        [kind])[0]

    def cursor(self, lane_id, group="g"):
        return self.run("SELECT * FROM queen.log_consumers WHERE partition_id = $1 AND consumer_group = $2", lane_id,
                        group)[0]

    def expire(self, lane_id, group="g"):
        """Ends a lease by the clock."""
        self.run("UPDATE queen.log_consumers SET lease_expires_at = now() - interval '1 second' "
                 "WHERE partition_id = $1 AND consumer_group = $2", lane_id, group)

    def drop_before(self, lane_id, offset):
        """Retention of whole segments in front of an offset, as the sweep does it."""
        self.run("DELETE FROM queen.log_segments WHERE partition_id = $1 AND end_offset < $2", lane_id, offset)
        self.run("UPDATE queen.log_partitions p SET log_start = COALESCE((SELECT min(base_offset) FROM queen.log_segments s "
                 "WHERE s.partition_id = p.id), p.last_offset + 1) WHERE p.id = $1", lane_id)
