/* NIC, VI, memory and posting; see end.h. */
#include "tools/vipperf/end.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <vipl_ext.h>

#include "tools/vipperf/segments.h"

/* With fewer processors, two vipperfs and two vipds share them, so a polling thread must yield. */
#define CPUS_PLENTY 4

/* Each slot starts on its own cache line. */
#define SLOT_ALIGN 64

static const VIP_RELIABILITY_LEVEL levels[] = {
    [PLAN_UD] = VIP_SERVICE_UNRELIABLE,
    [PLAN_RD] = VIP_SERVICE_RELIABLE_DELIVERY,
    [PLAN_RR] = VIP_SERVICE_RELIABLE_RECEPTION,
};

const char *end_rc_name(VIP_RETURN rc)
{
    static const char *const names[] = {
        "VIP_SUCCESS",
        "VIP_NOT_DONE",
        "VIP_INVALID_PARAMETER",
        "VIP_ERROR_RESOURCE",
        "VIP_TIMEOUT",
        "VIP_REJECT",
        "VIP_INVALID_RELIABILITY_LEVEL",
        "VIP_INVALID_MTU",
        "VIP_INVALID_QOS",
        "VIP_INVALID_PTAG",
        "VIP_INVALID_RDMAREAD",
        "VIP_DESCRIPTOR_ERROR",
        "VIP_INVALID_STATE",
        "VIP_ERROR_NAMESERVICE",
        "VIP_NO_MATCH",
        "VIP_NOT_REACHABLE",
        "VIP_ERROR_NOT_SUPPORTED",
    };

    return (unsigned)rc < sizeof(names) / sizeof(*names) ? names[rc] : "unknown code";
}

uint64_t end_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void describe(char *why, size_t why_bytes, const char *call, VIP_RETURN rc)
{
    const char *reason = VipxLastError();

    snprintf(why, why_bytes, "%s: %s%s%s", call, end_rc_name(rc), *reason ? ": " : "", reason);
}

int end_failed(struct end *end, const char *call, VIP_RETURN rc)
{
    describe(end->why, sizeof(end->why), call, rc);
    return -1;
}

/*
 * Ignore asynchronous errors: each relevant error also makes a descriptor or a call fail, which
 * sets end->why. The default handler would print the error a second time.
 */
static void ignore_async_error(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error)
{
    (void)context;
    (void)error;
}

int end_nic_open(struct end_nic *nic, const char *name, char *why, size_t why_bytes)
{
    VIP_RETURN rc;

    *nic = (struct end_nic){0};
    rc = VipOpenNic(name, &nic->handle);
    if (rc != VIP_SUCCESS) {
        nic->handle = NULL;
        describe(why, why_bytes, "VipOpenNic", rc);
        return -1;
    }
    rc = VipQueryNic(nic->handle, &nic->attrs);
    if (rc == VIP_SUCCESS)
        rc = VipErrorCallback(nic->handle, NULL, ignore_async_error);
    if (rc == VIP_SUCCESS)
        rc = VipNSInit(nic->handle, NULL);
    if (rc != VIP_SUCCESS) {
        describe(why, why_bytes, "setting up the NIC", rc);
        end_nic_close(nic);
        return -1;
    }
    return 0;
}

void end_nic_close(struct end_nic *nic)
{
    if (nic->handle)
        (void)VipCloseNic(nic->handle);
    nic->handle = NULL;
}

static size_t align_up(size_t bytes, size_t to)
{
    return (bytes + to - 1) / to * to;
}

/* Make one registration for all memory, or one for the descriptors and one for each slot. */
static int register_memory(struct end *end, size_t slots_off)
{
    const struct end_args *args = &end->args;
    unsigned slots = args->out_slots + args->in_slots;
    VIP_MEM_ATTRIBUTES attrs = {.EnableRdmaWrite = VIP_TRUE,
                                .EnableRdmaRead = args->read ? VIP_TRUE : VIP_FALSE};
    VIP_RETURN rc =
        VipRegisterMem(end->nic->handle, end->memory, args->apart ? slots_off : end->memory_bytes,
                       &attrs, &end->handle);

    if (rc != VIP_SUCCESS) {
        end->handle = 0;
        return end_failed(end, "VipRegisterMem", rc);
    }
    if (!args->apart)
        return 0;
    end->slot_handles = calloc(slots, sizeof(*end->slot_handles));
    if (!end->slot_handles) {
        snprintf(end->why, sizeof(end->why), "no memory for the handles of %u buffers", slots);
        return -1;
    }
    while (end->slots_registered < slots) {
        unsigned i = end->slots_registered;

        rc = VipRegisterMem(end->nic->handle, end->out + i * args->slot_bytes, args->slot_bytes,
                            &attrs, &end->slot_handles[i]);
        if (rc != VIP_SUCCESS)
            return end_failed(end, "VipRegisterMem", rc);
        end->slots_registered++;
    }
    return 0;
}

