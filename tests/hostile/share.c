/*
 * Compares a victim's speed beside an attacker with its speed beside a control. The control is a
 * program that only uses as much processor time as the attacker. Time is divided into short slots.
 * In each slot attacker or control runs, and the other is stopped (SIGSTOP), in the order control,
 * attack, attack, control, ... Other load of the machine changes more slowly, so it hardly changes
 * the ratio of two neighbouring slots.
 *
 * The victim's progress is the number of messages that its VIs have completed, as its vipd reports
 * it. Asking vipd costs some hundred microseconds in both kinds of slots.
 *
 * usage: share VICTIM_PID CONTROL_PID ATTACK_PID PAIRS SLOT_MS SETTLE_MS
 * share waits SETTLE_MS before each slot, until effects of the earlier slot are over. It prints a
 * line for each pair of slots: messages per second beside the control and beside the attacker.
 * CONTROL_PID 0: the victim runs alone instead of beside the control. Exit status 1 if the victim
 * has a connection for less than half of the pairs.
 */
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "hostile/raw.h"
#include "proto/status.h"

static double now_s(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

struct progress {
    uint64_t victim, messages;
    bool found;
};

static void take_vis(void *ctx, const Vip__ShowReply *page)
{
    struct progress *ret = ctx;

    for (size_t i = 0; i < page->n_vis; i++) {
        if (page->vis[i]->pid != ret->victim)
            continue;
        ret->found = true;
        ret->messages += page->vis[i]->tx_messages;
    }
}

/* Count the victim's completed messages. false: the victim has no VI, or vipd does not answer. */
static bool progress(int sock, uint64_t victim, uint64_t *ret)
{
    struct progress all = {.victim = victim};
    bool answered = raw_view(sock, VIP__SHOW_REQUEST__WHAT__VI, take_vis, &all);

    *ret = all.messages;
    return answered && all.found;
}

/* The victim's messages per second while process `runs` runs (0: none). Negative: one has ended. */
static double slot(int sock, uint64_t victim, pid_t runs, unsigned ms, unsigned settle_ms)
{
    uint64_t before, after;
    double start, took;

    if (runs && kill(runs, SIGCONT) < 0)
        return -1;
    (void)poll(NULL, 0, (int)settle_ms);
    if (!progress(sock, victim, &before))
        return -1;
    start = now_s();
    (void)poll(NULL, 0, (int)ms);
    if (!progress(sock, victim, &after))
        return -1;
    took = now_s() - start;
    if (runs && kill(runs, SIGSTOP) < 0)
        return -1;
    return (double)(after - before) / took;
}

int main(int argc, char **argv)
{
    unsigned pairs, ms, settle_ms;
    pid_t control, attack;
    uint64_t victim, messages;
    char path[108];
    int sock;

    if (argc != 7 || vip_control_socket_path(path, sizeof(path)) < 0) {
        fprintf(stderr, "usage: share VICTIM_PID CONTROL_PID ATTACK_PID PAIRS SLOT_MS SETTLE_MS\n");
        return 2;
    }
    victim = strtoull(argv[1], NULL, 0);
    control = (pid_t)strtol(argv[2], NULL, 0);
    attack = (pid_t)strtol(argv[3], NULL, 0);
    pairs = (unsigned)strtoul(argv[4], NULL, 0);
    ms = (unsigned)strtoul(argv[5], NULL, 0);
    settle_ms = (unsigned)strtoul(argv[6], NULL, 0);
    sock = vip_control_connect(path);
    if (sock < 0)
        return 1;
    if (control)
        (void)kill(control, SIGSTOP);
    (void)kill(attack, SIGSTOP);
    for (unsigned i = 0; i < 1000 && (!progress(sock, victim, &messages) || !messages); i++)
        (void)poll(NULL, 0, 10);
    for (unsigned i = 0; i < pairs; i++) {
        pid_t first = i % 2 ? attack : control, second = i % 2 ? control : attack;
        double a = slot(sock, victim, first, ms, settle_ms),
               b = slot(sock, victim, second, ms, settle_ms);

        if (a < 0 || b < 0) {
            fprintf(stderr, "share: the victim has no connection after %u of %u pairs\n", i, pairs);
            return i * 2 < pairs; /* half the pairs suffice: a slow vipd delays the slots */
        }
        printf("%.0f %.0f\n", i % 2 ? b : a, i % 2 ? a : b);
    }
    close(sock);
    return 0;
}
