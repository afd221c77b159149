/* SPDX-License-Identifier: Apache-2.0 */
/* Threads: the mailbox under several senders, calls from main, the watchdog, the end of a loop. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "log.h"
#include "thread.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SENDERS 4
#define POSTS   20000

struct letter {
	struct qn_post post;
	unsigned sender, number;
	struct box *box;
};

struct box {
	unsigned next[SENDERS];
	unsigned received, disorder;
	struct qn_thread *thread;
	bool foreign;
};

struct sender {
	struct letter *letters;
	struct qn_thread *to;
};

static void on_letter(struct qn_post *post)
{
	struct letter *l = (struct letter *)(void *)post;

	l->box->disorder += l->box->next[l->sender] != l->number ? 1 : 0;
	l->box->next[l->sender] = l->number + 1;
	l->box->received++;
	l->box->foreign = l->box->foreign || qn_thread_self() != l->box->thread;
}

static void *send_all(void *arg)
{
	struct sender *s = arg;

	for (unsigned i = 0; i < POSTS; i++) {
		qn_thread_post(s->to, &s->letters[i].post);
	}
	return NULL;
}

static int read_received(struct qn_thread *t, void *arg, struct qn_error *e)
{
	(void)t;
	(void)e;
	return (int)((struct box *)arg)->received;
}

static void four_senders(void **state)
{
	struct box box = {.received = 0};
	struct sender senders[SENDERS];
	pthread_t ids[SENDERS];

	(void)state;
	assert_int_equal(qn_thread_create(QN_THREAD_ENGINE, 0, &box.thread, NULL), QN_OK);
	for (unsigned i = 0; i < SENDERS; i++) {
		senders[i].to = box.thread;
		senders[i].letters = calloc(POSTS, sizeof(struct letter));
		assert_non_null(senders[i].letters);
		for (unsigned j = 0; j < POSTS; j++) {
			senders[i].letters[j] = (struct letter){{NULL, on_letter}, i, j, &box};
		}
	}
	for (unsigned i = 0; i < SENDERS; i++) {
		assert_int_equal(pthread_create(&ids[i], NULL, send_all, &senders[i]), 0);
	}
	for (unsigned i = 0; i < SENDERS; i++) {
		assert_int_equal(pthread_join(ids[i], NULL), 0);
	}
	/* Posted after all of them. */
	assert_int_equal(qn_thread_call(box.thread, read_received, &box, NULL), SENDERS * POSTS);
	qn_thread_destroy(box.thread);
	assert_int_equal(box.disorder, 0);
	assert_false(box.foreign);
	for (unsigned i = 0; i < SENDERS; i++) {
		free(senders[i].letters);
	}
}

static int identity(struct qn_thread *t, void *arg, struct qn_error *e)
{
	(void)arg;
	(void)e;
	assert_ptr_equal(t, qn_thread_self());
	assert_int_equal(qn_thread_kind(t), QN_THREAD_IO);
	assert_int_equal(qn_thread_index(t), 3);
	return -7;
}

static void call_returns(void **state)
{
	struct qn_thread *t;

	(void)state;
	assert_null(qn_thread_self());
	assert_int_equal(qn_thread_create(QN_THREAD_IO, 3, &t, NULL), QN_OK);
	assert_int_equal(qn_thread_call(t, identity, NULL, NULL), -7);
	qn_thread_destroy(t);
	qn_thread_destroy(NULL);
}

static void posts_around_the_end(void **state)
{
	struct box box = {.received = 0};
	struct letter before = {{NULL, on_letter}, 0, 0, &box}, after = {{NULL, on_letter}, 0, 1, &box};

	(void)state;
	assert_int_equal(qn_thread_create(QN_THREAD_IO, 0, &box.thread, NULL), QN_OK);
	qn_thread_post(box.thread, &before.post);
	qn_thread_stop(box.thread);
	assert_int_equal(box.received, 1);
	qn_thread_post(box.thread, &after.post);
	qn_thread_destroy(box.thread);
	assert_int_equal(box.received, 1);
}

static int be_slow(struct qn_thread *t, void *arg, struct qn_error *e)
{
	(void)t;
	(void)e;
	uv_sleep(*(const unsigned *)arg);
	return 0;
}

static void watchdog_tells(void **state)
{
	static unsigned quick_ms = 1, slow_ms = 150;
	struct qn_thread *t;
	char text[4096];
	int fds[2];
	ssize_t n;

	(void)state;
	assert_int_equal(pipe(fds), 0);
	qn_log_setup(QN_INFO, QN_LOG_LOGFMT, fds[1]);
	assert_int_equal(qn_thread_create(QN_THREAD_ENGINE, 0, &t, NULL), QN_OK);
	/* Waiting for work is no work, however long. */
	uv_sleep(slow_ms);
	assert_int_equal(qn_thread_call(t, be_slow, &quick_ms, NULL), 0);
	assert_int_equal(qn_thread_call(t, be_slow, &quick_ms, NULL), 0);
	assert_int_equal(write(fds[1], "-", 1), 1);
	n = read(fds[0], text, sizeof(text) - 1);
	assert_int_equal(n, 1);
	assert_int_equal(qn_thread_call(t, be_slow, &slow_ms, NULL), 0);
	assert_int_equal(qn_thread_call(t, be_slow, &quick_ms, NULL), 0);
	qn_thread_destroy(t);
	qn_log_setup(QN_INFO, QN_LOG_LOGFMT, STDERR_FILENO);
	assert_int_equal(write(fds[1], "-", 1), 1);
	n = read(fds[0], text, sizeof(text) - 1);
	assert_true(n > 1);
	text[n] = '\0';
	assert_non_null(strstr(text, "event=loop.slow module=core thread=engine took_ms=1"));
	(void)close(fds[0]);
	(void)close(fds[1]);
}

static void clocks(void **state)
{
	int64_t a = qn_now_us(), b = qn_now_us();
	uint64_t c = qn_mono_ms(), d = qn_mono_ms();
	uint8_t x[32] = {0}, y[32] = {0};

	(void)state;
	assert_true(a > INT64_C(1700000000000000) && b >= a);
	assert_true(d >= c);
	qn_random(x, sizeof(x));
	qn_random(y, sizeof(y));
	assert_memory_not_equal(x, y, sizeof(x));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(four_senders),
		cmocka_unit_test(call_returns),
		cmocka_unit_test(posts_around_the_end),
		cmocka_unit_test(watchdog_tells),
		cmocka_unit_test(clocks),
	};

	return cmocka_run_group_tests_name("thread", tests, NULL, NULL);
}
