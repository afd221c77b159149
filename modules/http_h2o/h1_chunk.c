/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The chunked coding: size lines of 1..15 hexadecimal digits, optional extensions (ignored), data,
 * CR LF after it, trailers (ignored). Only CR LF ends a line. Lines are bounded, so a body that never
 * becomes data cannot run for ever; the caller bounds the data.
 */
#include "h1_chunk.h"

enum {
	SIZE,
	EXTENSION,
	SIZE_LF,
	DATA,
	DATA_CR,
	DATA_LF,
	TRAILER_START,
	TRAILER,
	TRAILER_LF,
	END_LF,
};

static int hex_value(char c)
{
	if (c >= '0' && c <= '9') {
		return c - '0';
	}
	if (c >= 'a' && c <= 'f') {
		return c - 'a' + 10;
	}
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static bool on_size(struct h1_chunk *c, char byte)
{
	int value = hex_value(byte);
	if (value >= 0) {
		c->left = c->left * 16 + (uint64_t)value;
		return ++c->digits <= 15;
	}
	if (c->digits == 0) {
		return false;
	}
	if (byte == ';' || byte == ' ' || byte == '\t') {
		c->state = EXTENSION;
	} else if (byte == '\r') {
		c->state = SIZE_LF;
	} else {
		return false;
	}
	return true;
}

static bool expect(struct h1_chunk *c, char byte, char wanted, int next)
{
	c->state = next;
	return byte == wanted;
}

static bool on_size_lf(struct h1_chunk *c, char byte)
{
	int next = c->left > 0 ? DATA : TRAILER_START;
	c->line_bytes = 0;
	c->digits = 0;
	return expect(c, byte, '\n', next);
}

/* The inside of an extension or trailer line: anything but control characters, until its CR. */
static bool on_text(struct h1_chunk *c, char byte, int next)
{
	if (byte == '\r') {
		c->state = next;
		return true;
	}
	return byte == '\t' || ((unsigned char)byte >= 0x20 && byte != 0x7f);
}

static bool on_byte(struct h1_chunk *c, char byte)
{
	if (c->state != DATA_CR && c->state != DATA_LF && ++c->line_bytes > H1_CHUNK_LINE_MAX) {
		return false;
	}
	switch (c->state) {
	case SIZE:
		return on_size(c, byte);
	case EXTENSION:
		return on_text(c, byte, SIZE_LF);
	case SIZE_LF:
		return on_size_lf(c, byte);
	case DATA_CR:
		return expect(c, byte, '\r', DATA_LF);
	case DATA_LF:
		return expect(c, byte, '\n', SIZE);
	case TRAILER_START:
		c->state = byte == '\r' ? END_LF : TRAILER;
		return byte == '\r' || on_text(c, byte, TRAILER_LF);
	case TRAILER:
		return on_text(c, byte, TRAILER_LF);
	case TRAILER_LF:
		return expect(c, byte, '\n', TRAILER_START);
	default: /* END_LF */
		c->is_done = true;
		return byte == '\n';
	}
}

long h1_chunk_step(struct h1_chunk *c, const char *p, size_t n, struct qn_span *data)
{
	size_t i = 0;
	*data = (struct qn_span){p, 0};
	while (i < n && !c->is_done) {
		if (c->state == DATA) {
			size_t take = n - i < c->left ? n - i : (size_t)c->left;
			*data = (struct qn_span){p + i, take};
			c->left -= take;
			c->state = c->left == 0 ? DATA_CR : DATA;
			return (long)(i + take);
		}
		if (!on_byte(c, p[i])) {
			return -1;
		}
		i++;
	}
	return (long)i;
}
