-- SPDX-License-Identifier: Apache-2.0
--
-- Push: one segment per lane, set-based over all lanes of the call, and reading segments back by offset.
--
-- Lanes are locked ascending by id, then the time is taken: so per lane offsets are dense in commit order and
-- created_at never decreases. Duplicates are found before anything is written, so nothing has to be undone.
-- Plans: every array is small to the planner (generic plans assume ten elements) and every table is reached by an
-- index, so the nested loop it chooses is right for one lane and for a thousand.

-- Offsets of 16-byte hashes in the sidecar. Lane i is searched in (p_after[i], p_upto[i]], not in rows older than
-- p_since[i]; item j (1-based) belongs to lane p_item_lane[j] and is bytes 16j-15..16j of p_hashes. Returns found items
-- only. Both sides can be large, so a hash join is wanted; with nested loops called expensive only the look-ups by index,
-- which cannot be anything else, remain nested loops.
CREATE OR REPLACE FUNCTION queen.match_hashes(
	p_lane_id uuid[], p_after int8[], p_upto int8[], p_since timestamptz[], p_item_lane int4[], p_hashes bytea)
RETURNS TABLE (item int4, lowest int8, highest int8)
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = on SET enable_nestloop = off
SET enable_mergejoin = off SET jit = off
AS $$
BEGIN
	RETURN QUERY
	SELECT i.item, min(o.at), max(o.at)
	FROM (SELECT l.lane, t.base_offset + g.i AS at, substring(t.h FROM g.i * 16 + 1 FOR 16) AS h
		FROM unnest(p_lane_id, p_after, p_upto, p_since) WITH ORDINALITY l (id, after, upto, since, lane)
		CROSS JOIN LATERAL (
			-- Appending nothing detoasts once instead of once per hash.
			SELECT s.base_offset, s.end_offset, s.hashes || ''::bytea AS h
			FROM queen.log_txns s
			WHERE s.partition_id = l.id AND s.base_offset <= l.upto AND s.end_offset > l.after
				AND s.created_at >= l.since
				AND s.base_offset >= COALESCE((SELECT b.base_offset FROM queen.log_txns b
					WHERE b.partition_id = l.id AND b.base_offset <= l.after + 1
					ORDER BY b.base_offset DESC LIMIT 1), l.after + 1)
			OFFSET 0) t
		CROSS JOIN LATERAL generate_series(GREATEST(l.after + 1 - t.base_offset, 0)::int4,
			(LEAST(l.upto, t.end_offset) - t.base_offset)::int4) g (i)) o
	JOIN (SELECT u.lane, u.item::int4 AS item, substring(p_hashes FROM u.item::int4 * 16 - 15 FOR 16) AS h
		FROM unnest(p_item_lane) WITH ORDINALITY u (lane, item)) i ON i.lane = o.lane AND i.h = o.h
	GROUP BY i.item;
END
$$;

-- Fills the unknown ids of the call, creating what is missing.
CREATE OR REPLACE FUNCTION queen.resolve_lanes(p_tenant uuid[], p_queue text[], p_partition text[], p_id uuid[])
RETURNS uuid[]
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
	v_id uuid[];
BEGIN
	FOR v_try IN 1..2 LOOP
		SELECT array_agg(COALESCE(a.id, (
				SELECT p.id FROM queen.queues q JOIN queen.log_partitions p ON p.queue_id = q.id
				WHERE q.tenant_id = a.tenant AND q.name = a.queue AND p.name = a.partition)) ORDER BY a.ord)
		INTO v_id
		FROM unnest(p_tenant, p_queue, p_partition, p_id) WITH ORDINALITY a (tenant, queue, partition, id, ord);
		EXIT WHEN v_try = 2 OR array_position(v_id, NULL) IS NULL;
		PERFORM queen.provision_lanes(array_agg(a.tenant), array_agg(a.queue), array_agg(a.partition))
		FROM unnest(p_tenant, p_queue, p_partition, v_id) a (tenant, queue, partition, id)
		WHERE a.id IS NULL;
	END LOOP;
	RETURN v_id;
END
$$;

-- Duplicates of the call: lane (1-based), index of the frame (0-based), offset of the original. A lane with
-- p_after = p_last is not searched. Windows are counted back from p_now.
CREATE OR REPLACE FUNCTION queen.find_duplicates(p_id uuid[], p_count int4[], p_hashes bytea[], p_after int8[],
	p_last int8[], p_window int4[], p_now timestamptz)
RETURNS TABLE (lane int4, index int4, at int8)
LANGUAGE plpgsql STABLE AS $$
DECLARE
	v_lane int4[];
	v_of int4[];
	v_index int4[];
