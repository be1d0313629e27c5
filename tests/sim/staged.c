/*
 * Staged memory as libvipl handles it. vipd reaches only a copy of the region. When vipd asks,
 * libvipl moves bytes between the copy and the application's memory, in the order of the requests.
 * libvipl answers after some time. Until then vipd must not acknowledge these bytes or send them as
 * the answer to an RDMA Read.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/sim/actor.h"

/* Room for unanswered requests for copies. vipd may have fewer of them (NIC_PLACES_MAX). */
#define PLACINGS 8192u

/* Bytes that libvipl must move. */
struct placing {
    uint64_t number, offset, bytes;
    uint64_t at_ns; /* time at which libvipl moves them */
    uint32_t handle;
    bool fetch; /* true: copy into the "out" half; false: copy out of the "in" half */
};

static uint64_t half_bytes(const struct mem *mem)
{
    return (mem->len + 4095ull) & ~4095ull;
}

int staged_open(struct sess *sess, struct mem *mem)
{
    int fd = memfd_create("staged", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    void *at = MAP_FAILED;

    if (fd >= 0 && ftruncate(fd, (off_t)(2 * half_bytes(mem))) == 0 &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0)
        at = mmap(NULL, 2 * half_bytes(mem), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        play_fail(sess->play, "memfd of a staged region");
    mem->copy = at;
    mem->copy_fd = dup(fd);
    return fd;
}

void staged_close(struct mem *mem)
{
    if (mem->copy) {
        munmap(mem->copy, 2 * half_bytes(mem));
        close(mem->copy_fd);
    }
    mem->copy = NULL;
}

static void asked(struct sess *sess, const struct placing *what)
{
    struct play *play = sess->play;
    struct placing *placing;
    uint64_t delay_ns = 0;

    if (sess->killed)
        return;
    if (!sess->placing)
        sess->placing = calloc(PLACINGS, sizeof(*sess->placing));
    if (sess->placing_end - sess->placing_first == PLACINGS)
        play_fail(play, "host %u session %u: the library is asked for too much at once", sess->host,
                  sess->index);
    placing = &sess->placing[sess->placing_end++ % PLACINGS];
    *placing = *what;
    if (!play->plan.clean && chance_ppm(&play->extra, 300000))
        delay_ns = chance_below(&play->extra, 2 * WORLD_MS);
    placing->at_ns = play_now(play) + delay_ns;
}

void sink_place(void *ctx, uint64_t number, uint32_t handle, uint64_t offset, uint64_t bytes)
{
    asked(ctx,
          &(struct placing){.number = number, .handle = handle, .offset = offset, .bytes = bytes});
}

void sink_fetch(void *ctx, uint64_t number, uint32_t handle, uint64_t offset, uint64_t bytes)
{
    asked(ctx,
          &(struct placing){
              .number = number, .handle = handle, .offset = offset, .bytes = bytes, .fetch = true});
}

/* Returns the region with this handle. NULL: it is not registered any more. */
static struct mem *region_of(struct sess *sess, uint32_t handle)
{
    struct play *play = sess->play;

    if (sess->pattern.live && sess->pattern.handle == handle)
        return &sess->pattern;
    for (unsigned i = 0; i < play->plan.pairs; i++)
        for (unsigned side = 0; side < 2; side++) {
            struct end *end = &play->pair[i].end[side];

            if (end->sess == sess && end->exists && end->window.live &&
                end->window.handle == handle)
                return &end->window;
        }
    return NULL;
}

static void move(struct sess *sess, const struct placing *placing)
{
    struct mem *mem = region_of(sess, placing->handle);

    if (!mem)
        return;
    if (!mem->staged || placing->offset > mem->len || placing->bytes > mem->len - placing->offset)
        play_fail(sess->play, "host %u session %u: the library is asked for bytes of no region",
                  sess->host, sess->index);
    if (placing->fetch)
        memcpy(mem->copy + placing->offset, mem->bytes + placing->offset, placing->bytes);
    else
        memcpy(mem->bytes + placing->offset, mem->copy + half_bytes(mem) + placing->offset,
               placing->bytes);
}

bool sess_place(struct sess *sess, bool all)
{
    struct play *play = sess->play;
    bool any = false;

    /* An answer may make vipd ask for another copy, so read the end of the list in each round. */
    while (sess->placing_first != sess->placing_end) {
        struct placing placing = sess->placing[sess->placing_first % PLACINGS];

        if (!all && placing.at_ns > play_now(play))
            break;
        sess->placing_first++;
        move(sess, &placing);
        if (!nic_placed(sess->nic, placing.number, true, sess_now(sess)))
            play_fail(play, "host %u session %u: vipd does not know what it asked for", sess->host,
                      sess->index);
        any = true;
    }
    if (any)
        play->world.host[sess->host].due = true;
    return any;
}

uint64_t sess_place_ns(const struct sess *sess)
{
    if (sess->placing_first == sess->placing_end)
        return WORLD_NEVER;
    return sess->placing[sess->placing_first % PLACINGS].at_ns;
}
