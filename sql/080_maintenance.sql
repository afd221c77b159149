-- SPDX-License-Identifier: Apache-2.0
--
-- Maintenance: whose turn it is, and deletion in bounded steps.
--
-- One broker at a time sweeps: it holds the row 'retention' of maintenance_leases, and every step checks and renews
-- that lease in its own transaction, so that two never work at once and a holder that lost it deletes nothing. A step
-- walks the lanes that the partial indexes name as due, oldest first, from where the last step stood; lanes that
-- somebody else has locked are left for the next walk. It takes whole segments from the front of a lane and never more
-- rows than it was told. What may go is decided by the caller's cut-offs, under the lane's lock.
-- Kinds: 0 retention, 1 completed retention, 2 maximum wait, 3 hashes, 4 lanes, 5 bookkeeping.

-- A period counts from the last beginning; who asks with a shorter one than the last holder had need not wait longer.
-- The turn (p_fence 0), its renewal, or its end, and with the first two a page of the queues that have anything to be
-- swept. The first row has no queue.
CREATE OR REPLACE FUNCTION queen.maintain_v1(p_holder text, p_fence int8, p_end bool, p_period_ms int8,
	p_lease_ms int8, p_after uuid, p_limit int4)
RETURNS TABLE (held bool, fence int8, now_us int8, wait_ms int8, queue_id uuid, namespace text, task text,
	priority int4, lease_time int4, retry_limit int4, retry_delay int4, max_queue_size int4, ttl int4,
	delayed_processing int4, window_buffer int4, retention_seconds int4, completed_retention_seconds int4,
	max_wait_time_seconds int4, min_pop_wait_time int4, dedup_window_seconds int4, dead_letter_queue bool,
	dlq_after_max_retries bool, retention_enabled bool, encryption_enabled bool, live_us int8, txns_us int8,
	idle_us int8)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
	v_now CONSTANT timestamptz := clock_timestamp();
	v_until CONSTANT timestamptz := v_now + p_lease_ms * interval '1 millisecond';
	v_period CONSTANT interval := p_period_ms * interval '1 millisecond';
	v_due timestamptz;
