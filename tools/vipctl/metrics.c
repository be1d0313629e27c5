/*
 * `vipctl metrics`: all statistics as OpenMetrics text, for Prometheus' textfile collector and
 * similar programs. Names and meanings are those of proto/stats.def; vipd reports the values.
 */
#include "tools/vipctl/metrics.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "proto/stats.h"
#include "tools/vipctl/commands.h"
#include "tools/vipctl/mapped.h"
#include "tools/vipctl/show.h"

/* Print a label; escape backslash, quote and newline. */
static void print_label(FILE *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '\\' || *text == '"')
            fputc('\\', out);
        if (*text == '\n')
            fputs("\\n", out);
        else
            fputc(*text, out);
    }
}

static void print_metric(FILE *out, enum vip_stat id, const struct show_rows *rows)
{
    const struct vip_stat_info *info = &vip_stats[id];
    const char *prefix = info->scope == VIP_STAT_SCOPE_NIC ? "vipd_nic" : "vipd";
    const char *suffix = info->kind == VIP_STAT_KIND_COUNTER ? "_total" : "";

    fprintf(out, "# TYPE %s_%s %s\n# HELP %s_%s %s (%s)\n", prefix, info->name,
            vip_stat_kind_name(info->kind), prefix, info->name, info->help, info->unit);
    for (size_t i = 0; i < rows->count; i++) {
        const Vip__Counter *row = rows->row[i];
        const char *nic = row->scope && strncmp(row->scope, "nic:", 4) == 0 ? row->scope + 4 : NULL;

        if (!row->name || strcmp(row->name, info->name) != 0 ||
            (nic != NULL) != (info->scope == VIP_STAT_SCOPE_NIC))
            continue;
        fprintf(out, "%s_%s%s", prefix, info->name, suffix);
        if (nic) {
            fputs("{nic=\"", out);
            print_label(out, nic);
            fputs("\"}", out);
        }
        fprintf(out, " %llu\n", (unsigned long long)row->value);
    }
}

/* The value of a statistic of `scope`. False: vipd does not report it. */
static bool value_of(const struct show_rows *rows, const char *scope, enum vip_stat id,
                     uint64_t *ret)
{
    for (size_t i = 0; i < rows->count; i++) {
        const Vip__Counter *row = rows->row[i];

        if (row->scope && row->name && strcmp(row->scope, scope) == 0 &&
            strcmp(row->name, vip_stats[id].name) == 0) {
            *ret = row->value;
            return true;
        }
    }
    return false;
}

static void print_nic_summary(FILE *out, enum vip_hist_id id, const char *scope,
                              const struct show_rows *rows)
{
    static const char *const quantile[VIP_HIST_SHOWNS] = {
        [VIP_HIST_SHOWN_P50] = "0.5",  [VIP_HIST_SHOWN_P90] = "0.9",
        [VIP_HIST_SHOWN_P99] = "0.99", [VIP_HIST_SHOWN_P999] = "0.999",
        [VIP_HIST_SHOWN_MAX] = "1",
    };

    for (unsigned i = 0; i < VIP_HIST_SHOWNS; i++) {
        uint64_t value;

        if (!value_of(rows, scope, vip_hists[id].first + i, &value))
            continue;
        fprintf(out, "vipd_nic_%s_seconds%s{nic=\"", vip_hists[id].name,
                i == VIP_HIST_SHOWN_COUNT ? "_count"
                : i == VIP_HIST_SHOWN_SUM ? "_sum"
                                          : "");
        print_label(out, scope + strlen("nic:"));
        if (quantile[i])
            fprintf(out, "\",quantile=\"%s", quantile[i]);
        if (i == VIP_HIST_SHOWN_COUNT)
            fprintf(out, "\"} %llu\n", (unsigned long long)value);
        else
            fprintf(out, "\"} %.9f\n", (double)value / 1e9);
    }
}

/* Print a histogram of vipd as an OpenMetrics summary: quantiles since vipd started. */
static void print_summary(FILE *out, enum vip_hist_id id, const struct show_rows *rows)
{
    const char *name = vip_hists[id].name;

    fprintf(out,
            "# TYPE vipd_nic_%s_seconds summary\n# UNIT vipd_nic_%s_seconds seconds\n"
            "# HELP vipd_nic_%s_seconds %s\n",
            name, name, name, vip_hists[id].help);
    for (size_t i = 0; i < rows->count; i++) {
        const Vip__Counter *row = rows->row[i];

        if (row->scope && strncmp(row->scope, "nic:", 4) == 0 && row->name &&
            strcmp(row->name, vip_stats[vip_hists[id].first].name) == 0)
            print_nic_summary(out, id, row->scope, rows);
    }
}

