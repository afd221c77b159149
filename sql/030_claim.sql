-- SPDX-License-Identifier: Apache-2.0
--
-- Claim: several pops in one call. Candidates are judged without locks, as many as the budgets need are locked with
-- SKIP LOCKED (nothing ever waits for another claim or for an acknowledgement), and one statement decides from
-- segment metadata what each pop gets, moves the cursors and fetches the blobs of what is delivered, all in the
-- snapshot that the locks preceded. Retention may leave gaps; delivery goes on at the next segment.
-- Verdict numbers: 0 took, 1 empty, 2 leased, 3 busy, 4 later, 5 gone. Pops count from 1 inside, from 0 outside.

-- Lanes with messages for the pops that brought no candidates. src 1: a lane by name; 2: found by looking at the lanes
-- written since the group last found its queue empty. Of lanes not claimable now, the one due first is included.
CREATE OR REPLACE FUNCTION queen.claim_scan(p_pops int4[], p_tenant uuid[], p_from int4[], p_queue text[],
	p_partition text[], p_namespace text[], p_task text[], p_group text[], p_max_lanes int4[], p_now timestamptz)
RETURNS TABLE (pop int4, id uuid, src int4)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
	v_pop int4[];
	v_queue uuid[];
	v_since timestamptz[];
	v_due bool[];
	v_found_pop int4[];
	v_found_queue uuid[];
	v_found_id uuid[];
BEGIN
	RETURN QUERY
	SELECT k, p.id, 1
	FROM unnest(p_pops) k
	JOIN queen.queues q ON q.tenant_id = p_tenant[k] AND q.name = p_queue[k]
	JOIN queen.log_partitions p ON p.queue_id = q.id AND p.name = p_partition[k]
	WHERE p_from[k] = 1;

	SELECT array_agg(s.k), array_agg(s.id), array_agg(COALESCE(w.last_empty_scan_at, 'epoch') - interval '2 minutes'),
		array_agg(COALESCE(w.updated_at, 'epoch') <= p_now - interval '30 seconds')
	INTO v_pop, v_queue, v_since, v_due
	FROM (SELECT k, q.id
		FROM unnest(p_pops) k
		JOIN queen.queues q ON q.tenant_id = p_tenant[k] AND q.name = p_queue[k]
		WHERE p_from[k] = 0
		UNION ALL
		SELECT k, q.id
		FROM unnest(p_pops) k
		JOIN queen.queues q ON q.tenant_id = p_tenant[k]
			AND (p_namespace[k] = '' OR q.namespace = p_namespace[k]) AND (p_task[k] = '' OR q.task = p_task[k])
		WHERE p_from[k] = 2) s
	LEFT JOIN queen.consumer_watermarks w ON w.queue_id = s.id AND w.consumer_group = p_group[s.k];

	SELECT array_agg(r.pop), array_agg(r.queue_id), array_agg(r.id)
	INTO v_found_pop, v_found_queue, v_found_id
	FROM (SELECT f.*, row_number() OVER (PARTITION BY f.pop, f.state ORDER BY f.due, random()) AS rank
		FROM (SELECT s.pop, s.queue_id, l.id, l.due, (l.due > p_now) AS state
			FROM unnest(v_pop, v_queue, v_since) s (pop, queue_id, since)
			CROSS JOIN LATERAL (
				SELECT p.id, GREATEST(p_now,
					CASE WHEN c.worker_id IS NOT NULL THEN c.lease_expires_at END,
					CASE WHEN q.window_buffer > 0 THEN p.newest_at + q.window_buffer * interval '1 second' END,
					CASE WHEN q.delayed_processing > 0
						THEN p.oldest_live_at + q.delayed_processing * interval '1 second' END) AS due
				FROM queen.log_partitions p
				JOIN queen.queues q ON q.id = p.queue_id
				LEFT JOIN queen.log_consumers c ON c.partition_id = p.id AND c.consumer_group = p_group[s.pop]
				WHERE p.queue_id = s.queue_id AND p.last_write_at >= s.since
					AND p.last_offset > GREATEST(COALESCE(c.committed, -1), p.log_start - 1)
				OFFSET 0) l) f) r
	WHERE r.rank <= CASE WHEN r.state THEN 1
		WHEN p_max_lanes[r.pop] <= 0 OR p_max_lanes[r.pop] >= 128 THEN 512
		ELSE LEAST(GREATEST(p_max_lanes[r.pop] * 4, 64), 512) END;

	-- Nothing at all, whatever leases and delays say: the next scans need not look at these lanes again.
	IF true = ANY (v_due) THEN
		INSERT INTO queen.consumer_watermarks (queue_id, consumer_group, last_empty_scan_at, updated_at)
		SELECT e.queue_id, e.grp, p_now, p_now
		FROM (SELECT DISTINCT s.queue_id, p_group[s.pop] COLLATE "C" AS grp
			FROM unnest(v_pop, v_queue, v_due) s (pop, queue_id, due)
			WHERE s.due AND s.queue_id NOT IN (SELECT unnest(v_found_queue))
				AND EXISTS (SELECT 1 FROM queen.queues q WHERE q.id = s.queue_id FOR KEY SHARE)) e
		ORDER BY e.queue_id, e.grp
		ON CONFLICT (queue_id, consumer_group) DO UPDATE
		SET last_empty_scan_at = GREATEST(consumer_watermarks.last_empty_scan_at, excluded.last_empty_scan_at),
			updated_at = excluded.updated_at
		WHERE consumer_watermarks.updated_at <= p_now - interval '30 seconds';
	END IF;

	RETURN QUERY SELECT f.pop, f.id, 2 FROM unnest(v_found_pop, v_found_id) f (pop, id);