BEGIN
	IF p_fence = 0 THEN
		IF NOT EXISTS (SELECT 1 FROM queen.maintenance_leases m WHERE m.task = 'retention') THEN
			INSERT INTO queen.maintenance_leases (task, period_ms, next_due_at) VALUES ('retention', p_period_ms, v_now)
			ON CONFLICT DO NOTHING;
		END IF;
		-- Locked: a step of the holder is running, whatever its lease says.
		UPDATE queen.maintenance_leases m
		SET fence = m.fence + 1, holder = p_holder, lease_until = v_until, last_start_at = v_now, period_ms = p_period_ms
		WHERE m.task = (
			SELECT l.task FROM queen.maintenance_leases l
			WHERE l.task = 'retention' AND l.enabled AND LEAST(l.next_due_at, l.last_start_at + v_period) <= v_now
				AND (l.lease_until IS NULL OR l.lease_until <= v_now OR l.holder = p_holder)
			FOR NO KEY UPDATE SKIP LOCKED)
		RETURNING m.fence INTO fence;
		held := FOUND;
	ELSE
		UPDATE queen.maintenance_leases m
		SET lease_until = CASE WHEN p_end THEN NULL ELSE v_until END,
			next_due_at = CASE WHEN p_end THEN GREATEST(m.last_start_at + v_period, v_now)
				ELSE m.next_due_at END,
			last_end_at = CASE WHEN p_end THEN v_now ELSE m.last_end_at END,
			last_duration_ms = CASE WHEN p_end THEN extract(epoch FROM v_now - m.last_start_at) * 1000
				ELSE m.last_duration_ms END,
			runs = CASE WHEN p_end THEN m.runs + 1 ELSE m.runs END
		WHERE m.task = 'retention' AND m.fence = p_fence AND m.lease_until IS NOT NULL
		RETURNING m.fence INTO fence;
		held := FOUND;
	END IF;
	SELECT CASE WHEN m.enabled
		THEN GREATEST(LEAST(m.next_due_at, m.last_start_at + v_period), m.lease_until) END INTO v_due
	FROM queen.maintenance_leases m WHERE m.task = 'retention';
	fence := COALESCE(fence, 0);
	now_us := queen.to_us(v_now);
	wait_ms := COALESCE(GREATEST(ceil(extract(epoch FROM v_due - v_now) * 1000), 0), p_period_ms);
	RETURN NEXT;
	IF NOT held OR p_end THEN
		RETURN;
	END IF;
	RETURN QUERY
	SELECT true, fence, now_us, wait_ms, q.id, COALESCE(q.namespace, '')::text, COALESCE(q.task, '')::text, q.priority,
		q.lease_time, q.retry_limit, q.retry_delay, q.max_queue_size, q.ttl, q.delayed_processing, q.window_buffer,
		q.retention_seconds, q.completed_retention_seconds, q.max_wait_time_seconds, q.min_pop_wait_time,
		q.dedup_window_seconds, q.dead_letter_queue, q.dlq_after_max_retries, q.retention_enabled, q.encryption_enabled,
		queen.to_us(o.live), queen.to_us(o.txns), queen.to_us(o.idle)
	FROM queen.queues q
	CROSS JOIN LATERAL (SELECT
		(SELECT p.oldest_live_at FROM queen.log_partitions p
			WHERE p.queue_id = q.id AND p.oldest_live_at IS NOT NULL ORDER BY p.oldest_live_at LIMIT 1) AS live,
		(SELECT p.oldest_txn_at FROM queen.log_partitions p
			WHERE p.queue_id = q.id AND p.oldest_txn_at IS NOT NULL ORDER BY p.oldest_txn_at LIMIT 1) AS txns,
		(SELECT p.last_write_at FROM queen.log_partitions p
			WHERE p.queue_id = q.id AND p.oldest_live_at IS NULL AND p.oldest_txn_at IS NULL
			ORDER BY p.last_write_at LIMIT 1) AS idle) o
	WHERE q.id > p_after AND COALESCE(o.live, o.txns, o.idle) IS NOT NULL
	ORDER BY q.id
	LIMIT p_limit;
END
$$;

-- Due lanes behind the place where each rule's walk stands, at most p_share of each.
CREATE OR REPLACE FUNCTION queen.sweep_due(p_kind int4, p_queue uuid[], p_cutoff timestamptz[], p_at timestamptz[],
	p_after uuid[], p_share int4)
RETURNS TABLE (rule int4, id uuid, at timestamptz)
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off
AS $$
BEGIN
	IF p_kind <= 2 THEN
		RETURN QUERY
		SELECT r.ord::int4, d.id, d.at
		FROM unnest(p_queue, p_cutoff, p_at, p_after) WITH ORDINALITY r (queue, cutoff, at, after, ord)
		CROSS JOIN LATERAL (
			SELECT p.id, p.oldest_live_at AS at FROM queen.log_partitions p
			WHERE p.queue_id = r.queue AND p.oldest_live_at < r.cutoff AND (p.oldest_live_at, p.id) > (r.at, r.after)
			ORDER BY p.oldest_live_at, p.id LIMIT p_share) d;
	ELSIF p_kind = 3 THEN
		RETURN QUERY
		SELECT r.ord::int4, d.id, d.at
		FROM unnest(p_queue, p_cutoff, p_at, p_after) WITH ORDINALITY r (queue, cutoff, at, after, ord)
		CROSS JOIN LATERAL (
			SELECT p.id, p.oldest_txn_at AS at FROM queen.log_partitions p
			WHERE p.queue_id = r.queue AND p.oldest_txn_at < r.cutoff AND (p.oldest_txn_at, p.id) > (r.at, r.after)
			ORDER BY p.oldest_txn_at, p.id LIMIT p_share) d;
	ELSE
		RETURN QUERY
		SELECT r.ord::int4, d.id, d.at
		FROM unnest(p_queue, p_cutoff, p_at, p_after) WITH ORDINALITY r (queue, cutoff, at, after, ord)
		CROSS JOIN LATERAL (
			SELECT p.id, p.last_write_at AS at FROM queen.log_partitions p
			WHERE p.queue_id = r.queue AND p.oldest_live_at IS NULL AND p.oldest_txn_at IS NULL
				AND p.last_write_at < r.cutoff AND (p.last_write_at, p.id) > (r.at, r.after)
			ORDER BY p.last_write_at, p.id LIMIT p_share) d;
	END IF;
