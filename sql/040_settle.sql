-- SPDX-License-Identifier: Apache-2.0
--
-- Settle: acknowledgements of many (lane, group) pairs in one call, and the dead letters that may follow.
-- Only cursor rows are locked. Per lane one signal decides, the lowest of failed, retry and dlq; completed items below
-- it move the cursor, and what lies below a completed item is completed with it. Hashes are looked for above the
-- cursor, inside the leased batch, first; only those left over are looked for below it, newest rows first and no
-- further back than hashes are kept. A lease's expiry alone changes nothing.
-- Numbers of status: 0 completed, 1 failed, 2 retry, 3 dlq; outcome: 0 completed, 1 noop, 2 retried, 3 failed,
-- 4 dead-lettered, 5 dropped, 6 redelivered, 7 rejected; reason: 0 ok, 1 bad lease, 2 no consumer, 3 unresolvable,
-- 4 committed, 5 no batch.

-- Where the items' messages are: eff, the lowest offset above the cursor and inside the batch; below, whether one is at
-- or under the cursor. Arrays of lanes: p_live says that items above the cursor count, p_known that the lane has a cursor.
CREATE OR REPLACE FUNCTION queen.settle_resolve(p_id uuid[], p_committed int8[], p_upto int8[], p_since timestamptz[],
	p_live bool[], p_known bool[], p_item_lane int4[], p_item_hash bytea)
RETURNS TABLE (item int4, eff int8, below bool)
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
	-- A repeated acknowledgement is mostly about the batch just before the cursor.
	near CONSTANT int8 := 4096;
	v_found int4[];
	v_eff int8[];
	v_round int4;
	v_left int4[];
	v_left_lane int4[];
	v_left_hash bytea;
BEGIN
	SELECT array_agg(m.item), array_agg(m.lowest) INTO v_found, v_eff
	FROM queen.match_hashes(p_id,
		(SELECT array_agg(CASE WHEN a.live THEN a.committed ELSE a.upto END ORDER BY a.ord)
			FROM unnest(p_live, p_committed, p_upto) WITH ORDINALITY a (live, committed, upto, ord)),
		p_upto, array_fill('-infinity'::timestamptz, ARRAY[cardinality(p_id)]), p_item_lane, p_item_hash) m;
	RETURN QUERY SELECT f.item, f.eff, false FROM unnest(v_found, v_eff) f (item, eff);

	FOR v_round IN 1..2 LOOP
		SELECT array_agg(i.ord::int4 ORDER BY i.ord), array_agg(i.lane ORDER BY i.ord),
			string_agg(substring(p_item_hash FROM i.ord::int4 * 16 - 15 FOR 16), ''::bytea ORDER BY i.ord)
		INTO v_left, v_left_lane, v_left_hash
		FROM unnest(p_item_lane) WITH ORDINALITY i (lane, ord)
		WHERE p_known[i.lane] AND (v_found IS NULL OR i.ord::int4 NOT IN (SELECT unnest(v_found)))
			AND p_committed[i.lane] >= CASE WHEN v_round = 1 THEN 0 ELSE near END;
		EXIT WHEN v_left IS NULL;
		SELECT v_found || array_agg(v_left[m.item]), array_agg(v_left[m.item]) INTO v_found, v_left
		FROM queen.match_hashes(p_id,
			(SELECT array_agg(CASE WHEN a.wanted THEN CASE WHEN v_round = 1 THEN GREATEST(a.committed - near, -1) ELSE -1 END
					ELSE a.committed END ORDER BY a.ord)
				FROM (SELECT u.committed, u.ord, u.ord IN (SELECT unnest(v_left_lane)) AS wanted
					FROM unnest(p_committed) WITH ORDINALITY u (committed, ord)) a),
			(SELECT array_agg(CASE WHEN v_round = 1 THEN u.committed ELSE GREATEST(u.committed - near, -1) END ORDER BY u.ord)
				FROM unnest(p_committed) WITH ORDINALITY u (committed, ord)),
			p_since, v_left_lane, v_left_hash) m;
		RETURN QUERY SELECT f.item, NULL::int8, true FROM unnest(v_left) f (item);
	END LOOP;
END
$$;

