-- SPDX-License-Identifier: Apache-2.0
--
-- Transactions: pushes and acknowledgements that are carried out together or not at all.
-- push_v1, settle_v1 and dead_letter_v1 do the work, in this order, so that locks are taken as everywhere: queue rows,
-- lane rows ascending, cursor rows ascending. They run in a block of their own; what refuses the call raises QT000, which
-- undoes the block, while the rows that say why are already in the result.
-- Numbers of verdict: those of enum qn_txn_verdict.

-- Index (from 0) of the first lease that no cursor holds; null: all are held. The cursors of the call's lanes and those
-- that hold the leases are locked, ascending, and judged afterwards. A lease that none of the call's lanes holds is looked
-- for everywhere, as extend_v1 does. Tenants and leases are compared inside a CASE for the reason given there.
CREATE OR REPLACE FUNCTION queen.lock_cursors(p_tenant uuid, p_partition_id uuid[], p_group text[], p_fence text[])
RETURNS int4
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
	v_id uuid[] := p_partition_id;
	v_group text[] := p_group;
	v_elsewhere text[];
	v_first int4;
BEGIN
	IF cardinality(p_fence) > 0 THEN
		SELECT array_agg(f.lease) INTO v_elsewhere
		FROM unnest(p_fence) f (lease)
		WHERE NOT EXISTS (SELECT 1 FROM unnest(p_partition_id, p_group) a (id, grp)
			JOIN queen.log_consumers c ON c.partition_id = a.id AND c.consumer_group = a.grp
			WHERE CASE WHEN c.worker_id = f.lease THEN true END);
		IF v_elsewhere IS NOT NULL THEN
			SELECT v_id || array_agg(e.partition_id), v_group || array_agg(e.consumer_group) INTO v_id, v_group
			FROM unnest(v_elsewhere) f (lease)
			CROSS JOIN LATERAL queen.find_lease(f.lease) e;
		END IF;
	END IF;
	PERFORM 1
	FROM (SELECT DISTINCT u.id, u.grp FROM unnest(v_id, v_group) u (id, grp)) a
	JOIN queen.log_partitions p ON p.id = a.id
	JOIN queen.queues q ON q.id = p.queue_id AND CASE WHEN q.tenant_id = p_tenant THEN true END
	JOIN queen.log_consumers c ON c.partition_id = p.id AND c.consumer_group = a.grp
	ORDER BY c.partition_id, c.consumer_group
	FOR NO KEY UPDATE OF c;
	SELECT min(f.ord)::int4 - 1 INTO v_first
	FROM unnest(p_fence) WITH ORDINALITY f (lease, ord)
	WHERE NOT EXISTS (SELECT 1 FROM unnest(v_id, v_group) a (id, grp)
		JOIN queen.log_partitions p ON p.id = a.id
		JOIN queen.queues q ON q.id = p.queue_id AND CASE WHEN q.tenant_id = p_tenant THEN true END
		JOIN queen.log_consumers c ON c.partition_id = p.id AND c.consumer_group = a.grp
		WHERE CASE WHEN c.worker_id = f.lease THEN c.lease_expires_at > clock_timestamp() END);
	RETURN v_first;
END
$$;

CREATE OR REPLACE FUNCTION queen.transaction_v1(
	p_tenant uuid, p_queue text[], p_partition text[], p_partition_id uuid[], p_count int4[], p_raw_bytes int4[],
	p_sealed bool[], p_hashes bytea[], p_verified int8[], p_blob bytea[],
	p_verified_since int8[], p_repeats int4[],
	p_ack_partition_id uuid[], p_group text[], p_lease_id text[], p_item_lane int4[], p_item_hash bytea,
	p_item_status int4[], p_fence text[], p_borrow bool, p_hint text,
	p_letter_lane int4[], p_letter_offset int8[], p_letter_message_id uuid[], p_letter_transaction_id text[],
	p_letter_payload bytea[], p_letter_error text[])
RETURNS TABLE (kind int4, lane int4, status int4, partition_id uuid, base_offset int8, created_at_us int8,
	dedup_window_s int4, lease_released bool, committed int8, has_more bool, queue text, partition text, outcomes int4[],
	reasons int4[], poison_item int4, poison_offset int8, retry_count int4, seg_base int8, seg_count int4,
	seg_created_at_us int8, seg_blob bytea, encryption_enabled bool, delayed_processing int4, window_buffer int4)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
	v_verdict int4 := 0;
	v_refused int4 := 0;
	v_lane uuid[] := '{}';
	v_base int8[] := '{}';
	v_lease text[];
	v_before int8[];
	v_batch_end int8[];
	v_unknown int4[] := '{}';
	v_letter int4[] := '{}';
	v_retries int4[] := '{}';
	v_item int4 := 0;
	v_at int4;
	r record;
