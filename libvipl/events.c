/*
 * The provider thread (events.h): incoming connection requests, results of connection attempts,
 * asynchronous errors, staged bytes of incoming RDMA, and vipd's death.
 */
#include "libvipl/events.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "libvipl/callback.h"
#include "libvipl/cq_fd.h"
#include "libvipl/connect.h"
#include "libvipl/direct.h"
#include "libvipl/error.h"
#include "libvipl/lent.h"
#include "libvipl/listen.h"
#include "libvipl/outlive.h"
#include "libvipl/sleep.h"
#include "libvipl/sq.h"

/* The live VI that an event names; NULL if the VI was destroyed meanwhile. */
static struct vipl__vi *event_vi(struct vipl__session *session, uint32_t index, uint32_t generation)
{
    struct vipl__vi *vi;

    if (index >= VIP_VI_MAX)
        return NULL;
    vi = __atomic_load_n(&session->vi[index], __ATOMIC_ACQUIRE);
    if (vi == NULL || __atomic_load_n(&vi->handle, __ATOMIC_ACQUIRE) == 0 ||
        vi->generation != generation)
        return NULL;
    return vi;
}

static void on_incoming(struct vipl__session *session, const Vip__ConnIncoming *event)
{
    struct vipl__incoming *incoming = calloc(1, sizeof(*incoming)), **end;
    const Vip__NetAddress *remote = event->remote;

    if (incoming == NULL)
        return; /* without an answer the client's attempt ends at its time limit */
    incoming->wait_id = event->wait_id;
    incoming->conn_handle = event->conn_handle;
    if (remote != NULL && remote->host.len <= VIP_HOST_ADDR_BYTES_MAX) {
        incoming->remote.host_len = (uint8_t)remote->host.len;
        if (remote->host.len > 0)
            memcpy(incoming->remote.host, remote->host.data, remote->host.len);
    }
    if (remote != NULL && remote->discriminator.len <= VIP_DISCRIMINATOR_BYTES_MAX) {
        incoming->remote.disc_len = (uint8_t)remote->discriminator.len;
        if (remote->discriminator.len > 0)
            memcpy(incoming->remote.disc, remote->discriminator.data, remote->discriminator.len);
    }
    vipl__vi_attrs_get(&incoming->attrs, event->attributes);
    vipl__get_private(&incoming->data, &event->private_data);

    pthread_mutex_lock(&session->lock);
    incoming->tells = session->tells;
    if (!vipl__listener_put(session, incoming)) {
        for (end = &session->incoming; *end != NULL; end = &(*end)->next)
            continue;
        *end = incoming;
    }
    pthread_cond_broadcast(&session->changed);
    pthread_mutex_unlock(&session->lock);
}

static void on_result(struct vipl__session *session, const Vip__ConnResult *event)
{
    struct vipl__vi *vi;

    pthread_mutex_lock(&session->lock);
    vi = event_vi(session, event->vi, event->generation);
    if (vi != NULL) {
        vi->ticket_len = 0;
        if (event->code == VIP_RC_SUCCESS && event->ticket.len <= VIPL__TICKET_MAX) {
            vi->ticket_len = (uint16_t)event->ticket.len;
            if (event->ticket.len > 0)
                memcpy(vi->ticket, event->ticket.data, event->ticket.len);
        }
        vipl__lent_connected(vi, event->host.data,
                             event->code == VIP_RC_SUCCESS ? event->host.len : 0);
        vipl__attempt_done(vi, event);
    }
    pthread_mutex_unlock(&session->lock);
}

static void on_error(struct vipl__session *session, const Vip__AsyncError *event)
{
    struct vipl__vi *vi = NULL;

    if (event->resource > VIP_RES_DESCRIPTOR || event->error > VIP_EC_CATASTROPHIC)
        return;
    if (event->resource == VIP_RES_VI || event->resource == VIP_RES_DESCRIPTOR) {
        pthread_mutex_lock(&session->lock);
        vi = event_vi(session, event->vi, event->generation);
        pthread_mutex_unlock(&session->lock);
        if (vi == NULL)
            return;
    }
    vipl__async_error(session, (VIP_RESOURCE_CODE)event->resource, (VIP_ERROR_CODE)event->error, vi,
                      NULL, event->opcode, event->reason);
}

