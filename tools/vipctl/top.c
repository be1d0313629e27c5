/* The screen of `vipctl top`: ncurses on a terminal, plain lines or NDJSON elsewhere. */
#include "tools/vipctl/top.h"

#include <curses.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/vipctl/commands.h"
#include "tools/vipctl/show.h"

#define INTERVAL_DEFAULT_S 1.0
#define HEADING            "      SENT    RECEIVED     MSGS/S  RESENT/S       RTT       P99  "

static void format_rate(double value, char *buf, size_t buf_bytes)
{
    static const char *const units[] = {"B/s", "kB/s", "MB/s", "GB/s"};
    unsigned u = 0;

    while (value >= 1000 && u < 3) {
        value /= 1000;
        u++;
    }
    snprintf(buf, buf_bytes, "%.*f %s",
             value < 10 && u > 0    ? 2
             : value < 100 && u > 0 ? 1
                                    : 0,
             value, units[u]);
}

static void format_line(const struct top_rate *rate, char *buf, size_t buf_bytes)
{
    char sent[24], received[24], rtt[24] = "-", p99[24] = "-", label[96];

    format_rate(rate->tx_bytes, sent, sizeof(sent));
    format_rate(rate->rx_bytes, received, sizeof(received));
    if (rate->item->srtt_ns)
        snprintf(rtt, sizeof(rtt), "%.0f us", (double)rate->item->srtt_ns / 1e3);
    if (rate->item->p99_ns)
        snprintf(p99, sizeof(p99), "%.0f us", (double)rate->item->p99_ns / 1e3);
    snprintf(label, sizeof(label), "%s", rate->item->label);
    /* Program names come from other processes: replace control characters. */
    for (char *at = label; *at; at++)
        if ((unsigned char)*at < 0x20 || *at == 0x7f)
            *at = '?';
    snprintf(buf, buf_bytes, "%10s  %10s %10.0f %9.1f %9s %9s  %s", sent, received, rate->messages,
             rate->retransmits, rtt, p99, label);
}

/* Write p50 and p99 of each latency, for example "post_to_wire 12.0/80.0": 50 % of the
 * values are at most 12 us, and 99 % are at most 80 us. */
static void format_latency(const struct top_sample *sample, char *buf, size_t buf_bytes)
{
    size_t used = (size_t)snprintf(buf, buf_bytes, "p50/p99 in us since the start: ");

    for (unsigned h = 0; h < VIP_HISTS && used < buf_bytes; h++)
        used += (size_t)snprintf(buf + used, buf_bytes - used, "%s%s %.1f/%.1f", h ? "  " : "",
                                 vip_hists[h].name, (double)sample->p50_ns[h] / 1e3,
                                 (double)sample->p99_ns[h] / 1e3);
}

static void print_plain(enum top_by by, const struct top_sample *sample,
                        const struct top_rate *rates)
{
    size_t count = sample->count;
    char line[256];

    format_latency(sample, line, sizeof(line));
    puts(line);
    printf("%s%s\n", HEADING, top_by_name(by));
    for (size_t i = 0; i < count; i++) {
        format_line(&rates[i], line, sizeof(line));
        puts(line);
    }
}

static void print_json(enum top_by by, const struct top_sample *sample,
                       const struct top_rate *rates, double seconds)
{
    size_t count = sample->count;

    printf("{\"schema\": \"vipd.top/1\", \"by\": \"%s\", \"interval_s\": %.3f, \"items\": [",
           top_by_name(by), seconds);
    for (size_t i = 0; i < count; i++) {
        printf("%s{\"label\": ", i ? ", " : "");
        view_json_string(stdout, rates[i].item->label);
        printf(", \"tx_bytes_per_s\": %.0f, \"rx_bytes_per_s\": %.0f, \"messages_per_s\": %.1f, "
               "\"retransmits_per_s\": %.1f, \"srtt_ns\": %llu, "
               "\"post_to_complete_p99_ns\": ",
               rates[i].tx_bytes, rates[i].rx_bytes, rates[i].messages, rates[i].retransmits,
               (unsigned long long)rates[i].item->srtt_ns);
        if (rates[i].item->p99_ns)
            printf("%llu}", (unsigned long long)rates[i].item->p99_ns);
        else
            fputs("null}", stdout);
    }
    printf("], \"latency\": {");
    for (unsigned h = 0; h < VIP_HISTS; h++)
        printf("%s\"%s\": {\"p50_ns\": %llu, \"p99_ns\": %llu}", h ? ", " : "", vip_hists[h].name,
               (unsigned long long)sample->p50_ns[h], (unsigned long long)sample->p99_ns[h]);
    puts("}}");
}

