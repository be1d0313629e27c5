/*
 * Fuzz: the containers of the engine and of the registry. Each container must behave as a simple
 * model of it. The containers: number windows, received numbers and their ranges, timer heaps, hash
 * tables, held packets, handles and protection tags.
 */
#include "fuzz/fuzz.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "vipd/engine/cm_internal.h"
#include "vipd/engine/internal.h"
#include "vipd/registry/registry.h"

static void *zeroed(size_t bytes)
{
    void *memory = aligned_alloc(64, (bytes + 63) & ~(size_t)63);

    FUZZ_CHECK(memory);
    memset(memory, 0, bytes);
    return memory;
}

/* ---- bits ---------------------------------------------------------------------------------- */

static void bits(struct fuzz_in *in)
{
    struct eng_bits window = {0};
    bool model[ENG_BITS] = {0};
    uint64_t base = 1 + fuzz_number(in) % (UINT64_MAX - 4 * ENG_BITS);

    while (fuzz_more(in)) {
        uint8_t what = fuzz_8(in);
        uint64_t a = base + fuzz_below(in, ENG_BITS), b = base + fuzz_below(in, ENG_BITS), n;

        FUZZ_CHECK(eng_bits_test(&window, a) == model[a - base]);
        switch (what % 4) {
        case 0:
            for (n = a; n < b && n < a + (what >> 2); n++) {
                eng_bits_set(&window, n);
                model[n - base] = true;
            }
            break;
        case 1:
            eng_bits_clear(&window, a);
            model[a - base] = false;
            break;
        case 2:
            for (n = a; n < b && !model[n - base];)
                n++;
            FUZZ_CHECK(eng_bits_next(&window, a, b) == (a < b ? n : b));
            break;
        default:
            if (a < b)
                break;
            for (n = a; n >= b && model[n - base] != (what >> 7);)
                n--;
            FUZZ_CHECK(eng_bits_prev(&window, a, b, what >> 7) == n);
        }
    }
}

/* ---- numbers received ------------------------------------------------------------------------ */

static bool op_yes(void *ctx, const struct eng_access *access)
{
    return true;
}

static bool op_place(void *ctx, const struct eng_access *access, uint32_t payload_offset)
{
    return true;
}

static void op_complete(void *ctx, uint16_t vi, enum vip_queue queue, uint32_t status,
                        uint32_t length, uint64_t imm)
{
}

static void op_event(void *ctx, const struct eng_event *event)
{
}

static void op_fetch(void *ctx)
{
}

static struct eng *engine(void)
{
    static const struct eng_ops ops = {.check = op_yes,
                                       .place = op_place,
                                       .complete = op_complete,
                                       .event = op_event,
                                       .fetch_posts = op_fetch};

    return eng_init(zeroed(eng_bytes()), &ENG_CONFIG_DEFAULT, &ops, NULL, 1);
}

static struct eng_vi *engine_vi(struct eng *eng, uint16_t index)
{
    struct eng_vi_attrs attrs = {.level = VIP_LVL_DELIVERY, .max_transfer_bytes = 1000};
    struct eng_vi *vi = zeroed(eng_vi_bytes());

    eng_vi_create(eng, index, vi, &attrs);
    return vi;
}

#define NUMBERS 8192u

/* The ranges of an acknowledgement must match the arrived numbers that are still in the window. */
static void check_ranges(struct eng_vi *vi, const bool *arrived, uint64_t largest, unsigned max)
{
    struct vip_range ranges[VIP_WIRE_RANGES_MAX];
    unsigned count = eng_ack_ranges(vi, ranges, max);
    uint64_t floor = vi->rx.base, from = floor;

    FUZZ_CHECK(count <= max && vi->rx.largest == largest);
    for (uint64_t n = largest >= ENG_BITS ? largest - ENG_BITS + 1 : 1; n < floor; n++)
        FUZZ_CHECK(arrived[n]);
    FUZZ_CHECK(floor > largest || !arrived[floor]);
    for (unsigned i = 0; i < count; i++) {
        uint64_t start = floor + ranges[i].start, end = floor + ranges[i].end;

        FUZZ_CHECK(start >= from && end > start && end <= largest + 1);
        for (uint64_t n = start; n < end; n++)
            FUZZ_CHECK(arrived[n]);
        /* No number between two ranges has arrived. Ranges older than the first may be missing. */
        for (uint64_t n = from; i > 0 && n < start; n++)
            FUZZ_CHECK(!arrived[n]);
        from = end;
    }
    FUZZ_CHECK(!count || from == largest + 1);
}

