/*
 * Handles: the table of session objects, and the search for the object of a handle. A handle
 * contains no pointer. So garbage, stale handles and handles of other processes are refused without
 * a fault.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "libvipl/callback.h"
#include "libvipl/direct.h"
#include "libvipl/error.h"
#include "libvipl/listen.h"
#include "libvipl/session.h"
#include "libvipl/lent.h"

struct vipl__session *vipl__sessions[VIPL__SESSIONS_MAX];

static pthread_mutex_t table = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;

uint64_t vipl__handle_make(enum vipl__kind kind, const struct vipl__session *session,
                           uint32_t value)
{
    return 0x56ull << 56 | (uint64_t)kind << 52 | (uint64_t)session->slot << 40 |
           (uint64_t)(session->uses & 0xFF) << 32 | value;
}

struct vipl__cq *vipl__cq_find(VIP_CQ_HANDLE cq_handle)
{
    uint64_t handle = (uint64_t)(uintptr_t)cq_handle;
    struct vipl__session *session = vipl__handle_session(handle, VIPL__KIND_CQ);
    struct vipl__cq *cq;

    if (session == NULL || (handle & 0xFFFF) >= VIP_CQ_MAX)
        return NULL;
    cq = __atomic_load_n(&session->cq[handle & 0xFFFF], __ATOMIC_ACQUIRE);
    if (cq == NULL || __atomic_load_n(&cq->handle, __ATOMIC_ACQUIRE) != handle)
        return NULL;
    return cq;
}

/*
 * Must programs give a protection tag? Without one they get the default domain (spec 3.5). With
 * VIPL_STRICT_PTAGS=1, for tests of programs, a missing tag is an invalid tag.
 */
static bool strict_ptags(void)
{
    const char *text = getenv("VIPL_STRICT_PTAGS");

    return text != NULL && strcmp(text, "1") == 0;
}

bool vipl__ptag_number(const struct vipl__session *session, VIP_PROTECTION_HANDLE ptag,
                       uint32_t *ret_number)
{
    uint64_t handle = (uint64_t)(uintptr_t)ptag;
    uint32_t number = (uint32_t)handle;

    if (ptag == NULL ? strict_ptags()
                     : handle != vipl__handle_make(VIPL__KIND_PTAG, session, number))
        return false;
    *ret_number = number;
    return true;
}

VIP_RETURN vipl__bad_vi(const char *call, VIP_VI_HANDLE vi_handle)
{
    return vipl__fail(VIP_INVALID_PARAMETER,
                      "%s: %p is not the handle of a VI of this process (never was, is destroyed, "
                      "its NIC is closed, or it belongs to the parent of a fork)",
                      call, vi_handle);
}

VIP_RETURN vipl__bad_cq(const char *call, VIP_CQ_HANDLE cq_handle)
{
    return vipl__fail(VIP_INVALID_PARAMETER,
                      "%s: %p is not the handle of a completion queue of this process (never was, "
                      "is destroyed, its NIC is closed, or it belongs to the parent of a fork)",
                      call, cq_handle);
}

/*
 * Count the caller in `users`, then look at the handle again. VipCloseNic first invalidates
 * handles, then waits for the count to be 0. So either VipCloseNic sees the count, or the caller
 * sees the invalid handle.
 */
static bool enter(struct vipl__session *session, const uint64_t *live, uint64_t handle)
{
    __atomic_add_fetch(&session->users, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(live, __ATOMIC_SEQ_CST) == handle) /* [enter ENTER] */
        return true;
    vipl__leave(session);
    return false;
}

void vipl__leave(struct vipl__session *session)
{
    __atomic_sub_fetch(&session->users, 1, __ATOMIC_SEQ_CST);
}

struct vipl__session *vipl__nic_enter(VIP_NIC_HANDLE nic_handle, const char *call)
{
    uint64_t handle = (uint64_t)(uintptr_t)nic_handle;
    struct vipl__session *session = vipl__handle_session(handle, VIPL__KIND_NIC);

