/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strict reader of an HTTP/1 request head.
 *
 * The head is found first (every line must end in CRLF, a lone LF is refused as soon as it is seen)
 * and read afterwards, in place, in memory the caller owns. Limits are fixed: H1_HEAD_MAX bytes and
 * H1_HEADERS_MAX lines. Nothing here decodes the target: routing wants the raw bytes.
 * It does not read bodies; framing facts (length, chunked) are only reported.
 */
#include "h1_head.h"

#include <string.h>
#include <strings.h>

#define REFUSE(status, text) (*why = (text), -(status))

static bool is_token_byte(unsigned char c)
{
	if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
		return true;
	}
	return c != 0 && strchr("!#$%&'*+-.^_`|~", c) != NULL;
}

static bool span_is(struct qn_span s, const char *text)
{
	return s.n == strlen(text) && strncasecmp(s.p, text, s.n) == 0;
}

static struct qn_span trim(const char *p, size_t n)
{
	while (n > 0 && (p[0] == ' ' || p[0] == '\t')) {
		p++;
		n--;
	}
	while (n > 0 && (p[n - 1] == ' ' || p[n - 1] == '\t')) {
		n--;
	}
	return (struct qn_span){p, n};
}

/* Calls for "a, b, c": true when one element equals text. */
static bool list_has(struct qn_span list, const char *text)
{
	const char *p = list.p;
	size_t left = list.n;
	while (left > 0) {
		const char *comma = memchr(p, ',', left);
		size_t n = comma != NULL ? (size_t)(comma - p) : left;
		if (span_is(trim(p, n), text)) {
			return true;
		}
		if (comma == NULL) {
			break;
		}
		p += n + 1;
		left -= n + 1;
	}
	return false;
}

int h1_head_find(const char *p, size_t n, size_t from, uint32_t *lines, const char **why)
{
	if (n > 0 && !is_token_byte((unsigned char)p[0])) {
		return REFUSE(400, "malformed request line");
	}
	size_t scan = n < H1_HEAD_MAX ? n : H1_HEAD_MAX;
	/* An LF at `from` may belong to a CR before it, so one byte is looked at again. */
	for (size_t at = from > 0 ? from - 1 : 0; at < scan;) {
		const char *lf = memchr(p + at, '\n', scan - at);
		if (lf == NULL) {
			break;
		}
		size_t i = (size_t)(lf - p);
		if (i == 0 || p[i - 1] != '\r') {
			return REFUSE(400, "line ends without CR LF");
		}
		if (i >= 3 && p[i - 2] == '\n') {
			uint32_t count = 0;
			for (size_t k = 0; k < i; k++) {
				count += p[k] == '\n';
			}
			*lines = count - 1; /* the request line is not a header */
			return *lines > H1_HEADERS_MAX ? REFUSE(431, "too many header lines") : (int)i + 1;
		}
		at = i + 1;
	}
	return n >= H1_HEAD_MAX ? REFUSE(431, "request head too large") : 0;
}

/* Cuts scheme and authority off an absolute target; false when the form is not one we serve. */
static bool take_absolute(struct qn_span *target)
{
	const char *p = target->p;
	size_t skip = 0;
	if (target->n >= 7 && strncasecmp(p, "http://", 7) == 0) {
		skip = 7;
	} else if (target->n >= 8 && strncasecmp(p, "https://", 8) == 0) {
		skip = 8;
	} else {
		return false;
	}
	size_t start = skip;
	while (skip < target->n && p[skip] != '/' && p[skip] != '?') {
		skip++;
	}
	if (skip == start) {
		return false;
	}
	*target = (struct qn_span){p + skip, target->n - skip};
	return true;
}

