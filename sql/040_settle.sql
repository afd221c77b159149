-- SPDX-License-Identifier: Apache-2.0
--
-- Settle: acknowledgements of many (lane, group) pairs in one call, and the dead letters that may follow.
-- Only cursor rows are locked. Per lane one signal decides, the lowest of failed, retry and dlq; completed items below
-- it move the cursor, and what lies below a completed item is completed with it. Hashes are looked for above the
-- cursor, inside the leased batch, first; only those left over are looked for below it, newest rows first and no
-- further back than an id can be resolved. A lease's expiry alone changes nothing.
-- Numbers of status: 0 completed, 1 failed, 2 retry, 3 dlq; outcome: 0 completed, 1 noop, 2 retried, 3 failed,
-- 4 dead-lettered, 5 dropped, 6 redelivered, 7 rejected; reason: 0 ok, 1 bad lease, 2 no consumer, 3 unresolvable,
-- 4 committed, 5 no batch.

-- The items p_left that occur in lane i's offsets (p_after[i], p_upto[i]], in rows not older than p_since[i]. Comparing a
-- few ids with whole rows costs a tenth of taking the rows apart.
CREATE OR REPLACE FUNCTION queen.settle_look(p_id uuid[], p_after int8[], p_upto int8[], p_since timestamptz[],
	p_left int4[], p_item_lane int4[], p_item_hash bytea)
RETURNS TABLE (item int4, lowest int8)
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
	v_lane int4[];
	v_hash bytea;
BEGIN
	IF cardinality(p_left) <= 8 THEN
		RETURN QUERY
		SELECT i.item, min(t.base_offset + g.i)
		FROM (SELECT u.item, p_item_lane[u.item] AS lane, substring(p_item_hash FROM u.item * 16 - 15 FOR 16) AS h
			FROM unnest(p_left) u (item)) i
		CROSS JOIN LATERAL (
			SELECT s.base_offset, s.end_offset, s.hashes
			FROM queen.log_txns s
			WHERE s.partition_id = p_id[i.lane] AND s.base_offset <= p_upto[i.lane]
				AND s.created_at >= p_since[i.lane]
				AND s.base_offset >= COALESCE((SELECT b.base_offset FROM queen.log_txns b
					WHERE b.partition_id = p_id[i.lane] AND b.base_offset <= p_after[i.lane] + 1
					ORDER BY b.base_offset DESC LIMIT 1), p_after[i.lane] + 1)
				AND position(i.h IN s.hashes) > 0
			OFFSET 0) t
		CROSS JOIN LATERAL generate_series(0, (t.end_offset - t.base_offset)::int4) g (i)
		WHERE substring(t.hashes FROM g.i * 16 + 1 FOR 16) = i.h AND t.base_offset + g.i > p_after[i.lane]
			AND t.base_offset + g.i <= p_upto[i.lane]
		GROUP BY i.item;
	ELSE
		SELECT array_agg(p_item_lane[u.item] ORDER BY u.ord),
			string_agg(substring(p_item_hash FROM u.item * 16 - 15 FOR 16), ''::bytea ORDER BY u.ord)
		INTO v_lane, v_hash
		FROM unnest(p_left) WITH ORDINALITY u (item, ord);
		RETURN QUERY SELECT p_left[m.item], m.lowest
		FROM queen.match_hashes(p_id, p_after, p_upto, p_since, v_lane, v_hash) m;
	END IF;
END
$$;

-- Where the items' messages are: eff, the lowest offset above the cursor that may act; below, whether one is at or under
-- the cursor. Arrays of lanes: items act in (committed, upto] and are looked for up to p_near first, which is all of it
-- where a batch bounds it. p_answers: below the cursor counts, in rows not older than p_since; where p_near is not all, a
-- row not older than p_sure, within which an id is unique in its lane, makes looking further above needless.
-- Further away the steps grow, so the cost follows the distance of what is looked for, and an id that is nowhere costs
-- the window once.
CREATE OR REPLACE FUNCTION queen.settle_resolve(p_id uuid[], p_committed int8[], p_near int8[], p_upto int8[],
	p_since timestamptz[], p_sure timestamptz[], p_answers bool[], p_item_lane int4[], p_item_hash bytea)
