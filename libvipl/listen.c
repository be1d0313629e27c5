/*
 * VipxListen and the calls for listeners, and VipxNewDiscriminator.
 *
 * vipd sends the requests for a listener one after the other, up to the listener's backlog. The
 * provider thread appends them to the listener's queue; VipxListenWait takes them out.
 * VipxListenClose asks vipd how many requests it has sent, and waits until all these have come.
 * Then it rejects the requests that the program has not taken.
 */
#include "libvipl/listen.h"

#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "libvipl/connect.h"
#include "libvipl/error.h"

/* Longest time, in ns, for which VipxListenClose waits for requests that vipd has sent already. */
#define LISTEN_DRAIN_NS 1000000000ull

/* Used instead of vipd's number of a listener that the present vipd has refused. */
#define NO_WAIT 0

/* The index in a listener's handle has 16 bits. */
_Static_assert(VIPL__LISTENERS_MAX <= 65536, "an index fits a handle");

/* ---- queue and file descriptor, under session->lock --------------------------------------- */

static void fd_raise(const struct vipl__listener *listener)
{
    uint64_t one = 1;

    if (listener->fd >= 0 && write(listener->fd, &one, sizeof(one)) < 0)
        return; /* the fd is readable already */
}

static void append(struct vipl__listener *listener, struct vipl__incoming *incoming)
{
    if (listener->first == NULL)
        fd_raise(listener);
    incoming->next = NULL;
    *listener->end = incoming;
    listener->end = &incoming->next;
}

static struct vipl__incoming *take_first(struct vipl__listener *listener)
{
    struct vipl__incoming *incoming = listener->first;
    uint64_t count;

    if (incoming == NULL)
        return NULL;
    listener->first = incoming->next;
    if (listener->first == NULL) {
        listener->end = &listener->first;
        if (read(listener->fd, &count, sizeof(count)) < 0)
            return incoming; /* the fd was not readable */
    }
    return incoming;
}

bool vipl__listener_put(struct vipl__session *session, struct vipl__incoming *incoming)
{
    for (unsigned i = 0; i < VIPL__LISTENERS_MAX; i++) {
        struct vipl__listener *listener = session->listener[i];

        if (listener == NULL || !listener->in_use || listener->wait_id != incoming->wait_id)
            continue;
        listener->received++;
        append(listener, incoming);
        return true;
    }
    return false;
}

void vipl__listeners_raise(struct vipl__session *session)
{
    for (unsigned i = 0; i < VIPL__LISTENERS_MAX; i++)
        if (session->listener[i] != NULL && session->listener[i]->in_use)
            fd_raise(session->listener[i]);
}

void vipl__listeners_invalidate(struct vipl__session *session)
{
    for (unsigned i = 0; i < VIPL__LISTENERS_MAX; i++)
        if (session->listener[i] != NULL)
            session->listener[i]->handle = 0;
}

/* Drop the requests, close the file descriptor, and mark the object as free. */
static void give_back(struct vipl__listener *listener)
{
    struct vipl__incoming *incoming;

    while ((incoming = listener->first) != NULL) {
        listener->first = incoming->next;
        free(incoming);
    }
    vipl__fd_close(&listener->fd);
    listener->handle = 0;
    listener->in_use = false;
}

void vipl__listeners_release(struct vipl__session *session)
{
    for (unsigned i = 0; i < VIPL__LISTENERS_MAX; i++)
        if (session->listener[i] != NULL && session->listener[i]->in_use)
            give_back(session->listener[i]);
}

/* ---- open ------------------------------------------------------------------------------------ */

/* A free listener object, or NULL. Under session->lock. */
static struct vipl__listener *object(struct vipl__session *session, unsigned *ret_index)
{
    for (unsigned i = 0; i < VIPL__LISTENERS_MAX; i++) {
        struct vipl__listener *listener = session->listener[i];

        if (listener == NULL) {
            listener = calloc(1, sizeof(*listener));
            if (listener == NULL)
                continue;
            listener->fd = -1; /* a forked child closes every other value */
            __atomic_store_n(&session->listener[i], listener, __ATOMIC_RELEASE);
        }
        if (!listener->in_use) {
            *ret_index = i;
            return listener;
        }
    }
    return NULL;
}

/*
 * Make the object of the listener that vipd knows as wait_id. Requests for the listener may already
 * be in session->incoming. NULL: no free object.
 */