END
$$;

-- Segments from the front of lanes. Moving a lane's start costs more than deleting a row: so lanes give several rows each
-- as long as the batch lasts, and those it did not reach are reported as having more. What to take is looked up without
-- locks, and judged again under them. Kind 1 stops at the slowest cursor, and without any it takes nothing.
CREATE OR REPLACE FUNCTION queen.sweep_segments(p_kind int4, p_rule int4[], p_id uuid[], p_cutoff timestamptz[],
	p_batch int4, p_share int4)
RETURNS TABLE (rule int4, deleted int4, messages int8, more bool)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
	v_rule int4[] := p_rule;
	v_id uuid[] := p_id;
	v_take int4[];
	v_start int8[];
	v_rest int4[];
	v_most int4;
BEGIN
	IF p_kind = 1 THEN
		SELECT array_agg(a.rule ORDER BY a.ord), array_agg(a.id ORDER BY a.ord) INTO v_rule, v_id
		FROM unnest(p_rule, p_id) WITH ORDINALITY a (rule, id, ord)
		JOIN queen.log_partitions p ON p.id = a.id
		WHERE (SELECT s.end_offset <= (SELECT min(c.committed) FROM queen.log_consumers c WHERE c.partition_id = a.id)
			FROM queen.log_segments s
			WHERE s.partition_id = a.id AND s.base_offset >= p.log_start ORDER BY s.base_offset LIMIT 1);
	END IF;
	v_most := LEAST(p_share, GREATEST(p_batch / GREATEST(cardinality(v_id), 1), 16));
	SELECT array_agg(k.rule), array_agg(k.id), array_agg(k.take),
		CASE WHEN sum(k.take) >= p_batch THEN v_rule[max(k.ord) + 1:] END
	INTO v_rule, v_id, v_take, v_rest
	FROM (SELECT f.ord, f.rule, f.id, count(*)::int4 AS take
		FROM (SELECT a.ord, a.rule, a.id
			FROM unnest(v_rule, v_id) WITH ORDINALITY a (rule, id, ord)
			JOIN queen.log_partitions p ON p.id = a.id
			CROSS JOIN LATERAL (
				SELECT g.created_at FROM queen.log_segments g
				WHERE g.partition_id = a.id AND g.base_offset >= p.log_start
				ORDER BY g.base_offset LIMIT v_most) s
			WHERE s.created_at < p_cutoff[a.rule]
			LIMIT p_batch) f
		GROUP BY f.ord, f.rule, f.id) k;

	SELECT array_agg(l.rule), array_agg(l.id), array_agg(l.take), array_agg(l.log_start)
	INTO v_rule, v_id, v_take, v_start
	FROM (SELECT a.rule, p.id, a.take, p.log_start
		FROM unnest(v_rule, v_id, v_take) a (rule, id, take)
		JOIN queen.log_partitions p ON p.id = a.id
		WHERE p.oldest_live_at < p_cutoff[a.rule]
		ORDER BY p.id
		FOR NO KEY UPDATE OF p SKIP LOCKED) l;

	RETURN QUERY
	WITH cut AS (
		SELECT a.rule, a.id, a.start, max(s.end_offset) + 1 AS upto, count(*)::int4 AS deleted,
			sum(s.end_offset - s.base_offset + 1)::int8 AS messages
		FROM unnest(v_rule, v_id, v_take, v_start) a (rule, id, take, start)
		CROSS JOIN LATERAL (SELECT CASE WHEN p_kind = 1
			THEN (SELECT COALESCE(min(c.committed), -1) FROM queen.log_consumers c WHERE c.partition_id = a.id)
			ELSE 9223372036854775807 END AS consumed OFFSET 0) b
		CROSS JOIN LATERAL (
			SELECT g.base_offset, g.end_offset, g.created_at FROM queen.log_segments g
			WHERE g.partition_id = a.id AND g.base_offset >= a.start AND g.base_offset <= b.consumed
			ORDER BY g.base_offset LIMIT a.take) s
		WHERE s.created_at < p_cutoff[a.rule] AND s.end_offset <= b.consumed
		GROUP BY a.rule, a.id, a.start
	), gone AS MATERIALIZED (
		SELECT c.*, (SELECT s.created_at FROM queen.log_segments s
			WHERE s.partition_id = c.id AND s.base_offset >= c.upto ORDER BY s.base_offset LIMIT 1) AS oldest
		FROM cut c
	), deleted AS (
		DELETE FROM queen.log_segments s USING gone g
		WHERE s.partition_id = g.id AND s.base_offset >= g.start AND s.base_offset < g.upto
	), moved AS (
		UPDATE queen.log_partitions p
		SET log_start = g.upto, oldest_live_at = g.oldest
		FROM gone g
		WHERE p.id = g.id
	), told AS (
		INSERT INTO queen.retention_history (partition_id, messages_deleted, retention_type)
		SELECT g.id, LEAST(g.messages, 2147483647)::int4,
			CASE p_kind WHEN 0 THEN 'retention' WHEN 1 THEN 'completed_retention' ELSE 'max_wait_time_eviction' END
		FROM gone g
	)
	SELECT g.rule, g.deleted, g.messages, COALESCE(g.oldest < p_cutoff[g.rule], false) FROM gone g
	UNION ALL
	SELECT r, 0, 0, true FROM unnest(v_rest) r;
