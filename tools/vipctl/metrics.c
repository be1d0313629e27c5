/*
 * `vipctl metrics`: every statistic as OpenMetrics text, for Prometheus' textfile collector and the
 * like. Names and meanings come from the one table (proto/stats.def), values from vipd.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "proto/stats.h"
#include "tools/vipctl/commands.h"
#include "tools/vipctl/show.h"

/* Within a label: backslash, quote and newline are escaped. */
static void print_label(const char *text)
{
    for (; *text; text++) {
        if (*text == '\\' || *text == '"')
            putchar('\\');
        if (*text == '\n')
            fputs("\\n", stdout);
        else
            putchar(*text);
    }
}

static void print_metric(enum vip_stat id, const struct show_rows *rows)
{
    const struct vip_stat_info *info = &vip_stats[id];
    const char *prefix = info->scope == VIP_STAT_SCOPE_NIC ? "vipd_nic" : "vipd";
    const char *suffix = info->kind == VIP_STAT_KIND_COUNTER ? "_total" : "";

    printf("# TYPE %s_%s %s\n# HELP %s_%s %s (%s)\n", prefix, info->name,
           vip_stat_kind_name(info->kind), prefix, info->name, info->help, info->unit);
    for (size_t i = 0; i < rows->count; i++) {
        const Vip__Counter *row = rows->row[i];
        const char *nic = row->scope && strncmp(row->scope, "nic:", 4) == 0 ? row->scope + 4 : NULL;

        if (!row->name || strcmp(row->name, info->name) != 0 ||
            (nic != NULL) != (info->scope == VIP_STAT_SCOPE_NIC))
            continue;
        printf("%s_%s%s", prefix, info->name, suffix);
        if (nic) {
            fputs("{nic=\"", stdout);
            print_label(nic);
            fputs("\"}", stdout);
        }
        printf(" %llu\n", (unsigned long long)row->value);
    }
}

enum exit_code run_metrics(char **words, int count, const struct options *options)
{
    struct show_rows rows;
    enum exit_code code;
    int sock;

    (void)words;
    (void)count;
    (void)options;
    code = query_connect(&sock);
    if (code != EXIT_OK)
        return code;
    code = show_fetch(sock, show_view_find("stats"), &rows);
    if (code == EXIT_OK) {
        for (enum vip_stat id = 0; id < VIP_STATS; id++)
            print_metric(id, &rows);
        puts("# EOF");
        code = show_flushed();
    }
    show_rows_free(&rows);
    (void)close(sock);
    return code;
}