static struct vipl__listener *install(struct vipl__session *session, uint64_t wait_id, int fd,
                                      const struct vip_addr *local, uint32_t backlog,
                                      VIPX_LISTENER *ret)
{
    struct vipl__incoming **at = &session->incoming, *incoming;
    struct vipl__listener *listener = NULL;
    unsigned index = 0;

    pthread_mutex_lock(&session->lock);
    if (!vipl__closing(session))
        listener = object(session, &index);
    if (listener != NULL) {
        listener->in_use = true;
        listener->uses++;
        listener->wait_id = wait_id;
        listener->received = 0;
        listener->told = session->tells;
        listener->local = *local;
        listener->backlog = backlog;
        listener->fd = fd;
        listener->first = NULL;
        listener->end = &listener->first;
        listener->handle =
            vipl__handle_make(VIPL__KIND_LISTENER, session, (uint32_t)listener->uses << 16 | index);
        *ret = (VIPX_LISTENER)(uintptr_t)listener->handle;
        while ((incoming = *at) != NULL) {
            if (incoming->wait_id != wait_id) {
                at = &incoming->next;
                continue;
            }
            *at = incoming->next;
            listener->received++;
            append(listener, incoming);
        }
    }
    pthread_mutex_unlock(&session->lock);
    return listener;
}

static VIP_RETURN ask_end(struct vipl__session *session, const char *call, uint64_t wait_id,
                          uint64_t *ret_delivered)
{
    Vip__ConnectWaitCancel cancel = VIP__CONNECT_WAIT_CANCEL__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    Vip__Reply *reply = NULL;
    VIP_RETURN rc;

    cancel.has_wait_id = 1;
    cancel.wait_id = wait_id;
    request.body_case = VIP__REQUEST__BODY_CONNECT_WAIT_CANCEL;
    request.connect_wait_cancel = &cancel;
    rc = vipl__call(session, call, &request, NULL, 0, &reply);
    if (rc != VIP_SUCCESS)
        return rc;
    *ret_delivered = reply->connect_wait == NULL ? 0 : reply->connect_wait->delivered;
    vipl__reply_free(reply);
    return VIP_SUCCESS;
}

/* Ask vipd for a listener. After success the caller calls vipl__call_kept. */
static VIP_RETURN ask_listen(struct vipl__session *session, const char *call,
                             struct vip_addr *local, uint32_t backlog, uint64_t *ret_wait_id)
{
    Vip__ConnectWaitRequest wait = VIP__CONNECT_WAIT_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    Vip__NetAddress address;
    Vip__Reply *reply = NULL;
    VIP_RETURN rc;

    vipl__put_address(&address, local);
    wait.local = &address;
    wait.has_backlog = 1;
    wait.backlog = backlog;
    request.body_case = VIP__REQUEST__BODY_CONNECT_WAIT;
    request.connect_wait = &wait;
    rc = vipl__call_keep(session, call, &request, NULL, 0, &reply);
    if (rc != VIP_SUCCESS)
        return rc;
    *ret_wait_id = reply->connect_wait == NULL ? 0 : reply->connect_wait->wait_id;
    vipl__reply_free(reply);
    return VIP_SUCCESS;
}

static VIP_RETURN open_listener(struct vipl__session *session, struct vip_addr *local,
                                VIP_ULONG backlog, VIPX_LISTENER *ret)
{
    static const char call[] = "VipxListen";
    uint32_t asked = backlog < VIPX_BACKLOG_MAX ? (uint32_t)backlog : VIPX_BACKLOG_MAX;
    uint64_t delivered, wait_id;
    bool installed;
    VIP_RETURN rc;
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

    if (fd < 0)
        return vipl__fail(VIP_ERROR_RESOURCE, "%s: no file descriptor (RLIMIT_NOFILE)", call);
    if (backlog == 0)
        asked = VIPX_BACKLOG_DEFAULT;
    rc = ask_listen(session, call, local, asked, &wait_id);
    if (rc != VIP_SUCCESS) {
        close(fd);
        return rc;
    }
    installed = install(session, wait_id, fd, local, asked, ret) != NULL;
    vipl__call_kept(session);
    if (!installed) {
        rc = vipl__fail(VIP_ERROR_RESOURCE,
                        "%s: %d listeners are open on this NIC handle, there is no memory, or the "
                        "NIC is being closed",
                        call, VIPL__LISTENERS_MAX);
        ask_end(session, call, wait_id, &delivered);
        close(fd);
    }
    return rc;
}

/* Drop the requests of the listener with this index and copy the listener to *ret. False: no such
 * listener. */
static bool past_listener(struct vipl__session *session, unsigned index, struct vipl__listener *ret)
{
    struct vipl__listener *listener;
    struct vipl__incoming *incoming;
    bool there;

    pthread_mutex_lock(&session->lock);
    listener = session->listener[index];
    there = listener != NULL && listener->in_use && listener->handle != 0;
    while (there && (incoming = take_first(listener)) != NULL)
        free(incoming);
    if (there)
        *ret = *listener;
    pthread_mutex_unlock(&session->lock);
    return there;
}

