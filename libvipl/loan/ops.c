/*
 * What the engine of a loan calls: access to registered memory, posted descriptors, completions and
 * events. All of these functions run in the thread that is in a stay.
 */
#include <stdlib.h>
#include <string.h>

#include "libvipl/loan/internal.h"
#include "proto/assert.h"
#include "proto/direct.h"

/* ---- memory ----------------------------------------------------------------------------- */

void *vipl__loan_address(void *ctx, const struct eng_access *access)
{
    const struct vipl__loan *loan = ctx;
    const struct eng_vi_attrs *vi = &loan->terms.attrs;
    const struct vipl__region *region = vipl__region_find(loan->host.regions, access->handle);
    uint64_t offset;

    if (region == NULL || region->refused)
        return NULL;
    /* Below the region, `offset` becomes very large. Zero bytes fit into any region. */
    offset = access->len ? access->addr - region->addr : 0;
    if (offset >= region->bytes || access->len > region->bytes - offset)
        return NULL;
    /* Spec 3.5: the tags must be equal, but no tag (0), on either side, matches every tag. */
    if (loan->terms.ptag != region->ptag && loan->terms.ptag != 0 && region->ptag != 0)
        return NULL;
    switch (access->kind) {
    case ENG_ACCESS_SEND:
    case ENG_ACCESS_RECV:
        break;
    case ENG_ACCESS_REMOTE_WRITE:
        if (!vi->enable_rdma_write || !region->attrs.EnableRdmaWrite)
            return NULL;
        break;
    case ENG_ACCESS_REMOTE_READ:
        if (!vi->enable_rdma_read || !region->attrs.EnableRdmaRead)
            return NULL;
        break;
    }
    return (char *)region->addr + offset;
}

static bool op_check(void *ctx, const struct eng_access *access)
{
    return vipl__loan_address(ctx, access) != NULL;
}

static bool op_place(void *ctx, const struct eng_access *access, uint32_t payload_offset)
{
    const struct vipl__loan *loan = ctx;
    void *to = vipl__loan_address(ctx, access);

    VIP_ASSERT(loan->cur != NULL);
    if (to == NULL)
        return false;
    memcpy(to, loan->cur + payload_offset, access->len);
    return true;
}

static struct vip_shm_seg *op_segs_alloc(void *ctx, unsigned count)
{
    (void)ctx;
    return malloc(count * sizeof(struct vip_shm_seg));
}

static void op_segs_free(void *ctx, struct vip_shm_seg *segs, unsigned count)
{
    (void)ctx;
    (void)count;
    free(segs);
}

/* ---- posts ------------------------------------------------------------------------------ */

bool vipl__loan_take_posts(struct vipl__loan *loan, uint64_t now_ns)
{
    uint32_t posted = vip_load32_acquire(&loan->terms.part->posted), first = loan->sends;
    struct eng_post post;

    while (loan->sends != posted && loan->sends - first < VIP_DESC_PER_QUEUE_MAX &&
           path_send(loan->terms.part, loan->terms.vi, loan->terms.generation, loan->sends,
                     &loan->parts, &post)) {
        loan->sends++;
        loan->counts.sends++;
        eng_post(loan->eng, &post, now_ns);
    }
    return loan->sends != first;
}

/* Sends cannot help a message that found no receive, and op_fetch_receives takes the receives. */
static void op_fetch_posts(void *ctx)
{
    (void)ctx;
}

static void op_fetch_receives(void *ctx, uint16_t vi, bool all)
{
    struct vipl__loan *loan = ctx;
    uint32_t posted = vip_load32_acquire(&vip_recv_head(loan->host.recv_base, vi)->posted);
    uint32_t left = VIP_SQ_SLOTS, first = loan->receives;
    struct eng_post post;

    while (loan->receives != posted && loan->receives - first < VIP_DESC_PER_QUEUE_MAX &&
           path_receive(loan->host.recv_base, vi, loan->terms.generation, loan->receives, &left,
                        &loan->parts, &post)) {
        loan->receives++;
        eng_post(loan->eng, &post, loan->now_ns);
        if (!all)
            return;
    }
}

/* ---- results ---------------------------------------------------------------------------- */

static void op_complete(void *ctx, uint16_t vi, enum vip_queue queue, uint32_t status,
                        uint32_t length, uint64_t imm)
{
    struct vipl__loan *loan = ctx;

    (void)vi;
    loan->completions++;
    if (queue == VIP_Q_RECV)
        loan->received++;
    loan->host.complete(loan->host.ctx, queue, status, length, imm);
}

/* Room for the events of the end of a connection, of which none is ever dropped. */
#define END_EVENTS 4u

static void op_event(void *ctx, const struct eng_event *event)
{
    struct vipl__loan *loan = ctx;

    if (event->kind == ENG_EVENT_ERROR && loan->event_count >= VIPL__LOAN_EVENTS - END_EVENTS) {
        loan->counts.events_lost++;
        return;
    }
    VIP_ASSERT(loan->event_count < VIPL__LOAN_EVENTS);
    loan->event[(loan->event_first + loan->event_count++) % VIPL__LOAN_EVENTS] = *event;
}

const struct eng_ops vipl__loan_ops = {
    .check = op_check,
    .place = op_place,
    .complete = op_complete,
    .event = op_event,
    .fetch_posts = op_fetch_posts,
    .fetch_receives = op_fetch_receives,
    .segs_alloc = op_segs_alloc,
    .segs_free = op_segs_free,
};
