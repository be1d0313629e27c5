/*
 * Fuzz: a program on loan that writes arbitrary values into all words that vipd reads back (the
 * owner's words, its counts, the table of sends), sends arbitrary packets by its own socket, and
 * makes requests about loans. Meanwhile two victims exchange messages. Only the connections of the
 * hostile program may fail, and vipd must keep no descriptor.
 */
#include "fuzz/fuzz.h"

#include <dirent.h>

#include "unit/nic_lend.h"

#define MESSAGE  600u
#define STEP_MAX 120u

static struct rig_app *victim[2];
static struct rig_mem memory[2];
static uint16_t victim_vi[2];
static uint32_t sent;
/* The program has broken a rule: its engine here, which trusts the words, must not run. */
static bool mad;

/* ---- the hostile program ----------------------------------------------------------------- */

static void on_lent(void *ctx, const struct nic_loan_terms *terms)
{
    struct sockaddr_in name = {.sin_family = AF_INET};

    if (ends[0].app != ctx)
        return;
    ends[0].terms = *terms;
    memcpy(&name.sin_addr, terms->to.bytes, 4);
    memcpy(&name.sin_port, terms->to.bytes + 4, 2);
    if (ends[0].sock >= 0)
        (void)connect(ends[0].sock, (struct sockaddr *)&name, sizeof(name));
}

static void on_lent_over(void *ctx, uint16_t vi, uint32_t generation)
{
    FUZZ_CHECK(vi < RIG_VIS);
}

