/* Owners of discriminators in a file; see owners.h. */
#include "vipd/owners.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/assert.h"
#include "vipd/kept_file.h"
#include "vipd/log.h"

/* Number of the file's format. A vipd that knows another number ignores the file. */
#define OWNERS_MAGIC 0x314e574fu

/* Largest number of entries of a file. */
#define OWNERS_MAX 65536u

/* The owner of a discriminator. The file is an array of such entries; zeroes are a free place. */
struct entry {
    uint32_t magic;
    uint32_t uid;
    char nic[VIP_NIC_NAME_BYTES];
    uint8_t len;
    uint8_t disc[VIP_DISCRIMINATOR_BYTES_MAX];
    uint8_t zero[55];
};
_Static_assert(sizeof(struct entry) == 256, "format of the file");

struct owners {
    /* Nothing else uses this lock, because a thread that has it may wait for the disk. */
    pthread_mutex_t lock;
    int fd;         /* -1: no new file could be made; then only dir_fd is used */
    int dir_fd;     /* the runtime directory, whose descriptor the caller of owners_begin has */
    uint32_t count; /* number of places that have been used */
    uint32_t *free; /* numbers of free places */
    uint32_t free_count, free_room;
    bool named; /* the new file has replaced the last vipd's file */
    int error;  /* negative errno of the first entry that could not be written; 0: none */
};

/* ---- the file ---------------------------------------------------------------------------- */

/* Write an entry to its place. A place that cannot be written as a whole becomes a free place. */
static void write_place(struct owners *owners, uint32_t place, const struct entry *entry)
{
    static const struct entry none;
    off_t at = (off_t)place * (off_t)sizeof(*entry);
    ssize_t bytes = pwrite(owners->fd, entry, sizeof(*entry), at);
    int error = bytes < 0 ? -errno : -ENOSPC;

    if (bytes == sizeof(*entry))
        return;
    if (bytes > 0)
        (void)!pwrite(owners->fd, &none, (size_t)bytes, at);
    if (owners->error < 0)
        return;
    owners->error = error;
    if (owners->named)
        vipd_warning("the owner of a discriminator cannot be written to " OWNERS_FILE
                     ": %s; after the end of this vipd another user may take it",
                     strerror(-error));
}

/* ---- changes ----------------------------------------------------------------------------- */

/* Take a place for one more entry. Places count from 1; 0: there is no free place. */
static uint32_t take_place(struct owners *owners)
{
    if (owners->free_count > 0)
        return owners->free[--owners->free_count];
    return owners->count < OWNERS_MAX ? ++owners->count : 0;
}

static void give_place(struct owners *owners, uint32_t place)
{
    if (owners->free_count == owners->free_room) {
        uint32_t room = owners->free_room ? 2 * owners->free_room : 64;
        uint32_t *more = realloc(owners->free, room * sizeof(*more));

        if (!more)
            return; /* no other entry will use the place */
        owners->free = more;
        owners->free_room = room;
    }
    owners->free[owners->free_count++] = place;
}

static void on_owned(void *ctx, const char *nic, uint32_t *record, uint32_t uid,
                     const uint8_t *disc, uint8_t len)
{
    struct vipd *vipd = ctx;
    struct entry entry = {.magic = OWNERS_MAGIC, .uid = uid, .len = len};

    if (!vipd->owners || vipd->owners->fd < 0)
        return;
    strncpy(entry.nic, nic, sizeof(entry.nic) - 1);
    memcpy(entry.disc, disc, len);
    pthread_mutex_lock(&vipd->owners->lock);
    if (*record == 0)
        *record = take_place(vipd->owners);
    if (*record != 0)
        write_place(vipd->owners, *record - 1, &entry);
    pthread_mutex_unlock(&vipd->owners->lock);
}