CREATE OR REPLACE FUNCTION queen.settle_v1(p_tenant uuid[], p_partition_id uuid[], p_group text[], p_lease_id text[],
	p_item_lane int4[], p_item_hash bytea, p_item_status int4[])
RETURNS TABLE (lane int4, lease_released bool, committed int8, has_more bool, queue text, partition text,
	outcomes int4[], reasons int4[], poison_item int4, poison_offset int8, retry_count int4, seg_base int8,
	seg_count int4, seg_created_at_us int8, seg_blob bytea)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
	v_lane int4[];
	v_now CONSTANT timestamptz := clock_timestamp();
	v_eff int8[];
	v_below bool[];
	l record;
BEGIN
	IF cardinality(p_partition_id) <> cardinality(p_tenant) OR cardinality(p_group) <> cardinality(p_tenant)
		OR cardinality(p_lease_id) <> cardinality(p_tenant) OR cardinality(p_item_status) <> cardinality(p_item_lane)
		OR octet_length(p_item_hash) <> 16 * cardinality(p_item_lane) THEN
		RAISE EXCEPTION 'settle arrays do not agree' USING ERRCODE = 'invalid_parameter_value';
	END IF;

	-- Everything about the lanes in arrays without nulls, so that reading an element costs the same everywhere; a lane
	-- without cursor gets a row too. live: its items may act; answers: it may say what was acknowledged before.
	-- The lease is judged by the clock after the lock was had: what is outside the locking query is evaluated later.
	SELECT array_agg(u.queue ORDER BY u.ord) AS queue, array_agg(u.partition ORDER BY u.ord) AS partition,
		array_agg(u.last_offset ORDER BY u.ord) AS last_offset, array_agg(u.log_start ORDER BY u.ord) AS log_start,
		array_agg(u.retry_limit ORDER BY u.ord) AS retry_limit, array_agg(u.keeps ORDER BY u.ord) AS keeps,
		array_agg(u.committed ORDER BY u.ord) AS committed, array_agg(u.batch_end ORDER BY u.ord) AS batch_end,
		array_agg(u.retries ORDER BY u.ord) AS retries, array_agg(u.held ORDER BY u.ord) AS held,
		array_agg(u.known ORDER BY u.ord) AS known, array_agg(u.live ORDER BY u.ord) AS live,
		array_agg(u.answers ORDER BY u.ord) AS answers, array_agg(u.since ORDER BY u.ord) AS since,
		array_agg(CASE WHEN u.batch_end < 0 THEN u.last_offset ELSE u.batch_end END ORDER BY u.ord) AS upto
	INTO l
	FROM (SELECT DISTINCT ON (a.ord) a.*
		FROM (SELECT z.ord, true AS known, z.queue::text, z.partition, z.last_offset, z.log_start, z.retry_limit, z.keeps, z.committed,
				COALESCE(z.batch_end, -1) AS batch_end, z.retries,
				z.worker_id IS NOT NULL AND z.expires > clock_timestamp() AS held,
				z.lease = '' OR (z.worker_id IS NOT DISTINCT FROM z.lease AND z.expires > clock_timestamp()) AS live,
				z.lease = '' OR z.worker_id IS NOT DISTINCT FROM z.lease
					OR z.last_worker_id IS NOT DISTINCT FROM z.lease AS answers,
				v_now - z.resolvable * interval '1 second' AS since
			FROM (SELECT i.ord, i.lease, q.name AS queue, p.name AS partition, p.last_offset, p.log_start, q.retry_limit,
					q.dead_letter_queue OR q.dlq_after_max_retries AS keeps,
					GREATEST(q.dedup_window_seconds, q.completed_retention_seconds, 900) AS resolvable,
					s.committed, s.batch_end, s.worker_id, s.lease_expires_at AS expires, s.last_worker_id,
					s.batch_retry_count AS retries
				FROM unnest(p_tenant, p_partition_id, p_group, p_lease_id) WITH ORDINALITY i (tenant, id, grp, lease, ord)
				JOIN queen.log_partitions p ON p.id = i.id
				JOIN queen.queues q ON q.id = p.queue_id AND q.tenant_id = i.tenant
				JOIN queen.log_consumers s ON s.partition_id = p.id AND s.consumer_group = i.grp
				ORDER BY s.partition_id, s.consumer_group
				FOR NO KEY UPDATE OF s) z
			UNION ALL
			SELECT g.i, false, NULL, NULL, -1, 0, 0, true, -1, -1, 0, false, false, false, v_now
			FROM generate_series(1::int8, cardinality(p_tenant)) g (i)) a
		ORDER BY a.ord, a.known DESC) u;

	SELECT array_agg(i.lane + 1 ORDER BY i.ord) INTO v_lane FROM unnest(p_item_lane) WITH ORDINALITY i (lane, ord);
	SELECT array_agg(e.eff ORDER BY e.item), array_agg(e.below ORDER BY e.item) INTO v_eff, v_below
	FROM (SELECT x.item, max(x.eff) AS eff, bool_or(x.below) AS below
		FROM (SELECT r.item, COALESCE(r.eff, -1) AS eff, r.below
			FROM queen.settle_resolve(p_partition_id, l.committed, l.upto, l.since, l.live, l.answers, v_lane, p_item_hash) r
			UNION ALL
			SELECT g.i, -1, false FROM generate_series(1, cardinality(p_item_lane)) g (i)) x
		GROUP BY x.item) e;

	RETURN QUERY
	WITH item AS (
		-- One more row per lane carries its names.
		SELECT i.lane, i.ord, i.status, i.eff, i.below, i.status <> 0 AND i.eff >= 0 AS signals, NULL::text AS queue,
			NULL::text AS partition, NULL::text AS grp
		FROM unnest(v_lane, p_item_status, v_eff, v_below) WITH ORDINALITY i (lane, status, eff, below, ord)
		UNION ALL
		SELECT n.ord::int4, NULL, 0, -1, false, false, n.queue, n.partition, n.grp
		FROM unnest(l.queue, l.partition, p_group) WITH ORDINALITY n (queue, partition, grp, ord)
	), signalled AS (
		SELECT i.*, first_value(CASE WHEN i.signals THEN i.eff END) OVER o AS signal_at,
			first_value(CASE WHEN i.signals THEN i.status END) OVER o AS signal,
			first_value(CASE WHEN i.signals THEN i.ord END) OVER o AS signal_item,
			min(i.ord) OVER (PARTITION BY i.lane) AS first_item
		FROM item i
		WINDOW o AS (PARTITION BY i.lane
			ORDER BY i.signals DESC, i.eff, CASE i.status WHEN 3 THEN 0 WHEN 1 THEN 1 ELSE 2 END, i.ord)
	), decided AS (
		-- act is the outcome of the deciding item, 0 when no signal acts.
		SELECT s.*, CASE
				WHEN s.signal IS NULL OR (l.batch_end)[s.lane] < 0 THEN 0
				WHEN s.signal = 2 THEN 2
				WHEN s.signal = 1 AND (l.retries)[s.lane] < (l.retry_limit)[s.lane] THEN 3
				WHEN s.signal = 3 OR (l.keeps)[s.lane] THEN 4
				ELSE 5 END AS act,
			max(CASE WHEN s.status = 0 AND s.eff >= 0 AND (s.signal_at IS NULL OR s.eff < s.signal_at) THEN s.eff END)
				OVER (PARTITION BY s.lane) AS prefix
		FROM signalled s
	), told AS (
		SELECT d.*, CASE
				WHEN NOT (l.known)[d.lane] THEN 72
				WHEN NOT (l.live)[d.lane] THEN CASE WHEN d.status = 0 AND d.below THEN 10 ELSE 71 END
				WHEN d.eff < 0 THEN CASE WHEN NOT d.below THEN 73 WHEN d.status = 0 THEN 10 ELSE 74 END
				WHEN d.signal IS NULL OR d.eff < d.signal_at THEN 0
				WHEN d.status <> 0 AND (l.batch_end)[d.lane] < 0 THEN 75
				WHEN d.eff > d.signal_at THEN 60
				WHEN d.status <> 0 THEN d.act * 10
				WHEN d.act IN (4, 5) THEN 0
				ELSE 60 END AS answer
		FROM decided d
	), result AS MATERIALIZED (
		SELECT t.*, CASE WHEN t.act = 5 THEN t.signal_at ELSE GREATEST(t.was, t.prefix) END AS now_at,
			t.act IN (2, 3, 5) OR t.done AS released, (l.last_offset)[t.lane] AS last_offset,
			(l.log_start)[t.lane] AS log_start, (l.held)[t.lane] AS held, (l.retries)[t.lane] AS retries
		FROM (SELECT f.lane, f.act, f.signal_at, f.signal_item - f.first_item AS poison_item, f.prefix,
				(l.committed)[f.lane] AS was, (l.batch_end)[f.lane] AS batch_end,
				f.act = 0 AND (l.batch_end)[f.lane] >= 0 AND COALESCE(f.prefix, -1) >= (l.batch_end)[f.lane] AS done,
				max(f.queue) AS queue, max(f.partition) AS partition, max(f.grp) AS grp,
				COALESCE(array_agg(f.answer / 10 ORDER BY f.ord) FILTER (WHERE f.ord IS NOT NULL), '{}') AS outcomes,
				COALESCE(array_agg(f.answer % 10 ORDER BY f.ord) FILTER (WHERE f.ord IS NOT NULL), '{}') AS reasons
			FROM told f
			GROUP BY f.lane, f.act, f.signal_at, f.signal_item, f.first_item, f.prefix) t
	), moved AS (
		UPDATE queen.log_consumers c
		SET committed = r.now_at, total_consumed = c.total_consumed + r.now_at - r.was,
			batch_end = CASE WHEN r.released THEN NULL ELSE c.batch_end END,
			worker_id = CASE WHEN r.released THEN NULL ELSE c.worker_id END,
			lease_expires_at = CASE WHEN r.released THEN NULL ELSE c.lease_expires_at END,
			lease_acquired_at = CASE WHEN r.released THEN NULL ELSE c.lease_acquired_at END,
			last_worker_id = CASE WHEN r.released THEN COALESCE(c.worker_id, c.last_worker_id) ELSE c.last_worker_id END,
			batch_retry_count = CASE
				WHEN r.act = 3 THEN c.batch_retry_count + 1
				WHEN r.done OR r.act = 5 OR (r.batch_end < 0 AND r.now_at > r.was) THEN 0
				ELSE c.batch_retry_count END,
			-- The rest of a batch that was acknowledged in part keeps its count of deliveries.
			attempt_offset = CASE
				WHEN r.done OR r.act = 5 THEN NULL
				WHEN c.attempt_offset <= r.now_at THEN r.now_at + 1
				ELSE c.attempt_offset END,
			attempt_count = CASE WHEN r.done OR r.act = 5 THEN 0 ELSE c.attempt_count END
		FROM result r
		WHERE (r.released OR r.now_at > r.was) AND c.partition_id = p_partition_id[r.lane] AND c.consumer_group = r.grp
	)
	SELECT r.lane - 1, r.released AND r.batch_end >= 0, r.now_at,
		r.last_offset > GREATEST(r.now_at, r.log_start - 1) AND (r.released OR NOT r.held), r.queue, r.partition,
		r.outcomes, r.reasons, CASE WHEN r.act = 4 THEN r.poison_item::int4 END, CASE WHEN r.act = 4 THEN r.signal_at END,
		CASE WHEN r.act = 4 THEN r.retries END, b.base_offset, (b.end_offset - b.base_offset + 1)::int4,
		queen.to_us(b.created_at), b.blob
	FROM result r
	LEFT JOIN LATERAL (
		SELECT s.* FROM queen.log_segments s
		WHERE r.act = 4 AND s.partition_id = p_partition_id[r.lane] AND s.base_offset <= r.signal_at
		ORDER BY s.base_offset DESC LIMIT 1) b ON b.end_offset >= r.signal_at
	ORDER BY r.lane;
