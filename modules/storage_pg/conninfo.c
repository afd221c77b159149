/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How to reach the database: keywords and values for PQconnectStartParams.
 *
 * Never a concatenated connection string, so passwords may hold any byte. The session settings
 * (UTC, time-outs) travel in the startup parameter `options`; a pooler that refuses it is
 * noticed by its message, and then the settings are left to the server and to the pool's own clock.
 * Nothing here connects, and no text of a dsn reaches an error message.
 */
#include "conninfo.h"

#include <errno.h>
#include <fcntl.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SYSTEM_ROOTS "/etc/ssl/certs/ca-certificates.crt"

static char *copy_text(const struct qn_host *h, const char *text)
{
	size_t n = strlen(text) + 1;
	char *p = h->alloc(n);
	memcpy(p, text, n);
	return p;
}

static void forget(const struct qn_host *h, char *text)
{
	if (text != NULL) {
		explicit_bzero(text, strlen(text));
		h->free(text);
	}
}

static int find(const struct qn_pg_conninfo *c, const char *keyword)
{
	for (int i = 0; i < c->count; i++) {
		if (strcmp(c->keywords[i], keyword) == 0) {
			return i;
		}
	}
	return -1;
}

static void set_default(struct qn_pg_conninfo *c, const char *keyword, const char *value)
{
	if (find(c, keyword) < 0) {
		qn_pg_conninfo_set(c, keyword, value);
	}
}

static void put_settings(struct qn_pg_conninfo *c, const struct qn_pg_options *o)
{
	const char *own = qn_pg_conninfo_get(c, "options");
	char text[1024];
	snprintf(text, sizeof(text),
	         "%s%s-c TimeZone=UTC -c statement_timeout=%lld -c idle_in_transaction_session_timeout=%lld",
	         own != NULL ? own : "", own != NULL ? " " : "", (long long)o->statement_timeout_ms,
	         (long long)o->statement_timeout_ms);
	qn_pg_conninfo_set(c, "options", text);
	qn_pg_conninfo_set(c, "client_encoding", "UTF8");
	set_default(c, "application_name", "queend");
	set_default(c, "gssencmode", "disable");
	set_default(c, "connect_timeout", "10");
	set_default(c, "keepalives_idle", "30");
	set_default(c, "keepalives_interval", "10");
	set_default(c, "keepalives_count", "3");
	set_default(c, "tcp_user_timeout", "60000");
}

static int from_dsn(struct qn_pg_conninfo *c, const char *dsn, struct qn_error *e)
{
	char *text = NULL;
	PQconninfoOption *parsed = PQconninfoParse(dsn, &text);
	PQfreemem(text);
	if (parsed == NULL) {
		return QN_ERR(c->host, e, QN_INVALID, "storage_pg: dsn is not a PostgreSQL connection string or URI");
	}
	for (const PQconninfoOption *p = parsed; p->keyword != NULL; p++) {
		if (p->val != NULL) {
			qn_pg_conninfo_set(c, p->keyword, p->val);
		}
	}
	PQconninfoFree(parsed);
	return QN_OK;
}

/* "\n" written as two characters becomes a line end, as one-line environment variables need it. */
static void unescape_lines(char *text)
{
	char *to = text;
	for (const char *from = text; *from != '\0'; from++) {
		if (from[0] == '\\' && from[1] == 'n') {
			*to++ = '\n';
			from++;
		} else {
			*to++ = *from;
		}
	}
	*to = '\0';
}

static int write_cert(struct qn_pg_conninfo *c, const char *pem, struct qn_error *e)
{
	char path[4096];
	snprintf(path, sizeof(path), "%s/pg-root.XXXXXX", c->host->data_dir());
	int fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0) {
		return QN_ERR(c->host, e, QN_INVALID, "ssl_root_cert: cannot write %s: %s", path, strerror(errno));
	}
	c->cert_file = copy_text(c->host, path);
	char *text = copy_text(c->host, pem);
	unescape_lines(text);
	size_t n = strlen(text);
	ssize_t put = write(fd, text, n);
	c->host->free(text);
	if (close(fd) != 0 || put != (ssize_t)n) {
		return QN_ERR(c->host, e, QN_INVALID, "ssl_root_cert: cannot write %s", path);
	}
	qn_pg_conninfo_set(c, "sslrootcert", path);
	return QN_OK;
}