static void ask(struct fuzz_in *in)
{
    uint8_t how = fuzz_8(in);
    struct nic_loan_ask ask = {.vi = ends[0].vi, .steady_ns = how & 1 ? fuzz_number(in) : 0};
    struct nic_loan_probe probe;
    char why[128] = "";
    int copy;

    if (how & 2)
        ask.part = fuzz_8(in) % (VIP_LOANS_MAX + 1);
    if (how & 4)
        ask.vi = fuzz_16(in);
    if (ends[0].sock < 0)
        ends[0].sock = sock_of(0);
    ask.port = how & 8 ? fuzz_16(in) : port_of(ends[0].sock);
    copy = dup(ends[0].sock);
    if (nic_loan_ask(ends[0].app->session, &ask, &copy, rig_now, &probe, why, sizeof(why)) ==
        VIP_RC_SUCCESS)
        (void)send(ends[0].sock, probe.packet, probe.bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (copy >= 0)
        close(copy);
    ends[0].parts[0].owner.beat++;
}

static void socket_change(struct fuzz_in *in)
{
    uint8_t how = fuzz_8(in);
    struct link_addr other = rig_addr(how >> 4 & 1);
    int small = 1;

    if (ends[0].sock < 0)
        return;
    mad = true;
    switch (how % 4) {
    case 0:
        (void)shutdown(ends[0].sock, how >> 5 & 1 ? SHUT_RDWR : SHUT_WR);
        break;
    case 1:
        close(ends[0].sock);
        ends[0].sock = -1;
        break;
    case 2:
        sock_connect(ends[0].sock, &other);
        break;
    default:
        (void)setsockopt(ends[0].sock, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
    }
}

/* Send again what has come last, with some bytes changed and a good checksum; or any bytes. */
static void packet_send(struct fuzz_in *in)
{
    static uint8_t bytes[VIP_PACKET_BYTES_MAX];
    uint8_t how = fuzz_8(in);
    ssize_t len = ends[0].sock >= 0 ? recv(ends[0].sock, bytes, sizeof(bytes), MSG_DONTWAIT) : -1;
    struct iovec iov = {.iov_base = bytes};

    mad = true;
    if (len < 64) {
        len = 64 + fuzz_8(in);
        fuzz_bytes(in, bytes, (size_t)len);
    }
    for (unsigned i = 0; i < how % 8; i++)
        bytes[fuzz_16(in) % (size_t)len] = fuzz_8(in);
    iov.iov_len = (size_t)len;
    if (how & 8)
        vip_wire_seal(&iov, 1);
    if (ends[0].sock >= 0)
        (void)send(ends[0].sock, bytes, (size_t)len, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* A word of the owner: its old value and a bit, a number that means something, or any. */
static void owner_scribble(struct fuzz_in *in)
{
    uint8_t how = fuzz_8(in);
    uint32_t *word =
        (uint32_t *)&ends[0].parts[0].owner + how % (sizeof(struct vip_loan_owner) / 4);

    mad = true;
    switch (how >> 6) {
    case 0:
        *word += (uint32_t)(int8_t)fuzz_8(in);
        break;
    case 1:
        *word = ends[0].terms.number;
        break;
    case 2:
        *word = (uint32_t)fuzz_number(in);
        break;
    default:
        *word = (uint32_t)(rig_now >> (fuzz_8(in) & 1 ? 32 : 0));
    }
}

static void table_scribble(struct fuzz_in *in)
{
    struct vip_loan_part *part = &ends[0].parts[0];
    uint8_t how = fuzz_8(in);
    struct vip_sq_slot *slot = &part->slot[(ends[0].sends - (how >> 4)) % VIP_DESC_PER_QUEUE_MAX];

    mad = true;
    switch (how % 6) {
    case 0:
        part->posted += (uint32_t)(int8_t)fuzz_8(in);
        break;
    case 1:
        part->posted = (uint32_t)fuzz_number(in);
        break;
    case 2:
        ((uint8_t *)slot)[fuzz_8(in) % sizeof(*slot)] = fuzz_8(in);
        break;
    case 3:
        slot->seg_count = fuzz_16(in) % 300;
        part->conts_at[(ends[0].sends - (how >> 4)) % VIP_DESC_PER_QUEUE_MAX] =
            (uint32_t)fuzz_number(in);
        break;
    case 4:
        fuzz_bytes(in, &part->conts[fuzz_8(in)], sizeof(part->conts[0]));
        break;
    default:
        ((uint64_t *)&part->counts)[how >> 4 & 7] = fuzz_number(in);
    }
}

/* A stay that does nothing, with any checkpoint. */
static void stay_bad(struct fuzz_in *in)
{
    struct vip_loan_checkpoint checkpoint = ends[0].terms.checkpoint;
    uint8_t how = fuzz_8(in);

    mad = true;
    if (!ends[0].terms.number || !loan_enter(&ends[0].owner, ends[0].terms.number))
        return;
    if (how & 1)
        rig_steps(1 + (how >> 5));
    checkpoint.done += how & 2 ? (uint32_t)(int8_t)fuzz_8(in) : 0;
    checkpoint.received += how & 4 ? (uint32_t)(int8_t)fuzz_8(in) : 0;
    checkpoint.completed += how & 8 ? (uint32_t)(int8_t)fuzz_8(in) : 0;
    (void)loan_leave(&ends[0].owner, how & 16 ? fuzz_number(in) : 0, &checkpoint);
}

static void request(struct fuzz_in *in)
{
    uint8_t how = fuzz_8(in);
    struct nic_session *session = ends[0].app->session;
    struct nic_loan_broken broken = {.reason = fuzz_8(in) & 1 ? VIP_CLOSE_TIMEOUT : VIP_CLOSE_ERROR,
                                     .op_status = (uint32_t)fuzz_number(in),
                                     .failed_op = (uint32_t)fuzz_number(in),
                                     .ops_done = (uint32_t)fuzz_number(in)};

    switch (how % 6) {
    case 0:
        (void)nic_loan_give_back(session, ends[0].vi, rig_now);
        break;
    case 1:
        mad = true;
        (void)nic_loan_broken(session, ends[0].vi, &broken, rig_now);
        break;
    case 2:
        mad = true;
        (void)nic_vi_disconnect(session, ends[0].vi, rig_now);
        break;
    case 3:
        nic_session_rung(session, rig_now);
        break;
    case 4:
        mad = true;
        ask_sends(&ends[0]);
        break;
    default:
        if (nic_try_sleep(rig_nics[0]))
            nic_awake(rig_nics[0]);
    }
}

/* ---- the victims ------------------------------------------------------------------------- */

static void victims_open(void)
{
    for (unsigned i = 0; i < 2; i++) {
        victim[i] = rig_app(rig_nics[i]);
        memory[i] = rig_mem(victim[i], 65536, REGISTRY_SHARED);
        victim_vi[i] = rig_vi(victim[i], VIP_LVL_RECEPTION);
    }
    rig_connect(victim[0], victim_vi[0], 0, victim[1], victim_vi[1], 1);
    sent = 0;
}

/* Send a message from one victim to the other; it must arrive undamaged. */
static void victims_exchange(void)
{
    struct vip_comp comp;

    sent++;
    rig_fill(memory[0].at, MESSAGE, sent);
    memset(memory[1].at, 0, MESSAGE);
    rig_post_recv(victim[1], victim_vi[1], rig_seg(&memory[1], 0, MESSAGE));
    rig_post_send(victim[0], victim_vi[0], rig_seg(&memory[0], 0, MESSAGE));
    comp = rig_wait_done(victim[1], victim_vi[1], VIP_Q_RECV);
    FUZZ_CHECK(!(comp.status & VIP_ST_ERROR_MASK) && comp.length == MESSAGE);
    FUZZ_CHECK(memcmp(memory[0].at, memory[1].at, MESSAGE) == 0);
    comp = rig_wait_done(victim[0], victim_vi[0], VIP_Q_SEND);
    FUZZ_CHECK(!(comp.status & VIP_ST_ERROR_MASK));
}

/* ---- the script -------------------------------------------------------------------------- */

static bool vi_seen(void *ctx, const struct nic_vi_view *view)
{
    return true;
}

static void step_any(struct fuzz_in *in)
{
    uint8_t what = fuzz_8(in);

    switch (what % 12) {
    case 0:
        ask(in);
        break;
    case 1:
        owner_scribble(in);
        break;
    case 2:
        table_scribble(in);
        break;
    case 3:
        stay_bad(in);
        break;
    case 4:
        if (!mad)
            (void)stay(&ends[0]);
        break;
    case 5:
        if (ends[0].sends - ends[0].sent < MESSAGES / 2)
            post_to_table(&ends[0]);
        break;
    case 6:
        if (ends[1].sends - ends[1].sent < MESSAGES / 2)
            post_to_ring(&ends[1]);
        break;
    case 7:
        packet_send(in);
        break;
    case 8:
        request(in);
        break;
    case 9:
        if (what < 64)
            socket_change(in);
        else
            nic_session_vis(ends[0].app->session, ends[0].vi, vi_seen, NULL);
        break;
    case 10:
        if (what < 64)
            victims_exchange();
        else
            rig_pass((uint64_t)fuzz_8(in) * 100000);
        break;
    default:
        rig_steps(1 + (what >> 4));
    }
}

static unsigned descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    unsigned count = 0;

    while (readdir(dir) != NULL)
        count++;
    closedir(dir);
    return count;
}

void fuzz_one(const uint8_t *bytes, size_t len)
{
    struct fuzz_in in = {bytes, bytes + len};
    unsigned open = descriptors();
    void *none = NULL;

    rig_reset();
    rig_now = 1000000000;
    mad = false;
    (void)begin(&none);
    rig_on_lent = on_lent;
    rig_on_lent_over = on_lent_over;
    victims_open();
    ask(&in);
    rig_steps(4);
    for (unsigned i = 0; i < STEP_MAX && fuzz_more(&in); i++)
        step_any(&in);
    victims_exchange();
    rig_app_end(ends[0].app, fuzz_8(&in) & 1);
    victims_exchange();
    for (unsigned i = 0; i < 2; i++)
        rig_mem_free(&memory[i]);
    rig_teardown(&none);
    for (unsigned i = 0; i < 2; i++) {
        end_free(&ends[i]);
        munmap(ends[i].table, VIP_RECV_BYTES);
        munmap(ends[i].parts, VIP_LOANS_BYTES);
    }
    FUZZ_CHECK(descriptors() == open);
}
