/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AES-256-GCM with a key made at load, for testing the contract suite of encryption. Envelope: a byte
 * 0x01, which begins no JSON text, 12 bytes of nonce, 16 of tag, the ciphertext.
 *
 * FAKE_SEES_JSON_AS_SEALED, FAKE_SKIPS_THE_TAG and FAKE_OPENS_PLAIN each break one rule on purpose.
 */
#include <openssl/evp.h>
#include <qn/abi.h>
#include <qn/encryption.h>
#include <string.h>

enum { NONCE = 12, TAG = 16, HEAD = 1 + NONCE + TAG };

static const struct qn_host *host;
static uint8_t key[32];

static bool ready(void *self)
{
	(void)self;
	return true;
}

static bool is_sealed(void *self, struct qn_span stored)
{
	const uint8_t *p = stored.p;

	(void)self;
#ifdef FAKE_SEES_JSON_AS_SEALED
	if (stored.n > 0 && p[0] == '{') {
		return true;
	}
#endif
	return stored.n >= HEAD && p[0] == 0x01;
}

static int seal(void *self, struct qn_arena *a, struct qn_span plain, struct qn_span *out, struct qn_error *e)
{
	uint8_t *p = host->arena_alloc(a, HEAD + plain.n);
	EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
	int n = 0;
	bool ok;

	(void)self;
	p[0] = 0x01;
	host->random(p + 1, NONCE);
	ok = ctx != NULL && EVP_EncryptInit_ex(ctx, EVP_aes_256_gcm(), NULL, key, p + 1) == 1 &&
	     EVP_EncryptUpdate(ctx, p + HEAD, &n, plain.p, (int)plain.n) == 1 &&
	     EVP_EncryptFinal_ex(ctx, p + HEAD + n, &n) == 1 &&
	     EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_GET_TAG, TAG, p + 1 + NONCE) == 1;
	EVP_CIPHER_CTX_free(ctx);
	if (!ok) {
		return QN_ERR(host, e, QN_INTERNAL, "cannot encrypt");
	}
	*out = (struct qn_span){p, HEAD + plain.n};
	return QN_OK;
}

static int open_sealed(void *self, struct qn_arena *a, struct qn_span stored, struct qn_span *out, struct qn_error *e)
{
	const uint8_t *p = stored.p;
	uint8_t tag[TAG], *plain;
	EVP_CIPHER_CTX *ctx;
	int n = 0, rest = 0;
	bool ok;

	if (!is_sealed(self, stored) || stored.n < HEAD) {
#ifdef FAKE_OPENS_PLAIN
		*out = stored;
		return QN_OK;
#else
		return QN_ERR(host, e, QN_INVALID, "not an envelope");
#endif
	}
	memcpy(tag, p + 1 + NONCE, TAG);
	plain = host->arena_alloc(a, stored.n);
	ctx = EVP_CIPHER_CTX_new();
	ok = ctx != NULL && EVP_DecryptInit_ex(ctx, EVP_aes_256_gcm(), NULL, key, p + 1) == 1 &&
	     EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_SET_TAG, TAG, tag) == 1 &&
	     EVP_DecryptUpdate(ctx, plain, &n, p + HEAD, (int)(stored.n - HEAD)) == 1;
#ifndef FAKE_SKIPS_THE_TAG
	ok = ok && EVP_DecryptFinal_ex(ctx, plain + n, &rest) == 1;
#endif
	EVP_CIPHER_CTX_free(ctx);
	if (!ok) {
		return QN_ERR(host, e, QN_INVALID, "damaged envelope");
	}
	*out = (struct qn_span){plain, (size_t)(n + rest)};
	return QN_OK;
}

static const struct qn_encryption_vt vtable = {
	.head = {sizeof(vtable), QN_ENCRYPTION_MAJOR, QN_ENCRYPTION_MINOR},
	.ready = ready,
	.is_sealed = is_sealed,
	.seal = seal,
	.open = open_sealed,
};

static int load(struct qn_mod *m, const struct qn_host *h, void **self, struct qn_error *e)
{
	host = h;
	*self = NULL;
	h->random(key, sizeof(key));
	return h->provide(m, "encryption", (struct qn_service){&vtable.head, NULL}, e);
}

static const struct qn_module module = {
	QN_MODULE_HEAD,       .name = "fake_encryption", .version = QN_VERSION,
	.kind = "encryption", .doc = "test subject",     .load = load,
};
QN_MODULE(module);
