/*
 * A session that outlives its vipd: it waits for the next vipd, makes everything anew there, and
 * posts again what has not completed.
 *
 * Owns: what the next vipd is told, and in which order. Does not own: what happens without a next
 * vipd (events.c), requests of other threads, which wait (call.c).
 */
#ifndef LIBVIPL_OUTLIVE_H
#define LIBVIPL_OUTLIVE_H

#include "libvipl/session.h"

/*
 * vipd is gone. Wait for the next one, for at most session->outlive_ns, and go on with it. Returns
 * true if the session goes on; false: it is over, or VipCloseNic runs. *ret_refusal: why the next vipd
 * does not go on with it; empty: there is none. Called by the provider thread only.
 */
bool vipl__outlive(struct vipl__session *session, char *ret_refusal, size_t refusal_bytes);

#endif