END
$$;

-- Cursors for lanes that a group meets for the first time. Who loses the race for one leaves it to the winner: the
-- locks are 64 per (queue, group), so that a first contact with many lanes cannot fill the lock table.
CREATE OR REPLACE FUNCTION queen.claim_seed(p_id uuid[], p_group text[], p_from timestamptz[]) RETURNS void
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off
AS $$
BEGIN
	INSERT INTO queen.log_consumers (partition_id, consumer_group, committed)
	SELECT l.id, l.grp, l.seed
	FROM (SELECT p.id, a.grp,
			queen.start_cursor(p.id, p.last_offset, p.log_start, p.newest_at,
				CASE WHEN a.grp = '__QUEUE_MODE__' THEN 'epoch'
					ELSE COALESCE(queen.registered_start(q.tenant_id, a.grp, q.id, q.namespace, q.task), a.since) END) AS seed
		FROM (SELECT DISTINCT ON (u.id, u.grp COLLATE "C") u.id, u.grp COLLATE "C" AS grp, u.since
			FROM unnest(p_id, p_group, p_from) u (id, grp, since)
			ORDER BY u.id, u.grp COLLATE "C") a
		JOIN queen.log_partitions p ON p.id = a.id
		JOIN queen.queues q ON q.id = p.queue_id
		WHERE pg_try_advisory_xact_lock(hashtext(q.id::text || '/' || a.grp), hashtext(p.id::text) & 63)
		ORDER BY p.id, a.grp
		FOR KEY SHARE OF p) l
	ON CONFLICT DO NOTHING;
END
$$;

-- What each candidate is worth to its pop, without locks. kind: a verdict, or -1 to be locked, or -2 without a cursor.
-- hold: for how many ms the pop may be held back while its batch is not full, as far as the lane's queue is concerned.
CREATE OR REPLACE FUNCTION queen.claim_judge(p_pop int4[], p_id uuid[], p_src int4[], p_tenant uuid[], p_queue text[],
	p_group text[], p_budget int4[], p_max_lanes int4[], p_may_hold bool[], p_window_kept bool[],
	p_now timestamptz)
