/* Fetches all rows of a view. Also prints the start and the end of a JSON document. */
#include "tools/vipctl/show.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum exit_code gather(const struct show_view *view, struct show_rows *rows)
{
    const struct query_pages *pages = &rows->pages;
    size_t count = 0;

    for (size_t p = 0; p < pages->page_count; p++)
        count +=
            *(const size_t *)(const void *)((const char *)pages->reply[p]->show + view->count_off);
    rows->row = calloc(count + 1, sizeof(*rows->row));
    if (!rows->row) {
        fprintf(stderr, "vipctl: out of memory\n");
        return EXIT_FAILED;
    }
    for (size_t p = 0; p < pages->page_count; p++) {
        const char *show = (const char *)pages->reply[p]->show;
        size_t n = *(const size_t *)(const void *)(show + view->count_off);
        const void *const *list =
            *(const void *const *const *)(const void *)(show + view->rows_off);

        for (size_t i = 0; i < n; i++)
            rows->row[rows->count++] = list[i];
    }
    return EXIT_OK;
}

enum exit_code show_fetch(int sock, const struct show_view *view, struct show_rows *ret)
{
    enum exit_code code;

    *ret = (struct show_rows){0};
    code = query_show(sock, view->what, &ret->pages);
    return code == EXIT_OK ? gather(view, ret) : code;
}

void show_rows_free(struct show_rows *rows)
{
    free(rows->row);
    query_free(&rows->pages);
    free(rows->own[0]);
    free(rows->own[1]);
    *rows = (struct show_rows){0};
}

enum exit_code show_flushed(void)
{
    if (fflush(stdout) != 0 || ferror(stdout)) {
        perror("vipctl: writing the output");
        return EXIT_FAILED;
    }
    return EXIT_OK;
}

void show_json_begin(const char *schema)
{
    fputs("{\n  \"schema\": ", stdout);
    view_json_string(stdout, schema);
}

void show_json_end(void)
{
    fputs("\n}\n", stdout);
}
