/* The program that selects our frames at the interface (vipd/link/xdp_prog.h). */
#include "vipd/link/xdp_prog.h"

#include "vipd/link/xdp.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifdef VIP_HAVE_XDP

#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <linux/bpf.h>
#include <linux/if_link.h>

#define INSTRUCTIONS_MAX 40

#define MACS_BYTES 12
#define TAG_TYPE   0x8100
#define VLAN_MASK  0x0fff

/* Stands for the offset of a jump to the end, until assemble() knows where the end is. */
#define TO_PASS 0

static int say(char why[LINK_WHY_BYTES], const char *what, int err)
{
    snprintf(why, LINK_WHY_BYTES, "%s: %s", what,
             err == EPERM ? "CAP_NET_ADMIN and CAP_BPF are needed when vipd starts"
                          : strerror(err));
    return -err;
}

static struct bpf_insn insn(uint8_t code, uint8_t dst, uint8_t src, int16_t off, int32_t imm)
{
    return (struct bpf_insn){.code = code, .dst_reg = dst, .src_reg = src, .off = off, .imm = imm};
}

/* Add instructions: unless r5 is `want`, pass the frame on to the kernel. */
static unsigned must_be(struct bpf_insn *code, unsigned n, int32_t want)
{
    code[n++] = insn(BPF_JMP32 | BPF_JNE | BPF_K, BPF_REG_5, 0, TO_PASS, want);
    return n;
}

/* Add instructions: load the frame's bytes at `at` into r5; unless they are `want`, pass it on. */
static unsigned compare(struct bpf_insn *code, unsigned n, uint8_t size, int16_t at, int32_t want)
{
    code[n++] = insn(BPF_LDX | BPF_MEM | size, BPF_REG_5, BPF_REG_2, at, 0);
    return must_be(code, n, want);
}

/* Read `count` bytes (2 or 4) as a number in the processor's byte order. */
static int32_t word(const uint8_t *bytes, unsigned count)
{
    uint32_t value = 0;
    uint16_t half;

    if (count == sizeof(value)) {
        memcpy(&value, bytes, sizeof(value));
        return (int32_t)value;
    }
    memcpy(&half, bytes, sizeof(half));
    return half;
}

/* Add instructions: compare the VLAN's number; ignore the priority in the same 16 bits. */
static unsigned compare_vlan(struct bpf_insn *code, unsigned n, int16_t at, uint16_t vlan)
{
    code[n++] = insn(BPF_LDX | BPF_MEM | BPF_H, BPF_REG_5, BPF_REG_2, at, 0);
    code[n++] = insn(BPF_ALU | BPF_AND | BPF_K, BPF_REG_5, 0, 0, htons(VLAN_MASK));
    return must_be(code, n, htons(vlan));
}

/*
 * Write the program. In C it is:
 *
 * if (frame is long enough && to our card && [our VLAN's tag &&] our EtherType && our magic &&
 *     kind "packet")
 *     return bpf_redirect_map(map, queue, XDP_PASS);
 * return XDP_PASS;
 */
