/* The verbs of vipctl: fetch, then print; see show.h. */
#include "tools/vipctl/show.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/vipctl/views.h"

#define SUMMARY_SCHEMA "vipd.summary/1"

/* Row pointers of one view over all pages; the rows stay inside the pages. */
struct rows {
    const void **row;
    size_t count;
};

static enum exit_code gather(const struct show_view *view, const struct query_pages *pages,
                             struct rows *ret)
{
    struct rows rows = {0};

    for (size_t p = 0; p < pages->page_count; p++)
        rows.count +=
            *(const size_t *)(const void *)((const char *)pages->reply[p]->show + view->count_off);
    rows.row = calloc(rows.count + 1, sizeof(*rows.row));
    if (!rows.row) {
        fprintf(stderr, "vipctl: out of memory\n");
        return EXIT_FAILED;
    }
    rows.count = 0;
    for (size_t p = 0; p < pages->page_count; p++) {
        const char *show = (const char *)pages->reply[p]->show;
        size_t count = *(const size_t *)(const void *)(show + view->count_off);
        const void *const *list =
            *(const void *const *const *)(const void *)(show + view->rows_off);

        for (size_t i = 0; i < count; i++)
            rows.row[rows.count++] = list[i];
    }
    *ret = rows;
    return EXIT_OK;
}

/* A full disk or a closed pipe must not look like success. */
static enum exit_code flushed(void)
{
    if (fflush(stdout) != 0 || ferror(stdout)) {
        perror("vipctl: writing the output");
        return EXIT_FAILED;
    }
    return EXIT_OK;
}

static enum exit_code print_table(const struct show_view *view, const struct rows *rows,
                                  const struct show_options *options)
{
    if (view_table(&view->view, rows->row, rows->count, options->colours) < 0) {
        fprintf(stderr, "vipctl: out of memory\n");
        return EXIT_FAILED;
    }
    return EXIT_OK;
}

enum exit_code show_view(const char *name, const struct show_options *options)
{
    const struct show_view *view = NULL;
    struct query_pages pages = {0};
    struct rows rows = {0};
    enum exit_code code;
    int sock;

    for (size_t i = 0; i < show_view_count; i++)
        if (strcmp(show_views[i].name, name) == 0)
            view = &show_views[i];
    if (!view) {
        fprintf(stderr, "vipctl: there is no view \"%s\"; see vipctl --help\n", name);
        return EXIT_USAGE;
    }
    code = query_connect(&sock);
    if (code != EXIT_OK)
        return code;
    code = query_show(sock, view->what, &pages);
    if (code == EXIT_OK)
        code = gather(view, &pages, &rows);
    if (code == EXIT_OK && options->json) {
        fputs("{\n  \"schema\": ", stdout);
        view_json_string(stdout, view->schema);
        fputs(",\n  ", stdout);
        view_json(stdout, &view->view, rows.row, rows.count);
        fputs("\n}\n", stdout);
    } else if (code == EXIT_OK) {
        code = print_table(view, &rows, options);
    }
    if (code == EXIT_OK)
        code = flushed();
    free(rows.row);
    query_free(&pages);
    (void)close(sock);
    return code;
}

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

enum exit_code show_summary(const struct show_options *options)
{
    const struct show_view *nics = &show_views[0];
    struct query_pages summary_pages = {0}, nic_pages = {0};
    const Vip__Summary *summary = NULL;
    struct rows rows = {0};
    enum exit_code code;
    int sock;

    code = query_connect(&sock);
    if (code != EXIT_OK)
        return code;
    code = query_show(sock, VIP__SHOW_REQUEST__WHAT__SUMMARY, &summary_pages);
    if (code == EXIT_OK)
        code = query_show(sock, nics->what, &nic_pages);
    if (code == EXIT_OK)
        code = gather(nics, &nic_pages, &rows);
    if (code == EXIT_OK) {
        summary = summary_pages.reply[0]->show->summary;
        if (!summary) {
            fprintf(stderr, "vipctl: vipd's answer has no summary; is it of another version?\n");
            code = EXIT_FAILED;
        }
    }
    if (code == EXIT_OK && options->json) {
        fputs("{\n  \"schema\": \"" SUMMARY_SCHEMA "\",\n  ", stdout);
        view_json_members(stdout, &summary_view, summary, ",\n  ");
        fputs(",\n  ", stdout);
        view_json(stdout, &nics->view, rows.row, rows.count);
        fputs("\n}\n", stdout);
    } else if (code == EXIT_OK) {
        print_summary(summary);
        code = print_table(nics, &rows, options);
    }
    if (code == EXIT_OK)
        code = flushed();
    free(rows.row);
    query_free(&nic_pages);
    query_free(&summary_pages);
    (void)close(sock);
    return code;
}
