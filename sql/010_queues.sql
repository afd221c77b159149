-- SPDX-License-Identifier: Apache-2.0
--
-- Queues: making, configuring and deleting them. A queue born of a push or a pop has the column defaults and labels
-- cut from its dotted name; configure_queue_v1 sets exactly what it is given.
-- Lock order of everything in this folder: queue rows, lane rows ascending by id, cursor rows ascending by
-- (lane, group).

-- Creates what is missing of the named queues; existence is checked first, so that the usual call writes nothing.
CREATE OR REPLACE FUNCTION queen.provision_queues(p_tenant uuid[], p_queue text[]) RETURNS int4
LANGUAGE plpgsql AS $$
DECLARE
	v_made int4;
BEGIN
	INSERT INTO queen.queues (tenant_id, name, namespace, task)
	SELECT m.tenant, m.name, split_part(m.name, '.', 1), split_part(m.name, '.', 2)
	FROM (SELECT DISTINCT a.tenant, a.name COLLATE "C" AS name
		FROM unnest(p_tenant, p_queue) a (tenant, name)
		WHERE NOT EXISTS (SELECT 1 FROM queen.queues q WHERE q.tenant_id = a.tenant AND q.name = a.name)) m
	ORDER BY m.tenant, m.name
	ON CONFLICT DO NOTHING;
	GET DIAGNOSTICS v_made = ROW_COUNT;
	RETURN v_made;
END
$$;

-- Creates what is missing of the named lanes and their queues. The caller has just looked for them: asking again here
-- would be a second look for each lane, and without statistics one by the queue alone, over all its lanes.
CREATE OR REPLACE FUNCTION queen.provision_lanes(p_tenant uuid[], p_queue text[], p_partition text[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
	PERFORM queen.provision_queues(p_tenant, p_queue);
	-- A lane that configure_queue_v1 cannot see yet must not slip past a change of encryption_enabled.
	PERFORM 1 FROM queen.queues q
	WHERE q.id IN (SELECT r.id FROM unnest(p_tenant, p_queue) a (tenant, name)
		JOIN queen.queues r ON r.tenant_id = a.tenant AND r.name = a.name)
	ORDER BY q.id
	FOR SHARE OF q;
	INSERT INTO queen.log_partitions (queue_id, name)
	SELECT m.queue_id, m.name
	FROM (SELECT DISTINCT q.id AS queue_id, a.partition COLLATE "C" AS name
		FROM unnest(p_tenant, p_queue, p_partition) a (tenant, queue, partition)
		JOIN queen.queues q ON q.tenant_id = a.tenant AND q.name = a.queue) m
	ORDER BY m.queue_id, m.name
	ON CONFLICT DO NOTHING;
END
$$;

CREATE OR REPLACE FUNCTION queen.configure_queue_v1(
	p_tenant uuid, p_queue text, p_namespace text, p_task text, p_priority int4, p_lease_time int4,
	p_retry_limit int4, p_retry_delay int4, p_max_queue_size int4, p_ttl int4, p_delayed_processing int4,
	p_window_buffer int4, p_retention_seconds int4, p_completed_retention_seconds int4, p_max_wait_time_seconds int4,
	p_min_pop_wait_time int4, p_dedup_window_seconds int4, p_dead_letter_queue bool, p_dlq_after_max_retries bool,
	p_retention_enabled bool, p_encryption_enabled bool)
RETURNS TABLE (queue_id uuid, created bool)
LANGUAGE plpgsql AS $$
DECLARE
	v_made int4;
	v_was_encrypted bool;
BEGIN
	v_made := queen.provision_queues(ARRAY[p_tenant], ARRAY[p_queue]);
	SELECT q.id, q.encryption_enabled INTO queue_id, v_was_encrypted
	FROM queen.queues q WHERE q.tenant_id = p_tenant AND q.name = p_queue
	FOR NO KEY UPDATE;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'queue deleted while it was being configured' USING ERRCODE = 'serialization_failure';
	END IF;
	UPDATE queen.queues q
	SET namespace = p_namespace, task = p_task, priority = p_priority, lease_time = p_lease_time,
		retry_limit = p_retry_limit, retry_delay = p_retry_delay, max_queue_size = p_max_queue_size, ttl = p_ttl,
		delayed_processing = p_delayed_processing, window_buffer = p_window_buffer,
		retention_seconds = p_retention_seconds, completed_retention_seconds = p_completed_retention_seconds,
		max_wait_time_seconds = p_max_wait_time_seconds, min_pop_wait_time = p_min_pop_wait_time,
		dedup_window_seconds = p_dedup_window_seconds, dead_letter_queue = p_dead_letter_queue,
		dlq_after_max_retries = p_dlq_after_max_retries, retention_enabled = p_retention_enabled,
		encryption_enabled = p_encryption_enabled
	WHERE q.id = queue_id;
	IF p_encryption_enabled AND NOT v_was_encrypted THEN
		-- A push reads the flag after it has its lane's lock: pushes that did not see it end before this commits.
		PERFORM 1 FROM queen.log_partitions p WHERE p.queue_id = configure_queue_v1.queue_id ORDER BY p.id
		FOR NO KEY UPDATE;
	END IF;
	created := v_made > 0;
	RETURN NEXT;
END
$$;

CREATE OR REPLACE FUNCTION queen.delete_queue_v1(p_tenant uuid, p_queue text) RETURNS TABLE (existed bool)
LANGUAGE plpgsql AS $$
DECLARE
	v_queue uuid;
	v_lanes uuid[];
BEGIN
	SELECT q.id INTO v_queue FROM queen.queues q WHERE q.tenant_id = p_tenant AND q.name = p_queue FOR UPDATE;
	existed := FOUND;
	IF existed THEN
		SELECT array_agg(l.id) INTO v_lanes
		FROM (SELECT p.id FROM queen.log_partitions p WHERE p.queue_id = v_queue ORDER BY p.id FOR UPDATE) l;
		PERFORM 1 FROM queen.log_consumers c WHERE c.partition_id = ANY (v_lanes)
		ORDER BY c.partition_id, c.consumer_group FOR UPDATE;
		DELETE FROM queen.log_txns t WHERE t.partition_id = ANY (v_lanes);
		DELETE FROM queen.log_dlq d WHERE d.partition_id = ANY (v_lanes);
		DELETE FROM queen.queues q WHERE q.id = v_queue;
	END IF;
	RETURN NEXT;
END
$$;