END
$$;

-- Hash rows from the front of lanes, likewise. Those of messages that somebody may still have to acknowledge stay,
-- whatever the cut-off: such an acknowledgement is resolved by them, and without them the message would come again for
-- ever.
CREATE OR REPLACE FUNCTION queen.sweep_hashes(p_rule int4[], p_id uuid[], p_cutoff timestamptz[], p_batch int4,
	p_share int4)
RETURNS TABLE (rule int4, deleted int4, messages int8, more bool)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
	v_rule int4[];
	v_id uuid[];
	v_take int4[];
	v_start int8[];
	v_live int8[];
	v_rest int4[];
	v_most int4;
BEGIN
	SELECT array_agg(a.rule ORDER BY a.ord), array_agg(a.id ORDER BY a.ord) INTO v_rule, v_id
	FROM unnest(p_rule, p_id) WITH ORDINALITY a (rule, id, ord)
	JOIN queen.log_partitions p ON p.id = a.id
	WHERE (SELECT t.end_offset <= GREATEST(p.log_start - 1,
			(SELECT min(c.committed) FROM queen.log_consumers c WHERE c.partition_id = a.id))
		FROM queen.log_txns t
		WHERE t.partition_id = a.id AND t.base_offset >= p.txns_start ORDER BY t.base_offset LIMIT 1);
	v_most := LEAST(p_share, GREATEST(p_batch / GREATEST(cardinality(v_id), 1), 16));
	SELECT array_agg(k.rule), array_agg(k.id), array_agg(k.take),
		CASE WHEN sum(k.take) >= p_batch THEN v_rule[max(k.ord) + 1:] END
	INTO v_rule, v_id, v_take, v_rest
	FROM (SELECT f.ord, f.rule, f.id, count(*)::int4 AS take
		FROM (SELECT a.ord, a.rule, a.id
			FROM unnest(v_rule, v_id) WITH ORDINALITY a (rule, id, ord)
			JOIN queen.log_partitions p ON p.id = a.id
			CROSS JOIN LATERAL (
				SELECT h.created_at FROM queen.log_txns h
				WHERE h.partition_id = a.id AND h.base_offset >= p.txns_start
				ORDER BY h.base_offset LIMIT v_most) t
			WHERE t.created_at < p_cutoff[a.rule]
			LIMIT p_batch) f
		GROUP BY f.ord, f.rule, f.id) k;

	SELECT array_agg(l.rule), array_agg(l.id), array_agg(l.take), array_agg(l.txns_start), array_agg(l.log_start)
	INTO v_rule, v_id, v_take, v_start, v_live
	FROM (SELECT a.rule, p.id, a.take, p.txns_start, p.log_start
		FROM unnest(v_rule, v_id, v_take) a (rule, id, take)
		JOIN queen.log_partitions p ON p.id = a.id
		WHERE p.oldest_txn_at < p_cutoff[a.rule]
		ORDER BY p.id
		FOR NO KEY UPDATE OF p SKIP LOCKED) l;

	RETURN QUERY
	WITH cut AS (
		SELECT a.rule, a.id, a.start, max(t.end_offset) + 1 AS upto, count(*)::int4 AS deleted,
			sum(t.end_offset - t.base_offset + 1)::int8 AS messages
		FROM unnest(v_rule, v_id, v_take, v_start, v_live) a (rule, id, take, start, live)
		CROSS JOIN LATERAL (
			SELECT GREATEST(min(c.committed), a.live - 1) AS settled FROM queen.log_consumers c
			WHERE c.partition_id = a.id OFFSET 0) b
		CROSS JOIN LATERAL (
			SELECT h.base_offset, h.end_offset, h.created_at FROM queen.log_txns h
			WHERE h.partition_id = a.id AND h.base_offset >= a.start AND h.base_offset <= b.settled
			ORDER BY h.base_offset LIMIT a.take) t
		WHERE t.created_at < p_cutoff[a.rule] AND t.end_offset <= b.settled
		GROUP BY a.rule, a.id, a.start
	), gone AS MATERIALIZED (
		SELECT c.*, (SELECT t.created_at FROM queen.log_txns t
			WHERE t.partition_id = c.id AND t.base_offset >= c.upto ORDER BY t.base_offset LIMIT 1) AS oldest
		FROM cut c
	), deleted AS (
		DELETE FROM queen.log_txns t USING gone g
		WHERE t.partition_id = g.id AND t.base_offset >= g.start AND t.base_offset < g.upto
	), moved AS (
		UPDATE queen.log_partitions p
		SET txns_start = g.upto, oldest_txn_at = g.oldest
		FROM gone g
		WHERE p.id = g.id
	)
	SELECT g.rule, g.deleted, g.messages, COALESCE(g.oldest < p_cutoff[g.rule], false) FROM gone g
	UNION ALL
	SELECT r, 0, 0, true FROM unnest(v_rest) r;
