/*
 * Executes vipd's work for messages, for bench/instructions. One process has the NICs, the
 * applications and a lossless network in memory. Time is virtual; there is no other process. So
 * each run executes the same instructions. callgrind counts only the function `measured`.
 *
 * usage: cost_nic hosts|host BYTES
 * hosts: two NICs with an application each; host: two applications of one NIC, without a ring.
 * Prints the number of messages that `measured` has sent.
 */
#include "unit/nic_rig.h"

#define MESSAGES       1600
#define MESSAGES_LARGE 8
#define LARGE_BYTES    65536
#define BATCH          16
#define MEMORY_BYTES   (1u << 20)

static struct program {
    struct rig_app *app;
    uint16_t vi;
    struct rig_mem memory;
} from, to;

static struct program program_new(unsigned host)
{
    struct program program = {.app = rig_app(rig_nics[host])};

    program.vi = rig_vi(program.app, VIP_LVL_DELIVERY);
    program.memory = rig_mem(program.app, MEMORY_BYTES, REGISTRY_SHARED);
    return program;
}

static void take(struct program *program, enum vip_queue queue)
{
    struct vip_comp comp = rig_wait_done(program->app, program->vi, queue);

    if (comp.status & VIP_ST_ERROR_MASK)
        fail_msg("status %#x", (unsigned)comp.status);
}

/* Send `count` messages in batches; the program waits only after each batch. */
static void messages(uint32_t bytes, unsigned count, unsigned batch)
{
    for (unsigned done = 0; done < count; done += batch) {
        for (unsigned i = 0; i < batch; i++)
            rig_post_recv(to.app, to.vi, rig_seg(&to.memory, 0, bytes));
        for (unsigned i = 0; i < batch; i++)
            rig_post_send(from.app, from.vi, rig_seg(&from.memory, 0, bytes));
        for (unsigned i = 0; i < batch; i++)
            take(&to, VIP_Q_RECV);
        for (unsigned i = 0; i < batch; i++)
            take(&from, VIP_Q_SEND);
    }
}

__attribute__((noinline)) void measured(uint32_t bytes, unsigned count, unsigned batch);
__attribute__((noinline)) void measured(uint32_t bytes, unsigned count, unsigned batch)
{
    messages(bytes, count, batch);
}

int main(int argc, char **argv)
{
    unsigned long bytes = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;
    unsigned host = argc == 3 && strcmp(argv[1], "hosts") == 0;

    if (bytes == 0 || bytes > MEMORY_BYTES || (!host && strcmp(argv[1], "host") != 0)) {
        fprintf(stderr, "usage: cost_nic hosts|host BYTES   (1 to %u)\n", MEMORY_BYTES);
        return 2;
    }
    rig_nic(0);
    if (host)
        rig_nic(host);
    from = program_new(0);
    to = program_new(host);
    rig_connect(from.app, from.vi, 0, to.app, to.vi, host);

    unsigned count = bytes < LARGE_BYTES ? MESSAGES : MESSAGES_LARGE;
    unsigned batch = bytes < LARGE_BYTES ? BATCH : 1;

    /* Warm up: windows, tables and the memory of libc grow now, and not in `measured`. */
    messages((uint32_t)bytes, count, batch);
    measured((uint32_t)bytes, count, batch);
    printf("%u\n", count);
    rig_mem_free(&from.memory);
    rig_mem_free(&to.memory);
    rig_teardown(NULL);
    return 0;
}
