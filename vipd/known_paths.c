/* Paths of other hosts in a file; see known_paths.h. */
#include "vipd/known_paths.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/wire_path.h"
#include "vipd/host.h"
#include "vipd/kept_file.h"
#include "vipd/link/path_hosts.h"
#include "vipd/log.h"
#include "vipd/nic/nic.h"

/* Number of the file's format. A vipd that knows another number ignores the file. */
#define MAGIC 0x31485441u

#define ENTRIES_MAX (PATH_HOSTS_MAX * (VIP_PATHS_MAX - 1u) * VIPD_NICS_MAX)

/* Time from the first new address until the file is written: addresses come in groups. */
#define SOON_NS 1000000000ull

/* One address of a host. The file is an array of such entries. */
struct entry {
    uint32_t magic;
    uint32_t path;
    char nic[VIP_NIC_NAME_BYTES];
    uint8_t name_len, addr_len;
    uint8_t name[VIP_HOST_ADDR_BYTES_MAX], addr[VIP_HOST_ADDR_BYTES_MAX];
    uint8_t kind; /* enum link_kind of `name` and `addr` */
    uint8_t zero[5];
};
_Static_assert(sizeof(struct entry) == 128, "format of the file");

struct known_paths {
    int dir_fd;
    struct vipd_timer *timer;
    bool armed;
    bool failed; /* the log already says that the file cannot be written */
};

/* ---- reading ------------------------------------------------------------------------------ */

static void tell(const struct vipd *vipd, const struct entry *entry)
{
    struct link_addr name = {.len = entry->name_len}, addr = {.len = entry->addr_len};

    if (entry->magic != MAGIC || entry->nic[sizeof(entry->nic) - 1] != '\0' ||
        entry->name_len > sizeof(name.bytes) || entry->addr_len > sizeof(addr.bytes))
        return;
    memcpy(name.bytes, entry->name, name.len);
    memcpy(addr.bytes, entry->addr, addr.len);
    for (unsigned i = 0; i < vipd->nic_count; i++)
        if (strcmp(vipd->nics[i].config->name, entry->nic) == 0 &&
            vipd->nics[i].config->link == (enum link_kind)entry->kind)
            nic_remember_path(vipd->nics[i].nic, &name, entry->path, &addr);
}

/* ---- writing ------------------------------------------------------------------------------ */

/* The entries that write_file writes. */
struct batch {
    const struct vipd_nic_config *nic;
    struct entry *entries;
    uint32_t count, room;
    bool failed; /* no memory */
};

static void add(void *ctx, const struct link_addr *host, unsigned path,
                const struct link_addr *addr)
{
    struct batch *batch = ctx;
    struct entry *entry;

    if (batch->count == batch->room) {
        uint32_t room = batch->room ? 2 * batch->room : 64;
        struct entry *more = realloc(batch->entries, room * sizeof(*more));

        if (!more) {
            batch->failed = true;
            return;
        }
        batch->entries = more;
        batch->room = room;
    }
    entry = &batch->entries[batch->count++];
    *entry = (struct entry){.magic = MAGIC,
                            .path = path,
                            .kind = (uint8_t)batch->nic->link,
                            .name_len = host->len,
                            .addr_len = addr->len};
    snprintf(entry->nic, sizeof(entry->nic), "%s", batch->nic->name);
    memcpy(entry->name, host->bytes, host->len);
    memcpy(entry->addr, addr->bytes, addr->len);
}

static int write_file(const struct vipd *vipd)
{
    struct batch batch = {0};
    int r;

    for (unsigned i = 0; i < vipd->nic_count; i++) {
        batch.nic = vipd->nics[i].config;
        nic_visit_paths(vipd->nics[i].nic, add, &batch);
    }
    if (batch.failed) {
        free(batch.entries);
        return -ENOMEM;
    }
    r = kept_file_write(vipd->known_paths->dir_fd, KNOWN_PATHS_FILE, batch.entries,
                        batch.count * sizeof(*batch.entries));
    free(batch.entries);
    return r;
}

static void save(struct vipd *vipd)
{
    struct known_paths *known = vipd->known_paths;
    int r = write_file(vipd);

    if (r == 0 || known->failed)
        return;
    known->failed = true;
    vipd_warning("%s/" KNOWN_PATHS_FILE
                 " cannot be written: %s; a vipd that begins while path 1 is "
                 "cut will not reach other hosts",
                 vipd->runtime_dir, strerror(-r));
}

static void on_timer(void *ctx)
{
    struct vipd *vipd = ctx;

    vipd->known_paths->armed = false;
    save(vipd);
}

void known_paths_learned(void *ctx)
{
    struct vipd *vipd = ctx;

    __atomic_store_n(&vipd->paths_learned, 1, __ATOMIC_RELEASE);
    vipd_host_call(vipd->loop);
}

void known_paths_touch(struct vipd *vipd)
{
    struct known_paths *known = vipd->known_paths;

    if (!known || known->armed || !__atomic_load_n(&vipd->paths_learned, __ATOMIC_ACQUIRE))
        return;
    __atomic_store_n(&vipd->paths_learned, 0, __ATOMIC_RELEASE);
    known->armed = true;
    vipd_timer_start(known->timer, SOON_NS);
}

/* ---- life --------------------------------------------------------------------------------- */

static bool has_paths(const struct vipd *vipd)
{
    bool any = false;

    for (unsigned i = 0; i < vipd->nic_count; i++)
        any = any || vipd->nics[i].config->keys.paths[0] != '\0';
    return any;
}

void known_paths_begin(struct vipd *vipd, int dir_fd, uid_t user)
{
    struct known_paths *known = has_paths(vipd) ? calloc(1, sizeof(*known)) : NULL;
    struct entry *past;
    uint32_t count;

    if (!known)
        return;
    known->dir_fd = dir_fd;
    known->timer = vipd_timer_new(vipd->loop, on_timer, vipd);
    if (!known->timer) {
        free(known);
        return;
    }
    vipd->known_paths = known;
    count =
        kept_file_read(dir_fd, KNOWN_PATHS_FILE, user, sizeof(*past), ENTRIES_MAX, (void **)&past);
    for (uint32_t i = 0; i < count; i++)
        tell(vipd, &past[i]);
    free(past);
}

void known_paths_end(struct vipd *vipd)
{
    struct known_paths *known = vipd->known_paths;

    if (!known)
        return;
    if (known->armed || __atomic_load_n(&vipd->paths_learned, __ATOMIC_ACQUIRE))
        save(vipd);
    vipd_timer_free(known->timer);
    free(known);
    vipd->known_paths = NULL;
}
