/*
 * Ends of a session. A child of the program exits. A vipd still places bytes until it detects that
 * the program has closed its socket.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/wait.h>

#include "libvipl/direct.h"
#include "libvipl/lent.h"
#include "libvipl/listen.h"
#include "libvipl/session.h"
#include "libvipl/vipl.h"
#include "libvipl/vipl_ext.h"
#include "tests/unit/fake_vipd.h"

#define OK(call) assert_int_equal((call), VIP_SUCCESS)

/* The program registers memory that shares pages with libvipl's own objects, as any block next to
 * them on the heap does. After a fork, the child's handler invalidates the handles of the parent.
 * The handler may do that only in the child's copy of the objects. */
static void a_childs_exit_leaves_the_parents_objects_alone(void **state)
{
    VIP_VI_ATTRIBUTES attrs = {VIP_SERVICE_UNRELIABLE, 4096, NULL, NULL, VIP_FALSE, VIP_FALSE};
    struct fake fake = {.generation = 1, .number = 0x10001};
    VIP_NIC_ATTRIBUTES nic_attrs;
    VIP_MEM_HANDLE handle;
    VIP_NIC_HANDLE nic;
    VIP_VI_HANDLE vi;
    struct vipl__session *session;
    int status;
    pid_t pid;

    (void)state;
    fake_start(&fake);
    OK(VipOpenNic("fake0", &nic));
    OK(VipCreateVi(nic, &attrs, NULL, NULL, &vi));
    session = vipl__handle_session((uint64_t)(uintptr_t)nic, VIPL__KIND_NIC);
    OK(VipRegisterMem(nic, session, sizeof(*session), NULL, &handle));
    fake.number = 0x10002;
    OK(VipRegisterMem(nic, session->vi[0], sizeof(struct vipl__vi), NULL, &handle));

    pid = fork();
    if (pid == 0)
        _exit(VipQueryNic(nic, &nic_attrs) == VIP_INVALID_PARAMETER ? 0 : 1);
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);

    OK(VipQueryNic(nic, &nic_attrs));
    VipSetUserData(vi, &fake);
    assert_ptr_equal(VipGetUserData(vi), &fake);
    OK(VipCloseNic(nic));
    fake_stop(&fake);
}

