/*
 * Threads that give memory back to the kernel, so that no NIC has to wait for that.
 *
 * The last reference to a file of shared memory, mapping or descriptor, frees its pages in the thread that
 * drops it: 0.1 to 0.3 s of processor time per GiB, and many times that on a busy machine. So vipd hands
 * its references over: the mappings of a session that ended, and descriptors that may be the last ones. A
 * descriptor may be anything, and its close may take as long as its user likes (a socket that lingers): so
 * there are as many threads as users have had something waiting at once, and only a user's own things wait for that.
 *
 * Owns: the threads, what waits for it, and how much of that each user has. Does not own: the limits
 * (vipd/client/quota.c). Used by vipd/registry, vipd/nic and vipd/client, from any thread.
 * Every function takes NULL as the undertaker: then the caller's thread frees at once.
 */
#ifndef VIPD_REGISTRY_UNDERTAKER_H
#define VIPD_REGISTRY_UNDERTAKER_H

#include <stdbool.h>
#include <stdint.h>

struct undertaker;

/*
 * A mapping is unmapped in pieces, because another thread that maps memory waits for the end of one. Their
 * size in bytes: the smallest one where there are pages; the middle one where there were none for a while;
 * the largest one where all pages together are no more than the smallest, as in most arenas: it then bounds the
 * tables of pages that were given back. An arena has 256 GiB: 16 pieces take 0.05 ms, 1000 of them 3 ms.
 */
#define UNDERTAKER_PIECE_BYTES        (16ull << 20)
#define UNDERTAKER_EMPTY_PIECE_BYTES  (256ull << 20)
#define UNDERTAKER_SPARSE_PIECE_BYTES (16ull << 30)

/*
 * With so many descriptors of one owner waiting vipd takes no more from his programs (undertaker_full), so that a
 * user cannot use up the descriptors of vipd. Those that it has already are taken here all the same: never
 * does a caller close them because many wait.
 */
#define UNDERTAKER_FDS_MAX 256u

/* What counts for an owner as long as it waits. */
struct undertaker_share {
    uint64_t bytes;    /* of memory files mapped for regions */
    uint32_t files;    /* such mappings */
    uint32_t sessions; /* arenas of sessions that ended */
};

/*
 * Threads: any. No thread is made before there is something to do, so it has the privileges that vipd has
 * while it serves. Outcomes: NULL: out of memory.
 */
struct undertaker *undertaker_new(void);

/*
 * Wait until everything is freed, end the threads, free all; for the end of the process. No other thread may use it any
 * more. A descriptor whose close takes longer than UNDERTAKER_END_S seconds is left to the kernel, with its thread.
 */
#define UNDERTAKER_END_S 10
void undertaker_free(struct undertaker *undertaker);

/*
 * Unmap [base, base + bytes) soon; nothing of vipd may use it any more. base NULL is harmless. owner: the
 * uid for which `share` (NULL: nothing) counts until then. If no thread or memory can be had, it is unmapped
 * before this returns.
 */
void undertaker_unmap(struct undertaker *undertaker, uint32_t owner, void *base, uint64_t bytes,
                      const struct undertaker_share *share);

/* The same for a mapping whose pages are known: it has at most `pages_bytes` of them, and will get no more. */
void undertaker_unmap_sparse(struct undertaker *undertaker, uint32_t owner, void *base,
                             uint64_t bytes, uint64_t pages_bytes,
                             const struct undertaker_share *share);

/* Close fd soon; -1 is harmless. Where it is a socket, its queue may hold descriptors, too. At once if no
 * thread or memory can be had. */
void undertaker_close(struct undertaker *undertaker, uint32_t owner, int fd);

/* Do UNDERTAKER_FDS_MAX descriptors of this owner wait, or more? */
bool undertaker_full(struct undertaker *undertaker, uint32_t owner);

/* What waits for this owner; all of it if the undertaker is NULL: nothing. */
void undertaker_waiting(struct undertaker *undertaker, uint32_t owner,
                        struct undertaker_share *ret);

#endif
