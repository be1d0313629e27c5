/*
 * A server with two threads, as in message layers and file systems. One thread accepts requests in
 * a loop of VipConnectWait(VIP_INFINITE). The other thread answers messages in a loop of
 * VipCQWait(VIP_INFINITE), and keeps the VIs of ended connections for later connections. 64 clients
 * (threads of four processes) connect, exchange messages, disconnect and connect again until the
 * time is over. Any code, status or error that the specification does not require is a failure.
 *
 * Run by two_vipd.sh: the clients are on A, the server on B.
 * usage: soak_server SECONDS [MESSAGES PER CONNECTION]
 */
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <vipl.h>
#include <vipl_ext.h>

#define PROCESSES   4
#define THREADS     16    /* clients of one process */
#define WINDOW      8     /* limit per connection for messages under way; also for answers */
#define ROOM_BYTES  2048  /* bytes of one message */
#define CONNS_MAX   512   /* most VIs of the server */
#define LIMIT_MS    60000 /* longest wait for any expected event */
#define ADDR_BYTES  160   /* VIPL returns addresses of at most 156 bytes */
#define STOP_CLIENT 0xFFFFFFFFu

/* Descriptors and buffers of one end of a connection. */
struct room {
    VIP_DESCRIPTOR recv[WINDOW], send[WINDOW];
    unsigned char in[WINDOW][ROOM_BYTES], out[WINDOW][ROOM_BYTES];
} __attribute__((aligned(64)));

union address {
    VIP_NET_ADDRESS net;
    unsigned char bytes[ADDR_BYTES];
};

/* Counts of one client process, or of the server. */
struct counts {
    unsigned long connections, messages, no_match;
    unsigned long late_no_match; /* results VIP_NO_MATCH after the first connection */
};

static double seconds;
static unsigned messages = 1000;

static void __attribute__((format(printf, 1, 2), noreturn)) fail(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fprintf(stderr, "process %ld: ", (long)getpid());
    vfprintf(stderr, format, args);
    fprintf(stderr, " (%s)\n", VipxLastError());
    va_end(args);
    _exit(1);
}