END
$$;

-- Lanes that hold nothing and that nobody has used since the cut-off.
CREATE OR REPLACE FUNCTION queen.sweep_lanes(p_rule int4[], p_id uuid[], p_cutoff timestamptz[])
RETURNS TABLE (rule int4, deleted int4, messages int8, more bool)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
	v_rule int4[];
	v_id uuid[];
BEGIN
	SELECT array_agg(l.rule), array_agg(l.id) INTO v_rule, v_id
	FROM (SELECT a.rule, p.id
		FROM unnest(p_rule, p_id) a (rule, id)
		JOIN queen.log_partitions p ON p.id = a.id
		WHERE p.oldest_live_at IS NULL AND p.oldest_txn_at IS NULL AND p.last_write_at < p_cutoff[a.rule]
			AND p.created_at < p_cutoff[a.rule]
		ORDER BY p.id
		FOR UPDATE OF p SKIP LOCKED) l;
	PERFORM 1 FROM queen.log_consumers c WHERE c.partition_id = ANY (v_id)
	ORDER BY c.partition_id, c.consumer_group FOR UPDATE;

	-- Under the locks: nothing that is looked for here can appear any more.
	SELECT array_agg(a.rule), array_agg(a.id) INTO v_rule, v_id
	FROM unnest(v_rule, v_id) a (rule, id)
	WHERE NOT EXISTS (SELECT 1 FROM queen.log_segments s WHERE s.partition_id = a.id)
		AND NOT EXISTS (SELECT 1 FROM queen.log_dlq d WHERE d.partition_id = a.id)
		AND NOT EXISTS (SELECT 1 FROM queen.log_consumers c WHERE c.partition_id = a.id
			AND (c.created_at >= p_cutoff[a.rule] OR c.lease_acquired_at >= p_cutoff[a.rule]
				OR (c.worker_id IS NOT NULL AND c.lease_expires_at > clock_timestamp())));
	DELETE FROM queen.log_txns t WHERE t.partition_id = ANY (v_id);
	INSERT INTO queen.retention_history (partition_id, messages_deleted, retention_type)
	SELECT a.id, 0, '__partition_deleted__' FROM unnest(v_id) a (id);
	DELETE FROM queen.log_partitions p WHERE p.id = ANY (v_id);
	RETURN QUERY SELECT a.rule, count(*)::int4, 0::int8, false FROM unnest(v_rule) a (rule) GROUP BY a.rule;
