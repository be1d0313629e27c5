/* The meaning of VIPL's codes, and advice; see explain.h. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "tools/vipctl/explain.h"

#define RC    "return code"
#define ASYNC "asynchronous error"
#define BIT   "bit of a descriptor's Status"

static const struct vip_code codes[] = {
    {"VIP_NOT_DONE", 1, RC, "nothing has completed yet",
     "poll again, or wait with VipSendWait, "
     "VipRecvWait or VipCQWait"},
    {"VIP_INVALID_PARAMETER", 2, RC, "an argument is not what the call wants",
     "read the reason that vipctl show errors gives for the request"},
    {"VIP_ERROR_RESOURCE", 3, RC, "a limit was reached or memory is short",
     "vipctl show limits shows what each user has; limits are in [limits] of vipd.conf"},
    {"VIP_TIMEOUT", 4, RC, "nothing happened within the time that the caller gave",
     "vipctl ping PEER; is there a server that waits (vipctl show listen at the peer)?"},
    {"VIP_REJECT", 5, RC, "the server rejected the connection", "ask the other program why"},
    {"VIP_INVALID_RELIABILITY_LEVEL", 6, RC,
     "the level is not one of the NIC's, or the two ends of a connection have different ones",
     "give both VIs the same ReliabilityLevel"},
    {"VIP_INVALID_MTU", 7, RC,
     "MaxTransferSize is 0 or above the NIC's, or the two ends have different ones",
     "give both VIs the same MaxTransferSize, at most that of VipQueryNic"},
    {"VIP_INVALID_QOS", 8, RC, "the two ends have different QoS", "give both VIs the same QoS"},
    {"VIP_INVALID_PTAG", 9, RC, "there is no such protection tag on this NIC handle",
     "make it with VipCreatePtag, and do not destroy it while it is used"},
    {"VIP_INVALID_RDMAREAD", 10, RC, "RDMA Read is not possible at this reliability level",
     "use Reliable Delivery or Reliable Reception"},
    {"VIP_DESCRIPTOR_ERROR", 11, RC, "a descriptor completed with an error",
     "look at its Status bits; the VI's reason is in vipctl explain vi N"},
    {"VIP_INVALID_STATE", 12, RC, "the VI is not in the state that the call needs",
     "vipctl show vi; VipDisconnect takes a VI from any state to Idle"},
    {"VIP_ERROR_NAMESERVICE", 13, RC, "the name or address is not known",
     "write it into [names] of vipd.conf, then vipctl reload"},
    {"VIP_NO_MATCH", 14, RC, "no program on that host waits on that discriminator",
     "start the server first; vipctl show listen at the peer lists what is waited on"},
    {"VIP_NOT_REACHABLE", 15, RC, "the peer's vipd does not answer at all",
     "vipctl ping PEER; is vipd running there, with the same link and port?"},
    {"VIP_ERROR_NOT_SUPPORTED", 16, RC, "this NIC has no such feature",
     "ask VipQueryNic what it has; libvipl and vipd must be of the same version"},
    {"VIP_ERROR_POST_DESC", 0, ASYNC, "a descriptor was posted that cannot be",
     "check its control field, segment count and memory handles"},
    {"VIP_ERROR_CONN_LOST", 1, ASYNC,
     "the connection ended without VipDisconnect of this program: the peer's program or host is "
     "gone, "
     "or does not answer",
     "vipctl explain vi N has the cause; vipctl explain peer P the state of the host"},
    {"VIP_ERROR_RECVQ_EMPTY", 2, ASYNC,
     "a message came and no receive descriptor was posted: the classic mistake with VIA",
     "post receives before the peer may send: before VipConnectAccept, then one for each message "
     "that "
     "your protocol allows under way"},
    {"VIP_ERROR_VI_OVERRUN", 3, ASYNC, "a queue was given more than it can take",
     "count what is posted; a queue takes 1024 descriptors"},
    {"VIP_ERROR_RDMAW_PROT", 4, ASYNC, "an RDMA Write came for memory that it may not touch",
     "EnableRdmaWrite must be set on the VI and on the region, with the same protection tag; check "
     "address, length and handle that were told to the peer"},
    {"VIP_ERROR_RDMAW_DATA", 5, ASYNC, "the data of an RDMA Write arrived damaged",
     "vipctl show stats scope=nic:NAME name~drop shows what the network does"},
    {"VIP_ERROR_RDMAW_ABORT", 6, ASYNC, "an RDMA Write was not finished",
     "the connection broke meanwhile: vipctl explain vi N"},
    {"VIP_ERROR_RDMAR_PROT", 7, ASYNC, "an RDMA Read came for memory that it may not read",
     "EnableRdmaRead must be set on the VI and on the region, with the same protection tag"},
    {"VIP_ERROR_COMP_PROT", 8, ASYNC, "a completion could not be written",
     "the program's memory for it is gone: was it freed or deregistered too early?"},
    {"VIP_ERROR_RDMA_TRANSPORT", 9, ASYNC, "an RDMA operation failed on its way",
     "the connection broke meanwhile: vipctl explain vi N"},
    {"VIP_ERROR_CATASTROPHIC", 10, ASYNC, "vipd is gone: nothing of the NIC handle works any more",
     "systemctl status vipd and journalctl -u vipd say why; programs must open the NIC again"},
    {"VIP_STATUS_FORMAT_ERROR", 0x2, BIT, "the descriptor is not one that can be worked on",
     "check its operation, its segment count, the handles, and that Length is the sum of the "
     "segments"},
    {"VIP_STATUS_PROTECTION_ERROR", 0x4, BIT,
     "a segment is not inside memory that is registered, with the VI's protection tag",
     "vipctl show mem pid=PID; address, length and MemHandle of every segment must fit one row"},
    {"VIP_STATUS_LENGTH_ERROR", 0x8, BIT,
     "a message was longer than the posted receive, or than MaxTransferSize",
     "post larger receives, or agree with the sender about the largest message"},
    {"VIP_STATUS_PARTIAL_ERROR", 0x10, BIT,
     "the operation failed in the middle: an unknown number of bytes has been placed",
     "do not use the buffer; vipctl explain vi N has the cause"},
    {"VIP_STATUS_DESC_FLUSHED_ERROR", 0x20, BIT,
     "the descriptor came back unused, because its VI is not connected any more",
     "vipctl explain vi N tells why the connection ended"},
    {"VIP_STATUS_TRANSPORT_ERROR", 0x40, BIT,
     "the peer did not acknowledge: the way to it or its host is gone, or its end broke",
     "vipctl explain vi N, then vipctl check --peer PEER"},
    {"VIP_STATUS_RDMA_PROT_ERROR", 0x80, BIT, "the remote memory may not be touched like that",
     "at the peer: EnableRdmaWrite or EnableRdmaRead on VI and region, the same protection tag; "
     "check "
     "the remote address, length and handle"},
    {"VIP_STATUS_REMOTE_DESC_ERROR", 0x100, BIT,
     "the receive descriptor at the peer was missing, too short or faulty",
     "at the peer: vipctl show errors; post receives before the message is sent, and large enough"},
};

#define CODE_COUNT (sizeof(codes) / sizeof(*codes))

static bool same_code(const struct vip_code *code, const char *text)
{
    char *end;
    long number = strtol(text, &end, 0);

    if (end != text && *end == '\0')
        return number == code->number;
    return strcasecmp(code->name, text) == 0 ||
           strcasecmp(code->name + strlen("VIP_"), text) == 0 ||
           (strncmp(code->name, "VIP_ERROR_", 10) == 0 && strcasecmp(code->name + 10, text) == 0) ||
           (strncmp(code->name, "VIP_STATUS_", 11) == 0 && strcasecmp(code->name + 11, text) == 0);
}

const struct vip_code *code_find(const char *text, size_t *at)
{
    while (*at < CODE_COUNT) {
        const struct vip_code *code = &codes[(*at)++];

        if (same_code(code, text))
            return code;
    }
    return NULL;
}

/* Each entry: a part of the text of a reason that vipd gives, the cause, and advice. */
static const struct {
    const char *part, *because, *action;
} reasons[] = {
    {"vipd is silent", "nothing was heard from the host for [reliability] peer_dead",
     "vipctl ping PEER; look at the network, and whether the host lives"},
    {"vipd was restarted", "the peer's vipd runs with another epoch; it knows nothing of before",
     "connect again; at the peer: journalctl -u vipd"},
    {"application at the other end is gone", "the peer's program ended without VipDisconnect",
     "look at that program: its log, its exit code, dmesg for the OOM killer"},
    {"peer disconnected", "the peer's program called VipDisconnect or VipCloseNic",
     "nothing is wrong with the network; ask the other program"},
    {"vipd at the other end stops", "vipd was stopped over there",
     "wait for it, then connect again"},
    {"not acknowledged", "data was sent again and again for [reliability] conn_timeout",
     "vipctl check --peer PEER: is the path MTU smaller than the NIC's mtu?"},
    {"no acknowledgement", "data was sent again and again for [reliability] conn_timeout",
     "vipctl check --peer PEER: is the path MTU smaller than the NIC's mtu?"},
    {"no receive was posted",
     "this side is at fault: a message came, and no receive was posted here",
     "post receives before the peer may send"},
    {"posted receive", "this side is at fault: a receive posted here was faulty",
     "look at its length, its segments and their memory handles"},
    {"longer than the receive", "this side is at fault: a receive posted here was too short",
     "post receives as long as the longest message"},
    {"receive of the other end",
     "the other side is at fault: it had no receive for a message from here, or a faulty one",
     "at the peer: vipctl explain vi N; let the peer post receives before this side sends"},
    {"does not allow an RDMA operation",
     "this side is at fault: it named memory of the peer that is not registered, or not for this",
     "look at address and handle; at the peer: is the memory still registered, with the right?"},
    {"an error at the other end",
     "the other side found the fault: in memory of its own, or in what it was sent",
     "at the peer: vipctl explain vi N names it"},
    {"administrator", "vipctl disconnect was called", "vipctl show events kind=admin tells who"},
    {"_per_uid", "all programs of this user together have reached a limit",
     "vipctl show limits; raise the key in [limits] of vipd.conf, then vipctl reload (it is live)"},
    {"register_bytes", "one NIC handle may not register more",
     "raise [limits] register_bytes; it holds for NIC handles opened after vipctl reload"},
    {"register_regions", "one NIC handle may not register more regions",
     "raise [limits] register_regions, or register larger ones; for NIC handles opened after the "
     "reload"},
    {"open_group", "only a group of users may open NICs here",
     "usermod -aG GROUP USER, then log in again"},
    {"CAP_NET_RAW", "frames of our own need that capability when vipd starts",
     "systemd: enable the drop-in raw-ethernet.conf; by hand: setcap cap_net_raw+ep vipd, or start "
     "as "
     "root"},
    {"CAP_BPF", "link = xdp needs CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF when vipd starts",
     "systemd: enable the drop-in xdp.conf; by hand: setcap "
     "cap_net_raw,cap_net_admin,cap_bpf+ep vipd, or start as root; then restart vipd"},
    {"too large; at most", "XDP takes frames that fit a page of memory",
     "nothing, if jumbo frames matter more; else ip link set dev NAME mtu 1500, and restart vipd"},
    {"too small; at least", "a packet has room for its header and something to carry",
     "ip link set dev NAME mtu 1500"},
    {"cannot be attached", "another XDP program is at the interface, or its driver refuses ours",
     "ip link show dev NAME tells of it; end the program that has it there, then restart vipd"},
    {"locked memory", "XDP shares 8 MiB of memory with the kernel, more than vipd may lock",
     "systemd: LimitMEMLOCK= as in the drop-in xdp.conf; by hand: ulimit -l; then restart vipd"},
    {"without libbpf", "the library for XDP was not there when vipd was built",
     "build vipd where libbpf-dev is installed, or be content with ether"},
    {"has the address of", "no interface has [nic:NAME] address (yet)",
     "ip addr; the NIC comes up by itself when an interface gets it"},
    {"does not have the address", "the interface of [nic:NAME] address does not have it (yet)",
     "ip addr; the NIC comes up by itself when the interface gets it"},
    {"cannot be used yet", "the kernel asks the network whether the IPv6 address is free",
     "wait some seconds; ip addr shows dadfailed if another host has it"},
    {"not an Ethernet device", "ether and xdp need an interface of type Ethernet",
     "another [nic:NAME] interface, or link = udp"},
    {"no such interface", "the interface of [nic:NAME] interface does not exist (yet)",
     "ip link; the NIC comes up by itself when the interface does"},
    {"no carrier", "the cable is out, or the other end is down",
     "look at the cable and the switch"},
    {"interface is down", "the interface was set down", "ip link set dev NAME up"},
    {"nobody", "no server waits on that discriminator",
     "start the server first; vipctl show listen"},
    {"drained", "an administrator called vipctl drain", "vipctl resume"},
    {"no such NIC", "that device name is none of this vipd's",
     "vipctl show nic lists names and "
     "aliases"},
    {"no NIC is called", "that device name is none of this vipd's",
     "vipctl show nic lists names and aliases; [nic:NAME] aliases adds one (live)"},
};

void explain_reason(struct explanation *to, const char *reason)
{
    for (size_t i = 0; reason && i < sizeof(reasons) / sizeof(*reasons); i++) {
        if (!strstr(reason, reasons[i].part))
            continue;
        explain_add(to, LINE_BECAUSE, "%s", reasons[i].because);
        explain_add(to, LINE_DO, "%s", reasons[i].action);
        return;
    }
}
