-- SPDX-License-Identifier: Apache-2.0
--
-- Listings. Messages are counted by arithmetic on offsets; segments and their bytes are counted, which costs as much
-- as there are segments (blobs are not read for it), and only when asked for.

-- Counts of lanes. A lane that nobody reads is pending as a whole; processing is what live leases hold.
CREATE OR REPLACE FUNCTION queen.lane_counts(p_queue_id uuid)
RETURNS TABLE (id uuid, total int8, pending int8, processing int8, first_pending int8)
LANGUAGE sql STABLE AS $$
	SELECT l.id, l.total, l.pending, LEAST(l.leased, l.pending), l.last_offset - l.pending + 1
	FROM (SELECT p.id, p.last_offset, GREATEST(p.last_offset - p.log_start + 1, 0) AS total,
			GREATEST(p.last_offset - GREATEST(COALESCE(c.worst, -1), p.log_start - 1), 0) AS pending,
			COALESCE(c.leased, 0)::int8 AS leased
		FROM queen.log_partitions p
		LEFT JOIN LATERAL (
			SELECT min(g.committed) AS worst,
				sum(g.batch_end - g.committed) FILTER (WHERE g.worker_id IS NOT NULL AND g.lease_expires_at > now()) AS leased
			FROM queen.log_consumers g WHERE g.partition_id = p.id) c ON true
		WHERE p.queue_id = p_queue_id) l
$$;

CREATE OR REPLACE FUNCTION queen.list_queues_v1(p_tenant uuid, p_one bool, p_queue text, p_namespace text, p_task text,
	p_search text, p_limit int8, p_offset int8, p_sizes bool)
RETURNS TABLE (id uuid, name text, namespace text, task text, priority int4, lease_time int4, retry_limit int4,
	retry_delay int4, max_queue_size int4, ttl int4, delayed_processing int4, window_buffer int4, retention_seconds int4,
	completed_retention_seconds int4, max_wait_time_seconds int4, min_pop_wait_time int4, dedup_window_seconds int4,
	dead_letter_queue bool, dlq_after_max_retries bool, retention_enabled bool, encryption_enabled bool,
	created_at_us int8, partitions int8, segments int8, messages int8, pending int8, processing int8,
	retained_bytes int8)
LANGUAGE sql STABLE AS $$
	SELECT q.id, q.name, COALESCE(q.namespace, ''), COALESCE(q.task, ''), q.priority, q.lease_time, q.retry_limit,
		q.retry_delay, q.max_queue_size, q.ttl, q.delayed_processing, q.window_buffer, q.retention_seconds,
		q.completed_retention_seconds, q.max_wait_time_seconds, q.min_pop_wait_time, q.dedup_window_seconds,
		q.dead_letter_queue, q.dlq_after_max_retries, q.retention_enabled, q.encryption_enabled,
		queen.to_us(q.created_at), l.lanes, s.segments, l.total, l.pending, l.processing, s.bytes
	FROM (SELECT u.* FROM queen.queues u
		WHERE u.tenant_id = p_tenant
			AND CASE WHEN p_one THEN u.name = p_queue
				ELSE (p_namespace = '' OR u.namespace = p_namespace) AND (p_task = '' OR u.task = p_task)
					AND (p_search = '' OR position(p_search IN u.name) > 0) END
		ORDER BY u.created_at DESC, u.id
		LIMIT CASE WHEN p_one OR p_limit < 0 THEN NULL ELSE p_limit END
		OFFSET CASE WHEN p_one THEN 0 ELSE p_offset END) q
	CROSS JOIN LATERAL (
		SELECT count(*) AS lanes, COALESCE(sum(c.total), 0)::int8 AS total, COALESCE(sum(c.pending), 0)::int8 AS pending,
			COALESCE(sum(c.processing), 0)::int8 AS processing
		FROM queen.lane_counts(q.id) c) l
	CROSS JOIN LATERAL (
		SELECT count(*) AS segments, COALESCE(sum(octet_length(g.blob)), 0)::int8 AS bytes
		FROM queen.log_partitions p
		JOIN queen.log_segments g ON g.partition_id = p.id
		WHERE p_sizes AND p.queue_id = q.id) s
	ORDER BY q.created_at DESC, q.id
$$;

CREATE OR REPLACE FUNCTION queen.list_partitions_v1(p_tenant uuid, p_queue text)
RETURNS TABLE (id uuid, name text, created_at_us int8, total int8, pending int8, processing int8, completed int8,
	dead_letter int8, oldest_pending_at_us int8, newest_at_us int8)
LANGUAGE sql STABLE AS $$
	SELECT p.id, p.name, queen.to_us(p.created_at), c.total, c.pending, c.processing,
		GREATEST(c.total - c.pending - d.dead, 0), d.dead,
		COALESCE(queen.to_us(o.created_at), 0), CASE WHEN c.total > 0 THEN COALESCE(queen.to_us(p.newest_at), 0) ELSE 0 END
	FROM queen.queues q
	CROSS JOIN LATERAL queen.lane_counts(q.id) c
	JOIN queen.log_partitions p ON p.id = c.id
	CROSS JOIN LATERAL (SELECT count(*) AS dead FROM queen.log_dlq x WHERE x.partition_id = p.id) d
	LEFT JOIN LATERAL (
		SELECT s.created_at FROM queen.log_segments s
		WHERE c.pending > 0 AND s.partition_id = p.id
			AND s.base_offset >= COALESCE((SELECT b.base_offset FROM queen.log_segments b
				WHERE b.partition_id = p.id AND b.base_offset <= c.first_pending
				ORDER BY b.base_offset DESC LIMIT 1), c.first_pending)
			AND s.end_offset >= c.first_pending
		ORDER BY s.base_offset LIMIT 1) o ON true
	WHERE q.tenant_id = p_tenant AND q.name = p_queue
	ORDER BY p.name
$$;
