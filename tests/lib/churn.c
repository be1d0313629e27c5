/*
 * A checked program for the scripts that make links and vipd fail. Until SIGTERM it repeats rounds:
 * it connects, exchanges data and disconnects. The data are messages, RDMA Writes and RDMA Reads,
 * whose contents follow from their numbers. When the connection is cut or vipd has ended, it prints
 * a line and begins a new round as soon as possible.
 *
 *   churn serve NAME SEED          accept connections, one at a time
 *   churn client NAME HOST SEED    make connections
 *
 * CHURN_NIC names the NIC (default: vip0).
 *
 * Lines on stdout: "round" after a complete connection; "cut WHERE" if a connection ended before
 * the program ended it; "refused CALL CODE REASON" if a call failed with a code that may occur;
 * "gone" when vipd has ended. Exit status 1 and "WRONG ..." mean one of these errors: bytes were
 * wrong; a descriptor was not completed exactly once, or with a status that cannot occur here; a
 * call returned a code that cannot occur here; a cut connection was not in Error state, or was not
 * reported as VIP_ERROR_CONN_LOST exactly once; or nothing happened for longer than STILL_S.
 */
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <vipl.h>
#include <vipl_ext.h>

#define WINDOW     8    /* largest number of messages under way, and of posted receives */
#define ROOM_BYTES 8192 /* size of a row: the buffer of one message or RDMA Write */
#define STILL_S    40   /* seconds without progress until exit; faults of scripts are shorter */
#define CONNECT_MS 1500

/* First bytes of every message. */
struct head {
    uint64_t nonce;   /* the same in all messages of a connection */
    uint32_t number;  /* number of this message in the connection */
    uint32_t bytes;   /* length of this message */
    uint32_t written; /* bytes that RDMA has written to row `number` before this message */
    uint32_t last;    /* true: this is the last message */
    uint64_t target;  /* address of the target for RDMA; only in the first message */
    uint32_t handle;
};

/* All registered memory of one end of a connection. */
struct area {
    VIP_DESCRIPTOR send[WINDOW], recv[WINDOW], rdma;
    unsigned char out[WINDOW][ROOM_BYTES], in[WINDOW][ROOM_BYTES];
    unsigned char source[ROOM_BYTES], target[WINDOW][ROOM_BYTES];
} __attribute__((aligned(64)));

/* One end of a connection, and its NIC handle. */
struct end {
    VIP_NIC_HANDLE nic;
    VIP_VI_HANDLE vi;
    VIP_MEM_HANDLE handle;
    struct area *area;
    unsigned kind;
    unsigned sends, sends_done, recvs, recvs_done; /* numbers of descriptors */
};

static volatile sig_atomic_t stopping;
static bool vipd_gone; /* vipd has ended; atomic, because the error callback's thread sets it */
static unsigned lost;  /* atomic; number of VIP_ERROR_CONN_LOST errors of the current VI */
static uint64_t seed;
static const char *doing = "nothing";