END
$$;

-- Files dead letters, a row for each message, and moves the cursors past them. A lease that is named must still be the
-- lane's; it may have run out, as long as nobody else has been given the lane. Kinds: 0 poison; 1 head, whose rows are
-- filed only where there are none of the same address; 2 beside, the same without cursor and lease.
CREATE OR REPLACE FUNCTION queen.dead_letter_v1(p_tenant uuid[], p_partition_id uuid[], p_group text[],
	p_lease_id text[], p_offset int8[], p_count int4[], p_message_id uuid[], p_transaction_id text[], p_payload bytea[],
	p_error text[], p_retry_count int4[], p_kind int4[])
RETURNS TABLE (ord int4, filed bool, has_more bool, queue text, partition text)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
	v_ord int4[];
	v_beside int4[];
BEGIN
	SELECT array_agg(l.ord::int4) INTO v_ord
	FROM (SELECT a.ord
		FROM unnest(p_tenant, p_partition_id, p_group, p_lease_id, p_offset, p_kind) WITH ORDINALITY
			a (tenant, id, grp, lease, at, kind, ord)
		JOIN queen.log_partitions p ON p.id = a.id AND p.last_offset >= a.at
		JOIN queen.queues q ON q.id = p.queue_id AND q.tenant_id = a.tenant
		JOIN queen.log_consumers c ON c.partition_id = p.id AND c.consumer_group = a.grp
		WHERE a.kind <> 2 AND c.committed < a.at AND (a.lease = '' OR c.worker_id = a.lease)
		ORDER BY c.partition_id, c.consumer_group
		FOR NO KEY UPDATE OF c) l;

	SELECT array_agg(a.ord::int4) INTO v_beside
	FROM unnest(p_tenant, p_partition_id, p_offset, p_kind) WITH ORDINALITY a (tenant, id, at, kind, ord)
	JOIN queen.log_partitions p ON p.id = a.id AND p.last_offset >= a.at
	JOIN queen.queues q ON q.id = p.queue_id AND q.tenant_id = a.tenant
	WHERE a.kind = 2;

	INSERT INTO queen.log_dlq (partition_id, consumer_group, "offset", message_id, transaction_id, payload, error,
		retry_count, failed_at)
	SELECT a.id, a.grp, a.at + g.i, NULLIF(a.message, '00000000-0000-0000-0000-000000000000'), a.txn, a.payload,
		a.error, a.retries, clock_timestamp()
	FROM unnest(p_partition_id, p_group, p_offset, p_count, p_message_id, p_transaction_id, p_payload, p_error,
			p_retry_count, p_kind)
		WITH ORDINALITY a (id, grp, at, cnt, message, txn, payload, error, retries, kind, ord)
	CROSS JOIN LATERAL generate_series(0, a.cnt - 1) g (i)
	WHERE (a.ord::int4 = ANY (v_ord) OR a.ord::int4 = ANY (v_beside))
		AND (a.kind = 0 OR NOT EXISTS (SELECT FROM queen.log_dlq d
			WHERE d.partition_id = a.id AND d.consumer_group = a.grp AND d."offset" = a.at + g.i));

	UPDATE queen.log_consumers c
	SET committed = a.ends, total_consumed = c.total_consumed + a.ends - c.committed, batch_end = NULL, worker_id = NULL,
		lease_expires_at = NULL, lease_acquired_at = NULL, last_worker_id = COALESCE(c.worker_id, c.last_worker_id),
		batch_retry_count = 0, attempt_offset = NULL, attempt_count = 0
	FROM (SELECT u.id, u.grp, LEAST(u.at + u.cnt - 1, p.last_offset) AS ends
		FROM unnest(p_partition_id, p_group, p_offset, p_count) WITH ORDINALITY u (id, grp, at, cnt, ord)
		JOIN queen.log_partitions p ON p.id = u.id
		WHERE u.ord::int4 = ANY (v_ord)) a
	WHERE c.partition_id = a.id AND c.consumer_group = a.grp;

	RETURN QUERY
	SELECT a.ord::int4 - 1, COALESCE(a.ord::int4 = ANY (v_ord), false) OR COALESCE(a.ord::int4 = ANY (v_beside), false),
		COALESCE(l.last_offset > GREATEST(l.committed, l.log_start - 1)
			AND (l.worker_id IS NULL OR l.lease_expires_at <= clock_timestamp()), false), l.queue, l.partition
	FROM unnest(p_tenant, p_partition_id, p_group) WITH ORDINALITY a (tenant, id, grp, ord)
	LEFT JOIN LATERAL (
		SELECT q.name::text AS queue, p.name AS partition, p.last_offset, p.log_start, c.committed, c.worker_id,
			c.lease_expires_at
		FROM queen.log_partitions p
		JOIN queen.queues q ON q.id = p.queue_id AND q.tenant_id = a.tenant
		LEFT JOIN queen.log_consumers c ON c.partition_id = p.id AND c.consumer_group = a.grp
		WHERE p.id = a.id) l ON true
	ORDER BY a.ord;
END
$$;