RETURNS TABLE (pop int4, id uuid, ord int4, given bool, kind int4, until timestamptz, hold int4)
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off
AS $$
BEGIN
	RETURN QUERY
	WITH seen AS MATERIALIZED (
		SELECT a.pop, a.id, a.ord::int4 AS ord, a.src = 0 AS given, l.pending, x.until,
			CASE WHEN p_may_hold[a.pop] THEN l.min_pop_wait_time ELSE 0 END AS hold,
			CASE
				WHEN l.lane IS NULL THEN 5
				WHEN l.committed IS NULL THEN -2
				WHEN l.pending <= 0 THEN 1
				WHEN l.leased_until > p_now THEN 2
				WHEN x.until > p_now THEN 4
				ELSE -1
				END AS kind,
			l.leased_until
		FROM unnest(p_pop, p_id, p_src) WITH ORDINALITY a (pop, id, src, ord)
		LEFT JOIN LATERAL (
			SELECT p.id AS lane, p.newest_at, q.window_buffer, q.delayed_processing, q.min_pop_wait_time, c.committed,
				p.last_offset - GREATEST(c.committed, p.log_start - 1) AS pending,
				CASE WHEN c.worker_id IS NOT NULL THEN c.lease_expires_at END AS leased_until
			FROM queen.log_partitions p
			JOIN queen.queues q ON q.id = p.queue_id
			LEFT JOIN queen.log_consumers c ON c.partition_id = p.id AND c.consumer_group = p_group[a.pop]
			WHERE p.id = a.id AND q.tenant_id = p_tenant[a.pop] AND (a.src <> 0 OR q.name = p_queue[a.pop])
			OFFSET 0) l ON true
		LEFT JOIN LATERAL (
			SELECT GREATEST(
				CASE WHEN l.window_buffer > 0 AND NOT (a.src = 0 AND p_window_kept[a.pop])
					THEN l.newest_at + l.window_buffer * interval '1 second' END,
				CASE WHEN l.delayed_processing > 0 AND l.pending > 0 THEN
					(SELECT s.created_at FROM queen.log_segments s
					WHERE s.partition_id = l.lane AND s.end_offset > l.committed
						AND s.base_offset >= COALESCE((SELECT b.base_offset FROM queen.log_segments b
							WHERE b.partition_id = l.lane AND b.base_offset <= l.committed + 1
							ORDER BY b.base_offset DESC LIMIT 1), l.committed + 1)
					ORDER BY s.base_offset LIMIT 1) + l.delayed_processing * interval '1 second' END) AS until
			OFFSET 0) x ON true
	), single AS (
		SELECT s.*, row_number() OVER (PARTITION BY s.id, p_group[s.pop], s.kind = -1 ORDER BY random()) AS nth FROM seen s
	), ranked AS (
		SELECT s.*,
			row_number() OVER (PARTITION BY s.pop, s.kind = -1 AND s.nth = 1 ORDER BY s.ord) AS rank,
			sum(s.pending) OVER (PARTITION BY s.pop, s.kind = -1 AND s.nth = 1 ORDER BY s.ord) - s.pending AS before
		FROM single s
	)
	SELECT r.pop, r.id, r.ord, r.given,
		CASE
			WHEN r.kind <> -1 THEN r.kind
			WHEN r.nth > 1 OR r.before >= p_budget[r.pop] OR (p_max_lanes[r.pop] > 0 AND r.rank > p_max_lanes[r.pop]) THEN 3
			ELSE -1
			END,
		CASE r.kind WHEN 2 THEN r.leased_until WHEN 4 THEN r.until END, r.hold
	FROM ranked r;
END
$$;

-- Pops that are to wait for a fuller batch, and what they could take now.
CREATE OR REPLACE FUNCTION queen.claim_held(p_pop int4[], p_id uuid[], p_kind int4[], p_hold int4[], p_group text[],
	p_budget int4[])
RETURNS TABLE (pop int4, hold int4, ready int8)
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off
AS $$
BEGIN
	RETURN QUERY
	SELECT h.*
	FROM (SELECT a.pop, min(a.hold) AS hold, sum(p.last_offset - GREATEST(c.committed, p.log_start - 1))::int8 AS ready
		FROM unnest(p_pop, p_id, p_kind, p_hold) a (pop, id, kind, hold)
		JOIN queen.log_partitions p ON p.id = a.id
		JOIN queen.log_consumers c ON c.partition_id = a.id AND c.consumer_group = p_group[a.pop]
		WHERE a.kind = -1
		GROUP BY a.pop) h
	WHERE h.hold > 0 AND h.ready < p_budget[h.pop];
END
$$;

CREATE OR REPLACE FUNCTION queen.claim_v1(
	p_tenant uuid[], p_from int4[], p_queue text[], p_partition text[], p_namespace text[], p_task text[],
	p_group text[], p_start_mode int4[], p_start_us int8[], p_lease_id text[], p_lease_s int4[], p_budget int4[],
	p_budget_bytes int8[], p_max_lanes int4[], p_cand_pop int4[], p_cand_id uuid[], p_lease_async bool,
	p_may_hold bool[], p_window_kept bool[])