static unsigned assemble(struct bpf_insn *code, const struct ether_want *want, int map)
{
    const uint8_t head[2] = {ETHER_MAGIC, ETHER_VERSION | ETHER_KIND};
    int16_t at = MACS_BYTES;
    unsigned n = 0, pass;

    code[n++] = insn(BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_6, BPF_REG_1, 0, 0);
    code[n++] =
        insn(BPF_LDX | BPF_MEM | BPF_W, BPF_REG_2, BPF_REG_1, offsetof(struct xdp_md, data), 0);
    code[n++] =
        insn(BPF_LDX | BPF_MEM | BPF_W, BPF_REG_3, BPF_REG_1, offsetof(struct xdp_md, data_end), 0);
    code[n++] = insn(BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_4, BPF_REG_2, 0, 0);
    code[n++] = insn(BPF_ALU64 | BPF_ADD | BPF_K, BPF_REG_4, 0, 0,
                     (want->vlan ? ETHER_HEADS_MAX : ETHER_HEADS_MAX - 4));
    code[n++] = insn(BPF_JMP | BPF_JGT | BPF_X, BPF_REG_4, BPF_REG_3, TO_PASS, 0);
    n = compare(code, n, BPF_W, 0, word(want->mac, 4));
    n = compare(code, n, BPF_H, 4, word(want->mac + 4, 2));
    if (want->vlan) {
        n = compare(code, n, BPF_H, at, htons(TAG_TYPE));
        n = compare_vlan(code, n, at + 2, want->vlan);
        at += 4;
    }
    n = compare(code, n, BPF_H, at, htons(want->ethertype));
    n = compare(code, n, BPF_H, at + 2, word(head, 2));
    code[n++] = insn(BPF_LD | BPF_IMM | BPF_DW, BPF_REG_1, BPF_PSEUDO_MAP_FD, 0, map);
    code[n++] = insn(0, 0, 0, 0, 0); /* second half of the load: the upper 32 bits of `map` */
    code[n++] = insn(BPF_LDX | BPF_MEM | BPF_W, BPF_REG_2, BPF_REG_6,
                     offsetof(struct xdp_md, rx_queue_index), 0);
    code[n++] = insn(BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_3, 0, 0, XDP_PASS);
    code[n++] = insn(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_redirect_map);
    code[n++] = insn(BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
    pass = n;
    code[n++] = insn(BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_0, 0, 0, XDP_PASS);
    code[n++] = insn(BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
    for (unsigned i = 0; i < pass; i++) {
        uint8_t class = BPF_CLASS(code[i].code), op = BPF_OP(code[i].code);

        if ((class == BPF_JMP && op == BPF_JGT) || (class == BPF_JMP32 && op == BPF_JNE))
            code[i].off = (int16_t)(pass - i - 1);
    }
    return n;
}

int xdp_prog_load(struct xdp_prog *prog, const struct ether_want *want, char why[LINK_WHY_BYTES])
{
    struct bpf_insn code[INSTRUCTIONS_MAX];
    unsigned count;

    prog->map = bpf_map_create(BPF_MAP_TYPE_XSKMAP, "vip_sockets", sizeof(uint32_t),
                               sizeof(uint32_t), XDP_QUEUES_MAX, NULL);
    if (prog->map < 0)
        return say(why, "no map of sockets", errno);
    count = assemble(code, want, prog->map);
    prog->program = bpf_prog_load(BPF_PROG_TYPE_XDP, "vip_frames", "GPL", code, count, NULL);
    return prog->program < 0 ? say(why, "the XDP program is refused", errno) : 0;
}

int xdp_prog_add(struct xdp_prog *prog, unsigned queue, int sock, char why[LINK_WHY_BYTES])
{
    uint32_t key = queue, value = (uint32_t)sock;

    return bpf_map_update_elem(prog->map, &key, &value, BPF_ANY) < 0
               ? say(why, "the socket is refused by the map", errno)
               : 0;
}

int xdp_prog_attach(struct xdp_prog *prog, unsigned interface, char why[LINK_WHY_BYTES])
{
    LIBBPF_OPTS(bpf_link_create_opts, opts, .flags = XDP_FLAGS_DRV_MODE);

    prog->link = bpf_link_create(prog->program, (int)interface, BPF_XDP, &opts);
    prog->native = prog->link >= 0;
    if (prog->link < 0 && errno != EPERM && errno != EBUSY) {
        opts.flags = XDP_FLAGS_SKB_MODE;
        prog->link = bpf_link_create(prog->program, (int)interface, BPF_XDP, &opts);
    }
    return prog->link < 0 ? say(why, "the XDP program cannot be attached", errno) : 0;
}

#else

int xdp_prog_load(struct xdp_prog *prog, const struct ether_want *want, char why[LINK_WHY_BYTES])
{
    snprintf(why, LINK_WHY_BYTES, "this vipd was built without libbpf");
    return -EOPNOTSUPP;
}

int xdp_prog_add(struct xdp_prog *prog, unsigned queue, int sock, char why[LINK_WHY_BYTES])
{
    return -EOPNOTSUPP;
}

int xdp_prog_attach(struct xdp_prog *prog, unsigned interface, char why[LINK_WHY_BYTES])
{
    return -EOPNOTSUPP;
}

#endif

void xdp_prog_close(struct xdp_prog *prog)
{
    if (prog->link >= 0)
        close(prog->link);
    if (prog->program >= 0)
        close(prog->program);
    if (prog->map >= 0)
        close(prog->map);
    *prog = XDP_PROG_NONE;
}
