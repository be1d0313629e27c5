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

/* Below so many processors, two ends and two vipd take turns; polling must let the others in. */
#define CPUS_PLENTY 4

/* Slots start on cache lines of their own. */
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
 * Every error that matters here also ends a descriptor or a call with an error, where it is reported
 * with its context; the default handler would print each a second time.
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

static int make_memory(struct end *end)
{
    const struct end_args *args = &end->args;
    size_t descs = (args->sends + args->recvs) * sizeof(VIP_DESCRIPTOR);
    size_t slots_off = align_up(descs, 4096);
    VIP_MEM_ATTRIBUTES attrs = {.EnableRdmaWrite = VIP_TRUE,
                                .EnableRdmaRead = args->read ? VIP_TRUE : VIP_FALSE};
    VIP_RETURN rc;

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
    end->send_desc = (VIP_DESCRIPTOR *)(void *)end->memory;
    end->recv_desc = end->send_desc + args->sends;
    end->out = end->memory + slots_off;
    end->in = end->out + args->out_slots * args->slot_bytes;

    rc = VipRegisterMem(end->nic->handle, end->memory, end->memory_bytes, &attrs, &end->handle);
    if (rc != VIP_SUCCESS) {
        end->handle = 0;
        return end_failed(end, "VipRegisterMem", rc);
    }
    return 0;
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
        /* A VI is destroyed only with empty queues; what was posted comes back flushed. */
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
    if (end->handle)
        (void)VipDeregisterMem(end->nic->handle, end->memory, end->handle);
    if (end->memory)
        munmap(end->memory, end->memory_bytes);
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

int end_post_send(struct end *end, const struct end_message *message)
{
    VIP_DESCRIPTOR *desc = &end->send_desc[end->sends_posted % end->args.sends];
    unsigned seg = 0;
    VIP_RETURN rc;

    memset(desc, 0, sizeof(*desc));
    if (message->write || message->read) {
        desc->CS.Control = message->write ? VIP_CONTROL_OP_RDMAWRITE : VIP_CONTROL_OP_RDMAREAD;
        desc->DS[seg].Remote.Data.AddressBits = message->remote_addr;
        desc->DS[seg].Remote.Handle = message->remote_handle;
        seg++;
    }
    if (message->has_imm) {
        desc->CS.Control |= VIP_CONTROL_IMMEDIATE;
        desc->CS.ImmediateData = message->imm;
    }
    if (message->len_bytes > 0) {
        desc->DS[seg].Local.Data.Address = (VIP_PVOID)(uintptr_t)message->bytes;
        desc->DS[seg].Local.Handle = end->handle;
        desc->DS[seg].Local.Length = message->len_bytes;
        seg++;
    }
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
    VIP_DESCRIPTOR *desc = &end->recv_desc[index];
    VIP_RETURN rc;

    memset(desc, 0, sizeof(*desc));
    if (with_buffer) {
        desc->DS[0].Local.Data.Address = end_in(end, index);
        desc->DS[0].Local.Handle = end->handle;
        desc->DS[0].Local.Length = (VIP_UINT32)end->args.mtu_bytes;
        desc->CS.SegCount = 1;
        desc->CS.Length = (VIP_UINT32)end->args.mtu_bytes;
    }
    rc = VipPostRecv(end->vi, desc, end->handle);
    if (rc != VIP_SUCCESS)
        return end_failed(end, "VipPostRecv", rc);
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
