/*
 * Fuzz: the application socket of a vipd with one loop NIC. Programs connect, send any bytes with
 * any file descriptors, and disconnect. Each request gets exactly one reply or ends its connection.
 * When the programs have disconnected, vipd keeps nothing of them.
 */
#include "fuzz/control_send.h"

#include "proto/control.pb-c.h"
#include "vipd/ctl/capture.h"
#include "vipd/client/client.h"
#include "vipd/client/internal.h"
#include "vipd/nic/nic.h"
#include "vipd/registry/undertaker.h"
#include "vipd/start.h"

#define PROGRAMS 3u

struct program {
    int sock; /* -1: not connected */
    int events, doorbell, segment;
};

static struct vipd vipd;
static struct vipd_config *config; /* the test's configuration; a reload may replace vipd's */
static struct program programs[PROGRAMS];

static int lowest_fd(void)
{
    int fd = fcntl(0, F_DUPFD_CLOEXEC, 0);

    FUZZ_CHECK(fd >= 0);
    close(fd);
    return fd;
}

void fuzz_begin(void)
{
    static char runtime[] = "/nonexistent";
    char err[256] = "";

    config = vipd_config_default();
    vipd_log_set_level((enum vipd_log_level)0); /* log nothing: vipd refuses most requests */
    config->nics[0].link = LINK_LOOP;
    config->register_bytes = 1 << 20;
    config->register_regions = 8;
    config->vis = 8;
    config->cqs = 4;
    config->ptags = 4;
    if (vipd_start(config, runtime, NULL, &vipd, err, sizeof(err)) < 0) {
        fprintf(stderr, "%s\n", err);
        abort();
    }
    control_fds_make();
    for (unsigned i = 0; i < PROGRAMS; i++)
        programs[i].sock = -1;
}

/* ---- vipd's side ----------------------------------------------------------------------------- */

