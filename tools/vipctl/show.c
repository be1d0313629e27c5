/* `vipctl show`: fetch, filter, print; see show.h. */
#include "tools/vipctl/show.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/vipctl/commands.h"
#include "tools/vipctl/filter.h"
#include "tools/vipctl/mapped.h"
#include "tools/vipctl/tree.h"

#define FILTERS_MAX 16

/* ---- rows -------------------------------------------------------------------------------- */

/* ---- printing ---------------------------------------------------------------------------- */

static bool choose_layout(const struct view *view, const struct options *options,
                          struct layout *ret)
{
    const char *bad;

    *ret = view_layout(view);
    ret->raw = options->raw;
    ret->no_header = options->no_header;
    ret->colours = options->colours;
    if (!options->output || view_layout_choose(view, options->output, ret, &bad))
        return true;
    fprintf(stderr, "vipctl: there is no column \"%.*s\"; this view has:", (int)strcspn(bad, ","),
            bad);
    for (size_t i = 0; i < view->column_count; i++)
        fprintf(stderr, " %s", view->columns[i].json_key);
    fputc('\n', stderr);
    return false;
}

enum exit_code show_print(const struct view *view, const char *schema, const void *const *rows,
                          size_t count, const struct options *options)
{
    struct layout layout;

    if (!choose_layout(view, options, &layout))
        return EXIT_USAGE;
    if (options->json) {
        show_json_begin(schema);
        fputs(",\n  ", stdout);
        view_json(stdout, view, options->output ? &layout : NULL, rows, count);
        show_json_end();
    } else if (view_table(view, &layout, rows, count) < 0) {
        fprintf(stderr, "vipctl: out of memory\n");
        return EXIT_FAILED;
    }
    return show_flushed();
}

/* ---- summary and version ----------------------------------------------------------------- */

static void print_summary(const Vip__Summary *summary)
{
    char text[256];
    int width = 0;

    for (size_t i = 0; i < summary_view.column_count; i++) {
        const char *heading = summary_view.columns[i].heading;

        if (heading && (int)strlen(heading) > width)
            width = (int)strlen(heading);
    }
    puts("vipd");
    for (size_t i = 0; i < summary_view.column_count; i++) {
        const struct column *column = &summary_view.columns[i];

        if (!column->heading)
            continue;
        view_format(column, summary, text, sizeof(text));
        printf("  %-*s  %s\n", width, column->heading, text);
    }
    putchar('\n');
}

static void print_hints(const Vip__Summary *summary)
{
    if (summary->draining)
        puts("\nvipd is being drained: no new NIC handles and connections until vipctl resume.");
    if (summary->errors > 0)
        printf("\n%llu distinct error%s since the start: vipctl show errors\n",
               (unsigned long long)summary->errors, summary->errors == 1 ? "" : "s");
    if (summary->pending > 0)
        printf("\n%llu change%s of the configuration wait%s for a restart: vipctl config diff\n",
               (unsigned long long)summary->pending, summary->pending == 1 ? "" : "s",
               summary->pending == 1 ? "s" : "");
}

static enum exit_code summary_of(int sock, Vip__Reply **ret_reply)
{
    enum exit_code code = query_page(sock, VIP__SHOW_REQUEST__WHAT__SUMMARY, 0, ret_reply);

    if (code == EXIT_OK && !(*ret_reply)->show->summary) {
        fprintf(stderr, "vipctl: vipd's answer has no summary; is it of another version?\n");
        vip__reply__free_unpacked(*ret_reply, NULL);
        return EXIT_FAILED;
    }
    return code;
}

static enum exit_code show_summary(int sock, const struct options *options)
{
    const struct show_view *nics = show_view_find("nic");
    const Vip__Summary *summary;
    struct show_rows rows = {0};
    Vip__Reply *reply;
    enum exit_code code = summary_of(sock, &reply);

    if (code != EXIT_OK)
        return code;
    summary = reply->show->summary;
    code = show_fetch(sock, nics, &rows);
    if (code == EXIT_OK && options->json) {
        show_json_begin("vipd.summary/1");
        fputs(",\n  ", stdout);
        view_json_members(stdout, &summary_view, NULL, summary, ",\n  ");
        fputs(",\n  ", stdout);
        view_json(stdout, &nics->view, NULL, rows.row, rows.count);
        show_json_end();
        code = show_flushed();
    } else if (code == EXIT_OK) {
        print_summary(summary);
        code = show_print(&nics->view, nics->schema, rows.row, rows.count, options);
        print_hints(summary);
    }
    show_rows_free(&rows);
    vip__reply__free_unpacked(reply, NULL);
    return code;
}

