/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AES-256-GCM under the operator's key (admin-plane 16, decisions 23). One payload becomes one JSON text,
 *
 *     {"encrypted":"<ciphertext>","iv":"<16 bytes>","authTag":"<16 bytes>"}
 *
 * in base64, exactly in this spelling; the nonce is the first 12 bytes of the 16 random ones, nothing
 * else is authenticated. The current key seals and opens, old keys only open. Keys do not change
 * between start and stop, and every call has a cipher context of its own: any thread, no locks.
 *
 * What is left to the caller: a payload of a client's own may have this very form. The sender's mark in
 * the message's frame tells them apart; where there is none, an envelope that does not open is plain.
 */
#include <limits.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <qn/abi.h>
#include <qn/encryption.h>
#include <string.h>

#define HEAD "{\"encrypted\":\""
#define IV   "\",\"iv\":\""
#define TAG  "\",\"authTag\":\""
#define END  "\"}"

#define LEN(text)   (sizeof(text) - 1)
#define IV_BYTES    16
#define TAG_BYTES   16
#define FIXED_CHARS 24 /* base64 of 16 bytes */
#define TAIL_CHARS  (LEN(IV) + FIXED_CHARS + LEN(TAG) + FIXED_CHARS + LEN(END))
#define KEY_BYTES   32
#define OLD_KEYS    16
#define PLAIN_MAX   ((size_t)INT_MAX / 2)

/* A step of the walk through a payload: base64 of it has no padding. */
#define STEP_BYTES 3072
#define STEP_CHARS 4096

struct options {
	const char *key, *old_keys;
};

struct aesgcm {
	EVP_CIPHER *cipher; /* fetched once: looking it up takes locks */
	bool has_key;
	uint32_t key_count; /* the current one first, when there is one */
	uint8_t keys[1 + OLD_KEYS][KEY_BYTES];
};

/** The parts of an envelope, as they lie in the stored bytes. */
struct envelope {
	const char *text;
	size_t chars;
	uint8_t iv[IV_BYTES], tag[TAG_BYTES];
};

static const struct qn_host *host;

/* ---- keys ------------------------------------------------------------------------------------ */

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9') {
		return c - '0';
	}
	if (c >= 'a' && c <= 'f') {
		return c - 'a' + 10;
	}
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static bool read_key(struct qn_span text, uint8_t *key)
{
	const char *p = text.p;

	if (text.n != (size_t)2 * KEY_BYTES) {
		return false;
	}
	for (size_t i = 0; i < KEY_BYTES; i++) {
		int high = hex_digit(p[2 * i]), low = hex_digit(p[2 * i + 1]);

		if (high < 0 || low < 0) {
			return false;
		}
		key[i] = (uint8_t)(high * 16 + low);
	}
	return true;
}

static struct qn_span trim(const char *p, size_t n)
{
	for (; n > 0 && p[0] == ' '; n--) {
		p++;
	}
	for (; n > 0 && p[n - 1] == ' '; n--) {
	}
	return (struct qn_span){p, n};
}

/** Errors say which one is wrong and never what it is. */
static int read_old_keys(struct aesgcm *s, const char *list, struct qn_error *e)
{
	if (list[0] == '\0') {
		return QN_OK;
	}
	for (unsigned i = 0; list != NULL; i++) {
		const char *comma = strchr(list, ',');
		struct qn_span text = trim(list, comma != NULL ? (size_t)(comma - list) : strlen(list));

		if (i == OLD_KEYS) {
			return QN_ERR(host, e, QN_INVALID, "old_keys (QUEEN_ENCRYPTION_OLD_KEYS): more than %d keys",
			              OLD_KEYS);
		}
		if (!read_key(text, s->keys[s->key_count])) {
			return QN_ERR(host, e, QN_INVALID,
			              "old_keys (QUEEN_ENCRYPTION_OLD_KEYS): key %u is not exactly 64 hex characters",
			              i + 1);
		}
		s->key_count++;
		list = comma != NULL ? comma + 1 : NULL;
	}
	return QN_OK;
}

static int read_keys(struct aesgcm *s, const struct options *o, struct qn_error *e)
{
	if (o->key[0] != '\0') {
		if (!read_key(trim(o->key, strlen(o->key)), s->keys[0])) {
			return QN_ERR(host, e, QN_INVALID, "key (QUEEN_ENCRYPTION_KEY): not exactly 64 hex characters");
		}
		s->has_key = true;
		s->key_count = 1;
	}
	return read_old_keys(s, o->old_keys, e);
}

/* ---- envelopes ------------------------------------------------------------------------------- */

