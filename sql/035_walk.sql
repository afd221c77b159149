-- SPDX-License-Identifier: Apache-2.0
--
-- Walk: which lanes of a queue have messages for a group, page by page, whatever leases and delays say. For hot lists
-- that learn of a queue for the first time, and that check from time to time what they missed.

CREATE OR REPLACE FUNCTION queen.walk_v1(p_tenant uuid, p_queue text, p_group text, p_after uuid, p_limit int4,
	p_since_us int8)
RETURNS TABLE (next_id uuid, is_last bool, lanes uuid[])
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
	v_queue CONSTANT uuid := (SELECT q.id FROM queen.queues q WHERE q.tenant_id = p_tenant AND q.name = p_queue);
	v_since CONSTANT timestamptz := queen.from_us(p_since_us) - interval '1 second';
BEGIN
	RETURN QUERY
	SELECT (array_agg(l.id ORDER BY l.id DESC))[1], count(*) < p_limit,
		COALESCE(array_agg(l.id ORDER BY l.id) FILTER (WHERE l.has_work), '{}')
	FROM (SELECT g.id, g.last_write_at >= v_since
				AND g.last_offset > GREATEST(COALESCE(c.committed, -1), g.log_start - 1) AS has_work
		FROM (SELECT p.id, p.last_offset, p.log_start, p.last_write_at FROM queen.log_partitions p
			WHERE p.queue_id = v_queue AND p.id > p_after
			ORDER BY p.id LIMIT p_limit) g
		LEFT JOIN queen.log_consumers c ON c.partition_id = g.id AND c.consumer_group = p_group) l;
END
$$;
