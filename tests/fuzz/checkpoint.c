/*
 * Fuzz: programs claim sessions of an earlier life at a vipd with one loop NIC. Their vipd-writes
 * segments may have any contents: heads, words of VIs, completions, entries of CQs. The programs
 * bring CQs, VIs with good and bad tickets (also the two VIs of one connection), tables of receives
 * and rings. They bind connections anew, post, leave and claim again. vipd must accept the good
 * segments only, and write only words of these programs' VIs and CQs. Each request gets one reply
 * or ends its connection. A neighbour program must still work, and in the end vipd keeps nothing.
 */
#include "fuzz/control_send.h"

#include <sched.h>
#include <sys/stat.h>

#include "proto/comps.h"
#include "proto/direct.h"
#include "vipd/client/client.h"
#include "vipd/client/internal.h"
#include "vipd/nic/nic.h"
#include "vipd/registry/undertaker.h"
#include "vipd/start.h"
#include "vipd/ticket.h"

#define PROGRAMS 2u
#define VIS      8u /* VI numbers of the programs; the limit of vipd, too */
#define CQS      4u
#define SEALS    (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW)
#define SLOTS    16u /* slots of a table or ring that an input changes */

struct program {
    int sock;  /* -1: not connected */
    int fd[3]; /* the descriptors of the OpenReply */
    int segment;
    uint8_t *base; /* the segment; NULL: not made yet */
    bool odd;      /* the segment's file is of a kind that no vipd makes */
    uint32_t posted;
};

static struct vipd vipd;
static struct program programs[PROGRAMS], neighbour = {.sock = -1};
static int ring[2] = {-1, -1}, table_fd, neighbour_app;
static struct vip_direct *ring_map[2];
static uint8_t *table;
static uint64_t own_start;
static const struct vip_app_head app_head = {
    .magic = VIP_SHM_APP_MAGIC, .abi = VIP_SHM_ABI, .bytes = VIP_APP_BYTES};

static int lowest_fd(void)
{
    int fd = fcntl(0, F_DUPFD_CLOEXEC, 0);

    FUZZ_CHECK(fd >= 0);
    close(fd);
    return fd;
}

static uint8_t *map(int fd, uint64_t bytes)
{
    uint8_t *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);

    FUZZ_CHECK(base != MAP_FAILED);
    return base;
}

void fuzz_begin(void)
{
    static char runtime[] = "/nonexistent";
    struct vipd_config *config = vipd_config_default();
    char err[256] = "";

    vipd_log_set_level((enum vipd_log_level)0); /* log nothing: vipd refuses most requests */
    config->nics[0].link = LINK_LOOP;
    config->outlive_ns = 1000000000;
    config->vis = VIS;
    config->cqs = CQS;
    if (ticket_init() < 0 || vipd_start(config, runtime, NULL, &vipd, err, sizeof(err)) < 0) {
        fprintf(stderr, "%s\n", err);
        abort();
    }
    control_fds_make();
    table_fd = control_memfd(VIP_RECV_BYTES, 0);
    table = map(table_fd, VIP_RECV_BYTES);
    FUZZ_CHECK(fcntl(table_fd, F_ADD_SEALS, SEALS | F_SEAL_FUTURE_WRITE) == 0);
    neighbour_app = control_memfd(VIP_APP_BYTES, 0);
    FUZZ_CHECK(pwrite(neighbour_app, &app_head, sizeof(app_head), 0) == sizeof(app_head));
    FUZZ_CHECK(fcntl(neighbour_app, F_ADD_SEALS, SEALS | F_SEAL_FUTURE_WRITE) == 0);
    own_start = process_start(getpid());
    FUZZ_CHECK(own_start > 0);
    for (unsigned i = 0; i < PROGRAMS; i++)
        programs[i].sock = programs[i].segment = -1;
}

/* ---- vipd's side ----------------------------------------------------------------------------- */

