/*
 * The first request of a program: the program opens a NIC, or goes on with a NIC that it opened in
 * an earlier life of vipd. The functions here make the session and its parts, and end them.
 */
#include "vipd/client/client.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include "proto/direct.h"
#include "proto/loan.h"
#include "proto/probe.h"
#include "proto/ring.h"
#include "proto/shm3.h"
#include "vipd/client/internal.h"
#include "vipd/nic/loan.h"
#include "vipd/names.h"
#include "vipd/nic/share.h"
#include "vipd/registry/guard.h"
#include "vipd/registry/memfile.h"
#include "vipd/registry/registry.h"
#include "vipd/registry/taken.h"
#include "vipd/registry/undertaker.h"

/* Largest number of ended sessions of one user whose memory is not freed yet. Each session takes
 * 256 GiB of vipd's 128 TiB of address space. */
#define SESSIONS_WAITING_MAX 64u

/* Retry interval in ms at SESSIONS_WAITING_MAX sessions: to free one takes 0.2 ms or more. */
#define FREED_AGAIN_MS 10

/* Retry interval in ms for a program that comes back while vipd lacks descriptors or memory. */
#define LACK_AGAIN_MS 10

/* Retry interval in ms for a program that comes back to a NIC without an address. libvipl looks for
 * the next vipd at the same interval. */
#define DOWN_AGAIN_MS 10

/* ---- doorbell and event socket ----------------------------------------------------------- */

static void on_doorbell(void *ctx, unsigned events)
{
    struct client *client = ctx;
    uint64_t rings;
    struct iovec iov = {.iov_base = &rings, .iov_len = sizeof(rings)};

    (void)events;
    VIP_PROBE2(doorbell, client->session->id, client->pid);
    /* While a session is throttled, ignore its bell: even reading the bell costs processor time. */
    if (nic_session_throttled(client->session->nic_session)) {
        vipd_watch_set(client->session->doorbell_watch, 0);
        /* Later, on_resumed makes vipd watch the bell again. */
        nic_session_tell_resumed(client->session->nic_session);
        return;
    }
    /*
     * The read only silences the bell: the next turn takes the postings. The application shares the
     * file. It could switch O_NONBLOCK off and empty the eventfd between epoll's look and this
     * read. RWF_NOWAIT keeps this call from blocking.
     */
    if (preadv2(client->session->doorbell, &iov, 1, -1, RWF_NOWAIT) < 0 && errno != EAGAIN)
        client_end(client, CLIENT_END_INTERNAL, "the doorbell cannot be read");
    if (client->session->loan_base)
        nic_session_rung(client->session->nic_session, client_now_ns(client));
}

static void on_event_sock(void *ctx, unsigned events)
{
    struct client *client = ctx;

    if (events & VIPD_READ)
        events_receive(client);
    if ((events & VIPD_WRITE) && client->end == CLIENT_END_NONE)
        events_flush(client);
}

/* Make the bell and the event socket, and put the program's descriptors into the answer. Outcomes:
 * 0; a negative errno. */
static int make_channels(struct client *client, struct session *session, struct answer *answer)
{
    struct vipd_loop *loop = client->vipd->nics[session->nic].loop;
    int fd, pair[2];

    fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0)
        return -errno;
    session->doorbell = fd;
    fd = fcntl(fd, F_DUPFD_CLOEXEC, 0); /* a copy: answer_send closes the answer's fds */
    if (fd < 0)
        return -errno;
    answer->fds.fd[answer->fds.count++] = fd;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    session->event_sock = pair[0];
    answer->fds.fd[answer->fds.count++] = pair[1];
    session->doorbell_watch =
        vipd_watch_new(loop, session->doorbell, VIPD_READ, on_doorbell, client);
    session->event_watch =
        vipd_watch_new(loop, session->event_sock, VIPD_READ, on_event_sock, client);
    return session->doorbell_watch && session->event_watch ? 0 : -ENOMEM;
}

/* ---- the session ------------------------------------------------------------------------- */

/* Stop watching the bell and the event socket of a session that ends. */
static void session_hush(const struct client *client)
{
    vipd_watch_set(client->session->doorbell_watch, 0);
    vipd_watch_set(client->session->event_watch, 0);
}

