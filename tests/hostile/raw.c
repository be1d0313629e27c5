/* Sessions without libvipl (raw.h). */
#include "hostile/raw.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/direct.h"
#include "proto/status.h"

#define PAGES_MAX 1000

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

#define APP_SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE)

uint64_t raw_random(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15u;

    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

uint64_t raw_odd_number(uint64_t *state)
{
    static const uint64_t odd[] = {
        0,          1,           2,          252,         253,        254,
        255,        1023,        1024,       1025,        4095,       4096,
        4097,       0x7fff,      0x8000,     0xffff,      0x10000,    0x3fffff,
        0x400000,   0x400001,    0x7fffffff, 0x80000000u, 0xfffff000, 0xffffffffu,
        1ull << 32, 1ull << 47,  1ull << 63, ~0ull,       ~0ull - 1,  ~0ull - 4095,
        ~0ull >> 1, 0x80000001u,
    };
    uint64_t choice = raw_random(state);

    if (choice % 3 == 0)
        return raw_random(state);
    return odd[(choice >> 8) % (sizeof(odd) / sizeof(odd[0]))] + (choice >> 40) % 3 - 1;
}

bool raw_unsealed, raw_own_memory;

int raw_memory_ask(int sock, uint64_t bytes)
{
    Vip__MakeMemoryRequest make = VIP__MAKE_MEMORY_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;

    make.has_bytes = true;
    make.bytes = bytes;
    request.body_case = VIP__REQUEST__BODY_MAKE_MEMORY;
    request.make_memory = &make;
    return vip_control_send(sock, &request.base, NULL, 0, 0);
}

int raw_memory_take(int sock)
{
    ProtobufCMessage *message;
    struct vip_fds fds = VIP_FDS_NONE;
    int fd = -1;

    if (vip_control_recv(sock, &vip__reply__descriptor, 0, &message, &fds) < 0)
        return -1;
    protobuf_c_message_free_unpacked(message, NULL);
    if (fds.count == 1)
        fd = dup(fds.fd[0]);
    vip_fds_close(&fds);
    return fd;
}

int raw_memory(uint64_t bytes)
{
    char path[108];
    int sock, fd;

    if (vip_control_socket_path(path, sizeof(path)) < 0 || (sock = vip_control_connect(path)) < 0)
        return -1;
    fd = raw_memory_ask(sock, bytes) == 0 ? raw_memory_take(sock) : -1;
    close(sock);
    return fd;
}

int raw_memfd(uint64_t bytes, bool seal)
{
    int fd = seal && !raw_unsealed && !raw_own_memory ? raw_memory(bytes) : -1;

    if (fd >= 0)
        return fd;
    fd = memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd >= 0 &&
        (ftruncate(fd, (off_t)bytes) < 0 ||
         (seal && !raw_unsealed && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) < 0))) {
        close(fd);
        return -1;
    }
    return fd;
}

Vip__Reply *raw_ask(int sock, const Vip__Request *request, const int *fds, unsigned count)
{
    ProtobufCMessage *message;
    struct vip_fds got;

    if (vip_control_send(sock, &request->base, fds, count, 0) < 0 ||
        vip_control_recv(sock, &vip__reply__descriptor, 0, &message, &got) < 0)
        return NULL;
    vip_fds_close(&got);
    return (Vip__Reply *)message;
}

bool raw_view(int sock, Vip__ShowRequest__What what, raw_page *each, void *ctx)
{
    Vip__ShowRequest show = VIP__SHOW_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    bool more = true;

    show.has_what = show.has_cursor = true;
    show.what = what;
    request.body_case = VIP__REQUEST__BODY_SHOW;
    request.show = &show;
    for (unsigned page = 0; more && page < PAGES_MAX; page++) {
        Vip__Reply *reply = raw_ask(sock, &request, NULL, 0);

        if (!reply || !reply->show)
            return false;
        each(ctx, reply->show);
        more = reply->show->has_next_cursor;
        show.cursor = reply->show->next_cursor;
        vip__reply__free_unpacked(reply, NULL);
    }
    return true;
}

int raw_code(int sock, const Vip__Request *request, const int *fds, unsigned count,
             uint32_t *ret_number)
{
    Vip__Reply *reply = raw_ask(sock, request, fds, count);
    int code;

    if (!reply)
        return -1;
    code = (int)reply->code;
    if (ret_number)
        *ret_number = reply->number;
    vip__reply__free_unpacked(reply, NULL);
    return code;
}

/* ---- open and close ---------------------------------------------------------------------- */

