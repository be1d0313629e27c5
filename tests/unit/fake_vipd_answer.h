/*
 * The answers of a vipd for unit tests of libvipl (fake_vipd.h), and the variables by which the
 * test sets them.
 */
#ifndef TESTS_FAKE_VIPD_ANSWER_H
#define TESTS_FAKE_VIPD_ANSWER_H

#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/control.h"
#include "proto/control.pb-c.h"
#include "proto/ring.h"
#include "proto/shm.h"
#include "proto/status.h"

/* The fault of the fake's OpenReply. */
enum fake_fault {
    FAKE_GOOD = 0,
    FAKE_NO_SEALS,
    FAKE_SMALL,
    FAKE_MAGIC,
    FAKE_ABI,
    FAKE_FEW_FDS,
    FAKE_REFUSES,
    FAKE_AGAIN, /* answers the first `again` OpenRequests with "again" */
    FAKE_FULL,  /* refuses the first `again` OpenRequests and says that it closes the connection */
    FAKE_HANGS_UP, /* closes the socket at the first `again` requests of the kind `ends_at` */
};

/* The fake's answer to MakeMemory. */
enum fake_memory {
    FAKE_MEM_NONE = 0, /* success without a file: the program makes the file */
    FAKE_MEM_GOOD,
    FAKE_MEM_TWO,
    FAKE_MEM_SMALL,
    FAKE_MEM_NO_SEALS,
    FAKE_MEM_REFUSES,
};

/* An object that the fake refuses: the body case of the request for it, and its number. */
struct fake_refusal {
    unsigned body_case;
    uint32_t number;
    bool hang_up; /* close the connection once instead of answering */
};

struct fake {
    char dir[64];
    unsigned lives; /* number of vipds that follow this one, each after the end of the one before */
    struct fake_refusal refuses[3]; /* objects that the following vipds refuse */
    struct sockaddr_un address;
    int listener, control, event, doorbell;
    pthread_t thread;
    void *app;  /* the app-writes segment, mapped read-only */
    void *vipd; /* the vipd-writes segment */
    size_t vipd_bytes;
    enum fake_fault fault;
    enum fake_memory memory;
    bool direct;       /* the OpenReply offers direct rings */
    bool past_rings;   /* the OpenReply says that rings of an earlier life go on */
    bool no_loans;     /* the OpenReply does not say that this vipd knows loans */
    bool refuses_ring; /* the fake refuses a CreateVi with a ring: ERROR_NOT_SUPPORTED */
    uint32_t outlive_ms;
    /* The last two CreateVi requests for VIs of an earlier life. `ring`: it had a ring. */
    struct fake_past {
        bool ring;
        ino_t file;
        uint32_t half, first, recv_base;
    } past[2];
    ino_t made, arena; /* inodes: file of the last MakeMemory; arena of the last OpenRequest */
    unsigned again;    /* FAKE_AGAIN, FAKE_FULL, FAKE_HANGS_UP: how often this still happens */
    unsigned ends_at;  /* FAKE_HANGS_UP: the body case of the request */
    bool hides;        /* FAKE_HANGS_UP: also rename the socket (fake_hidden) */
    /* The contents of the next replies. */
    uint32_t vi, generation, send_position, recv_position, cq, cq_position, number;
    enum vip_rc code; /* code of all replies except those to OpenRequest and MakeMemory */
    bool found;       /* `found` in the reply to a ConnectWaitRequest or to its cancel */
    uint64_t wait_id;
    /* The event after the reply to a connect or accept; if `found`, to a wait or its cancel. */
    Vip__Event *after_reply;
    /* NULL, or a function that the fake calls first for each request except OpenRequest and
     * MakeMemory. The function returns true if it has answered. */
    bool (*answers)(struct fake *fake, const Vip__Request *request, const struct vip_fds *fds);
    void *of_answers; /* argument of the functions `answers` and `opens` */
    /* NULL, or a function that the fake calls before and after it sends an OpenReply with fds. */
    void (*opens)(struct fake *fake, bool sent);
    /* Number of requests of each body case, except OpenRequest and MakeMemory; atomic. */
    unsigned requests[64];
};