/* Is the statistic part of a histogram? */
static bool of_hist(enum vip_stat stat)
{
    for (enum vip_hist_id id = 0; id < VIP_HISTS; id++)
        if (stat >= vip_hists[id].first && stat < vip_hists[id].first + VIP_HIST_SHOWNS)
            return true;
    return false;
}

/* ---- peers ------------------------------------------------------------------------------- */

/* For each number of a peer: offsets of the value and of its has_ flag in a row of `show peers`. */
static const struct {
    size_t value_off, has_off;
} peer_fields[VIP_PEER_STATS] = {
#define VIP_PEER_STAT(name, unit, help)                                                            \
    {.value_off = offsetof(Vip__PeerRow, name), .has_off = offsetof(Vip__PeerRow, has_##name)},
#include "proto/stats.def"
};

static void print_peer(FILE *out, const char *stat, const Vip__PeerRow *row, uint64_t value)
{
    fprintf(out, "vipd_peer_%s{nic=\"", stat);
    print_label(out, row->nic ? row->nic : "");
    fputs("\",peer=\"", out);
    print_label(out, row->peer ? row->peer : "");
    if (row->name && *row->name) {
        fputs("\",name=\"", out);
        print_label(out, row->name);
    }
    fprintf(out, "\"} %llu\n", (unsigned long long)value);
}

static void print_peers(FILE *out, const struct show_rows *rows)
{
    fputs("# TYPE vipd_peer_up gauge\n# HELP vipd_peer_up whether its vipd answers\n", out);
    for (size_t i = 0; i < rows->count; i++) {
        const Vip__PeerRow *row = rows->row[i];

        print_peer(out, "up", row,
                   row->state &&
                       (strcmp(row->state, "up") == 0 || strcmp(row->state, "self") == 0));
    }
    for (enum vip_peer_stat id = 0; id < VIP_PEER_STATS; id++) {
        const struct vip_peer_stat_info *info = &vip_peer_stats[id];

        fprintf(out, "# TYPE vipd_peer_%s gauge\n# HELP vipd_peer_%s %s (%s)\n", info->name,
                info->name, info->help, info->unit);
        for (size_t i = 0; i < rows->count; i++) {
            const char *row = rows->row[i];
            protobuf_c_boolean has;
            uint64_t value;

            memcpy(&has, row + peer_fields[id].has_off, sizeof(has));
            memcpy(&value, row + peer_fields[id].value_off, sizeof(value));
            if (has)
                print_peer(out, info->name, rows->row[i], value);
        }
    }
}

/* ---- all metrics --------------------------------------------------------------------------- */

static enum exit_code write_rows(enum exit_code code, struct show_rows *rows, FILE *out)
{
    for (enum vip_stat id = 0; code == EXIT_OK && id < VIP_STATS; id++)
        if (!of_hist(id))
            print_metric(out, id, rows);
    for (enum vip_hist_id id = 0; code == EXIT_OK && id < VIP_HISTS; id++)
        print_summary(out, id, rows);
    show_rows_free(rows);
    return code;
}

enum exit_code metrics_write(int sock, FILE *out)
{
    struct show_rows rows, peers = {0};
    enum exit_code code = show_fetch(sock, show_view_find("stats"), &rows);

    if (code == EXIT_OK)
        code = show_fetch(sock, show_view_find("peers"), &peers);
    code = write_rows(code, &rows, out);
    if (code == EXIT_OK)
        print_peers(out, &peers);
    show_rows_free(&peers);
    return code;
}

static enum exit_code metrics_mapped(FILE *out)
{
    struct show_rows rows;

    return write_rows(mapped_fetch(&rows), &rows, out);
}

enum exit_code run_metrics(char **words, int count, const struct options *options)
{
    enum exit_code code;
    int sock = -1;

    (void)words;
    (void)count;
    if (!options->mapped) {
        code = query_connect(&sock);
        if (code != EXIT_OK)
            return code;
    }
    code = options->mapped ? metrics_mapped(stdout) : metrics_write(sock, stdout);
    if (code == EXIT_OK) {
        puts("# EOF");
        code = show_flushed();
    }
    if (sock >= 0)
        (void)close(sock);
    return code;
}
