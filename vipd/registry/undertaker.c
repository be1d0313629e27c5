/* Threads that give memory back to the kernel; see undertaker.h. */
#include "vipd/registry/undertaker.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "proto/assert.h"

/* The waiting items of one owner; freed with the last item. Each owner has its own thread, because
 * an item may take for ever: then only items of the same owner wait. */
struct owner {
    struct owner *next;
    uint32_t id;
    uint32_t items, fds;
    bool served; /* a thread serves this owner */
    struct item *first, **last;
    struct undertaker_share share;
};

/* A mapping to unmap, or a file descriptor to close. */
struct item {
    struct item *next;
    struct owner *owner;
    char *base; /* NULL: the item is a descriptor */
    uint64_t bytes;
    bool sparse; /* the mapping's pages take at most UNDERTAKER_PIECE_BYTES */
    int fd;
    struct undertaker_share share; /* what this item adds to the owner's share */
};

struct thread {
    struct thread *next;
    pthread_t id;
};

struct undertaker {
    pthread_mutex_t lock; /* protects the members below; threads hold it for a short time */
    pthread_cond_t wake;  /* an owner waits for a thread, or `end` was set */
    struct thread *threads;
    unsigned idle, unserved; /* idle: threads without an owner; unserved: owners without a thread */
    bool end;
    struct owner *owners;
};

struct undertaker *undertaker_new(void)
{
    struct undertaker *undertaker = calloc(1, sizeof(*undertaker));

    if (!undertaker)
        return NULL;
    VIP_ASSERT(pthread_mutex_init(&undertaker->lock, NULL) == 0);
    VIP_ASSERT(pthread_cond_init(&undertaker->wake, NULL) == 0);
    return undertaker;
}

/* ---- the threads ------------------------------------------------------------------------- */

/* Processor time in ns. If munmap takes more, it has freed pages: 16 MiB of pages take 10 times as
 * long. */
#define FULL_NS 50000u

static uint64_t thread_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

/* Unmap the mapping in pieces, from its start, so that the rest is always one mapping. */
static void unmap(char *base, uint64_t bytes, bool sparse)
{
    uint64_t piece = UNDERTAKER_PIECE_BYTES, before_ns, now_ns;

    while (sparse && bytes > UNDERTAKER_SPARSE_PIECE_BYTES &&
           munmap(base, UNDERTAKER_SPARSE_PIECE_BYTES) == 0) {
        base += UNDERTAKER_SPARSE_PIECE_BYTES;
        bytes -= UNDERTAKER_SPARSE_PIECE_BYTES;
    }
    if (sparse) {
        (void)munmap(base, bytes);
        return;
    }
    before_ns = thread_ns();

    while (bytes > piece && munmap(base, piece) == 0) {
        base += piece;
        bytes -= piece;
        now_ns = thread_ns();
        if (now_ns - before_ns > FULL_NS)
            piece = UNDERTAKER_PIECE_BYTES;
        else if (piece < UNDERTAKER_EMPTY_PIECE_BYTES)
            piece *= 2;
        before_ns = now_ns;
    }
    (void)munmap(base, bytes);
}

#ifdef __SANITIZE_THREAD__
/*
 * libev removes a socket from its epoll set only when the set reports the socket again. So
 * epoll_ctl may get a descriptor that was just closed here, or a new descriptor with its number.
 * libev handles both cases, so this race is harmless.
 */
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
    return "race:^last_close$\n";
}
#endif

static __attribute__((noinline)) void last_close(int fd)
{
    close(fd);
}

static void item_do(const struct item *item)
{
    if (item->base)
        unmap(item->base, item->bytes, item->sparse);
    else
        last_close(item->fd);
}

/* `item` is done. Returns whether it was the owner's last item. The caller holds the lock. */
static bool owner_drop(struct undertaker *undertaker, const struct item *item)
{
    struct owner *owner = item->owner, **at = &undertaker->owners;

    VIP_ASSERT(owner->items > 0);
    owner->share.bytes -= item->share.bytes;
    owner->share.files -= item->share.files;
    owner->share.sessions -= item->share.sessions;
    owner->fds -= !item->base;
    if (--owner->items > 0)
        return false;
    while (*at != owner)
        at = &(*at)->next;
    *at = owner->next;
    free(owner);
    return true;
}

/* Do all items of an owner. The caller holds the lock. This function releases the lock while it
 * works on an item. */
