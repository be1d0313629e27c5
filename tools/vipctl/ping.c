/* `vipctl ping`: does the vipd of another host answer? No VIPL program has to run on that host. */
#include "tools/vipctl/ping.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tools/vipctl/commands.h"
#include "tools/vipctl/program.h"
#include "tools/vipctl/show.h"

#define COUNT_DEFAULT      4
#define APP_COUNT_DEFAULT  1000 /* number of round trips between programs */
#define INTERVAL_DEFAULT_S 0.2
#define TIMEOUT_DEFAULT_S  1.0
#define LOOK_FIRST_US      100  /* first pause between checks for the answer, in us; it doubles */
#define LOOK_MAX_US        5000 /* longest pause between checks for the answer, in us */

static double now_s(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static enum exit_code ask(int sock, const char *nic, const char *peer, uint64_t number,
                          Vip__Reply **ret)
{
    Vip__PingRequest ping = VIP__PING_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    enum exit_code code;

    ping.nic = (char *)nic;
    ping.peer = (char *)peer;
    ping.has_number = !peer;
    ping.number = number;
    request.body_case = VIP__REQUEST__BODY_PING;
    request.ping = &ping;
    code = query_ask(sock, &request, ret);
    if (code == EXIT_OK && (!(*ret)->ping || (peer && !(*ret)->has_number64))) {
        fprintf(stderr, "vipctl: vipd's answer makes no sense; is it of another version?\n");
        code = EXIT_FAILED;
    }
    if (code != EXIT_OK && *ret) {
        vip__reply__free_unpacked(*ret, NULL);
        *ret = NULL;
    }
    return code;
}

/* Send one ping. *ret_rtt_ns is 0 if there was no answer in time. */
static enum exit_code one(int sock, const char *nic, const char *peer, double timeout_s,
                          uint64_t *ret_rtt_ns)
{
    double end_s = now_s() + timeout_s;
    unsigned look_us = LOOK_FIRST_US;
    Vip__Reply *reply;
    enum exit_code code = ask(sock, nic, peer, 0, &reply);
    uint64_t number;

    *ret_rtt_ns = 0;
    if (code != EXIT_OK)
        return code;
    number = reply->number64;
    vip__reply__free_unpacked(reply, NULL);
    while (code == EXIT_OK && *ret_rtt_ns == 0 && now_s() < end_s) {
        usleep(look_us);
        look_us = look_us * 2 < LOOK_MAX_US ? look_us * 2 : LOOK_MAX_US;
        code = ask(sock, nic, NULL, number, &reply);
        if (code != EXIT_OK)
            break;
        if (reply->ping->answered)
            *ret_rtt_ns = reply->ping->rtt_ns ? reply->ping->rtt_ns : 1;
        vip__reply__free_unpacked(reply, NULL);
    }
    return code;
}

static void count(struct ping_result *pings, uint64_t rtt_ns)
{
    pings->sent++;
    pings->last_ns = rtt_ns;
    if (rtt_ns == 0)
        return;
    pings->received++;
    pings->sum_ns += rtt_ns;
    if (pings->min_ns == 0 || rtt_ns < pings->min_ns)
        pings->min_ns = rtt_ns;
    if (rtt_ns > pings->max_ns)
        pings->max_ns = rtt_ns;
}

enum exit_code ping_once(int sock, const char *nic, const char *peer, double timeout_s,
                         struct ping_result *result)
{
    uint64_t rtt_ns;
    enum exit_code code = one(sock, nic, peer, timeout_s, &rtt_ns);

    if (code == EXIT_OK)
        count(result, rtt_ns);
    return code;
}

static void print_result(const char *peer, const struct ping_result *pings,
                         const struct options *options)
{
    if (options->json) {
        show_json_begin("vipd.ping/1");
        fputs(",\n  \"peer\": ", stdout);
        view_json_string(stdout, peer);
        printf(",\n  \"sent\": %llu,\n  \"received\": %llu", (unsigned long long)pings->sent,
               (unsigned long long)pings->received);
        if (pings->received > 0)
            printf(",\n  \"rtt_min_ns\": %llu,\n  \"rtt_mean_ns\": %llu,\n  \"rtt_max_ns\": %llu",
                   (unsigned long long)pings->min_ns,
                   (unsigned long long)(pings->sum_ns / pings->received),
                   (unsigned long long)pings->max_ns);
        show_json_end();
        return;
    }
    printf("%llu sent, %llu answered", (unsigned long long)pings->sent,
           (unsigned long long)pings->received);
    if (pings->received > 0)
        printf("; round trip min %.1f, mean %.1f, max %.1f us (vipd to vipd)",
               (double)pings->min_ns / 1e3, (double)pings->sum_ns / (double)pings->received / 1e3,
               (double)pings->max_ns / 1e3);
    putchar('\n');
    if (pings->received == 0)
        printf("Is vipd running there (systemctl status vipd)? Does a firewall pass its port (UDP "
               "4794)?\nHave both the same link and port (vipctl show nic)?\n");
}

static enum exit_code run_app(const char *peer, const struct options *options)
{
    char count[32];
    char *const arguments[] = {(char *)"vipperf",
                               (char *)"lat",
                               (char *)peer,
                               (char *)"--size",
                               (char *)"64",
                               (char *)"--iters",
                               count,
                               options->json ? (char *)"--json" : NULL,
                               (char *)"-",
                               NULL};

    snprintf(count, sizeof(count), "%llu",
             (unsigned long long)(options->count ? options->count : APP_COUNT_DEFAULT));
    return program_run("vipperf", arguments);
}

enum exit_code run_ping(char **words, int word_count, const struct options *options)
{
    double interval_s = options->interval_s > 0 ? options->interval_s : INTERVAL_DEFAULT_S;
    double timeout_s = options->timeout_s > 0 ? options->timeout_s : TIMEOUT_DEFAULT_S;
    uint64_t wanted = options->count ? options->count : COUNT_DEFAULT;
    struct ping_result pings = {0};
    enum exit_code code;
    int sock;

    (void)word_count;
    if (options->app)
        return run_app(words[0], options);
    code = query_connect(&sock);
    if (code != EXIT_OK)
        return code;
    while (code == EXIT_OK && pings.sent < wanted) {
        if (pings.sent > 0)
            usleep((useconds_t)(interval_s * 1e6));
        code = ping_once(sock, options->nic, words[0], timeout_s, &pings);
        if (code != EXIT_OK)
            break;
        if (!options->json && pings.last_ns)
            printf("%s answers: %.1f us\n", words[0], (double)pings.last_ns / 1e3);
        else if (!options->json)
            printf("%s does not answer within %g s\n", words[0], timeout_s);
        (void)fflush(stdout);
    }
    (void)close(sock);
    if (code != EXIT_OK)
        return code;
    print_result(words[0], &pings, options);
    if (show_flushed() != EXIT_OK)
        return EXIT_FAILED;
    return pings.received > 0 ? EXIT_OK : EXIT_TIMEOUT;
}