static int app_segment(struct raw *raw)
{
    struct vip_app_head head = {
        .magic = VIP_SHM_APP_MAGIC, .abi = VIP_SHM_ABI, .bytes = VIP_APP_BYTES};
    int fd = raw_memfd(VIP_APP_BYTES, false);

    if (fd < 0)
        return -1;
    raw->app = mmap(NULL, VIP_APP_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (raw->app == MAP_FAILED || (!raw_unsealed && fcntl(fd, F_ADD_SEALS, APP_SEALS) < 0)) {
        close(fd);
        return -1;
    }
    memcpy(raw->app, &head, sizeof(head));
    return fd;
}

static int open_send(struct raw *raw, int app_fd)
{
    Vip__OpenRequest open = VIP__OPEN_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    int fds[2] = {app_fd, raw->arena};

    open.has_abi = true;
    open.abi = VIP_SHM_ABI;
    open.device = (char *)"vip0";
    open.program = (char *)"hostile";
    request.body_case = VIP__REQUEST__BODY_OPEN;
    request.open = &open;
    return vip_control_send(raw->sock, &request.base, fds, 2, 0);
}

static int open_take(struct raw *raw)
{
    ProtobufCMessage *message;
    const Vip__Reply *reply;
    struct vip_fds fds;
    int r = -1;

    if (vip_control_recv(raw->sock, &vip__reply__descriptor, 0, &message, &fds) < 0)
        return -1;
    reply = (const Vip__Reply *)message;
    if (reply->code == VIP_RC_SUCCESS && fds.count == 3) {
        raw->vipd = mmap(NULL, VIP_VIPD_BYTES, PROT_READ, MAP_SHARED, fds.fd[0], 0);
        raw->vipd_fd = fds.fd[0];
        raw->doorbell = fds.fd[1];
        raw->events = fds.fd[2];
        fds.fd[0] = fds.fd[1] = fds.fd[2] = -1;
        raw->address_len = reply->open->nic->local_address.len;
        memcpy(raw->address, reply->open->nic->local_address.data, raw->address_len);
        r = raw->vipd == MAP_FAILED ? -1 : 0;
    }
    vip_fds_close(&fds);
    protobuf_c_message_free_unpacked(message, NULL);
    return r;
}

int raw_open(struct raw *raw)
{
    char path[108];
    int r = -1;

    memset(raw, 0, sizeof(*raw));
    raw->events = raw->doorbell = raw->vipd_fd = -1;
    raw->app = raw->vipd = MAP_FAILED;
    for (unsigned i = 0; i < RAW_REGIONS; i++)
        raw->region[i] = (struct raw_region){.fd = -1, .at = MAP_FAILED};
    raw->arena = raw_memfd(VIP_ARENA_BYTES, true);
    raw->app_fd = app_segment(raw);
    if (vip_control_socket_path(path, sizeof(path)) < 0)
        return -1;
    raw->sock = vip_control_connect(path);
    if (raw->sock >= 0 && raw->app_fd >= 0 && raw->arena >= 0 && open_send(raw, raw->app_fd) == 0)
        r = open_take(raw);
    if (r < 0)
        raw_close(raw);
    return r;
}

static void shut(int fd)
{
    if (fd >= 0)
        close(fd);
}

void raw_close(struct raw *raw)
{
    shut(raw->sock);
    shut(raw->events);
    shut(raw->doorbell);
    shut(raw->arena);
    shut(raw->app_fd);
    shut(raw->vipd_fd);
    if (raw->app != MAP_FAILED)
        munmap(raw->app, VIP_APP_BYTES);
    if (raw->vipd != MAP_FAILED)
        munmap(raw->vipd, VIP_VIPD_BYTES);
    for (unsigned i = 0; i < RAW_REGIONS; i++) {
        if (raw->region[i].at != MAP_FAILED)
            munmap(raw->region[i].at, raw->region[i].bytes);
        shut(raw->region[i].fd);
    }
}

bool raw_ended(const struct raw *raw)
{
    struct pollfd fd = {.fd = raw->sock, .events = POLLIN};

    return poll(&fd, 1, 0) > 0; /* a negative result (after a signal) does not mean the end */
}

int raw_table(const struct raw *raw)
{
    Vip__DirectRequest direct = VIP__DIRECT_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    int fd = raw_memfd(VIP_RECV_BYTES, false);

    request.body_case = VIP__REQUEST__BODY_DIRECT;
    request.direct = &direct;
    if (fd < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) <
            0 ||
        raw_code(raw->sock, &request, &fd, 1, NULL) != VIP_RC_SUCCESS) {
        shut(fd);
        return -1;
    }
    return fd;
}

/* ---- objects ----------------------------------------------------------------------------- */

