/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The TLS context: TLS 1.2 and later, ALPN h2 before http/1.1, certificate and key checked against
 * each other before anything listens. Handshakes are conn.c's; renewal of certificates is a restart.
 */
#include "server.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

static const char *tls_error(void)
{
	unsigned long code = ERR_get_error();
	const char *text = code != 0 ? ERR_reason_error_string(code) : NULL;
	ERR_clear_error();
	return text != NULL ? text : "unknown error";
}

int http_tls_create(const struct qn_host *host, const struct http_options *o, SSL_CTX **out, struct qn_error *e)
{
	static char h2[] = "h2", http1[] = "http/1.1";
	static const h2o_iovec_t protocols[] = {{h2, sizeof(h2) - 1}, {http1, sizeof(http1) - 1}, {NULL, 0}};
	bool has_cert = o->tls_cert[0] != '\0', has_key = o->tls_key[0] != '\0';
	if (!has_cert && !has_key) {
		return QN_OK;
	}
	if (!has_cert || !has_key) {
		return QN_ERR(host, e, QN_INVALID, "tls_cert and tls_key must be set together");
	}
	SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
	if (ctx == NULL) {
		return QN_ERR(host, e, QN_NOMEM, "tls: %s", tls_error());
	}
	int rc = QN_OK;
	if (SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) != 1) {
		rc = QN_ERR(host, e, QN_INTERNAL, "tls: %s", tls_error());
	} else if (SSL_CTX_use_certificate_chain_file(ctx, o->tls_cert) != 1) {
		rc = QN_ERR(host, e, QN_INVALID, "tls_cert %s: %s", o->tls_cert, tls_error());
	} else if (SSL_CTX_use_PrivateKey_file(ctx, o->tls_key, SSL_FILETYPE_PEM) != 1) {
		rc = QN_ERR(host, e, QN_INVALID, "tls_key %s: %s", o->tls_key, tls_error());
	} else if (SSL_CTX_check_private_key(ctx) != 1) {
		rc = QN_ERR(host, e, QN_INVALID, "tls_key %s does not belong to tls_cert %s", o->tls_key, o->tls_cert);
	}
	if (rc != QN_OK) {
		SSL_CTX_free(ctx);
		return rc;
	}
	h2o_ssl_register_alpn_protocols(ctx, protocols);
	*out = ctx;
	return QN_OK;
}
