/*
 * Planted bugs, to test the tests. Each name below is one small mistake in the engine, the
 * connection manager, the nic or the registry. Only LINGER is a mistake in the simulator's
 * replacement of the library. The simulator must find every bug (tests/sim/mutants.c); a bug that
 * it does not find shows a gap in the simulator's workload or checks. The simulator of loans finds
 * the bugs whose names begin with LOAN_; these must be the last ones of the list.
 *
 * In ordinary builds VIP_MUTANT(name) is the constant false and adds no code. With the compile
 * definition VIP_MUTANT_ONE=n, bug number n is built in. With VIP_MUTANTS, the variable vip_mutant
 * selects a bug at run time.
 *
 * Owns: the list. A new bug is a new line here and one use of VIP_MUTANT in the code.
 */
#ifndef VIPD_ENGINE_MUTANT_H
#define VIPD_ENGINE_MUTANT_H

#include <stdbool.h>

/* X(name, what is wrong) */
#define VIP_MUTANT_LIST(X)                                                                         \
    X(ACK_RANGE, "an acknowledgement range begins one number too early")                           \
    X(ACK_CUMULATIVE, "the cumulative acknowledgement includes the first missing packet")          \
    X(ACK_BEFORE_PLACEMENT, "an operation counts as done before all of it is placed")              \
    X(ACK_TIMER, "the delayed acknowledgement is not armed")                                       \
    X(ACK_DROPPED, "a packet that could not be held is acknowledged")                              \
    X(LOSS_TIMER, "no retransmission timer after the first expiry")                                \
    X(LOSS_INFLIGHT, "a lost packet stays counted as under way")                                   \
    X(WINDOW, "the window is one packet too large")                                                \
    X(FENCE, "a fenced send does not wait for the reads before it")                                \
    X(NUMBER_REUSED, "a plain acknowledgement uses up no packet number")                           \
    X(HEAP_ORDER, "a timer that takes a stopped one's place may sit above earlier ones")           \
    X(HELD_ORDER, "held packets are kept in the order of arrival")                                 \
    X(HELD_WAKE, "nobody looks whether a held packet is due")                                      \
    X(HELD_LEAK, "held packets of a connection that ended are forgotten")                          \
    X(OLD_OPERATION, "the operation just finished is taken again")                                 \
    X(OVERLAP, "bytes of a fragment that came before are placed once more")                        \
    X(UNRELIABLE_HOLE, "an unreliable message with a hole is delivered")                           \
    X(SEND_EARLY, "a send completes one operation too early")                                      \
    X(READ_EARLY, "a read completes before its bytes are here")                                    \
    X(READ_SLOTS, "one read more is open than the target has slots for")                           \
    X(FLUSH_SHORT, "the flush leaves the last send on the queue")                                  \
    X(FLUSH_RECV, "receives are not flushed when the peer closes")                                 \
    X(WRAP, "numbers are compared as if they never wrapped")                                       \
    X(RECONNECT, "receiving goes on where the last connection ended")                              \
    X(TIMER_LEFT, "the timer of a connection that ended goes on")                                  \
    X(WRITE_RANGE, "only the first fragment of an RDMA Write is checked, not its range")           \
    X(WRITE_DENIED, "an RDMA Write that is not allowed counts as done")                            \
    X(PTAG, "the protection tag is not compared")                                                  \
    X(BOUNDS, "an access may reach one byte behind the region")                                    \
    X(RIGHTS, "the region's right to be written remotely is not looked at")                        \
    X(EPOCH, "a peer is recognised although its life is another")                                  \
    X(CONFIRM_ONCE, "a repeated ACCEPT is not confirmed again")                                    \
    X(CLOSE_ONCE, "CLOSE is not repeated")                                                         \
    X(REQUEST_AGAIN, "an answered REQUEST that comes again counts as a new one")                   \
    X(ANSWERED_LEAK, "answered requests are remembered for ever")                                  \
    X(PEER_LEAK, "a finished request keeps its peer")                                              \
    X(CHECKSUM, "the checksum of a packet is not looked at")                                       \
    X(IMM64_HALF, "the upper half of immediate data goes along although nobody asked for it")      \
    X(MESSAGE_PLACE, "the message of an RDMA Write is looked for at the wrong end of its packet")  \
    X(STAGE_EARLY, "an RDMA Write to staged memory is not waited for")                             \
    X(STAGE_FETCH, "an RDMA Read of staged memory does not ask the library for the bytes")         \
    X(STAGE_ORDER, "one answer of the library counts for all that it was asked")                   \
    X(LISTEN_ROOM, "a listener is given one request more than its back-log")                       \
    X(LISTEN_STUCK, "an answered request still takes a place of the back-log")                     \
    X(MEET_BOTH, "both of two peer-to-peer requests are the one that accepts")                     \
    X(PROBE_NEWEST, "after a silence the newest packet is repeated, not what the peer needs")      \
    X(RTT_NONSENSE, "a round trip is believed that no path can have")                              \
    X(MTU_STUCK, "packets that vanish for their size are sent again as large as they were")        \
    X(DEAD_EARLY, "a silent peer is given up after half of the time")                              \
    X(JUDGE_LATE, "a judge that stood still counts that time, and asks nothing")                   \
    X(GIVE_UP_LATE, "a connection is given up by time in which vipd stood still")                  \
    X(COPY_LEFT_OUT, "no packet is copied before its checksum is made")                            \
    X(REWIND_SHORT, "after a rebind one operation too few is sent again")                          \
    X(POSITION_LOST, "after a rebind the peer's operations are counted from their start again")    \
    X(READ_FORGOTTEN, "after a rebind a read that is asked for again is not answered")             \
    X(REWIND_LONG, "after a rebind one operation too many is sent again")                          \
    X(COMMIT_LATE, "a completion is shown before its operation is committed")                      \
    X(ENTRY_LOST, "one of the CQ entries that a killed vipd owed is not written")                  \
    X(ENTRY_TWICE, "one CQ entry more is written than a killed vipd owed")                         \
    X(DONE_FORGOTTEN, "the next life does not read how many operations were processed")            \
    X(PROOF_AGAIN, "a PROOF that comes again binds the connection anew once more")                 \
    X(OLD_LIFE, "after a rebind the peer counts as in its earlier life")                           \
    X(RESET_BELIEVED, "a RESET of the peer's next life ends a connection that waits for it")       \
    X(LINGER, "VipDisconnect does not wait for what was posted before")                            \
    X(LOAN_NOT_ASKED, "a loan is taken back although its owner is inside")                         \
    X(LOAN_LEFT_EARLY, "an owner is outside before it has stored its checkpoint")                  \
    X(LOAN_TIMER, "the next timer of an owner is not looked at")                                   \
    X(LOAN_OLD_NUMBER, "a connection is bound anew for an old request of the peer")                \
    X(LOAN_TWO_OWNERS, "a loan is taken back and not revoked")                                     \
    X(LOAN_STATE, "vipd goes on with the counts from before the loan")                             \
    X(LOAN_ENTER_ORDER, "an owner reads what is revoked before it publishes that it is inside")    \
    X(LOAN_PATIENCE, "patience with an owner doubles without limit")                               \
    X(LOAN_MOVES, "the moves of a connection are not limited")                                     \
    X(LOAN_STEADY, "a program that lost its loan to data gets the next one at once")               \
    X(LOAN_CROSSING, "each of two ends that move at once waits for the other")                     \
    X(LOAN_LIFE, "the next life of vipd does not take a revoked loan back")                        \
    X(LOAN_LONG_STAY, "a stay of an owner has no limit of packets")                                \
    X(LOAN_IDLE, "an owner that computes loses its loan although no data waits")                   \
    X(LOAN_NO_BELL, "an owner with a new timer does not wake a vipd that sleeps")                  \
    X(LOAN_ASLEEP, "an owner that sleeps has no time to wake when data comes")

enum vip_mutant_number {
    VIP_MUTANT_NONE = 0,
#define X(name, what) VIP_MUTANT_##name,
    VIP_MUTANT_LIST(X)
#undef X
        VIP_MUTANT_COUNT,
};

#if defined(VIP_MUTANTS)
extern unsigned vip_mutant;
#define VIP_MUTANT(name) __builtin_expect(vip_mutant == VIP_MUTANT_##name, 0)
#elif defined(VIP_MUTANT_ONE)
#define VIP_MUTANT(name) (VIP_MUTANT_ONE == VIP_MUTANT_##name)
#else
#define VIP_MUTANT(name) false
#endif

#endif
