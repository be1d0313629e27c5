/*
 * Rings of an earlier life of vipd: both programs have kept them, and used them meanwhile. Each
 * program brings the ring's file when it claims its VI. With the first file vipd makes the ring;
 * with the second file the other end joins.
 *
 * vipd refuses files that no vipd of the same user has made. So programs cannot make rings by
 * bringing files, and the quotas of the earlier life hold: here only the limits of the NIC and of a
 * session are checked. What the programs say about a ring can be false: then their connection ends,
 * or its messages are lost. A receive descriptor that the earlier life had taken but not committed
 * is taken again.
 *
 * Owns: the checks of such a ring. Does not own: rings (direct.c), the connection (rebind.c).
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/direct.h"
#include "vipd/nic/internal.h"
#include "vipd/registry/memfile.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

/* The words of the VI in the vipd-writes segment, as an earlier life has left them. */
static struct vip_vipd_vi *words_of(const struct nic_session *session, uint16_t vi)
{
    return nic_layout_vi(session->layout, session->vipd_base, vi);
}

bool nic_direct_was_open(const struct nic_session *session, uint16_t vi)
{
    return vip_load32_own(&words_of(session, vi)->ring) == VIP_RING_OPEN;
}

/* What is wrong with the file; NULL: nothing. */
static const char *file_fault(int fd, struct stat *ret)
{
    int seals = fcntl(fd, F_GET_SEALS); /* first, as other calls may block on FUSE or NFS */

    if (seals < 0 || fstat(fd, ret) < 0 || !memfile_is_like(fd, ret))
        return "the ring of the connection is not a memfd";
    if ((seals & SEALS) != SEALS || ret->st_uid != geteuid() ||
        (memfile_protects() && !memfile_is_protected(fd)))
        return "the ring of the connection is none that a vipd of this user has made";
    if ((uint64_t)ret->st_size != sizeof(struct vip_direct))
        return "the ring of the connection has the wrong size";
    return NULL;
}

/* Why this VI must not have the ring that its program has brought. NULL: it may have the ring. */
static const char *told_fault(const struct nic_session *session,
                              const struct nic_vi_checkpoint *past,
                              const struct nic_past_ring *told)
{
    if (!past->connected || !nic_direct_was_open(session, past->vi))
        return "vipd has begun anew, and this connection cannot go on";
    if (!session->recv_base || past->args.attrs.level == VIP_LVL_RECEPTION || told->half > 1)
        return "the VI cannot have had the ring that its program has brought";
    if (session->rings >= NIC_RINGS_SESSION)
        return "this NIC handle has too many rings";
    return NULL;
}

static struct nic_ring *ring_of(const struct nic *nic, const struct stat *st)
{
    struct nic_list *item;

    for (item = nic->ring_list.next; item != &nic->ring_list; item = item->next) {
        struct nic_ring *ring = NIC_ITEM(item, struct nic_ring, link);

        if (ring->dev == st->st_dev && ring->ino == st->st_ino)
            return ring;
    }
    return NULL;
}

/*
 * Do two counts of one end's receive descriptors fit? noted: how many of them the earlier life had
 * taken; it published this count to the other end. now: how many of them it had committed. At most
 * the descriptors of one queue were taken and not committed.
 */
static bool counts_fit(uint32_t noted, uint32_t now)
{
    return noted - now <= VIP_DESC_PER_QUEUE_MAX;
}

/* Why a VI must not join the ring at this half. NULL: it may join. received: how many of its
 * receive descriptors vipd has committed since the ring began. */
static const char *join_fault(const struct nic_session *session,
                              const struct nic_vi_checkpoint *past, const struct nic_ring *ring,
                              unsigned half, uint32_t received)
{
    const struct nic_session *other = ring->end[1 - half].session;
    uint16_t other_vi = ring->end[1 - half].vi;

    if (!ring->awaits || !other)
        return "the ring of the connection is in use already";
    if (!counts_fit(vip_load32_own(&words_of(other, other_vi)->ring_vipd), received) ||
        !counts_fit(vip_load32_own(&words_of(session, past->vi)->ring_vipd),
                    other->vis[other_vi].ring_vipd))
        return "what the programs say of the ring of the connection contradicts what vipd has "
               "noted";
    return NULL;
}

struct nic_ring *nic_direct_find(struct nic_session *session, const struct nic_vi_checkpoint *past,
                                 const struct nic_past_ring *told, const char **ret_fault)
{
    struct nic *nic = session->nic;
    const char *fault = "the number of the VI is too large";
    struct nic_ring *ring = NULL;
    uint32_t taken;
    struct stat st;

    if (past->vi < session->vi_max)
        fault = told_fault(session, past, told);
    if (!fault)
        fault = file_fault(told->fd, &st);
    if (!fault) {
        taken = vip_load32_own(&words_of(session, past->vi)->commit.received) + past->recv_base;
        ring = ring_of(nic, &st);
        if (ring)
            fault = join_fault(session, past, ring, told->half, taken - told->first);
        else if (nic->rings >= NIC_RINGS_MAX)
            fault = "the NIC has too many rings";
        else if (!(ring = nic_ring_new(nic, told->fd)))
            fault = "vipd has no memory for the ring of the connection";
    }
    if (past->vi < session->vi_max)
        session->vis[past->vi].ring_fault = fault;
    *ret_fault = fault;
    return fault ? NULL : ring;
}

void nic_direct_find_drop(struct nic_session *session, struct nic_ring *ring)
{
    if (!ring->end[0].session && !ring->end[1].session)
        nic_ring_free(session, ring);
}

void nic_direct_restore(struct nic_session *session, uint16_t number, struct nic_ring *ring,
                        const struct nic_past_ring *told)
{
    unsigned half = told->half;
    struct nic_session *other = ring->end[1 - half].session;
    struct nic_vi *vi = &session->vis[number], *peer;

    nic_ring_join(ring, half, session, number, told->first);
    if (!other)
        return;
    session->nic->counts.rings_again++;
    /* Both ends have joined, and vipd takes no receives before the rebind: the counts are exact. */
    peer = &other->vis[ring->end[1 - half].vi];
    vip_store32_release(&vi->head->ring_vipd, peer->ring_vipd);
    vip_store32_release(&peer->head->ring_vipd, vi->ring_vipd);
}

bool nic_direct_matches(const struct nic_conn *conn)
{
    const struct nic_vi *vi = &conn->session->vis[conn->vi];
    const struct nic_conn *peer =
        conn->loop ? nic_conn_find(conn->session->nic, conn->remote_id) : NULL;
    const struct nic_ring *ring = vi->ring;

    if (!peer)
        return !ring;
    return ring == peer->session->vis[peer->vi].ring &&
           (!ring || ring->end[1 - vi->ring_half].vi == peer->vi) &&
           (!ring || ring->end[1 - vi->ring_half].session == peer->session);
}
