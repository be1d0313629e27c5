/* The provider thread of a session: reads vipd's messages on the event socket. */
#ifndef LIBVIPL_EVENTS_H
#define LIBVIPL_EVENTS_H

#include "libvipl/session.h"

/* Start the thread. Outcomes: 0; positive errno of pthread_create. */
int vipl__events_start(struct vipl__session *session);

/* Wait for the end of the thread; the caller has set `closing` and shut the event socket down. */
void vipl__events_join(struct vipl__session *session);

#endif
