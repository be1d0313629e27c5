/* Memory that the files of each user take (vipd/registry/taken.h). */
#include "vipd/registry/taken.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/assert.h"

#define BUCKETS 1024u

struct taken_user {
    LIST_ENTRY(taken_user) link;
    uint32_t owner;
    uint32_t files; /* number of mapped and left files */
    uint32_t left;
    uint64_t bytes;
};

struct taken_file {
    LIST_ENTRY(taken_file) bucket;
    TAILQ_ENTRY(taken_file) turn;    /* if mapped */
    LIST_ENTRY(taken_file) of_watch; /* if left */
    struct taken_user *user;
    dev_t dev;
    ino_t ino;
    int fd;        /* -1: left */
    int watch;     /* if left: number of the inotify watch */
    bool watched;  /* used by forget_unwatched: the kernel lists the watch */
    uint32_t refs; /* number of mappings in all sessions of the user; 0: left */
    uint64_t bytes;
    uint64_t first_bytes; /* `bytes` when the file was first mapped */
};

struct taken {
    LIST_HEAD(, taken_user) users;
    LIST_HEAD(taken_bucket, taken_file) bucket[BUCKETS];
    /* mapped files; the file that was measured longest ago is first */
    TAILQ_HEAD(, taken_file) turn;
    struct taken_bucket watched[BUCKETS];
    uint32_t left; /* number of left files of all users */
    int inotify;   /* -1: left files do not count */
    bool lost;     /* the kernel has lost events of left files */
};

struct taken *taken_new(void)
{
    struct taken *taken = calloc(1, sizeof(*taken));

    if (!taken)
        return NULL;
    LIST_INIT(&taken->users);
    TAILQ_INIT(&taken->turn);
    taken->inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    return taken;
}

static struct taken_user *user_find(const struct taken *taken, uint32_t owner)
{
    struct taken_user *user;

    LIST_FOREACH(user, &taken->users, link)
    if (user->owner == owner)
        return user;
    return NULL;
}

/* Count one more file of this user. NULL: no memory. */
static struct taken_user *user_get(struct taken *taken, uint32_t owner)
{
    struct taken_user *user = user_find(taken, owner);

    if (!user) {
        user = calloc(1, sizeof(*user));
        if (!user)
            return NULL;
        user->owner = owner;
        LIST_INSERT_HEAD(&taken->users, user, link);
    }
    user->files++;
    return user;
}

static void user_put(struct taken_user *user)
{
    VIP_ASSERT(user->files > 0);
    if (--user->files > 0)
        return;
    VIP_ASSERT(user->bytes == 0);
    LIST_REMOVE(user, link);
    free(user);
}

static void note(struct taken_file *file, uint64_t bytes)
{
    file->user->bytes += bytes - file->bytes;
    file->bytes = bytes;
}

/* Measure the memory of a file. The file is in tmpfs, so fstat does not block. false: fstat
 * failed. */
static bool look(struct taken_file *file)
{
    struct stat st;

    if (fstat(file->fd, &st) < 0)
        return false;
    note(file, (uint64_t)st.st_blocks * TAKEN_BLOCK_BYTES);
    return true;
}

/* ---- left files -------------------------------------------------------------------------- */

/* Forget a file that is not mapped. */
static void forget(struct taken_file *file)
{
    file->user->bytes -= file->bytes;
    user_put(file->user);
    LIST_REMOVE(file, bucket);
    free(file);
}

static void forget_left(struct taken *taken, struct taken_file *file)
{
    taken->left--;
    file->user->left--;
    LIST_REMOVE(file, of_watch);
    forget(file);
}

static void forget_all_left(struct taken *taken)
{
    struct taken_file *file;

    for (unsigned i = 0; i < BUCKETS; i++)
        while ((file = LIST_FIRST(&taken->watched[i])) != NULL) {
            (void)inotify_rm_watch(taken->inotify, file->watch);
            forget_left(taken, file);
        }
}

/* The file is no longer mapped: watch it by inotify. true: inotify reports when it is freed. */
static bool leave(struct taken *taken, struct taken_file *file)
{
    char path[40];

    snprintf(path, sizeof(path), "/proc/self/fd/%d", file->fd);
    file->watch = inotify_add_watch(taken->inotify, path, IN_DELETE_SELF);
    if (file->watch < 0)
        return false;
    LIST_INSERT_HEAD(&taken->watched[(unsigned)file->watch % BUCKETS], file, of_watch);
    file->user->left++;
    taken->left++;
    return true;
}

/* Find a left file by its watch. Several users of a file share one watch, because inotify has one
 * watch for each file. */
static struct taken_file *find_left(const struct taken *taken, int watch)
{
    struct taken_file *file;

    LIST_FOREACH(file, &taken->watched[(unsigned)watch % BUCKETS], of_watch)
    if (file->watch == watch)
        return file;
    return NULL;
}

static void gone(struct taken *taken, int watch)
{
    struct taken_file *file;

    while ((file = find_left(taken, watch)) != NULL)
        forget_left(taken, file);
}

static void mark_watched(struct taken *taken, int watch)
{
    struct taken_file *file;

    LIST_FOREACH(file, &taken->watched[(unsigned)watch % BUCKETS], of_watch)
    file->watched |= file->watch == watch;
}

/*
 * The kernel has lost events of inotify, but it lists all watches in /proc. A freed file has no
 * watch any more, so forget left files without a watch. false: the list cannot be read now, because
 * memory or descriptors are lacking.
 */
