/*
 * A VIPL program for bench/instructions: one process with two VIs, connected to each other over the
 * NIC vip0. It posts a batch of messages, sleeps until vipd has processed them, and takes the
 * completions. So almost every Done call finds a completion. Therefore the number of instructions
 * of a call is the same in each run, also on a busy machine.
 *
 * usage: cost_calls vipd|ring BYTES [--cq]
 * vipd|ring: the way of the messages; the configuration of vipd must agree with it.
 * BYTES: size of a message. --cq: take completions from a completion queue.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <vipl.h>
#include <vipl_ext.h>

#define BATCH       50
#define BATCH_LARGE 4
#define LARGE_BYTES 65536
#define BATCHES     20

/* Time, in us, between two checks for the last message of a batch. After its arrival the program
 * waits once more for this time, so that vipd can complete the batch. */
#define BATCH_US 20000

struct program {
    VIP_NIC_HANDLE nic;
    VIP_NIC_ATTRIBUTES attrs;
    VIP_CQ_HANDLE cq;
    VIP_VI_HANDLE from, to;
    VIP_MEM_HANDLE handle;
    unsigned batch;  /* number of messages in a batch */
    VIP_ULONG bytes; /* bytes of a message */
    bool ring;       /* messages use the ring; they reach memory only in a call of libvipl */
    struct memory {
        VIP_DESCRIPTOR send[BATCH], recv[BATCH];
        char out[]; /* a message to send, then `batch` places for messages that arrive */
    } * memory;
};

static bool failed(const char *call, VIP_RETURN rc)
{
    if (rc != VIP_SUCCESS)
        fprintf(stderr, "cost_calls: %s: code %d: %s\n", call, (int)rc, VipxLastError());
    return rc != VIP_SUCCESS;
}

/* Write this NIC's address, with the discriminator of this program, to `raw`. */
static void address(const struct program *program, char *raw)
{
    VIP_NET_ADDRESS *net = (VIP_NET_ADDRESS *)(void *)raw;

    net->HostAddressLen = program->attrs.NicAddressLen;
    net->DiscriminatorLen = 4;
    memcpy(net->HostAddress, program->attrs.LocalNicAddress, net->HostAddressLen);
    memcpy(net->HostAddress + net->HostAddressLen, "inst", 4);
}

static void *accept_main(void *arg)
{
    struct program *program = arg;
    char local[512] = {0}, remote[512] = {0};
    VIP_VI_ATTRIBUTES attrs;
    VIP_CONN_HANDLE request;

    address(program, local);
    if (!failed("VipConnectWait",
                VipConnectWait(program->nic, (VIP_NET_ADDRESS *)(void *)local, 30000,
                               (VIP_NET_ADDRESS *)(void *)remote, &attrs, &request)))
        (void)failed("VipConnectAccept", VipConnectAccept(request, program->to));
    return NULL;
}

static bool connect_both(struct program *program)
{
    char local[512] = {0}, remote[512] = {0};
    VIP_VI_ATTRIBUTES attrs;
    VIP_RETURN rc = VIP_NO_MATCH;
    pthread_t thread;

    if (pthread_create(&thread, NULL, accept_main, program) != 0)
        return false;
    address(program, local);
    address(program, remote);
    for (unsigned tries = 0; tries < 1000 && rc == VIP_NO_MATCH; tries++) {
        usleep(10000); /* the other thread may not yet wait for a request */
        rc = VipConnectRequest(program->from, (VIP_NET_ADDRESS *)(void *)local,
                               (VIP_NET_ADDRESS *)(void *)remote, 30000, &attrs);
    }
    pthread_join(thread, NULL);
    return !failed("VipConnectRequest", rc);
}