int raw_vi(struct raw *raw, unsigned level, int cq)
{
    Vip__CreateViRequest create = VIP__CREATE_VI_REQUEST__INIT;
    Vip__ViAttributes attributes = VIP__VI_ATTRIBUTES__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    Vip__Reply *reply;
    int at = -1;

    attributes.has_reliability_level = attributes.has_max_transfer_size = true;
    attributes.reliability_level = level;
    attributes.max_transfer_size = 1 << 20;
    attributes.has_enable_rdma_write = attributes.enable_rdma_write = true;
    create.attributes = &attributes;
    create.has_send_cq = create.has_recv_cq = cq >= 0;
    create.send_cq = create.recv_cq = (uint32_t)cq;
    request.body_case = VIP__REQUEST__BODY_CREATE_VI;
    request.create_vi = &create;
    if (raw->vi_count == RAW_VIS)
        return -1;
    reply = raw_ask(raw->sock, &request, NULL, 0);
    if (reply && reply->code == VIP_RC_SUCCESS) {
        at = (int)raw->vi_count++;
        raw->vi[at].vi = (uint16_t)reply->create_vi->vi;
        raw->vi[at].gen = reply->create_vi->generation;
        raw->vi[at].taken[VIP_Q_SEND] = reply->create_vi->send_position;
        raw->vi[at].taken[VIP_Q_RECV] = reply->create_vi->recv_position;
    }
    if (reply)
        vip__reply__free_unpacked(reply, NULL);
    return at;
}

int raw_cq(struct raw *raw)
{
    Vip__CqRequest cq = VIP__CQ_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    Vip__Reply *reply;
    int number = -1;

    cq.has_entries = true;
    cq.entries = 100;
    request.body_case = VIP__REQUEST__BODY_CREATE_CQ;
    request.create_cq = &cq;
    reply = raw_ask(raw->sock, &request, NULL, 0);
    if (reply && reply->code == VIP_RC_SUCCESS)
        number = (int)reply->create_cq->cq;
    if (reply)
        vip__reply__free_unpacked(reply, NULL);
    return number;
}

int raw_region_of(struct raw *raw, unsigned at, Vip__MemKind kind, uint64_t bytes, int fd)
{
    Vip__RegisterMemRequest mem = VIP__REGISTER_MEM_REQUEST__INIT;
    Vip__MemAttributes attributes = VIP__MEM_ATTRIBUTES__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    struct raw_region *region = &raw->region[at];
    bool adopted = kind == VIP__MEM_KIND__MEM_ADOPTED;

    if (region->at != MAP_FAILED)
        munmap(region->at, region->bytes);
    if (region->fd >= 0)
        close(region->fd);
    region->fd = fd;
    region->bytes = bytes;
    region->at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, region->fd, 0);
    if (region->at == MAP_FAILED)
        return -1;
    region->addr = (uintptr_t)region->at;
    attributes.has_enable_rdma_write = attributes.enable_rdma_write = true;
    mem.has_address = mem.has_bytes = mem.has_kind = mem.has_offset = true;
    mem.address = region->addr;
    mem.bytes = bytes;
    mem.kind = kind;
    mem.attributes = &attributes;
    request.body_case = VIP__REQUEST__BODY_REGISTER_MEM;
    request.register_mem = &mem;
    return raw_code(raw->sock, &request, &region->fd, adopted ? 0 : 1, &region->handle) ==
                   VIP_RC_SUCCESS
               ? 0
               : -1;
}

int raw_region(struct raw *raw, unsigned at, Vip__MemKind kind, uint64_t bytes)
{
    uint64_t file_bytes = kind == VIP__MEM_KIND__MEM_STAGED ? 2 * bytes : bytes;
    int fd = kind == VIP__MEM_KIND__MEM_ADOPTED ? fcntl(raw->arena, F_DUPFD_CLOEXEC, 0)
                                                : raw_memfd(file_bytes, true);

    return fd < 0 ? -1 : raw_region_of(raw, at, kind, bytes, fd);
}

int raw_deregister(const struct raw *raw, unsigned at)
{
    Vip__MemRequest mem = VIP__MEM_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;

    mem.has_handle = mem.has_address = true;
    mem.handle = raw->region[at].handle;
    mem.address = raw->region[at].addr;
    request.body_case = VIP__REQUEST__BODY_DEREGISTER_MEM;
    request.deregister_mem = &mem;
    return raw_code(raw->sock, &request, NULL, 0, NULL) == VIP_RC_SUCCESS ? 0 : -1;
}

int raw_disconnect(const struct raw *raw, unsigned at)
{
    Vip__ViRequest vi = VIP__VI_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;

    vi.has_vi = true;
    vi.vi = raw->vi[at].vi;
    request.body_case = VIP__REQUEST__BODY_DISCONNECT;
    request.disconnect = &vi;
    return raw_code(raw->sock, &request, NULL, 0, NULL) == VIP_RC_SUCCESS ? 0 : -1;
}

/* ---- connecting -------------------------------------------------------------------------- */

