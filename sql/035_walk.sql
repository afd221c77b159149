-- SPDX-License-Identifier: Apache-2.0
--
-- Walk: which lanes of a queue have messages for a group, page by page, whatever leases and delays say. For hot lists
-- that learn of a queue for the first time, and that check from time to time what they missed.

-- The next lanes of a walk, by id or, when p_since is given, by the time of their last write. The bodies differ in their
-- order only, which decides the index.
CREATE OR REPLACE FUNCTION queen.walk_lanes(p_queue_id uuid, p_after_id uuid, p_since timestamptz, p_limit int4)
RETURNS TABLE (id uuid, last_offset int8, log_start int8, last_write_at timestamptz)
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET jit = off
AS $$
BEGIN
	IF p_since IS NULL THEN
		RETURN QUERY
		SELECT p.id, p.last_offset, p.log_start, p.last_write_at FROM queen.log_partitions p
		WHERE p.queue_id = p_queue_id AND p.id > p_after_id
		ORDER BY p.id LIMIT p_limit;
	ELSE
		RETURN QUERY
		SELECT p.id, p.last_offset, p.log_start, p.last_write_at FROM queen.log_partitions p
		WHERE p.queue_id = p_queue_id AND p.last_write_at >= p_since AND (p.last_write_at, p.id) > (p_since, p_after_id)
		ORDER BY p.last_write_at, p.id LIMIT p_limit;
	END IF;
END
$$;

CREATE OR REPLACE FUNCTION queen.walk_v1(p_tenant uuid, p_queue text, p_group text, p_after_id uuid, p_after_us int8,
	p_limit int4, p_within_s int4)
RETURNS TABLE (next_id uuid, next_us int8, is_last bool, lanes uuid[])
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
	v_queue CONSTANT uuid := (SELECT q.id FROM queen.queues q WHERE q.tenant_id = p_tenant AND q.name = p_queue);
	-- A write within the second after another does not move last_write_at.
	v_since CONSTANT timestamptz := CASE WHEN p_within_s = 0 THEN NULL WHEN p_after_us > 0 THEN queen.from_us(p_after_us)
		ELSE now() - (p_within_s + 1) * interval '1 second' END;
BEGIN
	RETURN QUERY
	SELECT (array_agg(l.id ORDER BY l.ord DESC))[1], queen.to_us((array_agg(l.last_write_at ORDER BY l.ord DESC))[1]),
		count(*) < p_limit, COALESCE(array_agg(l.id ORDER BY l.ord) FILTER (WHERE l.has_work), '{}')
	FROM (SELECT g.id, g.last_write_at, g.ord,
			g.last_offset > GREATEST(COALESCE(c.committed, -1), g.log_start - 1) AS has_work
		FROM queen.walk_lanes(v_queue, p_after_id, v_since, p_limit) WITH ORDINALITY
			g (id, last_offset, log_start, last_write_at, ord)
		LEFT JOIN queen.log_consumers c ON c.partition_id = g.id AND c.consumer_group = p_group) l;
END
$$;