static int set_target(struct h1_head *h, struct qn_span target, const char **why)
{
	const unsigned char *bytes = target.p;
	for (size_t i = 0; i < target.n; i++) {
		if (bytes[i] <= 0x20 || bytes[i] == 0x7f) {
			return REFUSE(400, "malformed request target");
		}
	}
	if (target.n == 0 || bytes[0] != '/') {
		if (!take_absolute(&target)) {
			return REFUSE(400, "request target must start with a slash");
		}
	}
	const char *p = target.p;
	const char *mark = target.n > 0 ? memchr(p, '?', target.n) : NULL;
	size_t path_n = mark != NULL ? (size_t)(mark - p) : target.n;
	h->path = path_n > 0 ? (struct qn_span){p, path_n} : QN_SPAN_LIT("/");
	h->query = mark != NULL ? (struct qn_span){mark + 1, target.n - path_n - 1} : (struct qn_span){"", 0};
	return 0;
}

static int parse_request_line(const char *p, size_t n, struct h1_head *h, const char **why)
{
	size_t m = 0;
	while (m < n && is_token_byte((unsigned char)p[m])) {
		m++;
	}
	if (m == 0 || m == n || p[m] != ' ') {
		return REFUSE(400, "malformed request line");
	}
	h->method = (struct qn_span){p, m};
	const char *target = p + m + 1;
	size_t left = n - m - 1;
	const char *space = memchr(target, ' ', left);
	if (space == NULL) {
		return REFUSE(400, "malformed request line");
	}
	const char *version = space + 1;
	size_t version_n = left - (size_t)(version - target);
	if (version_n != 8 || memcmp(version, "HTTP/", 5) != 0 || version[6] != '.') {
		return REFUSE(400, "malformed request line");
	}
	if (version[5] != '1' || (version[7] != '0' && version[7] != '1')) {
		return REFUSE(505, "HTTP version not supported");
	}
	h->version = version[7] == '1' ? 0x101 : 0x100;
	return set_target(h, (struct qn_span){target, (size_t)(space - target)}, why);
}

static int parse_header_line(char *p, size_t n, struct h1_header *out, const char **why)
{
	size_t name_n = 0;
	while (name_n < n && is_token_byte((unsigned char)p[name_n])) {
		if (p[name_n] >= 'A' && p[name_n] <= 'Z') {
			p[name_n] = (char)(p[name_n] + ('a' - 'A'));
		}
		name_n++;
	}
	if (name_n == 0 || name_n == n || p[name_n] != ':') {
		return REFUSE(400, "malformed header line");
	}
	for (size_t i = name_n + 1; i < n; i++) {
		unsigned char c = (unsigned char)p[i];
		if ((c < 0x20 && c != '\t') || c == 0x7f) {
			return REFUSE(400, "control character in a header value");
		}
	}
	out->name = (struct qn_span){p, name_n};
	out->value = trim(p + name_n + 1, n - name_n - 1);
	return 0;
}

static int set_length(struct h1_head *h, struct qn_span value, const char **why)
{
	const char *p = value.p;
	uint64_t length = 0;
	if (h->has_length) {
		return REFUSE(400, "more than one Content-Length");
	}
	if (value.n == 0 || value.n > 18) {
		return REFUSE(400, "bad Content-Length");
	}
	for (size_t i = 0; i < value.n; i++) {
		if (p[i] < '0' || p[i] > '9') {
			return REFUSE(400, "bad Content-Length");
		}
		length = length * 10 + (uint64_t)(p[i] - '0');
	}
	h->has_length = true;
	h->content_length = length;
	return 0;
}

static bool is_host(struct qn_span value)
{
	const char *p = value.p;
	for (size_t i = 0; i < value.n; i++) {
		if (p[i] == ' ' || p[i] == '\t' || p[i] == '/' || p[i] == ',' || p[i] == '@' || p[i] == '?') {
			return false;
		}
	}
	return true;
}

/* What the lines said that only counts together with others. */
struct seen {
	uint32_t hosts, codings, settings;
	bool close, keep_alive, upgrade_option, settings_option, h2c;
};