static void on_disowned(void *ctx, uint32_t record)
{
    static const struct entry none;
    struct vipd *vipd = ctx;

    if (!vipd->owners)
        return;
    /* A user has lost a discriminator. The last vipd's file may name this user, and must not keep
     * the discriminator for the user at a later start. */
    if (vipd->owners->fd < 0)
        (void)unlinkat(vipd->owners->dir_fd, OWNERS_FILE, 0);
    if (vipd->owners->fd < 0 || record == 0)
        return;
    pthread_mutex_lock(&vipd->owners->lock);
    write_place(vipd->owners, record - 1, &none);
    give_place(vipd->owners, record);
    pthread_mutex_unlock(&vipd->owners->lock);
}

const struct nic_owners owners_of_nic = {.owned = on_owned, .disowned = on_disowned};

/* ---- life -------------------------------------------------------------------------------- */

static bool reserve(struct vipd *vipd, const struct entry *entry, uint64_t now_ns)
{
    if (entry->magic != OWNERS_MAGIC || entry->len > sizeof(entry->disc) ||
        entry->nic[sizeof(entry->nic) - 1] != '\0')
        return false;
    for (unsigned i = 0; i < vipd->nic_count; i++)
        if (strcmp(vipd->nics[i].config->name, entry->nic) == 0)
            return nic_disc_keep(vipd->nics[i].nic, entry->disc, entry->len, entry->uid,
                                 now_ns + vipd->config->outlive_ns, now_ns) == 0;
    return false;
}

void owners_end(struct vipd *vipd)
{
    if (!vipd->owners)
        return;
    if (vipd->owners->fd >= 0)
        close(vipd->owners->fd);
    (void)pthread_mutex_destroy(&vipd->owners->lock);
    free(vipd->owners->free);
    free(vipd->owners);
    vipd->owners = NULL;
}

/* Put the new file in the old one's place, unless it lacks a reserved discriminator. */
static int name_file(struct vipd *vipd, int dir_fd)
{
    int r = vipd->owners->error;

    if (r < 0)
        kept_file_drop(dir_fd, OWNERS_FILE);
    else
        r = kept_file_name(dir_fd, OWNERS_FILE);
    if (r < 0) {
        close(vipd->owners->fd);
        vipd->owners->fd = -1;
    } else {
        vipd->owners->named = true;
    }
    return r;
}

void owners_begin(struct vipd *vipd, int dir_fd, uid_t user)
{
    struct owners *owners = calloc(1, sizeof(*owners));
    uint64_t now_ns = vipd_clock_now(); /* the loop does not run yet and has no time */
    struct entry *past;
    uint32_t count =
        kept_file_read(dir_fd, OWNERS_FILE, user, sizeof(*past), OWNERS_MAX, (void **)&past);
    uint32_t reserved = 0;
    int r = owners ? 0 : -ENOMEM;

    if (owners) {
        VIP_ASSERT(pthread_mutex_init(&owners->lock, NULL) == 0);
        owners->dir_fd = dir_fd;
        owners->fd = kept_file_make(dir_fd, OWNERS_FILE);
        r = owners->fd < 0 ? owners->fd : 0;
        if (r < 0)
            owners->fd = -1;
        vipd->owners = owners; /* set before reserve(), which writes to the new file */
    }
    for (uint32_t i = 0; i < count && vipd->config->outlive_ns > 0; i++)
        reserved += reserve(vipd, &past[i], now_ns);
    free(past);
    if (r == 0)
        r = name_file(vipd, dir_fd);
    if (r < 0)
        vipd_warning("%s/" OWNERS_FILE " cannot be made: %s; that of the last vipd stays for now, "
                     "and after the end of this vipd another user may take the discriminators of "
                     "waiting programs",
                     vipd->runtime_dir, strerror(-r));
    if (reserved > 0)
        vipd_info("%u discriminators of the last vipd are reserved for their users for %llu ms",
                  reserved, (unsigned long long)vipd->config->outlive_ns / 1000000);
}