RETURNS TABLE (item int4, eff int8, below bool)
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
	near CONSTANT int8 := 1024;
	v_found int4[];
	v_at int8[];
	v_left int4[];
	v_after int8[];
	v_upto int8[];
	v_since timestamptz[];
	v_near int8;
	v_far int8;
BEGIN
	SELECT array_agg(m.item), array_agg(m.lowest) INTO v_found, v_at
	FROM queen.match_hashes(p_id, p_committed, p_near,
		array_fill('-infinity'::timestamptz, ARRAY[cardinality(p_id)]), p_item_lane, p_item_hash) m;
	RETURN QUERY SELECT f.item, f.eff, false FROM unnest(v_found, v_at) f (item, eff);
	IF cardinality(v_found) = cardinality(p_item_lane) THEN
		RETURN;
	END IF;
	SELECT array_agg(i.ord::int4) INTO v_left FROM unnest(p_item_lane) WITH ORDINALITY i (lane, ord)
	WHERE v_found IS NULL OR i.ord::int4 NOT IN (SELECT unnest(v_found));

	-- 0: just below the cursor, 1: further above, 2: further below.
	FOR v_phase IN 0..2 LOOP
		v_near := CASE v_phase WHEN 1 THEN near ELSE 0 END;
		v_far := CASE v_phase WHEN 0 THEN near ELSE 4 * near END;
		LOOP
			SELECT array_agg(CASE WHEN NOT r.wanted THEN -1 WHEN v_phase = 1 THEN r.committed + v_near
					ELSE GREATEST(r.committed - v_far, -1) END ORDER BY r.lane),
				array_agg(CASE WHEN NOT r.wanted THEN -1 WHEN v_phase = 1 THEN LEAST(r.upto, r.committed + v_far)
					ELSE r.committed - v_near END ORDER BY r.lane),
				array_agg(CASE v_phase WHEN 0 THEN r.sure WHEN 1 THEN '-infinity' ELSE r.since END ORDER BY r.lane)
			INTO v_after, v_upto, v_since
			FROM (SELECT l.*, l.lane IN (SELECT p_item_lane[u.item] FROM unnest(v_left) u (item)) AND CASE v_phase
						WHEN 0 THEN l.answers
						WHEN 1 THEN l.near < l.upto AND l.committed + v_near < l.upto
						ELSE l.answers AND COALESCE((SELECT t.created_at FROM queen.log_txns t
							WHERE t.partition_id = l.id AND t.base_offset <= l.committed - v_near
							ORDER BY t.base_offset DESC LIMIT 1) >= l.since, false) END AS wanted
				FROM unnest(p_id, p_committed, p_near, p_upto, p_since, p_sure, p_answers) WITH ORDINALITY
					l (id, committed, near, upto, since, sure, answers, lane)) r
			HAVING bool_or(r.wanted);
			EXIT WHEN v_after IS NULL;
			SELECT array_agg(m.item), array_agg(m.lowest) INTO v_found, v_at
			FROM queen.settle_look(p_id, v_after, v_upto, v_since, v_left, p_item_lane, p_item_hash) m;
			IF v_found IS NOT NULL THEN
				RETURN QUERY SELECT f.item, CASE WHEN v_phase = 1 THEN f.at END, v_phase <> 1
				FROM unnest(v_found, v_at) f (item, at);
				SELECT array_agg(u.item) INTO v_left FROM unnest(v_left) u (item)
				WHERE u.item NOT IN (SELECT unnest(v_found));
				IF v_left IS NULL THEN
					RETURN;
				END IF;
			END IF;
			EXIT WHEN v_phase = 0;
			v_near := v_far;
			v_far := 4 * v_far;
		END LOOP;
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
		array_agg(u.upto ORDER BY u.ord) AS upto,
		array_agg(CASE WHEN u.batch_end < 0 THEN LEAST(u.upto, u.committed + 1024) ELSE u.upto END ORDER BY u.ord) AS near,
		array_agg(CASE WHEN u.batch_end < 0 AND u.live THEN u.sure ELSE u.since END ORDER BY u.ord) AS sure
	INTO l
	FROM (SELECT DISTINCT ON (a.ord) a.*, CASE WHEN NOT a.live THEN a.committed WHEN a.batch_end < 0 THEN a.last_offset
			ELSE a.batch_end END AS upto
		FROM (SELECT z.ord, true AS known, z.queue::text, z.partition, z.last_offset, z.log_start, z.retry_limit, z.keeps, z.committed,
				COALESCE(z.batch_end, -1) AS batch_end, z.retries,
				z.worker_id IS NOT NULL AND z.expires > clock_timestamp() AS held,
				z.lease = '' OR (z.worker_id IS NOT DISTINCT FROM z.lease AND z.expires > clock_timestamp()) AS live,
				z.lease = '' OR z.worker_id IS NOT DISTINCT FROM z.lease
					OR z.last_worker_id IS NOT DISTINCT FROM z.lease AS answers,
				v_now - z.resolvable * interval '1 second' AS since,
				v_now - z.dedup * interval '1 second' AS sure
			FROM (SELECT i.ord, i.lease, q.name AS queue, p.name AS partition, p.last_offset, p.log_start, q.retry_limit,
					q.dead_letter_queue OR q.dlq_after_max_retries AS keeps,
					q.dedup_window_seconds AS dedup,
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
			SELECT g.i, false, NULL, NULL, -1, 0, 0, true, -1, -1, 0, false, false, false, v_now, v_now
			FROM generate_series(1::int8, cardinality(p_tenant)) g (i)) a
		ORDER BY a.ord, a.known DESC) u;

	SELECT array_agg(i.lane + 1 ORDER BY i.ord) INTO v_lane FROM unnest(p_item_lane) WITH ORDINALITY i (lane, ord);
	SELECT array_agg(e.eff ORDER BY e.item), array_agg(e.below ORDER BY e.item) INTO v_eff, v_below
	FROM (SELECT x.item, max(x.eff) AS eff, bool_or(x.below) AS below
		FROM (SELECT r.item, COALESCE(r.eff, -1) AS eff, r.below
			FROM queen.settle_resolve(p_partition_id, l.committed, l.near, l.upto, l.since, l.sure, l.answers, v_lane,
				p_item_hash) r
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
-- filed only where there are none of the same address; 2 beside, the same without cursor and lease;
-- 3 defer, which files nothing and ends the leased batch before the offset.
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
		AND (a.kind = 0 OR a.kind < 3 AND NOT EXISTS (SELECT FROM queen.log_dlq d
			WHERE d.partition_id = a.id AND d.consumer_group = a.grp AND d."offset" = a.at + g.i));

	UPDATE queen.log_consumers c
	SET committed = a.ends, total_consumed = c.total_consumed + a.ends - c.committed, batch_end = NULL, worker_id = NULL,
		lease_expires_at = NULL, lease_acquired_at = NULL, last_worker_id = COALESCE(c.worker_id, c.last_worker_id),
		batch_retry_count = 0, attempt_offset = NULL, attempt_count = 0
	FROM (SELECT u.id, u.grp, LEAST(u.at + u.cnt - 1, p.last_offset) AS ends
		FROM unnest(p_partition_id, p_group, p_offset, p_count, p_kind) WITH ORDINALITY u (id, grp, at, cnt, kind, ord)
		JOIN queen.log_partitions p ON p.id = u.id
		WHERE u.kind < 3 AND u.ord::int4 = ANY (v_ord)) a
	WHERE c.partition_id = a.id AND c.consumer_group = a.grp;

	UPDATE queen.log_consumers c
	SET batch_end = u.at - 1
	FROM unnest(p_partition_id, p_group, p_offset, p_kind) WITH ORDINALITY u (id, grp, at, kind, ord)
	WHERE u.kind = 3 AND u.ord::int4 = ANY (v_ord) AND c.partition_id = u.id AND c.consumer_group = u.grp
		AND c.batch_end >= u.at;

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