static void serve(unsigned rounds)
{
    while (rounds--) {
        for (struct client *c = vipd.clients; c; c = c->next)
            for (unsigned i = 0; i < 32 && client_serve(c);)
                i++;
        nic_turn(vipd.nics[0].nic, vipd_loop_now(vipd.loop));
        for (struct client *c = vipd.clients; c; c = c->next)
            if (c->session && c->end == CLIENT_END_NONE)
                events_receive(c);
        clients_reap(&vipd);
    }
}

/* True if vipd has put off work, because many descriptors wait for the undertaker. This test has no
 * event loop that would continue the work later, so the function marks the work as due. */
static bool held_back(void)
{
    bool held = vipd.held_back;

    vipd.held_back = false;
    vipd.ending += held;
    if (held)
        sched_yield();
    return held;
}

/* True if a session of vipd uses this file. */
static bool in_use(int fd)
{
    struct stat ours, theirs;

    FUZZ_CHECK(fstat(fd, &ours) == 0);
    for (const struct client *c = vipd.clients; c; c = c->next)
        if (c->session && fstat(c->session->segment, &theirs) == 0 && theirs.st_ino == ours.st_ino)
            return true;
    return false;
}

/* ---- programs -------------------------------------------------------------------------------- */

static void leave(struct program *p)
{
    if (p->sock < 0)
        return;
    close(p->sock);
    for (unsigned i = 0; i < 3; i++)
        if (p->fd[i] >= 0)
            close(p->fd[i]);
    p->sock = -1;
}

static void come(struct program *p)
{
    int pair[2];

    FUZZ_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
    FUZZ_CHECK(client_new(&vipd, pair[0]) == 0);
    p->sock = pair[1];
    p->fd[0] = p->fd[1] = p->fd[2] = -1;
}

static void hear_events(struct program *p)
{
    ProtobufCMessage *message;
    struct vip_fds fds;

    while (p->sock >= 0 && p->fd[2] >= 0 &&
           vip_control_recv(p->fd[2], &vip__event__descriptor, MSG_DONTWAIT, &message, &fds) == 0) {
        vip_fds_close(&fds);
        protobuf_c_message_free_unpacked(message, NULL);
    }
}

/* Returns vipd's reply to the request, or NULL if vipd has ended the connection. */
static Vip__Reply *ask(struct program *p, const Vip__Request *request, const int *fds,
                       unsigned count)
{
    ProtobufCMessage *message, *second;
    struct vip_fds got, none;
    Vip__Reply *reply;
    int r = vip_control_send(p->sock, &request->base, fds, count, MSG_DONTWAIT);

    if (r == 0)
        do {
            serve(2);
            r = vip_control_recv(p->sock, &vip__reply__descriptor, MSG_DONTWAIT, &message, &got);
        } while (r == -EAGAIN && held_back());
    FUZZ_CHECK(r == 0 || r == -EPIPE);
    if (r < 0) {
        leave(p);
        return NULL;
    }
    reply = (Vip__Reply *)message;
    FUZZ_CHECK((reply->code == VIP_RC_SUCCESS) == (reply->reason == NULL));
    FUZZ_CHECK(got.count == (reply->open && reply->code == VIP_RC_SUCCESS ? 3 : 0));
    if (got.count == 3)
        memcpy(p->fd, got.fd, sizeof(p->fd));
    r = vip_control_recv(p->sock, &vip__reply__descriptor, MSG_DONTWAIT, &second, &none);
    FUZZ_CHECK(r == -EAGAIN || r == -EPIPE);
    return reply;
}

static enum vip_rc ask_code(struct program *p, const Vip__Request *request, int fd)
{
    Vip__Reply *reply = ask(p, request, &fd, fd >= 0);
    enum vip_rc code = reply ? (enum vip_rc)reply->code : VIP_RC_ERROR_RESOURCE;

    if (reply)
        vip__reply__free_unpacked(reply, NULL);
    return code;
}

/* ---- segments of an earlier life ------------------------------------------------------------- */

