/* Open and close a session with vipd: socket, segments, provider thread. Called by nic.c. */
#include "libvipl/session.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "libvipl/autostart.h"
#include "libvipl/connect.h"
#include "libvipl/callback.h"
#include "libvipl/cq_fd.h"
#include "libvipl/direct.h"
#include "libvipl/discover.h"
#include "libvipl/error.h"
#include "libvipl/lent.h"
#include "libvipl/listen.h"
#include "libvipl/events.h"
#include "libvipl/sleep.h"

/*
 * With fewer processors than this, polls yield: two programs and two vipds may then share too few
 * processors.
 */
#define YIELD_BELOW_CPUS 4

/* Longest poll, in ns. It replaces a larger value of vipd, which is a configuration mistake. */
#define SPIN_NS_MAX 10000000u

/* While vipd frees memory: longest pause between two OpenRequests, longest wait in all; in ms. */
#define FREED_AGAIN_MS_MAX 100
#define FREED_WAIT_MS_MAX  30000

/*
 * If vipd ends during VipOpenNic: pause between two tries, and limit of the sum of these pauses, in
 * ms. A restart of vipd takes some 20 ms on a quiet machine (doc/performance.md).
 */
#define OPEN_AGAIN_MS    10
#define OPEN_WAIT_MS_MAX 1000

/*
 * Make the segment that libvipl writes. A seal ensures that the segment does not shrink.
 * Returns the fd or a negative errno.
 */
