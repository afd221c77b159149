-- SPDX-License-Identifier: Apache-2.0
--
-- Leases that are given back or made longer. A lease that has run out is not revived.
-- Lease and tenant are compared inside a CASE and the group is a column of the lanes: a plain equality with a parameter
-- looks so selective to the planner that it would begin with all cursors, or all lanes of the tenant.

-- Cursors a lease is on. The lease's id is the only address, and log_consumers has no index on it (one would end HOT
-- updates of the busiest table): the whole table is read.
CREATE OR REPLACE FUNCTION queen.find_lease(p_lease_id text)
RETURNS TABLE (partition_id uuid, consumer_group text)
LANGUAGE plpgsql STABLE
SET enable_seqscan = on SET enable_indexscan = off SET enable_bitmapscan = off SET jit = off
AS $$
BEGIN
	RETURN QUERY SELECT c.partition_id, c.consumer_group FROM queen.log_consumers c WHERE c.worker_id = p_lease_id;
END
$$;

-- Rows are locked in the common order before they are changed.
CREATE OR REPLACE FUNCTION queen.extend_v1(p_tenant uuid, p_lease_id text, p_seconds int4, p_group text,
	p_partition_id uuid[])
RETURNS TABLE (renewed int4, expires_at_us int8)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
	v_now CONSTANT timestamptz := clock_timestamp();
	v_id uuid[];
	v_group text[];
BEGIN
	IF cardinality(p_partition_id) > 0 THEN
		v_id := p_partition_id;
		v_group := array_fill(p_group, ARRAY[cardinality(p_partition_id)]);
	ELSE
		SELECT array_agg(f.partition_id), array_agg(f.consumer_group) INTO v_id, v_group
		FROM queen.find_lease(p_lease_id) f;
	END IF;
	SELECT array_agg(l.partition_id), array_agg(l.consumer_group) INTO v_id, v_group
	FROM (SELECT c.partition_id, c.consumer_group
		FROM unnest(v_id, v_group) a (id, grp)
		JOIN queen.log_consumers c ON c.partition_id = a.id AND c.consumer_group = a.grp
		JOIN queen.log_partitions p ON p.id = c.partition_id
		JOIN queen.queues q ON q.id = p.queue_id AND CASE WHEN q.tenant_id = p_tenant THEN true END
		WHERE CASE WHEN c.worker_id = p_lease_id THEN c.lease_expires_at > v_now END
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
	SELECT COALESCE(array_agg(l.partition_id), '{}') INTO v_id
	FROM (SELECT c.partition_id
		FROM unnest(p_partition_id, array_fill(p_group, ARRAY[cardinality(p_partition_id)])) a (id, grp)
		JOIN queen.log_partitions p ON p.id = a.id
		JOIN queen.queues q ON q.id = p.queue_id AND CASE WHEN q.tenant_id = p_tenant THEN true END
		JOIN queen.log_consumers c ON c.partition_id = p.id AND c.consumer_group = a.grp
		WHERE CASE WHEN c.worker_id = p_lease_id THEN true END
		ORDER BY c.partition_id
		FOR NO KEY UPDATE OF c) l;
	UPDATE queen.log_consumers c
	SET batch_end = NULL, worker_id = NULL, lease_expires_at = NULL, lease_acquired_at = NULL,
		attempt_count = GREATEST(c.attempt_count - 1, 0)
	FROM unnest(v_id, array_fill(p_group, ARRAY[cardinality(v_id)])) a (id, grp)
	WHERE c.partition_id = a.id AND c.consumer_group = a.grp;
	GET DIAGNOSTICS released = ROW_COUNT;
	RETURN NEXT;
END
$$;
