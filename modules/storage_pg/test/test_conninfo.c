/* SPDX-License-Identifier: Apache-2.0 */
/* Options to libpq keywords: TLS mapping, dsn defaults, awkward passwords, poolers. */
#include "conninfo.h"
#include "errors.h"
#include "fake_host.h"

#include <string.h>
#include <unistd.h>

static struct qn_pg_conninfo c;

static void build(const struct qn_pg_options *o)
{
	struct qn_error e = {0};
	if (qn_pg_conninfo_external(&c, &fake_host, o, &e) != QN_OK) {
		fail_msg("%s", e.msg);
	}
}

static void is(const char *keyword, const char *value)
{
	const char *found = qn_pg_conninfo_get(&c, keyword);
	if (value == NULL) {
		assert_null(found);
	} else {
		assert_non_null(found);
		assert_string_equal(found, value);
	}
}

static void rows_become_keywords(void **state)
{
	(void)state;
	struct qn_pg_options o = fake_options();
	o.host = "db.example";
	o.password = "p@:/?#%&'\" \\";
	o.port = 6543;
	build(&o);
	is("host", "db.example");
	is("port", "6543");
	is("password", "p@:/?#%&'\" \\");
	is("sslmode", "disable");
	is("target_session_attrs", "read-write");
	is("application_name", "queend");
	is("client_encoding", "UTF8");
	assert_non_null(strstr(qn_pg_conninfo_get(&c, "options"), "-c statement_timeout=30000"));
	assert_non_null(strstr(qn_pg_conninfo_get(&c, "options"), "-c TimeZone=UTC"));
	qn_pg_conninfo_fini(&c);
}

static void tls_never_falls_back(void **state)
{
	(void)state;
	struct qn_pg_options o = fake_options();
	o.use_ssl = true;
	build(&o);
	is("sslmode", "verify-full");
	is("sslrootcert", "/etc/ssl/certs/ca-certificates.crt");
	qn_pg_conninfo_fini(&c);
	o.reject_unauthorized = false;
	build(&o);
	is("sslmode", "require");
	qn_pg_conninfo_fini(&c);
}

static void pem_text_becomes_a_file(void **state)
{
	(void)state;
	char dir[128];
	char text[200] = "";
	char path[256];
	struct qn_pg_options o = fake_options();
	fake_data_dir(dir, sizeof(dir));
	o.use_ssl = true;
	o.reject_unauthorized = false;
	o.root_cert = "-----BEGIN CERTIFICATE-----\\nAAAA\\n-----END CERTIFICATE-----\\n";
	build(&o);
	is("sslmode", "verify-full");
	snprintf(path, sizeof(path), "%s", qn_pg_conninfo_get(&c, "sslrootcert"));
	FILE *f = fopen(path, "r");
	assert_non_null(f);
	assert_true(fread(text, 1, sizeof(text) - 1, f) > 0);
	assert_int_equal(fclose(f), 0);
	assert_string_equal(text, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
	qn_pg_conninfo_fini(&c);
	assert_int_not_equal(access(path, F_OK), 0);
	o.root_cert = "/nowhere/root.pem";
	assert_int_equal(qn_pg_conninfo_external(&c, &fake_host, &o, NULL), QN_INVALID);
	fake_remove_dir(dir);
}

static void dsn_wins_and_keeps_its_own(void **state)
{
	(void)state;
	struct qn_pg_options o = fake_options();
	o.host = "ignored";
	o.dsn = "postgresql://me:pw@a:1,b:2/db?application_name=mine&options=-c%20work_mem%3D8MB";
	build(&o);
	is("host", "a,b");
	is("port", "1,2");
	is("application_name", "mine");
	is("target_session_attrs", "read-write");
	is("sslmode", NULL);
	assert_memory_equal(qn_pg_conninfo_get(&c, "options"), "-c work_mem=8MB -c TimeZone", 27);
	qn_pg_conninfo_fini(&c);
	o.dsn = "host=x target_session_attrs=any";
	build(&o);
	is("target_session_attrs", "any");
	qn_pg_conninfo_fini(&c);
}

static void bad_dsn_keeps_its_secret(void **state)
{
	(void)state;
	struct qn_error e = {0};
	struct qn_pg_options o = fake_options();
	o.dsn = "host=x password='hunter2";
	assert_int_equal(qn_pg_conninfo_external(&c, &fake_host, &o, &e), QN_INVALID);
	assert_null(strstr(e.msg, "hunter2"));
	assert_non_null(strstr(e.msg, "dsn"));
}

static void pooler_refusing_settings_gets_none(void **state)
{
	(void)state;
	struct qn_pg_options o = fake_options();
	build(&o);
	assert_false(qn_pg_conninfo_refused(&c, "connection refused"));
	assert_true(qn_pg_conninfo_refused(&c, "FATAL:  unsupported startup parameter in options: statement_timeout"));
	is("options", NULL);
	assert_false(qn_pg_conninfo_refused(&c, "FATAL:  unsupported startup parameter: options"));
	qn_pg_conninfo_fini(&c);
}

static void states_mean_what_they_mean(void **state)
{
	(void)state;
	assert_true(qn_pg_sqlstate_evicts("25006"));
	assert_true(qn_pg_sqlstate_evicts("57P01"));
	assert_true(qn_pg_sqlstate_evicts("57014"));
	assert_true(qn_pg_sqlstate_evicts("08P01"));
	assert_false(qn_pg_sqlstate_evicts("22021"));
	assert_false(qn_pg_sqlstate_evicts("53100"));
	assert_true(qn_pg_sqlstate_repeats("40P01"));
	assert_false(qn_pg_sqlstate_repeats("55P03"));
	assert_true(qn_pg_sqlstate_unprepared("26000"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_become_keywords),       cmocka_unit_test(tls_never_falls_back),
		cmocka_unit_test(pem_text_becomes_a_file),    cmocka_unit_test(dsn_wins_and_keeps_its_own),
		cmocka_unit_test(bad_dsn_keeps_its_secret),   cmocka_unit_test(pooler_refusing_settings_gets_none),
		cmocka_unit_test(states_mean_what_they_mean),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