bool session_end(struct client *client, bool died, unsigned *ends)
{
    struct undertaker *undertaker = client->vipd->undertaker;
    struct session *session = client->session;
    uint64_t now_ns = vipd_loop_now(client->vipd->loop);

    if (!session)
        return true;
    client->vipd->used_ns = now_ns;
    if (session->nic_session && !nic_session_end(session->nic_session, died, now_ns, ends)) {
        session_hush(client);
        return false;
    }
    for (; session->returning > 0; session->returning--)
        return_ended(client->vipd, "the program ended");
    /* Clear client->session only now: nic_session_end may call the sink, which uses
     * client->session. */
    client->session = NULL;
    segment_closed(session);
    for (unsigned i = 0; i < SESSION_MAPS; i++)
        guard_remove(session->guard[i]);
    if (session->registry)
        registry_free(session->registry);
    vipd_watch_free(session->doorbell_watch);
    vipd_watch_free(session->event_watch);
    events_drop(session);
    for (unsigned i = 0; i < SESSION_MAPS; i++)
        taken_put(client->vipd->taken, session->taken[i]);
    undertaker_unmap(undertaker, client->uid, session->app_base, session->layout->app_bytes, NULL);
    undertaker_unmap(undertaker, client->uid, session->vipd_base, session->layout->vipd_bytes,
                     NULL);
    undertaker_unmap(undertaker, client->uid, session->recv_base, VIP_RECV_BYTES, NULL);
    undertaker_unmap(undertaker, client->uid, session->loan_base, VIP_LOANS_BYTES, NULL);
    if (session->segment >= 0)
        close(session->segment);
    if (session->doorbell >= 0)
        close(session->doorbell);
    if (session->event_sock >= 0)
        (void)shutdown(session->event_sock, SHUT_RDWR);
    undertaker_close(undertaker, client->uid, session->event_sock);
    free(session);
    return true;
}

static uint64_t sessions_of(const struct vipd *vipd, uid_t uid)
{
    uint64_t count = 0;

    for (const struct client *c = vipd->clients; c; c = c->next)
        count += c->uid == uid && c->session;
    return count;
}

static int make_registry(struct client *client, struct session *session, struct vip_fds *fds)
{
    const struct vipd_config *config = client->vipd->config;
    struct registry_limits limits = {
        .regions_max = (uint32_t)config->register_regions,
        .bytes_max = config->register_bytes,
        .ptags_max = (uint32_t)config->ptags,
        .undertaker = client->vipd->undertaker,
        .taken = client->vipd->taken,
        .owner = client->uid,
    };
    int fd = fds->fd[1];

    if (getrandom(&limits.handle_seed, sizeof(limits.handle_seed), 0) < 0)
        return -errno;
    fds->fd[1] = -1; /* registry_new closes the file, also after a failure */
    return registry_new(&limits, fd, &session->registry);
}

static int make_nic_session(struct client *client, struct session *session, uint32_t sq_position)
{
    struct nic_session_args args = {
        .id = session->id,
        .uid = client->uid,
        .layout = session->layout,
        .app_base = session->app_base,
        .vipd_base = session->vipd_base,
        .sq_position = sq_position,
        .registry = session->registry,
        .sink = &client_sink,
        .ctx = client,
    };

    return nic_session_new(session_nic(client), &args, session->opened_ns, &session->nic_session);
}

/* Find out when the process began, because only the same process may claim the session later.
 * Outcomes: 0, also if the time is unknown; a negative errno: vipd lacks descriptors or memory. */
static int know_process(const struct client *client, struct session *session)
{
    session->start_ticks = process_start(client->pid);
    return session->start_ticks == 0 && lacks_resources(-errno) ? -errno : 0;
}

/* Make all parts of a session; the caller frees them. Outcomes: 0; a negative errno: the answer has
 * the reason. */
static int session_fill(struct client *client, const Vip__Claim *claim, struct vip_fds *fds,
                        struct answer *answer)
{
    struct session *session = client->session;
    int r;

    r = segment_map_app(client, session, fds->fd[0], answer);
    if (r < 0)
        return r;
    r = make_registry(client, session, fds);
    if (r == -EBADMSG) {
        answer_set(answer, VIP_RC_ERROR_RESOURCE,
                   "the memory that the program shares with its NICs (the arena) is not a memfd of "
                   "%llu bytes%s",
                   VIP_ARENA_BYTES,
                   memfile_protects()
                       ? " that is immutable (CAP_LINUX_IMMUTABLE): close the NICs of the other "
                         "vipd first, which could not make it so, and deregister their memory"
                       : " with the seals SHRINK and GROW");
        return r;
    }
    if (r == 0)
        r = know_process(client, session);
    if (r == 0)
        r = claim ? segment_claim(client, session, fds->fd[2], answer)
                  : segment_make(client, session, answer);
    if (r == -EPERM && answer->reply.code != VIP_RC_SUCCESS)
        return r;
    if (r == 0 && !memory_within_limit(client, answer))
        return -EDQUOT;
    if (r == 0) {
        struct guard *guard = registry_guard(session->registry);

        session->guard[0] = guard_add(guard, session->app_base, session->layout->app_bytes);
        session->guard[1] = guard_add(guard, session->vipd_base, session->layout->vipd_bytes);
        r = make_channels(client, session, answer);
    }
    if (r == 0)
        r = make_nic_session(client, session, claim ? claim->sq_position : 0);
    if (r == 0)
        segment_own(client, session);
    session->outlives = session->layout->outlives && client->vipd->config->outlive_ns > 0;
    if (r < 0)
        answer_set(answer, VIP_RC_ERROR_RESOURCE, "vipd cannot set up one more session: %s",
                   strerror(-r));
    return r;
}

