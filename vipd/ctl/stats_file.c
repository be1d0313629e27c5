/* The mapped statistics file; see stats_file.h. */
#include "vipd/ctl/stats_file.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/fence.h"
#include "proto/stats_file.h"
#include "vipd/ctl/gauges.h"
#include "vipd/ctl/parts.h"
#include "vipd/log.h"
#include "vipd/nic/nic.h"

/* Adding up many VIs takes long, so writing the file takes at most 1 / SHARE of vipd's time. */
#define SHARE 200u

_Static_assert(VIP_STATS_NICS_MAX == VIPD_NICS_MAX, "a block for every NIC");

struct stats_file {
    const struct vipd *vipd;
    char path[PATH_MAX];
    int fd;
    struct vip_stats_file *mapped;
    struct vip_stats_file values; /* the next contents of the file */
    struct vipd_timer *timer;
    bool armed;
    uint64_t took_ns;  /* time that the last write took */
    uint64_t requests; /* vipd->counters.requests at the last write */
    uint32_t gid;      /* group that may read the file */
};

static void set_value(void *ctx, enum vip_stat id, uint64_t value)
{
    ((uint64_t *)ctx)[id] = value;
}

static void set_counter(void *ctx, const struct nic_counter *counter)
{
    ((uint64_t *)ctx)[counter->id] = counter->value;
}

/* Collect all numbers before the copy to the file, because the file is inconsistent while vipd
 * copies them. */
static void collect(struct stats_file *file)
{
    const struct vipd *vipd = file->vipd;
    struct vip_stats_file *values = &file->values;

    vipd_stats_visit(vipd, set_value, values->vipd);
    for (unsigned i = 0; i < vipd->nic_count; i++) {
        struct vip_stats_nic *to = &values->nic[i];

        snprintf(to->name, sizeof(to->name), "%s", vipd->nics[i].config->name);
        nic_counters(vipd->nics[i].nic, set_counter, to->value);
        for (enum vip_hist_id id = 0; id < VIP_HISTS; id++)
            to->hist[id] = *nic_hist(vipd->nics[i].nic, id);
    }
    values->head.nic_count = vipd->nic_count;
    values->head.written_ns = vipd_wall_now();
}

static void write_file(struct stats_file *file)
{
    struct vip_stats_head *to = &file->mapped->head, *from = &file->values.head;
    const size_t at = offsetof(struct vip_stats_file, vipd);
    size_t nics = file->vipd->nic_count * sizeof(struct vip_stats_nic);

    collect(file);
    __atomic_store_n(&to->sequence, ++from->sequence, __ATOMIC_RELAXED);
    vip_fence_sleep(); /* [stats ODD] */
    memcpy((char *)file->mapped + at, (char *)&file->values + at, sizeof(file->values.vipd) + nics);
    to->nic_count = from->nic_count;
    to->written_ns = from->written_ns;
    __atomic_store_n(&to->sequence, ++from->sequence, __ATOMIC_RELEASE); /* [stats EVEN] */
}

static void on_timer(void *ctx)
{
    struct stats_file *file = ctx;
    uint64_t start_ns = vipd_clock_now();

    file->armed = false;
    file->requests = file->vipd->counters.requests;
    write_file(file);
    file->took_ns = vipd_clock_now() - start_ns;
}

void stats_file_touch(struct stats_file *file, bool worked)
{
    uint64_t wait_ns;

    if (!file || file->armed || (!worked && file->requests == file->vipd->counters.requests))
        return;
    wait_ns = file->vipd->config->stats_interval_ns;
    if (wait_ns < file->took_ns * SHARE)
        wait_ns = file->took_ns * SHARE;
    file->armed = true;
    vipd_timer_start(file->timer, wait_ns);
}

/* ---- life -------------------------------------------------------------------------------- */

/* Allocate all blocks first: if the file system is full, a write to the mapping would end vipd. */
static int make_file(struct stats_file *file)
{
    char path[PATH_MAX + 8];
    int r;

    snprintf(path, sizeof(path), "%s.new", file->path);
    if (unlink(path) < 0 && errno != ENOENT)
        return -errno;
    file->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file->fd < 0)
        return -errno;
    r = -posix_fallocate(file->fd, 0, sizeof(*file->mapped));
    if (r == 0) {
        void *mapped =
            mmap(NULL, sizeof(*file->mapped), PROT_READ | PROT_WRITE, MAP_SHARED, file->fd, 0);

        if (mapped == MAP_FAILED)
            r = -errno;
        else
            file->mapped = mapped;
    }
    if (r == 0) {
        *file->mapped = file->values;
        write_file(file);
        if (rename(path, file->path) < 0)
            r = -errno;
    }
    if (r < 0)
        (void)unlink(path);
    return r;
}

static void free_file(struct stats_file *file)
{
    if (file->mapped)
        (void)munmap(file->mapped, sizeof(*file->mapped));
    if (file->fd >= 0)
        (void)close(file->fd);
    vipd_timer_free(file->timer);
    free(file);
}

struct stats_file *stats_file_open(const struct vipd *vipd)
{
    struct stats_file *file = calloc(1, sizeof(*file));
    struct vip_stats_head *head;
    int r = -ENOMEM;

    if (!file)
        return NULL;
    file->vipd = vipd;
    file->fd = -1;
    file->gid = VIPD_NO_GID;
    snprintf(file->path, sizeof(file->path), "%s/" VIP_STATS_FILE_NAME, vipd->runtime_dir);
    vip_stats_file_describe(&file->values);
    head = &file->values.head;
    head->pid = (uint64_t)getpid();
    head->epoch = vipd->epoch;
    head->started_ns = vipd_wall_now();
    file->timer = vipd_timer_new(vipd->loop, on_timer, file);
    if (file->timer)
        r = make_file(file);
    if (r < 0) {
        vipd_warning("%s cannot be made: %s; statistics can be had from vipd only", file->path,
                     strerror(-r));
        free_file(file);
        return NULL;
    }
    return file;
}

void stats_file_settle(struct stats_file *file)
{
    const char *name = file ? file->vipd->config->stats_group : "";
    const struct group *group = name[0] != '\0' ? getgrnam(name) : NULL;
    uint32_t gid = group ? group->gr_gid : VIPD_NO_GID;

    if (!file || gid == file->gid)
        return;
    /* First set mode 0600, so that no group can read the file while its group changes. */
    if (fchmod(file->fd, 0600) < 0 || (group && fchown(file->fd, (uid_t)-1, gid) < 0) ||
        (group && fchmod(file->fd, 0640) < 0)) {
        vipd_warning("[stats] group = %s: %s cannot be given to it: %s; make vipd's user a member "
                     "of the group",
                     name, file->path, strerror(errno));
        return;
    }
    file->gid = gid;
}

/* Remove the file, unless the next vipd has put its own file there. */
static void remove_file(const struct stats_file *file)
{
    struct stat own, there;

    if (fstat(file->fd, &own) == 0 && stat(file->path, &there) == 0 && own.st_dev == there.st_dev &&
        own.st_ino == there.st_ino)
        (void)unlink(file->path);
}

void stats_file_close(struct stats_file *file)
{
    if (!file)
        return;
    remove_file(file);
    free_file(file);
}
