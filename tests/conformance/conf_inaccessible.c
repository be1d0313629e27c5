/*
 * Memory that the program itself makes inaccessible after registration (3.5, 3.6, 3.9). The program
 * cuts the file short, protects or unmaps pages, or deregisters the region of the descriptors.
 * No page fault may end a process, and bytes that could not be stored or read must be reported.
 */
#include "suite.h"

#include <sys/mman.h>
#include <unistd.h>

/* How memory becomes inaccessible. UNMAPPED maps pages without access there, so that no other code
 * of the process gets these addresses. */
enum way { CUT_SHORT, PROTECTED, UNMAPPED, WAYS };

#define AREA_BYTES 65536
#define HOLE       40960 /* first byte that becomes inaccessible; a page boundary */

/* Registered memory of an end that can become inaccessible. */
struct area {
    char *at;
    VIP_MEM_HANDLE handle;
    FILE *file;
};

static void area_new(struct area *area, struct end *end)
{
    VIP_MEM_ATTRIBUTES open = {NULL, VIP_TRUE, VIP_TRUE};

    area->file = tmpfile();
    assert_non_null(area->file);
    assert_int_equal(ftruncate(fileno(area->file), AREA_BYTES), 0);
    area->at = mmap(NULL, AREA_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(area->file), 0);
    assert_ptr_not_equal(area->at, MAP_FAILED);
    CONF_OK(VipRegisterMem(end->nic, area->at, AREA_BYTES, &open, &area->handle));
}

