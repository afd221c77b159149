/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The part of the hash table that <h2o/http2_internal.h> names, read-only: Debian ships that header
 * without the one it includes. Layout of klib's khash 0.2.8, which libh2o 2.2.5 was built with.
 * Look-up here walks the table, so it does not depend on the hash function.
 */
#ifndef HTTP_H2O_COMPAT_KHASH_H
#define HTTP_H2O_COMPAT_KHASH_H

#include <stdint.h>

typedef uint32_t khint_t;
typedef khint_t khiter_t;

#define khash_t(name) kh_##name##_t

#define KHASH_MAP_INIT_INT64(name, value_type)                                    \
	typedef struct kh_##name##_s {                                            \
		khint_t n_buckets, size, n_occupied, upper_bound;                 \
		uint32_t *flags;                                                  \
		uint64_t *keys;                                                   \
		value_type *vals;                                                 \
	} kh_##name##_t;                                                          \
	static inline khint_t kh_get_##name(const kh_##name##_t *h, uint64_t key) \
	{                                                                         \
		for (khint_t i = 0; i < h->n_buckets; i++) {                      \
			if (kh_exist(h, i) && h->keys[i] == key) {                \
				return i;                                         \
			}                                                         \
		}                                                                 \
		return h->n_buckets;                                              \
	}

#define kh_exist(h, i)     ((((h)->flags[(i) >> 4] >> (((i)&0xfU) << 1)) & 3U) == 0)
#define kh_get(name, h, k) kh_get_##name(h, k)
#define kh_begin(h)        ((khint_t)0)
#define kh_end(h)          ((h)->n_buckets)
#define kh_val(h, i)       ((h)->vals[i])

#endif