static bool decode_fixed(const char *text, uint8_t *out)
{
	uint8_t bytes[FIXED_CHARS / 4 * 3];

	if (text[FIXED_CHARS - 3] == '=' || memcmp(text + FIXED_CHARS - 2, "==", 2) != 0 ||
	    EVP_DecodeBlock(bytes, (const uint8_t *)text, FIXED_CHARS) != (int)sizeof(bytes)) {
		return false;
	}
	memcpy(out, bytes, IV_BYTES);
	return true;
}

static bool take(const char **p, const char *literal, size_t n)
{
	bool same = memcmp(*p, literal, n) == 0;

	*p += n;
	return same;
}

/** The form alone: what is in it may still be anything. */
static bool split(struct qn_span stored, struct envelope *out)
{
	const char *p = stored.p, *iv, *tag;

	if (stored.n < LEN(HEAD) + TAIL_CHARS || (stored.n - LEN(HEAD) - TAIL_CHARS) % 4 != 0 ||
	    stored.n > (size_t)INT_MAX || !take(&p, HEAD, LEN(HEAD))) {
		return false;
	}
	out->text = p;
	out->chars = stored.n - LEN(HEAD) - TAIL_CHARS;
	p += out->chars;
	if (!take(&p, IV, LEN(IV))) {
		return false;
	}
	iv = p;
	p += FIXED_CHARS;
	if (!take(&p, TAG, LEN(TAG))) {
		return false;
	}
	tag = p;
	p += FIXED_CHARS;
	return take(&p, END, LEN(END)) && decode_fixed(iv, out->iv) && decode_fixed(tag, out->tag);
}

static void put(char **p, const char *literal, size_t n)
{
	memcpy(*p, literal, n);
	*p += n;
}

static void put_base64(char **p, const uint8_t *bytes, size_t n)
{
	*p += EVP_EncodeBlock((uint8_t *)*p, bytes, (int)n);
}

static bool encrypt(const struct aesgcm *s, EVP_CIPHER_CTX *ctx, struct qn_span plain, const uint8_t *iv, char **p,
                    uint8_t *tag)
{
	uint8_t step[STEP_BYTES];
	const uint8_t *in = plain.p;
	int n = 0;

	if (EVP_EncryptInit_ex2(ctx, s->cipher, s->keys[0], iv, NULL) != 1) {
		return false;
	}
	for (size_t at = 0; at < plain.n; at += (size_t)n) {
		size_t rest = plain.n - at;

		if (EVP_EncryptUpdate(ctx, step, &n, in + at, (int)(rest < STEP_BYTES ? rest : STEP_BYTES)) != 1) {
			return false;
		}
		put_base64(p, step, (size_t)n);
	}
	return EVP_EncryptFinal_ex(ctx, step, &n) == 1 &&
	       EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_GET_TAG, TAG_BYTES, tag) == 1;
}

static int seal(void *self, struct qn_arena *a, struct qn_span plain, struct qn_span *out, struct qn_error *e)
{
	const struct aesgcm *s = self;
	uint8_t iv[IV_BYTES], tag[TAG_BYTES];
	EVP_CIPHER_CTX *ctx;
	char *text, *p;
	bool ok;

	if (!s->has_key) {
		return QN_ERR(host, e, QN_UNAVAIL, "no encryption key is set");
	}
	if (plain.n > PLAIN_MAX) {
		return QN_ERR(host, e, QN_TOO_BIG, "%zu bytes are too many to encrypt", plain.n);
	}
	/* One more for the zero behind each piece of base64. */
	text = host->arena_alloc(a, LEN(HEAD) + (plain.n + 2) / 3 * 4 + TAIL_CHARS + 1);
	p = text;
	host->random(iv, sizeof(iv));
	put(&p, HEAD, LEN(HEAD));
	ctx = EVP_CIPHER_CTX_new();
	ok = ctx != NULL && encrypt(s, ctx, plain, iv, &p, tag);
	EVP_CIPHER_CTX_free(ctx);
	if (!ok) {
		return QN_ERR(host, e, QN_INTERNAL, "cannot encrypt");
	}
	put(&p, IV, LEN(IV));
	put_base64(&p, iv, sizeof(iv));
	put(&p, TAG, LEN(TAG));
	put_base64(&p, tag, sizeof(tag));
	put(&p, END, LEN(END));
	*out = (struct qn_span){text, (size_t)(p - text)};
	return QN_OK;
}

static size_t padding(const struct envelope *v)
{
	size_t n = 0;

	while (n < 2 && n < v->chars && v->text[v->chars - 1 - n] == '=') {
		n++;
	}
	return n;
}

