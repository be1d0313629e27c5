/* The provider thread of a session: reads vipd's messages on the event socket. */
#ifndef LIBVIPL_EVENTS_H
#define LIBVIPL_EVENTS_H

#include "libvipl/session.h"

/* Start it. Outcomes: 0; positive errno of pthread_create. */
int vipl__events_start(struct vipl__session *session);

/* Wait for its end; the caller has set `closing` and shut the event socket down. */
void vipl__events_join(struct vipl__session *session);

/*
 * Queue an asynchronous error for the application's handler (spec 3.9). vi and desc may be NULL.
 * The caller has entered the session or is its provider thread.
 */
void vipl__async_error(struct vipl__session *session, VIP_RESOURCE_CODE resource,
                       VIP_ERROR_CODE code, const struct vipl__vi *vi, VIP_DESCRIPTOR *desc,
                       VIP_ULONG opcode, const char *why);

/*
 * VIP_ERROR_COMP_PROT: the completion of a descriptor of that queue could not be written. It names
 * the CQ of the queue or, without one, the VI (spec 3.9). opcode: of the descriptor,
 * VIP_CONTROL_OP_*. The caller has entered the session.
 */
void vipl__async_completion(const struct vipl__vi *vi, const struct vipl__queue *queue,
                            VIP_DESCRIPTOR *desc, VIP_ULONG opcode, const char *why);

#endif
