/*
 * A server that does not poll: handlers of VipRecvNotify and VipCQNotify do the work, in a thread
 * of the library. The main thread only accepts clients. A client sends lines, and gets each line
 * back in capital letters.
 *
 *   notify server CLIENTS [DEVICE]
 *   notify client SERVER [DEVICE]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ctype.h>
#include <unistd.h>
#include <pthread.h>
#include <vipl.h>

#define DEPTH     4 /* most unanswered lines of one client */
#define LINES     1000
#define LINE      256
#define ADDR_SIZE 160 /* an address that VIPL returns has 156 bytes at most */
#define DISC      "notify"
#define DEVICE    "nic0"

/* One end of a connection; the server has one session for each client. */
typedef struct session {
    VIP_DESCRIPTOR recv_desc[DEPTH], send_desc[DEPTH];
    char recv_line[DEPTH][LINE], send_line[DEPTH][LINE];
    VIP_VI_HANDLE vi;
    VIP_MEM_HANDLE mem;
    struct session *next;
    /* Only the server uses the following members, under `lock`. */
    VIP_DESCRIPTOR *waiting[DEPTH];  /* receive descriptors with unanswered lines, oldest first */
    int waiting_count, recvs, sends; /* recvs and sends count the posted descriptors */
    int answers;
    int registered; /* on_recv is registered for the next completion */
} SESSION;

static VIP_NIC_HANDLE nic;
static VIP_NIC_ATTRIBUTES nic_attrs;
static VIP_CQ_HANDLE send_cq; /* for the sends of all sessions of the server */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t session_over = PTHREAD_COND_INITIALIZER;
static int over; /* number of sessions whose client has disconnected */

static void must(VIP_RETURN code, const char *what)
{
    if (code == VIP_SUCCESS)
        return;
    fprintf(stderr, "notify: %s returned %d\n", what, (int)code);
    exit(1);
}

static void post(SESSION *s, int is_recv, int i, int length)
{
    VIP_DESCRIPTOR *d = is_recv ? &s->recv_desc[i] : &s->send_desc[i];

    memset(d, 0, sizeof(*d));
    d->CS.SegCount = 1;
    d->CS.Length = length;
    d->DS[0].Local.Data.Address = is_recv ? s->recv_line[i] : s->send_line[i];
    d->DS[0].Local.Handle = s->mem;
    d->DS[0].Local.Length = length;
    must(is_recv ? VipPostRecv(s->vi, d, s->mem) : VipPostSend(s->vi, d, s->mem), "a post");
}

/* Make a VI with its memory, and post its receive descriptors. */
static SESSION *new_session(VIP_CQ_HANDLE cq)
{
    VIP_VI_ATTRIBUTES attrs;
    SESSION *s = (SESSION *)valloc(sizeof(SESSION));
    int i;

    memset(s, 0, sizeof(*s));
    memset(&attrs, 0, sizeof(attrs));
    attrs.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
    attrs.MaxTransferSize = LINE;
    must(VipRegisterMem(nic, s, sizeof(*s), NULL, &s->mem), "VipRegisterMem");
    must(VipCreateVi(nic, &attrs, cq, NULL, &s->vi), "VipCreateVi");
    VipSetUserData(s->vi, s);
    for (i = 0; i < DEPTH; i++, s->recvs++)
        post(s, 1, i, LINE);
    return s;
}

static void end_session(SESSION *s)
{
    VIP_MEM_HANDLE mem = s->mem;
    VIP_DESCRIPTOR *d;

    must(VipDisconnect(s->vi), "VipDisconnect");
    do
        VipRecvDone(s->vi, &d);
    while (d != NULL);
    do
        VipSendDone(s->vi, &d);
    while (d != NULL);
    must(VipDestroyVi(s->vi), "VipDestroyVi");
    must(VipDeregisterMem(nic, s, mem), "VipDeregisterMem");
    free(s);
}