/* A descriptor has a control segment, an address segment and the data segments. */
static unsigned desc_shift_for(unsigned segments)
{
    size_t bytes = offsetof(VIP_DESCRIPTOR, DS) +
                   (1 + (segments ? segments : 1)) * sizeof(VIP_DESCRIPTOR_SEGMENT);
    unsigned shift = 0;

    while (1u << shift < bytes || 1u << shift < VIP_DESCRIPTOR_ALIGNMENT)
        shift++;
    return shift;
}

static int make_memory(struct end *end)
{
    const struct end_args *args = &end->args;
    size_t descs, slots_off;

    end->desc_shift = desc_shift_for(args->segments);
    descs = (size_t)(args->sends + args->recvs) << end->desc_shift;
    slots_off = align_up(descs, 4096);
    end->args.slot_bytes = align_up(args->slot_bytes, SLOT_ALIGN);
    end->memory_bytes =
        align_up(slots_off + (args->out_slots + args->in_slots) * args->slot_bytes, 4096);
    end->memory =
        mmap(NULL, end->memory_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (end->memory == MAP_FAILED) {
        end->memory = NULL;
        snprintf(end->why, sizeof(end->why), "no memory for %zu bytes of buffers",
                 end->memory_bytes);
        return -1;
    }
    end->send_desc = end->memory;
    end->recv_desc = end->send_desc + ((size_t)args->sends << end->desc_shift);
    end->out = end->memory + slots_off;
    end->in = end->out + args->out_slots * args->slot_bytes;
    if (args->segments > 1) {
        end->flat = malloc(args->slot_bytes);
        if (!end->flat) {
            snprintf(end->why, sizeof(end->why), "no memory for a message of %zu bytes",
                     args->slot_bytes);
            return -1;
        }
    }
    return register_memory(end, slots_off);
}

int end_make(struct end *end, const struct end_nic *nic, const struct end_args *args)
{
    VIP_VI_ATTRIBUTES attrs = {.ReliabilityLevel = levels[args->level],
                               .MaxTransferSize = args->mtu_bytes,
                               .EnableRdmaWrite = VIP_TRUE,
                               .EnableRdmaRead = args->read ? VIP_TRUE : VIP_FALSE};
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    VIP_RETURN rc;

    *end = (struct end){.nic = nic, .args = *args};
    end->yield_cpus = cpus > 0 && cpus < CPUS_PLENTY;
    if (make_memory(end) < 0)
        return -1;
    if (args->cq) {
        rc = VipCreateCQ(nic->handle, args->sends + args->recvs, &end->cq);
        if (rc != VIP_SUCCESS) {
            end->cq = NULL;
            return end_failed(end, "VipCreateCQ", rc);
        }
    }
    rc = VipCreateVi(nic->handle, &attrs, end->cq, end->cq, &end->vi);
    if (rc != VIP_SUCCESS) {
        end->vi = NULL;
        return end_failed(end, "VipCreateVi", rc);
    }
    return 0;
}

void end_free(struct end *end)
{
    VIP_DESCRIPTOR *desc;

    if (end->vi) {
        (void)VipDisconnect(end->vi);
        /* VipDisconnect flushed all descriptors. Dequeue them: VipDestroyVi needs empty queues. */
        do {
            desc = NULL;
            (void)VipSendDone(end->vi, &desc);
        } while (desc);
        do {
            desc = NULL;
            (void)VipRecvDone(end->vi, &desc);
        } while (desc);
        (void)VipDestroyVi(end->vi);
    }
    if (end->cq)
        (void)VipDestroyCQ(end->cq);
    while (end->slots_registered > 0) {
        unsigned i = --end->slots_registered;

        (void)VipDeregisterMem(end->nic->handle, end->out + i * end->args.slot_bytes,
                               end->slot_handles[i]);
    }
    if (end->handle)
        (void)VipDeregisterMem(end->nic->handle, end->memory, end->handle);
    if (end->memory)
        munmap(end->memory, end->memory_bytes);
    free(end->slot_handles);
    free(end->flat);
    end->slot_handles = NULL;
    end->flat = NULL;
    end->vi = NULL;
    end->cq = NULL;
    end->handle = 0;
    end->memory = NULL;
}

uint8_t *end_out(const struct end *end, uint64_t index)
{
    return end->out + index % end->args.out_slots * end->args.slot_bytes;
}

uint8_t *end_in(const struct end *end, uint64_t index)
{
    return end->in + index % end->args.in_slots * end->args.slot_bytes;
}

VIP_MEM_HANDLE end_in_handle(const struct end *end, unsigned index)
{
    return end->slot_handles ? end->slot_handles[end->args.out_slots + index] : end->handle;
}

/* The memory handle of the slot that contains these bytes. */
static VIP_MEM_HANDLE handle_of(const struct end *end, const uint8_t *bytes)
{
    if (!end->slot_handles)
        return end->handle;
    return end->slot_handles[(size_t)(bytes - end->out) / end->args.slot_bytes];
}

/*
 * Write data segments for the `len_bytes` bytes at `bytes`, in at most `wanted` segments. Returns
 * the number of segments.
 */
static unsigned put_segments(const struct end *end, VIP_DESCRIPTOR_SEGMENT *segments,
                             const uint8_t *bytes, size_t len_bytes, unsigned wanted)
{
    unsigned count = wanted > 1 ? segments_count(len_bytes, wanted) : 1;
    struct segments cut = {.least_bytes = len_bytes};
    VIP_MEM_HANDLE handle;

    if (len_bytes == 0)
        return 0;
    if (count > 1)
        cut = segments_cut(len_bytes, count);
    handle = handle_of(end, bytes);
    for (unsigned i = 0; i < count; i++) {
        struct segment piece = segments_next(&cut);

        segments[i].Local.Data.Address = (VIP_PVOID)(uintptr_t)(bytes + piece.offset);
        segments[i].Local.Handle = handle;
        segments[i].Local.Length = (VIP_UINT32)piece.len_bytes;
    }
    return count;
}

/* Descriptor `index` of the array at `first`. */
static VIP_DESCRIPTOR *desc_at(const struct end *end, uint8_t *first, uint64_t index)
{
    return (VIP_DESCRIPTOR *)(void *)(first + (index << end->desc_shift));
}

/*
 * The segments of a descriptor. The member DS is not used, because a descriptor may have more
 * segments than the array DS.
 */
static VIP_DESCRIPTOR_SEGMENT *segments_of(VIP_DESCRIPTOR *desc)
{
    return (VIP_DESCRIPTOR_SEGMENT *)(void *)((uint8_t *)desc + offsetof(VIP_DESCRIPTOR, DS));
}

int end_post_send(struct end *end, const struct end_message *message)
{
    VIP_DESCRIPTOR *desc = desc_at(end, end->send_desc, end->sends_posted % end->args.sends);
    VIP_DESCRIPTOR_SEGMENT *segments = segments_of(desc);
    unsigned seg = 0;
    VIP_RETURN rc;

    memset(desc, 0, sizeof(*desc));
    if (message->write || message->read) {
        desc->CS.Control = message->write ? VIP_CONTROL_OP_RDMAWRITE : VIP_CONTROL_OP_RDMAREAD;
        segments[seg].Remote.Data.AddressBits = message->remote_addr;
        segments[seg].Remote.Handle = message->remote_handle;
        seg++;
    }
    if (message->has_imm) {
        desc->CS.Control |= VIP_CONTROL_IMMEDIATE;
        desc->CS.ImmediateData = message->imm;
    }
    seg += put_segments(end, segments + seg, message->bytes, message->len_bytes, message->segments);
    desc->CS.SegCount = (VIP_UINT16)seg;
    desc->CS.Length = message->len_bytes;
    rc = VipPostSend(end->vi, desc, end->handle);
    if (rc != VIP_SUCCESS)
        return end_failed(end, "VipPostSend", rc);
    end->sends_posted++;
    return 0;
}

int end_post_recv(struct end *end, unsigned index, bool with_buffer)
{
    VIP_DESCRIPTOR *desc = desc_at(end, end->recv_desc, index);
    const struct end_args *args = &end->args;
    size_t bytes = args->recv_bytes ? args->recv_bytes : args->mtu_bytes;
    VIP_RETURN rc;

    memset(desc, 0, sizeof(*desc));
    if (with_buffer) {
        desc->CS.SegCount =
            (VIP_UINT16)put_segments(end, segments_of(desc), end_in(end, end->recvs_posted), bytes,
                                     args->scatter ? args->segments : 1);
        desc->CS.Length = (VIP_UINT32)bytes;
    }
    rc = VipPostRecv(end->vi, desc, end->handle);
    if (rc != VIP_SUCCESS)
        return end_failed(end, "VipPostRecv", rc);
    end->recvs_posted++;
    return 0;
}

void end_relax(const struct end *end)
{
    if (end->yield_cpus)
        sched_yield();
#if defined(__x86_64__) || defined(__i386__)
    else
        __builtin_ia32_pause();
#endif
}
