-- SPDX-License-Identifier: Apache-2.0
--
-- Where a consumer group starts. A start is a time: 'epoch' for everything retained, the time of registration for
-- "new", or the time asked for. It is decided once per (group, queue) and kept in consumer_groups_metadata; the
-- cursors of lanes that exist then are made then, those of later lanes when they are first met, by the same time.

-- The last offset before a time, looked for segment by segment. Apart from start_cursor because a function with a
-- query inside cannot be inlined, and most starts need no query.
CREATE OR REPLACE FUNCTION queen.offset_before(p_lane uuid, p_last_offset int8, p_log_start int8, p_from timestamptz)
RETURNS int8
LANGUAGE sql STABLE AS $$
	SELECT COALESCE((SELECT s.base_offset - 1 FROM queen.log_segments s
		WHERE s.partition_id = p_lane AND s.base_offset >= p_log_start AND s.created_at >= p_from
		ORDER BY s.base_offset LIMIT 1), p_last_offset)
$$;

-- The cursor of a lane for a start: the last offset not to be delivered. 'infinity' means from now on.
CREATE OR REPLACE FUNCTION queen.start_cursor(
	p_lane uuid, p_last_offset int8, p_log_start int8, p_newest_at timestamptz, p_from timestamptz)
RETURNS int8
LANGUAGE sql STABLE AS $$
	SELECT CASE
		WHEN p_from <= 'epoch' THEN p_log_start - 1
		WHEN p_newest_at IS NULL OR p_newest_at < p_from THEN p_last_offset
		ELSE queen.offset_before(p_lane, p_last_offset, p_log_start, p_from)
		END
$$;

-- What is on record for a group and a queue: the queue's own registration, else the oldest one whose labels match.
CREATE OR REPLACE FUNCTION queen.registered_start(
	p_tenant uuid, p_group text, p_queue_id uuid, p_namespace text, p_task text)
RETURNS timestamptz
LANGUAGE sql STABLE AS $$
	SELECT COALESCE(
		(SELECT m.subscription_timestamp FROM queen.consumer_groups_metadata m
			WHERE m.tenant_id = p_tenant AND m.consumer_group = p_group AND m.queue_id = p_queue_id
				AND m.partition_name = '' LIMIT 1),
		(SELECT m.subscription_timestamp FROM queen.consumer_groups_metadata m
			WHERE m.tenant_id = p_tenant AND m.consumer_group = p_group AND m.queue_id IS NULL
				AND (m.namespace = '' OR m.namespace = COALESCE(p_namespace, ''))
				AND (m.task = '' OR m.task = COALESCE(p_task, ''))
			ORDER BY m.created_at, m.id LIMIT 1))
$$;

CREATE OR REPLACE FUNCTION queen.start_time(p_group text, p_mode int4, p_from_us int8, p_now timestamptz)
RETURNS timestamptz
LANGUAGE sql STABLE AS $$
	SELECT CASE
		WHEN p_group = '__QUEUE_MODE__' OR p_mode = 0 THEN 'epoch'::timestamptz
		WHEN p_mode = 1 THEN p_now
		ELSE GREATEST(queen.from_us(p_from_us), 'epoch'::timestamptz)
		END
$$;

CREATE OR REPLACE FUNCTION queen.register_v1(p_tenant uuid, p_by_labels bool, p_queue text, p_namespace text,
	p_task text, p_group text, p_mode int4, p_from_us int8)
RETURNS TABLE (created_queue bool, registered bool)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
	v_from CONSTANT timestamptz := queen.start_time(p_group, p_mode, p_from_us, clock_timestamp());
	v_mode CONSTANT text := CASE WHEN v_from <= 'epoch' THEN 'all' WHEN p_mode = 1 THEN 'new' ELSE 'timestamp' END;
	v_queues uuid[];
	v_rows int4;
BEGIN
	created_queue := false;
	registered := false;
	IF p_by_labels THEN
		IF NOT EXISTS (SELECT 1 FROM queen.consumer_groups_metadata m
			WHERE m.tenant_id = p_tenant AND m.consumer_group = p_group AND m.queue_id IS NULL
				AND m.partition_name = '' AND m.namespace = p_namespace AND m.task = p_task) THEN
			INSERT INTO queen.consumer_groups_metadata
				(tenant_id, consumer_group, namespace, task, subscription_mode, subscription_timestamp)
			VALUES (p_tenant, p_group, p_namespace, p_task, v_mode, v_from)
			ON CONFLICT DO NOTHING;
			GET DIAGNOSTICS v_rows = ROW_COUNT;
			registered := v_rows > 0;
		END IF;
	ELSE
		created_queue := queen.provision_queues(ARRAY[p_tenant], ARRAY[p_queue]) > 0;
	END IF;

	WITH missing AS (
		SELECT q.id, q.namespace, q.task FROM queen.queues q
		WHERE q.id IN (
				SELECT n.id FROM queen.queues n WHERE NOT p_by_labels AND n.tenant_id = p_tenant AND n.name = p_queue
				UNION ALL
				SELECT n.id FROM queen.queues n
				WHERE registered AND n.tenant_id = p_tenant AND (p_namespace = '' OR n.namespace = p_namespace)
					AND (p_task = '' OR n.task = p_task))
			AND NOT EXISTS (SELECT 1 FROM queen.consumer_groups_metadata m
				WHERE m.tenant_id = p_tenant AND m.consumer_group = p_group AND m.queue_id = q.id AND m.partition_name = '')
		ORDER BY q.id
		FOR KEY SHARE OF q
	), made AS (
		INSERT INTO queen.consumer_groups_metadata
			(tenant_id, consumer_group, queue_id, subscription_mode, subscription_timestamp)
		SELECT p_tenant, p_group, w.id, v_mode,
			COALESCE(queen.registered_start(p_tenant, p_group, w.id, w.namespace, w.task), v_from)
		FROM missing w
		ORDER BY w.id
		ON CONFLICT DO NOTHING
		RETURNING queue_id
	)
	SELECT array_agg(made.queue_id) INTO v_queues FROM made;
	IF v_queues IS NOT NULL THEN
		registered := true;
		PERFORM queen.seed_queues(p_tenant, p_group, v_queues);
	END IF;
	RETURN NEXT;
END
$$;

-- Cursors for every lane of queues that the group has just been registered on.
CREATE OR REPLACE FUNCTION queen.seed_queues(p_tenant uuid, p_group text, p_queues uuid[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO queen.log_consumers (partition_id, consumer_group, committed)
	SELECT l.id, p_group, l.seed
	FROM (SELECT p.id, queen.start_cursor(p.id, p.last_offset, p.log_start, p.newest_at, m.subscription_timestamp) AS seed
		FROM queen.consumer_groups_metadata m
		JOIN queen.log_partitions p ON p.queue_id = m.queue_id
		WHERE m.tenant_id = p_tenant AND m.consumer_group = p_group AND m.queue_id = ANY (p_queues)
			AND m.partition_name = ''
			AND NOT EXISTS (SELECT 1 FROM queen.log_consumers c WHERE c.partition_id = p.id AND c.consumer_group = p_group)
		ORDER BY p.id
		FOR KEY SHARE OF p) l
	ON CONFLICT DO NOTHING;
END
$$;
