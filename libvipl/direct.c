/*
 * The direct path (direct.h): set-up, sending, offering receive descriptors, sleeping.
 * direct_take.c takes messages out of rings.
 */
#include "libvipl/direct.h"

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "libvipl/call.h"
#include "libvipl/lent.h"
#include "libvipl/sq.h"

/* Largest number of segments of a send by a ring. Sends with more are rare and use vipd. */
#define SEGS_MAX 8

/*
 * First and largest value of `patience`. A send goes through vipd if earlier sends are under way
 * through vipd. After `patience` such sends in a row, one send waits until vipd has completed them;
 * the next sends can then use the ring.
 */
#define PATIENCE_MIN 16
#define PATIENCE_MAX 4096
/* Longest wait of a send for earlier sends, in ns; vipd needs some microseconds. */
#define WAIT_NS 50000

static const struct vip_vipd_vi *block_of(const struct vipl__vi *vi)
{
    return vip_vipd_vi((void *)vi->session->vipd, vi->index);
}

/* ---- the session ------------------------------------------------------------------------- */

static VIP_RETURN ask_direct(struct vipl__session *session, int fd)
{
    Vip__DirectRequest direct = VIP__DIRECT_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;

    request.body_case = VIP__REQUEST__BODY_DIRECT;
    request.direct = &direct;
    return vipl__call(session, "VipOpenNic", &request, &fd, 1, NULL);
}

/* Map empty private pages at the same addresses, because calls that run while the session or VI
 * ends may still access these addresses. */
