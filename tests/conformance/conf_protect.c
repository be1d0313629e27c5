/*
 * Specification 3.5: protection tags, rights, and bounds, for local and remote references.
 */
#include "suite.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* How an operation uses memory. For each use, vipd compares the memory's tag with the VI's tag. */
enum use {
    USE_SEND,
    USE_RECV,
    USE_WRITE_SOURCE,
    USE_WRITE_TARGET,
    USE_READ_SOURCE,
    USE_READ_TARGET
};

/* Connect two VIs. a's VI has a tag if tag_a; b's VI has one if tag_b. Memory has no tag. */
static void tagged_pair(struct end *a, struct end *b, bool tag_a, bool tag_b,
                        VIP_PROTECTION_HANDLE *ret_a, VIP_PROTECTION_HANDLE *ret_b)
{
    VIP_VI_ATTRIBUTES attrs = {
        VIP_SERVICE_RELIABLE_DELIVERY, 100000, NULL, NULL, VIP_TRUE, VIP_TRUE};

    conf_open(a, 'A');
    conf_open(b, 'B');
    a->level = b->level = VIP_SERVICE_RELIABLE_DELIVERY;
    CONF_OK(VipCreatePtag(a->nic, ret_a));
    CONF_OK(VipCreatePtag(b->nic, ret_b));
    attrs.Ptag = tag_a ? *ret_a : NULL;
    CONF_OK(VipCreateVi(a->nic, &attrs, NULL, NULL, &a->vi));
    attrs.Ptag = tag_b ? *ret_b : NULL;
    CONF_OK(VipCreateVi(b->nic, &attrs, NULL, NULL, &b->vi));
    conf_connect(a, b);
}

static bool local_at_a(enum use use)
{
    return use == USE_SEND || use == USE_WRITE_SOURCE || use == USE_READ_TARGET;
}

/* Use 64 bytes at `address` with `handle`. False if vipd refused and broke the connection. */
static bool try_use(struct end *a, struct end *b, enum use use, char *address,
                    VIP_MEM_HANDLE handle)
{
    VIP_DESCRIPTOR *send, *recv = NULL;
    VIP_UINT32 status;

    switch (use) {
    case USE_SEND:
    case USE_RECV:
        send = conf_desc(a, 0, 0, 64);
        recv = conf_desc(b, 0, 0, 64);
        break;
    case USE_WRITE_SOURCE:
    case USE_WRITE_TARGET:
        send = conf_write(a, 0, 0, 64, b, 0);
        break;
    default:
        send = conf_read(a, 0, 0, 64, b, 0);
        break;
    }
    if (use == USE_RECV) {
        recv->DS[0].Local.Data.Address = address;
        recv->DS[0].Local.Handle = handle;
    } else if (use == USE_WRITE_TARGET || use == USE_READ_SOURCE) {
        send->DS[0].Remote.Data.Address = address;
        send->DS[0].Remote.Handle = handle;
    } else if (use == USE_SEND) {
        send->DS[0].Local.Data.Address = address;
        send->DS[0].Local.Handle = handle;
    } else {
        send->DS[1].Local.Data.Address = address;
        send->DS[1].Local.Handle = handle;
    }
    if (recv != NULL)
        conf_post_recv(b, recv);
    conf_post_send(a, send);
    status = conf_take(a, false, send);
    if (recv != NULL)
        status |= conf_take(b, true, recv);
    if (use == USE_WRITE_TARGET && conf_state(a) != VIP_STATE_CONNECTED)
        status |= VIP_STATUS_RDMA_PROT_ERROR;
    return status == 0;
}

static VIP_MEM_HANDLE region_of(struct end *end, char *address, VIP_ULONG bytes,
                                VIP_PROTECTION_HANDLE ptag, VIP_BOOLEAN write, VIP_BOOLEAN read)
{
    VIP_MEM_ATTRIBUTES mem = {ptag, write, read};
    VIP_MEM_HANDLE handle;

    CONF_OK(VipRegisterMem(end->nic, address, bytes, &mem, &handle));
    return handle;
}

