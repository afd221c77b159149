-- SPDX-License-Identifier: Apache-2.0
--
-- Tables. Two narrow, hot ones (log_partitions, log_consumers) whose updates must stay HOT: no index covers a column
-- that a push, a claim or a settle changes, except last_write_at, which is rewritten at most once a second, and the
-- oldest_* columns, which change only when a lane turns from empty to not empty. Two big ones (log_segments, log_txns)
-- that are only inserted into and deleted from the front, with nothing but their primary key.
-- Functions are in the files after this one.

DO $$
BEGIN
	-- CREATE SCHEMA IF NOT EXISTS would demand the privilege to create even where the schema exists.
	IF to_regnamespace('queen') IS NULL THEN
		CREATE SCHEMA queen;
	END IF;
END
$$;

CREATE TABLE IF NOT EXISTS queen.schema_version (
	file text PRIMARY KEY,
	version int NOT NULL,
	checksum text NOT NULL,
	applied_at timestamptz NOT NULL DEFAULT now()
);

-- A UUID of version 7: lanes created together lie together in every index.
CREATE OR REPLACE FUNCTION queen.uuid7() RETURNS uuid
LANGUAGE sql VOLATILE PARALLEL SAFE AS $$
	SELECT encode(
		set_bit(set_bit(
			overlay(uuid_send(gen_random_uuid())
				PLACING substring(int8send((extract(epoch FROM clock_timestamp()) * 1000)::int8) FROM 3)
				FROM 1 FOR 6),
			52, 1), 53, 1), 'hex')::uuid
$$;

CREATE OR REPLACE FUNCTION queen.to_us(p_at timestamptz) RETURNS int8
LANGUAGE sql STABLE PARALLEL SAFE AS $$
	SELECT (extract(epoch FROM p_at) * 1000000)::int8
$$;

CREATE OR REPLACE FUNCTION queen.from_us(p_us int8) RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE AS $$
	SELECT timestamptz '1970-01-01 00:00:00+00' + p_us * interval '1 microsecond'
$$;