static void draw(enum top_by by, const struct top_sample *sample, const struct top_rate *rates,
                 bool colours)
{
    size_t count = sample->count;
    char line[256];

    erase();
    mvprintw(0, 0, "vipctl top  by %s, %zu rows   keys: v VIs, p peers, g programs, q quit",
             top_by_name(by), count);
    format_latency(sample, line, sizeof(line));
    mvaddnstr(1, 0, line, COLS);
    if (colours)
        attron(A_REVERSE);
    mvprintw(2, 0, "%s%-*s", HEADING, COLS > (int)strlen(HEADING) ? COLS - (int)strlen(HEADING) : 0,
             top_by_name(by));
    if (colours)
        attroff(A_REVERSE);
    for (size_t i = 0; i < count && (int)i + 3 < LINES; i++) {
        format_line(&rates[i], line, sizeof(line));
        mvaddnstr((int)i + 3, 0, line, COLS);
    }
    refresh();
}

/* Wait for a key or the time of the next sample. False: the user has pressed a key that ends
 * the program. */
static bool wait_key(double interval_s, enum top_by *by)
{
    int key;

    timeout((int)(interval_s * 1000));
    key = getch();
    switch (key) {
    case 'q':
    case 27:
        return false;
    case 'v':
        *by = TOP_BY_VI;
        break;
    case 'p':
        *by = TOP_BY_PEER;
        break;
    case 'g':
        *by = TOP_BY_PROGRAM;
        break;
    default:
        break;
    }
    return true;
}

/* Show the rates of one interval after the other. screen: use ncurses. */
static enum exit_code run(int sock, const struct options *options, bool screen, enum top_by by)
{
    double interval_s = options->interval_s > 0 ? options->interval_s : INTERVAL_DEFAULT_S;
    uint64_t wanted = options->once ? 1 : options->count, shown = 0;
    struct top_sample before, now;
    enum exit_code code = top_sample_take(sock, by, &before);

    while (code == EXIT_OK) {
        enum top_by was = by;
        struct top_rate *rates;

        if (!screen)
            usleep((useconds_t)(interval_s * 1e6));
        else if (!wait_key(interval_s, &by))
            break;
        if (was != by) {
            top_sample_free(&before);
            code = top_sample_take(sock, by, &before);
            continue;
        }
        code = top_sample_take(sock, by, &now);
        if (code != EXIT_OK)
            break;
        rates = top_rates(&before, &now);
        if (rates && options->json)
            print_json(by, &now, rates, now.time_s - before.time_s);
        else if (rates && screen)
            draw(by, &now, rates, options->colours);
        else if (rates)
            print_plain(by, &now, rates);
        free(rates);
        top_sample_free(&before);
        before = now;
        if (!screen)
            code = show_flushed();
        if (wanted > 0 && ++shown >= wanted)
            break;
    }
    top_sample_free(&before);
    return code;
}

enum exit_code run_top(char **words, int count, const struct options *options)
{
    bool screen = isatty(STDOUT_FILENO) && isatty(STDIN_FILENO) && !options->json && !options->once;
    enum top_by by = TOP_BY_VI;
    SCREEN *terminal = NULL;
    enum exit_code code;
    int sock;

    if (count > 0 && strcmp(words[0], "peer") == 0)
        by = TOP_BY_PEER;
    else if (count > 0 && strcmp(words[0], "program") == 0)
        by = TOP_BY_PROGRAM;
    else if (count > 0 && strcmp(words[0], "vi") != 0) {
        fprintf(stderr, "vipctl: top shows vi, peer or program, not \"%s\"\n", words[0]);
        return EXIT_USAGE;
    }
    code = query_connect(&sock);
    if (code != EXIT_OK)
        return code;
    if (screen) {
        terminal = newterm(NULL, stdout, stdin);
        if (terminal) {
            cbreak();
            noecho();
            curs_set(0);
        }
    }
    code = run(sock, options, terminal != NULL, by);
    if (terminal) {
        endwin();
        delscreen(terminal);
    }
    (void)close(sock);
    return code;
}
