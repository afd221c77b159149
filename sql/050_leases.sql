-- SPDX-License-Identifier: Apache-2.0
--
-- Leases that are given back or made longer. A lease that has run out is not revived.

-- The lease's id is the only address, and log_consumers has no index on it (one would end HOT updates of the busiest
-- table): the whole table is read. Rows are locked in the common order before they are changed.
CREATE OR REPLACE FUNCTION queen.extend_v1(p_tenant uuid, p_lease_id text, p_seconds int4)
RETURNS TABLE (renewed int4, expires_at_us int8)
LANGUAGE plpgsql AS $$
DECLARE
	v_now CONSTANT timestamptz := clock_timestamp();
	v_id uuid[];
	v_group text[];
BEGIN
	SELECT array_agg(l.partition_id), array_agg(l.consumer_group) INTO v_id, v_group
	FROM (SELECT c.partition_id, c.consumer_group
		FROM queen.log_consumers c
		JOIN queen.log_partitions p ON p.id = c.partition_id
		JOIN queen.queues q ON q.id = p.queue_id AND q.tenant_id = p_tenant
		WHERE c.worker_id = p_lease_id AND c.lease_expires_at > v_now
		ORDER BY c.partition_id, c.consumer_group
		FOR NO KEY UPDATE OF c) l;
	RETURN QUERY
	WITH longer AS (
		UPDATE queen.log_consumers c
		SET lease_expires_at = GREATEST(c.lease_expires_at, v_now + p_seconds * interval '1 second')
		FROM unnest(v_id, v_group) a (id, grp)
		WHERE c.partition_id = a.id AND c.consumer_group = a.grp
		RETURNING c.lease_expires_at
	)
	SELECT count(*)::int4, COALESCE(queen.to_us(min(longer.lease_expires_at)), 0) FROM longer;
END
$$;

-- As if the claim had not been: also its delivery is not counted.
CREATE OR REPLACE FUNCTION queen.release_v1(p_tenant uuid, p_group text, p_lease_id text, p_partition_id uuid[])
RETURNS TABLE (released int4)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
	v_id uuid[];
BEGIN
	SELECT array_agg(l.partition_id) INTO v_id
	FROM (SELECT c.partition_id
		FROM unnest(p_partition_id) a (id)
		JOIN queen.log_partitions p ON p.id = a.id
		JOIN queen.queues q ON q.id = p.queue_id AND q.tenant_id = p_tenant
		JOIN queen.log_consumers c ON c.partition_id = p.id AND c.consumer_group = p_group
		WHERE c.worker_id = p_lease_id
		ORDER BY c.partition_id
		FOR NO KEY UPDATE OF c) l;
	UPDATE queen.log_consumers c
	SET batch_end = NULL, worker_id = NULL, lease_expires_at = NULL, lease_acquired_at = NULL,
		attempt_count = GREATEST(c.attempt_count - 1, 0)
	FROM unnest(v_id) a (id)
	WHERE c.partition_id = a.id AND c.consumer_group = p_group;
	GET DIAGNOSTICS released = ROW_COUNT;
	RETURN NEXT;
END
$$;