/* Answer lines while there are free send descriptors. The caller holds `lock`. */
static void answer(SESSION *s)
{
    VIP_DESCRIPTOR *d;
    int i, r, length;

    while (s->waiting_count > 0 && s->sends < DEPTH) {
        d = s->waiting[0];
        s->waiting_count--;
        memmove(s->waiting, s->waiting + 1, s->waiting_count * sizeof(s->waiting[0]));
        r = d - s->recv_desc;
        length = d->CS.Length;
        i = s->answers++ % DEPTH; /* sends complete in order, so send descriptor i is free */
        while (length-- > 0)
            s->send_line[i][length] = toupper((unsigned char)s->recv_line[r][length]);
        length = d->CS.Length;
        /* Post the receive descriptor before the answer, after which the client may send a line. */
        s->recvs++;
        post(s, 1, r, LINE);
        s->sends++;
        post(s, 0, i, length);
    }
}

static void check_over(SESSION *s)
{
    if (s->recvs > 0 || s->sends > 0)
        return;
    over++;
    pthread_cond_signal(&session_over);
}

static int flushed(VIP_DESCRIPTOR *d)
{
    return (d->CS.Status & VIP_STATUS_ERROR_MASK) == VIP_STATUS_DESC_FLUSHED_ERROR;
}

static void on_recv(VIP_PVOID context, VIP_NIC_HANDLE its_nic, VIP_VI_HANDLE vi, VIP_DESCRIPTOR *d);

/*
 * Register on_recv for the next completion, if a receive descriptor is posted. Each registration
 * causes only one call of the handler.
 */
static void ask_for_recv(SESSION *s)
{
    if (s->registered || s->recvs == 0)
        return;
    s->registered = 1;
    must(VipRecvNotify(s->vi, s, on_recv), "VipRecvNotify");
}

static void on_recv(VIP_PVOID context, VIP_NIC_HANDLE its_nic, VIP_VI_HANDLE vi, VIP_DESCRIPTOR *d)
{
    SESSION *s = (SESSION *)context;

    if (vi != s->vi || its_nic != nic)
        must(VIP_INVALID_PARAMETER, "a handler got wrong handles: it");
    pthread_mutex_lock(&lock);
    s->registered = 0;
    s->recvs--;
    if (!(d->CS.Status & VIP_STATUS_ERROR_MASK)) {
        s->waiting[s->waiting_count++] = d;
        answer(s);
    } else if (!flushed(d)) {
        must(VIP_DESCRIPTOR_ERROR, "a receive");
    }
    ask_for_recv(s);
    check_over(s);
    pthread_mutex_unlock(&lock);
}

/* A send has completed. VipCQNotify leaves its descriptor in the send queue: on_sent removes it. */
static void on_sent(VIP_PVOID context, VIP_NIC_HANDLE its_nic, VIP_VI_HANDLE vi,
                    VIP_BOOLEAN is_recv)
{
    SESSION *s = (SESSION *)VipGetUserData(vi);
    VIP_DESCRIPTOR *d;
    VIP_RETURN code;

    pthread_mutex_lock(&lock);
    code = VipSendDone(vi, &d);
    if (is_recv || d == NULL || (code != VIP_SUCCESS && !flushed(d)))
        must(code, "VipSendDone");
    s->sends--;
    answer(s);
    ask_for_recv(s);
    check_over(s);
    pthread_mutex_unlock(&lock);
    must(VipCQNotify(send_cq, context, on_sent), "VipCQNotify");
}

/* Clients end their connections, so VIP_ERROR_CONN_LOST is no error here. */
static void on_error(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error)
{
    if (error->ErrorCode == VIP_ERROR_CONN_LOST)
        return;
    fprintf(stderr, "notify: asynchronous error %d\n", (int)error->ErrorCode);
    exit(1);
}

static void put_disc(VIP_NET_ADDRESS *addr)
{
    addr->DiscriminatorLen = strlen(DISC);
    memcpy(addr->HostAddress + addr->HostAddressLen, DISC, strlen(DISC));
}

