/*
 * vipd's part of the direct path between two programs of this NIC. vipd makes the ring when both
 * ends of a connection are on this NIC. vipd takes a receive descriptor out of a program's table
 * when a message through vipd needs one. It decides which messages of a ring count when the
 * connection ends. It wakes sleepers. It never moves a message of a ring or looks into one.
 *
 * The next receive descriptor: a VI's receive descriptors are consumed in the order posted.
 * Messages of the ring consume some; libvipl counts these messages, and ring_sync can count them,
 * too. Messages through vipd consume the others; this file counts these messages. While a message
 * through vipd is under way, no message of the ring is sent in the same direction. So the sum of
 * both counts is exact whenever vipd needs it.
 *
 * Owns: rings, the position in the table. Does not own: when a ring is used (libvipl/direct.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/assert.h"
#include "proto/direct.h"
#include "vipd/nic/internal.h"
#include "vipd/nic/objects.h"
#include "vipd/registry/guard.h"
#include "vipd/registry/memfile.h"

int nic_session_set_receives(struct nic_session *session, void *base)
{
    if (session->recv_base || session->vi_high)
        return -EBUSY;
    session->recv_base = base;
    return 0;
}

static struct vip_vipd_vi *block_of(const struct nic_session *session, uint16_t vi)
{
    return session->vis[vi].head;
}

/* ---- receives --------------------------------------------------------------------------- */

/*
 * Count the messages that the ring has brought to this VI. The count is the sender's count, plus
 * later messages found in the ring, and at most the number of posted receive descriptors. If the
 * sender's count is impossible, vipd uses the receiver's count of taken messages. A false count of
 * either program damages this VI only. Returns whether a receive descriptor is left.
 */
static bool ring_sync(struct nic_session *session, uint16_t number)
{
    struct nic_vi *vi = &session->vis[number];
    const struct vip_direct_way *way = &vi->ring->map->way[1 - vi->ring_half];
    const struct vip_recv_head *head = vip_recv_head(session->recv_base, number);
    uint32_t first = vi->ring_first + vi->ring_vipd;
    uint32_t posted, n, taken, most;

    /* Load `posted` first: `taken` is then newer, so `posted` - `taken` is never too large. */
    posted = vip_load32_acquire(&head->posted);
    n = (uint32_t)vip_load64_acquire(&way->sent);
    for (unsigned i = 0; i < VIP_DIRECT_SLOTS && vip_direct_there(way, n); i++)
        n++;
    taken = (uint32_t)vip_load64(&head->taken);
    most = posted - first;
    /* A message may use a descriptor posted after vipd loaded `posted`. A receiver that sees this
     * message also sees that the ring is closing, and takes the message only if vipd counts it. */
    if (n == most + 1) /* [ring_end RULE_CLAMP] */
        n = most;
    if ((int32_t)(taken - n) > 0 || most - n > VIP_DESC_PER_QUEUE_MAX)
        n = taken;
    if (most - n > VIP_DESC_PER_QUEUE_MAX)
        n = most;
    vi->ring_count = n;
    vi->recv_next = first + n;
    return n != most;
}

/*
 * For a VI without a ring: is the next receive descriptor in the table? Its slot alone does not
 * prove this: the stamp may be of an earlier VI with this number, and a slot with the right
 * generation may be only half written.
 */
static bool table_holds(const struct nic_session *session, uint16_t number)
{
    const struct vip_recv_head *head = vip_recv_head(session->recv_base, number);
    uint32_t posted = vip_load32_acquire(&head->posted); /* [table POSTED] */

    return (int32_t)(posted - session->vis[number].recv_next) > 0;
}

/* Give the engine the next receive descriptor of the VI. left: see path_receive. false: none is
 * posted. */
static bool take_one(struct nic_session *session, uint16_t number, uint32_t *left)
{
    struct nic_vi *vi = &session->vis[number];
    uint32_t before = *left;
    struct path_parts parts;
    struct eng_post post;
    bool there;

    vip_fetch_begin();
    there = vi->ring ? ring_sync(session, number) : table_holds(session, number);
    there = there && path_receive(session->recv_base, number, vi->generation, vi->recv_next, left,
                                  &parts, &post);
    if (there) {
        vi->recv_next++;
        session->slots += 1 + before - *left;
        if (vi->ring) {
            const struct nic_ring *ring = vi->ring;
            unsigned other = 1u - vi->ring_half;

            vi->ring_vipd++;
            if (ring->end[other].session)
                vip_store32_release(
                    &block_of(ring->end[other].session, ring->end[other].vi)->ring_vipd,
                    vi->ring_vipd);
        }
        nic_session_post(session, &post);
    }
    vip_fetch_end();
    return there;
}