/* A refusal breaks the connection, so each use has a new pair. */
static void equal_tags(void **state)
{
    enum use use = (enum use)conf_arg(state);
    struct end a, b, *of;
    VIP_PROTECTION_HANDLE tag_a, tag_b;

    tagged_pair(&a, &b, true, true, &tag_a, &tag_b);
    of = local_at_a(use) ? &a : &b;
    assert_true(try_use(&a, &b, use, of->buffer,
                        region_of(of, of->buffer, 64, of == &a ? tag_a : tag_b, 1, 1)));
    conf_close_pair(&a, &b);
}

static void different_tags(void **state)
{
    enum use use = (enum use)conf_arg(state);
    struct end a, b, *of;
    VIP_PROTECTION_HANDLE tag_a, tag_b, other;

    tagged_pair(&a, &b, true, true, &tag_a, &tag_b);
    of = local_at_a(use) ? &a : &b;
    CONF_OK(VipCreatePtag(of->nic, &other));
    assert_false(try_use(&a, &b, use, of->buffer, region_of(of, of->buffer, 64, other, 1, 1)));
    conf_close_pair(&a, &b);
}

static void no_tag_at_the_vi(void **state)
{
    enum use use = (enum use)conf_arg(state);
    struct end a, b, *of;
    VIP_PROTECTION_HANDLE tag_a, tag_b;

    tagged_pair(&a, &b, false, false, &tag_a, &tag_b);
    of = local_at_a(use) ? &a : &b;
    assert_true(try_use(&a, &b, use, of->buffer,
                        region_of(of, of->buffer, 64, of == &a ? tag_a : tag_b, 1, 1)));
    conf_close_pair(&a, &b);
}

static void no_tag_at_the_region(void **state)
{
    enum use use = (enum use)conf_arg(state);
    struct end a, b, *of;
    VIP_PROTECTION_HANDLE tag_a, tag_b;

    tagged_pair(&a, &b, true, true, &tag_a, &tag_b);
    of = local_at_a(use) ? &a : &b;
    assert_true(try_use(&a, &b, use, of->buffer, region_of(of, of->buffer, 64, NULL, 1, 1)));
    conf_close_pair(&a, &b);
}

/* The whole region may be used; vipd refuses each range with a byte outside of the region. */
static void bounds(void **state)
{
    enum use use = (enum use)conf_arg(state);

    for (unsigned n = 0; n < 5; n++) {
        struct end a, b, *of;
        VIP_PROTECTION_HANDLE tag_a, tag_b;
        VIP_MEM_HANDLE handle;
        char *at;

        tagged_pair(&a, &b, true, true, &tag_a, &tag_b);
        of = local_at_a(use) ? &a : &b;
        at = of->buffer + 5000;
        handle = region_of(of, at, n == 0 ? 64 : 63, of == &a ? tag_a : tag_b, 1, 1);
        if (n == 2)
            at--;
        else if (n == 3)
            at += 4096;
        else if (n == 4)
            CONF_OK(VipDeregisterMem(of->nic, at, handle));
        assert_int_equal(try_use(&a, &b, use, at, handle), n == 0);
        conf_close_pair(&a, &b);
    }
}

/* ---- receives that are longer than their regions --------------------------------------------- */

/* A receive descriptor. room: the bytes from a segment's start to the end of its region. */
struct longer {
    uint32_t segment[2]; /* bytes of each segment; if the second is 0, there is only one */
    uint32_t room[2];    /* 0: the segment begins after the region's end */
    uint32_t message;
    VIP_UINT32 errors;
};

static const struct longer longer[] = {
    {{64}, {63}, 63, 0},
    {{4096}, {63}, 0, 0},
    {{4096}, {0}, 0, 0},
    {{60000}, {20000}, 20000, 0},
    {{UINT32_MAX}, {20000}, 20000, 0},
    {{64, 64}, {64, 32}, 96, 0},
    {{64, 64}, {64, 0}, 64, 0},
    {{64, 64}, {63, 64}, 63, 0},
    {{4000, 40000}, {4000, 9000}, 13000, 0},
    {{64}, {63}, 64, VIP_STATUS_PROTECTION_ERROR},
    {{64}, {63}, 65, VIP_STATUS_LENGTH_ERROR},
    {{4096}, {0}, 1, VIP_STATUS_PROTECTION_ERROR},
    {{60000}, {20000}, 20001, VIP_STATUS_PROTECTION_ERROR},
    {{64, 64}, {64, 32}, 97, VIP_STATUS_PROTECTION_ERROR},
    {{64, 64}, {63, 64}, 64, VIP_STATUS_PROTECTION_ERROR},
};
#define LONGER_AT 65536 /* offset of the second segment in the memory of the receives */

