/*
 * The table of sends of a VI (proto/loan.h). While a loan is out, libvipl posts sends to this table
 * and not to the submission ring. When vipd has the engine again, it takes from the table all sends
 * that the engine does not have.
 *
 * Owns: which VI has which part of the program's memory. Does not own: one entry (vipd/path/post.c),
 * when a loan is out (loan.c).
 */
#include "proto/assert.h"
#include "proto/fetch.h"
#include "vipd/nic/internal.h"

bool nic_sends_begin(struct nic_session *session, uint16_t number, uint32_t part)
{
    uint32_t *owner = &session->loan_vi[part];

    if ((*owner && *owner != number + 1u) || !nic_past_begin(&session->vis[number]))
        return false;
    *owner = number + 1u;
    session->vis[number].loan_part = &session->loan_parts[part];
    return true;
}

void nic_sends_end(struct nic_session *session, uint16_t number)
{
    struct nic_vi *vi = &session->vis[number];

    if (!vi->loan_part)
        return;
    nic_past_part_ends(vi);
    session->loan_vi[vi->loan_part - session->loan_parts] = 0;
    vi->loan_part = NULL;
}

/* Number of the operation after the last send in the table; not trusted. */
static uint32_t table_posted(const struct nic_vi *vi)
{
    uint32_t posted;

    vip_fetch_begin();
    posted = vip_load32_acquire(&vi->loan_part->posted);
    vip_fetch_end();
    return posted;
}

/* Number of the operation after the last send that the engine has got. *ret_room: how many sends it
 * still has room for. */
static uint32_t next_send(struct nic_session *session, uint16_t number, uint32_t *ret_room)
{
    const struct nic_vi *vi = &session->vis[number];
    struct eng_vi_stats stats;

    nic_deferred_publish_of(session, number);
    eng_vi_stats(session->eng, number, &stats);
    *ret_room = VIP_DESC_PER_QUEUE_MAX - stats.send_depth;
    return vi->send_base + vi->position[VIP_Q_SEND] + stats.send_depth;
}

bool nic_sends_none(const struct nic_vi *vi)
{
    return table_posted(vi) == 0;
}

uint32_t nic_sends_posted(struct nic_session *session, uint16_t number)
{
    uint32_t room, next = next_send(session, number, &room);
    uint32_t posted = table_posted(&session->vis[number]);

    /* After sends by the submission ring, `posted` is old until the next send to the table. */
    return (int32_t)(posted - next) > 0 ? posted : next;
}

void nic_sends_take(struct nic_session *session, uint16_t number)
{
    const struct nic_vi *vi = &session->vis[number];
    uint32_t room, next = next_send(session, number, &room), posted = table_posted(vi);

    /* A program that posts more than the engine has room for would make each of its requests cost
     * the whole table. */
    for (; room > 0 && (int32_t)(posted - next) > 0; room--, next++) {
        struct path_parts parts;
        struct eng_post post;
        bool there;

        vip_fetch_begin();
        there = path_send(vi->loan_part, number, vi->generation, next, &parts, &post);
        if (there)
            nic_session_post(session, &post);
        vip_fetch_end();
        if (!there)
            break; /* no libvipl leaves a gap */
        session->slots++;
    }
}

void nic_sends_asked(struct nic_session *session, uint16_t number)
{
    const struct nic_vi *vi = &session->vis[number];
    struct nic_conn *conn = vi->conn;
    struct vip_loan_checkpoint at;

    /* If the owner of a loan has left a checkpoint, vipd will make the engine anew, with all sends of
     * the table. Else the sends of an earlier loan may be missing. */
    if (!conn || !conn->lent ||
        !loan_words_checkpoint(&vi->loan_part->owner, nic_loan_words(conn->loan)->lent, &at))
        nic_sends_take(session, number);
}
