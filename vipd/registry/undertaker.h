/*
 * Threads that give memory back to the kernel, so that no NIC has to wait for that.
 *
 * The last reference to a file of shared memory, mapping or descriptor, frees its pages in the
 * thread that drops it: 0.1 to 0.3 s of processor time per GiB, and many times that on a busy
 * machine. So vipd hands its references over: mappings of ended sessions, and descriptors that may
 * be the last ones. A descriptor may be of any kind, and its close may last as long as its user
 * likes (a socket that lingers). So each user with waiting items has a thread, and delays no other
 * user.
 *
 * Owns: the threads, the items that wait for them, and each user's part of these. Does not own: the
 * limits (vipd/quota.c). Used by vipd/registry, vipd/nic and vipd/client, from any thread. Every
 * function takes NULL as the undertaker: then the caller's thread frees at once.
 */
#ifndef VIPD_REGISTRY_UNDERTAKER_H
#define VIPD_REGISTRY_UNDERTAKER_H

#include <stdbool.h>
#include <stdint.h>

struct undertaker;

/*
 * A mapping is unmapped in pieces, because another thread that maps memory waits until a piece is
 * unmapped. Sizes of a piece in bytes. The smallest is for parts with pages, the middle one for
 * parts where the last pieces had no pages. The largest is for a mapping whose pages together are
 * no more than the smallest piece, as in most arenas; it bounds the page tables that one call
 * frees. An arena has 256 GiB: 16 pieces take 0.05 ms, 1000 take 3 ms.
 */
#define UNDERTAKER_PIECE_BYTES        (16ull << 20)
#define UNDERTAKER_EMPTY_PIECE_BYTES  (256ull << 20)
#define UNDERTAKER_SPARSE_PIECE_BYTES (16ull << 30)

/*
 * If this number of descriptors of one owner waits, vipd accepts no more from the owner's programs
 * (undertaker_full), so that a user cannot use up the descriptors of vipd. The undertaker still
 * takes descriptors that vipd has already: the caller never has to close these itself because many
 * wait.
 */
#define UNDERTAKER_FDS_MAX 256u

/* What an item counts for its owner while it waits. */
struct undertaker_share {
    uint64_t bytes;    /* of memory files mapped for regions */
    uint32_t files;    /* mappings of such files */
    uint32_t sessions; /* arenas of sessions that ended */
};

/*
 * From any thread. The undertaker makes its threads when there is something to do, so they have
 * only the privileges that vipd has while it serves. Outcomes: NULL: out of memory.
 */
struct undertaker *undertaker_new(void);

/*
 * Wait until everything is freed, end the threads, free all; for the end of the process. No other
 * thread may use it any more. If a close takes longer than UNDERTAKER_END_S seconds, the descriptor
 * and its thread are left to the kernel.
 */
#define UNDERTAKER_END_S 10
void undertaker_free(struct undertaker *undertaker);

/*
 * Unmap [base, base + bytes) soon; vipd must not use it any more. base NULL is harmless. owner: the
 * uid for which `share` (NULL: nothing) counts until then. Without a thread or memory it is
 * unmapped before this returns.
 */
void undertaker_unmap(struct undertaker *undertaker, uint32_t owner, void *base, uint64_t bytes,
                      const struct undertaker_share *share);

/* The same for a mapping that has at most `pages_bytes` of pages and gets no more pages. */
void undertaker_unmap_sparse(struct undertaker *undertaker, uint32_t owner, void *base,
                             uint64_t bytes, uint64_t pages_bytes,
                             const struct undertaker_share *share);

/* Close fd soon; -1 is harmless. If it is a socket, its queue may hold descriptors, too. Without a
 * thread or memory it is closed before this returns. */
void undertaker_close(struct undertaker *undertaker, uint32_t owner, int fd);

/*
 * Shut down a connected socket of AF_UNIX, SOCK_SEQPACKET, that only this process has, and close
 * it. The other side sees the end now. If no message waits in the socket, its close is quick (since
 * Linux 6.9), and the caller's thread closes it. Otherwise the undertaker closes the socket, because
 * messages may hold the last descriptors of files. Outcomes: true: the descriptor is open until the
 * undertaker closes it; false: it is closed.
 */
bool undertaker_hang_up(struct undertaker *undertaker, uint32_t owner, int sock);

/* Do UNDERTAKER_FDS_MAX descriptors of this owner wait, or more? */
bool undertaker_full(struct undertaker *undertaker, uint32_t owner);

/* Sums over the items of this owner that wait; 0 if undertaker is NULL. */
void undertaker_waiting(struct undertaker *undertaker, uint32_t owner,
                        struct undertaker_share *ret);

#endif