/* ---- rings ------------------------------------------------------------------------------ */

/* Read the program's own counts of messages and bytes, from memory that its peer cannot write.
 * Ignore a count that decreases. */
static void look_stats(struct nic_session *session, uint16_t number)
{
    struct nic_vi *vi = &session->vis[number];
    const struct vip_recv_head *head;
    uint64_t word[4];

    if (!vi->had_ring) /* the session may have no table of receives */
        return;
    head = vip_recv_head(session->recv_base, number);
    vip_fetch_begin();
    word[0] = vip_load64(&head->sent);
    word[1] = vip_load64(&head->sent_bytes);
    word[2] = vip_load64(&head->taken);
    word[3] = vip_load64(&head->bytes);
    vip_fetch_end();
    for (unsigned i = 0; i < 4; i++)
        if (word[i] > vi->ring_seen[i])
            vi->ring_seen[i] = word[i];
    for (unsigned i = 0; i < 4; i += 2)
        if (vi->ring_seen[i + 1] / VIP_DIRECT_BYTES_MAX > vi->ring_seen[i])
            vi->ring_seen[i + 1] = vi->ring_seen[i] * VIP_DIRECT_BYTES_MAX;
}

/* Publish to the program at one end of a ring whether it may send by the ring. */
static void tell_mute(const struct nic_ring *ring, unsigned half)
{
    struct nic_session *session = ring->end[half].session;
    uint32_t mute = 0;

    if (!session)
        return;
    if (!ring->end[1 - half].session && !ring->awaits)
        mute |= VIP_RING_MUTE_OVER;
    if (session->nic->see)
        mute |= VIP_RING_MUTE_WATCHED;
    vip_store32_release(&block_of(session, ring->end[half].vi)->ring_mute, mute);
}

void nic_direct_watched(struct nic *nic)
{
    for (struct nic_list *item = nic->sessions.next; item != &nic->sessions; item = item->next) {
        struct nic_session *session = NIC_ITEM(item, struct nic_session, link);

        for (uint32_t i = 0; session->rings > 0 && i < session->vi_high; i++)
            if (session->vis[i].ring)
                tell_mute(session->vis[i].ring, session->vis[i].ring_half);
    }
}

/* From now on, a missing page of the ring ends the session of this end of the ring. */
static void ring_guard(struct nic_ring *ring, unsigned half)
{
    struct guard *owner = registry_guard(ring->end[half].session->registry);

    ring->guard = guard_add(owner, ring->map, sizeof(*ring->map));
}

void nic_ring_free(struct nic_session *session, struct nic_ring *ring)
{
    nic_list_del(&ring->link);
    registry_unmap(session->registry, ring->map, sizeof(*ring->map));
    session->nic->rings--;
    free(ring);
}

/* This end leaves its ring. When both ends have left, free the ring. */
static void end_leave(struct nic_session *session, uint16_t number)
{
    struct nic_vi *vi = &session->vis[number];
    struct nic_ring *ring = vi->ring;
    unsigned other = 1u - vi->ring_half;

    look_stats(session, number);
    vi->ring = NULL;
    session->rings--;
    ring->end[vi->ring_half].session = NULL;
    guard_remove(ring->guard);
    if (!ring->end[other].session || ring->end[other].session->user != session->user)
        session->user->rings--;
    if (ring->end[other].session) {
        ring_guard(ring, other);
        tell_mute(ring, other);
        return;
    }
    nic_ring_free(session, ring);
}

/*
 * The connection ends: decide which messages of the ring were sent in time. libvipl takes a message
 * only if it saw the message's stamp before the state CLOSING. Then vipd sees the stamp here, too.
 */
static void ring_over(struct nic_session *session, uint16_t number)
{
    struct nic_vi *vi = &session->vis[number];
    struct vip_vipd_vi *block = block_of(session, number);

    vip_store32_release(&block->ring, VIP_RING_CLOSING);
    vip_fence_sleep(); /* [ring_end CLOSING] */
    vip_fetch_begin();
    (void)ring_sync(session, number);
    vip_fetch_end();
    vip_store32_release(&block->ring_end, vi->ring_count);
    vip_store32_release(&block->ring, VIP_RING_OVER); /* [ring_end OVER] */
    end_leave(session, number);
    /* The sender may have died after writing a message, before asking vipd to wake the receiver. */
    if (!session->closing)
        nic_wake_also(session, number, VIP_Q_RECV);
}