static void head_good(struct program *p)
{
    *(struct vip_vipd_head *)(void *)p->base = (struct vip_vipd_head){.magic = VIP_SHM_VIPD_MAGIC,
                                                                      .abi = VIP_SHM_ABI,
                                                                      .bytes = VIP_VIPD_BYTES,
                                                                      .epoch = ~vipd.epoch,
                                                                      .start_ticks = own_start,
                                                                      .pid = (uint32_t)getpid(),
                                                                      .uid = geteuid()};
}

/* Make the file of a segment. kind: 0 a good one; otherwise one that no vipd makes. */
static void past_make(struct program *p, unsigned kind)
{
    uint64_t bytes = kind == 1 ? VIP_VIPD_BYTES + 4096 : VIP_VIPD_BYTES;

    p->segment = control_memfd(bytes, 0);
    p->base = map(p->segment, VIP_VIPD_BYTES);
    p->odd = kind != 0;
    head_good(p);
    FUZZ_CHECK(fchmod(p->segment, kind == 2 ? 0644 : 0600) == 0);
    FUZZ_CHECK(fcntl(p->segment, F_ADD_SEALS, kind == 3 ? SEALS & ~F_SEAL_GROW : SEALS) == 0);
}

/* True if vipd must accept the segment. */
static bool is_good(const struct program *p)
{
    const struct vip_vipd_head *head = (const void *)p->base;

    return !p->odd && head->magic == VIP_SHM_VIPD_MAGIC && head->abi == VIP_SHM_ABI &&
           head->bytes == VIP_VIPD_BYTES && head->uid == geteuid() &&
           head->pid == (uint32_t)getpid() && head->start_ticks == own_start && !head->closed &&
           head->epoch != vipd.epoch && !in_use(p->segment);
}

static uint32_t number(struct fuzz_in *in)
{
    return (uint32_t)fuzz_number(in);
}

static void change_words(uint8_t *at, uint32_t bytes, struct fuzz_in *in)
{
    unsigned count = 1 + fuzz_8(in) % 8;

    while (count--) {
        uint32_t offset = fuzz_below(in, bytes / 4) * 4, word = number(in);

        memcpy(at + offset, &word, sizeof(word));
    }
}

static void change_head(struct program *p, struct fuzz_in *in)
{
    struct vip_vipd_head *head = (void *)p->base;

    switch (fuzz_8(in) % 10) {
    case 0:
        head->magic = number(in);
        break;
    case 1:
        head->abi = number(in);
        break;
    case 2:
        head->bytes = fuzz_number(in);
        break;
    case 3:
        head->epoch = fuzz_8(in) & 1 ? vipd.epoch : fuzz_number(in);
        break;
    case 4:
        head->start_ticks = fuzz_number(in);
        break;
    case 5:
        head->pid = number(in);
        break;
    case 6:
        head->uid = number(in);
        break;
    case 7:
        head->closed = fuzz_8(in) & 1;
        break;
    default: /* the head that a killed vipd leaves */
        head_good(p);
    }
}

/* Write the words of a VI that was connected when the earlier vipd was killed. */
static void vi_good(struct program *p, struct fuzz_in *in)
{
    uint8_t how = fuzz_8(in);
    uint16_t vi = how % VIS;
    struct vip_vipd_vi *head = vip_vipd_vi(p->base, vi);
    struct vip_comps_out comps;
    struct vip_comp comp = {.status = 1};

    head->state = VIP_VIST_CONNECTED;
    head->ended = head->ring_mute = 0;
    head->ring = how & 8 ? VIP_RING_OPEN : VIP_RING_NONE;
    head->ring_vipd = how >> 6;
    head->commit.received = head->prod[VIP_Q_RECV] = fuzz_8(in);
    head->prod[VIP_Q_SEND] = fuzz_8(in);
    for (unsigned queue = 0; queue < 2 && how & 16; queue++) {
        uint32_t from = head->prod[queue], end = from + fuzz_8(in) % 4;

        vip_comps_begin(&comps, p->base, vi, queue, from - (how & 32 ? VIP_COMP_SHORT : 2));
        for (uint32_t at = comps.since; at != end; at++) {
            struct vip_comp *to = vip_comps_slot(&comps, at);

            vip_comp_fill(to, at, &comp);
            (void)vip_comp_stamp(to, at);
        }
    }
}

