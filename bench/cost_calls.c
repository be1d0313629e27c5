/*
 * A VIPL program for bench/instructions: one process with two VIs, connected to each other over the
 * NIC vip0; it sends BATCH * BATCHES messages of 8 bytes. It posts a batch, sleeps until vipd has
 * done the work, and reaps. So almost every Done call finds a completion, and the instructions of a
 * call are the same in every run.
 *
 * usage: cost_calls [--cq]     (completions through a completion queue)
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <vipl.h>
#include <vipl_ext.h>

#define BATCH   50
#define BATCHES 20

/* Sleep, in us, after a batch is posted: far longer than vipd needs for the batch. */
#define BATCH_US 50000

struct program {
    VIP_NIC_HANDLE nic;
    VIP_NIC_ATTRIBUTES attrs;
    VIP_CQ_HANDLE cq;
    VIP_VI_HANDLE from, to;
    VIP_MEM_HANDLE handle;
    struct memory {
        VIP_DESCRIPTOR send[BATCH], recv[BATCH];
        char out[8], in[BATCH][8];
    } * memory;
};

static bool failed(const char *call, VIP_RETURN rc)
{
    if (rc != VIP_SUCCESS)
        fprintf(stderr, "cost_calls: %s: code %d: %s\n", call, (int)rc, VipxLastError());
    return rc != VIP_SUCCESS;
}

/* Write the address of this NIC with our discriminator. */
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
        usleep(10000); /* the other thread may not wait yet */
        rc = VipConnectRequest(program->from, (VIP_NET_ADDRESS *)(void *)local,
                               (VIP_NET_ADDRESS *)(void *)remote, 30000, &attrs);
    }
    pthread_join(thread, NULL);
    return !failed("VipConnectRequest", rc);
}

static bool set_up(struct program *program, bool with_cq)
{
    VIP_VI_ATTRIBUTES attrs = {.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY,
                               .MaxTransferSize = 64};
    VIP_MEM_ATTRIBUTES mem = {0};
    void *memory = NULL;

    if (failed("VipOpenNic", VipOpenNic("vip0", &program->nic)) ||
        failed("VipQueryNic", VipQueryNic(program->nic, &program->attrs)) ||
        failed("VipxAllocMem", VipxAllocMem(sizeof(*program->memory), &memory)) ||
        failed("VipRegisterMem", VipRegisterMem(program->nic, memory, sizeof(*program->memory),
                                                &mem, &program->handle)))
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

static bool post_batch(struct program *program)
{
    for (unsigned i = 0; i < 2 * BATCH; i++) {
        bool recv = i < BATCH;
        VIP_DESCRIPTOR *desc = recv ? &program->memory->recv[i] : &program->memory->send[i - BATCH];

        memset(desc, 0, sizeof(*desc));
        desc->CS.SegCount = 1;
        desc->CS.Length = 8;
        desc->DS[0].Local.Data.Address = recv ? program->memory->in[i] : program->memory->out;
        desc->DS[0].Local.Handle = program->handle;
        desc->DS[0].Local.Length = 8;
        if (recv ? failed("VipPostRecv", VipPostRecv(program->to, desc, program->handle))
                 : failed("VipPostSend", VipPostSend(program->from, desc, program->handle)))
            return false;
    }
    return true;
}

/* Take one completion. On a busy machine vipd may need more than BATCH_US: then sleep again, twice
 * as long each time. bench/instructions also counts the calls that find nothing, so there must be
 * few. */
static bool reap_one(struct program *program, VIP_BOOLEAN recv)
{
    VIP_RETURN rc;
    VIP_VI_HANDLE vi;
    VIP_DESCRIPTOR *desc = NULL;
    useconds_t nap_us = BATCH_US;

    while (program->cq && (rc = VipCQDone(program->cq, &vi, &recv)) != VIP_SUCCESS) {
        if (rc != VIP_NOT_DONE && failed("VipCQDone", rc))
            return false;
        usleep(nap_us);
        nap_us *= 2;
    }
    while ((rc = recv ? VipRecvDone(program->to, &desc) : VipSendDone(program->from, &desc)) ==
           VIP_NOT_DONE) {
        usleep(nap_us);
        nap_us *= 2;
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
    for (unsigned i = 0; i < 2 * BATCH; i++)
        if (!reap_one(program, i < BATCH))
            return false;
    return true;
}

int main(int argc, char **argv)
{
    static struct program program;

    if (!set_up(&program, argc > 1 && strcmp(argv[1], "--cq") == 0))
        return 1;
    for (unsigned i = 0; i < BATCHES; i++) {
        if (!post_batch(&program))
            return 1;
        usleep(BATCH_US);
        if (!reap_batch(&program))
            return 1;
    }
    /*
     * Print the number of successful calls of each kind; a completion queue reports sends and
     * receives.
     */
    printf("%d\n", (program.cq ? 2 : 1) * BATCH * BATCHES);
    return 0;
}