static uint64_t any(void)
{
    uint64_t z = seed += 0x9E3779B97F4A7C15u;

    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static void __attribute__((format(printf, 1, 2), noreturn)) wrong(const char *format, ...)
{
    va_list args;

    printf("WRONG ");
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf(" (%s)\n", VipxLastError());
    fflush(stdout);
    _exit(1);
}

static void on_signal(int number)
{
    static const char text[] = "WRONG stood still\n";

    if (number == SIGTERM) {
        stopping = 1;
        return;
    }
    (void)!write(STDOUT_FILENO, text, sizeof(text) - 1);
    (void)!write(STDOUT_FILENO, doing, strlen(doing));
    _exit(1);
}

static void on_error(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error)
{
    (void)context;
    if (error->ErrorCode == VIP_ERROR_CATASTROPHIC)
        __atomic_store_n(&vipd_gone, true, __ATOMIC_RELEASE);
    else if (error->ErrorCode == VIP_ERROR_CONN_LOST && error->ResourceCode == VIP_RESOURCE_VI)
        __atomic_add_fetch(&lost, 1, __ATOMIC_RELEASE);
    else if (error->ErrorCode != VIP_ERROR_RDMA_TRANSPORT &&
             error->ErrorCode != VIP_ERROR_RDMAW_ABORT)
        /* These two errors report RDMA that was under way when the connection was cut. */
        wrong("asynchronous error %d of resource %d", (int)error->ErrorCode,
              (int)error->ResourceCode);
}

static bool gone(void)
{
    return __atomic_load_n(&vipd_gone, __ATOMIC_ACQUIRE);
}

/* Restart the watchdog timer, and store the name of the next action. */
static void step(const char *what)
{
    doing = what;
    alarm(STILL_S);
}

/* ---- contents ---------------------------------------------------------------------------- */

static unsigned char byte_of(uint64_t nonce, uint32_t number, uint32_t at)
{
    return (unsigned char)((nonce >> (at % 7)) + number * 13 + at * 7);
}

static void fill(unsigned char *to, uint64_t nonce, uint32_t number, uint32_t from, uint32_t bytes)
{
    for (uint32_t i = from; i < bytes; i++)
        to[i] = byte_of(nonce, number, i);
}

static void check(const unsigned char *at, uint64_t nonce, uint32_t number, uint32_t from,
                  uint32_t bytes, const char *what)
{
    for (uint32_t i = from; i < bytes; i++)
        if (at[i] != byte_of(nonce, number, i))
            wrong("%s %u: byte %u of %u is damaged", what, number, i, bytes);
}

/* ---- descriptors ------------------------------------------------------------------------- */

static void describe(const struct end *end, VIP_DESCRIPTOR *desc, void *at, uint32_t bytes)
{
    memset(desc, 0, sizeof(*desc));
    desc->CS.SegCount = 1;
    desc->CS.Length = bytes;
    desc->DS[0].Local.Data.Address = at;
    desc->DS[0].Local.Handle = end->handle;
    desc->DS[0].Local.Length = bytes;
}

static bool post_recv(struct end *end)
{
    unsigned i = end->recvs % WINDOW;

    describe(end, &end->area->recv[i], end->area->in[i], ROOM_BYTES);
    if (VipPostRecv(end->vi, &end->area->recv[i], end->handle) != VIP_SUCCESS)
        return false;
    end->recvs++;
    return true;
}

/* False: the end of the connection caused an error. Any other error ends the program. */
static bool good(const VIP_DESCRIPTOR *desc)
{
    uint32_t error = desc->CS.Status & VIP_STATUS_ERROR_MASK;

    /* A message may have arrived in part when its connection ended. */
    if ((desc->CS.Status & VIP_STATUS_OP_MASK) == VIP_STATUS_OP_RECEIVE)
        error &= ~(uint32_t)VIP_STATUS_PARTIAL_ERROR;
    if (error & ~(uint32_t)(VIP_STATUS_DESC_FLUSHED_ERROR | VIP_STATUS_TRANSPORT_ERROR))
        wrong("a descriptor has status 0x%x", desc->CS.Status);
    return !(desc->CS.Status & VIP_STATUS_ERROR_MASK);
}

/* Wait until at most `left` posted sends are not completed. false: the connection was cut. */
static bool sends_below(struct end *end, unsigned left)
{
    VIP_DESCRIPTOR *desc;

    step("waiting for sends");
    while (end->sends - end->sends_done > left) {
        VIP_RETURN code = VipSendWait(end->vi, 200, &desc);

        if (code == VIP_TIMEOUT && !stopping)
            continue;
        if (!desc)
            return false;
        end->sends_done++;
        if (!good(desc))
            return false;
    }
    return true;
}

static bool post_send(struct end *end, VIP_DESCRIPTOR *desc)
{
    if (VipPostSend(end->vi, desc, end->handle) != VIP_SUCCESS)
        return false;
    end->sends++;
    return true;
}

/* Send the message with this head. Its number selects the row. false: the connection was cut. */
static bool send_message(struct end *end, struct head *head)
{
    unsigned i = head->number % WINDOW;
    unsigned char *at = end->area->out[i];

    if (!sends_below(end, WINDOW - 1))
        return false;
    fill(at, head->nonce, head->number, sizeof(*head), head->bytes);
    memcpy(at, head, sizeof(*head));
    describe(end, &end->area->send[i], at, head->bytes);
    return post_send(end, &end->area->send[i]);
}

/* Receive a message. Then the caller may call post_recv once. false: the connection was cut. */
static bool receive(struct end *end, struct head *ret)
{
    VIP_DESCRIPTOR *desc;
    VIP_RETURN code;
    const unsigned char *at;

    step("waiting for a message");
    do
        code = VipRecvWait(end->vi, 200, &desc);
    while (code == VIP_TIMEOUT && !stopping);
    if (code == VIP_TIMEOUT)
        return false;
    if (code != VIP_SUCCESS) {
        if (desc) {
            end->recvs_done++;
            (void)good(desc);
        }
        return false;
    }
    if (desc != &end->area->recv[end->recvs_done % WINDOW])
        wrong("a receive completed out of order");
    at = end->area->in[end->recvs_done++ % WINDOW];
    memcpy(ret, at, sizeof(*ret));
    if (desc->CS.Length != ret->bytes || ret->bytes > ROOM_BYTES)
        wrong("message %u has %u bytes instead of %u", ret->number, desc->CS.Length, ret->bytes);
    check(at, ret->nonce, ret->number, sizeof(*ret), ret->bytes, "message");
    return true;
}

/* Do one RDMA operation with the target's row for `number`. false: the connection was cut. */
static bool rdma(struct end *end, const struct head *hello, uint32_t number, uint16_t control,
                 uint32_t bytes)
{
    VIP_DESCRIPTOR *desc = &end->area->rdma;

    if (!sends_below(end, 0))
        return false;
    describe(end, desc, end->area->source, bytes);
    desc->DS[1] = desc->DS[0];
    desc->DS[0].Remote.Data.AddressBits = hello->target + (number % WINDOW) * (uint64_t)ROOM_BYTES;
    desc->DS[0].Remote.Handle = hello->handle;
    desc->DS[0].Remote.Reserved = 0;
    desc->CS.SegCount = 2;
    desc->CS.Control = control;
    return post_send(end, desc) && sends_below(end, 0);
}

/* ---- life of an end ---------------------------------------------------------------------- */

/* Allocate memory. kind: 0: shared memory; 1: libvipl adopts it; 2: libvipl stages it. */
static void *area_new(unsigned kind)
{
    size_t bytes = (sizeof(struct area) + 4095) & ~(size_t)4095;
    VIP_PVOID at = NULL;

    if (kind == 0)
        return VipxAllocMem(bytes, &at) == VIP_SUCCESS ? at : NULL;
    at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
              (kind == 1 ? MAP_PRIVATE : MAP_SHARED) | MAP_ANONYMOUS, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

static void area_free(struct area *area, unsigned kind)
{
    if (!area)
        return;
    if (kind == 0)
        (void)VipxFreeMem(area);
    else
        munmap(area, (sizeof(struct area) + 4095) & ~(size_t)4095);
}

/* Print that a call has failed. Its code must be one that may occur here. */
static void refused(const char *call, VIP_RETURN code)
{
    if (code != VIP_ERROR_RESOURCE && code != VIP_TIMEOUT && code != VIP_NOT_REACHABLE &&
        code != VIP_REJECT && code != VIP_INVALID_STATE && code != VIP_NO_MATCH)
        wrong("%s: %d", call, (int)code);
    printf("refused %s %d %s\n", call, (int)code, VipxLastError());
    usleep(20000);
}

static void end_close(struct end *end)
{
    step("VipCloseNic");
    if (end->nic)
        (void)VipCloseNic(end->nic);
    end->nic = NULL;
    area_free(end->area, end->kind);
    end->area = NULL;
}

/* Open a NIC handle and register memory. false: a call was refused, so try again later. */
static bool end_open(struct end *end)
{
    VIP_MEM_ATTRIBUTES attrs = {NULL, VIP_TRUE, VIP_TRUE};
    const char *nic = getenv("CHURN_NIC");
    VIP_RETURN code;

    *end = (struct end){.kind = (unsigned)(any() % 3)};
    __atomic_store_n(&vipd_gone, false, __ATOMIC_RELEASE);

    step("VipOpenNic");
    code = VipOpenNic(nic ? nic : "vip0", &end->nic);
    if (code != VIP_SUCCESS) {
        end->nic = NULL;
        refused("VipOpenNic", code);
        return false;
    }
    (void)VipErrorCallback(end->nic, NULL, on_error);
    (void)VipNSInit(end->nic, NULL);
    end->area = area_new(end->kind);
    code = VIP_ERROR_RESOURCE;
    step("VipRegisterMem");
    if (end->area)
        code = VipRegisterMem(end->nic, end->area, sizeof(*end->area), &attrs, &end->handle);
    if (code == VIP_SUCCESS)
        return true;
    refused("VipRegisterMem", code);
    end_close(end);
    return false;
}

/* Create a VI and post all its receive descriptors. */
static bool vi_new(struct end *end, VIP_RELIABILITY_LEVEL level)
{
    VIP_VI_ATTRIBUTES attrs = {level, ROOM_BYTES, 0, NULL, VIP_TRUE, VIP_TRUE};
    VIP_RETURN code;

    step("VipCreateVi");
    end->sends = end->sends_done = end->recvs = end->recvs_done = 0;
    __atomic_store_n(&lost, 0, __ATOMIC_RELEASE);
    code = VipCreateVi(end->nic, &attrs, NULL, NULL, &end->vi);
    if (code != VIP_SUCCESS) {
        end->vi = NULL;
        refused("VipCreateVi", code);
        return false;
    }
    for (unsigned i = 0; i < WINDOW; i++)
        if (!post_recv(end))
            wrong("VipPostRecv");
    return true;
}

static void reap(struct end *end)
{
    VIP_DESCRIPTOR *desc;

    while (VipSendDone(end->vi, &desc) != VIP_NOT_DONE && desc) {
        end->sends_done++;
        (void)good(desc);
    }
    while (VipRecvDone(end->vi, &desc) != VIP_NOT_DONE && desc) {
        end->recvs_done++;
        (void)good(desc);
    }
}

/* `code` may report vipd's end before the error callback does. Then wait for the callback. */
static void await_news(VIP_RETURN code)
{
    while (code == VIP_ERROR_RESOURCE && !gone())
        usleep(1000);
}

/* Disconnect. Check that every descriptor has completed exactly once. Then destroy the VI. */
static void vi_end(struct end *end)
{
    VIP_RETURN code;

    step("VipDisconnect");
    code = VipDisconnect(end->vi);
    if (code != VIP_SUCCESS && code != VIP_ERROR_RESOURCE)
        wrong("VipDisconnect: %d", (int)code);
    /* If vipd has ended, the queues are flushed only when libvipl has detected this: wait. */
    while (code != VIP_SUCCESS && !gone())
        usleep(1000);
    reap(end);
    if (end->sends != end->sends_done || end->recvs != end->recvs_done)
        wrong("%u sends posted, %u completed; %u receives posted, %u completed", end->sends,
              end->sends_done, end->recvs, end->recvs_done);
    step("VipDestroyVi");
    code = VipDestroyVi(end->vi);
    await_news(code);
    if (code != VIP_SUCCESS && !(code == VIP_ERROR_RESOURCE && gone()))
        wrong("VipDestroyVi: %d", (int)code);
    if (__atomic_load_n(&lost, __ATOMIC_ACQUIRE) > 1)
        wrong("VIP_ERROR_CONN_LOST came twice");
    end->vi = NULL;
}

/* Wait until libvipl has reported the loss of the connection. The VI must be in Error state. */
static void await_loss(const struct end *end)
{
    VIP_VI_ATTRIBUTES attrs;
    VIP_VI_STATE state = VIP_STATE_IDLE;
    VIP_BOOLEAN send_empty, recv_empty;

    step("waiting for VIP_ERROR_CONN_LOST");
    while (!__atomic_load_n(&lost, __ATOMIC_ACQUIRE) && !stopping)
        usleep(1000); /* a thread of libvipl reports the loss */
    (void)VipQueryVi(end->vi, &state, &attrs, &send_empty, &recv_empty);
    if (state != VIP_STATE_ERROR && !stopping)
        wrong("the state of a cut connection is %d", (int)state);
}

static void cut(const struct end *end, const char *where)
{
    if (stopping)
        return;
    await_loss(end);
    printf("cut %s\n", where);
}

/* ---- server ------------------------------------------------------------------------------ */

union address {
    VIP_NET_ADDRESS net;
    unsigned char room[4 + 24 + 128]; /* the longest address that a call returns */
};

static void name_end(union address *to, const char *name)
{
    to->net.DiscriminatorLen = (VIP_UINT16)strlen(name);
    memcpy(to->net.HostAddress + to->net.HostAddressLen, name, strlen(name));
}

/* Answer every message; its RDMA Write must be in place. True: the last message has arrived. */
static bool serve_messages(struct end *end)
{
    struct head hello = {.nonce = any(),
                         .bytes = sizeof(hello),
                         .target = (uintptr_t)end->area->target,
                         .handle = end->handle},
                head = {0};

    if (!send_message(end, &hello))
        return false;
    for (uint32_t number = 1; !head.last; number++) {
        if (!receive(end, &head))
            return false;
        if (head.number != number)
            wrong("message %u came instead of %u", head.number, number);
        check(end->area->target[number % WINDOW], head.nonce, ~number, 0, head.written, "write");
        if (!post_recv(end))
            return false;
        hello = (struct head){.nonce = head.nonce, .number = number, .bytes = sizeof(hello)};
        if (!send_message(end, &hello))
            return false;
    }
    /* The client sends no more messages: its VipDisconnect must end this wait. */
    if (receive(end, &head))
        wrong("message %u came after the last one", head.number);
    return true;
}

static void serve_one(struct end *end, const char *name)
{
    union address local = {{0}}, from;
    VIP_VI_ATTRIBUTES attrs;
    VIP_CONN_HANDLE request;
    VIP_RETURN code;

    name_end(&local, name);
    step("VipConnectWait");
    code = VipConnectWait(end->nic, &local.net, 200, &from.net, &attrs, &request);
    if (code == VIP_TIMEOUT)
        return;
    if (code != VIP_SUCCESS) {
        refused("VipConnectWait", code);
        return;
    }
    if (!vi_new(end, attrs.ReliabilityLevel)) {
        (void)VipConnectReject(request);
        return;
    }
    step("VipConnectAccept");
    code = VipConnectAccept(request, end->vi);
    if (code != VIP_SUCCESS) {
        refused("VipConnectAccept", code);
        if (!gone())
            (void)VipConnectReject(request);
    } else if (serve_messages(end)) {
        await_loss(end);
        printf("round\n");
    } else {
        cut(end, "serving");
    }
    vi_end(end);
}

/* ---- client ------------------------------------------------------------------------------ */

/* Send one message, sometimes after an RDMA Write. `reads`: an RDMA Read then checks the written
 * bytes. false: the connection was cut. */
static bool client_message(struct end *end, const struct head *hello, bool reads, struct head *head)
{
    uint32_t bytes = (uint32_t)(sizeof(*head) + any() % (ROOM_BYTES - sizeof(*head)));

    head->number++;
    head->bytes = bytes;
    head->written = 0;
    if (any() % 4 == 0) {
        head->written = (uint32_t)(1 + any() % ROOM_BYTES);
        fill(end->area->source, head->nonce, ~head->number, 0, head->written);
        if (!rdma(end, hello, head->number, VIP_CONTROL_OP_RDMAWRITE, head->written))
            return false;
    }
    if (head->written && reads) {
        memset(end->area->source, 0, ROOM_BYTES);
        if (!rdma(end, hello, head->number, VIP_CONTROL_OP_RDMAREAD, head->written))
            return false;
        check(end->area->source, head->nonce, ~head->number, 0, head->written, "read");
    }
    return send_message(end, head);
}

static bool take_answer(struct end *end, uint32_t number)
{
    struct head head;

    if (!receive(end, &head))
        return false;
    if (head.number != number)
        wrong("answer %u came instead of %u", head.number, number);
    return post_recv(end);
}

static bool client_messages(struct end *end, bool reads)
{
    struct head hello, head = {.nonce = any()};
    uint32_t count = (uint32_t)(1 + any() % 40), answered = 0;

    if (!receive(end, &hello) || !post_recv(end))
        return false;
    while (head.number < count) {
        /* A row is free again when the server has answered the previous message in this row. */
        while (head.number - answered >= WINDOW - 1)
            if (!take_answer(end, ++answered))
                return false;
        head.last = head.number + 1 == count;
        if (!client_message(end, &hello, reads, &head))
            return false;
    }
    while (answered < count)
        if (!take_answer(end, ++answered))
            return false;
    return true;
}

static void client_one(struct end *end, const char *name, const char *host)
{
    bool reception = any() % 2;
    union address local = {{0}}, remote = {{0}};
    VIP_VI_ATTRIBUTES attrs;
    VIP_RETURN code;

    step("VipNSGetHostByName");
    code = VipNSGetHostByName(end->nic, (VIP_CHAR *)host, &remote.net, 0);
    await_news(code);
    if (code != VIP_SUCCESS) {
        if (!gone())
            wrong("VipNSGetHostByName: %d", (int)code);
        return;
    }
    name_end(&local, name);
    name_end(&remote, name);
    if (!vi_new(end, reception ? VIP_SERVICE_RELIABLE_RECEPTION : VIP_SERVICE_RELIABLE_DELIVERY))
        return;
    do {
        step("VipConnectRequest");
        code = VipConnectRequest(end->vi, &local.net, &remote.net, CONNECT_MS, &attrs);
        if (code == VIP_NO_MATCH)
            usleep(1000); /* perhaps the server is starting, or between two VipConnectWaits */
    } while (code == VIP_NO_MATCH && !stopping);
    if (code != VIP_SUCCESS) {
        if (code != VIP_NO_MATCH)
            refused("VipConnectRequest", code);
    } else if (client_messages(end, reception)) {
        printf("round\n");
    } else {
        cut(end, "asking");
    }
    vi_end(end);
}

int main(int argc, char **argv)
{
    struct sigaction action = {.sa_handler = on_signal};
    bool serves = argc == 4 && strcmp(argv[1], "serve") == 0;
    struct end end = {0};

    if (!serves && (argc != 5 || strcmp(argv[1], "client") != 0)) {
        fprintf(stderr, "usage: churn serve NAME SEED | churn client NAME HOST SEED\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGALRM, &action, NULL);
    seed = strtoull(argv[argc - 1], NULL, 0);
    while (!stopping) {
        if (!end.nic && !end_open(&end))
            continue;
        if (serves)
            serve_one(&end, argv[2]);
        else
            client_one(&end, argv[2], argv[3]);
        if (gone())
            printf("gone\n");
        if (gone() || any() % 16 == 0)
            end_close(&end);
    }
    end_close(&end);
    printf("done\n");
    return 0;
}