/* Change words that vipd writes to the segment. */
static void change_past(struct program *p, struct fuzz_in *in)
{
    uint8_t how = fuzz_8(in);
    uint16_t vi = how % VIS;
    unsigned queue = how >> 3 & 1;

    switch (how >> 4 & 7) {
    case 0:
        change_head(p, in);
        break;
    case 1:
    case 2:
        change_words((uint8_t *)vip_vipd_vi(p->base, vi), sizeof(struct vip_vipd_vi), in);
        break;
    case 3:
        change_words(p->base + vip_comp_short_off(vi, queue), VIP_COMP_UNIT, in);
        break;
    case 4:
        change_words(p->base + vip_comp_long_off(vi, queue), VIP_COMP_RING_BYTES, in);
        break;
    case 5:
        change_words(p->base + VIP_VIPD_CQ_OFF + how % CQS * VIP_VIPD_CQ_STRIDE, 1024, in);
        break;
    default:
        vi_good(p, in);
    }
}

/* Change words that programs may write. */
static void change_own(struct fuzz_in *in)
{
    uint8_t how = fuzz_8(in);
    struct vip_direct_way *way = &ring_map[how >> 3 & 1]->way[how & 1];

    switch (how >> 4 & 7) {
    case 0:
    case 1:
        change_words(table + (uint64_t)(how % VIS) * VIP_RECV_STRIDE, 64 + SLOTS * 64, in);
        break;
    case 2:
    case 3:
        change_words((uint8_t *)&way->slot[0], SLOTS * 64, in);
        break;
    case 4:
    case 5:
        change_words((uint8_t *)way, offsetof(struct vip_direct_way, slot), in);
        break;
    case 6:
        change_words(control_app + VIP_APP_VI_OFF, VIS * 32, in);
        break;
    default:
        change_words(control_app + VIP_APP_CQ_OFF, CQS * 16, in);
    }
}

/* ---- claims of sessions ---------------------------------------------------------------------- */

static void offer(struct program *p, struct fuzz_in *in)
{
    Vip__Claim claim = VIP__CLAIM__INIT;
    Vip__OpenRequest open = VIP__OPEN_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    int fds[3] = {control_fd[CONTROL_FD_APP], control_fd[CONTROL_FD_ARENA], p->segment};
    bool good = is_good(p);
    Vip__Reply *reply;

    claim.has_sq_position = true;
    claim.sq_position = p->posted = number(in);
    open.has_abi = true;
    open.abi = VIP_SHM_ABI;
    open.device = (char *)"vip0";
    open.claim = &claim;
    request.body_case = VIP__REQUEST__BODY_OPEN;
    request.open = &open;
    leave(p);
    come(p);
    for (;;) {
        reply = ask(p, &request, fds, 3);
        FUZZ_CHECK(reply);
        /* vipd may reply with again_ms while the undertaker frees the mapping of a session. */
        if (!good || !reply->open || reply->open->again_ms == 0)
            break;
        vip__reply__free_unpacked(reply, NULL);
        sched_yield();
    }
    FUZZ_CHECK((reply->code == VIP_RC_SUCCESS) == good);
    vip__reply__free_unpacked(reply, NULL);
}

static void cq_back(struct program *p, struct fuzz_in *in)
{
    Vip__CqRequest cq = VIP__CQ_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;

    cq.has_cq = true;
    cq.cq = fuzz_8(in) % (CQS + 1);
    request.body_case = VIP__REQUEST__BODY_CREATE_CQ;
    request.create_cq = &cq;
    ask_code(p, &request, -1);
}