static int note_header(struct h1_head *h, struct seen *s, const struct h1_header *line, const char **why)
{
	if (span_is(line->name, "content-length")) {
		return set_length(h, line->value, why);
	}
	if (span_is(line->name, "transfer-encoding")) {
		h->is_chunked = span_is(line->value, "chunked");
		return s->codings++ > 0 || !h->is_chunked ? REFUSE(400, "bad Transfer-Encoding") : 0;
	}
	if (span_is(line->name, "host")) {
		return s->hosts++ > 0 || !is_host(line->value) ? REFUSE(400, "bad Host") : 0;
	}
	if (span_is(line->name, "connection")) {
		s->close = s->close || list_has(line->value, "close");
		s->keep_alive = s->keep_alive || list_has(line->value, "keep-alive");
		s->upgrade_option = s->upgrade_option || list_has(line->value, "upgrade");
		s->settings_option = s->settings_option || list_has(line->value, "http2-settings");
	} else if (span_is(line->name, "expect") && h->version >= 0x101) {
		h->wants_continue = span_is(line->value, "100-continue");
		return h->wants_continue ? 0 : REFUSE(417, "expectation not supported");
	} else if (span_is(line->name, "upgrade")) {
		s->h2c = list_has(line->value, "h2c");
	} else if (span_is(line->name, "http2-settings")) {
		s->settings++;
		h->settings = line->value;
	}
	return 0;
}

static bool is_base64url(struct qn_span value)
{
	const char *p = value.p;
	for (size_t i = 0; i < value.n; i++) {
		bool ok = (p[i] >= '0' && p[i] <= '9') || (p[i] >= 'a' && p[i] <= 'z') ||
		          (p[i] >= 'A' && p[i] <= 'Z') || p[i] == '-' || p[i] == '_';
		if (!ok) {
			return false;
		}
	}
	return true;
}

static int conclude(struct h1_head *h, const struct seen *s, const char **why)
{
	if (h->version >= 0x101 && s->hosts == 0) {
		return REFUSE(400, "missing Host");
	}
	if (h->is_chunked && (h->has_length || h->version < 0x101)) {
		return REFUSE(400, "bad Transfer-Encoding");
	}
	h->keep_alive = !s->close && (h->version >= 0x101 || s->keep_alive);
	h->wants_h2c = s->h2c && s->upgrade_option && s->settings_option && s->settings == 1 && h->version >= 0x101 &&
	               !h->is_chunked && h->content_length == 0 && is_base64url(h->settings);
	return 0;
}

int h1_head_parse(char *p, size_t n, struct h1_head *h, const char **why)
{
	struct h1_header *headers = h->headers;
	struct seen seen = {0};
	*h = (struct h1_head){.headers = headers};
	char *end = p + n - 2; /* the empty line */
	char *eol = memchr(p, '\r', n);
	int rc = parse_request_line(p, (size_t)(eol - p), h, why);
	if (rc == 0 && eol[1] != '\n') {
		rc = REFUSE(400, "malformed request line");
	}
	for (char *line = eol + 2; rc == 0 && line < end; line = eol + 2) {
		eol = memchr(line, '\r', (size_t)(end + 2 - line));
		if (eol[1] != '\n') {
			return REFUSE(400, "control character in a header value");
		}
		struct h1_header *out = &h->headers[h->header_count];
		rc = parse_header_line(line, (size_t)(eol - line), out, why);
		if (rc == 0) {
			h->header_count++;
			rc = note_header(h, &seen, out, why);
		}
	}
	return rc == 0 ? conclude(h, &seen, why) : rc;
}

const struct h1_header *h1_head_header(const struct h1_head *h, struct qn_span name)
{
	for (uint32_t i = 0; i < h->header_count; i++) {
		const struct h1_header *line = &h->headers[i];
		if (line->name.n == name.n && memcmp(line->name.p, name.p, name.n) == 0) {
			return line;
		}
	}
	return NULL;
}
