/*
 * Threads that give memory back to the kernel, so that no NIC waits while the kernel frees pages.
 *
 * A reference to a file of shared memory is a mapping or a descriptor. The kernel frees the pages
 * in the thread that drops the last reference. This takes 0.1 to 0.3 s of processor time per GiB,
 * and much longer on a busy machine. So vipd gives mappings of ended sessions, and descriptors that
 * may be last references, to the undertaker. They are its items. The close of a program's
 * descriptor can last as long as the program likes (a socket that lingers). So each user with
 * waiting items has a separate thread, and a slow item delays no other user.
 *
 * Owns: the threads, the waiting items, and the sums of each user's items. Does not own: the limits
 * (vipd/quota.c). Used by vipd/registry, vipd/nic and vipd/client, from any thread. If the argument
 * `undertaker` of a function is NULL, the caller's thread frees at once.
 */
#ifndef VIPD_REGISTRY_UNDERTAKER_H
#define VIPD_REGISTRY_UNDERTAKER_H

#include <stdbool.h>
#include <stdint.h>

struct undertaker;

/*
 * The undertaker unmaps a mapping in pieces, because another thread that maps memory waits until a
 * piece is unmapped. Sizes of pieces in bytes: PIECE is for parts with pages. While pieces have no
 * pages, the size doubles up to EMPTY_PIECE. SPARSE_PIECE is for a mapping whose pages together are
 * at most PIECE, as in most arenas; it bounds the page tables that one munmap frees. An arena has
 * 256 GiB: 16 pieces take 0.05 ms, 1000 pieces take 3 ms.
 */
#define UNDERTAKER_PIECE_BYTES        (16ull << 20)
#define UNDERTAKER_EMPTY_PIECE_BYTES  (256ull << 20)
#define UNDERTAKER_SPARSE_PIECE_BYTES (16ull << 30)

/*
 * While this number of descriptors of one owner waits to be closed, vipd accepts no more
 * descriptors from the owner's programs (undertaker_full). So a user cannot use up the descriptors
 * of vipd. The undertaker still takes descriptors that vipd already has.
 */
#define UNDERTAKER_FDS_MAX 256u

/* What a waiting item adds to its owner's sums, to which the owner's limits apply. */
struct undertaker_share {
    uint64_t bytes;    /* bytes of memory files mapped for regions */
    uint32_t files;    /* number of mappings of such files */
    uint32_t sessions; /* number of arenas of ended sessions */
};

/*
 * The undertaker makes its threads later, when there is something to free, so no thread has the
 * privileges that vipd has at its start. Outcomes: NULL: out of memory. Any thread.
 */
struct undertaker *undertaker_new(void);

/*
 * Called at the end of the process. Wait until all items are freed, end the threads, and free the
 * undertaker. No other thread may use the undertaker any more. If this takes longer than
 * UNDERTAKER_END_S seconds (because of a slow close), threads and items end with the process.
 */
#define UNDERTAKER_END_S 10
void undertaker_free(struct undertaker *undertaker);

/*
 * Unmap [base, base + bytes) soon; vipd must not use this memory any more. base NULL is harmless.
 * owner: the uid for which `share` (NULL: nothing) counts until the memory is unmapped. If there is
 * no thread, or no memory for an item, this function itself unmaps.
 */
void undertaker_unmap(struct undertaker *undertaker, uint32_t owner, void *base, uint64_t bytes,
                      const struct undertaker_share *share);

/* As undertaker_unmap, for a mapping that has at most `pages_bytes` of pages, and never more. */
void undertaker_unmap_sparse(struct undertaker *undertaker, uint32_t owner, void *base,
                             uint64_t bytes, uint64_t pages_bytes,
                             const struct undertaker_share *share);

/* Close fd soon; -1 is harmless. fd may be a socket with descriptors in its queue. If there is no
 * thread, or no memory for an item, this function itself closes fd. */
void undertaker_close(struct undertaker *undertaker, uint32_t owner, int fd);

/*
 * Shut down and close a connected socket of AF_UNIX, SOCK_SEQPACKET, that only this process has.
 * The other side sees the end of the connection at once. If no message waits in the socket, closing
 * is quick (since Linux 6.9), so this function closes the socket. Otherwise the undertaker closes
 * it, because messages may have the last descriptors of files. Outcomes: true: the undertaker will
 * close the socket; false: the socket is closed.
 */
bool undertaker_hang_up(struct undertaker *undertaker, uint32_t owner, int sock);

/* Do at least UNDERTAKER_FDS_MAX descriptors of this owner wait to be closed? */
bool undertaker_full(struct undertaker *undertaker, uint32_t owner);

/* Sums over the waiting items of this owner; 0 if undertaker is NULL. */
void undertaker_waiting(struct undertaker *undertaker, uint32_t owner,
                        struct undertaker_share *ret);

#endif