static bool forget_unwatched(struct taken *taken)
{
    struct taken_file *file, *next;
    char path[40], line[256];
    unsigned watch;
    FILE *list;
    bool read;

    snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", taken->inotify);
    list = fopen(path, "re");
    if (!list)
        return false;
    while (fgets(line, sizeof(line), list))
        if (sscanf(line, "inotify wd:%x ", &watch) == 1)
            mark_watched(taken, (int)watch);
    read = !ferror(list);
    fclose(list);
    for (unsigned i = 0; i < BUCKETS; i++)
        for (file = LIST_FIRST(&taken->watched[i]); file; file = next) {
            next = LIST_NEXT(file, of_watch);
            if (read && !file->watched)
                forget_left(taken, file);
            else
                file->watched = false;
        }
    return read;
}

/* Forget left files that the kernel has freed. */
static void look_at_left(struct taken *taken)
{
    _Alignas(struct inotify_event) char events[4096];
    ssize_t bytes;

    if (!taken->left)
        return;
    while ((bytes = read(taken->inotify, events, sizeof(events))) > 0)
        for (const char *at = events; at < events + bytes;) {
            const struct inotify_event *event = (const void *)at;

            if (event->mask & IN_Q_OVERFLOW)
                taken->lost = true;
            else if (event->mask & IN_DELETE_SELF)
                gone(taken, event->wd);
            at += sizeof(*event) + event->len;
        }
    if (taken->lost)
        taken->lost = !forget_unwatched(taken);
}

/* A left file is mapped again. */
static void come_back(struct taken *taken, struct taken_file *file)
{
    LIST_REMOVE(file, of_watch);
    taken->left--;
    file->user->left--;
    if (!find_left(taken, file->watch))
        (void)inotify_rm_watch(taken->inotify, file->watch);
    TAILQ_INSERT_TAIL(&taken->turn, file, turn);
}

/* ---- mapped files ------------------------------------------------------------------------ */

void taken_free(struct taken *taken)
{
    if (!taken)
        return;
    forget_all_left(taken);
    VIP_ASSERT(TAILQ_EMPTY(&taken->turn) && LIST_EMPTY(&taken->users));
    if (taken->inotify >= 0)
        close(taken->inotify);
    free(taken);
}

static struct taken_file *file_find(struct taken *taken, uint32_t owner, dev_t dev, ino_t ino)
{
    struct taken_file *file;

    LIST_FOREACH(file, &taken->bucket[(uint64_t)ino % BUCKETS], bucket)
    if (file->ino == ino && file->dev == dev && file->user->owner == owner)
        return file;
    return NULL;
}

static struct taken_file *file_new(struct taken *taken, uint32_t owner, dev_t dev, ino_t ino)
{
    struct taken_file *file = calloc(1, sizeof(*file));

    if (!file)
        return NULL;
    file->user = user_get(taken, owner);
    if (!file->user) {
        free(file);
        return NULL;
    }
    file->dev = dev;
    file->ino = ino;
    LIST_INSERT_HEAD(&taken->bucket[(uint64_t)ino % BUCKETS], file, bucket);
    return file;
}

struct taken_file *taken_get(struct taken *taken, uint32_t owner, int *fd, dev_t dev, ino_t ino,
                             uint64_t bytes)
{
    struct taken_file *file;
    bool came_back;

    if (!taken)
        return NULL;
    look_at_left(taken);
    file = file_find(taken, owner, dev, ino);
    if (file && file->refs > 0) {
        file->refs++;
        return file;
    }
    came_back = file != NULL;
    if (came_back) {
        come_back(taken, file);
    } else {
        file = file_new(taken, owner, dev, ino);
        if (!file)
            return NULL;
        TAILQ_INSERT_TAIL(&taken->turn, file, turn);
    }
    file->fd = *fd;
    *fd = -1;
    file->refs = 1;
    note(file, bytes);
    file->first_bytes = came_back ? file->first_bytes : file->bytes;
    return file;
}

/* Did the file grow while it was mapped? A left file that is mapped again keeps its first_bytes, so
 * its earlier growth counts, too. */
static bool grew(const struct taken_file *file)
{
    return file->bytes > file->first_bytes;
}

uint64_t taken_put(struct taken *taken, struct taken_file *file)
{
    uint64_t bytes;
    bool left;

    if (!file)
        return UINT64_MAX;
    VIP_ASSERT(file->refs > 0);
    bytes = look(file) ? file->bytes : UINT64_MAX;
    if (--file->refs > 0)
        return bytes;
    TAILQ_REMOVE(&taken->turn, file, turn);
    left = grew(file) && leave(taken, file);
    close(file->fd);
    file->fd = -1;
    if (!left)
        forget(file);
    return bytes;
}

void taken_look(struct taken *taken, unsigned files)
{
    struct taken_file *first, *file;

    if (!taken)
        return;
    look_at_left(taken);
    first = TAILQ_FIRST(&taken->turn);
    while (files-- > 0 && (file = TAILQ_FIRST(&taken->turn)) != NULL) {
        (void)look(file);
        TAILQ_REMOVE(&taken->turn, file, turn);
        TAILQ_INSERT_TAIL(&taken->turn, file, turn);
        if (TAILQ_FIRST(&taken->turn) == first)
            break;
    }
}

uint64_t taken_file_bytes(const struct taken_file *file)
{
    return file ? file->bytes : 0;
}

uint64_t taken_by(const struct taken *taken, uint32_t owner)
{
    const struct taken_user *user = taken ? user_find(taken, owner) : NULL;

    return user ? user->bytes : 0;
}

uint32_t taken_left(const struct taken *taken, uint32_t owner)
{
    const struct taken_user *user = taken ? user_find(taken, owner) : NULL;

    return user ? user->left : 0;
}