    if (session != NULL && enter(session, &session->handle, handle))
        return session;
    vipl__fail(VIP_INVALID_PARAMETER,
               "%s: %p is not the handle of an open NIC of this process (never was, is closed, or "
               "it belongs to the parent of a fork)",
               call, nic_handle);
    return NULL;
}

struct vipl__vi *vipl__vi_enter(VIP_VI_HANDLE vi_handle, const char *call)
{
    struct vipl__vi *vi = vipl__vi_find(vi_handle);

    if (vi != NULL && enter(vi->session, &vi->handle, (uint64_t)(uintptr_t)vi_handle))
        return vi;
    vipl__bad_vi(call, vi_handle);
    return NULL;
}

struct vipl__cq *vipl__cq_enter(VIP_CQ_HANDLE cq_handle, const char *call)
{
    struct vipl__cq *cq = vipl__cq_find(cq_handle);

    if (cq != NULL && enter(cq->session, &cq->handle, (uint64_t)(uintptr_t)cq_handle))
        return cq;
    vipl__bad_cq(call, cq_handle);
    return NULL;
}

/* ---- fork -------------------------------------------------------------------------------- */

static void fork_prepare(void)
{
    pthread_mutex_lock(&table);
    vipl__mem_fork_prepare();
}

static void fork_parent(void)
{
    vipl__mem_fork_parent();
    pthread_mutex_unlock(&table);
}

void vipl__fd_close(int *fd)
{
    int was = __atomic_exchange_n(fd, -1, __ATOMIC_SEQ_CST);

    if (was >= 0)
        close(was);
}

static void fork_close_vi(struct vipl__vi *vi)
{
    vi->handle = 0;
    vipl__fd_close(&vi->attempt_fd);
    if (vi->direct != NULL)
        vipl__fd_close(&vi->direct->fd);
    if (vi->asks.made != NULL)
        vipl__fd_close(&vi->asks.made->sock);
}

static void fork_close_cq(struct vipl__cq *cq)
{
    cq->handle = 0;
    for (unsigned n = 0; n < 2; n++)
        vipl__fd_close(&cq->fd[n]);
}

/*
 * The child of a fork has none of the sessions: its handles become invalid, and it closes all file
 * descriptors of the sessions. If it kept a socket, vipd would not notice the parent's end. If it
 * kept a segment or a ring, this memory would stay allocated, and count for the user, until the
 * child ends. The child never uses the session objects again, because threads that exist only in
 * the parent may hold their locks. The segments are not mapped in the child.
 */
static void fork_child(void)
{
    /* Do this first: until then parent and child may share the pages of session objects. */
    vipl__mem_fork_child();
    for (unsigned slot = 0; slot < VIPL__SESSIONS_MAX; slot++) {
        struct vipl__session *session = vipl__sessions[slot];

        if (session == NULL)
            continue;
        session->handle = 0;
        for (unsigned i = 0; i < VIP_VI_MAX; i++)
            if (session->vi[i] != NULL)
                fork_close_vi(session->vi[i]);
        for (unsigned i = 0; i < VIP_CQ_MAX; i++)
            if (session->cq[i] != NULL)
                fork_close_cq(session->cq[i]);
        for (unsigned i = 0; i < VIPL__LISTENERS_MAX; i++)
            if (session->listener[i] != NULL)
                vipl__fd_close(&session->listener[i]->fd);
        vipl__fd_close(&session->control_fd);
        vipl__fd_close(&session->event_fd);
        vipl__fd_close(&session->doorbell_fd);
        vipl__fd_close(&session->app_fd);
        vipl__fd_close(&session->vipd_fd);
        vipl__fd_close(&session->recv_fd);
        vipl__fd_close(&session->loans_fd);
        vipl__fd_close(&session->rest.fd);
        vipl__fd_close(&session->ask_sock);
        session->burned = true;
    }
    pthread_mutex_unlock(&table);
}