void nic_op_fetch_receives(void *ctx, uint16_t number, bool all)
{
    struct nic_session *session = ctx;
    struct nic_vi *vi = &session->vis[number];
    /* The most continuations that can be in use; a descriptor that names more is malformed. */
    uint32_t left = VIP_SQ_SLOTS;

    if (!session->recv_base)
        return;
    if (!all) {
        (void)take_one(session, number, &left);
        return;
    }
    if (vi->ring)
        ring_over(session, number);
    /* If the session ends, do not report its receive descriptors. */
    for (unsigned i = 0; i < VIP_DESC_PER_QUEUE_MAX && !session->closing; i++) {
        uint32_t before = left;

        if (!take_one(session, number, &left))
            break;
        nic_share_worked(session->nic, 1 + before - left);
    }
}

void nic_direct_asked(struct nic_vi *vi)
{
    vi->ask_break = vi->ask_flush = vi->ask_no_ring = false;
    nic_list_del(&vi->in_asks);
}

void nic_direct_reset(struct nic_session *session, uint16_t number, enum vip_ring_state state)
{
    struct nic_vi *vi = &session->vis[number];
    struct vip_vipd_vi *block = block_of(session, number);

    VIP_ASSERT(!vi->ring);
    vi->recv_next = 0;
    vi->had_ring = state != VIP_RING_NONE && session->recv_base;
    nic_direct_asked(vi);
    vi->ring_count = 0;
    memset(vi->ring_seen, 0, sizeof(vi->ring_seen));
    look_stats(session, number);
    memcpy(vi->ring_before, vi->ring_seen, sizeof(vi->ring_before));
    if (state == VIP_RING_OPEN)
        return; /* the programs are using the words below */
    block->ring_end = block->ring_vipd = block->ring_mute = 0;
    vip_store32_release(&block->ring, state);
}

void nic_direct_drop(struct nic_session *session, uint16_t number)
{
    if (session->vis[number].ring)
        ring_over(session, number);
}

/* May this end have a ring? Not with Reliable Reception, where a completion promises that the bytes
 * are in the receiver's memory. If the receiver makes no call, only vipd can put them there. */
static bool may_have_ring(const struct nic_session *session, const struct nic_vi *vi)
{
    const struct nic_pool pool = {.have = session->user->rings,
                                  .used = session->nic->rings,
                                  .max = NIC_RINGS_MAX,
                                  .small = NIC_RINGS_SMALL,
                                  .reserve = NIC_RINGS_RESERVE,
                                  .times = 3};

    return session->recv_base && session->sink->direct && !session->closing && !vi->had_ring &&
           vi->attrs.level != VIP_LVL_RECEPTION && session->rings < NIC_RINGS_SESSION &&
           nic_pool_room(&pool, 1);
}

struct nic_ring *nic_ring_new(struct nic *nic, int fd)
{
    struct nic_ring *ring = calloc(1, sizeof(*ring));
    struct stat st;

    if (!ring)
        return NULL;
    ring->map = fstat(fd, &st) == 0 ? memfile_map(fd, sizeof(*ring->map), 0, false) : NULL;
    if (!ring->map) {
        free(ring);
        return NULL;
    }
    ring->dev = st.st_dev;
    ring->ino = st.st_ino;
    ring->awaits = true;
    nic_list_add_tail(&nic->ring_list, &ring->link);
    nic->rings++;
    return ring;
}

void nic_ring_join(struct nic_ring *ring, unsigned half, struct nic_session *session,
                   uint16_t number, uint32_t first)
{
    const struct nic_session *other = ring->end[1 - half].session;
    struct nic_vi *vi = &session->vis[number];

    ring->end[half].session = session;
    ring->end[half].vi = number;
    ring->awaits = !other;
    if (!other)
        ring_guard(ring, half);
    tell_mute(ring, half);
    session->rings++;
    /* A ring between two sessions of one user is one ring of this user. */
    if (!other || other->user != session->user)
        session->user->rings++;
    vi->ring = ring;
    vi->had_ring = true;
    vi->ring_half = (uint8_t)half;
    vi->ring_first = first;
    vi->ring_vipd = vi->recv_next - first;
    vi->ring_count = 0;
}

/* Give this end of a new ring to its program. */
static bool end_begin(struct nic_ring *ring, unsigned half, const struct nic_conn *conn, int fd)
{
    struct nic_session *session = conn->session;
    struct nic_vi *vi = &session->vis[conn->vi];

    nic_ring_join(ring, half, session, conn->vi, vi->recv_next);
    vip_store32_release(&block_of(session, conn->vi)->ring, VIP_RING_OPEN);
    return session->sink->direct(session->ctx, conn->vi, vi->generation, vi->ring_first, half, fd);
}

