/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What time it is in the storage: the newest creation time it gave out, plus what has passed since on
 * our monotonic clock. So it does not run ahead of the storage's clock, and this host's wall clock may
 * be wrong by hours. When a push comes back with a time that shows we are ahead all the same (the
 * storage's clock was set back), we follow at once.
 */
#include "internal.h"

int64_t qn_db_time_us(const struct qn_broker *b)
{
	return b->db_seen_us == 0 ? 0 : b->db_seen_us + (int64_t)(qn_mono_ms() - b->db_seen_ms) * 1000;
}

void qn_db_time_seen(struct qn_broker *b, int64_t created_at_us, uint64_t sent_ms)
{
	uint64_t now_ms = qn_mono_ms();
	int64_t ours_us = qn_db_time_us(b), most_us = created_at_us + (int64_t)(now_ms - sent_ms + 1) * 1000;

	if (ours_us < created_at_us || ours_us > most_us) {
		b->db_seen_us = created_at_us;
		b->db_seen_ms = now_ms;
	}
}
