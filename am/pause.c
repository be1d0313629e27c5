/* The wait of a polling thread between its polls. */
#include <sched.h>
#include <time.h>

#include "am/internal.h"

/*
 * In the first turns return at once, later yield the processor, then sleep a little. The caller
 * waits for other processes, which may need this processor.
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