static void fill_nic_attributes(const struct client *client, struct answer *answer)
{
    const struct vipd *vipd = client->vipd;
    const struct vipd_nic *vn = &vipd->nics[client->session->nic];
    const struct link *link = nic_link(vn->nic);
    Vip__NicAttributes *nic = &answer->nic;

    vip__nic_attributes__init(nic);
    nic->name = (char *)vn->config->name;
    nic->has_hardware_version = true;
    nic->hardware_version = 1;
    nic->has_provider_version = true;
    nic->provider_version = 1;
    nic->has_local_address = true;
    nic->local_address.len = link->self.len;
    nic->local_address.data = (uint8_t *)link->self.bytes;
    nic->has_max_discriminator_len = true;
    nic->max_discriminator_len = VIP_DISCRIMINATOR_BYTES_MAX;
    nic->has_max_register_bytes = true;
    nic->max_register_bytes = vipd->config->register_bytes;
    nic->has_max_register_regions = true;
    nic->max_register_regions = vipd->config->register_regions;
    nic->has_max_register_block_bytes = true;
    nic->max_register_block_bytes = VIP_REGION_BYTES_MAX < vipd->config->register_bytes
                                        ? VIP_REGION_BYTES_MAX
                                        : vipd->config->register_bytes;
    nic->has_max_vi = true;
    nic->max_vi = vipd->config->vis;
    nic->has_max_descriptors_per_queue = true;
    nic->max_descriptors_per_queue = VIP_DESC_PER_QUEUE_MAX;
    nic->has_max_segments_per_desc = true;
    nic->max_segments_per_desc = VIP_SEGS_PER_DESC_MAX;
    nic->has_max_cq = true;
    nic->max_cq = vipd->config->cqs;
    nic->has_max_cq_entries = true;
    nic->max_cq_entries = VIP_CQ_ENTRIES_MAX;
    nic->has_max_transfer_size = true;
    nic->max_transfer_size = VIP_TRANSFER_BYTES_MAX;
    nic->has_native_mtu = true;
    nic->native_mtu = link->packet_bytes;
    nic->has_max_ptags = true;
    nic->max_ptags = vipd->config->ptags;
    nic->has_reliability_level_support = true;
    nic->reliability_level_support = NIC_LEVELS;
    nic->has_rdma_read_support = true;
    nic->rdma_read_support = NIC_RDMA_READ_LEVELS;
    nic->link = (char *)link_kind_name(link->kind);
    answer->open.nic = nic;
}

static void fill_reply(const struct client *client, struct answer *answer)
{
    const struct vipd *vipd = client->vipd;

    vip__open_reply__init(&answer->open);
    answer->open.has_abi = true;
    answer->open.abi = client->session->layout->abi;
    answer->open.daemon_version = (char *)VIP_VERSION;
    answer->open.has_cpus = true;
    answer->open.cpus = vipd->cpus;
    answer->open.has_spin_ns = true;
    answer->open.spin_ns = vipd->config->wait == VIPD_WAIT_BLOCK ? 0 : vipd->config->spin_ns;
    answer->open.has_direct = true;
    answer->open.direct = vipd->config->direct;
    answer->open.has_outlive_ms = true;
    answer->open.outlive_ms = client->session->outlives ? vipd->config->outlive_ns / 1000000 : 0;
    answer->open.has_past_rings = true;
    answer->open.past_rings = true;
    answer->open.has_loans = true;
    answer->open.loans = true;
    fill_nic_attributes(client, answer);
    answer->reply.open = &answer->open;
}

/* Copy a text that a program chose, shortened, and without control characters (for logs). */
static void keep_text(char *to, const char *from)
{
    if (!from || from[0] == '\0')
        return;
    strncpy(to, from, CLIENT_PROGRAM_BYTES - 1);
    to[CLIENT_PROGRAM_BYTES - 1] = '\0';
    vipd_log_clean(to);
}