static void numbers(struct fuzz_in *in)
{
    static bool arrived[NUMBERS];
    struct eng *eng = engine();
    struct eng_vi *vi = engine_vi(eng, 0);
    struct eng_conn conn = {.packet_bytes = 512, .window_bytes = 512};
    uint64_t largest = 0;

    memset(arrived, 0, sizeof(arrived));
    eng_vi_connect(eng, 0, &conn, 1);
    while (fuzz_more(in)) {
        uint8_t what = fuzz_8(in);
        uint64_t n = what & 1 ? largest + 1 + (what >> 4) : fuzz_below(in, NUMBERS - 20);
        struct vip_header hdr = {.packet_number = n};
        enum eng_number verdict;

        if (!n || n >= NUMBERS || n > largest + 4000)
            continue;
        verdict = eng_number_judge(vi, n);
        if (n >= vi->rx.base)
            FUZZ_CHECK(verdict == (arrived[n] ? ENG_NUMBER_SEEN : ENG_NUMBER_NEW));
        else
            FUZZ_CHECK(verdict == ENG_NUMBER_SEEN);
        if (verdict == ENG_NUMBER_NEW) {
            eng_number_record(vi, &hdr, 1);
            arrived[n] = true;
            largest = n > largest ? n : largest;
        }
        if (what & 2)
            check_ranges(vi, arrived, largest, 1 + what % VIP_WIRE_RANGES_MAX);
    }
    check_ranges(vi, arrived, largest, VIP_WIRE_RANGES_MAX);
    eng_vi_destroy(eng, 0);
    free(vi);
    free(eng);
}

/* ---- timers of the engine -------------------------------------------------------------------- */

#define TIMERS 24u

static void timers(struct fuzz_in *in)
{
    struct eng *eng = engine();
    static struct eng_vi *vi[TIMERS]; /* allocated once, because a VI is big */
    uint64_t at_ns[TIMERS];

    for (uint16_t i = 0; i < TIMERS; i++) {
        if (!vi[i])
            vi[i] = zeroed(eng_vi_bytes());
        vi[i]->heap_at = 0;
        vi[i]->eng = eng;
        vi[i]->index = i;
        eng->vi[i] = vi[i];
        at_ns[i] = ENG_NEVER;
    }
    while (fuzz_more(in)) {
        unsigned which = fuzz_below(in, TIMERS), count = 0;
        uint64_t first_ns = ENG_NEVER;

        at_ns[which] = fuzz_8(in) & 3 ? fuzz_16(in) : ENG_NEVER;
        eng_timer_set(vi[which], at_ns[which]);
        for (unsigned i = 0; i < TIMERS; i++) {
            first_ns = at_ns[i] < first_ns ? at_ns[i] : first_ns;
            count += at_ns[i] != ENG_NEVER;
            FUZZ_CHECK((vi[i]->heap_at != 0) == (at_ns[i] != ENG_NEVER));
            if (vi[i]->heap_at)
                FUZZ_CHECK(eng->timer[vi[i]->heap_at - 1].vi == i &&
                           eng->timer[vi[i]->heap_at - 1].at_ns == at_ns[i]);
        }
        FUZZ_CHECK(eng_deadline(eng) == first_ns && eng->timer_count == count);
    }
    free(eng);
}

/* ---- timers and tables of the connection manager --------------------------------------------- */

struct thing {
    struct cm_timer timer;
    struct cm_node node;
    bool armed, in;
    uint64_t at_ns, key;
};

static void table_check(struct cm *cm, struct cm_table *table, struct thing *things, uint64_t key)
{
    unsigned want = 0, have = 0;

    for (unsigned i = 0; i < TIMERS; i++)
        want += things[i].in && things[i].key == key;
    for (struct cm_node *n = cm_table_find(cm, table, key); n; n = cm_table_again(n)) {
        const struct thing *thing = CM_OF(struct thing, node, n);

        FUZZ_CHECK(thing->in && thing->key == key);
        have++;
    }
    FUZZ_CHECK(have == want);
}

