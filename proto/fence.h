/*
 * The fences of the handshakes between processes (doc/shm-abi.md, 11), named by their purpose.
 *
 * Owns: the instructions. Does not own: their uses. Each use has a comment with a tag in brackets:
 * the name of a model in tests/model, and the name of the fence in this model.
 *
 * Besides the fences, all code relies on two rules. A release store becomes visible after all loads
 * and stores before it. An acquire load is done before all loads and stores after it. Without a
 * fence, a load may be done before an earlier store is visible, and all code allows for that. (Some
 * processors prevent it in some cases, but C11 does not promise this.)
 */
#ifndef VIP_PROTO_FENCE_H
#define VIP_PROTO_FENCE_H

/*
 * Stores before this fence are visible before loads after it are done. In a sleep/wake handshake
 * each side stores a word, uses this fence and then loads the other side's word. So at least one
 * side sees the store of the other.
 */
static inline void vip_fence_sleep(void)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/*
 * For a thread that loads two words. Two other threads write these words, and one of these two also
 * reads the word of the other. All threads see the value of the first load before the second load
 * is done. On most processors (x86, arm64, riscv, s390x) a store becomes visible to all other
 * threads at the same time. On them, acquire order of the first load is enough, and this function
 * emits no instruction. POWER needs a full fence.
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
