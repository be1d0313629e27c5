/*
 * The filter in the kernel: it drops frames of other EtherTypes and frames to other cards.
 *
 * Owns: the program of the filter. libpcap compiles the tests of the frame's bytes. Our own
 * instructions in front drop frames that this host sends. The filter cannot test the VLAN tag,
 * because the kernel removes the tag before the filter of a packet socket runs. So ether_frame.c
 * tests the tag. It also counts frames with our EtherType in another VLAN, because they nearly
 * always mean that the key `vlan` is wrong.
 */
#include "vipd/link/ether.h"

#include <errno.h>
#include <linux/filter.h>
#include <pcap/pcap.h>
#include <stdio.h>
#include <string.h>

/* Number of our instructions in front of libpcap's instructions. */
#define FRONT_MAX 3

/* Room for libpcap's instructions; libpcap generates fewer for the expression below. */
#define CODE_MAX 128

static unsigned front(struct sock_filter *code)
{
    unsigned n = 0;

    /* Drop frames that this host sends: their packet types are above PACKET_OTHERHOST. */
    code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                             (unsigned)(SKF_AD_OFF + SKF_AD_PKTTYPE));
    code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, PACKET_OTHERHOST, 0, 1);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, 0);
    return n;
}

/* Compile the tests of the frame's bytes. Returns the number of instructions, or negative errno. */
static int compile(const struct ether_want *want, struct sock_filter *code, unsigned room,
                   char *why, size_t why_bytes)
{
    const uint8_t *mac = want->mac;
    struct bpf_program program;
    char text[160];
    int len;
    pcap_t *pcap = pcap_open_dead(DLT_EN10MB, 65535);
    int n = -EINVAL;

    if (!pcap) {
        snprintf(why, why_bytes, "no memory for libpcap");
        return -ENOMEM;
    }
    len = snprintf(text, sizeof(text),
                   "ether proto 0x%04x and (ether dst %02x:%02x:%02x:%02x:%02x:%02x",
                   want->ethertype, mac[0], mac[1], mac[2], mac[3], mac[4], mac[5]);
    snprintf(text + len, sizeof(text) - (size_t)len,
             want->peers ? " or (%s and ether[15] = 0x%02x))" : ")", "ether dst ff:ff:ff:ff:ff:ff",
             ETHER_VERSION | ETHER_PEER_SOLICIT);
    if (pcap_compile(pcap, &program, text, 1, PCAP_NETMASK_UNKNOWN) < 0) {
        snprintf(why, why_bytes, "libpcap: %s", pcap_geterr(pcap));
        pcap_close(pcap);
        return -EINVAL;
    }
    if (program.bf_len <= room) {
        n = (int)program.bf_len;
        for (int i = 0; i < n; i++)
            code[i] = (struct sock_filter){program.bf_insns[i].code, program.bf_insns[i].jt,
                                           program.bf_insns[i].jf, program.bf_insns[i].k};
    } else {
        snprintf(why, why_bytes, "the filter is too long");
    }
    pcap_freecode(&program);
    pcap_close(pcap);
    return n;
}

int ether_filter(int sock, const struct ether_want *want, char *why, size_t why_bytes)
{
    struct sock_filter code[FRONT_MAX + CODE_MAX] = {BPF_STMT(BPF_RET | BPF_K, 0)};
    struct sock_fprog program = {.len = 1, .filter = code};

    if (want) {
        unsigned n = front(code);
        int more = compile(want, code + n, CODE_MAX, why, why_bytes);

        if (more < 0)
            return more;
        program.len = (unsigned short)(n + (unsigned)more);
    }
    if (setsockopt(sock, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) < 0) {
        snprintf(why, why_bytes, "the filter is refused: %s", strerror(errno));
        return -errno;
    }
    return 0;
}
