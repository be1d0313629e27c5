/*
 * Calling: this side of a pair asks the other side for a connection, and handles arriving messages
 * meanwhile. If both sides call at the same time, the other side's call may win. Then this side
 * uses the connection that accept.c has made.
 */
#include "am/internal.h"

#include <string.h>

/* After AM_ANSWER_CROSS: wait this many ns for the other side's call, then call again. */
#define CROSS_WAIT_NS 50000000

/* A wait for a connection has TURNS_AWAKE turns without sleep, then sleeps of at most SLEEP_MS. If
 * the bundle has no cq_fd, messages wake no sleeper, and each sleep takes at most LOOK_MS. */
#define TURNS_AWAKE 300
#define LOOK_MS     1
#define SLEEP_MS    20

static VIP_NET_ADDRESS *address(char *room, const en_t *name)
{
    VIP_NET_ADDRESS *addr = (VIP_NET_ADDRESS *)room;

    addr->HostAddressLen = name->host_bytes;
    addr->DiscriminatorLen = sizeof(name->process);
    memcpy(addr->HostAddress, name->host, name->host_bytes);
    memcpy(addr->HostAddress + name->host_bytes, &name->process, sizeof(name->process));
    return addr;
}

/* The key of the endpoint that we call, or NULL if the endpoint does not belong to our job. */
static const struct job_key *key_of(const struct am_map *map)
{
    const struct job_key *key;
    bool early;

    pthread_mutex_lock(&am_net.lock);
    key = am_spmd_key(map->ep, &map->name, &map->name, &early);
    pthread_mutex_unlock(&am_net.lock);
    return key;
}

static struct am_call call_of(const struct am_conn *conn, unsigned lane)
{
    const struct am_map *map = conn->map;
    struct am_call call = {.magic = AM_WIRE_MAGIC,
                           .version = AM_WIRE_VERSION,
                           .lane = (uint8_t)lane,
                           .lanes = (uint8_t)conn->lanes,
                           .serial = conn->serial,
                           .number = map->name.number,
                           .caller_number = map->ep->name.number,
                           .depth = (uint16_t)conn->k,
                           .answer_depth = (uint16_t)conn->peer_k,
                           .landing_mem = conn->landing_mem,
                           .landing = (uintptr_t)conn->block + conn->landing_at};

    am_call_prove(key_of(map), conn->tag, &map->ep->name, &map->name, &call);
    return call;
}

static bool start_lane(struct am_conn *conn, unsigned lane)
{
    const struct am_map *map = conn->map;
    char local[AM_ADDRESS_BYTES], remote[AM_ADDRESS_BYTES];
    struct am_call call = call_of(conn, lane);
    VIPX_PRIVATE_DATA data = {.Length = sizeof(call)};

    memcpy(data.Data, &call, sizeof(call));
    return VipxConnectStart(conn->lane[lane].vi, address(local, &map->ep->name),
                            address(remote, &map->name), VIP_INFINITE, 0, &data) == VIP_SUCCESS;
}

/* Results of an attempt, besides 0 (connected) and > 0 (an E... status). */
#define AGAIN   (-1)
#define PENDING (-2)

static int refused(struct am_conn *conn, VIP_RETURN rc, const VIPX_PRIVATE_DATA *data)
{
    struct am_answer answer;

    if (rc != VIP_REJECT || data->Length < sizeof(answer))
        return EUNREACHABLE;
    memcpy(&answer, data->Data, sizeof(answer));
    if (answer.magic != AM_WIRE_MAGIC)
        return EUNREACHABLE;
    if (answer.status == AM_ANSWER_DEPTH && answer.depth > conn->peer_k &&
        answer.depth <= AM_DEPTH_MAX) {
        conn->map->peer_depth = answer.depth;
        return AGAIN;
    }
    if (answer.status == AM_ANSWER_CROSS) {
        conn->map->crossed_ns = am_now_ns();
        return AGAIN;
    }
    return answer.status >= EBADARGS && answer.status <= EREPLYREJECTED ? answer.status
                                                                        : EUNREACHABLE;
}

static int finish_lane(struct am_conn *conn, struct am_lane *lane)
{
    VIPX_PRIVATE_DATA data = {.Length = 0};
    const struct am_map *map = conn->map;
    struct am_answer answer;
    struct am_call call;
    VIP_RETURN rc;

    if (lane->connected)
        return 0;
    rc = VipxConnectFinish(lane->vi, NULL, &data);
    if (rc == VIP_NOT_DONE)
        return PENDING;
    if (rc != VIP_SUCCESS)
        return refused(conn, rc, &data);
    if (data.Length < sizeof(answer))
        return EUNREACHABLE;
    memcpy(&answer, data.Data, sizeof(answer));
    call = call_of(conn, lane->index);
    if (!am_answer_proved(key_of(map), &map->ep->name, &map->name, &call, &answer))
        return EUNREACHABLE; /* another program, without the key, listens at this address */
    conn->peer_landing = answer.landing;
    conn->peer_landing_mem = answer.landing_mem;
    lane->connected = true;
    return 0;
}

/*
 * One turn of waiting, after `turns` earlier turns. With many processes and room for few
 * connections the wait is long, so after some turns the thread sleeps. It wakes when a message
 * arrives, or when a lane of conn (if not NULL) is connected or refused. Before the first
 * AM_WaitSema the bundle has no cq_fd, so messages do not wake the thread, and the sleep is short.
 */