END
$$;

-- History, and marks of groups that have not looked for as long: without one a scan merely starts at the beginning.
CREATE OR REPLACE FUNCTION queen.sweep_books(p_cutoff timestamptz, p_batch int4) RETURNS int4
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
	v_history int4;
	v_marks int4;
BEGIN
	DELETE FROM queen.retention_history h
	WHERE h.id = ANY (ARRAY(SELECT o.id FROM queen.retention_history o WHERE o.executed_at < p_cutoff
		ORDER BY o.executed_at LIMIT p_batch));
	GET DIAGNOSTICS v_history = ROW_COUNT;
	DELETE FROM queen.consumer_watermarks w
	USING (SELECT o.queue_id, o.consumer_group FROM queen.consumer_watermarks o
		WHERE o.updated_at < p_cutoff AND v_history < p_batch
		ORDER BY o.queue_id, o.consumer_group LIMIT p_batch - v_history
		FOR UPDATE SKIP LOCKED) g
	WHERE w.queue_id = g.queue_id AND w.consumer_group = g.consumer_group;
	GET DIAGNOSTICS v_marks = ROW_COUNT;
	RETURN v_history + v_marks;
END
$$;

-- One step of the walks of all rules. No row: the lease is not the caller's any more.
CREATE OR REPLACE FUNCTION queen.sweep_v1(p_fence int8, p_lease_ms int8, p_kind int4, p_batch int4, p_queue uuid[],
	p_cutoff_us int8[], p_at_us int8[], p_after uuid[])
RETURNS TABLE (ord int4, ended bool, at_us int8, partition_id uuid, lanes int4, deleted int4, messages int8)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
	n CONSTANT int4 := cardinality(p_queue);
	v_share CONSTANT int4 := GREATEST(p_batch / GREATEST(n, 1), 1);
	v_cutoff timestamptz[];
	v_at timestamptz[];
	v_after uuid[];
	v_rule int4[];
	v_id uuid[];
	v_seen timestamptz[];
	v_done int4[];
	v_deleted int4[];
	v_messages int8[];
	v_more bool[];
	v_moves bool;