bool client_may_open(const struct client *client, struct answer *answer)
{
    const struct vipd *vipd = client->vipd;
    const char *group = vipd->config->open_group;

    if (vipd->draining) {
        answer_set(answer, VIP_RC_ERROR_RESOURCE,
                   "vipd is being drained for its end: no NIC is opened until vipctl resume");
        return false;
    }
    if (group[0] == '\0' || client->uid == 0 || client->uid == geteuid() ||
        client_in_group(client, vipd->open_gid))
        return true;
    answer_set(answer, VIP_RC_ERROR_RESOURCE,
               "uid %lu may not open NICs: [daemon] open_group = %s allows that group only; "
               "usermod -aG %s USER, then log in again",
               (unsigned long)client->uid, group, group);
    return false;
}

/*
 * Is there room for one more session, beside the user's ended sessions whose memory is not freed
 * yet? The user cannot speed up the freeing. So the answer tells libvipl to ask again later.
 */
static bool room_to_open(struct client *client, struct answer *answer)
{
    struct undertaker_share waiting;

    undertaker_waiting(client->vipd->undertaker, client->uid, &waiting);
    if (waiting.sessions < SESSIONS_WAITING_MAX)
        return true;
    answer_set(answer, VIP_RC_ERROR_RESOURCE,
               "the memory of %u NIC handles that uid %lu has closed is still being freed, the "
               "most is %u: try again in a second",
               waiting.sessions, (unsigned long)client->uid, SESSIONS_WAITING_MAX);
    answer_again(answer, FREED_AGAIN_MS);
    return false;
}

/*
 * Has the NIC an address? It has none if its interface has been missing, or has had too small an
 * MTU, since vipd started. A program that comes back waits for the address.
 */
static bool has_address(struct vipd *vipd, const struct vipd_nic *nic, bool claim,
                        struct answer *answer)
{
    const struct link *link = nic_link(nic->nic);

    if (link->self.len > 0)
        return true;
    answer_set(answer, VIP_RC_ERROR_RESOURCE, "%s is down (%s) and has no address yet",
               nic->config->name, link->why_down);
    if (claim) {
        answer_again(answer, DOWN_AGAIN_MS);
        return_later(vipd, answer->reason);
    }
    return false;
}

/* Check the request before anything is made. Returns the NIC's index; -1: the answer says what is
 * wrong. */
static int open_checks(struct client *client, const Vip__OpenRequest *open, struct answer *answer)
{
    struct vipd *vipd = client->vipd;
    const char *device = open->device ? open->device : "";
    int nic;

    if (!nic_layout(open->abi)) {
        answer_set(answer, VIP_RC_ERROR_RESOURCE,
                   "the library has shared-memory ABI %u, vipd " VIP_VERSION
                   " has %u and also takes %u: install the same version of both",
                   open->abi, VIP_SHM_ABI, VIP_SHM3_ABI);
        return -1;
    }
    nic = vipd_device_find(vipd->config, device);
    if (nic < 0) {
        answer_set(answer, VIP_RC_INVALID_PARAMETER,
                   "no NIC is called '%.64s': vipctl show nic lists names and aliases; "
                   "[nic:NAME] aliases adds one",
                   device);
        return -1;
    }
    if (open->claim && (vipd->config->outlive_ns == 0 || !nic_layout(open->abi)->outlives)) {
        answer_set(answer, VIP_RC_INVALID_STATE,
                   "this vipd does not go on with NIC handles of an earlier one: [reliability] "
                   "outlive is 0, or the library is too old");
        return -1;
    }
    if (!has_address(vipd, &vipd->nics[nic], open->claim != NULL, answer))
        return -1;
    /* A program that claims a session opens nothing: it already has its NIC handle. */
    if (!open->claim && !client_may_open(client, answer))
        return -1;
    if (sessions_of(vipd, client->uid) >= vipd->config->sessions_per_uid) {
        answer_set(answer, VIP_RC_ERROR_RESOURCE,
                   "uid %lu has %llu NIC handles open: the limit is [limits] sessions_per_uid",
                   (unsigned long)client->uid, (unsigned long long)vipd->config->sessions_per_uid);
        return -1;
    }
    return room_to_open(client, answer) ? nic : -1;
}

