/*
 * Files of memory that this process shares with vipd.
 *
 * Owns: the choice who makes such a file, vipd or the library. vipd makes the files if it can: a
 * program cannot punch holes into a file of vipd, and a hole could delay vipd
 * (vipd/registry/memfile.h). Otherwise the library makes the files.
 */
#include "libvipl/mem_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/control.h"
#include "proto/control.pb-c.h"
#include "proto/status.h"

bool vipl__mem_file_is(int fd, size_t bytes)
{
    const int wanted = F_SEAL_SHRINK | F_SEAL_GROW;
    int seals = fcntl(fd, F_GET_SEALS);
    struct stat st;

    return fstat(fd, &st) == 0 && st.st_size == (off_t)bytes && seals >= 0 &&
           (seals & wanted) == wanted;
}

int vipl__mem_file_take(struct vip_fds *fds, size_t bytes)
{
    int fd = -ENOSYS;

    if (fds->count == 1 && vipl__mem_file_is(fds->fd[0], bytes)) {
        fd = fds->fd[0];
        fds->fd[0] = -1;
    }
    vip_fds_close(fds);
    return fd;
}

static int ask(int sock, size_t bytes)
{
    Vip__MakeMemoryRequest make = VIP__MAKE_MEMORY_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    struct vip_fds fds = VIP_FDS_NONE;
    ProtobufCMessage *message;
    void *room;
    int rc;

    room = mmap(NULL, VIP_CONTROL_BYTES_MAX, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                -1, 0);
    if (room == MAP_FAILED)
        return -errno;
    make.has_bytes = true;
    make.bytes = bytes;
    request.body_case = VIP__REQUEST__BODY_MAKE_MEMORY;
    request.make_memory = &make;
    rc = vip_control_ask_in(room, sock, &request.base, NULL, 0, &vip__reply__descriptor, &message,
                            &fds);
    munmap(room, VIP_CONTROL_BYTES_MAX);
    if (rc != 0)
        return rc;
    protobuf_c_message_free_unpacked(message, NULL);
    return vipl__mem_file_take(&fds, bytes); /* if vipd refuses, fds is empty */
}

static int ask_anew(size_t bytes)
{
    char path[108];
    int rc = vip_control_socket_path(path, sizeof(path));
    int sock = rc < 0 ? rc : vip_control_connect(path);

    if (sock < 0)
        return sock;
    rc = ask(sock, bytes);
    close(sock);
    return rc;
}

/* Size in bytes of this thread's last file that RLIMIT_FSIZE did not allow. */
static _Thread_local uint64_t refused_bytes;

int vipl__mem_file_room(uint64_t bytes)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || bytes <= limit.rlim_cur)
        return 0;
    refused_bytes = bytes;
    return -EFBIG;
}

int vipl__mem_file_grow(int fd, uint64_t bytes)
{
    int rc = vipl__mem_file_room(bytes);

    return rc == 0 && ftruncate(fd, (off_t)bytes) != 0 ? -errno : rc;
}

const char *vipl__mem_file_error(int error)
{
    static _Thread_local char text[128];
    struct rlimit limit;

    if (error != -EFBIG || getrlimit(RLIMIT_FSIZE, &limit) != 0 || refused_bytes <= limit.rlim_cur)
        return strerror(-error);
    snprintf(text, sizeof(text),
             "that takes a file of %llu bytes, and RLIMIT_FSIZE (ulimit -f) is %llu bytes",
             (unsigned long long)refused_bytes, (unsigned long long)limit.rlim_cur);
    return text;
}

int vipl__mem_file_own(const char *name, size_t bytes)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int rc;

    if (fd < 0)
        return -errno;
    rc = vipl__mem_file_grow(fd, bytes);
    if (rc == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0)
        rc = -errno;
    if (rc == 0)
        return fd;
    close(fd);
    return rc;
}

int vipl__mem_file_any(const char *name, size_t bytes)
{
    int fd = ask_anew(bytes);

    return fd >= 0 ? fd : vipl__mem_file_own(name, bytes);
}

int vipl__mem_file_map(int fd, size_t bytes, void **ret)
{
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    int rc = map == MAP_FAILED ? -errno : 0;

    if (rc < 0)
        close(fd);
    else
        *ret = map;
    return rc;
}

int vipl__shared_advise(void *base, size_t bytes)
{
    /*
     * MADV_DONTDUMP: a core dump (by gcore or the kernel) would otherwise read every page of the
     * sparse segments, and so allocate memory for all holes.
     */
    return madvise(base, bytes, MADV_DONTFORK) < 0 || madvise(base, bytes, MADV_DONTDUMP) < 0
               ? -errno
               : 0;
}
