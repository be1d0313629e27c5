/*
 * Asynchronous errors for the application's handler (spec 3.9). Each NIC handle has a queue and a
 * thread for them. A handler may call any VIPL function, even one that waits for vipd.
 */
#ifndef LIBVIPL_CALLBACK_H
#define LIBVIPL_CALLBACK_H

#include "libvipl/vipl.h"
#include "libvipl/session.h"

struct vipl__callbacks;

/* Make the queue of one NIC handle, with the default handler. NULL: no memory. */
struct vipl__callbacks *vipl__callbacks_new(void);

/*
 * Stop the thread: after the return no handler starts. The call waits for a running handler, but
 * only for a limited time, because that handler may wait for a lock that our caller holds. The call
 * does not wait if our caller is that handler.
 */
void vipl__callbacks_stop(struct vipl__callbacks *callbacks);

/*
 * Set the handler for errors; NULL = the default one, which logs to stderr. The call waits for a
 * running old handler as vipl__callbacks_stop does. So the program may then free memory that the
 * old handler uses.
 */
void vipl__callbacks_set(struct vipl__callbacks *callbacks, VIP_ERROR_HANDLER handler,
                         VIP_PVOID context);

/*
 * Queue an error for the handler; *error and why are copied. The error is dropped if there is no
 * memory, or if it comes from posting (`from_post`) and POST_ERRORS_MAX such errors wait. Any
 * thread; never blocks long.
 */
void vipl__callbacks_put(struct vipl__callbacks *callbacks, const VIP_ERROR_DESCRIPTOR *error,
                         const char *why, int from_post);

/*
 * Queue an asynchronous error for the application's handler (spec 3.9). vi and desc may be NULL.
 * The caller has entered the session or is its provider thread.
 */
void vipl__async_error(struct vipl__session *session, VIP_RESOURCE_CODE resource,
                       VIP_ERROR_CODE code, const struct vipl__vi *vi, VIP_DESCRIPTOR *desc,
                       VIP_ULONG opcode, const char *why);

/*
 * Queue VIP_ERROR_COMP_PROT: the library could not write the completion into a descriptor of
 * `queue`. The error names the CQ of the queue or, if the queue has no CQ, the VI (spec 3.9).
 * opcode: the descriptor's VIP_CONTROL_OP_*. The caller has entered the session.
 */
void vipl__async_completion(const struct vipl__vi *vi, const struct vipl__queue *queue,
                            VIP_DESCRIPTOR *desc, VIP_ULONG opcode, const char *why);

#endif