BEGIN
	SELECT array_agg(a.ord ORDER BY a.ord) INTO v_lane
	FROM unnest(p_after, p_last) WITH ORDINALITY a (after, last, ord) WHERE a.after < a.last;
	SELECT array_agg(l.pos ORDER BY l.pos, g.i), array_agg(g.i ORDER BY l.pos, g.i) INTO v_of, v_index
	FROM unnest(v_lane) WITH ORDINALITY l (ord, pos)
	CROSS JOIN LATERAL generate_series(0, p_count[l.ord] - 1) g (i);
	RETURN QUERY
	SELECT v_lane[v_of[m.item]], v_index[m.item], m.lowest
	FROM (SELECT array_agg(a.id ORDER BY a.ord) AS ids, array_agg(a.after ORDER BY a.ord) AS afters,
			array_agg(a.last ORDER BY a.ord) AS lasts, string_agg(a.hashes, ''::bytea ORDER BY a.ord) AS hashes,
			array_agg(p_now - a.win * interval '1 second' ORDER BY a.ord) AS since
		FROM unnest(p_id, p_after, p_last, p_window, p_hashes) WITH ORDINALITY a (id, after, last, win, hashes, ord)
		WHERE a.after < a.last) l
	CROSS JOIN LATERAL queen.match_hashes(l.ids, l.afters, l.lasts, l.since, v_of, l.hashes) m;
END
$$;

-- p_verified[i] is believed for the lane p_partition_id[i] only, and only if the hashes were compared as far back as the
-- window reaches now: whoever was wrong about the lane, the window or the time has the whole window searched.
CREATE OR REPLACE FUNCTION queen.push_v1(
	p_tenant uuid[], p_queue text[], p_partition text[], p_partition_id uuid[], p_count int4[], p_raw_bytes int4[],
	p_sealed bool[], p_hashes bytea[], p_verified int8[], p_blob bytea[], p_verified_since int8[])
RETURNS TABLE (ord int4, status int4, partition_id uuid, base_offset int8, created_at_us int8, dedup_window_s int4,
	dup_index int4[], dup_offset int8[], encryption_enabled bool, delayed_processing int4,
	window_buffer int4)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
	n CONSTANT int4 := cardinality(p_tenant);
	v_id uuid[];
	v_locked uuid[];
	v_last int8[];
	v_purged int8[];
	v_newest timestamptz[];
	v_window int4[];
	v_sealing bool[];
	v_delay int4[];
	v_buffer int4[];
	v_after int8[];
	v_status int4[];
	v_dup_lane int4[];
	v_dup_index int4[];
	v_dup_at int8[];
	v_probe bool;
	v_now timestamptz;