static void manager(struct fuzz_in *in)
{
    struct cm *cm = zeroed(sizeof(*cm));
    struct cm_table *table = zeroed(sizeof(*table));
    struct thing things[TIMERS] = {0};
    unsigned bucket = 0;

    cm->salt = fuzz_8(in);
    while (fuzz_more(in)) {
        uint8_t what = fuzz_8(in);
        struct thing *thing = &things[fuzz_below(in, TIMERS)], *first = NULL;

        thing->timer.kind = CM_TIMER_PENDING;
        if (what & 1) {
            thing->armed = (what & 6) != 0;
            thing->at_ns = fuzz_16(in);
            if (thing->armed)
                cm_timer_set(cm, &thing->timer, thing->at_ns);
            else
                cm_timer_clear(cm, &thing->timer);
        } else if (thing->in) {
            cm_node_del(&thing->node);
            cm_node_del(&thing->node);
            thing->in = false;
        } else {
            thing->key = what >> 4;
            thing->in = true;
            cm_table_add(cm, table, &thing->node, thing->key);
        }
        for (unsigned i = 0; i < TIMERS; i++) {
            FUZZ_CHECK(things[i].timer.armed == things[i].armed);
            if (things[i].armed && (!first || things[i].at_ns < first->at_ns))
                first = &things[i];
        }
        FUZZ_CHECK(first ? cm->timers && cm->timers->at_ns == first->at_ns : !cm->timers);
        table_check(cm, table, things, what >> 4);
    }
    for (unsigned i = 0; i < TIMERS; i++) {
        cm_timer_clear(cm, &things[i].timer);
        cm_node_del(&things[i].node);
    }
    FUZZ_CHECK(!cm->timers && !cm_table_any(table, &bucket));
    free(table);
    free(cm);
}

/* ---- held packets ---------------------------------------------------------------------------- */

#define HELD 48u

static void held(struct fuzz_in *in)
{
    struct eng *eng = engine();
    struct eng_vi *vi = engine_vi(eng, 0);
    struct eng_pos at[HELD + 1];
    bool used[HELD + 1] = {0}, dropped = false;
    uint32_t token;
    uint16_t index;
    bool feed;

    vi->rx.at = (struct eng_pos){fuzz_8(in) ? UINT32_MAX - 3 : 0, 0};
    eng->config.held_packets_max = HELD - fuzz_8(in) % 8;
    while (fuzz_more(in)) {
        uint8_t what = fuzz_8(in);
        struct eng_pos pos = {vi->rx.at.op + fuzz_8(in) % 8, fuzz_8(in) % 32};
        unsigned kept = 0;

        for (token = 1; token <= HELD && used[token];)
            token++;
        for (unsigned i = 1; i <= HELD; i++)
            kept += used[i];
        switch (what % 4) {
        case 0:
        case 1:
            if (token > HELD)
                break;
            used[token] = eng_held_add(vi, ENG_STREAM_OPS, pos, token);
            FUZZ_CHECK(used[token] == (kept < eng->config.held_packets_max));
            at[token] = pos;
            break;
        case 2:
            vi->rx.at = pos;
            eng_held_check(vi);
            break;
        default:
            if (what > 250) {
                eng_held_drop(vi);
                dropped = true;
            }
        }
        while (eng_replay(eng, &index, &token, &feed)) {
            FUZZ_CHECK(token >= 1 && token <= HELD && used[token] && index == 0);
            used[token] = false;
            FUZZ_CHECK(feed != dropped);
            for (unsigned i = 1; i <= HELD && feed; i++)
                FUZZ_CHECK(!used[i] || !eng_pos_before(at[i], at[token]));
            FUZZ_CHECK(!feed || !eng_pos_before(vi->rx.at, at[token]));
        }
        dropped = false;
        kept = 0;
        for (unsigned i = 1; i <= HELD; i++)
            kept += used[i];
        FUZZ_CHECK(vi->held_count == kept);
    }
    eng_vi_destroy(eng, 0);
    while (eng_replay(eng, &index, &token, &feed)) {
        FUZZ_CHECK(!feed && used[token]);
        used[token] = false;
    }
    for (unsigned i = 1; i <= HELD; i++)
        FUZZ_CHECK(!used[i]);
    free(vi);
    free(eng);
}

/* ---- handles and protection tags ------------------------------------------------------------- */

#define REGIONS 12u
#define TAGS    4u

struct model_region {
    uint32_t handle; /* 0: no region */
    struct registry_region region;
};

static bool model_access(const struct model_region *regions, const struct registry_vi *vi,
                         const struct eng_access *access)
{
    for (unsigned i = 0; i < REGIONS; i++) {
        const struct registry_region *r = &regions[i].region;

        if (!regions[i].handle || regions[i].handle != access->handle)
            continue;
        if (r->attrs.ptag && vi->ptag && r->attrs.ptag != vi->ptag)
            return false;
        if (access->kind == ENG_ACCESS_REMOTE_WRITE &&
            !(vi->enable_rdma_write && r->attrs.enable_rdma_write))
            return false;
        if (access->kind == ENG_ACCESS_REMOTE_READ &&
            !(vi->enable_rdma_read && r->attrs.enable_rdma_read))
            return false;
        return !access->len || ((unsigned __int128)access->addr + access->len <=
                                    (unsigned __int128)r->addr + r->bytes &&
                                access->addr >= r->addr);
    }
    return false;
}

