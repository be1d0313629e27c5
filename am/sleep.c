/* Sleeping until something happens, and waking sleeping threads. */
#include "am/internal.h"

#include <poll.h>
#include <unistd.h>

void am_wake_sleepers(struct am_bundle *bundle)
{
    uint64_t one = 1;

    if (__atomic_load_n(&bundle->sleepers, __ATOMIC_SEQ_CST) > 0 &&
        write(bundle->wake_fd, &one, sizeof(one)) < 0)
        return; /* wake_fd is readable already */
}

/* Only the last thread that wakes reads wake_fd. Before that, wake_fd wakes all the others. */
void am_sleep(struct am_bundle *bundle, const int *fds, unsigned count, int timeout_ms)
{
    struct pollfd wait[AM_SLEEP_FDS + 1] = {{.fd = bundle->wake_fd, .events = POLLIN}};
    uint64_t raised;

    for (unsigned i = 0; i < count; i++)
        wait[i + 1] = (struct pollfd){.fd = fds[i], .events = POLLIN};
    /* Count this sleeper first, then read `attention`. am_attend sets `attention` first, then reads
     * the count, without the bundle's lock. So either this thread reads `attention` as set, or
     * am_attend reads a count above 0 and wakes this thread. */
    __atomic_add_fetch(&bundle->sleepers, 1, __ATOMIC_SEQ_CST);
    am_unlock(bundle);
    if (timeout_ms > 0 || __atomic_load_n(&bundle->attention, __ATOMIC_SEQ_CST) == 0)
        (void)poll(wait, count + 1, timeout_ms);
    am_lock(bundle);
    if (__atomic_sub_fetch(&bundle->sleepers, 1, __ATOMIC_SEQ_CST) == 0 &&
        read(bundle->wake_fd, &raised, sizeof(raised)) < 0)
        return; /* nothing has written to wake_fd */
}