static void make_ticket(const Vip__PastVi *past, struct fuzz_in *in, uint8_t ret[TICKET_BYTES])
{
    const struct link_addr *self = &nic_link(vipd.nics[0].nic)->self;
    uint8_t how = fuzz_8(in), wrong = fuzz_8(in);
    struct ticket ticket = {
        .uid = geteuid() + (wrong == 1),
        .pid = (uint64_t)getpid() + (wrong == 2),
        .start_ticks = own_start + (wrong == 3),
        .vi = {.vi = (uint16_t)past->vi,
               .generation = past->generation + (wrong == 4),
               .args.attrs = {.level = VIP_LVL_DELIVERY, .max_transfer_bytes = 65536},
               .connected = wrong != 5,
               .peer_disc_len = wrong == 6 ? fuzz_8(in) : 4,
               .secret = {how & 3, 7},
               .asked = how >> 2 & 1,
               .features = VIP_FEATURES | VIP_FEATURE_REBIND}};

    if (wrong == 7)
        ticket.vi.features = fuzz_number(in);
    if (wrong == 8)
        ticket.vi.args.attrs.level = fuzz_8(in);
    ticket.vi.completed = how & 8 ? number(in) : 0;
    ticket.vi.done = how & 16 ? number(in) : 0;
    snprintf(ticket.nic, sizeof(ticket.nic), wrong == 9 ? "vip1" : "vip0");
    ticket.self.len = ticket.vi.peer.len = self->len;
    memcpy(ticket.self.bytes, self->bytes, self->len);
    memcpy(ticket.vi.peer.bytes, self->bytes, self->len);
    ticket.vi.peer.bytes[5] ^= how & 32;
    ticket_seal(&vipd.ticket_key, &ticket, ret);
    if (wrong == 10)
        ret[fuzz_16(in) % TICKET_BYTES] ^= 1;
}

/* vipd has accepted the VI: in the segment, the VI's words must be words that a vipd writes. */
static void check_vi(const struct program *p, const Vip__PastVi *past,
                     const Vip__CreateViReply *got)
{
    const struct vip_vipd_vi *head = vip_vipd_vi(p->base, (uint16_t)past->vi);

    FUZZ_CHECK(got && got->vi == past->vi && got->generation == past->generation);
    FUZZ_CHECK(head->generation == past->generation);
    FUZZ_CHECK(head->state == (got->rebind ? VIP_VIST_CONNECTED : VIP_VIST_IDLE));
    for (unsigned queue = 0; queue < 2; queue++) {
        uint32_t where = vip_comp_at_read(&head->at[queue]).where;
        uint16_t vi = (uint16_t)past->vi;

        FUZZ_CHECK(where == vip_comp_at(0, vip_comp_short_off(vi, queue), VIP_COMP_SHORT).where ||
                   where ==
                       vip_comp_at(0, vip_comp_long_off(vi, queue), VIP_DESC_PER_QUEUE_MAX).where);
    }
}

static void vi_back(struct program *p, struct fuzz_in *in)
{
    Vip__PastVi past = VIP__PAST_VI__INIT;
    Vip__ViAttributes attributes = VIP__VI_ATTRIBUTES__INIT;
    Vip__CreateViRequest create = VIP__CREATE_VI_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    uint8_t ticket[TICKET_BYTES], how = fuzz_8(in), more = fuzz_8(in);
    Vip__Reply *reply;
    int fd = -1;

    attributes.has_reliability_level = attributes.has_max_transfer_size = true;
    attributes.reliability_level = VIP_LVL_DELIVERY;
    attributes.max_transfer_size = 65536;
    past.has_vi = past.has_generation = past.has_recv_base = past.has_idle = true;
    past.has_send_entries = past.has_recv_entries = true;
    past.vi = how % VIS;
    past.generation = 1 + (how >> 3 & 1);
    past.recv_base = more & 1 ? number(in) : 0;
    past.idle = (how & 0xF0) == 0xF0;
    past.send_entries = more & 2 ? number(in) : 0;
    past.recv_entries = more & 4 ? number(in) : 0;
    make_ticket(&past, in, ticket);
    past.has_ticket = (how & 0xF0) != 0xE0;
    past.ticket.data = ticket;
    past.ticket.len = (how & 0xF0) == 0xD0 ? fuzz_16(in) % TICKET_BYTES : TICKET_BYTES;
    create.attributes = &attributes;
    create.has_send_cq = more >> 3 & 1;
    create.has_recv_cq = more >> 4 & 1;
    create.send_cq = create.recv_cq = fuzz_8(in) % CQS;
    create.past = &past;
    if (more & 32) {
        past.has_ring_half = past.has_ring_first = true;
        past.ring_half = past.vi & 1;
        past.ring_first = vip_vipd_vi(p->base, (uint16_t)past.vi)->commit.received + past.recv_base;
        fd = ring[more >> 6 & 1];
    }
    if ((more & 0xE0) == 0xE0) {
        past.ring_half = fuzz_8(in);
        past.ring_first += (uint32_t)fuzz_8(in) - 128;
    }
    request.body_case = VIP__REQUEST__BODY_CREATE_VI;
    request.create_vi = &create;
    reply = ask(p, &request, &fd, fd >= 0);
    if (!reply)
        return;
    if (reply->code == VIP_RC_SUCCESS)
        check_vi(p, &past, reply->create_vi);
    vip__reply__free_unpacked(reply, NULL);
}

