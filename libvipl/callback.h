/*
 * Asynchronous errors on their way to the application's handler (spec 3.9): a queue and a thread of
 * its own, because a handler may call any VIPL function, also one that waits for vipd.
 */
#ifndef LIBVIPL_CALLBACK_H
#define LIBVIPL_CALLBACK_H

#include "libvipl/vipl.h"

struct vipl__callbacks;

/* The queue of one NIC handle, with the default handler. NULL: no memory. */
struct vipl__callbacks *vipl__callbacks_new(void);

/*
 * No handler starts any more after the return; one that runs is waited for, but not for ever (it
 * may wait for a lock that our caller holds), and not if our caller is the handler itself.
 */
void vipl__callbacks_stop(struct vipl__callbacks *callbacks);

/*
 * Handler for errors from now on; NULL = the default one, which logs to stderr. If the old one runs it
 * is waited for as above, so that its program may take down what it uses.
 */
void vipl__callbacks_set(struct vipl__callbacks *callbacks, VIP_ERROR_HANDLER handler,
                         VIP_PVOID context);

/*
 * Queue an error for the handler; *error and why are copied. Dropped if there is no memory, or if it
 * comes from posting (`from_post`) and many such are waiting already. Any thread; never blocks long.
 */
void vipl__callbacks_put(struct vipl__callbacks *callbacks, const VIP_ERROR_DESCRIPTOR *error,
                         const char *why, int from_post);

#endif