BEGIN
	IF cardinality(p_queue) <> n OR cardinality(p_partition) <> n OR cardinality(p_partition_id) <> n
		OR cardinality(p_count) <> n OR cardinality(p_raw_bytes) <> n OR cardinality(p_sealed) <> n
		OR cardinality(p_hashes) <> n OR cardinality(p_verified) <> n OR cardinality(p_blob) <> n
		OR cardinality(p_verified_since) <> n THEN
		RAISE EXCEPTION 'push arrays do not agree' USING ERRCODE = 'invalid_parameter_value';
	END IF;
	v_id := array_replace(p_partition_id, '00000000-0000-0000-0000-000000000000', NULL);
	FOR v_try IN 1..4 LOOP
		IF array_position(v_id, NULL) IS NOT NULL THEN
			v_id := queen.resolve_lanes(p_tenant, p_queue, p_partition, v_id);
		END IF;
		-- The names are compared as well: an id the caller remembers may be another lane's, or gone. The queue is compared so
		-- that no index serves for it: a planner without statistics would walk all lanes of the queue for each one.
		SELECT array_agg(l.id ORDER BY l.ord), array_agg(l.last_offset ORDER BY l.ord),
			array_agg(l.txns_start ORDER BY l.ord), array_agg(l.newest_at ORDER BY l.ord)
		INTO v_locked, v_last, v_purged, v_newest
		FROM (SELECT a.ord, p.id, p.last_offset, p.txns_start, p.newest_at
			FROM unnest(p_tenant, p_queue, p_partition, v_id) WITH ORDINALITY a (tenant, queue, partition, id, ord)
			JOIN queen.log_partitions p ON p.id = a.id AND p.name = a.partition
			JOIN queen.queues q ON q.tenant_id = a.tenant AND q.name = a.queue
			WHERE p.queue_id IS NOT DISTINCT FROM q.id
			ORDER BY p.id
			FOR NO KEY UPDATE OF p) l;
		EXIT WHEN cardinality(v_locked) = n;
		IF v_try = 4 THEN
			RAISE EXCEPTION 'lanes deleted while they were being pushed to' USING ERRCODE = 'serialization_failure';
		END IF;
		SELECT array_agg(CASE WHEN a.id = ANY (v_locked) THEN a.id END ORDER BY a.ord) INTO v_id
		FROM unnest(v_id) WITH ORDINALITY a (id, ord);
	END LOOP;
	v_now := clock_timestamp();

	-- Read after the locks: configure_queue_v1 relies on it when it turns encryption on.
	SELECT array_agg(r.win ORDER BY r.ord), array_agg(r.status ORDER BY r.ord), array_agg(r.after ORDER BY r.ord),
		bool_or(r.after < r.last), array_agg(r.encryption_enabled ORDER BY r.ord), array_agg(r.delayed_processing ORDER BY r.ord),
		array_agg(r.window_buffer ORDER BY r.ord)
	INTO v_window, v_status, v_after, v_probe, v_sealing, v_delay, v_buffer
	FROM (SELECT a.ord, a.last, q.dedup_window_seconds AS win, s.status, q.encryption_enabled,
			q.delayed_processing, q.window_buffer,
			CASE WHEN q.dedup_window_seconds = 0 OR s.status <> 0 THEN a.last
				WHEN a.id = a.given AND a.since <= queen.to_us(v_now) - q.dedup_window_seconds * 1000000::int8
				THEN GREATEST(a.verified, a.purged - 1)
				ELSE a.purged - 1 END AS after
		FROM unnest(v_id, p_partition_id, p_sealed, p_verified, p_verified_since, v_last, v_purged) WITH ORDINALITY
			a (id, given, sealed, verified, since, last, purged, ord)
		JOIN queen.log_partitions p ON p.id = a.id
		JOIN queen.queues q ON q.id = p.queue_id
		CROSS JOIN LATERAL (SELECT CASE WHEN q.encryption_enabled AND NOT a.sealed THEN 2 ELSE 0 END AS status) s) r;

	IF v_probe THEN
		SELECT array_agg(d.lane), array_agg(d.index), array_agg(d.at) INTO v_dup_lane, v_dup_index, v_dup_at
		FROM queen.find_duplicates(v_id, p_count, p_hashes, v_after, v_last, v_window, v_now) d;
		IF v_dup_lane IS NOT NULL THEN
			SELECT array_agg(CASE WHEN a.ord = ANY (v_dup_lane) THEN 1 ELSE a.status END ORDER BY a.ord) INTO v_status
			FROM unnest(v_status) WITH ORDINALITY a (status, ord);
		END IF;
	END IF;

	-- The clock may have stepped back since the lane's newest message.
	WITH lane AS MATERIALIZED (
		SELECT a.id, a.last + 1 AS base, a.last + a.cnt AS until, GREATEST(v_now, a.newest) AS at, a.raw, a.hashes, a.blob
		FROM unnest(v_id, v_last, v_newest, v_status, p_count, p_raw_bytes, p_hashes, p_blob)
			a (id, last, newest, status, cnt, raw, hashes, blob)
		WHERE a.status = 0
	), allocated AS (
		UPDATE queen.log_partitions p
		SET last_offset = l.until, newest_at = l.at, oldest_live_at = COALESCE(p.oldest_live_at, l.at),
			oldest_txn_at = COALESCE(p.oldest_txn_at, l.at),
			last_write_at = CASE WHEN p.last_write_at <= v_now - interval '1 second' THEN v_now ELSE p.last_write_at END
		FROM lane l
		WHERE p.id = l.id
	), hashed AS (
		INSERT INTO queen.log_txns (partition_id, base_offset, end_offset, created_at, hashes)
		SELECT l.id, l.base, l.until, l.at, l.hashes FROM lane l
	)
	INSERT INTO queen.log_segments (partition_id, base_offset, end_offset, created_at, raw_bytes, blob)
	SELECT l.id, l.base, l.until, l.at, l.raw, l.blob FROM lane l;

	RETURN QUERY
	SELECT a.ord::int4 - 1, a.status, a.id, CASE WHEN a.status = 0 THEN a.last + 1 END,
		CASE WHEN a.status = 0 THEN queen.to_us(GREATEST(v_now, a.newest)) END, a.win, d.index, d.at,
		a.sealing, a.delay, a.buffer
	FROM unnest(v_id, v_last, v_newest, v_status, v_window, v_sealing, v_delay, v_buffer) WITH ORDINALITY
		a (id, last, newest, status, win, sealing, delay, buffer, ord)
	LEFT JOIN LATERAL (
		SELECT array_agg(f.index ORDER BY f.index) AS index, array_agg(f.at ORDER BY f.index) AS at
		FROM unnest(v_dup_lane, v_dup_index, v_dup_at) f (lane, index, at)
		WHERE a.status = 1 AND f.lane = a.ord) d ON true
	ORDER BY a.ord;