#define MUST(expected, call)                                                                       \
    do {                                                                                           \
        VIP_RETURN must_got = (call);                                                              \
        if (must_got != (expected))                                                                \
            fail("%s: %d, not %s", #call, (int)must_got, #expected);                               \
    } while (0)
#define OK(call) MUST(VIP_SUCCESS, call)

static double now_seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* ---- messages: client, number and direction define a message's length and bytes -------------- */

static unsigned message_bytes(unsigned client, unsigned number)
{
    return 12 + (client * 31 + number * 97) % (ROOM_BYTES - 12);
}

static void message_fill(unsigned char *text, unsigned client, unsigned number, unsigned direction)
{
    uint32_t head[3] = {client, number, direction};

    memset(text, (int)(client + number + direction), message_bytes(client, number));
    memcpy(text, head, sizeof(head));
}

static void message_check(const unsigned char *text, unsigned bytes, unsigned client,
                          unsigned number, unsigned direction)
{
    unsigned char good[ROOM_BYTES];

    message_fill(good, client, number, direction);
    if (bytes != message_bytes(client, number) || memcmp(text, good, bytes) != 0)
        fail("message %u of client %u, direction %u is damaged", number, client, direction);
}

static void describe(VIP_DESCRIPTOR *desc, void *text, unsigned bytes, VIP_MEM_HANDLE handle)
{
    memset(desc, 0, sizeof(*desc));
    desc->CS.SegCount = 1;
    desc->CS.Length = bytes;
    desc->DS[0].Local.Data.Address = text;
    desc->DS[0].Local.Handle = handle;
    desc->DS[0].Local.Length = bytes;
}

static VIP_RELIABILITY_LEVEL level_of(unsigned client)
{
    return client % 2 ? VIP_SERVICE_RELIABLE_RECEPTION : VIP_SERVICE_RELIABLE_DELIVERY;
}

static void put_discriminator(union address *address, uint32_t value)
{
    address->net.DiscriminatorLen = sizeof(value);
    memcpy(address->net.HostAddress + address->net.HostAddressLen, &value, sizeof(value));
}

/* The service's discriminator: the same in all processes, a new one for every run. */
static uint32_t service;

/* ---- server ---------------------------------------------------------------------------------- */

struct conn {
    VIP_VI_HANDLE vi;
    VIP_MEM_HANDLE handle;
    struct room *room;
    struct conn *next; /* next entry in the list free_conns */
    VIP_RELIABILITY_LEVEL level;
    unsigned client;
    unsigned received, answered; /* messages of the present connection */
    unsigned recvs_posted;
    unsigned sends_posted; /* the oldest is send[(answered - sends_posted) % WINDOW] */
};

static VIP_NIC_HANDLE server_nic;
static VIP_CQ_HANDLE server_cq;
static struct conn conns[CONNS_MAX];
static unsigned conn_count;
static struct conn *free_conns; /* free_lock protects it */
static pthread_mutex_t free_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned long accepted;   /* atomic: accepted connections, without that of STOP_CLIENT */
static unsigned long conns_lost; /* atomic: errors VIP_ERROR_CONN_LOST at the server */
static struct counts served;
static double longest_away;   /* seconds between two calls of VipConnectWait */
static double longest_accept; /* seconds in one call of VipConnectAccept */

/* The clients disconnect. The server gets VIP_ERROR_CONN_LOST for each connection that ends. */
static void server_error(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error)
{
    (void)context;
    if (error->ErrorCode != VIP_ERROR_CONN_LOST || error->ResourceCode != VIP_RESOURCE_VI)
        fail("asynchronous error %d of resource %d at the server", (int)error->ErrorCode,
             (int)error->ResourceCode);
    __atomic_add_fetch(&conns_lost, 1, __ATOMIC_RELAXED);
}

/* Returns a VI that is Idle with empty queues. If no VI is free, makes a VI and enlarges the CQ,
 * while the other thread waits on the CQ. */
static struct conn *conn_get(VIP_RELIABILITY_LEVEL level)
{
    VIP_VI_ATTRIBUTES attrs = {level, ROOM_BYTES, 0, NULL, VIP_FALSE, VIP_FALSE};
    struct conn *conn;

    pthread_mutex_lock(&free_lock);
    conn = free_conns;
    if (conn)
        free_conns = conn->next;
    pthread_mutex_unlock(&free_lock);
    if (conn) {
        if (conn->level != level)
            OK(VipSetViAttributes(conn->vi, &attrs));
    } else {
        if (conn_count == CONNS_MAX)
            fail("%d connections were not enough", CONNS_MAX);
        conn = &conns[conn_count++];
        if (posix_memalign((void **)&conn->room, 4096, sizeof(*conn->room)))
            fail("no memory");
        OK(VipRegisterMem(server_nic, conn->room, sizeof(*conn->room), NULL, &conn->handle));
        OK(VipResizeCQ(server_cq, 32 + conn_count * 2 * WINDOW));
        OK(VipCreateVi(server_nic, &attrs, server_cq, server_cq, &conn->vi));
        VipSetUserData(conn->vi, conn);
    }
    conn->level = level;
    conn->received = conn->answered = conn->sends_posted = conn->recvs_posted = 0;
    return conn;
}

static void *accept_thread(void *arg)
{
    union address local = {{0}}, from;
    VIP_VI_ATTRIBUTES attrs;
    VIP_CONN_HANDLE request;
    struct conn *conn;
    uint32_t client = 0;
    double began, accepting, ended;

    (void)arg;
    put_discriminator(&local, service);
    while (client != STOP_CLIENT) {
        OK(VipConnectWait(server_nic, &local.net, VIP_INFINITE, &from.net, &attrs, &request));
        began = now_seconds();
        if (from.net.DiscriminatorLen != sizeof(client))
            fail("a client has a discriminator of %u bytes", from.net.DiscriminatorLen);
        memcpy(&client, from.net.HostAddress + from.net.HostAddressLen, sizeof(client));
        conn = conn_get(attrs.ReliabilityLevel);
        conn->client = client;
        if (client != STOP_CLIENT)
            __atomic_add_fetch(&accepted, 1, __ATOMIC_RELAXED);
        for (unsigned i = 0; i < WINDOW; i++) {
            describe(&conn->room->recv[i], conn->room->in[i], ROOM_BYTES, conn->handle);
            conn->recvs_posted++;
            OK(VipPostRecv(conn->vi, &conn->room->recv[i], conn->handle));
        }
        accepting = now_seconds();
        OK(VipConnectAccept(request, conn->vi));
        ended = now_seconds();
        longest_accept = ended - accepting > longest_accept ? ended - accepting : longest_accept;
        longest_away = ended - began > longest_away ? ended - began : longest_away;
    }
    return NULL;
}

/* Answer received messages, as long as send descriptors are free. */
static void conn_answer(struct conn *conn)
{
    unsigned i;

    while (conn->answered < conn->received && conn->sends_posted < WINDOW) {
        i = conn->answered % WINDOW;
        message_fill(conn->room->out[i], conn->client, conn->answered, 1);
        describe(&conn->room->send[i], conn->room->out[i],
                 message_bytes(conn->client, conn->answered), conn->handle);
        conn->answered++;
        conn->sends_posted++;
        OK(VipPostSend(conn->vi, &conn->room->send[i], conn->handle));
    }
}

/* The CQ has an entry for a receive descriptor. Returns true if the message stops the server. */
static bool conn_received(struct conn *conn)
{
    VIP_DESCRIPTOR *desc, *oldest = &conn->room->recv[conn->received % WINDOW];
    VIP_RETURN rc = VipRecvDone(conn->vi, &desc);

    conn->recvs_posted--;
    if (rc == VIP_DESCRIPTOR_ERROR && desc &&
        (desc->CS.Status & VIP_STATUS_ERROR_MASK) == VIP_STATUS_DESC_FLUSHED_ERROR)
        return false;
    if (rc != VIP_SUCCESS || desc != oldest)
        fail("VipRecvDone at the server: %d, status 0x%x", (int)rc, desc ? desc->CS.Status : 0);
    if (conn->client == STOP_CLIENT)
        return true;
    message_check(conn->room->in[conn->received % WINDOW], desc->CS.Length, conn->client,
                  conn->received, 0);
    conn->received++;
    conn->recvs_posted++;
    describe(desc, desc->DS[0].Local.Data.Address, ROOM_BYTES, conn->handle);
    OK(VipPostRecv(conn->vi, desc, conn->handle));
    conn_answer(conn);
    return false;
}

/* The CQ has an entry for an answer. Its descriptor may be flushed although the client has it. */
static void conn_sent(struct conn *conn)
{
    VIP_DESCRIPTOR *desc, *oldest;
    VIP_RETURN rc = VipSendDone(conn->vi, &desc);

    oldest = &conn->room->send[(conn->answered - conn->sends_posted) % WINDOW];
    conn->sends_posted--;
    if (rc == VIP_DESCRIPTOR_ERROR && desc == oldest &&
        (desc->CS.Status & VIP_STATUS_ERROR_MASK) == VIP_STATUS_DESC_FLUSHED_ERROR)
        return;
    if (rc != VIP_SUCCESS || desc != oldest)
        fail("VipSendDone at the server: %d, status 0x%x", (int)rc, desc ? desc->CS.Status : 0);
    conn_answer(conn);
}

/* The client has disconnected, and all descriptors are flushed: put the VI into the free list. */
static void conn_ended(struct conn *conn)
{
    VIP_VI_ATTRIBUTES attrs;
    VIP_BOOLEAN send_empty, recv_empty;
    VIP_VI_STATE state;

    OK(VipQueryVi(conn->vi, &state, &attrs, &send_empty, &recv_empty));
    if (state != VIP_STATE_ERROR || conn->received != messages || conn->answered != messages)
        fail("client %u ended in state %d after %u messages, %u answers", conn->client, (int)state,
             conn->received, conn->answered);
    OK(VipDisconnect(conn->vi));
    served.connections++;
    served.messages += conn->received;
    pthread_mutex_lock(&free_lock);
    conn->next = free_conns;
    free_conns = conn;
    pthread_mutex_unlock(&free_lock);
}

static void *work_thread(void *arg)
{
    VIP_VI_HANDLE vi;
    VIP_BOOLEAN recv;
    struct conn *conn;
    bool stop = false;

    (void)arg;
    while (!stop || served.connections < __atomic_load_n(&accepted, __ATOMIC_RELAXED)) {
        OK(VipCQWait(server_cq, VIP_INFINITE, &vi, &recv));
        conn = VipGetUserData(vi);
        if (!recv)
            conn_sent(conn);
        else if (conn_received(conn))
            stop = true;
        if (conn->recvs_posted == 0 && conn->sends_posted == 0)
            conn_ended(conn);
    }
    return NULL;
}
/* ---- clients --------------------------------------------------------------------------------- */

struct client {
    pthread_t thread;
    VIP_NIC_HANDLE nic;
    VIP_VI_HANDLE vi;
    VIP_MEM_HANDLE handle;
    struct room *room;
    uint32_t number;
    double until;
    struct counts counts;
};

static void client_error(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error)
{
    (void)context;
    fail("asynchronous error %d of resource %d at a client", (int)error->ErrorCode,
         (int)error->ResourceCode);
}

static void client_connect(struct client *client)
{
    union address local = {{0}}, remote = {{0}};
    struct timespec pause = {.tv_nsec = 10000000};
    VIP_VI_ATTRIBUTES attrs;
    VIP_RETURN rc;

    OK(VipNSGetHostByName(client->nic, getenv("VIP_ADDRESS_B"), &remote.net, 0));
    put_discriminator(&remote, service);
    put_discriminator(&local, client->number);
    for (;;) {
        rc = VipConnectRequest(client->vi, &local.net, &remote.net, LIMIT_MS, &attrs);
        if (rc != VIP_NO_MATCH)
            break;
        /* VIP_NO_MATCH is correct only before the server begins to wait. Later the server waits
         * repeatedly, so vipd keeps requests (see main). */
        if (client->counts.connections)
            client->counts.late_no_match++;
        else
            client->counts.no_match++;
        nanosleep(&pause, NULL);
    }
    if (rc != VIP_SUCCESS)
        fail("VipConnectRequest of client %u: %d", client->number, (int)rc);
}

static void client_send(struct client *client, unsigned number)
{
    unsigned i = number % WINDOW;

    message_fill(client->room->out[i], client->number, number, 0);
    describe(&client->room->send[i], client->room->out[i], message_bytes(client->number, number),
             client->handle);
    OK(VipPostSend(client->vi, &client->room->send[i], client->handle));
}

static void client_post_recv(struct client *client, unsigned i)
{
    describe(&client->room->recv[i], client->room->in[i], ROOM_BYTES, client->handle);
    OK(VipPostRecv(client->vi, &client->room->recv[i], client->handle));
}

/* Serve one connection: send `messages` messages, at most WINDOW of them under way. */
static void client_serve(struct client *client)
{
    VIP_DESCRIPTOR *desc;
    unsigned i;

    for (i = 0; i < WINDOW; i++)
        client_post_recv(client, i);
    client_connect(client);
    for (i = 0; i < WINDOW && i < messages; i++)
        client_send(client, i);
    for (i = 0; i < messages; i++) {
        OK(VipRecvWait(client->vi, LIMIT_MS, &desc));
        if (desc != &client->room->recv[i % WINDOW])
            fail("receives are out of order");
        message_check(client->room->in[i % WINDOW], desc->CS.Length, client->number, i, 1);
        client_post_recv(client, i % WINDOW);
        OK(VipSendWait(client->vi, LIMIT_MS, &desc));
        if (desc != &client->room->send[i % WINDOW])
            fail("sends are out of order");
        if (i + WINDOW < messages)
            client_send(client, i + WINDOW);
    }
    OK(VipDisconnect(client->vi));
    for (i = 0; i < WINDOW; i++) {
        MUST(VIP_DESCRIPTOR_ERROR, VipRecvDone(client->vi, &desc));
        if (!desc || (desc->CS.Status & VIP_STATUS_ERROR_MASK) != VIP_STATUS_DESC_FLUSHED_ERROR)
            fail("flushed receive %u: status 0x%x", i, desc ? desc->CS.Status : 0);
    }
    MUST(VIP_DESCRIPTOR_ERROR, VipRecvDone(client->vi, &desc));
    if (desc)
        fail("more receives than were posted");
    client->counts.connections++;
    client->counts.messages += messages;
}

static void client_open(struct client *client, VIP_NIC_HANDLE nic, uint32_t number)
{
    VIP_VI_ATTRIBUTES attrs = {level_of(number), ROOM_BYTES, 0, NULL, VIP_FALSE, VIP_FALSE};

    client->nic = nic;
    client->number = number;
    if (posix_memalign((void **)&client->room, 4096, sizeof(*client->room)))
        fail("no memory");
    OK(VipRegisterMem(nic, client->room, sizeof(*client->room), NULL, &client->handle));
    OK(VipCreateVi(nic, &attrs, NULL, NULL, &client->vi));
}

static void client_close(struct client *client)
{
    OK(VipDestroyVi(client->vi));
    OK(VipDeregisterMem(client->nic, client->room, client->handle));
    free(client->room);
}

/* Make at least two connections, so that each client connects again at least once. */
static void *client_thread(void *arg)
{
    struct client *client = arg;

    while (client->counts.connections < 2 || now_seconds() < client->until)
        client_serve(client);
    return NULL;
}

/* Run a process of clients. The process writes its counts to the pipe. */
static void __attribute__((noreturn)) run_clients(unsigned process, int pipe_fd)
{
    static struct client clients[THREADS];
    struct counts sum = {0, 0, 0, 0};
    VIP_NIC_HANDLE nic;

    setenv("VIPD_RUNTIME_DIR", getenv("VIPD_RUNTIME_DIR_A"), 1);
    OK(VipOpenNic("nic0", &nic));
    OK(VipErrorCallback(nic, NULL, client_error));
    OK(VipNSInit(nic, NULL));
    for (unsigned i = 0; i < THREADS; i++) {
        client_open(&clients[i], nic, process * THREADS + i);
        clients[i].until = now_seconds() + seconds;
        if (pthread_create(&clients[i].thread, NULL, client_thread, &clients[i]))
            fail("no thread");
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(clients[i].thread, NULL);
        sum.connections += clients[i].counts.connections;
        sum.messages += clients[i].counts.messages;
        sum.no_match += clients[i].counts.no_match;
        sum.late_no_match += clients[i].counts.late_no_match;
        client_close(&clients[i]);
    }
    OK(VipNSShutdown(nic));
    OK(VipCloseNic(nic));
    if (write(pipe_fd, &sum, sizeof(sum)) != sizeof(sum))
        fail("the result could not be written");
    _exit(0);
}

/* Connect as client STOP_CLIENT. This number makes both threads of the server end. */
static void stop_server(void)
{
    static struct client client;
    VIP_DESCRIPTOR *desc;
    VIP_NIC_HANDLE nic;

    OK(VipOpenNic("nic0", &nic));
    OK(VipNSInit(nic, NULL));
    client_open(&client, nic, STOP_CLIENT);
    client_connect(&client);
    client_send(&client, 0);
    OK(VipSendWait(client.vi, LIMIT_MS, &desc));
}

int main(int argc, char **argv)
{
    struct timespec pause = {.tv_nsec = 10000000};
    struct counts one, sum = {0, 0, 0, 0};
    unsigned long lost = 0; /* errors at the server for connections that ended */
    pthread_t accepting, working;
    int pipe_fds[2], status;
    pid_t pids[PROCESSES];

    seconds = argc > 1 ? atof(argv[1]) : 60;
    if (argc > 2)
        messages = (unsigned)atoi(argv[2]);
    service = (uint32_t)getpid();
    if (!getenv("VIPD_RUNTIME_DIR_A") || messages == 0 || pipe(pipe_fds))
        fail("run by two_vipd.sh: soak_server SECONDS [MESSAGES]");
    for (unsigned i = 0; i < PROCESSES; i++) {
        pids[i] = fork();
        if (pids[i] == 0)
            run_clients(i, pipe_fds[1]);
    }
    setenv("VIPD_RUNTIME_DIR", getenv("VIPD_RUNTIME_DIR_B"), 1);
    OK(VipOpenNic("nic0", &server_nic));
    OK(VipErrorCallback(server_nic, NULL, server_error));
    OK(VipCreateCQ(server_nic, 32, &server_cq));
    if (pthread_create(&accepting, NULL, accept_thread, NULL) ||
        pthread_create(&working, NULL, work_thread, NULL))
        fail("no thread");
    for (unsigned i = 0; i < PROCESSES; i++) {
        if (waitpid(pids[i], &status, 0) != pids[i] || status != 0)
            fail("a client process ended with status 0x%x", status);
        if (read(pipe_fds[0], &one, sizeof(one)) != sizeof(one))
            fail("a client process told no result");
        sum.connections += one.connections;
        sum.messages += one.messages;
        sum.no_match += one.no_match;
        sum.late_no_match += one.late_no_match;
    }
    stop_server();
    pthread_join(accepting, NULL);
    pthread_join(working, NULL);
    for (unsigned i = 0; i < 1000 && lost < sum.connections; i++) {
        nanosleep(&pause, NULL);
        lost = __atomic_load_n(&conns_lost, __ATOMIC_RELAXED);
    }
    if (sum.late_no_match > 0)
        fail("%lu requests found no match although the server loops; it was away %.0f ms at most",
             sum.late_no_match, longest_away * 1e3);
    if (served.connections != sum.connections || served.messages != sum.messages ||
        lost != sum.connections)
        fail("%lu connections, %lu messages of clients; %lu, %lu at the server; %lu lost",
             sum.connections, sum.messages, served.connections, served.messages, lost);
    printf(
        "%d clients in %d processes, %g s: %lu connections of %u messages, %lu messages answered; "
        "%lu requests before the server began; %u VIs at the server, at most %.0f ms between two "
        "waits, %.0f ms in VipConnectAccept; no unexpected code\n",
        PROCESSES * THREADS, PROCESSES, seconds, sum.connections, messages, sum.messages,
        sum.no_match, conn_count, longest_away * 1e3, longest_accept * 1e3);
    return 0;
}
