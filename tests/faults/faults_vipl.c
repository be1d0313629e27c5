/*
 * A program opens a NIC, creates VIs and CQs, registers memory, connects and accepts. Each
 * allocation and each system call of libvipl in the calling thread fails once. The VIPL call must
 * then succeed, or return a code and leave a reason in VipxLastError. VipCloseNic must close all
 * descriptors, and a NIC opened again must work. tests/lib/two_vipd.sh runs this program.
 */
#include "faults/faults.h"

#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libvipl/vipl.h"
#include "libvipl/vipl_ext.h"

#define MEMORY_BYTES 65536u

static const char *hit;  /* name of the function that has failed */
static const char *last; /* name of the function that has failed in the latest VIPL call */

/* A failed VIPL call must have a reason. For a lack of resources its code is ERROR_RESOURCE. */
static void right_code(const char *call, VIP_RETURN rc)
{
    if (rc == VIP_SUCCESS)
        return;
    if (fault_of_resources() && rc != VIP_ERROR_RESOURCE)
        fprintf(stderr, "%s: code %d when %s failed: %s\n", call, (int)rc, last, VipxLastError());
    FAULT_CHECK(!fault_of_resources() || rc == VIP_ERROR_RESOURCE);
    FAULT_CHECK(strlen(VipxLastError()) > 5);
}

