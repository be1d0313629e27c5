/*
 * A hostile program. Its kinds:
 * "evil" writes random and chosen values, as fast as it can, into all memory that an application
 * can write. When vipd ends its session, evil opens a new one.
 * "storm" breaks no rule, but rings the bell all the time and fills the ring.
 * "drain" sends messages to its own VIs, which have no receives; vipd looks for the receives.
 * "ask" has no session; over several connections it asks for the most expensive view without pause.
 * "bulk" breaks no rule: it keeps 64 messages of 64 KiB posted between two of its own VIs.
 *
 * usage: mutator evil|storm|drain|ask|bulk SECONDS SEED    (SIGTERM ends it earlier)
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "hostile/raw.h"
#include "proto/status.h"

#define REGION_BYTES 65536
#define LOOK_EVERY   256 /* steps between two checks of the socket and the clock */

struct tally {
    uint64_t sessions, steps, posts, pokes, refused, asked;
};

static uint64_t seed;
static struct tally tally;
static volatile sig_atomic_t stopping;

static void on_term(int number)
{
    (void)number;
    stopping = 1;
}

static uint64_t any(void)
{
    return raw_random(&seed);
}

static double now_s(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

static bool over(double until)
{
    return stopping || now_s() >= until;
}

/* Make a pair of VIs at each level, and a region of each kind. -1: vipd has refused or ended. */
static int set_up(struct raw *raw)
{
    static const unsigned levels[] = {VIP_LVL_UNRELIABLE, VIP_LVL_DELIVERY, VIP_LVL_RECEPTION};
    static const Vip__MemKind kinds[RAW_REGIONS] = {
        VIP__MEM_KIND__MEM_SHARED, VIP__MEM_KIND__MEM_ADOPTED, VIP__MEM_KIND__MEM_STAGED};
    int cq;

    if (raw_open(raw) < 0)
        return -1;
    cq = raw_cq(raw);
    for (unsigned i = 0; i < RAW_REGIONS; i++)
        if (raw_region(raw, i, kinds[i], REGION_BYTES) < 0)
            goto fail;
    for (unsigned i = 0; i < 3; i++) {
        int a = raw_vi(raw, levels[i], i ? -1 : cq), b = raw_vi(raw, levels[i], i ? -1 : cq);

        if (a < 0 || b < 0 || raw_connect(raw, a, raw, b) < 0)
            goto fail;
    }
    return 0;
fail:
    raw_close(raw);
    return -1;
}

/* ---- bulk -------------------------------------------------------------------------------- */

#define BULK_DEPTH 64

static void bulk(struct raw *raw, double until)
{
    struct vip_shm_seg seg = {
        .addr = raw->region[0].addr, .handle = raw->region[0].handle, .len = REGION_BYTES};
    struct vip_comp comp;

    for (unsigned i = 0; i < 2 * BULK_DEPTH; i++) /* 2 receives per send: each message finds one */
        raw_post(raw, 3, VIP_SQ_RECV, VIP_CTL_OP_SENDRECV, &seg, 1);
    for (unsigned i = 0; i < BULK_DEPTH; i++)
        raw_post(raw, 2, VIP_SQ_SEND, VIP_CTL_OP_SENDRECV, &seg, 1);
    raw_ring(raw);
    while (!over(until)) {
        bool did = false;

        for (unsigned i = 0; i < LOOK_EVERY; i++) {
            /* Post again each receive descriptor and each send descriptor that has completed. */
            while (raw_room(raw, 1) && raw_reap(raw, 3, VIP_Q_RECV, &comp)) {
                raw_post(raw, 3, VIP_SQ_RECV, VIP_CTL_OP_SENDRECV, &seg, 1);
                did = true;
            }
            while (raw_room(raw, 1) && raw_reap(raw, 2, VIP_Q_SEND, &comp)) {
                raw_post(raw, 2, VIP_SQ_SEND, VIP_CTL_OP_SENDRECV, &seg, 1);
                tally.posts++;
                did = true;
            }
            raw_ring(raw);
            tally.steps++;
        }
        if (did)
            continue;
        if (raw_ended(raw)) {
            fprintf(stderr, "mutator: the legal session was ended\n");
            exit(1);
        }
        /* Sleep. Otherwise this program takes so much time that vipd and the victim cannot work. */
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
    }
}

/* ---- evil -------------------------------------------------------------------------------- */

static void poke32(struct raw *raw, uint32_t offset, uint32_t value)
{
    __atomic_store_n((uint32_t *)(void *)(raw->app + (offset & ~3u)), value, __ATOMIC_RELAXED);
    tally.pokes++;
}

static struct vip_shm_seg evil_seg(const struct raw *raw)
{
    const struct raw_region *region = &raw->region[any() % RAW_REGIONS];
    struct vip_shm_seg seg = {.addr = region->addr + any() % REGION_BYTES,
                              .handle = region->handle,
                              .len = (uint32_t)(any() % 4096)};

    switch (any() % 16) {
    case 0:
        seg.addr = raw_odd_number(&seed);
        break;
    case 1:
        seg.handle = (uint32_t)raw_odd_number(&seed);
        break;
    case 2:
        seg.len = (uint32_t)raw_odd_number(&seed);
        break;
    case 3:
        seg.handle ^= 1u << any() % 32;
        break;
    case 4:
        seg.addr = ~0ull - any() % 8192;
        break;
    default:
        break;
    }
    return seg;
}

#define MESSAGE_SLOTS 2

/* Write the slots of a message, which follow the next slot; sometimes with a wrong length. */
static void evil_message(struct raw *raw, uint16_t vi)
{
    uint16_t len = any() % 4 ? 100 : (uint16_t)raw_odd_number(&seed);

    for (uint32_t i = 0; i < MESSAGE_SLOTS; i++) {
        struct vip_sq_msg part = {.vi = vi, .kind = VIP_SQ_MSG, .len = len};
        struct vip_sq_slot slot;

        memcpy(&slot, &part, sizeof(slot));
        vip_sq_write(vip_app_sq(raw->app), raw->position + 1 + i, &slot);
    }
}

/* Write a descriptor into the next slot, sometimes with a fault. */
static void evil_post(struct raw *raw)
{
    struct vip_shm_seg segs[2] = {evil_seg(raw), evil_seg(raw)};
    struct vip_sq_slot slot = {.kind = any() % 2 ? VIP_SQ_SEND : VIP_SQ_RECV, .seg_count = 1};
    unsigned at = (unsigned)(any() % raw->vi_count);

    /* vipd may wait for a stamp that evil_stamp has removed: sometimes write that slot anew. */
    if (!raw_room(raw, 1)) {
        const struct vip_vipd_head *head = (const void *)raw->vipd;

        if (any() % 64)
            return;
        raw->position = vip_load32(&head->sq_cons);
    }
    slot.vi = raw->vi[at].vi;
    slot.vi_gen = raw->vi[at].gen;
    if (slot.kind == VIP_SQ_SEND && any() % 2) {
        slot.control = VIP_CTL_OP_RDMAWRITE;
        slot.seg_count = 2;
        segs[0].len = 0;
    }
    slot.length = segs[slot.seg_count - 1].len;
    memcpy(slot.seg, segs, sizeof(segs));
    switch (any() % 24) {
    case 0:
        slot.vi = (uint16_t)raw_odd_number(&seed);
        break;
    case 1:
        slot.vi_gen = (uint32_t)raw_odd_number(&seed);
        break;
    case 2:
        slot.seg_count = (uint16_t)raw_odd_number(&seed);
        break;
    case 3:
        slot.length = (uint32_t)raw_odd_number(&seed);
        break;
    case 4:
        slot.control = (uint16_t)raw_odd_number(&seed);
        break;
    case 5:
        slot.kind = (uint8_t)raw_odd_number(&seed);
        break;
    case 6:
        slot.reserved1 = (uint32_t)raw_odd_number(&seed);
        slot.flags = (uint8_t)any();
        break;
    case 7:
    case 8:
        slot.flags = VIP_SQF_MSG;
        evil_message(raw, slot.vi);
        break;
    default:
        break;
    }
    vip_sq_write(vip_app_sq(raw->app), raw->position, &slot);
    raw->position += slot.flags == VIP_SQF_MSG && slot.seg_count <= 2 ? 1 + MESSAGE_SLOTS : 1;
    tally.posts++;
}

/* Change posted slots that vipd has not taken: vipd may be reading them at this moment. */
static void evil_race(struct raw *raw)
{
    const struct vip_vipd_head *head = (const void *)raw->vipd;
    uint32_t at = (vip_load32(&head->sq_cons) + (uint32_t)(any() % 4)) & (VIP_SQ_SLOTS - 1);

    for (unsigned i = 0; i < 8; i++)
        poke32(raw, VIP_APP_SQ_OFF + at * 64 + 4 + (uint32_t)(any() % 60),
               (uint32_t)raw_odd_number(&seed));
}

/* Write a stamp: that of another round or a neighbour slot, 0, the largest, or any number. */
static void evil_stamp(struct raw *raw)
{
    const struct vip_vipd_head *head = (const void *)raw->vipd;
    uint32_t at = vip_load32(&head->sq_cons) + (uint32_t)(any() % 64);
    uint32_t stamps[] = {
        at, at + 1,     at + 2,         at + 1 + VIP_SQ_SLOTS, at + 1 - VIP_SQ_SLOTS,
        0,  UINT32_MAX, (uint32_t)any()};

    poke32(raw, VIP_APP_SQ_OFF + (at & (VIP_SQ_SLOTS - 1)) * 64, stamps[any() % 8]);
}

/* Write a wrong value into a word about sleeping, or into a read position of a CQ. */
static void evil_words(struct raw *raw)
{
    uint32_t value = (uint32_t)raw_odd_number(&seed);

    switch (any() % 3) {
    case 0:
        poke32(raw, 64, value);
        break;
    case 1:
        poke32(raw, VIP_APP_VI_OFF + (uint32_t)(any() % (VIP_VI_MAX * 32u)), value);
        break;
    default:
        poke32(raw, VIP_APP_CQ_OFF + (uint32_t)(any() % 128), value);
        break;
    }
}

/* Change a byte of registered memory, or try to punch a hole into it. */
static void evil_memory(struct raw *raw)
{
    const struct raw_region *region = &raw->region[any() % RAW_REGIONS];

    if (any() % 64 == 0)
        (void)fallocate(region->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, REGION_BYTES);
    else
        region->at[any() % REGION_BYTES] = (uint8_t)any();
    (void)ftruncate(region->fd, (off_t)(any() % 8192)); /* refused, because the file is sealed */
}

/* Send a control request about a number that is right, nearly right, or wrong. */
static void evil_ask(struct raw *raw)
{
    Vip__ViRequest vi = VIP__VI_REQUEST__INIT;
    Vip__MemRequest mem = VIP__MEM_REQUEST__INIT;
    Vip__CqRequest cq = VIP__CQ_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;

    vi.has_vi = mem.has_handle = mem.has_address = cq.has_cq = cq.has_entries = true;
    vi.vi = any() % 2 ? (uint32_t)(any() % 8) : (uint32_t)raw_odd_number(&seed);
    mem.handle = any() % 8 ? (uint32_t)raw_odd_number(&seed) : raw->region[2].handle;
    mem.address = raw->region[2].addr;
    cq.cq = any() % 2 ? 0 : (uint32_t)raw_odd_number(&seed);
    cq.entries = raw_odd_number(&seed);
    switch (any() % 6) {
    case 0:
        request.body_case = VIP__REQUEST__BODY_DISCONNECT;
        request.disconnect = &vi;
        break;
    case 1:
        request.body_case = VIP__REQUEST__BODY_DESTROY_VI;
        request.destroy_vi = &vi;
        break;
    case 2:
        request.body_case = VIP__REQUEST__BODY_DEREGISTER_MEM;
        request.deregister_mem = &mem;
        break;
    case 3:
        request.body_case = VIP__REQUEST__BODY_RESIZE_CQ;
        request.resize_cq = &cq;
        break;
    case 4:
        request.body_case = VIP__REQUEST__BODY_DESTROY_CQ;
        request.destroy_cq = &cq;
        break;
    default:
        request.body_case = VIP__REQUEST__BODY_CONNECT_CANCEL;
        request.connect_cancel = &vi;
        break;
    }
    (void)raw_code(raw->sock, &request, NULL, 0, NULL);
    tally.asked++;
}

/* Answer vipd's requests to place bytes, as libvipl does. `lie`: sometimes with a wrong number. */
static void evil_events(struct raw *raw, bool lie)
{
    Vip__PlaceDone done = VIP__PLACE_DONE__INIT;
    uint8_t bytes[4096];
    ssize_t len;

    while ((len = recv(raw->events, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0) {
        Vip__Event *event = vip__event__unpack(NULL, (size_t)len, bytes);

        if (event && event->body_case == VIP__EVENT__BODY_PLACE) {
            done.has_number = true;
            done.number = lie && any() % 64 == 0 ? any() : event->place->number;
            (void)vip_control_send(raw->events, &done.base, NULL, 0, MSG_DONTWAIT);
        }
        if (event)
            vip__event__free_unpacked(event, NULL);
    }
}

/* Make one step. `wild`: write anything anywhere. Otherwise a fault only fails its descriptor. */
static void evil_step(struct raw *raw, bool wild)
{
    uint64_t choice = any() % 100;
    uint64_t one = 1;

    if (choice < 50)
        evil_post(raw);
    else if (choice < 65)
        evil_words(raw);
    else if (choice < 75)
        evil_memory(raw);
    else if (choice < 85)
        raw_ring(raw);
    else if (choice < 88)
        (void)!write(raw->doorbell, &one, sizeof(one)); /* ring the bell, even if vipd is awake */
    else if (wild && choice < 93)
        evil_race(raw);
    else if (wild && choice < 97)
        evil_stamp(raw);
    else if (wild)
        poke32(raw,
               any() % 2 ? VIP_APP_SQ_OFF + (uint32_t)(any() % (VIP_SQ_SLOTS * 64u))
                         : (uint32_t)(any() % VIP_APP_BYTES),
               (uint32_t)any());
}

static void evil(struct raw *raw, double until, bool wild)
{
    (void)fcntl(raw->doorbell, F_SETFL, O_RDWR | O_NONBLOCK);
    while (!over(until) && !raw_ended(raw)) {
        for (unsigned i = 0; i < LOOK_EVERY; i++)
            evil_step(raw, wild);
        tally.steps += LOOK_EVERY;
        if (any() % 8)
            evil_events(raw, wild);
        if (any() % 64 == 0)
            evil_ask(raw);
    }
}

/* ---- storm ------------------------------------------------------------------------------- */

/* Keep the submission ring full, read no completions, and ring the bell all the time. */
static void storm(struct raw *raw, double until)
{
    struct vip_shm_seg seg = {
        .addr = raw->region[0].addr, .handle = raw->region[0].handle, .len = 64};
    uint64_t one = 1;

    (void)fcntl(raw->doorbell, F_SETFL, O_RDWR | O_NONBLOCK);
    while (!over(until) && !raw_ended(raw)) {
        for (unsigned i = 0; i < LOOK_EVERY; i++) {
            while (raw_room(raw, 1)) {
                raw_post(raw, (int)(tally.posts % raw->vi_count),
                         tally.posts % 3 ? VIP_SQ_SEND : VIP_SQ_RECV, VIP_CTL_OP_SENDRECV, &seg, 1);
                tally.posts++;
            }
            (void)!write(raw->doorbell, &one, sizeof(one));
        }
        tally.steps += LOOK_EVERY;
    }
}

/* ---- drain ------------------------------------------------------------------------------- */

#define DRAIN_EVERY                                                                                \
    32 /* one slot in 32 is a message; all other slots name a VI that does not exist */

/* Make pairs of Unreliable VIs; the first VI of each pair is connected to the second. */
static int set_up_drain(struct raw *raw)
{
    if (raw_open(raw) < 0)
        return -1;
    for (unsigned i = 0; i < RAW_VIS / 2; i++) {
        int a = raw_vi(raw, VIP_LVL_UNRELIABLE, -1), b = raw_vi(raw, VIP_LVL_UNRELIABLE, -1);

        if (a < 0 || b < 0 || raw_connect(raw, a, raw, b) < 0) {
            raw_close(raw);
            return -1;
        }
    }
    return 0;
}

static void drain(struct raw *raw, double until)
{
    uint8_t bytes[4096];

    while (!over(until) && !raw_ended(raw)) {
        for (unsigned i = 0; i < LOOK_EVERY; i++) {
            while (raw_room(raw, 1)) {
                unsigned at = raw->position / DRAIN_EVERY % (RAW_VIS / 2) * 2;
                struct vip_sq_slot slot = {
                    .vi = raw->vi[at].vi, .vi_gen = raw->vi[at].gen, .kind = VIP_SQ_SEND};

                if (raw->position % DRAIN_EVERY)
                    slot.vi = 9999;
                vip_sq_write(vip_app_sq(raw->app), raw->position++, &slot);
                tally.posts++;
            }
            raw_ring(raw);
        }
        tally.steps += LOOK_EVERY;
        while (recv(raw->events, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
            continue;
    }
}

/* ---- ask --------------------------------------------------------------------------------- */

#define ASKERS    8
#define ASK_AHEAD 4 /* unanswered requests per connection; vipd ends a connection with too many */

static void ask(double until)
{
    Vip__ShowRequest show = VIP__SHOW_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    static uint8_t bytes[70000];
    unsigned ahead[ASKERS] = {0};
    int socks[ASKERS];
    char path[108];

    show.has_what = true;
    show.what = VIP__SHOW_REQUEST__WHAT__STATS;
    request.body_case = VIP__REQUEST__BODY_SHOW;
    request.show = &show;
    if (vip_control_socket_path(path, sizeof(path)) < 0)
        return;
    for (unsigned i = 0; i < ASKERS; i++)
        socks[i] = vip_control_connect(path);
    for (unsigned i = 0; !over(until); i = (i + 1) % ASKERS) {
        while (recv(socks[i], bytes, sizeof(bytes), MSG_DONTWAIT) > 0) {
            ahead[i]--;
            tally.asked++;
        }
        if (ahead[i] < ASK_AHEAD && vip_control_send(socks[i], &request.base, NULL, 0, 0) == 0)
            ahead[i]++;
        tally.steps++;
    }
    for (unsigned i = 0; i < ASKERS; i++)
        if (socks[i] >= 0)
            close(socks[i]);
}

/* ---- main -------------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
    double until;
    bool legal;

    if (argc != 4) {
        fprintf(stderr, "usage: mutator evil|storm|drain|ask|bulk SECONDS SEED\n");
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    signal(SIGTERM, on_term);
    until = now_s() + atof(argv[2]);
    seed = strtoull(argv[3], NULL, 0);
    legal = strcmp(argv[1], "bulk") == 0;
    if (strcmp(argv[1], "ask") == 0)
        ask(until);
    else
        while (!over(until)) {
            struct raw raw;

            bool drains = strcmp(argv[1], "drain") == 0;

            if ((drains ? set_up_drain(&raw) : set_up(&raw)) < 0) {
                tally.refused++;
                if (legal)
                    return 1;
                sched_yield();
                continue;
            }
            tally.sessions++;
            if (legal)
                bulk(&raw, until);
            else if (strcmp(argv[1], "storm") == 0)
                storm(&raw, until);
            else if (drains)
                drain(&raw, until);
            else
                evil(&raw, until, any() % 4 == 0);
            raw_close(&raw);
        }
    printf("mutator %s: %llu sessions, %llu steps, %llu posts, %llu pokes, %llu requests, "
           "%llu refused\n",
           argv[1], (unsigned long long)tally.sessions, (unsigned long long)tally.steps,
           (unsigned long long)tally.posts, (unsigned long long)tally.pokes,
           (unsigned long long)tally.asked, (unsigned long long)tally.refused);
    /* Fail if vipd gave neither a session nor an answer, because such a run tests nothing. */
    return !tally.sessions && !tally.asked;
}
