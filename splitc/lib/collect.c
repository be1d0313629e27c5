/*
 * Collective operations and synchronisation. Values go through a binomial tree to process 0, which
 * sends the result back through the same tree. So a process is at most one operation ahead of its
 * neighbours in the tree, and it needs only one struct rt_mail per neighbour.
 */
#include "splitc/lib/library.h"

#include <string.h>
#include <time.h>

static void send_mail(int rank, const void *data, size_t bytes)
{
    struct rt_peer *peer = rt_peer(rank);
    struct rt_buffer *buffer;

    rt_take_credit(peer);
    buffer = rt_send_buffer(peer);
    buffer->header.type = RT_COLLECT;
    buffer->header.bytes = (uint32_t)bytes;
    memcpy(buffer->data, data, bytes);
    rt_send(peer, buffer, bytes);
}

static void wait_mail(int rank, void *data, size_t bytes)
{
    struct rt_peer *peer = rt_peer(rank);

    while (!peer->mail.full)
        rt_wait();
    if (peer->mail.bytes != bytes)
        rt_fatal("process %d is in another collective operation than this process", rank);
    memcpy(data, peer->mail.data, bytes);
    peer->mail.full = false;
}

void rt_reduce(void *value, size_t bytes, rt_combine *combine)
{
    unsigned char other[RT_DATA_MAX];
    int step;

    rt_poll();
    for (step = 1; step < sc_procs && !(sc_myproc & step); step <<= 1) {
        if ((sc_myproc | step) >= sc_procs)
            continue;
        wait_mail(sc_myproc | step, other, bytes);
        combine(value, other, bytes);
    }
    if (sc_myproc) {
        send_mail(sc_myproc & ~step, value, bytes);
        wait_mail(sc_myproc & ~step, value, bytes);
    }
    for (step >>= 1; step; step >>= 1)
        if ((sc_myproc | step) < sc_procs)
            send_mail(sc_myproc | step, value, bytes);
}

/* Data of a barrier: the smallest and the largest size in use of all spread stacks. */
struct meeting {
    uint64_t used_min, used_max;
};

static void combine_meeting(void *all, const void *one, size_t bytes)
{
    struct meeting a, b;

    (void)bytes;
    memcpy(&a, all, sizeof(a));
    memcpy(&b, one, sizeof(b));
    a.used_min = a.used_min < b.used_min ? a.used_min : b.used_min;
    a.used_max = a.used_max > b.used_max ? a.used_max : b.used_max;
    memcpy(all, &a, sizeof(a));
}

void barrier(void)
{
    struct meeting m;

    rt_enter();
    m.used_min = m.used_max = rt_stack_used();
    rt_reduce(&m, sizeof(m), combine_meeting);
    if (rt.check && m.used_min != m.used_max)
        rt_fatal("at this barrier the processes are in scopes with different spread arrays");
    rt_leave();
}

void splitc_sync(void)
{
    rt_enter();
    rt_poll();
    rt_finish(&rt.split);
    rt_leave();
}

int is_sync(void)
{
    int result;

    rt_enter();
    rt_poll();
    result = rt.split.pending == 0;
    rt_leave();
    return result;
}

static void combine_sums(void *all, const void *one, size_t bytes)
{
    uint64_t a[2], b[2];

    (void)bytes;
    memcpy(a, all, sizeof(a));
    memcpy(b, one, sizeof(b));
    a[0] += b[0];
    a[1] += b[1];
    memcpy(all, a, sizeof(a));
}

/*
 * No process issues stores in this function. When all stored bytes have arrived, all processes get
 * two equal sums and return. A process that returns early may issue new stores before the others
 * return. The new stores carry the next epoch, so the others count them separately.
 */
void all_store_sync(void)
{
    uint64_t sums[2];

    rt_enter();
    do {
        sums[0] = rt.stored;
        sums[1] = rt.arrived;
        rt_reduce(sums, sizeof(sums), combine_sums);
    } while (sums[0] != sums[1]);
    rt.store_count[rt.epoch] = 0;
    rt.epoch = !rt.epoch;
    rt_leave();
}

void store_sync(int bytes)
{
    rt_enter();
    rt_poll();
    while (rt.store_count[rt.epoch] < bytes)
        rt_wait();
    rt.store_count[rt.epoch] -= bytes;
    rt_leave();
}

void reset_store_sync(void)
{
    rt_enter();
    rt_poll();
    rt.store_count[rt.epoch] = 0;
    rt_leave();
}

double get_seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

void splitc_poll(void)
{
    rt_enter();
    rt_poll();
    rt_leave();
}