/* Returns memory for the receives: a mapped file (staged memory), or memory that libvipl can adopt.
 * Each region ends before its mapping ends, so a store beyond a region does not end the program. */
static char *longer_memory(bool staged)
{
    FILE *file = staged ? tmpfile() : NULL;
    char *at;

    if (staged)
        assert_int_equal(ftruncate(fileno(file), 2 * LONGER_AT), 0);
    at = mmap(NULL, 2 * LONGER_AT, PROT_READ | PROT_WRITE,
              staged ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, staged ? fileno(file) : -1, 0);
    assert_ptr_not_equal(at, MAP_FAILED);
    if (staged)
        fclose(file);
    return at;
}

static bool untouched(const char *memory, size_t bytes)
{
    size_t at = 0;

    while (at < bytes && memory[at] == 0x55)
        at++;
    return at == bytes;
}

/* Check that the message is in its place, and that no other byte was written. */
static void longer_arrived(const struct longer *c, const char *memory, const char *message)
{
    uint32_t first = c->message < c->segment[0] ? c->message : c->segment[0];
    uint32_t second = c->message - first;

    if (c->errors != 0)
        first = second = 0;
    assert_memory_equal(memory, message, first);
    assert_memory_equal(memory + LONGER_AT, message + first, second);
    assert_true(untouched(memory + first, LONGER_AT - first));
    assert_true(untouched(memory + LONGER_AT + second, LONGER_AT - second));
}

static void longer_once(const struct longer *c, struct end *a, struct end *b, char *memory)
{
    unsigned count = c->segment[1] > 0 ? 2 : 1;
    VIP_DESCRIPTOR *recv = conf_desc(b, 0, 0, 0), *send = conf_desc(a, 0, 0, c->message);
    VIP_MEM_HANDLE handle[2];
    VIP_RETURN sent;

    memset(memory, 0x55, 2 * LONGER_AT);
    conf_fill(a->buffer, c->message, c->message);
    recv->CS.SegCount = (VIP_UINT16)count;
    for (unsigned i = 0; i < count; i++) {
        char *at = memory + i * LONGER_AT;

        handle[i] = region_of(b, at, c->room[i] > 0 ? c->room[i] : 10, NULL, 0, 0);
        recv->DS[i].Local.Data.Address = c->room[i] > 0 ? at : at + 4096;
        recv->DS[i].Local.Handle = handle[i];
        recv->DS[i].Local.Length = c->segment[i];
    }
    conf_post_recv(b, recv);
    assert_int_equal(conf_carry(a, send, b, recv, &sent) == VIP_SUCCESS, c->errors == 0);
    assert_int_equal(recv->CS.Status & VIP_STATUS_ERROR_MASK, c->errors);
    if (c->errors == 0)
        assert_int_equal(recv->CS.Length, c->message);
    longer_arrived(c, memory, a->buffer);
    if (c->errors == 0 || a->level == VIP_SERVICE_UNRELIABLE) {
        assert_int_equal(sent, VIP_SUCCESS);
    } else {
        conf_broken(a);
        conf_broken(b);
        if (a->level == VIP_SERVICE_RELIABLE_RECEPTION)
            assert_int_equal(send->CS.Status & VIP_STATUS_ERROR_MASK, VIP_STATUS_REMOTE_DESC_ERROR);
    }
    for (unsigned i = 0; i < count; i++)
        CONF_OK(VipDeregisterMem(b->nic, memory + i * LONGER_AT, handle[i]));
}

/* ARMCI's VIA device posts receives that are all as long as the longest message. */
static void receive_longer_than_its_region(void **state)
{
    VIP_VI_ATTRIBUTES attrs = {conf_level(state), 100000, NULL, NULL, VIP_FALSE, VIP_FALSE};
    char *memory[2] = {longer_memory(false), longer_memory(true)};
    struct end a, b;

    conf_pair_with(&a, &b, &attrs);
    for (unsigned i = 0; i < sizeof(longer) / sizeof(longer[0]); i++)
        for (unsigned staged = 0; staged < 2; staged++) {
            longer_once(&longer[i], &a, &b, memory[staged]);
            if (longer[i].errors == 0 || a.level == VIP_SERVICE_UNRELIABLE)
                continue;
            conf_disconnect_idle(&a, &b);
            conf_connect(&a, &b);
        }
    conf_alive(&a, &b);
    conf_close_pair(&a, &b);
    munmap(memory[0], 2 * LONGER_AT);
    munmap(memory[1], 2 * LONGER_AT);
}

