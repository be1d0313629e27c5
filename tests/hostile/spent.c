/*
 * Compares two times of vipd's own account, for a victim beside an attacker. The first is the
 * processor time that the victim's sessions had while other sessions had work, too. The second is
 * their due time: their part of the time of turns that left work of the victim waiting. The test
 * uses no rate and no wall clock, so the load of the machine only changes the length of the test.
 *
 * usage: spent VIPD_PID NEED_MS LIMIT_S PERCENT PID...    PIDs: the victim's processes
 * Waits until vipd has spent NEED_MS of processor time in turns in which several sessions had work,
 * and until NEED_MS / DUE_PART of it were due to the victim. Then the victim must have had PERCENT
 * of its due time, and vipd's account must not exceed the kernel's account of vipd's thread. Exit
 * status 1 otherwise, or after LIMIT_S of waiting.
 */
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "hostile/raw.h"
#include "proto/status.h"

#define LOOK_MS 100
/* A tenth of NEED_MS must be due to the victim, because a shorter time gives inexact results. With
 * a fortieth, a correct vipd with sanitizers reached only 79 %: 11.6 of 306 ms were due. */
#define DUE_PART 10

struct look {
    uint64_t shared_ns, control_ns; /* of the NIC */
    uint64_t victim_ns, due_ns, victim_slots;
    uint64_t thread_ns; /* processor time of vipd's main thread */
    unsigned sessions;  /* of the victim */
};

static unsigned victims;
static uint64_t victim[16];

static bool is_victim(uint64_t pid)
{
    for (unsigned i = 0; i < victims; i++)
        if (victim[i] == pid)
            return true;
    return false;
}

static void take_clients(void *ctx, const Vip__ShowReply *page)
{
    struct look *ret = ctx;

    for (size_t i = 0; i < page->n_clients; i++) {
        const Vip__ClientRow *row = page->clients[i];

        if (is_victim(row->pid)) {
            ret->sessions++;
            ret->victim_ns += row->shared_ns;
            ret->due_ns += row->due_ns;
            ret->victim_slots += row->slots;
        }
    }
}

static void take_counters(void *ctx, const Vip__ShowReply *page)
{
    struct look *ret = ctx;

    for (size_t i = 0; i < page->n_counters; i++) {
        const Vip__Counter *counter = page->counters[i];

        if (strcmp(counter->name, "shared_time") == 0)
            ret->shared_ns += counter->value;
        else if (strcmp(counter->name, "control_time") == 0)
            ret->control_ns += counter->value;
    }
}

static bool thread_time(const char *vipd, uint64_t *ret)
{
    char path[64], text[128] = "";
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%s/schedstat", vipd);
    file = fopen(path, "r");
    if (!file)
        return false;
    if (fgets(text, sizeof(text), file))
        *ret = strtoull(text, NULL, 10);
    fclose(file);
    return text[0] != '\0';
}

static bool look(int sock, const char *vipd, struct look *ret)
{
    memset(ret, 0, sizeof(*ret));
    return raw_view(sock, VIP__SHOW_REQUEST__WHAT__CLIENT, take_clients, ret) &&
           raw_view(sock, VIP__SHOW_REQUEST__WHAT__STATS, take_counters, ret) &&
           thread_time(vipd, &ret->thread_ns);
}

static int judge(const struct look *a, const struct look *b, unsigned percent)
{
    double shared = (double)(b->shared_ns - a->shared_ns) / 1e6;
    double due = (double)(b->due_ns - a->due_ns) / 1e6;
    double had = (double)(b->victim_ns - a->victim_ns) / 1e6;
    double control = (double)(b->control_ns - a->control_ns) / 1e6;
    double thread = (double)(b->thread_ns - a->thread_ns) / 1e6;
    int bad = 0;

    printf("vipd spent %.0f ms while several had work, %.1f ms of it on the victim, to which %.1f "
           "ms were due; "
           "%.0f ms on requests; %.0f ms in all; slots of the victim %llu\n",
           shared, had, due, control, thread,
           (unsigned long long)(b->victim_slots - a->victim_slots));
    if (had * 100 < due * percent) {
        printf("FAILED: less than %u %%\n", percent);
        bad = 1;
    }
    if (shared + control > 1.1 * thread + 5) {
        printf("FAILED: that is more than its thread has had of the processor\n");
        bad = 1;
    }
    return bad;
}

int main(int argc, char **argv)
{
    uint64_t need_ns;
    struct look first, now;
    unsigned limit_s;
    char path[108];
    time_t end;
    int sock;

    if (argc < 6 || argc > 5 + 16 || vip_control_socket_path(path, sizeof(path)) < 0) {
        fprintf(stderr, "usage: spent VIPD_PID NEED_MS LIMIT_S PERCENT PID...\n");
        return 2;
    }
    need_ns = strtoull(argv[2], NULL, 0) * 1000000;
    limit_s = (unsigned)strtoul(argv[3], NULL, 0);
    for (int i = 5; i < argc; i++)
        victim[victims++] = strtoull(argv[i], NULL, 0);
    sock = vip_control_connect(path);
    if (sock < 0 || !look(sock, argv[1], &first))
        return 1;
    end = time(NULL) + limit_s;
    do {
        (void)poll(NULL, 0, LOOK_MS);
        if (!look(sock, argv[1], &now))
            return 1;
        if (!now.sessions || now.victim_ns < first.victim_ns) {
            printf("FAILED: the victim has lost a session\n");
            return 1;
        }
        if (now.shared_ns - first.shared_ns >= need_ns &&
            now.due_ns - first.due_ns >= need_ns / DUE_PART)
            return judge(&first, &now, (unsigned)strtoul(argv[4], NULL, 0));
    } while (time(NULL) < end);
    printf("FAILED: in %u s vipd has spent %.1f ms while several had work, and %.1f ms were due to "
           "the "
           "victim: too little to say anything\n",
           limit_s, (double)(now.shared_ns - first.shared_ns) / 1e6,
           (double)(now.due_ns - first.due_ns) / 1e6);
    return 1;
}
