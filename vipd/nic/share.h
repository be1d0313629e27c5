/*
 * Throttling of sessions, and the processor time that sessions use of a shared NIC. Called by
 * vipd/client/ and vipd/ctl/ while the NIC stands still, and by vipd/nic/.
 */
#ifndef VIPD_NIC_SHARE_H
#define VIPD_NIC_SHARE_H

#include <stdbool.h>
#include <stdint.h>

struct nic;
struct nic_session;

/* Throttling. A correct program makes few postings that fail. FAULT_NS: time charged to the session
 * for each failed posting. FAULT_BURST: failed postings in a burst before the session waits. */
#define NIC_FAULT_NS    30000u
#define NIC_FAULT_BURST 4096u
/*
 * Is the session throttled? Then its failed postings exceed the burst. Its next postings wait, so
 * that they do not take vipd's time from other sessions. While it is throttled, ignore its bell;
 * nic_deadline includes the time at which the throttling ends. O(1).
 */
bool nic_session_throttled(const struct nic_session *session);
/* Call sink.resumed in the first turn in which the session is not throttled. */
void nic_session_tell_resumed(struct nic_session *session);

/* Processor time of the session in turns in which other sessions had work, too; in ns. 0: none. */
uint64_t nic_session_time_ns(const struct nic_session *session);
/*
 * Fair part of the session, in ns. It is the sum of equal parts of those turns in which other
 * sessions had work too and which left work of this session undone. nic_session_time_ns is at least
 * this sum, minus what the session had used before beyond its fair part.
 */
uint64_t nic_session_due_ns(const struct nic_session *session);
/*
 * vipd has spent `cpu_ns` of processor time on a request, the beginning or the end of a session of
 * this user: charge the user as for turns. own_thread: the thread that runs the NIC's turns spent
 * the time. A user that has had no session on this NIC is not charged.
 */
void nic_charge(struct nic *nic, uint32_t uid, uint64_t cpu_ns, bool own_thread);
/* Does one user have all sessions of this NIC? */
bool nic_has_one_user(const struct nic *nic);

/* Slots that vipd has taken from this session since it was opened: of its submission ring, and of
 * its table of receives with their continuations. */
uint64_t nic_session_slots(const struct nic_session *session);

#endif