/* vipd checks a segment's handle and tag, even if no byte of the message reaches the segment. */
static void receive_with_a_wrong_handle_or_tag_behind_the_message(void **state)
{
    for (unsigned n = 0; n < 3; n++) {
        struct end a, b;
        VIP_PROTECTION_HANDLE tag_a, tag_b, other;
        VIP_DESCRIPTOR *recv;

        (void)state;
        tagged_pair(&a, &b, true, true, &tag_a, &tag_b);
        CONF_OK(VipCreatePtag(b.nic, &other));
        recv = conf_desc(&b, 0, 0, 64);
        recv->CS.SegCount = 2;
        recv->DS[1].Local.Data.Address = b.buffer + 4096;
        recv->DS[1].Local.Length = 64;
        recv->DS[1].Local.Handle =
            n == 0 ? 0 : region_of(&b, b.buffer + 4096, 64, n == 1 ? other : tag_b, 0, 0);
        conf_post_recv(&b, recv);
        conf_post_send(&a, conf_desc(&a, 0, 0, 10));
        assert_int_equal(conf_take(&b, true, recv), n < 2 ? VIP_STATUS_PROTECTION_ERROR : 0);
        conf_close_pair(&a, &b);
    }
}

/* vipd refuses memory handles of the other end and of another NIC handle. */
static void foreign_handles(void **state)
{
    enum use use = (enum use)conf_arg(state);

    for (unsigned n = 0; n < 2; n++) {
        struct end a, b, c, *of;
        VIP_PROTECTION_HANDLE tag_a, tag_b;
        VIP_MEM_HANDLE handle = 0;

        tagged_pair(&a, &b, false, false, &tag_a, &tag_b);
        of = local_at_a(use) ? &a : &b;
        conf_open(&c, of->side);
        /* Register many regions, so that the last handle is no handle of the VI's own session. */
        for (unsigned i = 0; i < 20; i++)
            handle = region_of(n == 0 ? &c : of == &a ? &b : &a, of->buffer, 4096, NULL, 1, 1);
        assert_false(try_use(&a, &b, use, of->buffer, handle));
        conf_close(&c);
        conf_close_pair(&a, &b);
    }
}

/* An RDMA operation needs a right from the target's VI and a right from the target's region. */
static void remote_rights(void **state)
{
    bool read = conf_arg(state) != 0;

    for (unsigned n = 0; n < 4; n++) {
        struct end a, b;
        VIP_VI_ATTRIBUTES attrs = {
            VIP_SERVICE_RELIABLE_DELIVERY, 100000, NULL, NULL, VIP_FALSE, VIP_FALSE};
        bool vi_right = (n & 1) != 0, region_right = (n & 2) != 0;
        VIP_MEM_HANDLE handle;

        conf_open(&a, 'A');
        conf_open(&b, 'B');
        a.level = b.level = VIP_SERVICE_RELIABLE_DELIVERY;
        CONF_OK(VipCreateVi(a.nic, &attrs, NULL, NULL, &a.vi)); /* the initiator needs no right */
        attrs.EnableRdmaWrite = read ? !vi_right : vi_right;
        attrs.EnableRdmaRead = read ? vi_right : !vi_right;
        CONF_OK(VipCreateVi(b.nic, &attrs, NULL, NULL, &b.vi));
        conf_connect(&a, &b);
        handle = region_of(&b, b.buffer, 4096, NULL, read ? !region_right : region_right,
                           read ? region_right : !region_right);
        CONF_OK(VipDeregisterMem(a.nic, a.memory, a.handle));
        a.handle = region_of(&a, a.memory, a.memory_bytes, NULL, VIP_FALSE, VIP_FALSE);
        assert_int_equal(
            try_use(&a, &b, read ? USE_READ_SOURCE : USE_WRITE_TARGET, b.buffer, handle),
            vi_right && region_right);
        if (!(vi_right && region_right))
            conf_await_error(&b, read ? VIP_ERROR_RDMAR_PROT : VIP_ERROR_RDMAW_PROT);
        conf_close_pair(&a, &b);
    }
}