/*
 * An RDMA operation of the peer reaches staged memory. For a Write, copy the bytes from the staging
 * area to the program's memory before vipd acknowledges the Write; for a Read, copy the bytes to
 * the staging area. Always answer vipd; the answer says whether the copy failed.
 */
static void on_place(struct vipl__session *session, const Vip__Place *event)
{
    Vip__PlaceDone done = VIP__PLACE_DONE__INIT;
    struct vipl__region *region;
    bool good = false;

    pthread_mutex_lock(&session->region_lock);
    vipl__spin_lock(&session->post_lock);
    region = vipl__region_find(&session->regions, event->handle);
    vipl__spin_unlock(&session->post_lock);
    if (region != NULL && region->mem.kind == VIPL__MEM_STAGED && event->bytes <= region->bytes &&
        event->offset <= region->bytes - event->bytes && event->bytes > 0)
        good = (event->out ? vipl__mem_stage_out : vipl__mem_stage_in)(
            &region->mem, region->addr + event->offset, event->bytes);
    pthread_mutex_unlock(&session->region_lock);

    done.has_number = done.has_failed = 1;
    done.number = event->number;
    done.failed = !good;
    vip_control_send(session->event_fd, &done.base, NULL, 0, 0);
}

/* vipd has made a ring for a VI. *fds has the ring's file, unless this process had no free fd. */
static void on_direct(struct vipl__session *session, const Vip__Direct *event, struct vip_fds *fds)
{
    bool taken = false;
    struct vipl__vi *vi;

    pthread_mutex_lock(&session->lock);
    vi = event_vi(session, event->vi, event->generation);
    if (vi != NULL && fds->count == 1)
        taken = vipl__direct_attach(vi, event, &fds->fd[0]);
    pthread_mutex_unlock(&session->lock);
    if (vi != NULL && !taken)
        vipl__ask(vi, VIP_ASK_NO_RING);
}

static void on_lent(struct vipl__session *session, const Vip__Lent *event)
{
    struct vipl__vi *vi;

    pthread_mutex_lock(&session->lock);
    vi = event_vi(session, event->vi, event->generation);
    if (vi != NULL) {
        vipl__lent_offer(vi, event);
        vipl__wake_vi(vi); /* a thread that sleeps can begin it */
    }
    pthread_mutex_unlock(&session->lock);
}

/* A thread that rests looks which loan is over, and then waits for vipd. */
static void on_lent_over(struct vipl__session *session)
{
    vip_fence_sleep();
    vipl__rest_wake(session);
}

static void dispatch(struct vipl__session *session, const Vip__Event *event, struct vip_fds *fds)
{
    switch ((int)event->body_case) {
    case VIP__EVENT__BODY_INCOMING:
        on_incoming(session, event->incoming);
        break;
    case VIP__EVENT__BODY_RESULT:
        on_result(session, event->result);
        break;
    case VIP__EVENT__BODY_ERROR:
        on_error(session, event->error);
        break;
    case VIP__EVENT__BODY_PLACE:
        on_place(session, event->place);
        break;
    case VIP__EVENT__BODY_DIRECT:
        on_direct(session, event->direct, fds);
        break;
    case VIP__EVENT__BODY_LENT:
        on_lent(session, event->lent);
        break;
    case VIP__EVENT__BODY_LENT_OVER:
        on_lent_over(session);
        break;
    default:
        break; /* a newer version of vipd has more kinds of events */
    }
}

/*
 * vipd has died or has ended this session. From now on posted descriptors complete as flushed
 * (done.c), waiters wake, attempts end, and the application gets an asynchronous error.
 */
