/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What dedup_cache keeps: lanes, and per lane the hashes of its window in sorted runs. Engine thread
 * only, all of it.
 *
 * A lane is complete when every message of it created at since_us or later is in its runs. Else it has
 * a gap: complete up to gap->good, nothing up to gap->from, complete again from there on (gap->tail).
 */
#ifndef QN_DC_CACHE_H
#define QN_DC_CACHE_H

#include <qn/dedup.h>

#define QN_DC_SECOND_US    INT64_C(1000000)
#define QN_DC_SLACK_US     (5 * QN_DC_SECOND_US) /* the core's clock may lag behind the storage's */
#define QN_DC_PAGE_BYTES   (128 << 10)           /* of hashes read back at once: sorting them takes below 1 ms */
#define QN_DC_WHEEL        1024                  /* seconds, a power of two */
#define QN_DC_IDLE_S       5                     /* a lane used since is not evicted */
#define QN_DC_SUPPRESS_S   30                    /* an evicted lane stays out */
#define QN_DC_READ_PAUSE_S 1                     /* between two readings of a lane */
#define QN_DC_READ_RETRY_S 5                     /* after one that failed */

struct qn_dc_options {
	int64_t memory_bytes;
};

struct qn_dc_link {
	struct qn_dc_link *prev, *next;
};

/** A hash as two numbers; the order is by hi, then lo. */
struct qn_dc_key {
	uint64_t hi, lo;
};

/** Hashes learned one after the other. Never changed once it is in a list. */
struct qn_dc_run {
	struct qn_dc_run *older;
	int64_t newest_us;
	uint32_t count;
	uint32_t span_ms;        /* the oldest is that much older than newest_us, at most */
	struct qn_dc_key keys[]; /* ascending; then the filter, when the run has one */
};

struct qn_dc_lane;

enum qn_dc_reading { QN_DC_IDLE, QN_DC_DUE, QN_DC_READING };

struct qn_dc_gap {
	struct qn_dc_link due; /* in cache->due while DUE */
	struct qn_dc_lane *lane;
	struct qn_dc_run *tail; /* newest first */
	int64_t good;           /* -1: nothing is known of the beginning */
	int64_t from, from_us;  /* first message of the tail */
	enum qn_dc_reading reading;
	uint32_t ticket; /* of the read under way */
};

struct qn_dc_lane {
	struct qn_uuid id;
	struct qn_dc_lane *next; /* in its bucket */
	struct qn_dc_link wheel, lru;
	struct qn_dc_run *runs; /* newest first */
	struct qn_dc_gap *gap;  /* NULL: complete */
	int64_t next_offset;    /* behind what was learned last */
	int64_t since_us;       /* messages older than that may be missing; 0: none are */
	int32_t window_s;
	uint32_t used_s;
	uint32_t read_s; /* not read before */
};

/** Direct-mapped: a later eviction may overwrite an earlier one. */
struct qn_dc_evicted {
	uint32_t print, until_s;
};

struct qn_dc {
	const struct qn_host *host;
	const struct qn_mod *mod;
	size_t cap, used;
	struct qn_dc_lane **buckets;
	size_t bucket_count; /* a power of two */
	size_t lane_count;
	struct qn_dc_evicted *evicted;
	size_t evicted_count; /* a power of two */
	uint64_t evictions;
	struct qn_dc_link lru; /* least recently used first */
	struct qn_dc_link due; /* gaps */
	struct qn_dc_link wheel[QN_DC_WHEEL];
	int64_t wheel_s; /* slots up to this second were looked at */
	int64_t now_us;  /* as the core said last; 0: unknown */
	uint32_t ticket;
};

#define QN_DC_OF(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

static inline void qn_dc_link_init(struct qn_dc_link *head)
{
	head->prev = head;
	head->next = head;
}

static inline bool qn_dc_link_empty(const struct qn_dc_link *head)
{
	return head->next == head;
}

/** Puts it in front of `at`; the head: at the end of the list. */
static inline void qn_dc_link_before(struct qn_dc_link *at, struct qn_dc_link *link)
{
	link->prev = at->prev;
	link->next = at;
	at->prev->next = link;
	at->prev = link;
}

static inline void qn_dc_link_out(struct qn_dc_link *link)
{
	link->prev->next = link->next;
	link->next->prev = link->prev;
	qn_dc_link_init(link);
}

