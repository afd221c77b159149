/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Timestamps in UTC by the proleptic Gregorian calendar, without the C library's clocks and zones.
 * Years 1 to 9999.
 */
#include "ident.h"
#include "text.h"

#define SECOND_US ((int64_t)1000000)
#define DAY_S     ((int64_t)86400)
#define FIRST_US  (-62135596800 * SECOND_US) /* 0001-01-01T00:00:00Z */
#define AFTER_US  (253402300800 * SECOND_US) /* 10000-01-01T00:00:00Z */

/** Days since 1970-01-01 (era of 400 years, year beginning in March). */
static int64_t days_of(int64_t y, unsigned m, unsigned d)
{
	int64_t era, doe;
	unsigned yoe, doy;

	y -= m <= 2;
	era = (y >= 0 ? y : y - 399) / 400;
	yoe = (unsigned)(y - era * 400);
	doy = (153 * (m > 2 ? m - 3 : m + 9) + 2) / 5 + d - 1;
	doe = (int64_t)yoe * 365 + yoe / 4 - yoe / 100 + doy;
	return era * 146097 + doe - 719468;
}

static void date_of(int64_t days, int64_t *y, unsigned *m, unsigned *d)
{
	int64_t era;
	unsigned doe, yoe, doy, mp;

	days += 719468;
	era = (days >= 0 ? days : days - 146096) / 146097;
	doe = (unsigned)(days - era * 146097);
	yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
	doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
	mp = (5 * doy + 2) / 153;
	*d = doy - (153 * mp + 2) / 5 + 1;
	*m = mp < 10 ? mp + 3 : mp - 9;
	*y = (int64_t)yoe + era * 400 + (*m <= 2);
}

static char *put_two(char *p, unsigned v)
{
	p[0] = (char)('0' + v / 10);
	p[1] = (char)('0' + v % 10);
	return p + 2;
}

/** Four digits, or six: microseconds in 64 bits reach the year 294247. */
static char *put_year(char *p, int64_t y)
{
	unsigned v = (unsigned)(y < 0 ? -y : y);

	if (y < 0) {
		*p++ = '-';
	}
	if (v > 9999) {
		p = put_two(p, v / 10000);
	}
	return put_two(put_two(p, v / 100 % 100), v % 100);
}

size_t qn_time_format(int64_t at_us, int digits, char *out)
{
	int64_t s = at_us / SECOND_US, us = at_us % SECOND_US, days, rest, y;
	unsigned m, d;
	char *p;

	if (us < 0) {
		us += SECOND_US;
		s--;
	}
	days = s / DAY_S;
	rest = s % DAY_S;
	if (rest < 0) {
		rest += DAY_S;
		days--;
	}
	date_of(days, &y, &m, &d);
	p = put_year(out, y);
	*p++ = '-';
	p = put_two(p, m);
	*p++ = '-';
	p = put_two(p, d);
	*p++ = 'T';
	p = put_two(p, (unsigned)(rest / 3600));
	*p++ = ':';
	p = put_two(p, (unsigned)(rest / 60 % 60));
	*p++ = ':';
	p = put_two(p, (unsigned)(rest % 60));
	*p++ = '.';
	for (int i = 0; i < digits; i++) {
		*p++ = (char)('0' + us / 100000);
		us = us % 100000 * 10;
	}
	*p++ = 'Z';
	return (size_t)(p - out);
}

struct cursor {
	const char *p, *end;
};

/** Exactly n digits. */
static bool fixed(struct cursor *c, int n, unsigned *out)
{
	*out = 0;
	for (int i = 0; i < n; i++, c->p++) {
		if (c->p == c->end || *c->p < '0' || *c->p > '9') {
			return false;
		}
		*out = *out * 10 + (unsigned)(*c->p - '0');
	}
	return true;
}

static bool literal(struct cursor *c, char ch)
{
	if (c->p == c->end || *c->p != ch) {
		return false;
	}
	c->p++;
	return true;
}

static bool parse_date(struct cursor *c, int64_t *days)
{
	static const unsigned char lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	unsigned y, m, d, length;

	if (!fixed(c, 4, &y) || !literal(c, '-') || !fixed(c, 2, &m) || !literal(c, '-') || !fixed(c, 2, &d)) {
		return false;
	}
	if (y == 0 || m == 0 || m > 12) {
		return false;
	}
	length = lengths[m - 1];
	length += m == 2 && (y % 4 == 0 && (y % 100 != 0 || y % 400 == 0)) ? 1 : 0;
	if (d == 0 || d > length) {
		return false;
	}
	*days = days_of(y, m, d);
	return true;
}

static bool parse_fraction(struct cursor *c, int64_t *us)
{
	int64_t scale = 100000;
	const char *from = c->p;

	for (; c->p < c->end && *c->p >= '0' && *c->p <= '9'; c->p++) {
		*us += scale * (*c->p - '0');
		scale /= 10;
	}
	return c->p > from && c->p - from <= 12;
}

static bool parse_clock(struct cursor *c, int64_t *us)
{
	unsigned h, m, s = 0;
	int64_t fraction = 0;

	if (!fixed(c, 2, &h) || !literal(c, ':') || !fixed(c, 2, &m)) {
		return false;
	}
	if (literal(c, ':')) {
		if (!fixed(c, 2, &s) || (literal(c, '.') && !parse_fraction(c, &fraction))) {
			return false;
		}
	}
	if (h > 23 || m > 59 || s > 59) {
		return false;
	}
	*us = ((int64_t)h * 3600 + m * 60 + s) * SECOND_US + fraction;
	return true;
}

/** Z, +hh, +hhmm, +hh:mm or nothing; seconds to subtract. */
static bool parse_zone(struct cursor *c, int64_t *offset_s)
{
	int64_t sign;
	unsigned h, m = 0;

	*offset_s = 0;
	if (c->p == c->end || literal(c, 'Z') || literal(c, 'z')) {
		return true;
	}
	sign = *c->p == '-' ? -1 : 1;
	if ((!literal(c, '+') && !literal(c, '-')) || !fixed(c, 2, &h)) {
		return false;
	}
	if (c->p < c->end) {
		(void)literal(c, ':');
		if (!fixed(c, 2, &m)) {
			return false;
		}
	}
	if (h > 15 || m > 59) {
		return false;
	}
	*offset_s = sign * ((int64_t)h * 3600 + m * 60);
	return true;
}

static bool parse_epoch(struct qn_span text, int64_t *at_us)
{
	const char *p = text.p;
	int64_t n;

	if (text.n < 10 || text.n > 16 || p[0] < '0' || p[0] > '9' || !qn_parse_i64(text, &n)) {
		return false;
	}
	*at_us = text.n <= 11 ? n * SECOND_US : text.n <= 14 ? n * 1000 : n;
	return true;
}

bool qn_time_parse(struct qn_span text, int64_t *at_us)
{
	const char *p = text.n == 0 ? "" : text.p;
	struct cursor c = {p, p + text.n};
	int64_t days, us = 0, offset_s = 0;

	if (parse_epoch(text, at_us)) {
		return true;
	}
	if (!parse_date(&c, &days)) {
		return false;
	}
	if (c.p < c.end) {
		if (!literal(&c, 'T') && !literal(&c, 't') && !literal(&c, ' ')) {
			return false;
		}
		if (!parse_clock(&c, &us) || !parse_zone(&c, &offset_s) || c.p != c.end) {
			return false;
		}
	}
	us += (days * DAY_S - offset_s) * SECOND_US;
	if (us < FIRST_US || us >= AFTER_US) {
		return false;
	}
	*at_us = us;
	return true;
}
