/*
 * What a session takes of a NIC that it shares with others, and what it has to wait for. Called by vipd/client/ and
 * vipd/ctl/ while the NIC stands still, and by vipd/nic/.
 */
#ifndef VIPD_NIC_SHARE_H
#define VIPD_NIC_SHARE_H

#include <stdbool.h>
#include <stdint.h>

struct nic;
struct nic_session;

/* Postings that fail at once, as no working program makes many: what one costs its session in time, and
 * how many may come together before the session has to wait for that time to pass. */
#define NIC_FAULT_NS    30000u
#define NIC_FAULT_BURST 4096u
/*
 * So many of its postings failed at once that the next ones wait, so that they do not take vipd's time
 * from others. Meanwhile its doorbell means nothing and need not be looked at; nic_deadline says when
 * it does again. O(1).
 */
bool nic_session_throttled(const struct nic_session *session);
/* Have sink.resumed called in the first turn in which it is not. */
void nic_session_tell_resumed(struct nic_session *session);

/* Processor time that the session has had while others had work too, in ns; 0 for one that is always alone. */
uint64_t nic_session_time_ns(const struct nic_session *session);
/*
 * What would have been its part: of the processor time of each turn in which others had work too, and at whose end work of
 * this session still waited. It has had at least this much, but for what it was ahead before. In ns.
 */
uint64_t nic_session_due_ns(const struct nic_session *session);
/*
 * vipd has spent `cpu_ns` of processor time on a request, the beginning or the end of a session of this user: it
 * counts as if spent in turns. own_thread: the thread that runs the NIC's turns has spent it. A user without sessions on this NIC so far: nothing happens.
 */
void nic_charge(struct nic *nic, uint32_t uid, uint64_t cpu_ns, bool own_thread);

/* Submission slots that vipd has taken from this session since it was opened. */
uint64_t nic_session_slots(const struct nic_session *session);

#endif
