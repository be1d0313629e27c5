/*
 * Private anonymous memory that must stay where it is and is therefore staged.
 *
 * A move makes other threads wait when they access the page. The following kinds of memory must not
 * move, and each may share a page with a buffer that an old program registers:
 *
 * - The stack of the calling thread: the thread that moves the page would wait for itself. After a
 *   later fork, parent and child would use the same stack page.
 * - The page of errno, for the same reason: the system calls of the window write errno.
 * - A thread's control block: pthread_join waits on a word in this block with a futex. The futex
 *   changes its identity when the page moves, so the wake-up at the thread's end would be lost. The
 *   kernel also writes the block's restartable-sequence area at any time. Without privilege, such a
 *   write during a move ends in SIGSEGV.
 * - The head of a malloc arena: fork resets its lock in the child before the child has its own copy
 *   of the page, and so would change the parent's lock.
 * - The main stack, which grows.
 */
#include "libvipl/mem_internal.h"

#include <errno.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Bytes of stack that the window of a move may use below and above the caller's frame. */
#define STACK_BELOW_BYTES (64ul << 10)
#define STACK_ABOVE_BYTES (16ul << 10)

/* glibc puts the heads of its malloc arenas for threads at multiples of this size. */
#define MALLOC_HEAP_BYTES (64ul << 20)

/*
 * Bytes of a thread's control block that must stay: up to pthread_join's word (offset 720 in
 * glibc). The block's end may share a page with a buffer, so the whole block would be too much.
 */
#define THREAD_BLOCK_BYTES 1024ul

/* Bytes of the restartable-sequence area (up to Linux 6.2); __rseq_offset gives its place. */
#define RSEQ_BYTES 32ul

/* glibc's offset from a control block to its restartable-sequence area, as in every thread. */
extern const ptrdiff_t __rseq_offset __attribute__((weak));

static bool overlap(uintptr_t a, uintptr_t a_end, uintptr_t b, uintptr_t b_end)
{
    return a < b_end && b < a_end;
}

static bool on_own_stack(uintptr_t start, uintptr_t end)
{
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    pthread_attr_t attr;
    void *stack = NULL;
    size_t bytes = 0;

    if (overlap(start, end, mem_page_down((uintptr_t)&errno), (uintptr_t)(&errno + 1)))
        return true;
    /*
     * Skip the main thread: vipl__mem_pinned finds that thread's stack by its mapping, and
     * pthread_getattr_np would read all of /proc/self/maps.
     */
    if (getpid() != (pid_t)syscall(SYS_gettid) && pthread_getattr_np(pthread_self(), &attr) == 0) {
        if (pthread_attr_getstack(&attr, &stack, &bytes) != 0)
            bytes = 0;
        pthread_attr_destroy(&attr);
    }
    if (overlap(start, end, (uintptr_t)stack, (uintptr_t)stack + bytes))
        return true;
    /* The thread may run on another stack than its own, as coroutines do: check the memory around
     * this frame. */
    return here - (uintptr_t)stack >= bytes &&
           overlap(start, end, here - STACK_BELOW_BYTES, here + STACK_ABOVE_BYTES);
}

/* Load a word that other threads may write; a macro, so that sanitizers do not instrument it. */
#define LOAD(addr) (*(const volatile uintptr_t *)(addr))

#if defined(__x86_64__)
/*
 * Look for thread control blocks near the pages. On x86-64 the first word of a block points to the
 * block (ABI), and in glibc and musl the third word, too. After a false match the region is staged,
 * which is only slower.
 */
MEM_RAW static bool near_thread_block(const struct mem_piece *piece, uintptr_t start, uintptr_t end)
{
    ptrdiff_t rseq = &__rseq_offset != NULL ? __rseq_offset : 0;
    uintptr_t below = MEM_PAGE_BYTES;
    uintptr_t above = rseq < 0 ? mem_page_up((uintptr_t)-rseq) : 0;
    uintptr_t from = start - piece->start > below ? start - below : piece->start;
    uintptr_t to = piece->end - end > above ? end + above : piece->end;

    for (uintptr_t p = from; p < to; p += 64)
        if (LOAD(p) == p && LOAD(p + 16) == p &&
            (overlap(start, end, p, p + THREAD_BLOCK_BYTES) ||
             (rseq != 0 &&
              overlap(start, end, p + (uintptr_t)rseq, p + (uintptr_t)rseq + RSEQ_BYTES))))
            return true;
    return false;
}
#else
/*
 * On other processors a thread control block has no pointer to itself. The block lies in a mapping
 * that follows a guard page.
 */
static bool near_thread_block(const struct mem_piece *piece, uintptr_t start, uintptr_t end)
{
    struct mem_piece guard;
    struct mem_state *st = vipl__mem_state();

    return st != NULL && piece->start >= MEM_PAGE_BYTES &&
           vipl__mem_query(st, piece->start - 1, &guard) == 0 && guard.end == piece->start &&
           guard.prot == 0;
}
#endif

/* Does the range contain a malloc heap's head? The head's first word points into its own page. */
MEM_RAW static bool has_malloc_head(uintptr_t start, uintptr_t end)
{
    uintptr_t at = (start + MALLOC_HEAP_BYTES - 1) & ~(MALLOC_HEAP_BYTES - 1);

    for (; at < end; at += MALLOC_HEAP_BYTES)
        if (LOAD(at) - at < MEM_PAGE_BYTES)
            return true;
    return false;
}

bool vipl__mem_pinned(const struct mem_piece *piece, uintptr_t start, uintptr_t end)
{
    uintptr_t main_stack = getauxval(AT_RANDOM);

    if (main_stack >= piece->start && main_stack < piece->end)
        return true;
    return on_own_stack(start, end) || has_malloc_head(start, end) ||
           near_thread_block(piece, start, end);
}