static void set_mem_attributes_takes_effect(void **state)
{
    struct end a, b;
    VIP_PROTECTION_HANDLE tag_a, tag_b;
    VIP_MEM_ATTRIBUTES closed = {NULL, VIP_FALSE, VIP_FALSE};
    VIP_MEM_HANDLE handle;

    (void)state;
    tagged_pair(&a, &b, true, true, &tag_a, &tag_b);
    handle = region_of(&b, b.buffer, 4096, tag_b, 1, 1);
    assert_true(try_use(&a, &b, USE_WRITE_TARGET, b.buffer, handle));
    CONF_OK(VipSetMemAttributes(b.nic, b.buffer, handle, &closed));
    assert_false(try_use(&a, &b, USE_WRITE_TARGET, b.buffer, handle));
    conf_close_pair(&a, &b);
}

static void zero_bytes_refer_to_no_memory(void **state)
{
    struct end a, b;
    VIP_DESCRIPTOR *desc;

    conf_pair(&a, &b, conf_level(state));
    desc = conf_desc(&a, 0, 0, 0);
    desc->DS[0].Local.Handle = 0;
    desc->DS[0].Local.Data.Address = NULL;
    conf_post_recv(&b, conf_empty(&b, 0));
    CONF_OK(conf_carry(&a, desc, &b, conf_at(&b, 0), NULL));
    conf_close_pair(&a, &b);
}

static void any_address_inside_the_region_is_valid(void **state)
{
    struct end a, b;
    static const size_t offsets[] = {0, 1, 63, 4095, 4097, 100001};

    conf_pair(&a, &b, conf_level(state));
    for (unsigned i = 0; i < 6; i++) {
        conf_fill(a.buffer + offsets[i], 500, i);
        conf_post_recv(&b, conf_desc(&b, 0, offsets[5 - i], 500));
        CONF_OK(conf_carry(&a, conf_desc(&a, 0, offsets[i], 500), &b, conf_at(&b, 0), NULL));
        conf_same(b.buffer + offsets[5 - i], 500, i);
    }
    conf_close_pair(&a, &b);
}

/* Tags of another NIC handle and invented tags are invalid in every call that takes a tag. */
static void foreign_tags_are_invalid(void **state)
{
    struct end a, c;
    VIP_VI_ATTRIBUTES attrs = {VIP_SERVICE_UNRELIABLE, 4096, NULL, NULL, VIP_FALSE, VIP_FALSE};
    VIP_MEM_ATTRIBUTES mem = {NULL, VIP_FALSE, VIP_FALSE};
    VIP_PROTECTION_HANDLE gone;
    VIP_MEM_HANDLE handle;
    VIP_VI_HANDLE vi;

    (void)state;
    conf_ready(&a, 'A', VIP_SERVICE_UNRELIABLE);
    conf_open(&c, 'A');
    CONF_OK(VipCreatePtag(a.nic, &gone));
    CONF_OK(VipDestroyPtag(a.nic, gone));
    for (unsigned n = 0; n < 3; n++) {
        VIP_PROTECTION_HANDLE bad = n == 0 ? (VIP_PROTECTION_HANDLE)&a : gone;

        if (n == 1)
            CONF_OK(VipCreatePtag(c.nic, &bad));
        attrs.Ptag = mem.Ptag = bad;
        CONF_RETURNS(VIP_INVALID_PTAG, VipCreateVi(a.nic, &attrs, NULL, NULL, &vi));
        CONF_RETURNS(VIP_INVALID_PTAG, VipSetViAttributes(a.vi, &attrs));
        CONF_RETURNS(VIP_INVALID_PTAG, VipRegisterMem(a.nic, a.buffer, 10, &mem, &handle));
        CONF_RETURNS(VIP_INVALID_PTAG, VipSetMemAttributes(a.nic, a.memory, a.handle, &mem));
    }
    conf_close(&c);
    conf_close(&a);
}