/* In this VIPL call the n-th allocation or system call fails. n = 0: the VIPL call must succeed. */
#define CALL_WITH(n, call)                                                                         \
    ({                                                                                             \
        VIP_RETURN call_rc;                                                                        \
        fault_arm(n);                                                                              \
        call_rc = (call);                                                                          \
        last = fault_disarm();                                                                     \
        if (last)                                                                                  \
            hit = last;                                                                            \
        if (call_rc != VIP_SUCCESS && !last)                                                       \
            fprintf(stderr, "%s: %d: %s\n", #call, (int)call_rc, VipxLastError());                 \
        FAULT_CHECK(call_rc == VIP_SUCCESS || last);                                               \
        right_code(#call, call_rc);                                                                \
        call_rc;                                                                                   \
    })
#define MUST(call) FAULT_CHECK(CALL_WITH(0, call) == VIP_SUCCESS)

enum what {
    WHAT_OPEN,
    WHAT_VI,
    WHAT_CQ,
    WHAT_PTAG,
    WHAT_REGISTER,
    WHAT_STAGED,
    WHAT_ALLOC,
    WHAT_FORK,
    WHAT_CQ_FD,
    WHAT_LISTEN,
    WHAT_CONNECT,
    WHAT_ACCEPT
};

/* ---- calls of programs ----------------------------------------------------------------------- */

static VIP_VI_ATTRIBUTES vi_attributes(void)
{
    return (VIP_VI_ATTRIBUTES){.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY,
                               .MaxTransferSize = 4096};
}

static VIP_VI_HANDLE create_vi(VIP_NIC_HANDLE nic, unsigned n)
{
    VIP_VI_ATTRIBUTES attributes = vi_attributes();
    VIP_VI_HANDLE vi = NULL;

    return CALL_WITH(n, VipCreateVi(nic, &attributes, NULL, NULL, &vi)) == VIP_SUCCESS ? vi : NULL;
}

static void use_cq(VIP_NIC_HANDLE nic, unsigned n)
{
    VIP_CQ_HANDLE cq = NULL;

    if (CALL_WITH(n, VipCreateCQ(nic, 64, &cq)) == VIP_SUCCESS)
        MUST(VipDestroyCQ(cq));
}

static void use_ptag(VIP_NIC_HANDLE nic, unsigned n)
{
    VIP_PROTECTION_HANDLE ptag = NULL;

    if (CALL_WITH(n, VipCreatePtag(nic, &ptag)) == VIP_SUCCESS)
        MUST(VipDestroyPtag(nic, ptag));
}

/* Register and deregister memory of malloc. Even a failed call must not change its content. */
static void use_memory(VIP_NIC_HANDLE nic, unsigned n)
{
    VIP_MEM_ATTRIBUTES attributes = {.EnableRdmaWrite = VIP_TRUE};
    char *memory = malloc(MEMORY_BYTES);
    VIP_MEM_HANDLE handle = 0;
    VIP_RETURN rc;

    FAULT_CHECK(memory);
    for (unsigned i = 0; i < MEMORY_BYTES; i++)
        memory[i] = (char)(i * 7 + i / 4096);
    rc = CALL_WITH(n, VipRegisterMem(nic, memory, MEMORY_BYTES, &attributes, &handle));
    for (unsigned i = 0; i < MEMORY_BYTES; i++)
        FAULT_CHECK(memory[i] == (char)(i * 7 + i / 4096));
    if (rc == VIP_SUCCESS)
        MUST(VipDeregisterMem(nic, memory, handle));
    for (unsigned i = 0; i < MEMORY_BYTES; i++)
        FAULT_CHECK(memory[i] == (char)(i * 7 + i / 4096));
    free(memory);
}

/* Register memory of a file: libvipl cannot adopt its pages, so it stages the memory. */
static void use_staged(VIP_NIC_HANDLE nic, unsigned n)
{
    VIP_MEM_ATTRIBUTES attributes = {.EnableRdmaWrite = VIP_TRUE};
    int fd = memfd_create("faults", MFD_CLOEXEC);
    VIP_MEM_HANDLE handle = 0;
    void *memory;

    FAULT_CHECK(fd >= 0 && ftruncate(fd, MEMORY_BYTES) == 0);
    memory = mmap(NULL, MEMORY_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    FAULT_CHECK(memory != MAP_FAILED);
    close(fd);
    if (CALL_WITH(n, VipRegisterMem(nic, memory, MEMORY_BYTES, &attributes, &handle)) ==
        VIP_SUCCESS)
        MUST(VipDeregisterMem(nic, memory, handle));
    munmap(memory, MEMORY_BYTES);
}

/* Exit codes of the child of use_fork, without and with a failed call. */
#define CHILD_UNHIT 20
#define CHILD_HIT   21

/* The child checks the memory and writes to it. If the memory is read-only, only the child dies. */
static void child(char *memory, char *alloc)
{
    const char *what = fault_disarm();

    for (unsigned i = 0; i < MEMORY_BYTES; i++)
        FAULT_CHECK(memory[i] == 1 && alloc[i] == 2);
    memset(memory, 3, MEMORY_BYTES);
    memset(alloc, 4, MEMORY_BYTES);
    _exit(what ? CHILD_HIT : CHILD_UNHIT);
}

/* A child must not change registered memory of its parent, even if a call during fork() fails. */
static void use_fork(VIP_NIC_HANDLE nic, unsigned n)
{
    VIP_MEM_ATTRIBUTES attributes = {.EnableRdmaWrite = VIP_TRUE};
    char *memory =
        mmap(NULL, MEMORY_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    VIP_MEM_HANDLE handle = 0;
    VIP_PVOID alloc = NULL;
    int status = 0;
    pid_t pid;

    FAULT_CHECK(memory != MAP_FAILED);
    memset(memory, 1, MEMORY_BYTES);
    MUST(VipRegisterMem(nic, memory, MEMORY_BYTES, &attributes, &handle));
    MUST(VipxAllocMem(MEMORY_BYTES, &alloc));
    memset(alloc, 2, MEMORY_BYTES);
    fflush(NULL);
    fault_arm(n);
    pid = fork();
    if (pid == 0)
        child(memory, alloc);
    last = fault_disarm();
    FAULT_CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
    if (!last && !(WIFEXITED(status) && WEXITSTATUS(status) == CHILD_UNHIT))
        last = "a call of the child";
    FAULT_CHECK(WIFEXITED(status)
                    ? WEXITSTATUS(status) == CHILD_UNHIT || WEXITSTATUS(status) == CHILD_HIT
                    : WTERMSIG(status) == SIGSEGV);
    FAULT_CHECK(n || !last);
    for (unsigned i = 0; i < MEMORY_BYTES; i++)
        FAULT_CHECK(memory[i] == 1 && ((char *)alloc)[i] == 2);
    if (last)
        hit = last;
    MUST(VipDeregisterMem(nic, memory, handle));
    MUST(VipxFreeMem(alloc));
    munmap(memory, MEMORY_BYTES);
}

static void use_cq_fd(VIP_NIC_HANDLE nic, unsigned n)
{
    VIP_CQ_HANDLE cq = NULL;
    int fd = -1;

    MUST(VipCreateCQ(nic, 64, &cq));
    if (CALL_WITH(n, VipxCQGetFd(cq, &fd)) == VIP_SUCCESS)
        FAULT_CHECK(fd >= 0);
    (void)VipDestroyCQ(cq); /* fails if libvipl has given up its connection to vipd */
}

/* ---- connecting ------------------------------------------------------------------------------ */

union address {
    VIP_NET_ADDRESS net;
    unsigned char bytes[4 + 24 + 128]; /* the longest address that a call returns */
};

static void fill_address(union address *ret, const VIP_NIC_ATTRIBUTES *nic)
{
    memset(ret, 0, sizeof(*ret));
    ret->net.HostAddressLen = nic->NicAddressLen;
    ret->net.DiscriminatorLen = 4;
    memcpy(ret->net.HostAddress, nic->LocalNicAddress, nic->NicAddressLen);
    memcpy(ret->net.HostAddress + nic->NicAddressLen, "flt1", 4);
}

static void use_listener(VIP_NIC_HANDLE nic, unsigned n)
{
    VIPX_LISTENER listener = NULL;
    VIP_NIC_ATTRIBUTES attributes;
    union address address;
    int fd = -1;

    MUST(VipQueryNic(nic, &attributes));
    fill_address(&address, &attributes);
    if (CALL_WITH(n, VipxListen(nic, &address.net, 4, &listener)) != VIP_SUCCESS)
        return;
    MUST(VipxListenGetFd(listener, &fd));
    MUST(VipxListenClose(listener));
}

struct server {
    VIP_NIC_HANDLE nic;
    VIP_VI_HANDLE vi;
    union address address;
    unsigned n; /* the n-th call in VipConnectAccept fails */
    VIP_ULONG wait_ms;
    VIP_RETURN rc;
    const char *hit;
};

static void *serve(void *arg)
{
    struct server *server = arg;
    VIP_VI_ATTRIBUTES remote_attributes;
    VIP_CONN_HANDLE conn = NULL;
    union address remote;

    memset(&remote, 0, sizeof(remote));
    server->rc = VipConnectWait(server->nic, &server->address.net, server->wait_ms, &remote.net,
                                &remote_attributes, &conn);
    if (server->rc != VIP_SUCCESS)
        return NULL;
    fault_arm(server->n);
    server->rc = VipConnectAccept(conn, server->vi);
    server->hit = fault_disarm();
    right_code("VipConnectAccept", server->rc);
    return NULL;
}

/* Connect two VIs of the NIC. If no call fails, both sides must succeed. */
static void use_connection(VIP_NIC_HANDLE nic, unsigned request_n, unsigned accept_n)
{
    const char *failed = NULL;
    VIP_VI_HANDLE client = create_vi(nic, 0);
    struct server server = {.nic = nic, .vi = create_vi(nic, 0), .n = accept_n};
    VIP_VI_ATTRIBUTES remote_attributes;
    VIP_NIC_ATTRIBUTES attributes;
    pthread_t thread;
    VIP_RETURN rc;

    MUST(VipQueryNic(nic, &attributes));
    fill_address(&server.address, &attributes);
    server.wait_ms = request_n ? 3000 : 10000;
    FAULT_CHECK(pthread_create(&thread, NULL, serve, &server) == 0);
    do {
        fault_arm(request_n);
        rc = VipConnectRequest(client, &server.address.net, &server.address.net, 3000,
                               &remote_attributes);
        failed = fault_disarm();
    } while (rc == VIP_NO_MATCH && !failed); /* perhaps the server's thread does not wait yet */
    right_code("VipConnectRequest", rc);
    FAULT_CHECK(pthread_join(thread, NULL) == 0);
    if (server.hit)
        failed = server.hit;
    if (failed) {
        hit = failed;
        return;
    }
    FAULT_CHECK(rc == VIP_SUCCESS && server.rc == VIP_SUCCESS);
    MUST(VipDisconnect(client));
    MUST(VipDisconnect(server.vi));
    MUST(VipDestroyVi(client));
    MUST(VipDestroyVi(server.vi));
}

/* ---- attempts -------------------------------------------------------------------------------- */

static void work(VIP_NIC_HANDLE nic, enum what what, unsigned n)
{
    VIP_VI_HANDLE vi;
    VIP_PVOID memory = NULL;

    switch (what) {
    case WHAT_OPEN:
        MUST(VipDestroyVi(create_vi(nic, 0)));
        break;
    case WHAT_VI:
        vi = create_vi(nic, n);
        if (vi)
            MUST(VipDestroyVi(vi));
        break;
    case WHAT_CQ:
        use_cq(nic, n);
        break;
    case WHAT_PTAG:
        use_ptag(nic, n);
        break;
    case WHAT_REGISTER:
        use_memory(nic, n);
        break;
    case WHAT_STAGED:
        use_staged(nic, n);
        break;
    case WHAT_FORK:
        use_fork(nic, n);
        break;
    case WHAT_CQ_FD:
        use_cq_fd(nic, n);
        break;
    case WHAT_LISTEN:
        use_listener(nic, n);
        break;
    case WHAT_ALLOC:
        if (CALL_WITH(n, VipxAllocMem(MEMORY_BYTES, &memory)) == VIP_SUCCESS)
            MUST(VipxFreeMem(memory));
        break;
    case WHAT_CONNECT:
        use_connection(nic, n, 0);
        break;
    case WHAT_ACCEPT:
        use_connection(nic, 0, n);
        break;
    }
}

static VIP_NIC_HANDLE open_nic(void)
{
    VIP_NIC_HANDLE nic = NULL;

    MUST(VipOpenNic("vip0", &nic));
    return nic;
}

/* The first run has no failures: libvipl then makes the memory and files that it never frees. */
static const char *attempt(enum what what, unsigned n)
{
    VIP_NIC_HANDLE nic = open_nic();
    unsigned fds;

    work(nic, what, 0);
    MUST(VipCloseNic(nic));
    fds = fault_fds();
    nic = NULL;
    if (what == WHAT_OPEN) {
        if (CALL_WITH(n, VipOpenNic("vip0", &nic)) != VIP_SUCCESS)
            nic = open_nic();
        work(nic, what, 0);
    } else {
        nic = open_nic();
        work(nic, what, n);
    }
    VipCloseNic(nic); /* fails if libvipl has given up its connection to vipd */
    FAULT_CHECK(fault_fds() == fds);
    nic = open_nic();
    work(nic, what, 0);
    MUST(VipCloseNic(nic));
    FAULT_CHECK(fault_fds() == fds);
    return hit;
}

#define CASE(name, what)                                                                           \
    static const char *name(unsigned n)                                                            \
    {                                                                                              \
        return attempt(what, n);                                                                   \
    }

CASE(attempt_open, WHAT_OPEN)
CASE(attempt_vi, WHAT_VI)
CASE(attempt_cq, WHAT_CQ)
CASE(attempt_ptag, WHAT_PTAG)
CASE(attempt_register, WHAT_REGISTER)
CASE(attempt_staged, WHAT_STAGED)
CASE(attempt_alloc, WHAT_ALLOC)
CASE(attempt_fork, WHAT_FORK)
CASE(attempt_cq_fd, WHAT_CQ_FD)
CASE(attempt_listen, WHAT_LISTEN)
CASE(attempt_connect, WHAT_CONNECT)
CASE(attempt_accept, WHAT_ACCEPT)

int main(int argc, char **argv)
{
    static const struct fault_case cases[] = {
        {"open", attempt_open},
        {"create_vi", attempt_vi},
        {"create_cq", attempt_cq},
        {"create_ptag", attempt_ptag},
        {"register", attempt_register},
        {"alloc", attempt_alloc},
        {"connect", attempt_connect},
        {"accept", attempt_accept},
        {"register_staged", attempt_staged},
        {"fork", attempt_fork},
        {"cq_fd", attempt_cq_fd},
        {"listen", attempt_listen},
    };

    return fault_run(cases, sizeof(cases) / sizeof(cases[0]), argc > 1 ? argv[1] : NULL);
}