static void log_open(const struct client *client)
{
    struct vipd *vipd = client->vipd;

    client_note(client, HISTORY_OPEN, false, HISTORY_NO_VI, "VipOpenNic",
                client->session->library_version);

    vipd_log_limited(&vipd->client_log, vipd_loop_now(vipd->loop), VIPD_LOG_INFO,
                     "session %llu (%s, pid %ld, uid %lu) %s %s",
                     (unsigned long long)client->session->id, client->program, (long)client->pid,
                     (unsigned long)client->uid,
                     client->session->claimed ? "of an earlier vipd goes on with" : "opened",
                     vipd->nics[client->session->nic].config->name);
}

/* If rc (a negative errno) means that vipd lacks descriptors or memory now, tell a program that
 * comes back to ask again. */
static void come_later(struct vipd *vipd, const Vip__OpenRequest *open, int rc,
                       struct answer *answer)
{
    if (!open->claim || !lacks_resources(rc))
        return;
    answer_again(answer, LACK_AGAIN_MS);
    return_later(vipd, answer->reason);
}

static void not_opened(struct vipd *vipd, const Vip__OpenRequest *open, const struct answer *answer)
{
    if (answer->reply.open) {
        vipd->counters.open_again++;
        return;
    }
    vipd->counters.open_refused++;
    if (open->claim)
        return_refused(vipd, answer->reason);
}

void request_open(struct client *client, const Vip__Request *request, struct vip_fds *fds,
                  struct answer *answer)
{
    struct vipd *vipd = client->vipd;
    struct session *session;
    int nic, r;

    if (client->session) {
        client_end(client, CLIENT_END_REOPEN, NULL);
        return;
    }
    if ((fds->count == 3) != (request->open->claim != NULL)) {
        client_end(client, CLIENT_END_FDS, "open");
        return;
    }
    keep_text(client->program, request->open->program);
    nic = open_checks(client, request->open, answer);
    if (nic < 0) {
        not_opened(vipd, request->open, answer);
        return;
    }
    session = calloc(1, sizeof(*session));
    if (!session) {
        answer_set(answer, VIP_RC_ERROR_RESOURCE, "vipd has no memory for one more session");
        come_later(vipd, request->open, -ENOMEM, answer);
        not_opened(vipd, request->open, answer);
        return;
    }
    session->id = ++vipd->next_session_id;
    session->nic = (unsigned)nic;
    session->layout = nic_layout(request->open->abi);
    session->claimed = request->open->claim != NULL;
    session->segment = -1;
    session->doorbell = -1;
    session->event_sock = -1;
    session->events_tail = &session->events;
    session->opened_ns = vipd_loop_now(vipd->loop);
    vipd->used_ns = session->opened_ns;
    keep_text(session->library_version, request->open->library_version);
    client->session = session;
    r = session_fill(client, request->open->claim, fds, answer);
    if (r < 0) {
        come_later(vipd, request->open, r, answer);
        if (answer->reply.open)
            segment_hand_back(session);
        vip_fds_close(&answer->fds);
        (void)session_end(client, false, &(unsigned){0}); /* a session without VIs ends at once */
        not_opened(vipd, request->open, answer);
        return;
    }
    if (client->session->claimed)
        return_begin(vipd);
    vipd->counters.opened++;
    log_open(client);
    fill_reply(client, answer);
}

void request_direct(struct client *client, const Vip__Request *request, struct vip_fds *fds,
                    struct answer *answer)
{
    struct session *session = client->session;
    const char *fault = segment_app_fault(fds->fd[0], VIP_RECV_BYTES);
    struct taken_file *taken = NULL;
    void *base;
    int rc;

    (void)request;
    if (fault) {
        answer_set(answer, VIP_RC_INVALID_PARAMETER, "the table of receives %s", fault);
        return;
    }
    rc = segment_count(client, fds->fd[0], &taken);
    if (rc < 0) {
        answer_set(answer, VIP_RC_ERROR_RESOURCE, "vipd cannot count the table of receives: %s",
                   strerror(-rc));
        return;
    }
    base = memfile_map(fds->fd[0], VIP_RECV_BYTES, 0, false);
    if (!base) {
        answer_set(answer, VIP_RC_ERROR_RESOURCE, "vipd cannot map the table of receives: %s",
                   strerror(errno));
        taken_put(client->vipd->taken, taken);
        return;
    }
    if (nic_session_set_receives(session->nic_session, base) < 0) {
        munmap(base, VIP_RECV_BYTES);
        taken_put(client->vipd->taken, taken);
        answer_set(answer, VIP_RC_INVALID_STATE,
                   "the table of receives comes once, before the first VI");
        return;
    }
    session->recv_base = base;
    session->taken[2] = taken;
    session->guard[2] = guard_add(registry_guard(session->registry), base, VIP_RECV_BYTES);
}