VIP_RETURN vipl__listener_again(struct vipl__session *session, unsigned index)
{
    static const char call[] = "VipxListen";
    uint64_t wait_id = NO_WAIT, delivered;
    struct vipl__listener past, *listener;
    VIP_RETURN rc;
    bool mine;

    if (!past_listener(session, index, &past))
        return VIP_SUCCESS;
    rc = ask_listen(session, call, &past.local, past.backlog, &wait_id);
    pthread_mutex_lock(&session->lock);
    listener = session->listener[index];
    mine = listener->handle == past.handle;
    if (mine) {
        listener->wait_id = wait_id;
        listener->received = 0;
        listener->told = session->tells;
    }
    pthread_mutex_unlock(&session->lock);
    if (rc == VIP_SUCCESS)
        vipl__call_kept(session);
    if (rc == VIP_SUCCESS && !mine) /* the program has closed the listener meanwhile */
        ask_end(session, call, wait_id, &delivered);
    return rc;
}

VIP_RETURN VipxListen(VIP_NIC_HANDLE NicHandle, VIP_NET_ADDRESS *LocalAddr, VIP_ULONG Backlog,
                      VIPX_LISTENER *Listener)
{
    struct vipl__session *session;
    struct vip_addr local;
    VIP_RETURN rc;

    if (Listener == NULL)
        return vipl__fail(VIP_INVALID_PARAMETER, "VipxListen: Listener is NULL");
    session = vipl__nic_enter(NicHandle, "VipxListen");
    if (session == NULL)
        return VIP_INVALID_PARAMETER;
    rc = vipl__read_local(session, "VipxListen", LocalAddr, &local);
    if (rc == VIP_SUCCESS)
        rc = open_listener(session, &local, Backlog, Listener);
    vipl__leave(session);
    return rc;
}

/* ---- use ------------------------------------------------------------------------------------- */

/* The listener of a handle; NULL if it is closed. Under session->lock. */
static struct vipl__listener *find(struct vipl__session *session, uint64_t handle)
{
    unsigned index = handle & 0xFFFF;

    if (index >= VIPL__LISTENERS_MAX || session->listener[index] == NULL ||
        session->listener[index]->handle != handle)
        return NULL;
    return session->listener[index];
}

static VIP_RETURN bad_listener(const char *call, VIPX_LISTENER handle)
{
    return vipl__fail(VIP_INVALID_PARAMETER,
                      "%s: %p is not an open listener of this process (never was, is closed, or "
                      "its NIC is)",
                      call, handle);
}

/*
 * Enter the session of a listener and lock session->lock. NULL with the reason set if the listener
 * is closed.
 */
static struct vipl__session *enter_locked(VIPX_LISTENER handle, const char *call,
                                          struct vipl__listener **ret)
{
    uint64_t number = (uint64_t)(uintptr_t)handle;
    struct vipl__session *session = vipl__handle_session(number, VIPL__KIND_LISTENER);

    if (session != NULL) {
        __atomic_add_fetch(&session->users, 1, __ATOMIC_SEQ_CST);
        pthread_mutex_lock(&session->lock);
        *ret =
            __atomic_load_n(&session->handle, __ATOMIC_SEQ_CST) != 0 ? find(session, number) : NULL;
        if (*ret != NULL)
            return session;
        pthread_mutex_unlock(&session->lock);
        vipl__leave(session);
    }
    bad_listener(call, handle);
    return NULL;
}

/*
 * Wait for a request. Returns VIP_SUCCESS with *ret, or another code with its reason. Under
 * session->lock.
 */
static VIP_RETURN await_request(struct vipl__session *session, VIPX_LISTENER handle,
                                VIP_ULONG timeout_ms, struct vipl__incoming **ret)
{
    static const char call[] = "VipxListenWait";
    uint64_t deadline_ns = vipl__deadline(timeout_ms);
    bool in_time = timeout_ms != 0;

    for (;;) {
        struct vipl__listener *listener = find(session, (uint64_t)(uintptr_t)handle);

        if (vipl__is_dead(session) || vipl__closing(session))
            return vipl__gone(session, call);
        if (listener == NULL)
            return bad_listener(call, handle);
        *ret = take_first(listener);
        if (*ret != NULL)
            return VIP_SUCCESS;
        if (!in_time)
            return vipl__fail(VIP_TIMEOUT, "%s: no connection request came within the time limit",
                              call);
        in_time = vipl__await_change(session, deadline_ns);
    }
}

