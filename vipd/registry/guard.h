/*
 * SIGBUS in memory that vipd shares with programs.
 *
 * A page inside the size of a memfd can still be missing: with strict overcommit
 * (vm.overcommit_memory = 2) the kernel may refuse the page, and a broken memory module may have
 * lost it. The kernel then raises SIGBUS in the thread of vipd that touches the page. The handler
 * here finds the mapping in a table without locks, maps a stand-in page in place of the missing
 * page, and counts the fault for the owner of the mapping. vipd then ends the session of this
 * owner. If the table has no such mapping, SIGBUS ends vipd.
 *
 * Owns: the handler, the table, the stand-in pages. Does not own: mappings, what a fault means.
 * Used by mapping.c, vipd/client/open.c and vipd/nic/ on any thread; the handler runs on the thread
 * that faulted.
 */
#ifndef VIPD_REGISTRY_GUARD_H
#define VIPD_REGISTRY_GUARD_H

#include <stdbool.h>
#include <stdint.h>

/* Mappings in the table at a time. By default a process has at most 65530 (vm.max_map_count). */
#define GUARD_MAPPINGS_MAX 65536u

/* An owner of mappings: a session, which ends when a page is missing. Before the owner is freed,
 * remove its mappings from the table. */
struct guard {
    uint32_t faults;
};

/*
 * Install the handler; the first call makes the stand-in pages. A second call is harmless.
 * Outcomes: 0; negative errno: SIGBUS still ends vipd.
 */
int guard_install(void);

/*
 * From now on, a mapping of `bytes` bytes at base belongs to owner. Outcomes: > 0: the mapping's
 * number for guard_remove; 0: the table is full, owner is NULL or bytes is 0, and a fault in the
 * mapping ends vipd.
 */
uint32_t guard_add(struct guard *owner, const void *base, uint64_t bytes);
/* Remove a mapping from the table. Call this before the mapping is unmapped or its owner ends.
 * number 0 is harmless. */
void guard_remove(uint32_t number);

/* Number of faults of this thread, counted by the handler; for guard_copy_faults. */
extern _Thread_local volatile uint32_t guard_thread_faults;

/*
 * Number of faults of this thread. If the number is the same before and after a copy by this
 * thread, no byte of the copy comes from a stand-in. The fences keep the compiler from moving parts
 * of the copy across this call.
 */
static inline uint32_t guard_copy_faults(void)
{
    uint32_t count;

    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    count = guard_thread_faults;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    return count;
}

/* Number of faults of all mappings in all threads. guard_faulted tells which owner had a fault. */
extern uint32_t guard_fault_count;

static inline uint32_t guard_faults(void)
{
    return __atomic_load_n(&guard_fault_count, __ATOMIC_RELAXED);
}

/* Has a page of this owner been missing? */
static inline bool guard_faulted(const struct guard *owner)
{
    return __atomic_load_n(&owner->faults, __ATOMIC_RELAXED) != 0;
}

#endif