static void serve(int clients)
{
    char local_room[ADDR_SIZE], remote_room[ADDR_SIZE];
    VIP_NET_ADDRESS *local = (VIP_NET_ADDRESS *)local_room;
    VIP_VI_ATTRIBUTES attrs;
    VIP_CONN_HANDLE conn;
    SESSION *list = NULL, *s;
    int i, answers = 0;

    memset(local_room, 0, ADDR_SIZE);
    local->HostAddressLen = nic_attrs.NicAddressLen;
    put_disc(local);
    must(VipCreateCQ(nic, clients * DEPTH, &send_cq), "VipCreateCQ");
    must(VipCQNotify(send_cq, NULL, on_sent), "VipCQNotify");
    for (i = 0; i < clients; i++) {
        must(
            VipConnectWait(nic, local, VIP_INFINITE, (VIP_NET_ADDRESS *)remote_room, &attrs, &conn),
            "VipConnectWait");
        s = new_session(send_cq);
        s->next = list;
        list = s;
        pthread_mutex_lock(&lock);
        ask_for_recv(s);
        pthread_mutex_unlock(&lock);
        must(VipConnectAccept(conn, s->vi), "VipConnectAccept");
    }
    pthread_mutex_lock(&lock);
    while (over < clients)
        pthread_cond_wait(&session_over, &lock);
    pthread_mutex_unlock(&lock);
    while ((s = list) != NULL) {
        list = s->next;
        answers += s->answers;
        end_session(s);
    }
    must(VipDestroyCQ(send_cq), "VipDestroyCQ");
    if (answers != clients * LINES)
        must(VIP_ERROR_RESOURCE, "the number of lines is wrong: it");
    printf("notify: %d lines of %d clients answered\n", answers, clients);
}

static int make_line(char *line, int n)
{
    memset(line, 0, LINE);
    return sprintf(line, "line %d of process %d: %.*s", n, (int)getpid(), n % 26,
                   "abcdefghijklmnopqrstuvwxyz");
}

static void be_client(char *server)
{
    char local_room[ADDR_SIZE], remote_room[ADDR_SIZE], line[LINE];
    VIP_NET_ADDRESS *local = (VIP_NET_ADDRESS *)local_room;
    VIP_NET_ADDRESS *remote = (VIP_NET_ADDRESS *)remote_room;
    VIP_VI_ATTRIBUTES attrs;
    VIP_DESCRIPTOR *d;
    VIP_RETURN code;
    SESSION *s = new_session(NULL);
    int sent = 0, got, i, length;

    memset(local_room, 0, ADDR_SIZE);
    local->HostAddressLen = nic_attrs.NicAddressLen;
    put_disc(local);
    must(VipNSInit(nic, NULL), "VipNSInit");
    must(VipNSGetHostByName(nic, server, remote, 0), "VipNSGetHostByName");
    put_disc(remote);
    while ((code = VipConnectRequest(s->vi, local, remote, VIP_INFINITE, &attrs)) == VIP_NO_MATCH)
        usleep(10000);
    must(code, "VipConnectRequest");
    for (got = 0; got < LINES; got++) {
        for (; sent < LINES && sent < got + DEPTH; sent++) {
            if (sent >= DEPTH) {
                must(VipSendWait(s->vi, 30000, &d), "VipSendWait");
            }
            length = make_line(s->send_line[sent % DEPTH], sent);
            post(s, 0, sent % DEPTH, length);
        }
        must(VipRecvWait(s->vi, 30000, &d), "VipRecvWait");
        length = make_line(line, got);
        for (i = 0; i < length; i++)
            line[i] = toupper((unsigned char)line[i]);
        if ((int)d->CS.Length != length || memcmp(s->recv_line[got % DEPTH], line, length) != 0)
            must(VIP_DESCRIPTOR_ERROR, "the answer is wrong: it");
        post(s, 1, got % DEPTH, LINE);
    }
    end_session(s);
    printf("notify: %d lines, good\n", got);
}

int main(int argc, char **argv)
{
    int is_server;

    if (argc < 3) {
        fprintf(stderr, "usage: notify server CLIENTS [DEVICE] | notify client SERVER [DEVICE]\n");
        return 2;
    }
    is_server = strcmp(argv[1], "server") == 0;
    must(VipOpenNic(argc > 3 ? argv[3] : DEVICE, &nic), "VipOpenNic");
    must(VipQueryNic(nic, &nic_attrs), "VipQueryNic");
    if (is_server) {
        must(VipErrorCallback(nic, NULL, on_error), "VipErrorCallback");
        serve(atoi(argv[2]));
        must(VipErrorCallback(nic, NULL, NULL), "VipErrorCallback");
    } else {
        be_client(argv[2]);
    }
    must(VipCloseNic(nic), "VipCloseNic");
    return 0;
}
