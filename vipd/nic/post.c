/*
 * Postings of a program: is a posting there, may vipd take it, and how does the engine get it?
 *
 * Owns: the budget of postings that fail. Does not own: the places from which vipd takes postings
 * (sq.c, direct.c).
 */
#include "proto/probe.h"
#include "vipd/nic/internal.h"

/* Is the slot at sq_watch written? One load of its stamp answers this. */
bool nic_session_has_posts(const struct nic_session *session)
{
    const struct vip_sq_slot *slot = &session->sq[session->sq_watch & (VIP_SQ_SLOTS - 1)];
    uint32_t stamp;

    vip_fetch_begin();
    stamp = vip_load32_acquire(&slot->stamp);
    vip_fetch_end();
    return !session->broken && stamp == session->sq_watch + 1;
}

uint64_t nic_session_resumes_ns(const struct nic_session *session)
{
    const uint64_t burst_ns = (uint64_t)NIC_FAULT_BURST * NIC_FAULT_NS;

    return session->faults_ns > burst_ns ? session->faults_ns - burst_ns : 0;
}

bool nic_session_throttled(const struct nic_session *session)
{
    return nic_session_resumes_ns(session) > session->nic->now_ns;
}

void nic_session_tell_resumed(struct nic_session *session)
{
    session->tell_resumed = true;
}

void nic_session_fault(struct nic_session *session)
{
    bool was = nic_session_throttled(session);

    if (session->faults_ns < session->nic->now_ns)
        session->faults_ns = session->nic->now_ns;
    session->faults_ns += NIC_FAULT_NS;
    if (!was && nic_session_throttled(session))
        session->nic->counts.throttled++;
}

/*
 * Limit of error reports to a program. A program, or its peer, can cause one error per message.
 * Each report costs vipd a system call and an entry in the history. So a program gets ERRORS_BURST
 * reports at once, then one per ERROR_NS (nanoseconds).
 */
#define ERROR_NS     1000000u
#define ERRORS_BURST 1024u

bool nic_session_may_tell(struct nic_session *session)
{
    struct nic *nic = session->nic;

    if (session->errors_ns < nic->now_ns)
        session->errors_ns = nic->now_ns;
    if (session->errors_ns - nic->now_ns >= (uint64_t)ERRORS_BURST * ERROR_NS) {
        nic->counts.errors_untold++;
        return false;
    }
    session->errors_ns += ERROR_NS;
    return true;
}

void nic_session_post(struct nic_session *session, const struct eng_post *post)
{
    session->nic->counts.posts++;
    if (session->nic->see)
        nic_see_descriptor(
            session, VIP_CAPTURE_POSTED,
            &(struct nic_deferred){.vi = post->vi, .queue = post->queue, .length = post->length});
    VIP_PROBE4(post, session->id, post->vi, post->queue, post->length);
    session->failed = false;
    eng_post(session->eng, post, session->nic->now_ns);
    if (__builtin_expect(session->loans_out > 0, 0))
        session->nic->loans_posted = true;
    if (session->failed)
        nic_session_fault(session);
}
