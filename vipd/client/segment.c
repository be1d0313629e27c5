/*
 * The two segments of a session. vipd checks and maps the application's segment. It makes its own
 * segment, or takes over the segment of an earlier life of vipd.
 *
 * The application's segment must carry SHRINK, GROW, FUTURE_WRITE and SEAL. Then the segment cannot
 * be shortened while it is mapped here, and only its creator can write to it. vipd's segment has no
 * seal FUTURE_WRITE, because the next life of vipd writes it, too: the application gets a
 * descriptor that is open for reading, and the file's mode (0600) keeps other users from opening it
 * anew. The kernel may still refuse a page (SIGBUS); then only this session ends
 * (vipd/registry/guard.h).
 *
 * As long as a vipd uses a segment, it holds the segment's lock (flock). So two vipd of one user
 * never write the same segment.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/ring.h"
#include "vipd/client/internal.h"
#include "vipd/registry/memfile.h"
#include "vipd/registry/taken.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

#define SEALS_OUTLIVE (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW)
#define SEGMENT_SEALS (SEALS_OUTLIVE | F_SEAL_FUTURE_WRITE)

/* Retry interval in ms for a program whose segment an earlier vipd still uses. */
#define SEGMENT_AGAIN_MS 10

/* ---- the application's segment ----------------------------------------------------------- */

const char *segment_app_fault(int fd, uint64_t bytes)
{
    struct stat st;
    /* Read the seals first: only a memfd has them. Other calls may block for ever (FUSE, NFS). */
    int seals = fcntl(fd, F_GET_SEALS);

    if (seals < 0)
        return "is not a memfd";
    if ((seals & SEGMENT_SEALS) != SEGMENT_SEALS)
        return "lacks one of the seals SHRINK, GROW, FUTURE_WRITE and SEAL";
    if (fstat(fd, &st) < 0)
        return "cannot be looked at";
    /* Accept only ordinary pages: a memfd of huge pages is in another file system. */
    if (!memfile_is_like(fd, &st))
        return "is not a memfd";
    if ((uint64_t)st.st_size != bytes)
        return "has the wrong size";
    return NULL;
}

/* Count the file for the client's user. The kernel charges a page to vipd if vipd touches the page
 * first, even if vipd only reads a hole. */
int segment_count(const struct client *client, int fd, struct taken_file **ret)
{
    int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    struct stat st;
    int rc = 0;

    if (own < 0)
        return -errno;
    if (fstat(own, &st) < 0)
        rc = -errno;
    else
        *ret = taken_get(client->vipd->taken, client->uid, &own, st.st_dev, st.st_ino,
                         (uint64_t)st.st_blocks * TAKEN_BLOCK_BYTES);
    if (own >= 0)
        close(own);
    return rc == 0 && client->vipd->taken && !*ret ? -ENOMEM : rc;
}

int segment_map_app(const struct client *client, struct session *session, int fd,
                    struct answer *answer)
{
    const char *fault = segment_app_fault(fd, session->layout->app_bytes);
    int rc;
    uint32_t head[2]; /* magic, ABI */
    void *base;

    if (fault) {
        answer_set(answer, VIP_RC_INVALID_PARAMETER, "the app-writes segment %s", fault);
        return -EINVAL;
    }
    base = memfile_map(fd, session->layout->app_bytes, 0, false);
    if (!base) {
        rc = -errno;
        answer_set(answer, VIP_RC_ERROR_RESOURCE, "vipd cannot map the app-writes segment: %s",
                   strerror(-rc));
        return rc;
    }
    session->app_base = base;
    /* Use pread, not a load: the kernel may refuse the page, and the mapping has no guard yet. */
    if (pread(fd, head, sizeof(head), 0) != sizeof(head)) {
        answer_set(answer, VIP_RC_ERROR_RESOURCE, "vipd cannot read the app-writes segment: %s",
                   strerror(errno));
        return -EIO;
    }
    if (head[0] != VIP_SHM_APP_MAGIC || head[1] != session->layout->abi) {
        answer_set(answer, VIP_RC_INVALID_PARAMETER,
                   "the app-writes segment has magic 0x%x and ABI %u; vipd " VIP_VERSION
                   " wants 0x%x and the ABI of the request, %u",
                   head[0], head[1], VIP_SHM_APP_MAGIC, session->layout->abi);
        return -EINVAL;
    }
    rc = segment_count(client, fd, &session->taken[0]);
    if (rc < 0)
        answer_set(answer, VIP_RC_ERROR_RESOURCE, "vipd cannot count the app-writes segment: %s",
                   strerror(-rc));
    return rc;
}

/* ---- vipd's ------------------------------------------------------------------------------ */

/* Open the file of fd anew. Outcomes: the descriptor; a negative errno. */
static int open_again(int fd, int flags)
{
    char path[32];
    int again;

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    again = open(path, flags | O_CLOEXEC);
    return again < 0 ? -errno : again;
}

/* Lock, count and map the file of session->segment. Outcomes: 0; -EWOULDBLOCK: another vipd uses
 * the file; other negative errno. */
static int segment_use(const struct client *client, struct session *session)
{
    void *base;

    if (flock(session->segment, LOCK_EX | LOCK_NB) < 0)
        return -errno;
    base = memfile_map(session->segment, session->layout->vipd_bytes, 0, true);
    if (!base)
        return -errno;
    session->vipd_base = base;
    return segment_count(client, session->segment, &session->taken[1]);
}