static enum exit_code show_version(int sock, const struct options *options)
{
    Vip__Reply *reply;
    enum exit_code code = summary_of(sock, &reply);
    const char *vipd;

    if (code != EXIT_OK)
        return code;
    vipd = reply->show->summary->version ? reply->show->summary->version : "?";
    if (options->json) {
        show_json_begin("vipd.version/1");
        fputs(",\n  \"vipd\": ", stdout);
        view_json_string(stdout, vipd);
        fputs(",\n  \"vipctl\": ", stdout);
        view_json_string(stdout, VIP_VERSION);
        printf(",\n  \"same\": %s", strcmp(vipd, VIP_VERSION) == 0 ? "true" : "false");
        show_json_end();
    } else {
        printf("vipd    %s\nvipctl  " VIP_VERSION "\n", vipd);
        if (strcmp(vipd, VIP_VERSION) != 0)
            puts("They differ: restart vipd after an upgrade (systemctl restart vipd).");
    }
    vip__reply__free_unpacked(reply, NULL);
    return show_flushed();
}

/* ---- the verb ---------------------------------------------------------------------------- */

/* Move the rows that pass all filters to the front. Returns their number. */
static size_t apply_filters(const struct filter *filters, int filter_count, const void **rows,
                            size_t count)
{
    size_t kept = 0;

    for (size_t i = 0; i < count; i++) {
        bool pass = true;

        for (int f = 0; f < filter_count; f++)
            pass = pass && filter_match(&filters[f], rows[i]);
        if (pass)
            rows[kept++] = rows[i];
    }
    return kept;
}

static int by_last_time(const void *a, const void *b)
{
    const Vip__ErrorRow *first = *(const void *const *)a, *second = *(const void *const *)b;

    return first->last_ns < second->last_ns ? 1 : first->last_ns > second->last_ns ? -1 : 0;
}

static enum exit_code show_rows(int sock, const struct show_view *view,
                                const struct filter *filters, int filter_count,
                                const struct options *options)
{
    struct show_rows rows;
    enum exit_code code = options->mapped ? mapped_fetch(&rows) : show_fetch(sock, view, &rows);
    size_t all = rows.count;

    if (code == EXIT_OK) {
        rows.count = apply_filters(filters, filter_count, rows.row, rows.count);
        if (view->what == VIP__SHOW_REQUEST__WHAT__ERROR)
            qsort(rows.row, rows.count, sizeof(*rows.row), by_last_time);
        if (rows.count == 0 && all > 0 && !options->json && !options->raw)
            printf("None of %zu rows passes the filter.\n", all);
        else
            code = show_print(&view->view, view->schema, rows.row, rows.count, options);
    }
    show_rows_free(&rows);
    return code;
}

enum exit_code run_show(char **words, int count, const struct options *options)
{
    const struct show_view *view = show_view_find(count > 0 ? words[0] : "summary");
    struct filter filters[FILTERS_MAX];
    struct layout layout;
    enum exit_code code;
    int sock;

    if (!view) {
        fprintf(stderr, "vipctl: there is no view \"%s\"; see vipctl --help\n", words[0]);
        return EXIT_USAGE;
    }
    if (count - 1 > FILTERS_MAX || (count > 1 && !view->view.columns)) {
        fprintf(stderr, "vipctl: show %s takes %s\n", view->name,
                view->view.columns ? "at most 16 filters" : "no filters");
        return EXIT_USAGE;
    }
    /* Parse filters and columns first, so that their errors are reported even without a vipd. */
    for (int i = 1; i < count; i++)
        if (!filter_parse(&view->view, words[i], &filters[i - 1]))
            return EXIT_USAGE;
    if (view->view.columns && !choose_layout(&view->view, options, &layout))
        return EXIT_USAGE;
    if (options->mapped) {
        if (view->what == VIP__SHOW_REQUEST__WHAT__STATS)
            return show_rows(-1, view, filters, count > 1 ? count - 1 : 0, options);
        fprintf(stderr, "vipctl: --mapped is for show stats; vipd must be asked for the others\n");
        return EXIT_USAGE;
    }
    if (options->tree && (strcmp(view->name, "clients") != 0 || count > 1 || options->raw)) {
        fprintf(stderr, "vipctl: --tree is for show clients, without filters and --raw\n");
        return EXIT_USAGE;
    }
    code = query_connect(&sock);
    if (code != EXIT_OK)
        return code;
    if (options->tree)
        code = tree_show(sock, options);
    else if (strcmp(view->name, "summary") == 0)
        code = show_summary(sock, options);
    else if (strcmp(view->name, "version") == 0)
        code = show_version(sock, options);
    else
        code = show_rows(sock, view, filters, count > 1 ? count - 1 : 0, options);
    (void)close(sock);
    return code;
}