static void on_death(struct vipl__session *session, const char *refusal)
{
    char why[VIPL__REASON_BYTES];
    struct vip_app_head *head = session->app_base;
    struct timespec pause = {.tv_nsec = 1000000};

    snprintf(why, sizeof(why),
             "vipd has ended or closed this session; everything posted is flushed%s%.380s",
             refusal[0] != '\0' ? "; the next vipd refuses: " : "", refusal);
    /* Now vipd also closes its direction, so threads that wait for a reply get an error. */
    shutdown(session->control_fd, SHUT_WR);
    pthread_mutex_lock(&session->lock);
    /* An engine on loan would write into receive buffers that the library hands back as flushed. */
    for (unsigned i = 0; i < VIP_VI_MAX; i++)
        if (session->vi[i] != NULL)
            vipl__lent_dead(session->vi[i]);
    __atomic_store_n(&session->trouble, 1, __ATOMIC_SEQ_CST);
    __atomic_store_n(&session->gone, VIPL__DEAD, __ATOMIC_SEQ_CST);
    pthread_cond_broadcast(&session->changed);
    for (unsigned i = 0; i < VIP_VI_MAX; i++) {
        struct vipl__vi *vi = session->vi[i];

        if (vi != NULL && __atomic_load_n(&vi->handle, __ATOMIC_ACQUIRE) != 0 &&
            vip_load32(&vip_vipd_vi((void *)session->vipd, (uint16_t)i)->state) ==
                VIP_VIST_CONNECTED)
            vipl__async_error(session, VIP_RESOURCE_VI, VIP_ERROR_CONN_LOST, vi, NULL, 0, why);
        if (vi != NULL)
            vipl__attempt_death(vi);
    }
    vipl__listeners_raise(session);
    pthread_mutex_unlock(&session->lock);
    vipl__async_error(session, VIP_RESOURCE_NIC, VIP_ERROR_CATASTROPHIC, NULL, NULL, 0, why);
    vipl__notify_poke(session);
    for (unsigned i = 0; i < VIP_CQ_MAX; i++)
        if (session->cq[i] != NULL)
            vipl__cq_fd_flushed(session->cq[i]);

    /*
     * A thread may look for completions before the death and begin to sleep after it. So wake all
     * threads until no thread sleeps.
     */
    while (__atomic_load_n(&head->sleepers, __ATOMIC_SEQ_CST) != 0 &&
           __atomic_load_n(&session->closing, __ATOMIC_SEQ_CST) == 0) {
        vipl__wake_all(session);
        nanosleep(&pause, NULL);
    }
}

/*
 * Descriptors posted on a VI that vipd has refused complete as flushed, and vipd wakes no thread
 * that waits for these completions. So while a VI or CQ is refused, this thread wakes all sleepers
 * every WAKE_REFUSED_MS until vipd sends a message.
 */
#define WAKE_REFUSED_MS 10
static void wake_refused(struct vipl__session *session)
{
    struct pollfd look = {.fd = session->event_fd, .events = POLLIN};

    while (__atomic_load_n(&session->refused, __ATOMIC_SEQ_CST) != 0 &&
           poll(&look, 1, WAKE_REFUSED_MS) == 0)
        vipl__wake_all(session);
}

/*
 * A thread may have looked for an offer just before it came, and may begin to sleep just after the
 * wake-up: the offer does not change the futex word. So wake it again until it rests.
 */
#define WAKE_REST_MS 1
static void wake_for_rest(struct vipl__session *session)
{
    struct pollfd look = {.fd = session->event_fd, .events = POLLIN};

    while (vipl__lent_missed(session) && poll(&look, 1, WAKE_REST_MS) == 0)
        vipl__wake_all(session);
}

/* Handle vipd's messages until the event socket ends. */
static void read_all(struct vipl__session *session)
{
    for (;;) {
        struct vip_fds fds = VIP_FDS_NONE;
        ProtobufCMessage *message = NULL;
        int rc;

        wake_refused(session);
        wake_for_rest(session);
        rc =
            vip_control_recv_without(session->event_fd, &vip__event__descriptor, 0, &message, &fds);

        if (rc < 0)
            return;
        dispatch(session, (const Vip__Event *)message, &fds);
        vip_fds_close(&fds);
        protobuf_c_message_free_unpacked(message, NULL);
    }
}

static void *run(void *arg)
{
    struct vipl__session *session = arg;
    char refusal[VIPL__REASON_BYTES] = "";

    vipl__call_provider();
    do
        read_all(session);
    while (vipl__outlive(session, refusal, sizeof(refusal)));
    if (__atomic_load_n(&session->closing, __ATOMIC_SEQ_CST) == 0)
        on_death(session, refusal);
    return NULL;
}

int vipl__events_start(struct vipl__session *session)
{
    sigset_t all, before;
    int rc;

    /* The new thread blocks all signals: only the application's own threads handle them. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&session->provider, NULL, run, session);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

void vipl__events_join(struct vipl__session *session)
{
    pthread_join(session->provider, NULL);
}