static void init_once(void)
{
    pthread_atfork(fork_prepare, fork_parent, fork_child);
}

/* ---- session objects --------------------------------------------------------------------- */

static struct vipl__session *session_new(uint32_t slot)
{
    struct vipl__session *session = aligned_alloc(64, (sizeof(*session) + 63) / 64 * 64);
    pthread_condattr_t attr;

    if (session == NULL)
        return NULL;
    memset(session, 0, sizeof(*session));
    session->slot = slot;
    session->control_fd = session->event_fd = session->doorbell_fd = -1;
    session->app_fd = session->vipd_fd = session->recv_fd = -1;
    session->loans_fd = session->ask_sock = session->rest.fd = -1;
    session->app_base = mmap(NULL, VIP_APP_BYTES + VIP_VIPD_BYTES, PROT_NONE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (session->app_base == MAP_FAILED)
        goto no_address_space;
    /* Not on the heap: while another thread adopts a heap page, system calls on it may fail. */
    session->call_room = mmap(NULL, VIP_CONTROL_BYTES_MAX, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (session->call_room == MAP_FAILED)
        goto no_room;
    session->vipd = (const void *)((char *)session->app_base + VIP_APP_BYTES);
    pthread_mutex_init(&session->call_lock, NULL);
    pthread_mutex_init(&session->lock, NULL);
    pthread_mutex_init(&session->region_lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&session->changed, &attr);
    pthread_condattr_destroy(&attr);
    return session;

no_room:
    munmap(session->app_base, VIP_APP_BYTES + VIP_VIPD_BYTES);
no_address_space:
    free(session);
    return NULL;
}

struct vipl__session *vipl__session_get(void)
{
    struct vipl__session *session = NULL;

    pthread_once(&once, init_once);
    pthread_mutex_lock(&table);
    for (uint32_t slot = 0; slot < VIPL__SESSIONS_MAX; slot++) {
        session = vipl__sessions[slot];
        if (session != NULL && (session->in_use || session->burned)) {
            session = NULL;
            continue;
        }
        if (session == NULL) {
            session = session_new(slot);
            if (session != NULL)
                __atomic_store_n(&vipl__sessions[slot], session, __ATOMIC_RELEASE);
        }
        break;
    }
    if (session != NULL) {
        session->in_use = true;
        session->uses++;
    }
    pthread_mutex_unlock(&table);
    return session;
}

void vipl__session_put(struct vipl__session *session)
{
    pthread_mutex_lock(&table);
    session->in_use = false;
    pthread_mutex_unlock(&table);
}

enum vip_vi_state vipl__vi_state(const struct vipl__vi *vi)
{
    uint32_t state;

    if (vipl__is_dead(vi->session))
        return VIP_VIST_ERROR;
    state = __atomic_load_n(&vi->refused, __ATOMIC_ACQUIRE);
    if (state != VIPL__TAKEN)
        return state == VIPL__REFUSED_IDLE ? VIP_VIST_IDLE : VIP_VIST_ERROR;
    state = vip_load32_acquire(&vip_vipd_vi((void *)vi->session->vipd, vi->index)->state);
    /* The engine of this program has ended the connection, and vipd does not know it yet. */
    if (state == VIP_VIST_CONNECTED && vipl__lent_broken(vi))
        return VIP_VIST_ERROR;
    return state > VIP_VIST_ERROR ? VIP_VIST_ERROR : (enum vip_vi_state)state;
}

void vipl__doorbell(struct vipl__session *session)
{
    static const uint64_t one = 1;

    /* Count this thread in `users`, so that VipCloseNic does not close the file descriptor now. */
    __atomic_add_fetch(&session->users, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&session->handle, __ATOMIC_SEQ_CST) != 0)
        while (write(session->doorbell_fd, &one, sizeof(one)) < 0 && errno == EINTR)
            continue;
    vipl__leave(session);
}
