/*
 * `vipctl metrics`: every statistic as OpenMetrics text, for Prometheus' textfile collector and the
 * like. Names and meanings come from the one table (proto/stats.def), values from vipd.
 */
#include "tools/vipctl/metrics.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "proto/stats.h"
#include "tools/vipctl/commands.h"
#include "tools/vipctl/show.h"

/* Within a label: backslash, quote and newline are escaped. */
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

enum exit_code metrics_write(int sock, FILE *out)
{
    struct show_rows rows;
    enum exit_code code = show_fetch(sock, show_view_find("stats"), &rows);

    for (enum vip_stat id = 0; code == EXIT_OK && id < VIP_STATS; id++)
        print_metric(out, id, &rows);
    show_rows_free(&rows);
    return code;
}

enum exit_code run_metrics(char **words, int count, const struct options *options)
{
    enum exit_code code;
    int sock;

    (void)words;
    (void)count;
    (void)options;
    code = query_connect(&sock);
    if (code != EXIT_OK)
        return code;
    code = metrics_write(sock, stdout);
    if (code == EXIT_OK) {
        puts("# EOF");
        code = show_flushed();
    }
    (void)close(sock);
    return code;
}
