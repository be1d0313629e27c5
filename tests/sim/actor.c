#include "tests/sim/actor.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/ring.h"

/* The part of a session's arena that its application maps. */
#define ARENA_BYTES (512u << 20)

/* ---- bytes ----------------------------------------------------------------------------- */

static uint8_t pattern[2 * PATTERN];

const uint8_t *pattern_bytes(void)
{
    struct chance chance = {.state = 4711};

    if (pattern[0] || pattern[1])
        return pattern;
    for (unsigned i = 0; i < PATTERN; i++)
        pattern[i] = pattern[PATTERN + i] = (uint8_t)chance_next(&chance);
    return pattern;
}

bool pattern_is(const uint8_t *bytes, uint32_t start, uint32_t len)
{
    for (uint32_t at = 0; at < len; at += PATTERN)
        if (memcmp(bytes + at, pattern + start, len - at < PATTERN ? len - at : PATTERN) != 0)
            return false;
    return true;
}

void pattern_copy(uint8_t *to, uint32_t start, uint32_t len)
{
    for (uint32_t at = 0; at < len; at += PATTERN)
        memcpy(to + at, pattern + start, len - at < PATTERN ? len - at : PATTERN);
}

bool bytes_are(const uint8_t *bytes, uint8_t value, uint32_t len)
{
    return !len || (bytes[0] == value && memcmp(bytes, bytes + 1, len - 1) == 0);
}

/* ---- registered memory ----------------------------------------------------------------- */

struct vip_shm_seg mem_seg(const struct mem *mem, uint32_t offset, uint32_t len)
{
    return (struct vip_shm_seg){.addr = mem->addr + offset, .handle = mem->handle, .len = len};
}

static struct registry_region region_of(const struct mem *mem)
{
    return (struct registry_region){.addr = mem->addr,
                                    .offset = mem->staged ? 0 : mem->offset,
                                    .bytes = mem->len,
                                    .kind = mem->staged ? REGISTRY_STAGED : REGISTRY_ADOPTED,
                                    .attrs = {.ptag = mem->ptag,
                                              .enable_rdma_write = mem->writable,
                                              .enable_rdma_read = mem->readable}};
}

/* Register the memory of `mem`. The first call for `mem` also chooses its place in the arena. */
void mem_register(struct sess *sess, struct mem *mem)
{
    struct registry_region region;
    char why[128] = "";
    int fd = -1;

    if (!mem->bytes) {
        mem->offset = sess->arena_used;
        mem->bytes = sess->arena + mem->offset;
        /* No real memory is at this address, so a wrong address hits no other memory. */
        mem->addr = 0x7a0000000000ull + ((uint64_t)sess->host << 40) +
                    ((uint64_t)sess->index << 36) + mem->offset;
        sess->arena_used += (mem->len + 4095u) & ~4095u;
        if (sess->arena_used > ARENA_BYTES)
            play_fail(sess->play, "the arena is too small");
        /* Populate all pages at once: single page faults take longer than writing the bytes. */
        (void)madvise(mem->bytes, mem->len, MADV_POPULATE_WRITE);
    }
    region = region_of(mem);
    if (mem->staged)
        fd = staged_open(sess, mem);
    if (registry_add(sess->registry, &region, fd, &mem->handle, why, sizeof(why)) != VIP_RC_SUCCESS)
        play_fail(sess->play, "registry_add: %s", why);
    mem->live = true;
}

void mem_restore(struct sess *sess, const struct mem *mem)
{
    struct registry_region region = region_of(mem);
    char why[128] = "";

    if (mem->live && registry_restore(sess->registry, &region, mem->staged ? dup(mem->copy_fd) : -1,
                                      mem->handle, why, sizeof(why)) != VIP_RC_SUCCESS)
        play_fail(sess->play, "registry_restore: %s", why);
}