static int fake_segment(struct fake *fake)
{
    size_t bytes = fake->fault == FAKE_SMALL ? VIP_VIPD_BYTES - 4096 : VIP_VIPD_BYTES;
    int fd = memfd_create("fake-vipd", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    struct vip_vipd_head *head;

    assert_true(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0);
    fake->vipd_bytes = bytes;
    fake->vipd = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(fake->vipd, MAP_FAILED);
    head = fake->vipd;
    head->magic = fake->fault == FAKE_MAGIC ? 1 : VIP_SHM_VIPD_MAGIC;
    head->abi = VIP_SHM_ABI;
    head->bytes = VIP_VIPD_BYTES;
    if (fake->fault != FAKE_NO_SEALS)
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
    return fd;
}

static ino_t fake_inode(int fd)
{
    struct stat file;

    return fstat(fd, &file) == 0 ? file.st_ino : 0;
}

static void fake_make_memory(struct fake *fake, const Vip__Request *request)
{
    Vip__Reply reply = VIP__REPLY__INIT;
    uint64_t bytes = request->make_memory->bytes;
    int fd = memfd_create("fake-memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int out[2] = {fd, fd};
    unsigned count = fake->memory == FAKE_MEM_TWO ? 2 : 1;

    if (fake->memory == FAKE_MEM_SMALL)
        bytes /= 2;
    assert_true(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0);
    if (fake->memory != FAKE_MEM_NO_SEALS)
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
    fake->made = fake_inode(fd);
    if (fake->memory == FAKE_MEM_NONE || fake->memory == FAKE_MEM_REFUSES)
        count = 0;
    reply.has_code = 1;
    reply.code = fake->memory == FAKE_MEM_REFUSES ? VIP_RC_ERROR_RESOURCE : VIP_RC_SUCCESS;
    reply.reason = (char *)"the fake makes no memory";
    vip_control_send(fake->control, &reply.base, out, count, 0);
    close(fd);
}

/* The test sets the contents of answers. After a request the fake's thread reads them. The socket
 * orders these accesses, but the thread sanitizer does not know that. */
#define FAKE_ORDERED __attribute__((no_sanitize("thread")))

/* Answer with again_ms or hangs_up. A code and a reason are for a libvipl that knows neither. */
FAKE_ORDERED static void fake_again(struct fake *fake)
{
    Vip__Reply reply = VIP__REPLY__INIT;
    Vip__OpenReply open = VIP__OPEN_REPLY__INIT;

    fake->again--;
    open.has_again_ms = 1;
    open.again_ms = 10;
    reply.has_code = 1;
    reply.code = VIP_RC_ERROR_RESOURCE;
    reply.reason = (char *)"memory is still being freed";
    reply.open = fake->fault == FAKE_AGAIN ? &open : NULL;
    reply.has_hangs_up = reply.hangs_up = fake->fault == FAKE_FULL;
    vip_control_send(fake->control, &reply.base, NULL, 0, 0);
}

/* Answer an OpenRequest. A program that claims its session sends the segments of the last vipd. */
FAKE_ORDERED static void fake_open(struct fake *fake, const Vip__Request *request,
                                   struct vip_fds *fds)
{
    Vip__Reply reply = VIP__REPLY__INIT;
    Vip__OpenReply open = VIP__OPEN_REPLY__INIT;
    Vip__NicAttributes nic = VIP__NIC_ATTRIBUTES__INIT;
    uint8_t address[6] = {127, 0, 0, 9, 0x12, 0x34};
    int pair[2], out[3];

    if (request->open->claim == NULL)
        fake->app = mmap(NULL, VIP_APP_BYTES, PROT_READ, MAP_SHARED, fds->fd[0], 0);
    fake->arena = fake_inode(fds->fd[1]);
    if (fake->fault == FAKE_REFUSES) {
        reply.has_code = 1;
        reply.code = VIP_RC_ERROR_RESOURCE;
        reply.reason = (char *)"the fake refuses";
        vip_control_send(fake->control, &reply.base, NULL, 0, 0);
        return;
    }
    if (fake->event >= 0)
        close(fake->event);
    if (fake->doorbell >= 0)
        close(fake->doorbell);
    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair);
    out[0] = request->open->claim == NULL ? fake_segment(fake) : dup(fds->fd[2]);
    out[1] = fake->doorbell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    out[2] = pair[1];
    fake->event = pair[0];
    nic.name = (char *)"fake0";
    nic.has_local_address = 1;
    nic.local_address.data = address;
    nic.local_address.len = sizeof(address);
    nic.has_max_register_block_bytes = nic.has_max_transfer_size = nic.has_max_cq_entries = 1;
    nic.has_reliability_level_support = nic.has_max_discriminator_len = 1;
    nic.max_register_block_bytes = 1u << 30;
    nic.max_transfer_size = 1u << 20;
    nic.max_cq_entries = 1000;
    nic.max_discriminator_len = 128;
    nic.reliability_level_support = 7;
    open.has_abi = 1;
    open.abi = fake->fault == FAKE_ABI ? 99 : VIP_SHM_ABI;
    open.nic = &nic;
    open.has_cpus = open.has_spin_ns = 1;
    open.cpus = 1;
    open.spin_ns = 1000;
    open.has_direct = open.direct = fake->direct;
    open.has_past_rings = open.past_rings = fake->past_rings;
    open.has_loans = open.loans = !fake->no_loans;
    open.has_outlive_ms = 1;
    open.outlive_ms = fake->outlive_ms;
    reply.open = &open;
    if (fake->opens != NULL)
        fake->opens(fake, false);
    vip_control_send(fake->control, &reply.base, out, fake->fault == FAKE_FEW_FDS ? 1 : 3, 0);
    if (fake->opens != NULL)
        fake->opens(fake, true);
    close(out[0]);
    close(pair[1]);
}

/* Record the request of a program that creates a VI of an earlier life again. */
FAKE_ORDERED static void fake_past(struct fake *fake, const Vip__PastVi *past,
                                   const struct vip_fds *fds)
{
    fake->past[0] = fake->past[1];
    fake->past[1] = (struct fake_past){.ring = past->has_ring_half && fds->count == 1,
                                       .file = fds->count > 0 ? fake_inode(fds->fd[0]) : 0,
                                       .half = past->ring_half,
                                       .first = past->ring_first,
                                       .recv_base = past->recv_base};
}

/* Returns the number of the object in the request of a program that claims its session. */
static uint32_t fake_number(const Vip__Request *request)
{
    switch ((int)request->body_case) {
    case VIP__REQUEST__BODY_CREATE_VI:
        return request->create_vi->past ? request->create_vi->past->vi : UINT32_MAX;
    case VIP__REQUEST__BODY_CREATE_CQ:
        return request->create_cq->has_cq ? request->create_cq->cq : UINT32_MAX;
    case VIP__REQUEST__BODY_CREATE_PTAG:
        return request->create_ptag->has_ptag ? request->create_ptag->ptag : UINT32_MAX;
    case VIP__REQUEST__BODY_REGISTER_MEM:
        return request->register_mem->has_handle ? request->register_mem->handle : UINT32_MAX;
    default:
        return 0;
    }
}

/* True if the request ends a VI or a CQ that this fake has refused and therefore does not know. */
static bool fake_unknown(const struct fake *fake, const Vip__Request *request)
{
    const struct fake_refusal *refusal = fake->refuses;
    uint32_t number;
    unsigned made;

    if (request->body_case == VIP__REQUEST__BODY_DESTROY_VI) {
        made = VIP__REQUEST__BODY_CREATE_VI;
        number = request->destroy_vi->vi;
    } else if (request->body_case == VIP__REQUEST__BODY_DESTROY_CQ) {
        made = VIP__REQUEST__BODY_CREATE_CQ;
        number = request->destroy_cq->cq;
    } else {
        return false;
    }
    for (unsigned i = 0; i < sizeof(fake->refuses) / sizeof(*refusal); i++)
        if (refusal[i].body_case == made && refusal[i].number == number && !refusal[i].hang_up)
            return true;
    return false;
}

FAKE_ORDERED static void fake_answer(struct fake *fake, const Vip__Request *request,
                                     const struct vip_fds *fds)
{
    Vip__Reply reply = VIP__REPLY__INIT;
    Vip__CreateViReply vi = VIP__CREATE_VI_REPLY__INIT;
    Vip__CreateCqReply cq = VIP__CREATE_CQ_REPLY__INIT;
    Vip__ConnectWaitReply wait = VIP__CONNECT_WAIT_REPLY__INIT;
    bool event = request->body_case == VIP__REQUEST__BODY_CONNECT ||
                 request->body_case == VIP__REQUEST__BODY_ACCEPT;

    if (fake->answers != NULL && fake->answers(fake, request, fds)) {
        __atomic_add_fetch(&fake->requests[request->body_case], 1, __ATOMIC_SEQ_CST);
        return;
    }
    reply.has_code = 1;
    reply.code = fake_unknown(fake, request) ? VIP_RC_INVALID_PARAMETER : fake->code;
    for (unsigned i = 0; i < sizeof(fake->refuses) / sizeof(fake->refuses[0]); i++) {
        struct fake_refusal *refusal = &fake->refuses[i];

        if (refusal->body_case != request->body_case || refusal->number != fake_number(request))
            continue;
        if (refusal->hang_up) {
            refusal->body_case = 0;
            shutdown(fake->control, SHUT_RDWR);
            return;
        }
        reply.code = VIP_RC_ERROR_RESOURCE;
        reply.reason = (char *)"the fake refuses it";
    }
    reply.has_number = 1;
    reply.number = fake->number;
    vi.has_vi = vi.has_generation = vi.has_send_position = vi.has_recv_position = 1;
    vi.vi = fake->vi;
    vi.generation = fake->generation;
    vi.send_position = fake->send_position;
    vi.recv_position = fake->recv_position;
    cq.has_cq = cq.has_position = 1;
    cq.cq = fake->cq;
    cq.position = fake->cq_position;
    wait.has_wait_id = wait.has_found = 1;
    wait.wait_id = fake->wait_id;
    wait.found = fake->found;
    if (request->body_case == VIP__REQUEST__BODY_CREATE_VI)
        reply.create_vi = &vi;
    if (request->body_case == VIP__REQUEST__BODY_CREATE_VI && request->create_vi->past != NULL) {
        fake_past(fake, request->create_vi->past, fds);
        if (fake->refuses_ring && fake->past[1].ring)
            reply.code = VIP_RC_ERROR_NOT_SUPPORTED;
    }
    if (request->body_case == VIP__REQUEST__BODY_CREATE_CQ)
        reply.create_cq = &cq;
    if (request->body_case == VIP__REQUEST__BODY_CONNECT_WAIT ||
        request->body_case == VIP__REQUEST__BODY_CONNECT_WAIT_CANCEL) {
        reply.connect_wait = &wait;
        event = fake->found;
    }
    __atomic_add_fetch(&fake->requests[request->body_case], 1, __ATOMIC_SEQ_CST);
    vip_control_send(fake->control, &reply.base, NULL, 0, 0);
    if (event && fake->after_reply != NULL)
        vip_control_send(fake->event, &fake->after_reply->base, NULL, 0, 0);
}

#endif
