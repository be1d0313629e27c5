/*
 * Executes the work of two programs on loan for messages, for bench/instructions. One process has
 * both owners, connected by two UDP sockets; it is also both vipd. Time is virtual. So each run
 * executes the same instructions. callgrind counts only the function `measured`, without the kernel.
 *
 * usage: cost_loan BYTES
 * Small messages go back and forth; messages of 64 KiB or more go one way, one after another.
 * Prints the number of messages that `measured` has sent.
 */
#include "unit/loan_ends.h"

#include <stdio.h>

#define MESSAGES       1600u
#define MESSAGES_LARGE 8u
#define LARGE_BYTES    65536u


/* Send a message, and let both ends poll until it has arrived. */
static void message(struct ends *ends, struct end *from, struct end *to, uint32_t bytes)
{
    unsigned before = to->dones;

    receive_bytes(to, 0, bytes);
    send_bytes(from, 0, bytes);
    (void)vipl__loan_post(from->loan, ends->now_ns);
    for (;;) {
        ends->now_ns += 2 * US;
        (void)vipl__loan_turn(to->loan, ends->now_ns);
        for (unsigned i = before; i < to->dones; i++)
            if (to->done[i].queue == VIP_Q_RECV)
                return;
        (void)vipl__loan_turn(from->loan, ends->now_ns);
    }
}

__attribute__((noinline)) void measured(struct ends *ends, uint32_t bytes, unsigned count);
__attribute__((noinline)) void measured(struct ends *ends, uint32_t bytes, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        bool back = bytes < LARGE_BYTES && i % 2;

        message(ends, back ? &ends->b : &ends->a, back ? &ends->a : &ends->b, bytes);
        if (ends->a.dones > DONES / 2)
            ends->a.dones = 0;
        if (ends->b.dones > DONES / 2)
            ends->b.dones = 0;
    }
}

int main(int argc, char **argv)
{
    unsigned long bytes = argc == 2 ? strtoul(argv[1], NULL, 10) : 0;
    unsigned count = bytes < LARGE_BYTES ? MESSAGES : MESSAGES_LARGE;
    struct ends *ends = ends_new();

    if (bytes == 0 || bytes > MEMORY) {
        fprintf(stderr, "usage: cost_loan BYTES   (1 to %u)\n", MEMORY);
        return 2;
    }
    ends_lend(ends);
    for (unsigned i = 0; i < count; i++) /* warm up: windows and tables grow */
        message(ends, i % 2 ? &ends->b : &ends->a, i % 2 ? &ends->a : &ends->b, (uint32_t)bytes);
    ends->a.dones = ends->b.dones = 0;
    measured(ends, (uint32_t)bytes, count);
    printf("%u\n", count);
    ends_free(ends);
    return 0;
}