static void make_empty(void *base, size_t bytes)
{
    mmap(base, bytes, PROT_READ | PROT_WRITE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

/* Make and map a memfd for the table of receive descriptors. Returns its fd; -1 on failure. */
static int make_table(struct vipl__session *session)
{
    int fd;

    if (session->recv_base == NULL) {
        void *base = mmap(NULL, VIP_RECV_BYTES, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

        if (base == MAP_FAILED)
            return -1;
        session->recv_base = base;
    }
    fd = memfd_create("vipl-receives", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -1;
    if (vipl__mem_file_grow(fd, VIP_RECV_BYTES) == 0 &&
        mmap(session->recv_base, VIP_RECV_BYTES, PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd, 0) != MAP_FAILED &&
        vipl__shared_advise(session->recv_base, VIP_RECV_BYTES) == 0 &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) ==
            0)
        return fd;
    close(fd);
    return -1;
}

VIP_RETURN vipl__direct_open(struct vipl__session *session)
{
    const char *mode = getenv("VIPL_DIRECT");
    VIP_RETURN rc;
    int fd;

    session->direct_random = mode != NULL && strcmp(mode, "random") == 0;
    if ((mode != NULL && strcmp(mode, "0") == 0) || session->watched)
        return VIP_SUCCESS;
    fd = make_table(session);
    if (fd < 0)
        return VIP_SUCCESS;
    rc = ask_direct(session, fd);
    session->direct = rc == VIP_SUCCESS;
    session->recv_fd = fd;
    return rc;
}

VIP_RETURN vipl__direct_again(struct vipl__session *session)
{
    return session->direct ? ask_direct(session, session->recv_fd) : VIP_SUCCESS;
}

void vipl__direct_close(struct vipl__session *session)
{
    for (unsigned i = 0; i < VIP_VI_MAX; i++)
        if (session->vi[i] != NULL)
            vipl__direct_destroy(session->vi[i]);
    if (session->recv_base != NULL)
        make_empty(session->recv_base, VIP_RECV_BYTES);
    session->direct = false;
}

void vipl__direct_create(struct vipl__vi *vi)
{
    if (vi->session->direct)
        memset(vip_recv_head(vi->session->recv_base, vi->index), 0, sizeof(struct vip_recv_head));
}

/* ---- a VI's ring -------------------------------------------------------------------------- */

static void lock_all(struct vipl__vi *vi)
{
    vipl__spin_lock(&vi->session->post_lock);
    vipl__spin_lock(&vi->queue[VIP_Q_SEND].done_lock);
    vipl__spin_lock(&vi->queue[VIP_Q_RECV].done_lock);
}

static void unlock_all(struct vipl__vi *vi)
{
    vipl__spin_unlock(&vi->queue[VIP_Q_RECV].done_lock);
    vipl__spin_unlock(&vi->queue[VIP_Q_SEND].done_lock);
    vipl__spin_unlock(&vi->session->post_lock);
}

void vipl__direct_over(struct vipl__vi *vi)
{
    struct vipl__direct *direct;

    lock_all(vi);
    direct = vipl__direct_of(vi);
    if (direct != NULL)
        direct->over = direct->stopped = true;
    unlock_all(vi);
}

bool vipl__direct_goes_on(struct vipl__vi *vi)
{
    const struct vipl__direct *direct = vipl__direct_of(vi);
    bool over;

    if (direct == NULL || direct->fd < 0 || !vi->session->past_rings)
        return false;
    vipl__spin_lock(&vi->queue[VIP_Q_RECV].done_lock);
    over = direct->over;
    vipl__spin_unlock(&vi->queue[VIP_Q_RECV].done_lock);
    return !over && vip_load32_acquire(&block_of(vi)->ring) == VIP_RING_OPEN;
}

/* The VI's ring object. If it has none, make one and reserve address space. NULL: no memory. */
static struct vipl__direct *object_of(struct vipl__vi *vi)
{
    struct vipl__direct *direct = vi->direct;

    if (direct != NULL)
        return direct;
    direct = calloc(1, sizeof(*direct));
    if (direct == NULL)
        return NULL;
    direct->fd = -1;
    direct->map = mmap(NULL, sizeof(struct vip_direct), PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (direct->map == MAP_FAILED) {
        free(direct);
        return NULL;
    }
    __atomic_store_n(&vi->direct, direct, __ATOMIC_RELEASE);
    return direct;
}

static bool map_ring(struct vipl__direct *direct, int fd)
{
    if (!vipl__mem_file_is(fd, sizeof(struct vip_direct)))
        return false;
    if (mmap(direct->map, sizeof(struct vip_direct), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
             fd, 0) == MAP_FAILED)
        return false;
    return vipl__shared_advise(direct->map, sizeof(struct vip_direct)) == 0;
}

/* Set the first state of a ring. Under all locks. */
static void start(struct vipl__vi *vi, struct vipl__direct *direct, const Vip__Direct *event)
{
    struct vip_direct *map = direct->map;
    VIP_ULONG max = vi->attrs.MaxTransferSize;

    direct->half = event->half;
    direct->in = &map->way[1 - event->half];
    /* Never set `way` to NULL: a late vipl__direct_sent call for the VI that used this object
     * before may still load `way`. */
    __atomic_store_n(&direct->out.way, &map->way[event->half], __ATOMIC_RELAXED);
    direct->out.sent = direct->out.bytes = 0;
    direct->out.freed = direct->out.line = direct->out.oldest = 0;
    direct->first = event->first;
    __atomic_store_n(&direct->taken, 0, __ATOMIC_RELAXED);
    direct->broken = direct->over = false;
    direct->unreliable = vi->attrs.ReliabilityLevel == VIP_SERVICE_UNRELIABLE;
    direct->stopped = direct->unreliable && vi->rdma_posted;
    direct->behind = direct->run = 0;
    direct->patience = PATIENCE_MIN;
    direct->reported = 0;
    direct->bytes = 0;
    direct->random = 88172645463325252ull + vi->index;
    direct->max_bytes = max < VIP_DIRECT_BYTES_MAX ? (uint32_t)max : VIP_DIRECT_BYTES_MAX;
    memset(direct->lent, 0xff, sizeof(direct->lent)); /* VIPL__NOT_LENT */
}

bool vipl__direct_attach(struct vipl__vi *vi, const Vip__Direct *event, int *fd)
{
    struct vipl__queue *recv = &vi->queue[VIP_Q_RECV];
    struct vipl__direct *direct;
    uint32_t k;

    if (!vi->session->direct || event->half > 1 || vipl__direct_of(vi) != NULL)
        return false;
    direct = object_of(vi);
    if (direct == NULL || !map_ring(direct, *fd))
        return false;
    if (vi->session->outlive_ns > 0) {
        direct->fd = *fd;
        *fd = -1;
    }
    direct->lends = vipl__cq_list_add(recv->cq, vi, VIP_Q_RECV);
    direct->sends = vipl__cq_list_add(vi->queue[VIP_Q_SEND].cq, vi, VIP_Q_SEND);
    lock_all(vi);
    start(vi, direct, event);
    /*
     * Set `asleep` before receive descriptors are offered: until vipl__direct_asleep_vi stores the
     * real state, the peer must not use the ring.
     */
    __atomic_store_n(&direct->in->asleep, 1, __ATOMIC_SEQ_CST);
    __atomic_store_n(&direct->live, 1, __ATOMIC_RELEASE);
    for (k = recv->reaped; k != recv->posted; k++)
        vipl__direct_lend(vi, k);
    unlock_all(vi);
    vipl__direct_asleep_vi(vi);
    return true;
}

void vipl__direct_destroy(struct vipl__vi *vi)
{
    struct vipl__direct *direct = vipl__direct_of(vi);

    if (direct == NULL)
        return;
    vipl__cq_list_remove(vi->queue[VIP_Q_SEND].cq, vi);
    vipl__cq_list_remove(vi->queue[VIP_Q_RECV].cq, vi);
    lock_all(vi);
    vipl__spin_lock(&direct->asleep_lock);
    __atomic_store_n(&direct->live, 0, __ATOMIC_RELEASE);
    make_empty(direct->map, sizeof(struct vip_direct));
    vipl__spin_unlock(&direct->asleep_lock);
    unlock_all(vi);
    vipl__fd_close(&direct->fd);
}

/* ---- offering receive descriptors --------------------------------------------------------- */

/* The region of this handle if the library may copy from and to it, else NULL. Under post_lock. */
static const struct vipl__region *reachable(const struct vipl__vi *vi, uint32_t handle)
{
    const struct vipl__region *region = vipl__region_find(&vi->session->regions, handle);

    return region != NULL && (region->ptag == vi->ptag || region->ptag == 0 || vi->ptag == 0) &&
                   region->mem.kind != VIPL__MEM_STAGED
               ? region
               : NULL;
}

bool vipl__direct_receive_good(const struct vipl__vi *vi, const struct vip_sq_slot *slot,
                               uint32_t *ret_room)
{
    uint64_t room = 0;
    bool ends = false; /* a segment exceeds its region */

    if (slot->seg_count > VIP_SQ_INLINE_SEGS || slot->reserved1 != 0 ||
        (slot->control & ~VIP_CONTROL_IMMEDIATE & ~VIP_CONTROL_QFENCE) != 0)
        return false;
    for (unsigned i = 0; i < slot->seg_count; i++) {
        const struct vip_shm_seg *seg = &slot->seg[i];

        const struct vipl__region *region;
        size_t rest;

        if (seg->len == 0)
            continue;
        region = reachable(vi, seg->handle);
        if (region == NULL)
            return false;
        rest = vipl__region_rest(region, (uintptr_t)seg->addr);
        if (!ends)
            room += rest < seg->len ? rest : seg->len;
        ends |= rest < seg->len;
    }
    *ret_room = room < VIPL__NOT_LENT ? (uint32_t)room : VIPL__NOT_LENT - 1;
    return true;
}

void vipl__direct_lend(struct vipl__vi *vi, uint32_t k)
{
    struct vipl__direct *direct = vipl__direct_of(vi);
    const struct vip_sq_slot *slot;
    uint32_t room;

    if (direct == NULL || !direct->lends || (int32_t)(k - direct->first) < 0)
        return;
    slot = vip_recv_slot(vi->session->recv_base, vi->index, k);
    if (!vipl__direct_receive_good(vi, slot, &room))
        room = VIPL__NOT_LENT;
    else
        vip_direct_lend(direct->in, k - direct->first, room);
    direct->lent[k & (VIP_DESC_PER_QUEUE_MAX - 1)] = room;
}

/* ---- sending ------------------------------------------------------------------------------ */

/* The segments of a send. Each word of the program's memory is loaded once. */
struct gather {
    unsigned count;
    uint32_t sum;
    struct {
        const void *from;
        uint32_t len;
    } piece[SEGS_MAX];
};

/* Read the segments of a send. False if the send must not go by the ring. */
static bool gather(const struct vipl__vi *vi, const VIP_DESCRIPTOR *desc, uint32_t max_bytes,
                   struct gather *ret)
{
    unsigned count = desc->CS.SegCount;

    if (count > SEGS_MAX || desc->CS.Reserved != 0 ||
        (desc->CS.Control & ~VIP_CONTROL_IMMEDIATE & ~VIP_CONTROL_QFENCE) != 0)
        return false;
    ret->count = 0;
    ret->sum = 0;
    for (unsigned i = 0; i < count; i++) {
        const VIP_DATA_SEGMENT *seg = &desc->DS[0].Local + i;
        uint64_t addr = __atomic_load_n(&seg->Data.AddressBits, __ATOMIC_RELAXED);
        uint32_t len = __atomic_load_n(&seg->Length, __ATOMIC_RELAXED);
        const struct vipl__region *region;

        if (len > max_bytes - ret->sum)
            return false;
        if (len == 0)
            continue;
        region = reachable(vi, seg->Handle);
        if (region == NULL || !vipl__region_holds(region, (uintptr_t)addr, len))
            return false;
        ret->piece[ret->count].from = (const void *)(uintptr_t)addr;
        ret->piece[ret->count++].len = len;
        ret->sum += len;
    }
    return ret->sum == desc->CS.Length;
}

static bool sleepers_of(const struct vipl__queue *queue)
{
    const struct vipl__cq *cq = __atomic_load_n(&queue->cq, __ATOMIC_RELAXED);

    return __atomic_load_n(queue->waiters, __ATOMIC_SEQ_CST) != 0 ||
           (cq != NULL && (__atomic_load_n(&cq->app->waiters, __ATOMIC_SEQ_CST) != 0 ||
                           __atomic_load_n(&cq->fd[0], __ATOMIC_RELAXED) >= 0));
}

/* True if earlier sends that went through vipd have not completed yet. */
static bool followed(const struct vipl__vi *vi)
{
    return vipl__sends_completed(vi) !=
           __atomic_load_n(&vi->queue[VIP_Q_SEND].via, __ATOMIC_RELAXED);
}

/* May sends go by the ring now? Not if a thread of the peer sleeps. ring_mute is not 0 if the peer
 * does not use the ring any more, or if vipctl capture runs. */
static bool open_now(const struct vipl__vi *vi, struct vipl__direct *direct)
{
    const struct vip_vipd_vi *block = block_of(vi);

    return vip_load32_acquire(&block->ring) == VIP_RING_OPEN &&
           vip_load32(&block->ring_mute) == 0 && !direct->stopped && direct->sends &&
           vip_load32(&direct->out.way->asleep) == 0;
}

/* This send must come after earlier sends that are under way through vipd. Shall it wait until vipd
 * has completed them? */
static bool time_to_wait(struct vipl__direct *direct)
{
    if (++direct->behind < direct->patience)
        return false;
    direct->behind = 0;
    /* Each wait makes the next wait rarer, because waits do not help if vipd is slow or the peer
     * sleeps. */
    if (direct->patience < PATIENCE_MAX)
        direct->patience *= 2;
    return true;
}

void vipl__direct_wait(struct vipl__vi *vi)
{
    uint64_t deadline_ns = vipl__now_ns() + WAIT_NS;

    vipl__ring_bell(vi->session);
    while (followed(vi) && vipl__now_ns() < deadline_ns)
        if (vi->session->yield)
            sched_yield();
}

/* For VIPL_DIRECT=random, a mode for tests: true (use the ring) three times out of four. */
static bool by_chance(struct vipl__direct *direct)
{
    direct->random ^= direct->random << 13;
    direct->random ^= direct->random >> 7;
    direct->random ^= direct->random << 17;
    return (direct->random & 3) != 0;
}

enum vipl__way vipl__direct_post(struct vipl__vi *vi, const VIP_DESCRIPTOR *desc,
                                 struct vipl__direct_message *message, bool waited)
{
    struct vipl__direct *direct = vipl__direct_of(vi);
    struct gather from;
    uint32_t number;
    uint8_t *to;

    if (direct == NULL || !open_now(vi, direct) || !gather(vi, desc, direct->max_bytes, &from) ||
        vipl__vi_is_dead(vi) || sleepers_of(&vi->queue[VIP_Q_SEND]))
        return VIPL__WAY_NO;
    if (vi->session->direct_random && !by_chance(direct))
        return VIPL__WAY_NO;
    if (followed(vi))
        return !waited && time_to_wait(direct) ? VIPL__WAY_LATER : VIPL__WAY_NO;
    number = (uint32_t)direct->out.sent + vip_load32(&block_of(vi)->ring_vipd);
    if (!vip_direct_lent(direct->out.way, number, from.sum) ||
        !vip_direct_room(&direct->out, from.sum))
        return VIPL__WAY_NO;
    to = vip_direct_place(&direct->out, from.sum);
    for (unsigned i = 0; i < from.count; i++) {
        memcpy(to, from.piece[i].from, from.piece[i].len);
        to += from.piece[i].len;
    }
    message->len = from.sum;
    direct->behind = 0;
    if (++direct->run == PATIENCE_MAX)
        direct->patience = PATIENCE_MIN; /* the last sends all went by the ring */
    return VIPL__WAY_YES;
}

void vipl__direct_commit(struct vipl__vi *vi, const struct vipl__direct_message *message)
{
    struct vipl__queue *queue = &vi->queue[VIP_Q_SEND];
    struct vip_recv_head *head = vip_recv_head(vi->session->recv_base, vi->index);
    struct vip_direct_out *out = &vi->direct->out;

    vip_direct_send(out, message->len, message->flags, message->imm);
    __atomic_store_n(&head->sent, out->sent, __ATOMIC_RELAXED);
    __atomic_store_n(&head->sent_bytes, out->bytes, __ATOMIC_RELAXED);
    __atomic_store_n(&queue->direct_done, queue->direct_done + 1, __ATOMIC_RELEASE);
}

void vipl__direct_sent(struct vipl__vi *vi)
{
    const struct vipl__direct *direct = vipl__direct_of(vi);
    const struct vip_direct_way *way =
        direct != NULL ? __atomic_load_n(&direct->out.way, __ATOMIC_RELAXED) : NULL;

    /* The caller's full barrier (vipl__spin_unlock_full) came before this load. So if the peer
     * sleeps because it did not find the message, this load sees `asleep`. */
    if (way != NULL && __builtin_expect(vip_load32(&way->asleep) != 0, 0))
        vipl__ask(vi, VIP_ASK_WAKE_PEER);
    if (__builtin_expect(sleepers_of(&vi->queue[VIP_Q_SEND]), 0))
        vipl__ask(vi, VIP_ASK_WAKE_SELF);
}

void vipl__direct_resume(struct vipl__vi *vi)
{
    const struct vipl__direct *direct = vipl__direct_of(vi);
    bool breaks = false;

    if (direct != NULL) {
        vipl__spin_lock(&vi->queue[VIP_Q_RECV].done_lock);
        breaks = direct->broken && !direct->over;
        vipl__spin_unlock(&vi->queue[VIP_Q_RECV].done_lock);
    }
    if (breaks)
        vipl__ask(vi, VIP_ASK_BREAK);
    vipl__direct_sent(vi);
    if (vi->session->direct && vipl__vi_state(vi) == VIP_VIST_ERROR)
        vipl__ask(vi, VIP_ASK_FLUSH);
}

void vipl__direct_pause(struct vipl__vi *vi)
{
    struct vipl__direct *direct = vi->direct;

    direct->run = 0;
    /* An unreliable RDMA Write may be complete at this end while the peer still copies it to staged
     * memory. A later ring message would overtake the Write. */
    direct->stopped |= direct->unreliable && vi->rdma_posted;
}

/* ---- sleeping ----------------------------------------------------------------------------- */

void vipl__direct_asleep_vi(struct vipl__vi *vi)
{
    struct vipl__direct *direct = __atomic_load_n(&vi->direct, __ATOMIC_ACQUIRE);

    if (direct == NULL)
        return;
    /* Load the waiter words and publish under one lock: the last change is then published last. */
    vipl__spin_lock(&direct->asleep_lock);
    if (__atomic_load_n(&direct->live, __ATOMIC_ACQUIRE) != 0)
        __atomic_store_n(&direct->in->asleep, sleepers_of(&vi->queue[VIP_Q_RECV]),
                         __ATOMIC_SEQ_CST);
    vipl__spin_unlock_full(&direct->asleep_lock); /* [pair ASLEEP] */
}

void vipl__direct_asleep_cq(struct vipl__cq *cq)
{
    vipl__spin_lock(&cq->done_lock);
    for (unsigned i = 0; i < cq->direct_count; i++)
        if (cq->direct[i].queue == VIP_Q_RECV)
            vipl__direct_asleep_vi(cq->direct[i].vi);
    vipl__spin_unlock_full(&cq->done_lock);
}
