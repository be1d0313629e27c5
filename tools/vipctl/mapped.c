/* Statistics from the mapped file; see mapped.h. */
#include "tools/vipctl/mapped.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "proto/control.h"
#include "proto/stats_file.h"

#define FILE_BYTES_MAX (64u << 20) /* a larger file is refused; vipd's file is much smaller */
#define TRIES          1000        /* tries, 1 ms apart, to read all values between two updates */

static bool file_path(char *path, size_t path_bytes)
{
    char *name;

    if (vip_control_socket_path(path, path_bytes) < 0)
        return false;
    name = strrchr(path, '/') + 1;
    return (size_t)snprintf(name, path_bytes - (size_t)(name - path), "%s", VIP_STATS_FILE_NAME) <
           path_bytes - (size_t)(name - path);
}

static enum exit_code say_unreadable(const char *path, int error)
{
    switch (error) {
    case ENOENT:
    case ENOTDIR:
        fprintf(stderr,
                "vipctl: there is no %s: no vipd runs there, or it could not make the file\n",
                path);
        return EXIT_NO_VIPD;
    case EACCES:
    case EPERM:
        fprintf(
            stderr,
            "vipctl: no permission to read %s: it is for the group in [stats] group, by default "
            "via-stat; without --mapped vipd itself tells everybody\n",
            path);
        return EXIT_PERMISSION;
    default:
        fprintf(stderr, "vipctl: %s cannot be read: %s\n", path, strerror(error));
        return EXIT_FAILED;
    }
}

/* The sequence number of the file; odd if vipd is writing or the file cannot be read. */
static uint64_t sequence_now(int fd)
{
    struct vip_stats_head head;

    return pread(fd, &head, sizeof(head), 0) == (ssize_t)sizeof(head) ? head.sequence : 1;
}

/* Read all values between two updates of vipd. On failure returns NULL and sets *ret_error to an
 * errno. *ret_error 0: no statistics file, or vipd wrote during every attempt. */
static char *read_values(int fd, size_t *ret_bytes, int *ret_error)
{
    struct stat st;
    char *bytes = NULL;

    *ret_error = 0;
    if (fstat(fd, &st) < 0) {
        *ret_error = errno;
        return NULL;
    }
    if (!S_ISREG(st.st_mode) || st.st_size < (off_t)sizeof(struct vip_stats_head) ||
        st.st_size > FILE_BYTES_MAX)
        return NULL;
    *ret_bytes = (size_t)st.st_size;
    bytes = malloc(*ret_bytes);
    *ret_error = bytes ? 0 : ENOMEM;
    for (unsigned i = 0; bytes && i < TRIES; i++) {
        const struct timespec pause = {.tv_nsec = 1000000};
        uint64_t sequence = sequence_now(fd);
        bool whole;

        /* pread may copy in any order. So the sequence number is loaded separately, before the
         * values. */
        __atomic_thread_fence(__ATOMIC_ACQUIRE); /* [stats BEFORE] */
        whole = pread(fd, bytes, *ret_bytes, 0) == (ssize_t)*ret_bytes;
        __atomic_thread_fence(__ATOMIC_ACQUIRE); /* [stats AFTER] */
        if (whole && vip_stats_file_check(bytes, *ret_bytes) && sequence % 2 == 0 &&
            sequence_now(fd) == sequence)
            return bytes;
        nanosleep(&pause, NULL);
    }
    free(bytes);
    return NULL;
}

/* Print the age of the values if vipd has ended. (The file remains if vipd was killed.) */
static void say_age(const struct vip_stats_head *head)
{
    struct timespec now;
    double age_s;

    if (head->pid > 0 && (kill((pid_t)head->pid, 0) == 0 || errno == EPERM))
        return;
    clock_gettime(CLOCK_REALTIME, &now);
    age_s = (double)now.tv_sec + (double)now.tv_nsec / 1e9 - (double)head->written_ns / 1e9;
    fprintf(stderr,
            "vipctl: the vipd that wrote this (pid %llu) is gone; its last word is %.1f s old\n",
            (unsigned long long)head->pid, age_s);
}