static void wait_turn(struct am_bundle *bundle, const struct am_conn *conn, unsigned turns)
{
    int fd[AM_SLEEP_FDS];
    unsigned count = 0;

    if (turns < TURNS_AWAKE) {
        am_pause(bundle, turns);
        return;
    }
    for (unsigned i = 0; conn != NULL && i < conn->lanes; i++)
        if (!conn->lane[i].connected &&
            VipxConnectGetFd(conn->lane[i].vi, &fd[count]) == VIP_SUCCESS)
            count++;
    if (bundle->cq_fd >= 0)
        fd[count++] = bundle->cq_fd;
    am_sleep(bundle, fd, count, bundle->cq_fd >= 0 ? SLEEP_MS : LOOK_MS);
}

/* Wait until all lanes are connected, and handle arriving messages meanwhile. Returns 0, an E...
 * status, or AGAIN. */
static int await_lanes(struct am_conn *conn)
{
    struct am_bundle *bundle = conn->bundle;
    unsigned empty = 0;

    for (;;) {
        int rc = 0;

        for (unsigned i = 0; i < conn->lanes && (rc == 0 || rc == PENDING); i++) {
            int one = finish_lane(conn, &conn->lane[i]);

            rc = one != 0 && (one != PENDING || rc == 0) ? one : rc;
        }
        if (rc != PENDING)
            return rc;
        /* If the phase has changed, the service thread has accepted the other side's call. */
        if (__atomic_load_n(&conn->map->phase, __ATOMIC_ACQUIRE) != AM_PHASE_CALLING)
            return AGAIN;
        if (am_poll(bundle) == 0)
            wait_turn(bundle, conn, empty++);
    }
}

/* Record the outcome rc of our call. false: the other side's call has won meanwhile. */
static bool settle(struct am_map *map, struct am_conn *conn, int rc)
{
    bool ours;

    pthread_mutex_lock(&am_net.lock);
    ours = map->phase == AM_PHASE_CALLING;
    if (ours && rc == 0) {
        map->phase = AM_PHASE_UP;
        map->conns++;
        am_room_fill();
        am_net.counts.connects++;
        am_net.counts.live++;
    } else if (ours) {
        map->phase = AM_PHASE_NONE;
        if (map->again != NULL) {
            am_service_again(map->again);
            map->again = NULL;
        }
    }
    pthread_mutex_unlock(&am_net.lock);
    if (!ours || rc != 0) {
        am_conn_free(conn);
        am_service_kick(); /* there may be room for another connection */
    }
    return ours;
}

/* am_conn_new has failed. Find the reason: our own vipd is gone (EUNREACHABLE), or a resource is
 * used up (ECONGESTION). */
static int no_connection(void)
{
    VIP_UINT64 number;

    return VipxNewDiscriminator(am_net.nic, &number) == VIP_SUCCESS ? ECONGESTION : EUNREACHABLE;
}

static int call(struct am_map *map, tag_t tag)
{
    unsigned k = am_ep_depth(map->ep);
    struct am_conn *conn = am_conn_new(map, k, map->peer_depth > k ? map->peer_depth : k);
    int rc = 0;

    if (conn == NULL) {
        settle(map, NULL, ECONGESTION);
        return no_connection();
    }
    conn->serial = __atomic_add_fetch(&am_net.next_serial, 1, __ATOMIC_RELAXED);
    conn->tag = tag;
    for (unsigned i = 0; i < conn->lanes && rc == 0; i++)
        if (!start_lane(conn, i))
            rc = EUNREACHABLE;
    if (rc == 0)
        rc = await_lanes(conn);
    if (!settle(map, conn, rc))
        return AGAIN;
    if (rc != 0)
        return rc;
    conn->state = AM_CONN_OPEN;
    conn->adopted = true;
    conn->opened_ns = am_now_ns();
    map->conn = conn;
    am_conn_touch(conn);
    am_control_send(conn, AM_KIND_READY, false);
    return 0;
}

/*
 * May we call now? If there is no room for a connection, record that room is wanted. A call under
 * way does not count as a connection. If it did, processes at their limit that call each other in a
 * circle would wait for ever.
 */
static bool begin(struct am_map *map, bool *wanting)
{
    bool may = false, want = false;

    if (map->crossed_ns != 0 && am_now_ns() - map->crossed_ns < CROSS_WAIT_NS)
        return false;
    pthread_mutex_lock(&am_net.lock);
    if (map->phase == AM_PHASE_NONE) {
        may = am_net.live < am_net.live_max;
        want = !may;
    }
    if (may) {
        map->phase = AM_PHASE_CALLING;
        map->crossed_ns = 0;
    }
    if (want != *wanting) {
        am_net.wanted += want ? 1u : -1u;
        *wanting = want;
    }
    if (want)
        am_attend_all();
    pthread_mutex_unlock(&am_net.lock);
    return may;
}

/* If begin has recorded that room is wanted, delete this record. */
static void end_wanting(bool wanting)
{
    if (!wanting)
        return;
    pthread_mutex_lock(&am_net.lock);
    am_net.wanted--;
    pthread_mutex_unlock(&am_net.lock);
}

int am_map_connect(struct am_map *map, tag_t tag)
{
    struct am_bundle *bundle = map->ep->bundle;
    bool wanting = false;
    unsigned empty = 0;
    int rc = 0;

    while (map->conn == NULL) {
        if (begin(map, &wanting)) {
            rc = call(map, tag);
            if (rc > 0)
                break;
        } else if (am_poll(bundle) == 0) {
            wait_turn(bundle, NULL, empty++);
        }
    }
    end_wanting(wanting);
    return rc > 0 ? rc : 0;
}
