/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clocks and the source of randomness.
 *
 * Everything in the core and, through the host, in the modules reads time here, so that a test can
 * put its own clock in place. Random bytes come from the kernel and are never replaced.
 */
#include "error.h"
#include "thread.h"

#include <errno.h>
#include <sys/random.h>
#include <time.h>

static int64_t (*fake_now_us)(void);
static uint64_t (*fake_mono_ms)(void);

int64_t qn_now_us(void)
{
	struct timespec ts;

	if (fake_now_us != NULL) {
		return fake_now_us();
	}
	(void)clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

uint64_t qn_mono_ms(void)
{
	struct timespec ts;

	if (fake_mono_ms != NULL) {
		return fake_mono_ms();
	}
	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

void qn_random(void *p, size_t n)
{
	uint8_t *at = p;

	while (n > 0) {
		ssize_t got = getrandom(at, n, 0);

		if (got < 0 && errno == EINTR) {
			continue;
		}
		QN_ASSERT(got > 0);
		at += got;
		n -= (size_t)got;
	}
}

void qn_clock_replace(int64_t (*now_us)(void), uint64_t (*mono_ms)(void))
{
	fake_now_us = now_us;
	fake_mono_ms = mono_ms;
}