/* The next event of this kind; drops events of other kinds. NULL: no such event came in time. */
static Vip__Event *next_event(struct raw *raw, Vip__Event__BodyCase kind)
{
    struct pollfd fd = {.fd = raw->events, .events = POLLIN};

    while (poll(&fd, 1, 5000) == 1) {
        ProtobufCMessage *message;
        struct vip_fds fds;
        Vip__Event *event;

        if (vip_control_recv(raw->events, &vip__event__descriptor, 0, &message, &fds) < 0)
            return NULL;
        vip_fds_close(&fds);
        event = (Vip__Event *)message;
        if (event->body_case == kind)
            return event;
        vip__event__free_unpacked(event, NULL);
    }
    return NULL;
}

static int result_of(struct raw *raw)
{
    Vip__Event *event = next_event(raw, VIP__EVENT__BODY_RESULT);
    int code = event ? (int)event->result->code : -1;

    if (event)
        vip__event__free_unpacked(event, NULL);
    return code;
}

int raw_connect(struct raw *client, int a, struct raw *server, int b)
{
    static uint64_t number;
    uint64_t disc[2] = {(uint64_t)getpid(), ++number};
    Vip__ConnectWaitRequest wait = VIP__CONNECT_WAIT_REQUEST__INIT;
    Vip__ConnectRequest connect = VIP__CONNECT_REQUEST__INIT;
    Vip__AcceptRequest accept = VIP__ACCEPT_REQUEST__INIT;
    Vip__NetAddress address = VIP__NET_ADDRESS__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    Vip__Event *event;

    address.has_host = address.has_discriminator = true;
    address.host.data = client->address;
    address.host.len = client->address_len;
    address.discriminator.data = (uint8_t *)disc;
    address.discriminator.len = sizeof(disc);
    wait.local = connect.local = connect.remote = &address;
    request.body_case = VIP__REQUEST__BODY_CONNECT_WAIT;
    request.connect_wait = &wait;
    if (raw_code(server->sock, &request, NULL, 0, NULL) != VIP_RC_SUCCESS)
        return -1;
    connect.has_vi = connect.has_timeout_ms = true;
    connect.vi = client->vi[a].vi;
    connect.timeout_ms = 4000;
    request.body_case = VIP__REQUEST__BODY_CONNECT;
    request.connect = &connect;
    if (raw_code(client->sock, &request, NULL, 0, NULL) != VIP_RC_SUCCESS)
        return -1;
    event = next_event(server, VIP__EVENT__BODY_INCOMING);
    if (!event)
        return -1;
    accept.has_conn_handle = accept.has_vi = true;
    accept.conn_handle = event->incoming->conn_handle;
    accept.vi = server->vi[b].vi;
    vip__event__free_unpacked(event, NULL);
    request.body_case = VIP__REQUEST__BODY_ACCEPT;
    request.accept = &accept;
    if (raw_code(server->sock, &request, NULL, 0, NULL) != VIP_RC_SUCCESS)
        return -1;
    return result_of(client) == VIP_RC_SUCCESS && result_of(server) == VIP_RC_SUCCESS ? 0 : -1;
}

/* ---- posting ----------------------------------------------------------------------------- */

bool raw_room(const struct raw *raw, uint32_t slots)
{
    const struct vip_vipd_head *head = (const void *)raw->vipd;

    return raw->position + slots - vip_load32_acquire(&head->sq_cons) <= VIP_SQ_SLOTS;
}

void raw_post(struct raw *raw, int at, enum vip_sq_kind kind, uint16_t control,
              const struct vip_shm_seg *segs, uint16_t count)
{
    struct vip_sq_slot slot = {.vi = raw->vi[at].vi,
                               .kind = (uint8_t)kind,
                               .control = control,
                               .seg_count = count,
                               .vi_gen = raw->vi[at].gen};

    for (unsigned i = (control & VIP_CTL_OP_MASK) != VIP_CTL_OP_SENDRECV; i < count; i++)
        slot.length += segs[i].len;
    memcpy(slot.seg, segs, (count < 2 ? count : 2u) * sizeof(*segs));
    vip_sq_write(vip_app_sq(raw->app), raw->position++, &slot);
}

void raw_ring(const struct raw *raw)
{
    const struct vip_vipd_head *head = (const void *)raw->vipd;
    uint64_t one = 1;

    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (vip_load32(&head->asleep))
        (void)!write(raw->doorbell, &one, sizeof(one));
}

bool raw_reap(struct raw *raw, int at, unsigned queue, struct vip_comp *ret)
{
    uint32_t *taken = &raw->vi[at].taken[queue];
    struct vip_comps_in comps;

    vip_comps_open(&comps, raw->vipd, raw->vi[at].vi, queue);
    if (!vip_comps_read(&comps, *taken, *taken, ret))
        return false;
    (*taken)++;
    return true;
}