/*
 * The program at one end has not taken the ring. So it offers no receive descriptors for the ring,
 * and the other program cannot send by the ring. Remove the ring, because the next life of vipd
 * does not go on with a ring that lacks an end. false: a program has written messages anyway; the
 * ring stays.
 */
static bool ring_unused(struct nic_ring *ring)
{
    struct nic_session *session[2] = {ring->end[0].session, ring->end[1].session};
    uint16_t vi[2] = {ring->end[0].vi, ring->end[1].vi};

    for (unsigned half = 0; half < 2; half++) {
        if (!session[half])
            continue;
        vip_fetch_begin();
        (void)ring_sync(session[half], vi[half]);
        vip_fetch_end();
        if (session[half]->vis[vi[half]].ring_count > 0)
            return false;
    }
    for (unsigned half = 0; half < 2; half++) {
        if (!session[half])
            continue;
        vip_store32_release(&block_of(session[half], vi[half])->ring, VIP_RING_NONE);
        end_leave(session[half], vi[half]); /* the second call frees the ring */
    }
    return true;
}

void nic_direct_begin(struct nic_conn *conn)
{
    struct nic *nic = conn->session->nic;
    const struct nic_conn *peer = nic_conn_find(nic, conn->remote_id);
    struct nic_ring *ring;
    bool both;
    int fd;

    if (!nic->config.direct || !peer || peer->state != NIC_CONN_ESTABLISHED ||
        peer->remote_id != conn->local_id ||
        !may_have_ring(conn->session, &conn->session->vis[conn->vi]) ||
        !may_have_ring(peer->session, &peer->session->vis[peer->vi]))
        return;
    fd = memfile_make("via-ring", sizeof(struct vip_direct), F_SEAL_SEAL);
    ring = fd < 0 ? NULL : nic_ring_new(nic, fd);
    if (ring) {
        nic->counts.rings++;
        both = end_begin(ring, 0, conn, fd);
        both = end_begin(ring, 1, peer, fd) && both;
        if (!both)
            (void)ring_unused(ring);
    } /* without a ring, all messages go through vipd */
    if (fd >= 0)
        close(fd);
}

/* ---- requests of programs ---------------------------------------------------------------- */

static void ask_later(struct nic_session *session, struct nic_vi *vi)
{
    if (nic_list_empty(&vi->in_asks))
        nic_list_add_tail(&session->asks, &vi->in_asks);
    session->nic->asks = true;
}

void nic_direct_not_taken(struct nic_session *session, uint16_t number)
{
    struct nic_ring *ring = session->vis[number].ring;

    if (ring && !ring_unused(ring))
        nic_session_fault(session);
}

void nic_direct_ask_again(struct nic_session *session, uint16_t number)
{
    if (session->vis[number].ask_break)
        ask_later(session, &session->vis[number]);
}

void nic_direct_ask(struct nic_session *session, uint16_t number, uint8_t ask)
{
    struct nic_vi *vi = &session->vis[number];
    const struct nic_ring *ring = vi->ring;
    unsigned other = 1u - vi->ring_half;

    switch (ask) {
    case VIP_ASK_FLUSH:
        vi->ask_flush = true;
        ask_later(session, vi);
        return;
    case VIP_ASK_WAKE_PEER:
        session->nic->counts.ring_wakes++;
        if (ring && ring->end[other].session)
            nic_wake_also(ring->end[other].session, ring->end[other].vi, VIP_Q_RECV);
        return;
    case VIP_ASK_WAKE_SELF:
        nic_wake_also(session, number, VIP_Q_SEND);
        return;
    case VIP_ASK_SENDS:
        if (!vi->loan_part)
            break;
        nic_sends_asked(session, number);
        return;
    case VIP_ASK_NO_RING:
        vi->ask_no_ring = true;
        ask_later(session, vi);
        return;
    case VIP_ASK_BREAK:
        vi->ask_break = true;
        ask_later(session, vi);
        break;
    default:
        session->nic->counts.post_bad_kind++;
        break;
    }
    nic_session_fault(session);
}

/* ---- statistics ------------------------------------------------------------------------- */

void nic_vi_counts(const struct nic_session *session, uint16_t number, struct eng_vi_stats *ret)
{
    const struct nic_vi *vi = &session->vis[number];

    eng_vi_stats(session->eng, number, ret);
    nic_past_add(vi, ret);
    if (!session->recv_base)
        return;
    look_stats((struct nic_session *)session, number);
    ret->tx_messages += vi->ring_seen[0] - vi->ring_before[0];
    ret->tx_bytes += vi->ring_seen[1] - vi->ring_before[1];
    ret->rx_messages += vi->ring_seen[2] - vi->ring_before[2];
    ret->rx_bytes += vi->ring_seen[3] - vi->ring_before[3];
}