BEGIN
	IF cardinality(p_repeats) <> cardinality(p_queue) OR cardinality(p_letter_offset) <> cardinality(p_letter_lane) THEN
		RAISE EXCEPTION 'transaction arrays do not agree' USING ERRCODE = 'invalid_parameter_value';
	END IF;
	BEGIN
		IF cardinality(p_queue) > 0 THEN
			FOR r IN SELECT * FROM queen.push_v1(array_fill(p_tenant, ARRAY[cardinality(p_queue)]), p_queue, p_partition,
					p_partition_id, p_count, p_raw_bytes, p_sealed, p_hashes, p_verified, p_blob, p_verified_since) LOOP
				kind := 1; lane := r.ord; status := r.status; partition_id := r.partition_id; base_offset := r.base_offset;
				created_at_us := r.created_at_us; dedup_window_s := r.dedup_window_s;
				encryption_enabled := r.encryption_enabled; delayed_processing := r.delayed_processing;
				window_buffer := r.window_buffer;
				RETURN NEXT;
				v_lane := v_lane || r.partition_id;
				v_base := v_base || r.base_offset;
				IF v_verdict = 0 AND r.status > 0 THEN
					v_verdict := r.status;
					v_refused := r.ord;
				ELSIF v_verdict = 0 AND p_repeats[r.ord + 1] = (CASE WHEN r.dedup_window_s > 0 THEN 2 ELSE 1 END) THEN
					v_verdict := 3;
					v_refused := r.ord;
				END IF;
			END LOOP;
			IF v_verdict > 0 THEN
				RAISE EXCEPTION USING ERRCODE = 'QT000';
			END IF;
		END IF;

		v_at := queen.lock_cursors(p_tenant, p_ack_partition_id, p_group, p_fence);
		IF v_at IS NOT NULL THEN
			v_verdict := 4;
			v_refused := v_at;
			RAISE EXCEPTION USING ERRCODE = 'QT000';
		END IF;

		IF cardinality(p_ack_partition_id) > 0 THEN
			-- The lanes' leases, where they stood before the pushes, and the first lane that cannot be acknowledged.
			SELECT array_agg(l.lease ORDER BY l.ord), array_agg(l.before ORDER BY l.ord),
				array_agg(l.batch_end ORDER BY l.ord), min(l.ord * 16 + l.verdict) FILTER (WHERE l.verdict > 0)
			INTO v_lease, v_before, v_batch_end, v_at
			FROM (SELECT k.ord::int4 AS ord, k.lease, COALESCE(k.base - 1, k.last_offset) AS before, k.batch_end,
					CASE WHEN NOT k.owned THEN 5 WHEN NOT k.consumer THEN 6
						WHEN k.lease <> '' AND (k.worker_id IS DISTINCT FROM k.lease
							OR k.expires IS NULL OR k.expires <= clock_timestamp()) THEN 7
						ELSE 0 END AS verdict
				FROM (SELECT a.ord, q.id IS NOT NULL AS owned, c.partition_id IS NOT NULL AS consumer, c.worker_id,
						c.lease_expires_at AS expires, c.batch_end, p.last_offset, v_base[array_position(v_lane, a.id)] AS base,
						CASE WHEN a.lease = '' AND p_borrow THEN COALESCE(c.worker_id, p_hint) ELSE a.lease END AS lease
					FROM unnest(p_ack_partition_id, p_group, p_lease_id) WITH ORDINALITY a (id, grp, lease, ord)
					LEFT JOIN queen.log_partitions p ON p.id = a.id
					LEFT JOIN queen.queues q ON q.id = p.queue_id AND CASE WHEN q.tenant_id = p_tenant THEN true END
					LEFT JOIN queen.log_consumers c ON c.partition_id = p.id AND c.consumer_group = a.grp) k) l;
			IF v_at IS NOT NULL THEN
				v_verdict := v_at % 16;
				v_refused := v_at / 16 - 1;
				RAISE EXCEPTION USING ERRCODE = 'QT000';
			END IF;

			FOR r IN SELECT * FROM queen.settle_v1(array_fill(p_tenant, ARRAY[cardinality(p_group)]), p_ack_partition_id,
					p_group, v_lease, p_item_lane, p_item_hash, p_item_status) LOOP
				kind := 2; lane := r.lane; lease_released := r.lease_released; committed := r.committed; has_more := r.has_more;
				queue := r.queue; partition := r.partition; outcomes := r.outcomes; reasons := r.reasons;
				poison_item := r.poison_item; poison_offset := r.poison_offset; retry_count := r.retry_count;
				seg_base := r.seg_base; seg_count := r.seg_count; seg_created_at_us := r.seg_created_at_us; seg_blob := r.seg_blob;
				status := NULL; partition_id := NULL; base_offset := NULL; created_at_us := NULL; dedup_window_s := NULL;
				encryption_enabled := NULL; delayed_processing := NULL; window_buffer := NULL;
				RETURN NEXT;
				-- A message of this call is not there yet for its acknowledgements.
				IF v_verdict = 0 AND r.committed > v_before[r.lane + 1] THEN
					v_verdict := 8;
					v_refused := r.lane;
				ELSIF v_verdict = 0 AND 5 = ANY (r.reasons) THEN
					v_verdict := 9;
					v_refused := r.lane;
				END IF;
				SELECT v_unknown || array_agg(v_item + o.ord::int4) INTO v_unknown
				FROM unnest(r.reasons) WITH ORDINALITY o (reason, ord) WHERE o.reason = 3;
				v_item := v_item + cardinality(r.reasons);
				IF r.poison_item IS NOT NULL THEN
					v_at := array_position(p_letter_lane, r.lane);
					v_letter := v_letter || CASE WHEN p_letter_offset[v_at] = r.poison_offset THEN v_at ELSE 0 END;
					v_retries := v_retries || r.retry_count;
				END IF;
			END LOOP;
			IF cardinality(v_unknown) > 0 AND v_verdict = 0 THEN
				-- What lies above the leased batch exists, but cannot be acknowledged yet.
				SELECT min(p_item_lane[u.item]) INTO v_at
				FROM unnest(v_unknown) u (item)
				WHERE u.item NOT IN (SELECT v_unknown[m.item]
					FROM queen.match_hashes(p_ack_partition_id,
						(SELECT array_agg(COALESCE(e.batch_end, e.before) ORDER BY e.ord)
							FROM unnest(v_batch_end, v_before) WITH ORDINALITY e (batch_end, before, ord)),
						v_before, array_fill('-infinity'::timestamptz, ARRAY[cardinality(p_group)]),
						(SELECT array_agg(p_item_lane[w.item] + 1 ORDER BY w.ord)
							FROM unnest(v_unknown) WITH ORDINALITY w (item, ord)),
						(SELECT string_agg(substring(p_item_hash FROM w.item * 16 - 15 FOR 16), ''::bytea ORDER BY w.ord)
							FROM unnest(v_unknown) WITH ORDINALITY w (item, ord))) m);
				IF v_at IS NOT NULL THEN
					v_verdict := 8;
					v_refused := v_at;
				END IF;
			END IF;
			IF v_verdict = 0 AND 0 = ANY (v_letter) THEN
				v_verdict := 10;
			END IF;
			IF v_verdict > 0 THEN
				RAISE EXCEPTION USING ERRCODE = 'QT000';
			END IF;
		END IF;

		IF cardinality(v_letter) > 0 THEN
			FOR r IN SELECT a.lane, d.* FROM (
					SELECT array_agg(p_tenant) AS tenant, array_agg(p_ack_partition_id[p_letter_lane[k.at] + 1] ORDER BY k.ord) AS id,
						array_agg(p_group[p_letter_lane[k.at] + 1] ORDER BY k.ord) AS grp,
						array_agg(v_lease[p_letter_lane[k.at] + 1] ORDER BY k.ord) AS lease,
						array_agg(p_letter_offset[k.at] ORDER BY k.ord) AS off, array_agg(1) AS one, array_agg(0) AS poison,
						array_agg(p_letter_message_id[k.at] ORDER BY k.ord) AS message,
						array_agg(p_letter_transaction_id[k.at] ORDER BY k.ord) AS txn,
						array_agg(p_letter_payload[k.at] ORDER BY k.ord) AS payload,
						array_agg(p_letter_error[k.at] ORDER BY k.ord) AS error,
						array_agg(p_letter_lane[k.at] ORDER BY k.ord) AS lanes
					FROM unnest(v_letter) WITH ORDINALITY k (at, ord)) x
				CROSS JOIN LATERAL queen.dead_letter_v1(x.tenant, x.id, x.grp, x.lease, x.off, x.one, x.message, x.txn, x.payload,
					x.error, v_retries, x.poison) d
				CROSS JOIN LATERAL (SELECT x.lanes[d.ord + 1] AS lane) a LOOP
				IF NOT r.filed THEN
					RAISE EXCEPTION 'a dead letter under lock was not filed' USING ERRCODE = 'internal_error';
				END IF;
				kind := 3; lane := r.lane; has_more := r.has_more; lease_released := NULL; committed := NULL; queue := NULL;
				partition := NULL; outcomes := NULL; reasons := NULL; poison_item := NULL; poison_offset := NULL;
				retry_count := NULL; seg_base := NULL; seg_count := NULL; seg_created_at_us := NULL; seg_blob := NULL;
				RETURN NEXT;
			END LOOP;
		END IF;
	EXCEPTION WHEN SQLSTATE 'QT000' THEN
		NULL;
	END;
	RETURN QUERY SELECT 0, v_refused, v_verdict, NULL::uuid, NULL::int8, NULL::int8, NULL::int4, NULL::bool, NULL::int8,
		NULL::bool, NULL::text, NULL::text, NULL::int4[], NULL::int4[], NULL::int4, NULL::int8, NULL::int4, NULL::int8,
		NULL::int4, NULL::int8, NULL::bytea, NULL::bool, NULL::int4, NULL::int4;
END
$$;
