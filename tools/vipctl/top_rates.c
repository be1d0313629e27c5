/* Samples and rates of `vipctl top`; see top.h. */
#include "tools/vipctl/top.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/vipctl/show.h"

const char *top_by_name(enum top_by by)
{
    switch (by) {
    case TOP_BY_VI:
        return "vi";
    case TOP_BY_PEER:
        return "peer";
    case TOP_BY_PROGRAM:
        return "program";
    }
    return "?";
}

static void add_vi(const Vip__ViRow *row, enum top_by by, struct top_item *to)
{
    if (by == TOP_BY_VI) {
        snprintf(to->key, sizeof(to->key), "%020llu:%05u", (unsigned long long)row->session,
                 row->vi);
        snprintf(to->label, sizeof(to->label), "%llu:%u %s %s", (unsigned long long)row->session,
                 row->vi, row->program, row->peer ? row->peer : "");
    } else {
        snprintf(to->key, sizeof(to->key), "%llu %s", (unsigned long long)row->pid, row->program);
        snprintf(to->label, sizeof(to->label), "%s[%llu]", row->program,
                 (unsigned long long)row->pid);
    }
    to->tx_bytes += row->tx_bytes;
    to->rx_bytes += row->rx_bytes;
    to->tx_messages += row->tx_messages;
    to->rx_messages += row->rx_messages;
    to->retransmits += row->retransmits;
    to->srtt_ns = row->srtt_ns;
    to->p99_ns = row->post_to_complete_p99_ns;
}

static void add_peer(const Vip__PeerRow *row, struct top_item *to)
{
    snprintf(to->key, sizeof(to->key), "%s %s", row->nic, row->peer);
    snprintf(to->label, sizeof(to->label), "%s", row->peer);
    to->tx_bytes = row->tx_bytes;
    to->rx_bytes = row->rx_bytes;
    to->tx_messages = row->tx_messages;
    to->rx_messages = row->rx_messages;
    to->retransmits = row->retransmits;
    to->srtt_ns = row->srtt_ns;
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const struct top_item *)a)->key, ((const struct top_item *)b)->key);
}

/* Merge the items of each program, one per VI, into one item. */
static void merge(struct top_sample *sample)
{
    size_t kept = 0;

    qsort(sample->item, sample->count, sizeof(*sample->item), by_key);
    for (size_t i = 0; i < sample->count; i++) {
        struct top_item *to = kept ? &sample->item[kept - 1] : NULL;
        const struct top_item *from = &sample->item[i];

        if (!to || strcmp(to->key, from->key) != 0) {
            sample->item[kept++] = *from;
            continue;
        }
        to->tx_bytes += from->tx_bytes;
        to->rx_bytes += from->rx_bytes;
        to->tx_messages += from->tx_messages;
        to->rx_messages += from->rx_messages;
        to->retransmits += from->retransmits;
        if (to->srtt_ns < from->srtt_ns)
            to->srtt_ns = from->srtt_ns;
        if (to->p99_ns < from->p99_ns)
            to->p99_ns = from->p99_ns;
    }
    sample->count = kept;
}

static void keep_largest(const Vip__Counter *row, enum vip_stat id, uint64_t *largest)
{
    if (strcmp(row->name, vip_stats[id].name) == 0 && row->value > *largest)
        *largest = row->value;
}

static enum exit_code take_latency(int sock, struct top_sample *to)
{
    struct show_rows rows;
    enum exit_code code = show_fetch(sock, show_view_find("stats"), &rows);

    for (size_t i = 0; code == EXIT_OK && i < rows.count; i++) {
        const Vip__Counter *row = rows.row[i];

        for (unsigned h = 0; row->name && h < VIP_HISTS; h++) {
            keep_largest(row, vip_hists[h].first + VIP_HIST_SHOWN_P50, &to->p50_ns[h]);
            keep_largest(row, vip_hists[h].first + VIP_HIST_SHOWN_P99, &to->p99_ns[h]);
        }
    }
    show_rows_free(&rows);
    return code;
}

enum exit_code top_sample_take(int sock, enum top_by by, struct top_sample *ret)
{
    struct show_rows rows;
    struct timespec ts;
    enum exit_code code =
        show_fetch(sock, show_view_find(by == TOP_BY_PEER ? "peers" : "vi"), &rows);

    *ret = (struct top_sample){0};
    clock_gettime(CLOCK_MONOTONIC, &ts);
    ret->time_s = (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
    if (code == EXIT_OK) {
        ret->item = calloc(rows.count + 1, sizeof(*ret->item));
        if (!ret->item) {
            fprintf(stderr, "vipctl: out of memory\n");
            code = EXIT_FAILED;
        }
    }
    for (size_t i = 0; code == EXIT_OK && i < rows.count; i++) {
        if (by == TOP_BY_PEER)
            add_peer(rows.row[i], &ret->item[ret->count++]);
        else
            add_vi(rows.row[i], by, &ret->item[ret->count++]);
    }
    show_rows_free(&rows);
    if (code != EXIT_OK)
        return code;
    merge(ret);
    return take_latency(sock, ret);
}

void top_sample_free(struct top_sample *sample)
{
    free(sample->item);
    *sample = (struct top_sample){0};
}

/* The rate of a count. 0 if the count fell: the number has a new VI, or a peer lost connections. */
static double rate(uint64_t now, uint64_t before, double seconds)
{
    return now > before && seconds > 0 ? (double)(now - before) / seconds : 0;
}

static int busiest_first(const void *a, const void *b)
{
    const struct top_rate *first = a, *second = b;
    double x = first->tx_bytes + first->rx_bytes + first->messages;
    double y = second->tx_bytes + second->rx_bytes + second->messages;

    if (x != y)
        return x < y ? 1 : -1;
    return strcmp(first->item->key, second->item->key);
}

struct top_rate *top_rates(const struct top_sample *before, const struct top_sample *now)
{
    struct top_rate *rates = calloc(now->count + 1, sizeof(*rates));
    double seconds = now->time_s - before->time_s;

    for (size_t i = 0; rates && i < now->count; i++) {
        static const struct top_item nothing;
        const struct top_item *item = &now->item[i];
        const struct top_item *was =
            before->count ? bsearch(item, before->item, before->count, sizeof(*item), by_key)
                          : NULL;

        if (!was)
            was = &nothing;
        rates[i].item = item;
        rates[i].tx_bytes = rate(item->tx_bytes, was->tx_bytes, seconds);
        rates[i].rx_bytes = rate(item->rx_bytes, was->rx_bytes, seconds);
        rates[i].messages = rate(item->tx_messages, was->tx_messages, seconds) +
                            rate(item->rx_messages, was->rx_messages, seconds);
        rates[i].retransmits = rate(item->retransmits, was->retransmits, seconds);
    }
    if (rates)
        qsort(rates, now->count, sizeof(*rates), busiest_first);
    return rates;
}