static void strict_mode_wants_tags(void **state)
{
    struct end a;
    VIP_VI_ATTRIBUTES attrs = {VIP_SERVICE_UNRELIABLE, 4096, NULL, NULL, VIP_FALSE, VIP_FALSE};
    VIP_MEM_ATTRIBUTES mem = {NULL, VIP_FALSE, VIP_FALSE};
    VIP_MEM_HANDLE handle;
    VIP_VI_HANDLE vi;

    (void)state;
    conf_open(&a, 'A');
    setenv("VIPL_STRICT_PTAGS", "1", 1);
    CONF_RETURNS(VIP_INVALID_PTAG, VipCreateVi(a.nic, &attrs, NULL, NULL, &vi));
    CONF_RETURNS(VIP_INVALID_PTAG, VipRegisterMem(a.nic, a.buffer, 10, &mem, &handle));
    CONF_RETURNS(VIP_INVALID_PTAG, VipRegisterMem(a.nic, a.buffer, 10, NULL, &handle));
    unsetenv("VIPL_STRICT_PTAGS");
    CONF_OK(VipCreateVi(a.nic, &attrs, NULL, NULL, &vi));
    CONF_OK(VipRegisterMem(a.nic, a.buffer, 10, NULL, &handle));
    conf_close(&a);
}

#define USES(group, fn, sentence)                                                                  \
    CONF_N("3.5", group, fn, "send", USE_SEND, sentence " (source of a send)"),                    \
        CONF_N("3.5", group, fn, "recv", USE_RECV, sentence " (buffer of a receive)"),             \
        CONF_N("3.5", group, fn, "write_source", USE_WRITE_SOURCE,                                 \
               sentence " (source of an RDMA Write)"),                                             \
        CONF_DN("3.5", group, fn, "write_target", USE_WRITE_TARGET,                                \
                sentence " (target of an RDMA Write)"),                                            \
        CONF_DN("3.5", group, fn, "read_source", USE_READ_SOURCE,                                  \
                sentence " (source of an RDMA Read)"),                                             \
        CONF_DN("3.5", group, fn, "read_target", USE_READ_TARGET,                                  \
                sentence " (destination of an RDMA Read)")

static const struct conf_test tests[] = {
    USES(CONF_FUNCTIONAL, equal_tags, "equal tags of VI and region: allowed"),
    USES(CONF_FUNCTIONAL, different_tags, "different tags of VI and region: refused"),
    USES(CONF_FUNCTIONAL, no_tag_at_the_vi, "a NULL tag of the VI matches any"),
    USES(CONF_FUNCTIONAL, no_tag_at_the_region, "a NULL tag of the region matches any"),
    USES(CONF_FUNCTIONAL, bounds, "every byte that moves must lie in the region of the handle"),
    CONF_EACH("3.5", CONF_FUNCTIONAL, receive_longer_than_its_region,
              "a receive may be longer than its region: the bytes of its message count"),
    CONF_T("3.5", CONF_FUNCTIONAL, receive_with_a_wrong_handle_or_tag_behind_the_message,
           "a wrong handle or tag of a receive is an error, whatever the message reaches"),
    USES(CONF_FUNCTIONAL, foreign_handles, "another's handles are never valid"),
    CONF_DN("3.5", CONF_FUNCTIONAL, remote_rights, "write", 0,
            "RDMA Write needs the right on the target's VI and region; the initiator needs none"),
    CONF_DN("3.5", CONF_FULL, remote_rights, "read", 1,
            "RDMA Read needs the right on the target's VI and region; the initiator needs none"),
    CONF_T("2.3", CONF_FUNCTIONAL, set_mem_attributes_takes_effect,
           "VipSetMemAttributes replaces the region's attributes"),
    CONF_EACH("3.3", CONF_EARLY, zero_bytes_refer_to_no_memory,
              "one segment of length 0 is valid, whatever it points at"),
    CONF_EACH("2.3", CONF_EARLY, any_address_inside_the_region_is_valid,
              "any address inside a region is valid, not only its start"),
    CONF_T("3.5", CONF_FUNCTIONAL, foreign_tags_are_invalid,
           "a tag belongs to the process (NIC handle) that made it; destroyed ones are invalid"),
    CONF_T("3.5", CONF_FUNCTIONAL, strict_mode_wants_tags,
           "strict mode: a NULL tag gives VIP_INVALID_PTAG"),
};

CONF_MAIN(tests)