/* memory.c */
/** Tables sized by the cap, which must hold them. QN_NOMEM. */
int qn_dc_open(struct qn_dc *c, size_t cap, struct qn_error *e) QN_MUST;
/** Every lane, then the tables. */
void qn_dc_close(struct qn_dc *c);
/** Memory below a limit, or NULL. */
void *qn_dc_take(struct qn_dc *c, size_t n, size_t limit);
void qn_dc_give(struct qn_dc *c, void *p, size_t n);
/** What lanes are admitted and read back under. */
size_t qn_dc_admission_limit(const struct qn_dc *c);
/**
 * Makes room for n bytes by evicting lanes that have been idle for long enough, least recently used
 * first. False when there are not enough of them.
 */
bool qn_dc_make_room(struct qn_dc *c, size_t n, size_t limit);
/** Takes the lane out and keeps it out for a while. */
void qn_dc_evict(struct qn_dc *c, struct qn_dc_lane *l);
bool qn_dc_was_evicted(const struct qn_dc *c, const struct qn_uuid *id);
uint32_t qn_dc_mono_s(const struct qn_dc *c);

/* run.c */
struct qn_dc_key qn_dc_key_of(const uint8_t *hash);
/** Room for `count` keys, to be filled, then sealed, or given back. NULL: the cap. */
struct qn_dc_run *qn_dc_run_take(struct qn_dc *c, uint32_t count, size_t limit);
/** Sorts and builds the filter. */
void qn_dc_run_seal(struct qn_dc_run *r);
void qn_dc_run_give(struct qn_dc *c, struct qn_dc_run *r);
bool qn_dc_run_has(const struct qn_dc_run *r, const struct qn_dc_key *key);
/** The run becomes the newest of the list; runs of like size that are near in time become one. */
void qn_dc_runs_add(struct qn_dc *c, struct qn_dc_run **list, struct qn_dc_run *r, int32_t window_s);
void qn_dc_runs_give(struct qn_dc *c, struct qn_dc_run **list);

/* lane.c */
struct qn_dc_lane *qn_dc_lane_find(const struct qn_dc *c, const struct qn_uuid *id);
/** A lane of which nothing is known yet, whose next message is at base; NULL when it does not fit. */
struct qn_dc_lane *qn_dc_lane_admit(struct qn_dc *c, const struct qn_uuid *id, int64_t base, int64_t created_at_us,
                                    int32_t window_s);
void qn_dc_lane_drop(struct qn_dc *c, struct qn_dc_lane *l);
/** Messages up to base are missing from now on; what is behind an older gap is forgotten. False: the cap. */
bool qn_dc_gap_open(struct qn_dc *c, struct qn_dc_lane *l, int64_t base, int64_t created_at_us) QN_MUST;
/** The tail becomes part of the lane; the gap is gone. */
void qn_dc_gap_close(struct qn_dc *c, struct qn_dc_lane *l);
/** As if nothing had been learned before base: its whole window must be read. False: the cap. */
bool qn_dc_lane_restart(struct qn_dc *c, struct qn_dc_lane *l, int64_t base, int64_t created_at_us) QN_MUST;

/* expire.c */
/** Files the lane under the second in which something of it is next out of the window. */
void qn_dc_place(struct qn_dc *c, struct qn_dc_lane *l);
/** Looks at no more than `budget` lanes whose time has come. */
void qn_dc_expire(struct qn_dc *c, unsigned budget);

/* read.c */
/** The lane is used and has a gap: it is read when its time has come. */
void qn_dc_want_read(struct qn_dc *c, struct qn_dc_lane *l);
bool qn_dc_read_due(struct qn_dc *c, struct qn_dedup_read *r);
void qn_dc_read_page(struct qn_dc *c, const struct qn_dedup_read *r, const struct qn_hashes_op *page);

/* module.c, for the tests as well */
int64_t qn_dc_watermark(struct qn_dc *c, const struct qn_uuid *id, struct qn_span hashes, int64_t now_us,
                        int64_t *since_us);
void qn_dc_learn(struct qn_dc *c, const struct qn_uuid *id, int64_t base, struct qn_span hashes, int64_t created_at_us,
                 int32_t window_s);

#endif
