/*
 * The fences of the handshakes between processes (doc/shm-abi.md, 11), named by their purpose.
 *
 * Owns: the instructions. Does not own: where they are used. Each use carries a tag in brackets:
 * the model in tests/model, and the name of the fence there.
 *
 * Besides the fences, all code relies on two rules. A release store becomes visible after
 * everything before it; an acquire load is done before everything behind it. No code relies on a
 * store being visible before a later load is done, in any memory order. x86 with locked
 * instructions and, in some cases, arm64 give that order without a fence; C11 and other processors
 * do not.
 */
#ifndef VIP_PROTO_FENCE_H
#define VIP_PROTO_FENCE_H

/*
 * Between publishing and looking: stores before it are visible before later loads are done. If both
 * sides of a sleep/wake handshake use it, at least one side sees the store of the other.
 */
static inline void vip_fence_sleep(void)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/*
 * Between two loads of words that two other threads write, where one of these threads also reads
 * the other's word. The value that the first load saw is visible to all threads before the second
 * load is done. On processors where a store becomes visible to all others at once (x86, arm64,
 * riscv, s390x) the acquire order of the first load is enough; there this emits no instruction.
 * POWER needs a full fence.
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