RETURNS TABLE (kind int4, pop int4, lane int4, partition_id uuid, queue text, partition text, first_offset int8,
	batch_end int8, last_offset int8, at_us int8, n int4, base_offset int8, count int4, first int4, take int4,
	blob bytea)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
	v_pops CONSTANT int4 := cardinality(p_tenant);
	v_now CONSTANT timestamptz := clock_timestamp();
	v_pop int4[];
	v_id uuid[];
	v_src int4[];
	v_scan int4[];
	v_held int4[];
	v_hold int4[];
	v_ready int8[];
	j record;
	k record;
BEGIN
	IF p_lease_async AND NOT ('' = ANY (p_lease_id)) THEN
		-- A lease lost in a crash is a redelivery, which is allowed; an automatic acknowledgement must not be lost.
		PERFORM set_config('synchronous_commit', 'off', true);
	END IF;

	SELECT array_agg(a.pop + 1 ORDER BY a.ord), array_agg(a.id ORDER BY a.ord), array_agg(0) INTO v_pop, v_id, v_src
	FROM unnest(p_cand_pop, p_cand_id) WITH ORDINALITY a (pop, id, ord);
	SELECT array_agg(g.i) INTO v_scan
	FROM generate_series(1, v_pops) g (i)
	WHERE p_from[g.i] <> 0 OR NOT (g.i - 1 = ANY (p_cand_pop));
	IF v_scan IS NOT NULL THEN
		SELECT v_pop || array_agg(s.pop), v_id || array_agg(s.id), v_src || array_agg(s.src) INTO v_pop, v_id, v_src
		FROM queen.claim_scan(v_scan, p_tenant, p_from, p_queue, p_partition, p_namespace, p_task, p_group, p_max_lanes,
			v_now) s;
	END IF;

	FOR v_try IN 1..2 LOOP
		SELECT array_agg(c.pop) AS pop, array_agg(c.id) AS id, array_agg(c.ord) AS ord, array_agg(c.given) AS given,
			array_agg(c.kind) AS kind, array_agg(c.until) AS until, array_agg(c.hold) AS hold
		INTO j
		FROM queen.claim_judge(v_pop, v_id, v_src, p_tenant, p_queue, p_group, p_budget, p_max_lanes, p_may_hold,
			p_window_kept, v_now) c;
		EXIT WHEN v_try = 2 OR NOT COALESCE(-2 = ANY (j.kind), false);
		PERFORM queen.claim_seed(array_agg(c.id), array_agg(p_group[c.pop]),
			array_agg(queen.start_time(p_group[c.pop], p_start_mode[c.pop], p_start_us[c.pop], 'infinity')))
		FROM unnest(j.pop, j.id, j.kind) c (pop, id, kind)
		WHERE c.kind = -2;
	END LOOP;
	IF 0 < ANY (j.hold) THEN
		SELECT array_agg(h.pop), array_agg(h.hold), array_agg(h.ready) INTO v_held, v_hold, v_ready
		FROM queen.claim_held(j.pop, j.id, j.kind, j.hold, p_group, p_budget) h;
		j.kind := (SELECT array_agg(CASE WHEN a.kind = -1 AND a.pop = ANY (v_held) THEN 3 ELSE a.kind END ORDER BY a.ord)
			FROM unnest(j.kind, j.pop) WITH ORDINALITY a (kind, pop, ord));
	END IF;

	SELECT array_agg(l.pop) AS pop, array_agg(l.ord) AS ord, array_agg(l.partition_id) AS id,
		array_agg(l.committed) AS committed, array_agg(l.attempt_offset) AS head, array_agg(l.attempt_count) AS attempts
	INTO k
	FROM (SELECT a.pop, a.ord, c.partition_id, c.committed, c.attempt_offset, c.attempt_count
		FROM unnest(j.pop, j.ord, j.id, j.kind) a (pop, ord, id, kind)
		JOIN queen.log_consumers c ON c.partition_id = a.id AND c.consumer_group = p_group[a.pop]
		WHERE a.kind = -1 AND (c.worker_id IS NULL OR c.lease_expires_at <= v_now)
		ORDER BY c.partition_id, c.consumer_group
		FOR NO KEY UPDATE OF c SKIP LOCKED) l;

	RETURN QUERY
	WITH locked AS MATERIALIZED (
		SELECT a.pop, a.ord, a.id, a.committed, a.head AS old_head, a.attempts, q.name AS queue, p.name AS partition,
			p.last_offset, q.delayed_processing * interval '1 second' AS delay,
			CASE WHEN q.delayed_processing > 0 THEN v_now - q.delayed_processing * interval '1 second' ELSE 'infinity' END
				AS visible, q.lease_time, h.base_offset AS head,
			h.created_at AS head_at, a.committed + 1 AS wanted
		FROM unnest(k.pop, k.ord, k.id, k.committed, k.head, k.attempts) a (pop, ord, id, committed, head, attempts)
		JOIN queen.log_partitions p ON p.id = a.id
		JOIN queen.queues q ON q.id = p.queue_id
		LEFT JOIN LATERAL (
			SELECT s.base_offset, s.created_at FROM queen.log_segments s
			WHERE s.partition_id = a.id AND s.end_offset > a.committed
				AND s.base_offset >= COALESCE((SELECT b.base_offset FROM queen.log_segments b
					WHERE b.partition_id = a.id AND b.base_offset <= a.committed + 1
					ORDER BY b.base_offset DESC LIMIT 1), a.committed + 1)
			ORDER BY s.base_offset LIMIT 1) h ON true
	), seg AS (
		SELECT l.*, s.base_offset, s.cnt, s.created_at, s.skip, s.cnt - s.skip AS usable, s.cost
		FROM locked l
		CROSS JOIN LATERAL (
			SELECT g.base_offset, g.end_offset - g.base_offset + 1 AS cnt, g.created_at,
				GREATEST(l.wanted - g.base_offset, 0) AS skip,
				g.raw_bytes / (g.end_offset - g.base_offset + 1) + 401 AS cost
			FROM queen.log_segments g
			WHERE g.partition_id = l.id AND g.base_offset >= l.head
				AND g.base_offset < GREATEST(l.head, l.wanted) + p_budget[l.pop]
				AND g.created_at <= l.visible
			OFFSET 0) s
	), slice AS MATERIALIZED (
		SELECT f.*, dense_rank() OVER (PARTITION BY f.pop ORDER BY f.ord)::int4 - 1 AS nth
		FROM (SELECT w.*, CASE WHEN w.rank = 1 THEN GREATEST(w.fits, 1) ELSE w.fits END AS take
			FROM (SELECT r.*, LEAST(r.usable, p_budget[r.pop] - r.before, (p_budget_bytes[r.pop] - r.before_bytes) / r.cost)
					AS fits
				FROM (SELECT g.*, row_number() OVER o AS rank, (sum(g.usable) OVER o)::int8 - g.usable AS before,
						(sum(g.usable * g.cost) OVER o)::int8 - g.usable * g.cost AS before_bytes
					FROM seg g
					WINDOW o AS (PARTITION BY g.pop ORDER BY g.ord, g.base_offset)) r) w) f
		WHERE f.take > 0
	), taken AS MATERIALIZED (
		SELECT t.*, CASE WHEN t.old_head > t.committed AND t.old_head <= t.starts THEN t.attempts + 1 ELSE 1 END AS attempt,
			v_now + CASE WHEN p_lease_s[t.pop] > 0 THEN p_lease_s[t.pop] WHEN t.lease_time > 0 THEN t.lease_time ELSE 60 END
				* interval '1 second' AS expires, p_lease_id[t.pop] AS lease_id
		FROM (SELECT s.pop, s.nth, s.id, s.queue, s.partition, s.committed, s.old_head, s.attempts, s.last_offset,
				s.lease_time, min(s.base_offset + s.skip) AS starts, max(s.base_offset + s.skip + s.take - 1) AS ends,
				sum(s.take)::int8 AS messages, count(*)::int4 AS slices
			FROM slice s
			GROUP BY s.pop, s.nth, s.id, s.queue, s.partition, s.committed, s.old_head, s.attempts, s.last_offset,
				s.lease_time) t
	), leased AS (
		UPDATE queen.log_consumers c
		SET batch_end = t.ends, worker_id = t.lease_id, lease_expires_at = t.expires, lease_acquired_at = v_now,
			attempt_offset = t.starts, attempt_count = t.attempt
		FROM taken t
		WHERE t.lease_id <> '' AND c.partition_id = t.id AND c.consumer_group = p_group[t.pop]
	), consumed AS (
		UPDATE queen.log_consumers c
		SET committed = t.ends, batch_end = NULL, worker_id = NULL, lease_expires_at = NULL, lease_acquired_at = NULL,
			batch_retry_count = 0, total_consumed = c.total_consumed + t.messages
		FROM taken t
		WHERE t.lease_id = '' AND c.partition_id = t.id AND c.consumer_group = p_group[t.pop]
	), sealed AS (
		-- Retention took everything: without this the lane would look like work for ever.
		UPDATE queen.log_consumers c
		SET committed = l.last_offset, batch_end = NULL, worker_id = NULL, lease_expires_at = NULL,
			lease_acquired_at = NULL
		FROM locked l
		WHERE l.head IS NULL AND l.last_offset > l.committed
			AND NOT EXISTS (SELECT 1 FROM queen.log_segments s WHERE s.partition_id = l.id)
			AND c.partition_id = l.id AND c.consumer_group = p_group[l.pop]
	), verdict AS MATERIALIZED (
		SELECT DISTINCT ON (v.pop, v.id) v.*
		FROM (SELECT 1 AS precedence, t.pop, t.id, true AS given, 0 AS kind,
				CASE WHEN t.lease_id <> '' THEN t.expires END AS until, false AS contended,
				t.last_offset, t.ends
			FROM taken t
			UNION ALL
			SELECT 2, l.pop, l.id, true, CASE WHEN l.head IS NULL THEN 1 WHEN l.head_at > l.visible THEN 4 ELSE 3 END,
				CASE WHEN l.head_at > l.visible THEN l.head_at + l.delay END, false, NULL, NULL
			FROM locked l
			UNION ALL
			SELECT 3, a.pop, a.id, a.given, CASE WHEN a.kind < 0 THEN 3 ELSE a.kind END, a.until, a.kind < 0 OR a.kind = 3, NULL, NULL
			FROM unnest(j.pop, j.id, j.given, j.kind, j.until) a (pop, id, given, kind, until)) v
		ORDER BY v.pop, v.id, v.precedence
	), answer AS (
		SELECT 0 AS kind, e.pop, NULL::int4 AS lane, NULL::uuid AS id, NULL::text AS queue, NULL::text AS partition,
			NULL::int8 AS starts, NULL::int8 AS ends, COALESCE(v_ready[array_position(v_held, e.pop)], 0) AS last,
			COALESCE(queen.to_us(min(e.until)), 0) AS at,
			(bool_or(e.contended) AND NOT bool_or(e.kind = 0))::int4 AS n, queen.to_us(v_now) AS base,
			COALESCE(v_hold[array_position(v_held, e.pop)], 0) AS count,
			NULL::int4 AS first, NULL::int4 AS take
		FROM (SELECT v.pop, v.until, v.contended, v.kind FROM verdict v
			UNION ALL
			SELECT g.i, NULL, false, 1 FROM generate_series(1, v_pops) g (i)) e
		GROUP BY e.pop
		UNION ALL
		SELECT 1, v.pop, NULL, v.id, NULL, NULL, NULL, v.ends, v.last_offset, COALESCE(queen.to_us(v.until), 0), v.kind,
			NULL, NULL, NULL, NULL
		FROM verdict v
		WHERE v.given AND p_from[v.pop] = 0 AND v.pop - 1 = ANY (p_cand_pop)
		UNION ALL
		SELECT 2, t.pop, t.nth, t.id, t.queue, t.partition, t.starts, t.ends, t.last_offset,
			CASE WHEN t.lease_id = '' THEN 0 ELSE queen.to_us(t.expires) END, t.attempt, NULL, t.slices, NULL, NULL
		FROM taken t
		UNION ALL
		SELECT 3, s.pop, s.nth, s.id, NULL, NULL, NULL, NULL, NULL, queen.to_us(s.created_at), NULL, s.base_offset,
			s.cnt::int4, s.skip::int4, s.take::int4
		FROM slice s
	)
	SELECT o.kind, o.pop - 1, o.lane, CASE WHEN o.kind < 3 THEN o.id END, o.queue, o.partition, o.starts, o.ends, o.last,
		o.at, o.n, o.base, o.count, o.first, o.take, b.blob
	FROM answer o
	LEFT JOIN queen.log_segments b ON o.kind = 3 AND b.partition_id = o.id AND b.base_offset = o.base
	ORDER BY o.pop, LEAST(o.kind, 2), o.lane, o.kind, o.base;
END
$$;
