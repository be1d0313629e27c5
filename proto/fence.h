/*
 * The fences of the handshakes between processes (doc/shm-abi.md, 11), each under the name of what it is for.
 *
 * Owns: the instructions. Does not own: where they stand. Each place carries a tag in brackets: the model in
 * tests/model, and the name that the fence has there.
 *
 * Relied on everywhere besides these: a store with release order becomes visible after everything before it, and
 * a load with acquire order is done before everything behind it. Never relied on: that a store is visible before
 * a later load is done, whatever order those two have; x86 with locked instructions, and arm64 in some cases, give
 * that without a fence, C11 and other processors do not.
 */
#ifndef VIP_PROTO_FENCE_H
#define VIP_PROTO_FENCE_H

/*
 * Between publishing and looking: what this thread has stored is visible before it loads what comes next. Both
 * sides of a sleep/wake handshake need it, then one of them sees the other.
 */
static inline void vip_fence_sleep(void)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/*
 * Between two loads of words that two other threads write, of which one looks at the other's word: what the first
 * load has seen is visible to everybody when the second is done. On processors where a store becomes visible to all
 * others at once (x86, arm64, riscv, s390x) the acquire order of the first load is enough, and this is nothing; POWER
 * needs a full fence.
 */
static inline void vip_fence_others(void)
{
#if defined(__powerpc__)
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
#else
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
#endif
}

#endif