END
$$;

-- Segments that hold the given offsets; a row of nulls where retention was faster.
CREATE OR REPLACE FUNCTION queen.fetch_v1(p_tenant uuid, p_partition_id uuid[], p_offset int8[])
RETURNS TABLE (ord int4, base_offset int8, created_at_us int8, count int4, blob bytea)
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off
AS $$
BEGIN
	RETURN QUERY
	SELECT a.ord::int4 - 1, s.base_offset, queen.to_us(s.created_at), (s.end_offset - s.base_offset + 1)::int4, s.blob
	FROM unnest(p_partition_id, p_offset) WITH ORDINALITY a (id, at, ord)
	LEFT JOIN LATERAL (
		SELECT f.* FROM queen.log_segments f
		WHERE f.partition_id = a.id AND f.base_offset <= a.at
			AND EXISTS (SELECT 1 FROM queen.log_partitions p JOIN queen.queues q ON q.id = p.queue_id
				WHERE p.id = a.id AND q.tenant_id = p_tenant)
		ORDER BY f.base_offset DESC LIMIT 1) s ON s.end_offset >= a.at
	ORDER BY a.ord;
END
$$;

-- The hashes of a lane's messages above p_after that are still inside the deduplication window, oldest first: those of
-- about p_bytes / 16 consecutive offsets, in whole rows. No row when the lane is gone. Messages of the window up to
-- last_offset, or up to the end of the last row when there is more, are all there. The first of them is found by
-- halving, since hash rows outlive the window by far.
CREATE OR REPLACE FUNCTION queen.hashes_v1(p_partition_id uuid, p_after int8, p_bytes int8)
RETURNS TABLE (last_offset int8, dedup_window_s int4, since_us int8, more bool, base_offset int8[], created_at_us int8[],
	hashes bytea[])
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
	v_since timestamptz;
	v_from int8;
	v_upto int8;
	v_middle int8;
	v_row record;
BEGIN
	SELECT p.last_offset, q.dedup_window_seconds, clock_timestamp() - q.dedup_window_seconds * interval '1 second',
		GREATEST(p_after + 1, p.txns_start)
	INTO last_offset, dedup_window_s, v_since, v_from
	FROM queen.log_partitions p JOIN queen.queues q ON q.id = p.queue_id
	WHERE p.id = p_partition_id;
	IF NOT FOUND THEN
		RETURN;
	END IF;
	v_upto := last_offset + 1;
	v_middle := v_from;
	WHILE dedup_window_s > 0 AND v_from < v_upto LOOP
		SELECT t.base_offset, t.end_offset, t.created_at INTO v_row
		FROM queen.log_txns t
		WHERE t.partition_id = p_partition_id AND t.base_offset <= v_middle
		ORDER BY t.base_offset DESC LIMIT 1;
		IF v_row.created_at >= v_since AND v_row.end_offset >= v_middle THEN
			v_upto := GREATEST(v_row.base_offset, v_from);
		ELSE
			v_from := GREATEST(v_middle, v_row.end_offset) + 1;
		END IF;
		v_middle := v_from + (v_upto - v_from) / 2;
	END LOOP;
	SELECT array_agg(t.base_offset ORDER BY t.base_offset), array_agg(queen.to_us(t.created_at) ORDER BY t.base_offset),
		array_agg(t.hashes ORDER BY t.base_offset), max(t.end_offset) < hashes_v1.last_offset
	INTO base_offset, created_at_us, hashes, more
	FROM queen.log_txns t
	WHERE t.partition_id = p_partition_id AND dedup_window_s > 0 AND t.end_offset >= v_from
		AND t.base_offset < v_from + GREATEST(p_bytes / 16, 1)
		AND t.base_offset >= COALESCE((SELECT b.base_offset FROM queen.log_txns b
			WHERE b.partition_id = p_partition_id AND b.base_offset <= v_from
			ORDER BY b.base_offset DESC LIMIT 1), v_from);
	since_us := queen.to_us(v_since);
	more := COALESCE(more, false);
	RETURN NEXT;
END
$$;