static void about_vi(struct program *p, struct fuzz_in *in)
{
    static const Vip__Request__BodyCase what[] = {
        VIP__REQUEST__BODY_REBIND, VIP__REQUEST__BODY_REBIND, VIP__REQUEST__BODY_DISCONNECT,
        VIP__REQUEST__BODY_DESTROY_VI};
    Vip__ViRequest body = VIP__VI_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    uint8_t how = fuzz_8(in);

    body.has_vi = true;
    body.vi = how % VIS;
    request.body_case = what[how >> 3 & 3];
    request.rebind = &body; /* all requests in what[] have the type of `rebind` */
    ask_code(p, &request, -1);
}

static void table_back(struct program *p)
{
    Vip__DirectRequest direct = VIP__DIRECT_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;

    request.body_case = VIP__REQUEST__BODY_DIRECT;
    request.direct = &direct;
    ask_code(p, &request, table_fd);
}

/* Post descriptors, as libvipl does after a claim. */
static void post(struct program *p, struct fuzz_in *in)
{
    unsigned count = 1 + fuzz_8(in) % 4;

    while (count--) {
        uint8_t how = fuzz_8(in);
        struct vip_sq_slot slot = {.vi = how % VIS,
                                   .kind = how & 8 ? VIP_SQ_RECV : VIP_SQ_SEND,
                                   .vi_gen = 1 + (how >> 4 & 1),
                                   .length = how & 32 ? number(in) : 0,
                                   .seg_count = how >> 6};

        vip_sq_write(vip_app_sq(control_app), p->posted++, &slot);
    }
    serve(2);
}

/* ---- the script ------------------------------------------------------------------------------ */

static void step(struct fuzz_in *in)
{
    uint8_t what = fuzz_8(in);
    unsigned action = what >> 1 & 15;
    struct program *p = &programs[what & 1];

    if (!p->base)
        past_make(p, what >= 252 ? 1 + fuzz_8(in) % 3 : 0);
    if (action > 6 && p->sock < 0)
        offer(p, in);
    switch (action) {
    case 0:
        leave(p);
        serve(2);
        break;
    case 1:
    case 2:
    case 3:
        if (!in_use(p->segment)) /* while vipd uses the segment, only vipd writes to it */
            change_past(p, in);
        break;
    case 4:
        change_own(in);
        break;
    case 5:
        offer(p, in);
        break;
    case 6:
        serve(1 + fuzz_8(in) % 8);
        break;
    case 7:
    case 8:
        cq_back(p, in);
        break;
    case 9:
        table_back(p);
        break;
    case 10:
        post(p, in);
        break;
    case 11:
    case 12:
        about_vi(p, in);
        break;
    default:
        vi_back(p, in);
    }
    for (unsigned i = 0; i < PROGRAMS; i++)
        hear_events(&programs[i]);
}