VIP_RETURN VipxListenWait(VIPX_LISTENER Listener, VIP_ULONG Timeout, VIP_NET_ADDRESS *RemoteAddr,
                          VIP_VI_ATTRIBUTES *RemoteViAttribs, VIPX_PRIVATE_DATA *Data,
                          VIP_CONN_HANDLE *ConnHandle)
{
    static const char call[] = "VipxListenWait";
    struct vipl__incoming *incoming = NULL;
    struct vipl__listener *listener;
    struct vipl__session *session;
    VIP_RETURN rc;

    if (ConnHandle == NULL)
        return vipl__fail(VIP_INVALID_PARAMETER, "%s: ConnHandle is NULL", call);
    session = enter_locked(Listener, call, &listener);
    if (session == NULL)
        return VIP_INVALID_PARAMETER;
    rc = await_request(session, Listener, Timeout, &incoming);
    pthread_mutex_unlock(&session->lock);
    if (rc == VIP_SUCCESS)
        rc = vipl__incoming_take(session, call, incoming, RemoteAddr, RemoteViAttribs, Data,
                                 ConnHandle);
    vipl__leave(session);
    return rc;
}

VIP_RETURN VipxListenGetFd(VIPX_LISTENER Listener, int *Fd)
{
    struct vipl__listener *listener;
    struct vipl__session *session;

    if (Fd == NULL)
        return vipl__fail(VIP_INVALID_PARAMETER, "VipxListenGetFd: Fd is NULL");
    session = enter_locked(Listener, "VipxListenGetFd", &listener);
    if (session == NULL)
        return VIP_INVALID_PARAMETER;
    *Fd = listener->fd;
    pthread_mutex_unlock(&session->lock);
    vipl__leave(session);
    return VIP_SUCCESS;
}

/*
 * Does the present vipd have the listener? If this library has told a next vipd of the listener,
 * but not yet of all objects, wait until vipd knows all objects: only then vipd answers requests of
 * other threads. Under session->lock.
 */
static bool vipd_has(struct vipl__session *session, const struct vipl__listener *listener)
{
    while (vipl__is_gone(session) && !vipl__is_dead(session) && !vipl__closing(session) &&
           listener->told == session->tells)
        vipl__await_change(session, VIPL__NEVER);
    return !vipl__is_gone(session) && listener->told == session->tells;
}

VIP_RETURN VipxListenClose(VIPX_LISTENER Listener)
{
    static const char call[] = "VipxListenClose";
    uint64_t delivered = 0, deadline_ns;
    struct vipl__incoming *left, *incoming;
    struct vipl__listener *listener;
    struct vipl__session *session = enter_locked(Listener, call, &listener);
    bool in_time = true, there;

    if (session == NULL)
        return VIP_INVALID_PARAMETER;
    /* Now no other thread finds the listener; this thread owns the object until give_back. */
    listener->handle = 0;
    pthread_cond_broadcast(&session->changed);
    there = vipd_has(session, listener);
    pthread_mutex_unlock(&session->lock);

    if (there)
        (void)ask_end(session, call, listener->wait_id, &delivered); /* fails if vipd has died */
    deadline_ns = vipl__now_ns() + LISTEN_DRAIN_NS;
    pthread_mutex_lock(&session->lock);
    while (listener->received < delivered && in_time && !vipl__is_dead(session) &&
           !vipl__closing(session))
        in_time = vipl__await_change(session, deadline_ns);
    left = listener->first;
    listener->first = NULL;
    give_back(listener);
    pthread_mutex_unlock(&session->lock);

    while ((incoming = left) != NULL) {
        left = incoming->next;
        if (there)
            vipl__reject_quietly(session, call, incoming->conn_handle);
        free(incoming);
    }
    vipl__leave(session);
    return VIP_SUCCESS;
}

VIP_RETURN VipxNewDiscriminator(VIP_NIC_HANDLE NicHandle, VIP_UINT64 *Number)
{
    static const char call[] = "VipxNewDiscriminator";
    Vip__NewDiscriminatorRequest body = VIP__NEW_DISCRIMINATOR_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    Vip__Reply *reply = NULL;
    struct vipl__session *session;
    VIP_RETURN rc;

    if (Number == NULL)
        return vipl__fail(VIP_INVALID_PARAMETER, "%s: Number is NULL", call);
    session = vipl__nic_enter(NicHandle, call);
    if (session == NULL)
        return VIP_INVALID_PARAMETER;
    request.body_case = VIP__REQUEST__BODY_NEW_DISCRIMINATOR;
    request.new_discriminator = &body;
    rc = vipl__call(session, call, &request, NULL, 0, &reply);
    if (rc == VIP_SUCCESS) {
        *Number = reply->number64;
        vipl__reply_free(reply);
    }
    vipl__leave(session);
    return rc;
}