static void give_ring(struct fake *fake, const struct vipl__vi *vi)
{
    int fd = memfd_create("ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    Vip__Direct direct = VIP__DIRECT__INIT;
    Vip__Event event = VIP__EVENT__INIT;

    assert_int_equal(ftruncate(fd, sizeof(struct vip_direct)), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
    direct.has_vi = direct.has_generation = direct.has_first = direct.has_half = 1;
    direct.generation = fake->generation;
    event.body_case = VIP__EVENT__BODY_DIRECT;
    event.direct = &direct;
    assert_int_equal(vip_control_send(fake->event, &event.base, &fd, 1, 0), 0);
    close(fd);
    while (vipl__direct_of(vi) == NULL)
        usleep(1000);
}

/* The VI asks for a loan, and so has a socket, and the session a file of loans. */
static void ask_for_loan(struct fake *fake, struct vipl__vi *vi)
{
    static const uint8_t peer[6] = {127, 0, 0, 9, 0x12, 0x35};

    vi->session->loans_eager = true;
    pthread_mutex_lock(&vi->session->lock);
    vipl__lent_connected(vi, peer, sizeof(peer));
    pthread_mutex_unlock(&vi->session->lock);
    while (__atomic_load_n(&fake->requests[VIP__REQUEST__BODY_LOAN], __ATOMIC_SEQ_CST) == 0) {
        vipl__lent_ask(vi);
        usleep(1000);
    }
}

#define CHILD_FDS 12

/* The child of a fork has none of the session's descriptors. With a descriptor of a segment or a
 * ring it could map memory of its parent, even after it has changed its user. The memory would also
 * stay allocated. */
static void a_child_keeps_no_descriptor(void **state)
{
    VIP_VI_ATTRIBUTES attrs = {VIP_SERVICE_UNRELIABLE, 4096, NULL, NULL, VIP_FALSE, VIP_FALSE};
    struct fake fake = {
        .generation = 1, .number = 0x10001, .wait_id = 1, .direct = true, .outlive_ms = 600000};
    VIP_NET_ADDRESS local = {0};
    int fds[CHILD_FDS], status, fd;
    struct vipl__session *session;
    VIPX_LISTENER listener;
    VIP_MEM_HANDLE handle;
    VIP_NIC_HANDLE nic;
    VIP_VI_HANDLE vi;
    char *memory;
    pid_t pid;

    (void)state;
    fake_start(&fake);
    OK(VipOpenNic("fake0", &nic));
    session = vipl__handle_session((uint64_t)(uintptr_t)nic, VIPL__KIND_NIC);
    OK(VipCreateVi(nic, &attrs, NULL, NULL, &vi));
    give_ring(&fake, session->vi[0]);
    ask_for_loan(&fake, session->vi[0]);
    OK(VipxConnectGetFd(vi, &fd));
    OK(VipxListen(nic, &local, 1, &listener));
    memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    OK(VipRegisterMem(nic, memory, 4096, NULL, &handle)); /* staged, so the memory is shared */

    pthread_mutex_lock(&session->lock);
    memcpy(fds,
           (int[CHILD_FDS]){session->control_fd, session->event_fd, session->doorbell_fd,
                            session->app_fd, session->vipd_fd, session->recv_fd, session->loans_fd,
                            session->vi[0]->asks.made->sock, session->vi[0]->direct->fd,
                            session->vi[0]->attempt_fd, session->listener[0]->fd,
                            vipl__region_find(&session->regions, handle)->mem.fd},
           sizeof(fds));
    pthread_mutex_unlock(&session->lock);
    for (int i = 0; i < CHILD_FDS; i++)
        assert_true(fcntl(fds[i], F_GETFD) >= 0);
    pid = fork();
    for (int i = 0; i < CHILD_FDS && pid == 0; i++)
        if (fcntl(fds[i], F_GETFD) >= 0)
            _exit(i + 1);
    if (pid == 0)
        _exit(0);
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0); /* a failed child returns 1 + the index in fds */
    for (int i = 0; i < CHILD_FDS; i++)
        assert_true(fcntl(fds[i], F_GETFD) >= 0);

    OK(VipDeregisterMem(nic, memory, handle));
    munmap(memory, 4096);
    OK(VipCloseNic(nic));
    for (int i = 0; i < CHILD_FDS; i++)
        assert_true(fcntl(fds[i], F_GETFD) < 0);
    fake_stop(&fake);
}

/* A vipd that sends a wrong reply, and places bytes until it detects the end of the connection. */
struct placer {
    int listener, control;
    int arena; /* descriptor of the program's arena */
    uint64_t offset, bytes;
    int event;
};

static void placer_answer(struct placer *placer, const Vip__Request *request)
{
    Vip__Reply reply = VIP__REPLY__INIT;

    placer->offset = request->register_mem->offset;
    placer->bytes = request->register_mem->bytes;
    reply.has_number = 1;
    reply.number = 0x10001;
    vip_control_send(placer->control, &reply.base, NULL, 0, 0);
}

static void *placer_run(void *arg)
{
    struct placer *placer = arg;
    struct fake fake = {.control = -1, .event = -1, .doorbell = -1};
    bool garbage = false;

    placer->control = fake.control = accept4(placer->listener, NULL, NULL, SOCK_CLOEXEC);
    for (;;) {
        struct vip_fds fds = VIP_FDS_NONE;
        ProtobufCMessage *message = NULL;
        const Vip__Request *request;

        if (vip_control_recv(placer->control, &vip__request__descriptor, 0, &message, &fds) < 0)
            break;
        request = (const Vip__Request *)message;
        if (request->body_case == VIP__REQUEST__BODY_OPEN) {
            placer->arena = fds.fd[1];
            fds.fd[1] = -1;
            fake_open(&fake, request, &fds);
        } else if (request->body_case == VIP__REQUEST__BODY_MAKE_MEMORY) {
            fake_answer(&fake, request, &fds);
        } else if (request->body_case == VIP__REQUEST__BODY_REGISTER_MEM) {
            placer_answer(placer, request);
        } else if (!garbage) {
            garbage = send(placer->control, "\xFF\xFF\xFF", 3, MSG_NOSIGNAL) == 3;
        }
        vip_fds_close(&fds);
        protobuf_c_message_free_unpacked(message, NULL);
    }
    /* The program has shut down the connection. Place the bytes now, then close the connection. */
    for (uint64_t i = 0; i < placer->bytes; i++)
        if (pwrite(placer->arena, "\xA5", 1, (off_t)(placer->offset + i)) != 1)
            break;
    close(placer->control);
    close(fake.event);
    close(fake.doorbell);
    munmap(fake.vipd, fake.vipd_bytes);
    munmap(fake.app, VIP_APP_BYTES);
    return NULL;
}

/* Bytes that vipd places during VipCloseNic are in the program's memory after VipCloseNic. */
static void closing_waits_for_a_vipd_that_still_places(void **state)
{
    struct fake fake = {0};
    struct placer placer = {.arena = -1};
    VIP_PROTECTION_HANDLE ptag;
    VIP_MEM_HANDLE handle;
    VIP_NIC_HANDLE nic;
    pthread_t thread;
    unsigned char *memory;

    (void)state;
    fake_listen(&fake);
    placer.listener = fake.listener;
    assert_int_equal(pthread_create(&thread, NULL, placer_run, &placer), 0);
    memory = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    OK(VipOpenNic("fake0", &nic));
    OK(VipRegisterMem(nic, memory, 8192, NULL, &handle));
    assert_int_equal(VipCreatePtag(nic, &ptag), VIP_ERROR_RESOURCE); /* the wrong reply */
    OK(VipCloseNic(nic));
    for (unsigned i = 0; i < 8192; i++)
        if (memory[i] != 0xA5)
            fail_msg("byte %u was placed after the pages had been given back", i);
    pthread_join(thread, NULL);
    munmap(memory, 8192);
    close(placer.arena);
    fake_unlisten(&fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_childs_exit_leaves_the_parents_objects_alone),
        cmocka_unit_test(a_child_keeps_no_descriptor),
        cmocka_unit_test(closing_waits_for_a_vipd_that_still_places),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
