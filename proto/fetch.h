/*
 * Double-fetch detector, only in test builds (compile definition VIP_FETCH_CHECK). It records every
 * load of a word that another process can write, and aborts if one transaction loads a word twice:
 * the second value may differ from the checked one.
 *
 * A transaction is one decision that depends on such words: one posted descriptor, one wake-up, one
 * check for room. Transactions can be nested; an inner one must not load a word that an outer one
 * has loaded. A load outside of any transaction aborts, too.
 *
 * Owns: the record (fetch.c; one per thread). Does not own: the loads (ring.h). Called by
 * vipd/nic/, which reads words that applications write.
 */
#ifndef VIP_PROTO_FETCH_H
#define VIP_PROTO_FETCH_H

#ifdef VIP_FETCH_CHECK

#include <stddef.h>

void vip_fetch_begin(void);
void vip_fetch_end(void);
/* Record the load of `bytes` bytes at `word`. */
void vip_fetch_note(const void *word, size_t bytes);

#else

#define vip_fetch_begin()           ((void)0)
#define vip_fetch_end()             ((void)0)
#define vip_fetch_note(word, bytes) ((void)0)

#endif
#endif