static void owner_serve(struct undertaker *undertaker, struct owner *owner)
{
    bool last = false;

    owner->served = true;
    undertaker->unserved--;
    while (!last) {
        struct item *item = owner->first;

        owner->first = item->next;
        if (!owner->first)
            owner->last = &owner->first;
        pthread_mutex_unlock(&undertaker->lock);
        item_do(item);
        pthread_mutex_lock(&undertaker->lock);
        last = owner_drop(undertaker, item);
        free(item);
    }
}

static void *undertaker_main(void *arg)
{
    struct undertaker *undertaker = arg;

    pthread_mutex_lock(&undertaker->lock);
    for (;;) {
        struct owner *owner = undertaker->owners;

        while (owner && owner->served)
            owner = owner->next;
        if (owner) {
            owner_serve(undertaker, owner);
            continue;
        }
        if (undertaker->end)
            break;
        undertaker->idle++;
        pthread_cond_wait(&undertaker->wake, &undertaker->lock);
        undertaker->idle--;
    }
    pthread_mutex_unlock(&undertaker->lock);
    return NULL;
}

/* Start a thread that blocks all signals: the control loop gets them. The caller holds the lock. */
static bool thread_new(struct undertaker *undertaker)
{
    struct thread *thread = malloc(sizeof(*thread));
    sigset_t all, before;
    bool made;

    if (!thread)
        return false;
    sigfillset(&all);
    VIP_ASSERT(pthread_sigmask(SIG_BLOCK, &all, &before) == 0);
    made = pthread_create(&thread->id, NULL, undertaker_main, undertaker) == 0;
    VIP_ASSERT(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
    if (!made) {
        free(thread);
        return false;
    }
    (void)pthread_setname_np(thread->id, "vipd-undertaker");
    thread->next = undertaker->threads;
    undertaker->threads = thread;
    return true;
}

void undertaker_free(struct undertaker *undertaker)
{
    struct thread *thread;
    struct timespec until;

    if (!undertaker)
        return;
    pthread_mutex_lock(&undertaker->lock);
    undertaker->end = true;
    pthread_cond_broadcast(&undertaker->wake);
    pthread_mutex_unlock(&undertaker->lock);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += UNDERTAKER_END_S;
    while ((thread = undertaker->threads)) {
        if (pthread_timedjoin_np(thread->id, NULL, &until) != 0)
            break;
        undertaker->threads = thread->next;
        free(thread);
    }
    if (thread) { /* a thread that is still busy ends with the process */
        for (; thread; thread = thread->next)
            (void)pthread_detach(thread->id);
        return;
    }
    VIP_ASSERT(!undertaker->owners);
    pthread_cond_destroy(&undertaker->wake);
    pthread_mutex_destroy(&undertaker->lock);
    free(undertaker);
}

/* ---- handing over ------------------------------------------------------------------------ */

static struct owner *owner_find(const struct undertaker *undertaker, uint32_t id)
{
    struct owner *owner = undertaker->owners;

    while (owner && owner->id != id)
        owner = owner->next;
    return owner;
}

static struct owner *owner_get(struct undertaker *undertaker, uint32_t id)
{
    struct owner *owner = owner_find(undertaker, id);

    if (owner)
        return owner;
    owner = calloc(1, sizeof(*owner));
    if (!owner)
        return NULL;
    owner->id = id;
    owner->last = &owner->first;
    owner->next = undertaker->owners;
    /* If no idle thread is free for this owner, start one more. If no thread exists, fail. */
    if (undertaker->unserved >= undertaker->idle && !thread_new(undertaker) &&
        !undertaker->threads) {
        free(owner);
        return NULL;
    }
    undertaker->owners = owner;
    undertaker->unserved++;
    pthread_cond_signal(&undertaker->wake);
    return owner;
}

/* Append `item` to its owner's items. false: no memory or thread. The caller holds the lock. */
static bool enqueue(struct undertaker *undertaker, uint32_t id, struct item *item)
{
    struct owner *owner = owner_get(undertaker, id);

    if (!owner)
        return false;
    owner->items++;
    owner->fds += !item->base;
    owner->share.bytes += item->share.bytes;
    owner->share.files += item->share.files;
    owner->share.sessions += item->share.sessions;
    item->owner = owner;
    *owner->last = item;
    owner->last = &item->next;
    return true;
}

/* Give an item to the undertaker. false: the undertaker cannot take it, so this thread has unmapped
 * or closed it. */
static bool hand_over(struct undertaker *undertaker, uint32_t owner, const struct item *what)
{
    struct item *item = undertaker ? malloc(sizeof(*item)) : NULL;
    bool taken = false;

    if (item) {
        *item = *what;
        pthread_mutex_lock(&undertaker->lock);
        taken = enqueue(undertaker, owner, item);
        pthread_mutex_unlock(&undertaker->lock);
    }
    if (!taken) {
        free(item);
        item_do(what);
    }
    return taken;
}

void undertaker_unmap_sparse(struct undertaker *undertaker, uint32_t owner, void *base,
                             uint64_t bytes, uint64_t pages_bytes,
                             const struct undertaker_share *share)
{
    struct item item = {.base = base, .bytes = bytes, .fd = -1};

    if (!base)
        return;
    /* The undertaker unmaps in pieces for the sake of other threads that map memory. Without an
     * undertaker there are no such threads. */
    if (!undertaker) {
        (void)munmap(base, bytes);
        return;
    }
    item.sparse = pages_bytes <= UNDERTAKER_PIECE_BYTES;
    if (share)
        item.share = *share;
    (void)hand_over(undertaker, owner, &item);
}

void undertaker_unmap(struct undertaker *undertaker, uint32_t owner, void *base, uint64_t bytes,
                      const struct undertaker_share *share)
{
    undertaker_unmap_sparse(undertaker, owner, base, bytes, UINT64_MAX, share);
}

void undertaker_close(struct undertaker *undertaker, uint32_t owner, int fd)
{
    if (fd >= 0)
        (void)hand_over(undertaker, owner, &(struct item){.fd = fd});
}

/*
 * Has the socket, which gets no more messages (SHUT_RD), an empty queue? An empty message looks
 * like the end of the connection. But with SO_PASSCRED each message has ancillary data, for which
 * this call has no room, so the kernel sets MSG_CTRUNC. MSG_PEEK leaves the message and its
 * descriptors in the queue. After an error the result is false.
 */
static bool queue_is_empty(int sock)
{
    struct msghdr msg = {0};
    int on = 1;
    ssize_t n;

    if (setsockopt(sock, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0)
        return false;
    n = recvmsg(sock, &msg, MSG_PEEK | MSG_DONTWAIT);
    if (n < 0 && errno == ECONNRESET) /* the kernel reports once that the other side closed */
        n = recvmsg(sock, &msg, MSG_PEEK | MSG_DONTWAIT);
    return n == 0 && !(msg.msg_flags & (MSG_CTRUNC | MSG_TRUNC));
}

/*
 * Does closing a socket free only the socket's own messages? Before Linux 6.9, the thread that
 * closes a socket of AF_UNIX may first have to free sockets that programs have sent into each
 * other.
 */
static bool close_frees_its_own(void)
{
    struct utsname kernel;
    unsigned major, minor;

    return uname(&kernel) == 0 && sscanf(kernel.release, "%u.%u", &major, &minor) == 2 &&
           (major > 6 || (major == 6 && minor >= 9));
}

bool undertaker_hang_up(struct undertaker *undertaker, uint32_t owner, int sock)
{
    /* Shut down first, so that no message comes into the queue any more. */
    if (shutdown(sock, SHUT_RDWR) == 0 && close_frees_its_own() && queue_is_empty(sock)) {
        last_close(sock);
        return false;
    }
    return hand_over(undertaker, owner, &(struct item){.fd = sock});
}

void undertaker_waiting(struct undertaker *undertaker, uint32_t owner, struct undertaker_share *ret)
{
    const struct owner *found;

    *ret = (struct undertaker_share){0};
    if (!undertaker)
        return;
    pthread_mutex_lock(&undertaker->lock);
    found = owner_find(undertaker, owner);
    if (found)
        *ret = found->share;
    pthread_mutex_unlock(&undertaker->lock);
}

bool undertaker_full(struct undertaker *undertaker, uint32_t owner)
{
    const struct owner *found;
    bool full;

    if (!undertaker)
        return false;
    pthread_mutex_lock(&undertaker->lock);
    found = owner_find(undertaker, owner);
    full = found && found->fds >= UNDERTAKER_FDS_MAX;
    pthread_mutex_unlock(&undertaker->lock);
    return full;
}