CREATE TABLE IF NOT EXISTS queen.queues (
	id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
	tenant_id uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000001',
	name varchar(255) COLLATE "C" NOT NULL,
	namespace varchar(255) COLLATE "C",
	task varchar(255) COLLATE "C",
	priority int NOT NULL DEFAULT 0,
	lease_time int NOT NULL DEFAULT 60,
	retry_limit int NOT NULL DEFAULT 3,
	retry_delay int NOT NULL DEFAULT 1000,
	max_queue_size int NOT NULL DEFAULT 0,
	ttl int NOT NULL DEFAULT 3600,
	delayed_processing int NOT NULL DEFAULT 0,
	window_buffer int NOT NULL DEFAULT 0,
	retention_seconds int NOT NULL DEFAULT 0,
	completed_retention_seconds int NOT NULL DEFAULT 0,
	max_wait_time_seconds int NOT NULL DEFAULT 0,
	min_pop_wait_time int NOT NULL DEFAULT 0,
	dedup_window_seconds int NOT NULL DEFAULT 3600,
	dead_letter_queue bool NOT NULL DEFAULT true,
	dlq_after_max_retries bool NOT NULL DEFAULT true,
	retention_enabled bool NOT NULL DEFAULT false,
	encryption_enabled bool NOT NULL DEFAULT false,
	created_at timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX IF NOT EXISTS queues_tenant_name_uk ON queen.queues (tenant_id, name);
CREATE INDEX IF NOT EXISTS idx_queues_name ON queen.queues (name);

-- One row per lane; its lock serialises the lane's pushes.
CREATE TABLE IF NOT EXISTS queen.log_partitions (
	id uuid PRIMARY KEY DEFAULT queen.uuid7(),
	queue_id uuid NOT NULL REFERENCES queen.queues (id) ON DELETE CASCADE,
	name text COLLATE "C" NOT NULL DEFAULT 'Default',
	last_offset int8 NOT NULL DEFAULT -1,
	log_start int8 NOT NULL DEFAULT 0,
	txns_start int8 NOT NULL DEFAULT 0,
	last_write_at timestamptz NOT NULL DEFAULT now(),
	created_at timestamptz NOT NULL DEFAULT now(),
	newest_at timestamptz,
	oldest_live_at timestamptz,
	oldest_txn_at timestamptz,
	CONSTRAINT log_partitions_queue_name_uk UNIQUE (queue_id, name)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500,
	autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);
CREATE INDEX IF NOT EXISTS idx_log_partitions_queue_write ON queen.log_partitions (queue_id, last_write_at, id);
CREATE INDEX IF NOT EXISTS idx_log_partitions_queue_id ON queen.log_partitions (queue_id, id);
CREATE INDEX IF NOT EXISTS idx_log_partitions_live_due ON queen.log_partitions (queue_id, oldest_live_at, id)
	WHERE oldest_live_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS idx_log_partitions_txn_due ON queen.log_partitions (queue_id, oldest_txn_at, id)
	WHERE oldest_txn_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS idx_log_partitions_idle ON queen.log_partitions (queue_id, last_write_at, id)
	WHERE oldest_live_at IS NULL AND oldest_txn_at IS NULL;
COMMENT ON COLUMN queen.log_partitions.newest_at IS 'created_at of the newest message ever stored; stays after retention';
COMMENT ON COLUMN queen.log_partitions.oldest_live_at IS 'created_at of the segment at log_start; null: no segment';
COMMENT ON COLUMN queen.log_partitions.oldest_txn_at IS 'created_at of the hash row at txns_start; null: none';

CREATE TABLE IF NOT EXISTS queen.log_segments (
	partition_id uuid NOT NULL REFERENCES queen.log_partitions (id) ON DELETE CASCADE,
	base_offset int8 NOT NULL,
	end_offset int8 NOT NULL,
	created_at timestamptz NOT NULL,
	raw_bytes int4 NOT NULL,
	blob bytea NOT NULL,
	PRIMARY KEY (partition_id, base_offset)
) WITH (autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_insert_scale_factor = 0.3,
	autovacuum_vacuum_cost_limit = 4000, autovacuum_vacuum_cost_delay = 0,
	toast.autovacuum_vacuum_scale_factor = 0.1, toast.autovacuum_vacuum_insert_scale_factor = 0.3,
	toast.autovacuum_vacuum_cost_limit = 4000, toast.autovacuum_vacuum_cost_delay = 0);

-- No foreign key: whoever deletes a lane deletes its hash rows.
CREATE TABLE IF NOT EXISTS queen.log_txns (
	partition_id uuid NOT NULL,
	base_offset int8 NOT NULL,
	end_offset int8 NOT NULL,
	created_at timestamptz NOT NULL,
	hashes bytea NOT NULL CHECK (octet_length(hashes) = 16 * (end_offset - base_offset + 1)),
	PRIMARY KEY (partition_id, base_offset),
	CHECK (end_offset >= base_offset)
) WITH (autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_insert_scale_factor = 0.3,
	autovacuum_vacuum_cost_delay = 0);
DO $$
BEGIN
	-- Both are incompressible. Asked first, because ALTER TABLE would stop a running broker for a moment.
	IF EXISTS (SELECT 1 FROM pg_attribute WHERE attrelid = 'queen.log_segments'::regclass AND attname = 'blob'
			AND attstorage <> 'e') THEN
		ALTER TABLE queen.log_segments ALTER COLUMN blob SET STORAGE EXTERNAL;
	END IF;
	IF EXISTS (SELECT 1 FROM pg_attribute WHERE attrelid = 'queen.log_txns'::regclass AND attname = 'hashes'
			AND attstorage <> 'e') THEN
		ALTER TABLE queen.log_txns ALTER COLUMN hashes SET STORAGE EXTERNAL;
	END IF;
END
$$;

-- Cursor and lease of one (lane, group). No secondary index, so that every update is HOT.
CREATE TABLE IF NOT EXISTS queen.log_consumers (
	partition_id uuid NOT NULL REFERENCES queen.log_partitions (id) ON DELETE CASCADE,
	consumer_group text COLLATE "C" NOT NULL,
	committed int8 NOT NULL DEFAULT -1,
	batch_end int8,
	worker_id text COLLATE "C",
	lease_expires_at timestamptz,
	lease_acquired_at timestamptz,
	batch_retry_count int NOT NULL DEFAULT 0,
	attempt_offset int8,
	attempt_count int NOT NULL DEFAULT 0,
	total_consumed int8 NOT NULL DEFAULT 0,
	last_worker_id text COLLATE "C",
	created_at timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (partition_id, consumer_group)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500,
	autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);
COMMENT ON COLUMN queen.log_consumers.last_worker_id IS 'the lease that an acknowledgement last ended';

-- No foreign key: a dead letter outlives its segment. Deleting a queue deletes its rows.
CREATE TABLE IF NOT EXISTS queen.log_dlq (
	id uuid PRIMARY KEY DEFAULT queen.uuid7(),
	partition_id uuid NOT NULL,
	consumer_group text COLLATE "C" NOT NULL,
	"offset" int8 NOT NULL,
	message_id uuid,
	transaction_id text,
	payload bytea,
	error text,
	retry_count int NOT NULL DEFAULT 0,
	failed_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX IF NOT EXISTS idx_log_dlq_partition_failed_at ON queen.log_dlq (partition_id, failed_at DESC);
CREATE INDEX IF NOT EXISTS idx_log_dlq_address ON queen.log_dlq (partition_id, consumer_group, "offset");

-- Where a group starts: per queue, or by labels (queue_id null).
CREATE TABLE IF NOT EXISTS queen.consumer_groups_metadata (
	id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
	tenant_id uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000001',
	consumer_group text COLLATE "C" NOT NULL,
	queue_id uuid REFERENCES queen.queues (id) ON DELETE CASCADE,
	partition_name text COLLATE "C" NOT NULL DEFAULT '',
	namespace text COLLATE "C" NOT NULL DEFAULT '',
	task text COLLATE "C" NOT NULL DEFAULT '',
	subscription_mode text NOT NULL,
	subscription_timestamp timestamptz NOT NULL,
	created_at timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX IF NOT EXISTS cgm_identity_uk ON queen.consumer_groups_metadata
	(tenant_id, consumer_group, COALESCE(queue_id, '00000000-0000-0000-0000-000000000000'), partition_name,
	namespace, task);
CREATE INDEX IF NOT EXISTS idx_cgm_queue ON queen.consumer_groups_metadata (queue_id);

CREATE TABLE IF NOT EXISTS queen.consumer_watermarks (
	queue_id uuid NOT NULL REFERENCES queen.queues (id) ON DELETE CASCADE,
	consumer_group text COLLATE "C" NOT NULL DEFAULT '__QUEUE_MODE__',
	last_empty_scan_at timestamptz NOT NULL DEFAULT 'epoch',
	updated_at timestamptz NOT NULL DEFAULT 'epoch',
	PRIMARY KEY (queue_id, consumer_group)
);

CREATE TABLE IF NOT EXISTS queen.maintenance_leases (
	task text PRIMARY KEY,
	period_ms int8 NOT NULL,
	next_due_at timestamptz NOT NULL DEFAULT now(),
	lease_until timestamptz,
	holder text,
	fence int8 NOT NULL DEFAULT 0,
	last_start_at timestamptz,
	last_end_at timestamptz,
	last_duration_ms int8,
	runs int8 NOT NULL DEFAULT 0,
	enabled bool NOT NULL DEFAULT true
);

CREATE TABLE IF NOT EXISTS queen.system_state (
	key text PRIMARY KEY,
	value jsonb NOT NULL,
	updated_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE IF NOT EXISTS queen.retention_history (
	id uuid PRIMARY KEY DEFAULT queen.uuid7(),
	partition_id uuid NOT NULL,
	messages_deleted int NOT NULL,
	retention_type varchar(50) NOT NULL,
	executed_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX IF NOT EXISTS idx_retention_history_partition ON queen.retention_history (partition_id);
CREATE INDEX IF NOT EXISTS idx_retention_history_executed ON queen.retention_history (executed_at DESC);