static int put_tls(struct qn_pg_conninfo *c, const struct qn_pg_options *o, struct qn_error *e)
{
	if (!o->use_ssl) {
		qn_pg_conninfo_set(c, "sslmode", "disable");
		return QN_OK;
	}
	if (o->root_cert[0] != '\0') {
		qn_pg_conninfo_set(c, "sslmode", "verify-full");
		if (strstr(o->root_cert, "-----BEGIN") != NULL) {
			return write_cert(c, o->root_cert, e);
		}
		if (access(o->root_cert, R_OK) != 0) {
			return QN_ERR(c->host, e, QN_INVALID, "ssl_root_cert: neither PEM text nor a readable file");
		}
		qn_pg_conninfo_set(c, "sslrootcert", o->root_cert);
		return QN_OK;
	}
	qn_pg_conninfo_set(c, "sslmode", o->reject_unauthorized ? "verify-full" : "require");
	/* libpq reads ~/.postgresql/root.crt by default and then verifies even under "require". */
	qn_pg_conninfo_set(c, "sslrootcert", o->reject_unauthorized ? SYSTEM_ROOTS : "/dev/null/none");
	return QN_OK;
}

int qn_pg_conninfo_external(struct qn_pg_conninfo *c, const struct qn_host *h, const struct qn_pg_options *o,
                            struct qn_error *e)
{
	*c = (struct qn_pg_conninfo){.host = h};
	int rc;
	if (o->dsn[0] != '\0') {
		rc = from_dsn(c, o->dsn, e);
	} else {
		char port[24];
		snprintf(port, sizeof(port), "%lld", (long long)o->port);
		qn_pg_conninfo_set(c, "host", o->host[0] != '\0' ? o->host : "localhost");
		qn_pg_conninfo_set(c, "port", port);
		qn_pg_conninfo_set(c, "user", o->user);
		qn_pg_conninfo_set(c, "password", o->password);
		qn_pg_conninfo_set(c, "dbname", o->database);
		rc = put_tls(c, o, e);
	}
	if (rc != QN_OK) {
		qn_pg_conninfo_fini(c);
		return rc;
	}
	set_default(c, "target_session_attrs", "read-write");
	put_settings(c, o);
	return QN_OK;
}

void qn_pg_conninfo_local(struct qn_pg_conninfo *c, const struct qn_host *h, const struct qn_pg_options *o,
                          const char *socket_dir, const char *password)
{
	*c = (struct qn_pg_conninfo){.host = h};
	qn_pg_conninfo_set(c, "host", socket_dir);
	qn_pg_conninfo_set(c, "port", "5432");
	qn_pg_conninfo_set(c, "user", "postgres");
	qn_pg_conninfo_set(c, "password", password);
	qn_pg_conninfo_set(c, "dbname", "postgres");
	qn_pg_conninfo_set(c, "sslmode", "disable");
	put_settings(c, o);
}

void qn_pg_conninfo_fini(struct qn_pg_conninfo *c)
{
	for (int i = 0; i < c->count; i++) {
		forget(c->host, c->keywords[i]);
		forget(c->host, c->values[i]);
	}
	c->count = 0;
	if (c->cert_file != NULL) {
		unlink(c->cert_file);
		c->host->free(c->cert_file);
		c->cert_file = NULL;
	}
}

const char *qn_pg_conninfo_get(const struct qn_pg_conninfo *c, const char *keyword)
{
	int i = find(c, keyword);
	return i >= 0 ? c->values[i] : NULL;
}

void qn_pg_conninfo_set(struct qn_pg_conninfo *c, const char *keyword, const char *value)
{
	int i = find(c, keyword);
	if (value == NULL) {
		if (i >= 0) {
			forget(c->host, c->keywords[i]);
			forget(c->host, c->values[i]);
			c->count--;
			c->keywords[i] = c->keywords[c->count];
			c->values[i] = c->values[c->count];
			c->keywords[c->count] = c->values[c->count] = NULL;
		}
		return;
	}
	char *owned = copy_text(c->host, value);
	if (i >= 0) {
		forget(c->host, c->values[i]);
		c->values[i] = owned;
		return;
	}
	if (c->count == QN_PG_CONNINFO_MAX - 1) {
		forget(c->host, owned);
		return;
	}
	c->keywords[c->count] = copy_text(c->host, keyword);
	c->values[c->count] = owned;
	c->count++;
}

void qn_pg_conninfo_copy(struct qn_pg_conninfo *to, const struct qn_pg_conninfo *from)
{
	*to = (struct qn_pg_conninfo){.host = from->host, .settings_refused = from->settings_refused};
	for (int i = 0; i < from->count; i++) {
		qn_pg_conninfo_set(to, from->keywords[i], from->values[i]);
	}
}

bool qn_pg_conninfo_refused(struct qn_pg_conninfo *c, const char *message)
{
	if (c->settings_refused || strstr(message, "startup parameter") == NULL) {
		return false;
	}
	c->settings_refused = true;
	qn_pg_conninfo_set(c, "options", NULL);
	return true;
}
