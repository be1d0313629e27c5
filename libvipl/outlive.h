/*
 * Sessions that go on after the end of their vipd. The library waits for the next vipd, tells it of
 * all objects of the session, and posts again the descriptors that have not completed.
 *
 * Owns: what the library tells the next vipd, and in which order. Does not own: the end of a
 * session without a next vipd (events.c), how other threads' requests wait (call.c).
 */
#ifndef LIBVIPL_OUTLIVE_H
#define LIBVIPL_OUTLIVE_H

#include "libvipl/session.h"

/*
 * vipd has ended. Wait for the next vipd, at most session->outlive_ns, and continue the session
 * with it. True: the session goes on; false: the session is over, or VipCloseNic runs.
 * ret_refusal: the last reason of a next vipd that did not continue the session; unchanged if no
 * vipd gave one; empty if the session goes on. Only the provider thread calls this.
 */
bool vipl__outlive(struct vipl__session *session, char *ret_refusal, size_t refusal_bytes);

#endif