static int arena(void)
{
    static int fd = -1;

    if (fd < 0) {
        fd = memfd_create("arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        FUZZ_CHECK(fd >= 0 && ftruncate(fd, (off_t)VIP_ARENA_BYTES) == 0);
        FUZZ_CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
    }
    return dup(fd);
}

static void region_add(struct registry *registry, struct model_region *model, struct fuzz_in *in,
                       const uint32_t *tags)
{
    struct registry_region region = {.addr = fuzz_number(in),
                                     .bytes = fuzz_number(in),
                                     .kind = REGISTRY_ADOPTED,
                                     .offset = fuzz_number(in)};
    uint8_t rights = fuzz_8(in);
    char why[256] = "";
    enum vip_rc rc;

    region.attrs.ptag = tags[rights >> 4 & 3];
    region.attrs.enable_rdma_write = rights & 1;
    region.attrs.enable_rdma_read = rights & 2;
    rc = registry_add(registry, &region, -1, &model->handle, why, sizeof(why));
    if (rc != VIP_RC_SUCCESS) {
        FUZZ_CHECK(why[0]);
        model->handle = 0;
        return;
    }
    FUZZ_CHECK(model->handle && model->handle != UINT32_MAX);
    FUZZ_CHECK(region.bytes && region.bytes - 1 <= UINT64_MAX - region.addr);
    model->region = region;
}

static void handles(struct fuzz_in *in)
{
    struct registry_limits limits = {
        .regions_max = REGIONS - 2, .bytes_max = 1ull << 33, .ptags_max = TAGS - 1};
    struct model_region regions[REGIONS] = {0};
    uint32_t tags[TAGS] = {0}, old = 0;
    struct registry *registry;

    FUZZ_CHECK(registry_new(&limits, arena(), &registry) == 0);
    while (fuzz_more(in)) {
        uint8_t what = fuzz_8(in);
        unsigned which = fuzz_below(in, REGIONS);
        struct model_region *model = &regions[which];
        struct registry_vi vi = {tags[what >> 5 & 3], what & 16, what & 8};
        struct eng_access access = {.kind = (enum eng_access_kind)(what >> 6)};
        uint32_t *tag = &tags[1 + which % (TAGS - 1)];

        switch (what % 8) {
        case 0:
        case 1:
            if (!model->handle)
                region_add(registry, model, in, tags);
            break;
        case 2:
            if (!model->handle)
                break;
            FUZZ_CHECK(registry_remove(registry, model->handle, model->region.addr + 1) !=
                       VIP_RC_SUCCESS);
            FUZZ_CHECK(registry_remove(registry, model->handle, model->region.addr) ==
                       VIP_RC_SUCCESS);
            old = model->handle;
            model->handle = 0;
            break;
        case 3:
            if (!*tag && registry_ptag_create(registry, tag) == VIP_RC_SUCCESS)
                FUZZ_CHECK(*tag && registry_ptag_valid(registry, *tag));
            break;
        case 4:
            if (*tag && registry_ptag_destroy(registry, *tag) == VIP_RC_SUCCESS) {
                for (unsigned i = 0; i < REGIONS; i++)
                    FUZZ_CHECK(!regions[i].handle || regions[i].region.attrs.ptag != *tag);
                FUZZ_CHECK(!registry_ptag_valid(registry, *tag));
                *tag = 0;
            }
            break;
        default:
            access.handle = what & 1 ? model->handle : what & 4 ? old : (uint32_t)fuzz_number(in);
            access.addr = model->region.addr + model->region.bytes * (which & 1);
            access.addr += fuzz_number(in) * (what & 2 ? 1 : -1ull);
            access.len = (uint32_t)fuzz_number(in);
            FUZZ_CHECK((registry_access(registry, &vi, &access, NULL) != NULL) ==
                       model_access(regions, &vi, &access));
        }
    }
    registry_free(registry);
}

void fuzz_one(const uint8_t *bytes, size_t len)
{
    struct fuzz_in in = {bytes, bytes + len};

    switch (fuzz_8(&in) % 6) {
    case 0:
        bits(&in);
        break;
    case 1:
        numbers(&in);
        break;
    case 2:
        timers(&in);
        break;
    case 3:
        manager(&in);
        break;
    case 4:
        held(&in);
        break;
    default:
        handles(&in);
    }
}