static void area_go(struct area *area, enum way way)
{
    switch (way) {
    case CUT_SHORT:
        assert_int_equal(ftruncate(fileno(area->file), HOLE), 0);
        break;
    case PROTECTED:
        assert_int_equal(mprotect(area->at + HOLE, AREA_BYTES - HOLE, PROT_NONE), 0);
        break;
    case UNMAPPED:
    case WAYS:
        assert_ptr_equal(mmap(area->at + HOLE, AREA_BYTES - HOLE, PROT_NONE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
                         area->at + HOLE);
        break;
    }
}

static void area_free(struct area *area, struct end *end)
{
    CONF_OK(VipDeregisterMem(end->nic, area->at, area->handle));
    munmap(area->at, AREA_BYTES);
    fclose(area->file);
}

static bool reliable(VIP_RELIABILITY_LEVEL level)
{
    return level != VIP_SERVICE_UNRELIABLE;
}

/* After a fault, an unreliable connection still works. A reliable one is broken at both ends. */
static void outcome(struct end *a, struct end *b)
{
    if (reliable(a->level)) {
        conf_broken(a);
        conf_broken(b);
    } else {
        conf_alive(a, b);
    }
}

/* Connect two VIs that allow all RDMA of the level. Register the area at b if of_b, else at a. */
static void pair_with_area(struct end *a, struct end *b, VIP_RELIABILITY_LEVEL level,
                           struct area *area, bool of_b)
{
    VIP_VI_ATTRIBUTES attrs = {level, AREA_BYTES, NULL, NULL, VIP_TRUE, VIP_FALSE};

    attrs.EnableRdmaRead = reliable(level);
    conf_pair_with(a, b, &attrs);
    area_new(area, of_b ? b : a);
}

/* Aim an RDMA Write or Read so that its last 32 bytes are inaccessible. */
static VIP_DESCRIPTOR *across(VIP_DESCRIPTOR *rdma, const struct area *area, size_t bytes)
{
    rdma->DS[0].Remote.Data.Address = area->at + HOLE + 32 - bytes;
    rdma->DS[0].Remote.Handle = area->handle;
    return rdma;
}

static void write_to_memory_that_is_gone(void **state)
{
    static const size_t sizes[WAYS] = {32, 64, 20000}; /* all bytes fail; one packet; several */
    struct end a, b;
    struct area area;
    VIP_DESCRIPTOR *write;
    VIP_ERROR_DESCRIPTOR error;

    for (unsigned way = 0; way < WAYS; way++) {
        pair_with_area(&a, &b, conf_level(state), &area, true);
        write = across(conf_write(&a, 0, 0, sizes[way], &b, 0), &area, sizes[way]);
        area_go(&area, (enum way)way);
        error = conf_provoke(&a, write, &b, VIP_ERROR_RDMAW_DATA, true);
        assert_int_equal(error.ResourceCode, VIP_RESOURCE_VI);
        assert_ptr_equal(error.ViHandle, b.vi);
        assert_ptr_equal(error.NicHandle, b.nic);
        assert_null(error.CQHandle);
        assert_null(error.DescriptorPtr);
        assert_int_equal(error.OpCode, VIP_CONTROL_OP_RDMAWRITE);
        if (a.level == VIP_SERVICE_UNRELIABLE)
            assert_int_equal(write->CS.Status & VIP_STATUS_ERROR_MASK, 0);
        if (a.level == VIP_SERVICE_RELIABLE_RECEPTION)
            assert_int_equal(write->CS.Status & VIP_STATUS_ERROR_MASK, VIP_STATUS_TRANSPORT_ERROR);
        outcome(&a, &b);
        area_free(&area, &b);
        conf_close_pair(&a, &b);
    }
}

static void write_with_immediate_to_memory_that_is_gone(void **state)
{
    struct end a, b;
    struct area area;
    VIP_DESCRIPTOR *write, *recv;

    for (unsigned way = 0; way < WAYS; way++) {
        pair_with_area(&a, &b, conf_level(state), &area, true);
        write = across(conf_write(&a, 0, 0, 3000, &b, 0), &area, 3000);
        write->CS.Control |= VIP_CONTROL_IMMEDIATE;
        write->CS.ImmediateData = 0x12345678;
        recv = conf_empty(&b, 1);
        conf_post_recv(&b, recv);
        area_go(&area, (enum way)way);
        CONF_RETURNS(VIP_DESCRIPTOR_ERROR, conf_carry(&a, write, &b, recv, NULL));
        assert_int_equal(recv->CS.Status & VIP_STATUS_ERROR_MASK, VIP_STATUS_TRANSPORT_ERROR);
        assert_int_equal(recv->CS.Status & VIP_STATUS_OP_MASK, VIP_STATUS_OP_REMOTE_RDMA_WRITE);
        outcome(&a, &b);
        for (unsigned i = 0; i < conf_error_count(&b) && i < CONF_ERRORS; i++)
            assert_int_not_equal(b.errors[i].ErrorCode, VIP_ERROR_RDMAW_DATA);
        area_free(&area, &b);
        conf_close_pair(&a, &b);
    }
}

/* True if the callback gets this error within 0.1 s. A message may be lost, so do not wait long. */
static bool heard(const struct end *end, VIP_ERROR_CODE code)
{
    uint64_t started = conf_now_ns(), pause = 0;

    while (conf_now_ns() - started < 100000000u) {
        for (unsigned i = 0; i < conf_error_count(end) && i < CONF_ERRORS; i++)
            if (end->errors[i].ErrorCode == code)
                return true;
        conf_pause(&pause);
    }
    return false;
}

/* Only the write to inaccessible memory must fail. Other writes in the same packet must work. */
static void writes_beside_it_are_in_place(void **state)
{
    struct end a, b;
    struct area area;
    VIP_DESCRIPTOR *write, *got;

    pair_with_area(&a, &b, conf_level(state), &area, true);
    area_go(&area, CUT_SHORT);
    memset(a.buffer, 0x5A, 64);
    for (unsigned n = 0; n < 60 && (n == 0 || !heard(&b, VIP_ERROR_RDMAW_DATA)); n++) {
        for (unsigned i = 0; i < 3; i++) {
            write = conf_write(&a, i, 0, 64, &b, 0);
            write->DS[0].Remote.Data.Address = i == 1 ? area.at + HOLE : area.at + i * 100;
            write->DS[0].Remote.Handle = area.handle;
            conf_post_send(&a, write);
        }
        for (unsigned i = 0; i < 3; i++) {
            VipSendWait(a.vi, CONF_LIMIT_MS, &got);
            assert_ptr_equal(got, conf_at(&a, i));
        }
    }
    conf_await_error(&b, VIP_ERROR_RDMAW_DATA);
    if (reliable(a.level) || !conf_lossy())
        assert_int_equal(area.at[63], 0x5A);
    outcome(&a, &b);
    if (!reliable(a.level) && !conf_lossy())
        assert_int_equal(area.at[200], 0x5A);
    area_free(&area, &b);
    conf_close_pair(&a, &b);
}

static void read_of_memory_that_is_gone(void **state)
{
    struct end a, b;
    struct area area;
    VIP_DESCRIPTOR *read;
    VIP_ERROR_DESCRIPTOR error;

    for (unsigned way = 0; way < WAYS; way++) {
        pair_with_area(&a, &b, conf_level(state), &area, true);
        read = across(conf_read(&a, 0, 0, 3000, &b, 0), &area, 3000);
        area_go(&area, (enum way)way);
        error = conf_provoke(&a, read, &b, VIP_ERROR_RDMAR_PROT, true);
        assert_ptr_equal(error.ViHandle, b.vi);
        assert_int_equal(read->CS.Status & VIP_STATUS_ERROR_MASK, VIP_STATUS_RDMA_PROT_ERROR);
        outcome(&a, &b);
        area_free(&area, &b);
        conf_close_pair(&a, &b);
    }
}

static void send_from_memory_that_is_gone(void **state)
{
    struct end a, b;
    struct area area;
    VIP_DESCRIPTOR *send;

    for (unsigned way = 0; way < WAYS; way++) {
        pair_with_area(&a, &b, conf_level(state), &area, false);
        area_go(&area, (enum way)way);
        send = conf_desc(&a, 0, 0, 3000);
        send->DS[0].Local.Data.Address = area.at + HOLE - 1;
        send->DS[0].Local.Handle = area.handle;
        conf_post_send(&a, send);
        assert_int_equal(conf_take(&a, false, send), VIP_STATUS_PROTECTION_ERROR);
        outcome(&a, &b);
        area_free(&area, &a);
        conf_close_pair(&a, &b);
    }
}

/* Receive into memory that becomes inaccessible before the post or, if `late`, after the post. */
static void receive(VIP_RELIABILITY_LEVEL level, enum way way, bool late)
{
    struct end a, b;
    struct area area;
    VIP_DESCRIPTOR *send, *recv;

    pair_with_area(&a, &b, level, &area, true);
    if (!late)
        area_go(&area, way);
    send = conf_desc(&a, 0, 0, 3000);
    recv = conf_desc(&b, 0, 0, 3000);
    recv->DS[0].Local.Data.Address = area.at + HOLE - 1;
    recv->DS[0].Local.Handle = area.handle;
    conf_post_recv(&b, recv);
    if (late)
        area_go(&area, way);
    CONF_RETURNS(VIP_DESCRIPTOR_ERROR, conf_carry(&a, send, &b, recv, NULL));
    assert_int_equal(recv->CS.Status & VIP_STATUS_ERROR_MASK, VIP_STATUS_PROTECTION_ERROR);
    assert_int_equal(recv->CS.Status & VIP_STATUS_OP_MASK, VIP_STATUS_OP_RECEIVE);
    if (!late && level == VIP_SERVICE_RELIABLE_RECEPTION)
        assert_int_equal(send->CS.Status & VIP_STATUS_ERROR_MASK, VIP_STATUS_REMOTE_DESC_ERROR);
    if (late)
        conf_alive(&a, &b);
    else
        outcome(&a, &b);
    area_free(&area, &b);
    conf_close_pair(&a, &b);
}

static void receive_into_memory_that_is_gone(void **state)
{
    for (unsigned way = 0; way < WAYS; way++)
        receive(conf_level(state), (enum way)way, false);
}

static void receive_into_memory_that_goes(void **state)
{
    for (unsigned way = 0; way < WAYS; way++)
        receive(conf_level(state), (enum way)way, true);
}

/* The VI loses the memory of a posted descriptor. `how`: 0 the region is deregistered, 1 the memory
 * is also unmapped, 2 the region gets another tag. `cq`: the VI has a CQ. VipRecvDone returns the
 * descriptor, no call writes to its memory, and the callback gets an error. */
static void completion(bool cq, unsigned how)
{
    struct end a;
    VIP_PROTECTION_HANDLE tag[2];
    VIP_MEM_ATTRIBUTES mem = {NULL, VIP_FALSE, VIP_FALSE};
    VIP_VI_ATTRIBUTES attrs = {VIP_SERVICE_UNRELIABLE, 4096, NULL, NULL, VIP_FALSE, VIP_FALSE};
    VIP_DESCRIPTOR *desc, *got;
    VIP_ERROR_DESCRIPTOR error;
    VIP_MEM_HANDLE handle;

    conf_open(&a, 'A');
    if (cq)
        CONF_OK(VipCreateCQ(a.nic, 16, &a.cq));
    CONF_OK(VipCreatePtag(a.nic, &tag[0]));
    CONF_OK(VipCreatePtag(a.nic, &tag[1]));
    attrs.Ptag = mem.Ptag = tag[0];
    CONF_OK(VipCreateVi(a.nic, &attrs, a.cq, a.cq, &a.vi));
    desc = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal((void *)desc, MAP_FAILED);
    CONF_OK(VipRegisterMem(a.nic, desc, 4096, &mem, &handle));
    CONF_OK(VipPostRecv(a.vi, desc, handle));
    mem.Ptag = tag[1];
    if (how == 2)
        CONF_OK(VipSetMemAttributes(a.nic, desc, handle, &mem));
    else
        CONF_OK(VipDeregisterMem(a.nic, desc, handle));
    if (how == 1)
        munmap(desc, 4096);
    CONF_OK(VipDisconnect(a.vi));
    CONF_RETURNS(VIP_DESCRIPTOR_ERROR, VipRecvDone(a.vi, &got));
    assert_ptr_equal(got, desc);
    if (how != 1)
        assert_int_equal(desc->CS.Status, 0);
    error = conf_await_error(&a, VIP_ERROR_COMP_PROT);
    assert_int_equal(error.ResourceCode, cq ? VIP_RESOURCE_CQ : VIP_RESOURCE_VI);
    assert_ptr_equal(error.CQHandle, a.cq);
    assert_ptr_equal(error.ViHandle, a.vi);
    assert_ptr_equal(error.NicHandle, a.nic);
    assert_ptr_equal(error.DescriptorPtr, desc);
    if (how != 1)
        munmap(desc, 4096);
    CONF_RETURNS(VIP_DESCRIPTOR_ERROR, VipRecvDone(a.vi, &got));
    assert_null(got);
    conf_close(&a);
}

static void completion_errors_name_the_operation(void **state)
{
    struct end a;
    VIP_ERROR_DESCRIPTOR error;
    VIP_DESCRIPTOR *desc, *got;
    VIP_MEM_HANDLE handle;

    (void)state;
    conf_ready(&a, 'A', VIP_SERVICE_RELIABLE_DELIVERY);
    for (unsigned i = 0; i < 3; i++) {
        /* The descriptor is flushed at once, because the VI is Idle. */
        desc = i == VIP_CONTROL_OP_SENDRECV ? conf_desc(&a, 0, 0, 64)
                                            : conf_write(&a, 0, 0, 64, &a, 0);
        desc->CS.Control = (VIP_UINT16)i;
        CONF_OK(VipRegisterMem(a.nic, a.memory, 4096, NULL, &handle));
        conf_forget_errors(&a);
        CONF_OK(VipPostSend(a.vi, desc, handle));
        CONF_OK(VipDeregisterMem(a.nic, a.memory, handle));
        CONF_RETURNS(VIP_DESCRIPTOR_ERROR, VipSendWait(a.vi, CONF_LIMIT_MS, &got));
        error = conf_await_error(&a, VIP_ERROR_COMP_PROT);
        assert_ptr_equal(error.DescriptorPtr, desc);
        assert_int_equal(error.OpCode, i);
    }
    conf_close(&a);
}

static void completion_in_a_region_that_is_gone(void **state)
{
    for (unsigned how = 0; how < 3; how++)
        completion(conf_arg(state) != 0, how);
}

/* Other regions may be registered and deregistered while descriptors are posted. */
static void completions_beside_it_are_written(void **state)
{
    struct end a, b;
    VIP_MEM_HANDLE handle;

    conf_pair(&a, &b, conf_level(state));
    for (unsigned i = 0; i < 20; i++) {
        conf_post_recv(&b, conf_desc(&b, 0, 0, 100));
        CONF_OK(VipRegisterMem(b.nic, b.buffer, 1000, NULL, &handle));
        CONF_OK(VipDeregisterMem(b.nic, b.buffer, handle));
        CONF_OK(conf_carry(&a, conf_desc(&a, 0, 0, 50), &b, conf_at(&b, 0), NULL));
        assert_int_equal(conf_at(&b, 0)->CS.Length, 50);
    }
    assert_int_equal(conf_error_count(&b), 0);
    conf_close_pair(&a, &b);
}

static const struct conf_test tests[] = {
    CONF_DEACH(
        "3.6", CONF_FULL, write_to_memory_that_is_gone,
        "RDMA Write whose data the target's memory does not take: VIP_ERROR_RDMAW_DATA to the "
        "callback, with VI and operation; breaks if reliable; Reception: TRANSPORT_ERROR at "
        "the initiator"),
    CONF_DEACH("3.6", CONF_FULL, write_with_immediate_to_memory_that_is_gone,
               "the same with immediate data: TRANSPORT_ERROR in the consumed receive, no callback "
               "of it"),
    CONF_DEACH("3.6", CONF_FULL, writes_beside_it_are_in_place,
               "of several RDMA Writes only the one whose data was not taken fails"),
    CONF_DRELIABLE("3.6", CONF_FULL, read_of_memory_that_is_gone,
                   "RDMA Read of memory that cannot be read any more: as of memory not allowed"),
    CONF_DEACH(
        "3.6", CONF_FULL, send_from_memory_that_is_gone,
        "send from memory that cannot be read any more: PROTECTION_ERROR; goes on or breaks"),
    CONF_DEACH(
        "3.6", CONF_FULL, receive_into_memory_that_is_gone,
        "receive posted into memory that cannot be written any more: PROTECTION_ERROR; dropped "
        "or breaks; Reception: REMOTE_DESC_ERROR at the sender"),
    CONF_DEACH("3.6", CONF_FULL, receive_into_memory_that_goes,
               "receive whose memory goes while it is posted: PROTECTION_ERROR when it is taken"),
    CONF_DN(
        "3.9", CONF_FULL, completion_in_a_region_that_is_gone, "vi", 0,
        "completion of a descriptor whose region is gone: VIP_ERROR_COMP_PROT, nothing is written "
        "there; without a CQ it names the VI"),
    CONF_DN("3.9", CONF_FULL, completion_in_a_region_that_is_gone, "cq", 1,
            "completion of a descriptor whose region is gone: VIP_ERROR_COMP_PROT names the CQ"),
    CONF_EACH("3.9", CONF_FULL, completions_beside_it_are_written,
              "regions that come and go do not concern descriptors elsewhere"),
    CONF_DT("1.9", CONF_FUNCTIONAL, completion_errors_name_the_operation,
            "OpCode of VIP_ERROR_COMP_PROT is the descriptor's operation"),
};

CONF_MAIN(tests)
