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
 * for each failed posting. FAULT_BURST: failures at once after which the session must wait. */
#define NIC_FAULT_NS    30000u
#define NIC_FAULT_BURST 4096u
/*
 * Is the session throttled, because more postings failed than NIC_FAULT_BURST allows? Then its next
 * postings wait, so that they do not take vipd's time from other sessions. While it is throttled,
 * ignore its bell; nic_deadline includes the time at which the throttling ends. O(1).
 */
bool nic_session_throttled(const struct nic_session *session);
/* Call sink.resumed in the first turn in which the session is not throttled. */
void nic_session_tell_resumed(struct nic_session *session);

/* Processor time of the session in turns in which other sessions had work, too; in ns. 0: there was
 * no such turn. */
uint64_t nic_session_time_ns(const struct nic_session *session);
/*
 * Fair part of the session, in ns: the sum of its equal parts of some turns. In these turns other
 * sessions had work, too, and this session had work left at the end. nic_session_time_ns is at
 * least this sum, minus the time that the session used earlier beyond its fair part.
 */
uint64_t nic_session_due_ns(const struct nic_session *session);
/*
 * vipd has spent `cpu_ns` of processor time on a request of this user, or on the beginning or end
 * of a session of this user. Charge the user, as for turns. own_thread: did the thread that runs
 * the NIC's turns spend the time? A user that has had no session on this NIC is not charged.
 */
void nic_charge(struct nic *nic, uint32_t uid, uint64_t cpu_ns, bool own_thread);
/* Does one user have all sessions of this NIC? */
bool nic_has_one_user(const struct nic *nic);

/* Number of slots that vipd has taken from this session since it was opened: from the submission
 * ring, and from the table of receive descriptors (continuations, too). */
uint64_t nic_session_slots(const struct nic_session *session);

#endif