static int app_segment(struct vipl__session *session)
{
    struct vip_app_head *head = session->app_base;
    int fd = memfd_create("vipl-app", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int error;

    if (fd < 0)
        return -errno;
    error = vipl__mem_file_grow(fd, VIP_APP_BYTES);
    if (error == 0 && (mmap(session->app_base, VIP_APP_BYTES, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED ||
                       vipl__shared_advise(session->app_base, VIP_APP_BYTES) < 0 ||
                       fcntl(fd, F_ADD_SEALS,
                             F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) < 0))
        error = -errno;
    if (error < 0) {
        close(fd);
        return error;
    }
    head->magic = VIP_SHM_APP_MAGIC;
    head->abi = VIP_SHM_ABI;
    head->bytes = VIP_APP_BYTES;
    return fd;
}

/* Check and map the segment that vipd writes. Returns NULL, or why the segment is refused. */
static const char *map_vipd_segment(struct vipl__session *session, int fd)
{
    const struct vip_vipd_head *head = session->vipd;

    if (!vipl__mem_file_is(fd, VIP_VIPD_BYTES))
        return "it has the wrong size, or is not sealed";
    if (mmap((void *)session->vipd, VIP_VIPD_BYTES, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0) ==
            MAP_FAILED ||
        vipl__shared_advise((void *)session->vipd, VIP_VIPD_BYTES) < 0)
        return strerror(errno);
    if (head->magic != VIP_SHM_VIPD_MAGIC || head->abi != VIP_SHM_ABI ||
        head->bytes != VIP_VIPD_BYTES)
        return "its head does not match this library";
    return NULL;
}

/*
 * Replace the segments by empty private pages at the same addresses: a call that races with the
 * close reads zeros, and its writes have no effect.
 */
static void unmap_segments(struct vipl__session *session)
{
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;

    mmap(session->app_base, VIP_APP_BYTES, PROT_READ | PROT_WRITE, flags, -1, 0);
    mmap((void *)session->vipd, VIP_VIPD_BYTES, PROT_READ, flags, -1, 0);
}

VIP_RETURN vipl__session_make_memory(struct vipl__session *session, const char *call,
                                     uint64_t bytes, int *ret_fd)
{
    Vip__MakeMemoryRequest make = VIP__MAKE_MEMORY_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    struct vip_fds fds = VIP_FDS_NONE;
    VIP_RETURN rc;

    make.has_bytes = 1;
    make.bytes = bytes;
    request.body_case = VIP__REQUEST__BODY_MAKE_MEMORY;
    request.make_memory = &make;
    rc = vipl__call_fds(session, call, &request, false, &fds);
    if (rc != VIP_SUCCESS)
        return rc;
    *ret_fd = vipl__mem_file_take(&fds, bytes);
    return VIP_SUCCESS;
}

/*
 * Hold the process's arena: *ret is its fd or a negative errno. If there is no arena yet, vipd
 * makes its file; if vipd makes no files, the library does.
 */
static VIP_RETURN hold_arena(struct vipl__session *session, int *ret)
{
    VIP_RETURN rc;
    int fd;

    *ret = vipl__mem_arena_hold();
    if (*ret != -ENOENT)
        return VIP_SUCCESS;
    rc = vipl__session_make_memory(session, "VipOpenNic", VIP_ARENA_BYTES, &fd);
    if (rc == VIP_SUCCESS)
        *ret = vipl__mem_arena_get(fd);
    return rc;
}

/* Connect to vipd, or start it. *again, in: has a vipd ended during this VipOpenNic? If so, the
 * next vipd may come, and the caller tries again. *again, out: false if a new try is useless. */
static VIP_RETURN connect_vipd(struct vipl__session *session, bool *again)
{
    int fd, rc = vip_control_socket_path(session->socket_path, sizeof(session->socket_path));
    const char *dir = getenv("VIPD_RUNTIME_DIR");

    if (rc < 0)
        return vipl__fail(VIP_ERROR_RESOURCE,
                          "VipOpenNic: the path of vipd's socket is too long for a UNIX socket; "
                          "set VIPD_RUNTIME_DIR to a shorter directory (now: %s)",
                          dir == NULL ? "not set" : dir);
    fd = vip_control_connect(session->socket_path);
    if (fd == -ENOENT || fd == -ENOTDIR || fd == -ECONNREFUSED) {
        int started = vipl__autostart(session->socket_path);

        fd = started >= 0 ? started : fd;
    } else if (fd < 0) {
        *again = false;
    }
    if (fd < 0)
        return vipl__fail(
            VIP_ERROR_RESOURCE,
            "VipOpenNic: no vipd answers on %s: %s (VIPD_RUNTIME_DIR is %s%s); start "
            "one with \"systemctl start vipd\" or \"vipd --runtime-dir DIR\" and set "
            "VIPD_RUNTIME_DIR to the same DIR; VIPD_AUTOSTART=1 starts one of your own",
            session->socket_path, strerror(-fd), dir == NULL ? "not set" : "",
            dir == NULL ? "" : dir);
    session->control_fd = fd;
    return VIP_SUCCESS;
}

static void take_nic_attributes(struct vipl__session *session, const Vip__OpenReply *open)
{
    VIP_NIC_ATTRIBUTES *nic = &session->nic;
    const Vip__NicAttributes *from = open->nic;
    size_t len = from->local_address.len < VIP_HOST_ADDR_BYTES_MAX ? from->local_address.len : 0;

    memset(nic, 0, sizeof(*nic));
    memset(session->address, 0, sizeof(session->address));
    if (from->name != NULL)
        snprintf(nic->Name, sizeof(nic->Name), "%s", from->name);
    nic->HardwareVersion = (VIP_ULONG)from->hardware_version;
    nic->ProviderVersion = (VIP_ULONG)from->provider_version;
    if (len > 0)
        memcpy(session->address, from->local_address.data, len);
    nic->NicAddressLen = (VIP_UINT16)len;
    nic->LocalNicAddress = session->address;
    nic->ThreadSafe = VIP_TRUE;
    nic->MaxDiscriminatorLen = (VIP_UINT16)from->max_discriminator_len;
    nic->MaxRegisterBytes = (VIP_ULONG)from->max_register_bytes;
    nic->MaxRegisterRegions = (VIP_ULONG)from->max_register_regions;
    nic->MaxRegisterBlockBytes = (VIP_ULONG)from->max_register_block_bytes;
    nic->MaxVI = (VIP_ULONG)from->max_vi;
    nic->MaxDescriptorsPerQueue = (VIP_ULONG)from->max_descriptors_per_queue;
    nic->MaxSegmentsPerDesc = (VIP_ULONG)from->max_segments_per_desc;
    nic->MaxCQ = (VIP_ULONG)from->max_cq;
    nic->MaxCQEntries = (VIP_ULONG)from->max_cq_entries;
    nic->MaxTransferSize = (VIP_ULONG)from->max_transfer_size;
    nic->NativeMTU = (VIP_ULONG)from->native_mtu;
    nic->MaxPtags = (VIP_ULONG)from->max_ptags;
    nic->ReliabilityLevelSupport = (VIP_RELIABILITY_LEVEL)from->reliability_level_support;
    nic->RDMAReadSupport = (VIP_RELIABILITY_LEVEL)from->rdma_read_support;

    session->resolver = from->link == NULL || strcmp(from->link, "udp") == 0;
    session->desc_max = VIP_DESC_PER_QUEUE_MAX;
    if (nic->MaxDescriptorsPerQueue > 0 && nic->MaxDescriptorsPerQueue < session->desc_max)
        session->desc_max = (uint32_t)nic->MaxDescriptorsPerQueue;
    session->spin_ns = open->spin_ns < SPIN_NS_MAX ? (uint32_t)open->spin_ns : SPIN_NS_MAX;
    session->yield = open->cpus < YIELD_BELOW_CPUS;
}

/* vipd has no NIC of this name: replace vipd's reason by a text that lists the NICs. */
static VIP_RETURN unknown_device(struct vipl__session *session, const char *device)
{
    Vip__ShowRequest show = VIP__SHOW_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    char names[VIPL__REASON_BYTES / 2] = "";
    Vip__Reply *reply = NULL;
    size_t used = 0;

    show.has_what = 1;
    show.what = VIP__SHOW_REQUEST__WHAT__NIC;
    request.body_case = VIP__REQUEST__BODY_SHOW;
    request.show = &show;
    if (vipl__call(session, "VipOpenNic", &request, NULL, 0, &reply) == VIP_SUCCESS &&
        reply->show != NULL)
        for (size_t i = 0; i < reply->show->n_nics && used < sizeof(names); i++) {
            const Vip__NicRow *nic = reply->show->nics[i];

            used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s", i > 0 ? ", " : "",
                                     nic->name == NULL ? "?" : nic->name);
        }
    vipl__reply_free(reply);
    return vipl__fail(
        VIP_INVALID_PARAMETER,
        "VipOpenNic: vipd (%s) has no NIC called \"%.64s\"; it has: %s; \"vipctl show "
        "nic\" lists them with their other names, \"aliases\" in the configuration "
        "adds one",
        session->socket_path, device, names);
}

/*
 * Send the OpenRequest until the answer does not say "again". ("Again" means that vipd still frees
 * the closed sessions of this user's programs.) Outcomes: as vipl__call_open, without "again".
 */
static VIP_RETURN ask_until_freed(struct vipl__session *session, const Vip__Request *request,
                                  const int fds[2], Vip__Reply **ret_reply, struct vip_fds *ret_fds)
{
    struct timespec pause = {0};
    uint32_t waited_ms = 0, again_ms;

    for (;;) {
        VIP_RETURN rc = vipl__call_open(session, request, fds, 2, ret_reply, ret_fds);

        if (rc == VIP_SUCCESS || *ret_reply == NULL)
            return rc;
        again_ms = (*ret_reply)->open->again_ms;
        vipl__reply_free(*ret_reply);
        *ret_reply = NULL;
        if (waited_ms >= FREED_WAIT_MS_MAX)
            return rc;
        if (again_ms > FREED_AGAIN_MS_MAX)
            again_ms = FREED_AGAIN_MS_MAX;
        waited_ms += again_ms;
        pause.tv_nsec = (long)again_ms * 1000000;
        nanosleep(&pause, NULL);
    }
}

/* Values of the OpenReply that open_once needs later. */
struct opened {
    bool direct;         /* vipd offers rings */
    uint64_t outlive_ns; /* for session->outlive_ns, when the provider thread starts */
};

/* Send the OpenRequest and store the contents of its reply. */
static VIP_RETURN ask_open(struct vipl__session *session, const char *device, const int fds[2],
                           struct opened *ret)
{
    Vip__OpenRequest open = VIP__OPEN_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    struct vip_fds got = VIP_FDS_NONE;
    Vip__Reply *reply = NULL;
    const char *wrong = NULL;
    VIP_RETURN rc;

    open.has_abi = 1;
    open.abi = VIP_SHM_ABI;
    open.device = (char *)device;
    open.program = program_invocation_short_name;
    open.library_version = (char *)VIP_VERSION;
    request.body_case = VIP__REQUEST__BODY_OPEN;
    request.open = &open;
    rc = ask_until_freed(session, &request, fds, &reply, &got);
    if (rc == VIP_INVALID_PARAMETER)
        return unknown_device(session, device);
    if (rc != VIP_SUCCESS)
        return rc;

    if (reply->open == NULL || reply->open->nic == NULL || got.count != 3)
        wrong = "its reply is incomplete";
    else if (reply->open->abi != VIP_SHM_ABI)
        wrong = "it speaks another version of the shared-memory interface";
    else
        wrong = map_vipd_segment(session, got.fd[0]);
    if (wrong != NULL) {
        rc = vipl__fail(VIP_ERROR_RESOURCE,
                        "VipOpenNic: vipd at %s does not fit this library (%s): %s",
                        session->socket_path, VIP_VERSION, wrong);
    } else {
        take_nic_attributes(session, reply->open);
        session->loans_known = reply->open->loans != 0;
        *ret = (struct opened){.direct = reply->open->direct,
                               .outlive_ns = reply->open->outlive_ms * 1000000};
        snprintf(session->device, sizeof(session->device), "%s", session->nic.Name);
        session->vipd_fd = got.fd[0];
        session->doorbell_fd = got.fd[1];
        session->event_fd = got.fd[2];
        got.fd[0] = got.fd[1] = got.fd[2] = -1;
    }
    vip_fds_close(&got);
    vipl__reply_free(reply);
    return rc;
}

/* Release all parts of the session. No thread of the program or library uses the session now. */
static void release(struct vipl__session *session)
{
    struct vipl__incoming *incoming;

    if (session->callbacks != NULL)
        vipl__callbacks_stop(session->callbacks);
    session->callbacks = NULL;
    if (session->notify != NULL)
        vipl__notify_stop(session->notify);
    session->notify = NULL;
    for (unsigned i = 0; i < VIP_CQ_MAX; i++)
        if (session->cq[i] != NULL) {
            vipl__cq_fd_close(session->cq[i]);
            session->cq[i]->refused = VIPL__TAKEN;
        }
    vipl__direct_close(session);
    vipl__lent_close(session);
    vipl__discovered_free(session);
    vipl__fd_close(&session->control_fd);
    vipl__fd_close(&session->event_fd);
    vipl__fd_close(&session->doorbell_fd);
    vipl__fd_close(&session->app_fd);
    vipl__fd_close(&session->vipd_fd);
    vipl__fd_close(&session->recv_fd);
    free(session->ptags);
    session->ptags = NULL;
    unmap_segments(session);

    for (uint32_t i = 0; session->regions.slots != NULL && i <= session->regions.mask; i++) {
        struct vipl__region *region = session->regions.slots[i].region;

        if (region != NULL) {
            vipl__mem_release(&region->mem);
            free(region);
        }
    }
    if (session->arena)
        vipl__mem_arena_put();
    session->arena = false;
    free(session->regions.slots);
    memset(&session->regions, 0, sizeof(session->regions));
    while ((incoming = session->incoming) != NULL) {
        session->incoming = incoming->next;
        free(incoming);
    }
    for (unsigned i = 0; i < VIP_VI_MAX; i++)
        if (session->vi[i] != NULL) {
            vipl__attempt_close_fd(session->vi[i]);
            session->vi[i]->refused = VIPL__TAKEN;
        }
    vipl__listeners_release(session);
    free(session->conns);
    session->conns = NULL;
    session->conn_slots = 0;
    vipl__session_put(session);
}

static void reset(struct vipl__session *session)
{
    const char *watch = getenv("VIPL_STATUS_IN_MEMORY"), *loan = getenv("VIPL_LOAN");

    session->sq_position = session->sq_taken = 0;
    session->names_ready = session->direct = false;
    session->watched = watch != NULL && strcmp(watch, "1") == 0;
    session->loans_no = loan != NULL && strcmp(loan, "0") == 0;
    session->loans_random = loan != NULL && strcmp(loan, "random") == 0;
    session->loans_eager = session->loans_random || (loan != NULL && strcmp(loan, "eager") == 0);
    session->outlive_ns = 0;
    session->ptag_count = 0;
    __atomic_store_n(&session->gone, VIPL__THERE, __ATOMIC_SEQ_CST);
    __atomic_store_n(&session->trouble, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&session->closing, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&session->broken, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&session->unanswered, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&session->staged, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&session->refused, 0, __ATOMIC_RELAXED);
}

/*
 * Try once to open the NIC. *again, in: as for connect_vipd. *again, out, after a failed try: has a
 * vipd ended during VipOpenNic, so that the next vipd may open the NIC?
 */
static VIP_RETURN open_once(const char *device, bool *again, struct vipl__session **ret)
{
    struct vipl__session *session = vipl__session_get();
    struct opened opened = {0};
    VIP_RETURN rc;
    int fds[2], error;

    if (session == NULL) {
        *again = false;
        return vipl__fail(VIP_ERROR_RESOURCE,
                          "VipOpenNic: %u NIC handles are open in this process, or there is no "
                          "address space for another one's shared memory",
                          VIPL__SESSIONS_MAX);
    }
    reset(session);
    rc = connect_vipd(session, again);
    if (rc != VIP_SUCCESS)
        goto no_vipd;
    rc = hold_arena(session, &fds[1]);
    if (rc != VIP_SUCCESS)
        goto failed;
    session->arena = fds[1] >= 0;
    fds[0] = app_segment(session);
    if (fds[0] < 0 || fds[1] < 0) {
        rc = vipl__fail(VIP_ERROR_RESOURCE, "VipOpenNic: no memory to share with vipd: %s",
                        vipl__mem_file_error(fds[0] < 0 ? fds[0] : fds[1]));
        if (fds[0] >= 0)
            close(fds[0]);
        goto failed;
    }
    session->app_fd = fds[0];
    rc = ask_open(session, device, fds, &opened);
    if (rc != VIP_SUCCESS)
        goto failed;
    if (opened.direct)
        rc = vipl__direct_open(session);
    if (rc != VIP_SUCCESS)
        goto failed;

    session->callbacks = vipl__callbacks_new();
    session->notify = vipl__notify_new(session);
    error = session->callbacks == NULL || session->notify == NULL ? ENOMEM : 0;
    if (error == 0 && session->watched)
        error = vipl__notify_watch(session);
    if (error == ENOSYS) {
        rc = vipl__fail(VIP_ERROR_RESOURCE,
                        "VipOpenNic: VIPL_STATUS_IN_MEMORY=1 needs Linux 5.16 or later");
        goto failed;
    }
    session->outlive_ns = opened.outlive_ns; /* before this, no thread can find a next vipd */
    if (error == 0)
        error = vipl__events_start(session);
    if (error != 0) {
        rc = vipl__fail(VIP_ERROR_RESOURCE, "VipOpenNic: no provider thread: %s", strerror(error));
        goto failed;
    }
    if (session->outlive_ns == 0) { /* no next vipd will need the files */
        vipl__fd_close(&session->app_fd);
        vipl__fd_close(&session->vipd_fd);
        vipl__fd_close(&session->recv_fd);
    }
    __atomic_store_n(&session->handle, vipl__handle_make(VIPL__KIND_NIC, session, session->uses),
                     __ATOMIC_SEQ_CST);
    *ret = session;
    return VIP_SUCCESS;

failed:
    *again = __atomic_load_n(&session->unanswered, __ATOMIC_RELAXED) != 0;
no_vipd:
    release(session);
    return rc;
}

VIP_RETURN vipl__session_open(const char *device, struct vipl__session **ret)
{
    struct timespec pause = {.tv_nsec = OPEN_AGAIN_MS * 1000000};
    bool again = false;

    for (unsigned waited_ms = 0;; waited_ms += OPEN_AGAIN_MS) {
        VIP_RETURN rc = open_once(device, &again, ret);

        if (rc == VIP_SUCCESS || !again || waited_ms >= OPEN_WAIT_MS_MAX)
            return rc;
        nanosleep(&pause, NULL);
    }
}

/* Make all VI and CQ handles of the session invalid, so that later calls are refused. */
static void invalidate(struct vipl__session *session)
{
    vipl__spin_lock(&session->post_lock);
    for (unsigned i = 0; i < VIP_VI_MAX; i++)
        if (session->vi[i] != NULL)
            __atomic_store_n(&session->vi[i]->handle, 0, __ATOMIC_SEQ_CST);
    for (unsigned i = 0; i < VIP_CQ_MAX; i++)
        if (session->cq[i] != NULL)
            __atomic_store_n(&session->cq[i]->handle, 0, __ATOMIC_SEQ_CST);
    vipl__spin_unlock(&session->post_lock);
}

/*
 * vipd did not confirm the end of the session, because the connection broke. So vipd may still
 * place incoming bytes, and the pages of our regions must not become private again yet. Wait until
 * vipd closes its end of the socket, after it has freed the session; if vipd has died, the kernel
 * closes that end.
 */
static void await_end(struct vipl__session *session)
{
    char stray[256];
    ssize_t n;

    pthread_mutex_lock(&session->call_lock);
    shutdown(session->control_fd, SHUT_WR);
    do
        n = recv(session->control_fd, stray, sizeof(stray), 0);
    while (n > 0 || (n < 0 && errno == EINTR));
    pthread_mutex_unlock(&session->call_lock);
}

void vipl__session_close(struct vipl__session *session)
{
    struct timespec pause = {.tv_nsec = 200000};
    Vip__CloseRequest close_request = VIP__CLOSE_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;

    /* Hold the lock: no thread may now have made an object, but not yet the object's handle. */
    pthread_mutex_lock(&session->lock);
    __atomic_store_n(&session->closing, 1, __ATOMIC_SEQ_CST);
    invalidate(session);
    vipl__listeners_invalidate(session);
    pthread_cond_broadcast(&session->changed);
    pthread_mutex_unlock(&session->lock);

    /* Tell vipd of the end, so that the peers see a disconnect instead of a lost connection. */
    request.body_case = VIP__REQUEST__BODY_CLOSE;
    request.close = &close_request;
    if (vipl__call(session, "VipCloseNic", &request, NULL, 0, NULL) != VIP_SUCCESS)
        await_end(session);
    shutdown(session->control_fd, SHUT_RDWR);
    shutdown(session->event_fd, SHUT_RDWR);
    vipl__events_join(session);
    vipl__lent_join(session);
    while (__atomic_load_n(&session->users, __ATOMIC_SEQ_CST) != 0) { /* [enter CLOSE] */
        vipl__wake_all(session);
        pthread_mutex_lock(&session->lock);
        pthread_cond_broadcast(&session->changed);
        pthread_mutex_unlock(&session->lock);
        nanosleep(&pause, NULL);
    }
    release(session);
}