/* State of make_rows. The rows are one allocation, and their texts point into `bytes`. */
struct making {
    char *bytes; /* the file */
    struct vip_stats_head head;
    struct show_rows *rows;
    Vip__Counter *row; /* the next row */
};

/* Make a row for every statistic of the scope, with the values at `values`. */
static void make_rows(struct making *making, uint32_t scope, const char *scope_name,
                      const char *values)
{
    for (uint32_t i = 0; i < making->head.stat_count; i++) {
        struct vip_stats_desc *desc =
            (void *)(making->bytes + making->head.stat_at + (size_t)i * making->head.stat_bytes);
        Vip__Counter *row = making->row;

        desc->name[sizeof(desc->name) - 1] = '\0';
        desc->unit[sizeof(desc->unit) - 1] = '\0';
        desc->help[sizeof(desc->help) - 1] = '\0';
        if (desc->scope != scope)
            continue;
        vip__counter__init(row);
        row->scope = (char *)scope_name;
        row->name = desc->name;
        row->has_value = true;
        memcpy(&row->value, values + i * sizeof(uint64_t), sizeof(row->value));
        row->unit = desc->unit;
        row->help = desc->help;
        row->kind = (char *)vip_stat_kind_name(
            desc->kind == VIP_STAT_KIND_GAUGE ? VIP_STAT_KIND_GAUGE : VIP_STAT_KIND_COUNTER);
        making->rows->row[making->rows->count++] = row;
        making->row++;
    }
}

static enum exit_code rows_of(char *bytes, struct show_rows *ret)
{
    struct making making = {.bytes = bytes, .rows = ret};
    static char nic_scope[VIP_STATS_NICS_MAX][VIP_NIC_NAME_BYTES + 8];
    static char vipd_scope[] = "vipd";
    size_t most;

    memcpy(&making.head, bytes, sizeof(making.head));
    if (making.head.nic_count > VIP_STATS_NICS_MAX)
        making.head.nic_count = VIP_STATS_NICS_MAX;
    most = (size_t)making.head.stat_count * (1 + making.head.nic_count);
    making.row = calloc(most + 1, sizeof(*making.row));
    ret->row = calloc(most + 1, sizeof(*ret->row));
    ret->own[0] = bytes;
    ret->own[1] = making.row;
    if (!making.row || !ret->row) {
        fprintf(stderr, "vipctl: out of memory\n");
        return EXIT_FAILED;
    }
    make_rows(&making, VIP_STAT_SCOPE_VIPD, vipd_scope, bytes + making.head.vipd_at);
    for (uint32_t i = 0; i < making.head.nic_count; i++) {
        const char *nic = bytes + making.head.nic_at + (size_t)i * making.head.nic_bytes;

        snprintf(nic_scope[i], sizeof(nic_scope[i]), "nic:%.*s", VIP_NIC_NAME_BYTES - 1, nic);
        make_rows(&making, VIP_STAT_SCOPE_NIC, nic_scope[i], nic + VIP_NIC_NAME_BYTES);
    }
    say_age(&making.head);
    return EXIT_OK;
}

enum exit_code mapped_fetch(struct show_rows *ret)
{
    char path[sizeof(((struct sockaddr_un *)NULL)->sun_path) + sizeof(VIP_STATS_FILE_NAME)];
    size_t bytes_count;
    char *bytes;
    int fd, error;

    *ret = (struct show_rows){0};
    if (!file_path(path, sizeof(path))) {
        fprintf(stderr, "vipctl: the path in VIPD_RUNTIME_DIR is too long\n");
        return EXIT_USAGE;
    }
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return say_unreadable(path, errno);
    bytes = read_values(fd, &bytes_count, &error);
    (void)close(fd);
    if (bytes)
        return rows_of(bytes, ret);
    if (error)
        return say_unreadable(path, error);
    fprintf(stderr, "vipctl: %s is no statistics file of a vipd that this vipctl understands\n",
            path);
    return EXIT_FAILED;
}