static bool set_up(struct program *program, bool with_cq)
{
    VIP_VI_ATTRIBUTES attrs = {.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY,
                               .MaxTransferSize = program->bytes};
    VIP_MEM_ATTRIBUTES mem = {0};
    VIP_ULONG all = sizeof(*program->memory) + (1 + program->batch) * program->bytes;
    void *memory = NULL;

    if (failed("VipOpenNic", VipOpenNic("vip0", &program->nic)) ||
        failed("VipQueryNic", VipQueryNic(program->nic, &program->attrs)) ||
        failed("VipxAllocMem", VipxAllocMem(all, &memory)) ||
        failed("VipRegisterMem", VipRegisterMem(program->nic, memory, all, &mem, &program->handle)))
        return false;
    program->memory = memory;
    if (with_cq && failed("VipCreateCQ", VipCreateCQ(program->nic, 4 * BATCH, &program->cq)))
        return false;
    return !failed("VipCreateVi",
                   VipCreateVi(program->nic, &attrs, program->cq, program->cq, &program->from)) &&
           !failed("VipCreateVi",
                   VipCreateVi(program->nic, &attrs, program->cq, program->cq, &program->to)) &&
           connect_both(program);
}

/* Wait, without a call of libvipl, until the last message of the batch has arrived. */
static void await_batch(const struct program *program, char number)
{
    const volatile char *last =
        &program->memory->out[(program->batch + 1) * (size_t)program->bytes - 1];

    while (!program->ring && *last != number)
        usleep(BATCH_US);
    usleep(BATCH_US);
}

static bool post_batch(struct program *program, char number)
{
    struct memory *memory = program->memory;

    memory->out[program->bytes - 1] = number;
    for (unsigned i = 0; i < 2 * program->batch; i++) {
        bool recv = i < program->batch;
        VIP_DESCRIPTOR *desc = recv ? &memory->recv[i] : &memory->send[i - program->batch];

        memset(desc, 0, sizeof(*desc));
        desc->CS.SegCount = 1;
        desc->CS.Length = (VIP_UINT32)program->bytes;
        desc->DS[0].Local.Data.Address = memory->out + (recv ? (1 + i) * program->bytes : 0);
        desc->DS[0].Local.Handle = program->handle;
        desc->DS[0].Local.Length = (VIP_UINT32)program->bytes;
        if (recv ? failed("VipPostRecv", VipPostRecv(program->to, desc, program->handle))
                 : failed("VipPostSend", VipPostSend(program->from, desc, program->handle)))
            return false;
    }
    return true;
}

/* Take one completion. A call that finds none costs instructions, too: sleep before the next. */
static bool reap_one(struct program *program, VIP_BOOLEAN recv)
{
    VIP_RETURN rc;
    VIP_VI_HANDLE vi;
    VIP_DESCRIPTOR *desc = NULL;

    while (program->cq && (rc = VipCQDone(program->cq, &vi, &recv)) != VIP_SUCCESS) {
        if (rc != VIP_NOT_DONE && failed("VipCQDone", rc))
            return false;
        usleep(BATCH_US);
    }
    while ((rc = recv ? VipRecvDone(program->to, &desc) : VipSendDone(program->from, &desc)) ==
           VIP_NOT_DONE) {
        usleep(BATCH_US);
    }
    if (failed(recv ? "VipRecvDone" : "VipSendDone", rc))
        return false;
    if (desc->CS.Status & VIP_STATUS_ERROR_MASK) {
        fprintf(stderr, "cost_calls: status %#x\n", (unsigned)desc->CS.Status);
        return false;
    }
    return true;
}

static bool reap_batch(struct program *program)
{
    for (unsigned i = 0; i < 2 * program->batch; i++)
        if (!reap_one(program, i < program->batch))
            return false;
    return true;
}

int main(int argc, char **argv)
{
    static struct program program;

    program.ring = argc > 1 && strcmp(argv[1], "ring") == 0;
    program.bytes = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
    program.batch = program.bytes < LARGE_BYTES ? BATCH : BATCH_LARGE;
    if (program.bytes == 0 || !set_up(&program, argc > 3 && strcmp(argv[3], "--cq") == 0))
        return 1;
    for (unsigned i = 0; i < BATCHES; i++) {
        if (!post_batch(&program, (char)(i + 1)))
            return 1;
        await_batch(&program, (char)(i + 1));
        if (!reap_batch(&program))
            return 1;
    }
    return 0;
}
