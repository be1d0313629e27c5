/*
 * Message passing between a server and a client, as the message layers of 1999 did it. Each side
 * has one completion queue. A side may send a message only if the other side has posted a receive
 * descriptor for it. The NIC does not check this, so each side counts credits: the messages that it
 * may still send. A message carries new credits for its receiver. When a side has no message to
 * send, an empty message carries the credits as immediate data.
 *
 *   credits server [DEVICE]
 *   credits client SERVER [DEVICE]
 *
 * The client sends messages, and the server sends as many messages back. Each side checks them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/types.h>
#include <vipl.h>

#define CREDITS   8 /* receive descriptors that each side posts */
#define MESSAGES  2000
#define BODY      1000 /* bytes of the longest message */
#define ADDR_SIZE 160  /* an address that VIPL returns has 156 bytes at most */
#define DISC      "credits"
#define DEVICE    "/dev/via_eth0"
#define WAIT_MS   30000

#define FATAL(text, code)                                                                          \
    (fprintf(stderr, "credits: %s: code %d at line %d\n", text, (int)(code), __LINE__), exit(1))
#define TRY(call)                                                                                  \
    do {                                                                                           \
        VIP_RETURN try_code = call;                                                                \
        if (try_code != VIP_SUCCESS)                                                               \
            FATAL(#call, try_code);                                                                \
    } while (0)

/* A descriptor, followed directly by its buffer. */
typedef struct {
    VIP_DESCRIPTOR desc;
    int seq;
    int credits; /* new credits for the receiver of the message */
    int length;  /* used bytes of body */
    char body[BODY];
    char pad[64 - (12 + BODY) % 64];
} BUFFER;

static VIP_NIC_HANDLE nic;
static VIP_VI_HANDLE vi;
static VIP_CQ_HANDLE cq;
static VIP_MEM_HANDLE mem;
static VIP_UINT16 nic_addr_len;
static BUFFER *recv_buf; /* CREDITS buffers */
static BUFFER *send_buf; /* 2 * CREDITS buffers, for messages and for empty messages */
static int free_send[2 * CREDITS], free_sends;
static int credits = CREDITS; /* messages that this side may still send */
static int owed = 0;          /* new credits for the other side that no message has carried yet */
static int received = 0, sent = 0, credit_messages = 0;
static int is_server, client_gone;

static void on_error(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error)
{
    /* This error tells the server that the client has disconnected. */
    if (error->ErrorCode == VIP_ERROR_CONN_LOST && sent == MESSAGES)
        return;
    fprintf(stderr, "credits: asynchronous error %d after %d messages\n", (int)error->ErrorCode,
            received);
    exit(1);
}

static void post_recv(BUFFER *buf)
{
    memset(&buf->desc, 0, sizeof(VIP_DESCRIPTOR));
    buf->desc.CS.SegCount = 1;
    buf->desc.CS.Control = VIP_CONTROL_OP_SENDRECV;
    buf->desc.CS.Length = 12 + BODY;
    buf->desc.DS[0].Local.Data.Address = &buf->seq;
    buf->desc.DS[0].Local.Handle = mem;
    buf->desc.DS[0].Local.Length = 12 + BODY;
    TRY(VipPostRecv(vi, &buf->desc, mem));
}

static void start(char *device)
{
    VIP_NIC_ATTRIBUTES nic_attrs;
    VIP_VI_ATTRIBUTES vi_attrs;
    char *block;
    int i;

    TRY(VipOpenNic(device, &nic));
    TRY(VipErrorCallback(nic, NULL, on_error));
    TRY(VipQueryNic(nic, &nic_attrs));
    nic_addr_len = nic_attrs.NicAddressLen;
    TRY(VipCreateCQ(nic, 4 * CREDITS, &cq));
    memset(&vi_attrs, 0, sizeof(vi_attrs));
    vi_attrs.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
    vi_attrs.MaxTransferSize = 12 + BODY;
    TRY(VipCreateVi(nic, &vi_attrs, cq, cq, &vi));

    block = (char *)malloc(3 * CREDITS * sizeof(BUFFER) + VIP_DESCRIPTOR_ALIGNMENT);
    if (block == NULL)
        FATAL("malloc", 0);
    block += VIP_DESCRIPTOR_ALIGNMENT - (unsigned long)block % VIP_DESCRIPTOR_ALIGNMENT;
    TRY(VipRegisterMem(nic, block, 3 * CREDITS * sizeof(BUFFER), NULL, &mem));
    recv_buf = (BUFFER *)block;
    send_buf = recv_buf + CREDITS;
    for (i = 0; i < CREDITS; i++)
        post_recv(&recv_buf[i]);
    for (i = 0; i < 2 * CREDITS; i++)
        free_send[free_sends++] = i;
}

static void connect_both(char *server)
{
    char local_room[ADDR_SIZE], remote_room[ADDR_SIZE];
    VIP_NET_ADDRESS *local = (VIP_NET_ADDRESS *)local_room;
    VIP_NET_ADDRESS *remote = (VIP_NET_ADDRESS *)remote_room;
    VIP_VI_ATTRIBUTES remote_attrs;
    VIP_CONN_HANDLE conn;
    VIP_RETURN code;

    memset(local_room, 0, ADDR_SIZE);
    memset(remote_room, 0, ADDR_SIZE);
    local->HostAddressLen = nic_addr_len;
    local->DiscriminatorLen = strlen(DISC);
    memcpy(local->HostAddress + nic_addr_len, DISC, strlen(DISC));
    if (is_server) {
        TRY(VipConnectWait(nic, local, VIP_INFINITE, remote, &remote_attrs, &conn));
        TRY(VipConnectAccept(conn, vi));
        return;
    }
    TRY(VipNSInit(nic, NULL));
    TRY(VipNSGetHostByName(nic, server, remote, 0));
    TRY(VipNSShutdown(nic));
    remote->HostAddressLen = nic_addr_len;
    remote->DiscriminatorLen = strlen(DISC);
    memcpy(remote->HostAddress + nic_addr_len, DISC, strlen(DISC));
    /* Try again while no server waits for a request. */
    while ((code = VipConnectRequest(vi, local, remote, VIP_INFINITE, &remote_attrs)) ==
           VIP_NO_MATCH)
        usleep(10000);
    if (code != VIP_SUCCESS)
        FATAL("VipConnectRequest", code);
}

/* Take a free send buffer; the caller has checked that there is a free buffer. */
static BUFFER *take_send(int length)
{
    BUFFER *buf = &send_buf[free_send[--free_sends]];

    memset(&buf->desc, 0, sizeof(VIP_DESCRIPTOR));
    if (length >= 0) {
        buf->length = length;
        buf->desc.CS.SegCount = 1;
        buf->desc.CS.Length = 12 + length;
        buf->desc.DS[0].Local.Data.Address = &buf->seq;
        buf->desc.DS[0].Local.Handle = mem;
        buf->desc.DS[0].Local.Length = 12 + length;
    }
    return buf;
}

static int length_of(int seq)
{
    return (seq * 37) % (BODY + 1);
}

static void send_message(int seq)
{
    BUFFER *buf = take_send(length_of(seq));

    buf->seq = seq;
    buf->credits = owed;
    memset(buf->body, seq, buf->length);
    owed = 0;
    credits--;
    sent++;
    TRY(VipPostSend(vi, &buf->desc, mem));
}

/* Send an empty message with credits. The message itself also uses up a credit. */
static void send_credits(void)
{
    BUFFER *buf = take_send(-1);

    buf->desc.CS.Control = VIP_CONTROL_OP_SENDRECV | VIP_CONTROL_IMMEDIATE;
    buf->desc.CS.ImmediateData = owed;
    owed = 0;
    credits--;
    credit_messages++;
    TRY(VipPostSend(vi, &buf->desc, mem));
}

static void handle_message(BUFFER *buf)
{
    int i;

    if (buf->desc.CS.Status & VIP_STATUS_IMMEDIATE) {
        if (buf->desc.CS.Length != 0)
            FATAL("an empty message has bytes", buf->desc.CS.Length);
        credits += buf->desc.CS.ImmediateData;
    } else {
        if (buf->seq != received || buf->length != length_of(received) ||
            buf->desc.CS.Length != 12 + (unsigned)buf->length)
            FATAL("a message is out of order or cut", buf->seq);
        for (i = 0; i < buf->length; i++)
            if (buf->body[i] != (char)buf->seq)
                FATAL("a message is damaged", buf->seq);
        credits += buf->credits;
        received++;
    }
    post_recv(buf);
    owed++;
}

static void progress(void)
{
    VIP_VI_HANDLE which;
    VIP_BOOLEAN is_recv;
    VIP_DESCRIPTOR *desc;
    VIP_RETURN code;

    TRY(VipCQWait(cq, WAIT_MS, &which, &is_recv));
    if (which != vi)
        FATAL("an entry of another VI", 0);
    code = is_recv ? VipRecvDone(vi, &desc) : VipSendDone(vi, &desc);
    /* The client disconnects first. Then the server's posted receive descriptors are flushed. */
    if (code == VIP_DESCRIPTOR_ERROR && desc != NULL && is_server && received == MESSAGES &&
        sent == MESSAGES && (desc->CS.Status & VIP_STATUS_DESC_FLUSHED_ERROR))
        client_gone = 1;
    else if (code != VIP_SUCCESS)
        FATAL("a descriptor failed", code);
    else if (is_recv)
        handle_message((BUFFER *)desc);
    if (!is_recv)
        free_send[free_sends++] = (BUFFER *)desc - send_buf;
}

int main(int argc, char **argv)
{
    VIP_DESCRIPTOR *desc;

    if (argc < 2 || (strcmp(argv[1], "server") != 0 && argc < 3)) {
        fprintf(stderr, "usage: credits server [DEVICE] | credits client SERVER [DEVICE]\n");
        return 2;
    }
    is_server = strcmp(argv[1], "server") == 0;
    argv += is_server ? 2 : 3;
    start(argv[0] != NULL ? argv[0] : DEVICE);
    connect_both(argv[-1]);
    while (sent < MESSAGES || received < MESSAGES || free_sends < 2 * CREDITS ||
           (is_server && !client_gone)) {
        /* Keep the last credit for send_credits. */
        if (sent < (is_server ? received : MESSAGES) && credits > 1 && free_sends > 0)
            send_message(sent);
        else if (owed > CREDITS / 2 && credits > 0 && free_sends > 0 && received < MESSAGES)
            send_credits();
        else
            progress();
    }
    TRY(VipDisconnect(vi));
    TRY(VipDisconnect(vi)); /* a second VipDisconnect does no harm */
    TRY(VipErrorCallback(nic, NULL, NULL));
    /* Empty the receive queue: only a VI with empty queues can be destroyed. */
    do
        VipRecvDone(vi, &desc);
    while (desc != NULL);
    TRY(VipDestroyVi(vi));
    TRY(VipDestroyCQ(cq));
    TRY(VipDeregisterMem(nic, recv_buf, mem));
    TRY(VipCloseNic(nic));
    printf("credits: %d messages each way, good (%d for credits only)\n", received,
           credit_messages);
    return 0;
}