/* A program that opens a NIC and makes no claims. */
static void neighbour_open(void)
{
    int fds[2] = {neighbour_app, control_fd[CONTROL_FD_ARENA]};
    Vip__OpenRequest open = VIP__OPEN_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    Vip__Reply *reply;

    come(&neighbour);
    open.has_abi = true;
    open.abi = VIP_SHM_ABI;
    open.device = (char *)"vip0";
    request.body_case = VIP__REQUEST__BODY_OPEN;
    request.open = &open;
    reply = ask(&neighbour, &request, fds, 2);
    FUZZ_CHECK(reply && reply->code == VIP_RC_SUCCESS);
    vip__reply__free_unpacked(reply, NULL);
}

static void neighbour_works(void)
{
    Vip__PtagRequest ptag = VIP__PTAG_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;

    request.body_case = VIP__REQUEST__BODY_CREATE_PTAG;
    request.create_ptag = &ptag;
    FUZZ_CHECK(neighbour.sock >= 0 && ask_code(&neighbour, &request, -1) == VIP_RC_SUCCESS);
}

/* Check that vipd has written nothing outside of the program's VIs and CQs. */
static void check_rest(const struct program *p)
{
    static const uint8_t zeros[VIS * 2 * VIP_COMP_UNIT];
    const struct vip_vipd_head *head = (const void *)p->base;

    FUZZ_CHECK(memcmp(head->reserved, zeros, sizeof(head->reserved)) == 0);
    FUZZ_CHECK(memcmp(vip_vipd_vi(p->base, VIS), zeros, VIS * sizeof(struct vip_vipd_vi)) == 0);
    FUZZ_CHECK(memcmp(p->base + vip_comp_short_off(VIS, 0), zeros, sizeof(zeros)) == 0);
    FUZZ_CHECK(memcmp(p->base + vip_comp_long_off(VIS, 0), zeros, sizeof(zeros)) == 0);
    FUZZ_CHECK(memcmp(p->base + VIP_VIPD_CQ_OFF + CQS * VIP_VIPD_CQ_STRIDE, zeros, sizeof(zeros)) ==
               0);
}

static void forget(struct program *p)
{
    if (!p->base)
        return;
    check_rest(p);
    munmap(p->base, VIP_VIPD_BYTES);
    close(p->segment);
    p->base = NULL;
}

static void files_make(void)
{
    memset(control_app, 0, VIP_APP_VI_OFF + VIS * sizeof(struct vip_app_vi));
    memcpy(control_app, &app_head, sizeof(app_head));
    for (unsigned i = 0; i < VIS; i++)
        memset(table + (uint64_t)i * VIP_RECV_STRIDE, 0, 64 + SLOTS * 64);
    for (unsigned i = 0; i < 2; i++) {
        ring[i] = control_memfd(sizeof(struct vip_direct), SEALS);
        ring_map[i] = (void *)map(ring[i], sizeof(struct vip_direct));
    }
}

/* Freeing the undertaker waits for its threads, so afterwards all memory of sessions is free. */
static void await_undertaker(void)
{
    undertaker_free(vipd.undertaker);
    vipd.undertaker = undertaker_new();
    FUZZ_CHECK(vipd.undertaker);
}

void fuzz_one(const uint8_t *bytes, size_t len)
{
    struct fuzz_in in = {bytes, bytes + len};
    unsigned steps = 0;
    int free_fd = lowest_fd();

    files_make();
    neighbour_open();
    while (fuzz_more(&in) && steps++ < 48)
        step(&in);
    neighbour_works();
    for (unsigned i = 0; i < PROGRAMS; i++)
        leave(&programs[i]);
    leave(&neighbour);
    do
        serve(3);
    while (held_back());
    FUZZ_CHECK(!vipd.clients && vipd.ending == 0);
    await_undertaker();
    for (unsigned i = 0; i < PROGRAMS; i++)
        forget(&programs[i]);
    for (unsigned i = 0; i < 2; i++) {
        munmap(ring_map[i], sizeof(struct vip_direct));
        close(ring[i]);
    }
    FUZZ_CHECK(lowest_fd() == free_fd);
}
