/*
 * SIGBUS in shared memory (vipd/registry/guard.h).
 *
 * A stand-in for a missing page is a page of a memfd that was filled at the start of vipd. So
 * mapping a stand-in needs no new memory, which may be short. There are STAND_INS such pages, used
 * one after another and cleared before each use. Two sessions with faults may share a stand-in for
 * the rest of a turn. vipd does not use bytes read from a stand-in (guard_copy_faults), and both
 * sessions end.
 */
#include "vipd/registry/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Number of stand-in pages: together 256 KiB with pages of 4 KiB. */
#define STAND_INS 64u

/* One mapping. Writers hold the lock and write `base` last; the handler reads without the lock. */
struct entry {
    uintptr_t base; /* 0 = free */
    uint64_t bytes;
    struct guard *owner;
    uint32_t next_free;
};

static struct entry table[GUARD_MAPPINGS_MAX]; /* mapping number n is table[n - 1] */
/* high: largest number so far; free_first: first free number, or 0 */
static uint32_t high, free_first;
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;

static pthread_once_t stand_ins_once = PTHREAD_ONCE_INIT;
static int stand_ins_rc;
static uint8_t *stand_in;
static uint32_t stand_in_next;
static size_t page_bytes;

uint32_t guard_fault_count;
_Thread_local volatile uint32_t guard_thread_faults;

/* ---- the handler: only atomics, memset and mremap ------------------------------------------ */

/* The owner of the mapping that contains addr; NULL: the table has no such mapping. */
static struct guard *owner_of(uintptr_t addr)
{
    uint32_t count = __atomic_load_n(&high, __ATOMIC_ACQUIRE);

    for (uint32_t i = 0; i < count; i++) {
        const struct entry *entry = &table[i];
        uintptr_t base = __atomic_load_n(&entry->base, __ATOMIC_ACQUIRE);
        uint64_t bytes = __atomic_load_n(&entry->bytes, __ATOMIC_ACQUIRE);
        struct guard *owner = __atomic_load_n(&entry->owner, __ATOMIC_ACQUIRE);

        /* `base` is unchanged, so base, bytes and owner belong to one mapping. */
        if (base != 0 && addr >= base && addr - base < bytes &&
            __atomic_load_n(&entry->base, __ATOMIC_ACQUIRE) == base)
            return owner;
    }
    return NULL;
}

/* Map a stand-in at addr. mremap with old size 0 maps a page of a shared mapping once more. */
static bool put_stand_in(uintptr_t addr)
{
    uint32_t n = __atomic_fetch_add(&stand_in_next, 1, __ATOMIC_RELAXED) % STAND_INS;
    void *page = (void *)(addr & ~((uintptr_t)page_bytes - 1));

    memset(stand_in + n * page_bytes, 0, page_bytes);
    return mremap(stand_in + n * page_bytes, 0, page_bytes, MREMAP_MAYMOVE | MREMAP_FIXED, page) !=
           MAP_FAILED;
}

static void on_sigbus(int sig, siginfo_t *info, void *context)
{
    struct sigaction standard = {.sa_handler = SIG_DFL};
    uintptr_t addr = (uintptr_t)info->si_addr;
    struct guard *owner = info->si_code > 0 ? owner_of(addr) : NULL;
    int error = errno;

    (void)context;
    if (owner != NULL && put_stand_in(addr)) {
        __atomic_fetch_add(&owner->faults, 1, __ATOMIC_RELAXED);
        __atomic_fetch_add(&guard_fault_count, 1, __ATOMIC_RELAXED);
        guard_thread_faults = guard_thread_faults + 1;
        errno = error;
        return;
    }
    /* No stand-in is mapped. Without the handler, the instruction faults again and ends vipd. */
    sigaction(sig, &standard, NULL);
    if (info->si_code <= 0)
        raise(sig);
}

/* ---- installation and the table ------------------------------------------------------------ */

static int make_stand_ins(void)
{
    int fd = memfd_create("vipd-stand-in", MFD_CLOEXEC);
    void *map = MAP_FAILED;
    int rc;

    if (fd < 0)
        return -errno;
    page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    /* Make all pages of the file now, so that none can be missing later. */
    rc = -posix_fallocate(fd, 0, (off_t)(STAND_INS * page_bytes));
    if (rc == 0)
        map = mmap(NULL, STAND_INS * page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (rc == 0 && map == MAP_FAILED)
        rc = -errno;
    close(fd);
    stand_in = map;
    return rc;
}

static void make_once(void)
{
    stand_ins_rc = make_stand_ins();
}

int guard_install(void)
{
    struct sigaction action = {.sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO};

    pthread_once(&stand_ins_once, make_once);
    if (stand_ins_rc < 0)
        return stand_ins_rc;
    return sigaction(SIGBUS, &action, NULL) < 0 ? -errno : 0;
}

uint32_t guard_add(struct guard *owner, const void *base, uint64_t bytes)
{
    struct entry *entry;
    uint32_t number;

    if (owner == NULL || bytes == 0)
        return 0;
    pthread_mutex_lock(&table_lock);
    number = free_first;
    if (number != 0)
        free_first = table[number - 1].next_free;
    else if (high < GUARD_MAPPINGS_MAX)
        number = high + 1;
    if (number != 0) {
        entry = &table[number - 1];
        __atomic_store_n(&entry->bytes, bytes, __ATOMIC_RELEASE);
        __atomic_store_n(&entry->owner, owner, __ATOMIC_RELEASE);
        __atomic_store_n(&entry->base, (uintptr_t)base, __ATOMIC_RELEASE);
        if (number > high)
            __atomic_store_n(&high, number, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&table_lock);
    return number;
}

void guard_remove(uint32_t number)
{
    if (number == 0)
        return;
    pthread_mutex_lock(&table_lock);
    __atomic_store_n(&table[number - 1].base, 0, __ATOMIC_RELEASE);
    table[number - 1].next_free = free_first;
    free_first = number;
    pthread_mutex_unlock(&table_lock);
}