BEGIN
	IF cardinality(p_cutoff_us) <> n OR cardinality(p_at_us) <> n OR cardinality(p_after) <> n THEN
		RAISE EXCEPTION 'sweep arrays do not agree' USING ERRCODE = 'invalid_parameter_value';
	END IF;
	UPDATE queen.maintenance_leases m SET lease_until = clock_timestamp() + p_lease_ms * interval '1 millisecond'
	WHERE m.task = 'retention' AND m.fence = p_fence AND m.lease_until IS NOT NULL;
	IF NOT FOUND THEN
		RETURN;
	END IF;
	SELECT array_agg(queen.from_us(r.cutoff) ORDER BY r.ord), array_agg(queen.from_us(r.at) ORDER BY r.ord),
		array_agg(COALESCE(r.after, '00000000-0000-0000-0000-000000000000') ORDER BY r.ord)
	INTO v_cutoff, v_at, v_after
	FROM unnest(p_cutoff_us, p_at_us, p_after) WITH ORDINALITY r (cutoff, at, after, ord);
	IF p_kind = 5 THEN
		deleted := queen.sweep_books(v_cutoff[1], p_batch);
		RETURN QUERY SELECT 0, deleted < p_batch, p_at_us[1], v_after[1], 0, deleted, 0::int8;
		RETURN;
	END IF;

	-- One lane of each rule after the other, so that a batch reaches every rule.
	SELECT array_agg(d.rule ORDER BY d.nth, d.rule), array_agg(d.id ORDER BY d.nth, d.rule),
		array_agg(d.at ORDER BY d.nth, d.rule)
	INTO v_rule, v_id, v_seen
	FROM (SELECT u.*, row_number() OVER (PARTITION BY u.rule ORDER BY u.at, u.id) AS nth
		FROM queen.sweep_due(p_kind, p_queue, v_cutoff, v_at, v_after, v_share) u) d;
	IF v_rule IS NOT NULL AND p_kind <= 2 THEN
		SELECT array_agg(g.rule), array_agg(g.deleted), array_agg(g.messages), array_agg(g.more)
		INTO v_done, v_deleted, v_messages, v_more
		FROM queen.sweep_segments(p_kind, v_rule, v_id, v_cutoff, p_batch, v_share) g;
	ELSIF v_rule IS NOT NULL AND p_kind = 3 THEN
		SELECT array_agg(g.rule), array_agg(g.deleted), array_agg(g.messages), array_agg(g.more)
		INTO v_done, v_deleted, v_messages, v_more
		FROM queen.sweep_hashes(v_rule, v_id, v_cutoff, p_batch, v_share) g;
	ELSIF v_rule IS NOT NULL THEN
		SELECT array_agg(g.rule), array_agg(g.deleted), array_agg(g.messages), array_agg(g.more)
		INTO v_done, v_deleted, v_messages, v_more
		FROM queen.sweep_lanes(v_rule, v_id, v_cutoff) g;
	END IF;

	-- A walk stays where it is as long as a lane in front of it has more; not for lanes in use alone, for ever.
	v_moves := (SELECT sum(d) > 0 FROM unnest(v_deleted) d);
	RETURN QUERY
	SELECT w.rule - 1, w.seen < v_share AND NOT w.more, queen.to_us(CASE WHEN w.more THEN v_at[w.rule] ELSE w.at END),
		CASE WHEN w.more THEN v_after[w.rule] ELSE w.id END, w.seen, w.deleted, w.messages
	FROM (SELECT u.rule, sum(u.seen)::int4 AS seen, max(u.at) AS at,
			(array_agg(u.id ORDER BY u.at DESC NULLS LAST, u.id DESC))[1] AS id, sum(u.deleted)::int4 AS deleted,
			sum(u.messages)::int8 AS messages, bool_or(u.more) AS more
		FROM (SELECT r.ord::int4 AS rule, 0 AS seen, r.at, r.after AS id, 0 AS deleted, 0::int8 AS messages, false AS more
			FROM unnest(v_at, v_after) WITH ORDINALITY r (at, after, ord)
			UNION ALL
			SELECT d.rule, 1, d.at, d.id, 0, 0, false FROM unnest(v_rule, v_seen, v_id) d (rule, at, id)
			UNION ALL
			SELECT g.rule, 0, NULL, NULL, g.deleted, g.messages, g.more AND v_moves
			FROM unnest(v_done, v_deleted, v_messages, v_more) g (rule, deleted, messages, more)) u
		GROUP BY u.rule) w
	ORDER BY w.rule;
END
$$;
