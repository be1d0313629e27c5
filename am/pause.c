/* How a thread waits that polls. */
#include <sched.h>
#include <time.h>

#include "am/internal.h"

/*
 * Spin, then yield, then sleep a little: other processes must act first, and may need this
 * processor.
 */
void am_pause(struct am_bundle *bundle, unsigned turns)
{
    struct timespec nap = {.tv_nsec = turns < 2000 ? 20000 : 500000};

    if (turns < 200)
        return;
    am_unlock(bundle);
    if (turns < 1000)
        sched_yield();
    else
        nanosleep(&nap, NULL);
    am_lock(bundle);
}