void mem_deregister(struct sess *sess, struct mem *mem)
{
    if (registry_remove(sess->registry, mem->handle, mem->addr) != VIP_RC_SUCCESS)
        play_fail(sess->play, "registry_remove");
    mem->live = false;
    staged_close(mem);
    memset(mem->bytes, BYTE_GONE, mem->len);
}

/* ---- sessions -------------------------------------------------------------------------- */

uint64_t sess_now(const struct sess *sess)
{
    return world_host_now(&sess->play->world.host[sess->host]);
}

const struct nic_sink sess_sink = {
    .incoming = sink_incoming,
    .result = sink_result,
    .error = sink_error,
    .place = sink_place,
    .fetch = sink_fetch,
};

void *map_zeroes(struct play *play, uint64_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (at == MAP_FAILED)
        play_fail(play, "mmap");
    return at;
}

/* The registry gets the whole arena. The application maps only the part that it uses. */
static void arena_open(struct sess *sess)
{
    int fd = memfd_create("arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0 || ftruncate(fd, (off_t)VIP_ARENA_BYTES) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) < 0)
        play_fail(sess->play, "memfd");
    sess->arena_fd = dup(fd);
    sess->arena = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (sess->arena_fd < 0 || sess->arena == MAP_FAILED ||
        registry_new(&SESS_LIMITS, fd, &sess->registry) < 0)
        play_fail(sess->play, "registry_new");
}

static void sess_regions(struct sess *sess)
{
    const struct plan *plan = &sess->play->plan;

    sess->pattern = (struct mem){
        .len = 2 * PATTERN, .ptag = sess->ptag, .readable = plan->reads, .staged = plan->staged};
    sess->other =
        (struct mem){.len = 4096, .ptag = sess->ptag_other, .readable = true, .writable = true};
    sess->closed = (struct mem){.len = 4096, .ptag = sess->ptag};
    mem_register(sess, &sess->pattern);
    memcpy(sess->pattern.bytes, pattern_bytes(), 2 * PATTERN);
    mem_register(sess, &sess->other);
    memset(sess->other.bytes, BYTE_CANARY, sess->other.len);
    mem_register(sess, &sess->closed);
    memset(sess->closed.bytes, BYTE_CANARY, sess->closed.len);
}

void sess_open(struct play *play, unsigned host, unsigned index)
{
    struct sess *sess = &play->sess[host][index];
    struct nic_session_args args = {
        .id = index, .layout = nic_layout(VIP_SHM_ABI), .sink = &sess_sink, .ctx = sess};
    char why[128] = "";
    uint32_t cq;

    *sess = (struct sess){.play = play,
                          .host = host,
                          .index = index,
                          .alive = true,
                          .life = sess->life + 1,
                          .cq = -1,
                          .born_ns = play_now(play)};
    arena_open(sess);
    sess->app = map_zeroes(play, VIP_APP_BYTES);
    sess->vipd = map_zeroes(play, VIP_VIPD_BYTES);
    args.app_base = sess->app;
    args.vipd_base = sess->vipd;
    args.registry = sess->registry;
    if (nic_session_new(play->world.host[host].nic, &args, sess_now(sess), &sess->nic) < 0)
        play_fail(play, "nic_session_new");
    if (registry_ptag_create(sess->registry, &sess->ptag) != VIP_RC_SUCCESS ||
        registry_ptag_create(sess->registry, &sess->ptag_other) != VIP_RC_SUCCESS)
        play_fail(play, "registry_ptag_create");
    sess_regions(sess);
    if (play->plan.cq) {
        if (nic_cq_create(sess->nic, 1024, &cq, &sess->cq_position, why, sizeof(why)) !=
            VIP_RC_SUCCESS)
            play_fail(play, "nic_cq_create: %s", why);
        sess->cq = (int32_t)cq;
    }
    world_line(&play->world, LINE_SESSION, host, index, sess->life, 0, 0);
}

void sess_close(struct sess *sess, bool died)
{
    struct play *play = sess->play;

    world_line(&play->world, LINE_DEATH, sess->host, sess->index, died, 0, 0);
    for (unsigned i = 0; i < play->plan.pairs; i++)
        for (unsigned side = 0; side < 2; side++) {
            struct end *end = &play->pair[i].end[side];

            if (end->sess != sess || !end->exists)
                continue;
            (void)end_judge(end);
            if (end->attempt)
                end->attempt->may_end = true;
            end_detach(end);
            end->exists = false;
            end->state = END_IDLE;
            free(end->shadow);
            end->shadow = NULL;
            kept_free(end);
            staged_close(&end->window);
        }
    sess_judge_memory(sess);
    staged_close(&sess->pattern);
    free(sess->placing);
    sess->placing = NULL;
    sess->placing_first = sess->placing_end = 0;
    nic_session_free(sess->nic, died, sess_now(sess));
    registry_free(sess->registry);
    munmap(sess->arena, ARENA_BYTES);
    close(sess->arena_fd);
    munmap(sess->app, VIP_APP_BYTES);
    munmap(sess->vipd, VIP_VIPD_BYTES);
    sess->alive = false;
    play->world.host[sess->host].due = true;
}

/* ---- VIs ------------------------------------------------------------------------------- */

static void end_regions(struct end *end)
{
    struct sess *sess = end->sess;
    uint32_t bytes = SLOTS * (sess->play->plan.size_max + 2 * CANARY);

    end->recv = end->source = end->landing = (struct mem){.len = bytes, .ptag = sess->ptag};
    end->window = (struct mem){
        .len = bytes, .ptag = sess->ptag, .writable = true, .staged = sess->play->plan.staged};
    mem_register(sess, &end->recv);
    mem_register(sess, &end->source);
    mem_register(sess, &end->landing);
    mem_register(sess, &end->window);
    memset(end->recv.bytes, BYTE_CANARY, bytes);
    memset(end->landing.bytes, BYTE_CANARY, bytes);
    memset(end->window.bytes, BYTE_CANARY, bytes);
    end->shadow = malloc(bytes);
    memset(end->shadow, BYTE_CANARY, bytes);
}

void end_create(struct end *end, uint16_t level)
{
    struct sess *sess = end->sess;
    struct play *play = sess->play;
    struct nic_vi_args args = {.attrs = {.level = level,
                                         .max_transfer_bytes = play->plan.size_max,
                                         .enable_rdma_write = true,
                                         .enable_rdma_read = true},
                               .ptag = sess->ptag,
                               .send_cq = sess->cq,
                               .recv_cq = sess->cq};
    struct nic_vi_created created;
    char why[128] = "";

    /* In two of three pairs one of the two queues has no CQ. */
    if (end->pair->number % 3 == 1)
        args.send_cq = -1;
    if (end->pair->number % 3 == 2)
        args.recv_cq = -1;
    if (nic_vi_create(sess->nic, &args, &created, why, sizeof(why)) != VIP_RC_SUCCESS)
        play_fail(play, "nic_vi_create: %s", why);
    end->exists = true;
    end->vi = created.vi;
    end->generation = created.generation;
    end->state = END_IDLE;
    end->attempt = NULL;
    end->position[VIP_Q_SEND] = created.send_position;
    end->position[VIP_Q_RECV] = created.recv_position;
    end->cq[VIP_Q_SEND] = args.send_cq;
    end->cq[VIP_Q_RECV] = args.recv_cq;
    memset(end->posted, 0, sizeof(end->posted));
    memset(end->done, 0, sizeof(end->done));
    memset(end->cq_seen, 0, sizeof(end->cq_seen));
    end_regions(end);
    if (play->plan.kills && !nic_vi_checkpoint(sess->nic, end->vi, &end->past))
        play_fail(play, "nic_vi_checkpoint");
}

struct end *end_next(struct sess *sess, struct end *end)
{
    struct play *play = sess->play;
    unsigned at = end ? 2 * end->pair->number + end->side + 1 : 0;

    for (; at < 2 * play->plan.pairs; at++) {
        end = &play->pair[at / 2].end[at % 2];
        if (end->sess == sess && end->exists)
            return end;
    }
    return NULL;
}

enum vip_vi_state end_vi_state(const struct end *end)
{
    return (enum vip_vi_state)vip_load32(&vip_vipd_vi(end->sess->vipd, end->vi)->state);
}

uint32_t end_written(const struct end *end, enum vip_queue queue)
{
    const struct vip_vipd_vi *block = vip_vipd_vi(end->sess->vipd, end->vi);
    uint32_t written = queue == VIP_Q_RECV ? vip_commit_read(&block->commit).received
                                           : vip_load32(&block->prod[queue]);

    return end->done[queue] + (written - end->position[queue]);
}

/* ---- the submission ring --------------------------------------------------------------- */

bool end_can_post(const struct end *end)
{
    const struct vip_vipd_head *head = end->sess->vipd;

    return end->sess->sq_position + VIP_SQ_SLOTS_FOR(VIP_SEGS_PER_DESC_MAX) +
               VIP_SQ_SLOTS_FOR_MSG(VIP_MESSAGE_BYTES_MAX) - vip_load32(&head->sq_cons) <=
           VIP_SQ_SLOTS;
}

/* Write the descriptor's slots after its first slot: segments, then the message part. */
static void post_rest(const struct end *end, const struct post *post)
{
    struct sess *sess = end->sess;
    uint32_t at = sess->sq_position + 1;
    struct vip_sq_slot as_slot;

    for (unsigned done = 2; done < post->count; done += 3, at++) {
        struct vip_sq_cont cont = {.vi = end->vi, .kind = VIP_SQ_CONT};

        memcpy(cont.seg, post->segs + done,
               (post->count - done < 3 ? post->count - done : 3u) * sizeof(*post->segs));
        memcpy(&as_slot, &cont, sizeof(cont));
        vip_sq_write(vip_app_sq(sess->app), at, &as_slot);
    }
    for (uint32_t done = 0; done < post->message_bytes; done += VIP_SQ_MSG_BYTES, at++) {
        struct vip_sq_msg part = {
            .vi = end->vi, .kind = VIP_SQ_MSG, .len = (uint16_t)post->message_bytes};
        uint32_t left = post->message_bytes - done;

        memcpy(part.bytes, post->message + done, left < VIP_SQ_MSG_BYTES ? left : VIP_SQ_MSG_BYTES);
        memcpy(&as_slot, &part, sizeof(part));
        vip_sq_write(vip_app_sq(sess->app), at, &as_slot);
    }
}

bool end_post(struct end *end, const struct post *post)
{
    struct sess *sess = end->sess;
    const struct vip_vipd_head *head = sess->vipd;
    struct vip_sq_slot slot = {.vi = end->vi,
                               .kind = post->queue == VIP_Q_SEND ? VIP_SQ_SEND : VIP_SQ_RECV,
                               .flags = post->flags,
                               .control = post->control,
                               .seg_count = (uint16_t)post->count,
                               .length = post->length,
                               .imm = post->imm,
                               .vi_gen = end->generation};
    uint32_t slots = VIP_SQ_SLOTS_FOR(post->count) + VIP_SQ_SLOTS_FOR_MSG(post->message_bytes);

    if (sess->sq_position + slots - vip_load32(&head->sq_cons) > VIP_SQ_SLOTS)
        return false;
    if (post->count)
        memcpy(slot.seg, post->segs, (post->count < 2 ? post->count : 2u) * sizeof(*post->segs));
    post_rest(end, post);
    vip_sq_write(vip_app_sq(sess->app), sess->sq_position, &slot);
    sess->sq_position += slots;
    kept_add(end, post);
    /* Wake vipd only if it says in the segment that it sleeps. */
    if (vip_load32(&head->asleep))
        sess->play->world.host[sess->host].due = true;
    return true;
}
