/*
 * Double-fetch detector: in test builds (compile definition VIP_FETCH_CHECK) every load of a word
 * that another process can write is noted, and loading one word twice within a transaction aborts:
 * the second value need not be the one that was checked. Other builds have none of it.
 *
 * A transaction is what is decided upon one look at foreign memory: one posted descriptor, one
 * wake-up, one question for room. Transactions may lie within each other; a word that an outer one
 * has loaded may not be loaded again by an inner one. A load outside of any transaction aborts, too.
 *
 * Owns: the record (fetch.c; one per thread). Does not own: how to load (ring.h). Called by
 * vipd/nic/, which reads what applications write.
 */
#ifndef VIP_PROTO_FETCH_H
#define VIP_PROTO_FETCH_H

#ifdef VIP_FETCH_CHECK

#include <stddef.h>

void vip_fetch_begin(void);
void vip_fetch_end(void);
/* Note the load of `bytes` bytes at `word`. */
void vip_fetch_note(const void *word, size_t bytes);

#else

#define vip_fetch_begin()           ((void)0)
#define vip_fetch_end()             ((void)0)
#define vip_fetch_note(word, bytes) ((void)0)

#endif
#endif