static void serve(void)
{
    for (unsigned round = 0; round < 3; round++) {
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

/* ---- programs -------------------------------------------------------------------------------- */

static void learn(uint64_t number)
{
    learned[learned_count++ % LEARNED] = number;
}

static void leave(struct program *program)
{
    if (program->sock < 0)
        return;
    close(program->sock);
    for (int *fd = &program->events; fd <= &program->segment; fd++)
        if (*fd >= 0)
            close(*fd);
    program->sock = -1;
}

static void come(struct program *program)
{
    int pair[2];

    FUZZ_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
    FUZZ_CHECK(client_new(&vipd, pair[0]) == 0);
    *program = (struct program){.sock = pair[1], .events = -1, .doorbell = -1, .segment = -1};
}

static void take_reply(struct program *program, const Vip__Reply *reply, struct vip_fds *fds)
{
    FUZZ_CHECK(reply->has_code);
    FUZZ_CHECK((reply->code == VIP_RC_SUCCESS) == (reply->reason == NULL));
    /* An OpenReply with again_ms is no success, and has no descriptors. */
    FUZZ_CHECK(!reply->open || (reply->open->again_ms == 0) == (reply->code == VIP_RC_SUCCESS));
    /* Other replies have at most two descriptors: two for a CQ, one for a capture. */
    FUZZ_CHECK(reply->open && !reply->open->again_ms ? fds->count == 3 : fds->count <= 2);
    if (reply->has_number)
        learn(reply->number);
    if (reply->create_vi)
        learn(reply->create_vi->vi);
    if (reply->create_cq)
        learn(reply->create_cq->cq);
    if (reply->connect_wait)
        learn(reply->connect_wait->wait_id);
    if (reply->open && program->segment < 0) {
        program->segment = fds->fd[0];
        program->doorbell = fds->fd[1];
        program->events = fds->fd[2];
        fds->count = 0;
    }
    vip_fds_close(fds);
}

/* Read the answer to one request. Check that vipd sent one reply or ended the connection. */
static void hear(struct program *program)
{
    ProtobufCMessage *message;
    struct vip_fds fds;
    int r = vip_control_recv(program->sock, &vip__reply__descriptor, MSG_DONTWAIT, &message, &fds);

    FUZZ_CHECK(r == 0 || r == -EPIPE);
    if (r == 0) {
        take_reply(program, (const Vip__Reply *)message, &fds);
        protobuf_c_message_free_unpacked(message, NULL);
        r = vip_control_recv(program->sock, &vip__reply__descriptor, MSG_DONTWAIT, &message, &fds);
        FUZZ_CHECK(r == -EAGAIN || r == -EPIPE);
    }
    if (r == -EPIPE)
        leave(program);
}

static void hear_events(struct program *program)
{
    ProtobufCMessage *message;
    struct vip_fds fds;

    while (program->sock >= 0 && program->events >= 0 &&
           vip_control_recv(program->events, &vip__event__descriptor, MSG_DONTWAIT, &message,
                            &fds) == 0) {
        const Vip__Event *event = (const Vip__Event *)message;

        FUZZ_CHECK(fds.count == 0);
        if (event->body_case == VIP__EVENT__BODY_INCOMING)
            learn(event->incoming->conn_handle);
        if (event->body_case == VIP__EVENT__BODY_PLACE)
            learn(event->place->number);
        protobuf_c_message_free_unpacked(message, NULL);
    }
}

/* ---- the script ------------------------------------------------------------------------------ */

static void damage(struct control_bytes *bytes, struct fuzz_in *in)
{
    unsigned count = fuzz_8(in) % 4;

    while (count-- && bytes->len) {
        uint8_t what = fuzz_8(in);
        size_t at = fuzz_16(in) % bytes->len;

        if (what & 128)
            bytes->len = at;
        else
            bytes->at[at] ^= what;
    }
    if (!bytes->len)
        put_byte(bytes, 0);
}

static void send_request(struct program *program, struct fuzz_in *in, uint8_t how)
{
    struct control_bytes bytes = {.len = 0};
    int fds[8];
    unsigned count = 0;

    if (how & 1) {
        put_open(&bytes);
        fds[count++] = control_fd[CONTROL_FD_APP];
        fds[count++] = control_fd[CONTROL_FD_ARENA];
    } else {
        put_request(&bytes, in);
        if (how & 2)
            fds[count++] = control_fd[CONTROL_FD_REGION];
    }
    if (how & 8)
        damage(&bytes, in);
    if (!control_send(program->sock, &bytes, fds, count))
        return;
    serve();
    hear(program);
}

static void odd_fds(struct program *program, struct fuzz_in *in)
{
    struct control_bytes bytes = {.len = 0};
    unsigned count = fuzz_8(in) % 7;
    int fds[8];

    for (unsigned i = 0; i < count; i++)
        fds[i] = control_fd[fuzz_8(in) % CONTROL_FDS];
    if (count & 1)
        put_request(&bytes, in);
    else
        put_open(&bytes);
    if (!control_send(program->sock, &bytes, fds, count))
        return;
    serve();
    hear(program);
}

static void step(struct fuzz_in *in)
{
    uint8_t what = fuzz_8(in);
    struct program *program = &programs[what % PROGRAMS];
    struct control_bytes bytes = {.len = 0};

    if (program->sock < 0)
        come(program);
    switch (what / PROGRAMS % 16) {
    case 0:
        leave(program);
        serve();
        break;
    case 1:
        odd_fds(program, in);
        break;
    case 2:
        if (program->events < 0)
            break;
        put_fields(&bytes, in, 0);
        control_send(program->events, &bytes, NULL, 0);
        serve();
        break;
    case 3:
        for (unsigned i = 0; i < 64; i++)
            control_app[VIP_APP_SQ_OFF + fuzz_16(in) % 4096] = fuzz_8(in);
        serve();
        break;
    case 4:
        send_request(program, in, 1);
        break;
    case 5:
        send_request(program, in, 8 | (what >> 7));
        break;
    default:
        send_request(program, in, what & 64 ? 2 : 0);
    }
    for (unsigned i = 0; i < PROGRAMS; i++)
        hear_events(&programs[i]);
}

/* The undertaker frees descriptors and memory in its own thread. undertaker_free waits until this
 * is done. The new undertaker makes its thread when an input needs the thread. */
static void await_undertaker(void)
{
    undertaker_free(vipd.undertaker);
    vipd.undertaker = undertaker_new();
    FUZZ_CHECK(vipd.undertaker);
}

void fuzz_one(const uint8_t *bytes, size_t len)
{
    struct fuzz_in in = {bytes, bytes + len};
    struct vip_app_head head = {
        .magic = VIP_SHM_APP_MAGIC, .abi = VIP_SHM_ABI, .bytes = VIP_APP_BYTES};
    unsigned steps = 0;
    int free_fd = lowest_fd();

    memset(control_app, 0, VIP_APP_SQ_OFF + 4096);
    memcpy(control_app, &head, sizeof(head));
    memset(learned, 0, sizeof(learned));
    learned_count = 0;
    while (fuzz_more(&in) && steps++ < 64)
        step(&in);
    for (unsigned i = 0; i < PROGRAMS; i++)
        leave(&programs[i]);
    serve();
    serve();
    FUZZ_CHECK(!vipd.clients && vipd.ending == 0);
    capture_end(&vipd); /* in vipd the event loop does this when the capture's reader has ended */
    await_undertaker();
    FUZZ_CHECK(lowest_fd() == free_fd);
}
