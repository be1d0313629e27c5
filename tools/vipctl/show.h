/* Fetches the rows of a view, and prints them as a table, as raw text, or as a JSON document. */
#ifndef VIPCTL_SHOW_H
#define VIPCTL_SHOW_H

#include "tools/vipctl/options.h"
#include "tools/vipctl/query.h"
#include "tools/vipctl/views.h"

/* The rows of one view, from all its pages. */
struct show_rows {
    struct query_pages pages;
    const void **row;
    size_t count;
    void *own[2]; /* memory of rows that are not in pages, or NULL */
};

/* Fetch all rows of a view. Outcomes: as query_show. In any case, free with show_rows_free. */
enum exit_code show_fetch(int sock, const struct show_view *view, struct show_rows *ret);
void show_rows_free(struct show_rows *rows);

/* Print the start of a JSON document ({"schema": "...",) or the end of the document. */
void show_json_begin(const char *schema);
void show_json_end(void);

/* Print rows as the options require; with --json a whole document. */
enum exit_code show_print(const struct view *view, const char *schema, const void *const *rows,
                          size_t count, const struct options *options);

/* Flush stdout. Outcomes: EXIT_OK; EXIT_FAILED: for example a full disk or a closed pipe. */
enum exit_code show_flushed(void);

#endif