/** *n becomes the bytes written to plain; they are worth nothing unless it is true. */
static bool decrypt(const struct aesgcm *s, EVP_CIPHER_CTX *ctx, const uint8_t *key, struct envelope *v, uint8_t *plain,
                    size_t *n)
{
	uint8_t step[STEP_BYTES];
	int got = 0;

	*n = 0;
	if (EVP_DecryptInit_ex2(ctx, s->cipher, key, v->iv, NULL) != 1 ||
	    EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_SET_TAG, TAG_BYTES, v->tag) != 1) {
		return false;
	}
	for (size_t at = 0; at < v->chars; at += STEP_CHARS) {
		int chars = v->chars - at < STEP_CHARS ? (int)(v->chars - at) : STEP_CHARS;
		int bytes = chars / 4 * 3;

		/* Anything but base64 comes out shorter. */
		if (EVP_DecodeBlock(step, (const uint8_t *)v->text + at, chars) != bytes) {
			return false;
		}
		if (at + (size_t)chars == v->chars) {
			bytes -= (int)padding(v);
		}
		if (EVP_DecryptUpdate(ctx, plain + *n, &got, step, bytes) != 1) {
			return false;
		}
		*n += (size_t)got;
	}
	return EVP_DecryptFinal_ex(ctx, step, &got) == 1;
}

static int open_sealed(void *self, struct qn_arena *a, struct qn_span stored, struct qn_span *out, struct qn_error *e)
{
	const struct aesgcm *s = self;
	struct envelope v;
	EVP_CIPHER_CTX *ctx;
	uint8_t *plain;
	size_t n = 0;
	bool ok = false;

	if (!split(stored, &v)) {
		return QN_ERR(host, e, QN_INVALID, "not an envelope");
	}
	if (s->key_count == 0) {
		return QN_ERR(host, e, QN_UNAVAIL, "no encryption key is set");
	}
	ctx = EVP_CIPHER_CTX_new();
	plain = host->arena_alloc(a, v.chars / 4 * 3 + 1);
	for (uint32_t i = 0; ctx != NULL && !ok && i < s->key_count; i++) {
		ok = decrypt(s, ctx, s->keys[i], &v, plain, &n);
	}
	EVP_CIPHER_CTX_free(ctx);
	if (!ok) {
		return QN_ERR(host, e, QN_INVALID, "no encryption key fits, or the envelope is damaged");
	}
	*out = (struct qn_span){plain, n};
	return QN_OK;
}

static bool is_sealed(void *self, struct qn_span stored)
{
	struct envelope v;

	(void)self;
	return split(stored, &v);
}

static bool ready(void *self)
{
	return ((const struct aesgcm *)self)->has_key;
}

/* ---- module ---------------------------------------------------------------------------------- */

static const struct qn_encryption_vt vtable = {
	.head = {sizeof(vtable), QN_ENCRYPTION_MAJOR, QN_ENCRYPTION_MINOR},
	.ready = ready,
	.is_sealed = is_sealed,
	.seal = seal,
	.open = open_sealed,
};

static int load(struct qn_mod *m, const struct qn_host *h, void **self, struct qn_error *e)
{
	int rc;

	host = h;
	*self = h->alloc(sizeof(struct aesgcm));
	rc = h->provide(m, "encryption", (struct qn_service){&vtable.head, *self}, e);
	if (rc != QN_OK) {
		h->free(*self);
	}
	return rc;
}

static void stop(void *self)
{
	struct aesgcm *s = self;

	EVP_CIPHER_free(s->cipher);
	OPENSSL_cleanse(s, sizeof(*s));
}

static int start(void *self, const void *options, struct qn_error *e)
{
	struct aesgcm *s = self;
	int rc = read_keys(s, options, e);

	if (rc == QN_OK) {
		s->cipher = EVP_CIPHER_fetch(NULL, "AES-256-GCM", NULL);
		if (s->cipher == NULL) {
			rc = QN_ERR(host, e, QN_UNAVAIL, "OpenSSL has no AES-256-GCM");
		}
	}
	if (rc != QN_OK) {
		stop(s);
	}
	return rc;
}

static void unload(void *self)
{
	host->free(self);
}

static const struct qn_option option_table[] = {
	{.name = "key",
         .env = "QUEEN_ENCRYPTION_KEY",
         .type = QN_OPT_SECRET,
         .def = "",
         .offset = offsetof(struct options, key),
         .doc = "64 hex characters; empty: queues that ask for encryption are refused"},
	{.name = "old_keys",
         .env = "QUEEN_ENCRYPTION_OLD_KEYS",
         .type = QN_OPT_SECRET,
         .def = "",
         .offset = offsetof(struct options, old_keys),
         .doc = "former keys, separated by commas, at most 16: they decrypt only"},
	{0},
};

static const struct qn_module module = {
	QN_MODULE_HEAD,
	.name = "encryption_aesgcm",
	.version = QN_VERSION,
	.kind = "encryption",
	.doc = "AES-256-GCM; without a key, queues that ask for encryption are refused",
	.options = option_table,
	.options_size = sizeof(struct options),
	.load = load,
	.start = start,
	.stop = stop,
	.unload = unload,
};
QN_MODULE(module);
