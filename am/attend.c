/*
 * What a poll does apart from handling messages. It adopts the connections that the service thread
 * has made, lets accept.c check doubted calls again, closes connections to make room, and sends
 * control messages.
 */
#include "am/internal.h"

void am_bundle_adopt(struct am_bundle *bundle)
{
    struct am_conn *conn, *list;

    pthread_mutex_lock(&am_net.lock);
    list = bundle->incoming;
    bundle->incoming = NULL;
    for (conn = list; conn != NULL; conn = conn->next)
        conn->map->phase = AM_PHASE_UP;
    pthread_mutex_unlock(&am_net.lock);
    while ((conn = list) != NULL) {
        list = conn->next;
        conn->next = NULL;
        conn->adopted = true;
        conn->opened_ns = am_now_ns();
        conn->map->conn = conn;
        am_conn_touch(conn);
    }
}

/* Break the connections whose accept has failed. */
static void take_failed(struct am_bundle *bundle)
{
    struct am_conn *conn, *list;

    pthread_mutex_lock(&am_net.lock);
    list = bundle->failed;
    bundle->failed = NULL;
    pthread_mutex_unlock(&am_net.lock);
    while ((conn = list) != NULL) {
        list = conn->next_failed;
        am_conn_broken(conn);
    }
}

/* Close the least recently used connections, until `wanted` connections are being closed. */
static void reclaim(struct am_bundle *bundle, unsigned wanted)
{
    struct am_conn *conn = bundle->oldest, *newer;
    int64_t now = am_now_ns();
    unsigned closing = bundle->closing;

    for (; conn != NULL && closing < wanted; conn = newer) {
        newer = conn->newer;
        if (conn->state != AM_CONN_OPEN || now - conn->opened_ns < am_net.residence_ns)
            continue;
        am_conn_close(conn);
        am_net.counts.reclaimed++;
        closing++;
    }
}

/* The strangers of ep have reached their limit, and one more stranger has called: close the least
 * recently used connection of a stranger. */
static void make_room_for_stranger(const struct am_ep *ep)
{
    struct am_conn *conn = ep->bundle->oldest;
    int64_t now = am_now_ns();

    while (conn != NULL && (conn->map->ep != ep || !conn->stranger || conn->state != AM_CONN_OPEN ||
                            now - conn->opened_ns < am_net.residence_ns))
        conn = conn->newer;
    if (conn == NULL)
        return;
    am_conn_close(conn);
    am_net.counts.reclaimed++;
}

/* The program polls, so its tags are set now: let the service thread check doubted calls again. */
static void judge_doubts(struct am_bundle *bundle)
{
    for (struct am_ep *ep = bundle->eps; ep != NULL; ep = ep->next) {
        bool crowded;

        pthread_mutex_lock(&am_net.lock);
        am_service_judge(ep);
        crowded = ep->crowded;
        am_net.doubts -= crowded;
        ep->crowded = false;
        pthread_mutex_unlock(&am_net.lock);
        if (crowded)
            make_room_for_stranger(ep);
    }
}

void am_bundle_attend(struct am_bundle *bundle)
{
    struct am_conn *conn, *older;
    unsigned wanted;

    __atomic_store_n(&bundle->attention, 0, __ATOMIC_SEQ_CST);
    am_bundle_adopt(bundle);
    take_failed(bundle);
    if (__atomic_load_n(&am_net.doubts, __ATOMIC_RELAXED) > 0)
        judge_doubts(bundle);
    wanted = __atomic_load_n(&am_net.wanted, __ATOMIC_RELAXED);
    if (wanted > 0)
        reclaim(bundle, wanted);
    for (conn = bundle->newest; conn != NULL && bundle->control_conns > 0; conn = older) {
        older = conn->older;
        if (conn->control_work)
            am_control_work(conn);
    }
    if (bundle->control_conns > 0 || wanted > 0)
        __atomic_store_n(&bundle->attention, 1, __ATOMIC_SEQ_CST);
}