/* Give the reply a descriptor to read the segment. Outcomes: 0; a negative errno. */
static int answer_reader(const struct session *session, struct answer *answer)
{
    bool outlives = session->layout->outlives;
    int fd = outlives ? open_again(session->segment, O_RDONLY)
                      : fcntl(session->segment, F_DUPFD_CLOEXEC, 0);

    if (fd < 0)
        return outlives ? fd : -errno;
    answer->fds.fd[0] = fd;
    answer->fds.count = 1;
    return 0;
}

int segment_make(const struct client *client, struct session *session, struct answer *answer)
{
    bool outlives = session->layout->outlives;
    int r, fd = memfd_create("vipd-writes", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0)
        return -errno;
    session->segment = fd;
    if (fchmod(fd, 0600) < 0 || ftruncate(fd, (off_t)session->layout->vipd_bytes) < 0)
        return -errno;
    r = segment_use(client, session);
    if (r < 0)
        return r;
    /* Seal the file only now: a mapping made before the seal stays writable. */
    if (fcntl(fd, F_ADD_SEALS, outlives ? SEALS_OUTLIVE : SEGMENT_SEALS) < 0)
        return -errno;
    return answer_reader(session, answer);
}

/* What is wrong with the file of the offered segment; NULL: nothing. */
static const char *file_fault(const struct session *session, int fd)
{
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS); /* read these first: other calls may block (FUSE, NFS) */

    if (seals < 0)
        return "is not a memfd";
    if (fstat(fd, &st) < 0)
        return "cannot be looked at";
    if (!memfile_is_like(fd, &st))
        return "is not a memfd";
    if (seals != SEALS_OUTLIVE || (st.st_mode & 07777) != 0600 || st.st_uid != geteuid())
        return "is none that a vipd of this user has made";
    if ((uint64_t)st.st_size != session->layout->vipd_bytes)
        return "has the wrong size";
    return NULL;
}

/* What is wrong with the head of the offered segment; NULL: nothing. */
static const char *head_fault(const struct client *client, const struct session *session,
                              const struct vip_vipd_head *head)
{
    if (head->magic != VIP_SHM_VIPD_MAGIC || head->abi != session->layout->abi ||
        head->bytes != session->layout->vipd_bytes)
        return "has another shared-memory ABI";
    if (head->uid != client->uid || head->pid != (uint32_t)client->pid ||
        head->start_ticks != session->start_ticks)
        return "is that of another process";
    if (head->closed)
        return "is that of a session that has ended";
    if (head->epoch == client->vipd->epoch)
        return "has been taken over already";
    return NULL;
}

int segment_claim(const struct client *client, struct session *session, int offered,
                  struct answer *answer)
{
    const char *fault = file_fault(session, offered);
    struct vip_vipd_head head;
    int r;

    if (!fault) {
        r = open_again(offered, O_RDWR);
        if (r < 0)
            return r;
        session->segment = r;
        /* Use pread, not a load, because there is no mapping with a guard yet. */
        if (pread(r, &head, sizeof(head), 0) != sizeof(head))
            return -EIO;
        fault = head_fault(client, session, &head);
    }
    if (!fault) {
        session->past_epoch = head.epoch;
        r = segment_use(client, session);
        if (r == 0)
            r = answer_reader(session, answer);
        if (r != -EWOULDBLOCK)
            return r;
        fault = "is used by another vipd";
        answer_again(answer, SEGMENT_AGAIN_MS); /* the other vipd may be about to end */
    }
    answer_set(answer, VIP_RC_INVALID_STATE,
               "this vipd cannot go on with the NIC handle of an earlier one: the vipd-writes "
               "segment %s",
               fault);
    return -EPERM;
}

void segment_own(const struct client *client, struct session *session)
{
    struct vip_vipd_head *head = session->vipd_base;

    if (!session->layout->outlives)
        return;
    head->start_ticks = session->start_ticks;
    head->pid = (uint32_t)client->pid;
    head->uid = client->uid;
}

void segment_hand_back(struct session *session)
{
    struct vip_vipd_head *head = session->vipd_base;

    session->handed_back = true;
    /* Without a nic_session, this life has not changed the head, and no guard protects the
     * mapping. */
    if (session->nic_session)
        head->epoch = session->past_epoch;
}

void segment_closed(const struct session *session)
{
    struct vip_vipd_head *head = session->vipd_base;

    if (head && session->layout->outlives && !session->handed_back)
        vip_store32_release(&head->closed, 1);
}

bool segment_let_go(const struct session *session)
{
    uint64_t bytes = session->layout->vipd_bytes;
    void *copy =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, session->segment, 0);

    /* Map first, then move the mapping: mmap with MAP_FIXED may leave a hole if it fails. */
    if (copy == MAP_FAILED)
        return false;
    if (mremap(copy, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, session->vipd_base) != MAP_FAILED)
        return true;
    munmap(copy, bytes);
    return false;
}

uint64_t process_start(pid_t pid)
{
    char path[32], text[1024];
    const char *at;
    ssize_t len;
    int fd;

    snprintf(path, sizeof(path), "/proc/%ld/stat", (long)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    len = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (fd >= 0)
        close(fd); /* close does not fail, so errno stays */
    if (len < 0)
        return 0;
    errno = 0;
    text[len] = '\0';
    /* Find field 22, the start time. Field 2 is the program's name, which may have any characters;
     * the last bracket ends the name. */
    at = strrchr(text, ')');
    for (unsigned field = 2; at && field < 22; field++) {
        at = strchr(at, ' ');
        at += at != NULL;
    }
    return at ? strtoull(at, NULL, 10) : 0;
}
