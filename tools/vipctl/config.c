/* `vipctl config`: the files, the values in force, and the differences. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/vipctl/commands.h"
#include "tools/vipctl/program.h"
#include "tools/vipctl/show.h"

/* Show keys that a file sets or that change at a restart; with --defaults, show all keys. */
static enum exit_code show_config(const struct options *options)
{
    const struct show_view *view = show_view_find("config");
    struct show_rows rows;
    enum exit_code code;
    size_t kept = 0;
    int sock;

    code = query_connect(&sock);
    if (code != EXIT_OK)
        return code;
    code = show_fetch(sock, view, &rows);
    for (size_t i = 0; code == EXIT_OK && i < rows.count; i++) {
        const Vip__ConfigRow *row = rows.row[i];

        if (options->defaults || row->file || row->pending)
            rows.row[kept++] = row;
    }
    if (code == EXIT_OK && kept == 0 && !options->json && !options->raw)
        puts("Every key has its default; vipctl config show --defaults lists them.");
    else if (code == EXIT_OK)
        code = show_print(&view->view, view->schema, rows.row, kept, options);
    show_rows_free(&rows);
    (void)close(sock);
    return code;
}

/* The running vipd's --config FILE. NULL: vipd runs without --config, or does not answer. */
static char *running_file(void)
{
    Vip__Reply *reply;
    char *file = NULL;
    int sock;

    if (!query_try_connect(&sock))
        return NULL;
    if (query_page(sock, VIP__SHOW_REQUEST__WHAT__SUMMARY, 0, &reply) == EXIT_OK) {
        const Vip__Summary *summary = reply->show->summary;

        if (summary && summary->config_file && summary->config_file[0] == '/')
            file = strdup(summary->config_file);
        vip__reply__free_unpacked(reply, NULL);
    }
    (void)close(sock);
    return file;
}

/* Check a file; NULL: the file that the running vipd would reload, or else the system's files. */
static enum exit_code check_config(const char *file)
{
    char *running = file ? NULL : running_file();
    char *const arguments[] = {(char *)"vipd", (char *)"--check-config",
                               file || running ? (char *)"--config" : NULL,
                               file ? (char *)file : running, NULL};
    enum exit_code code = program_run("vipd", arguments);

    free(running);
    return code;
}

enum exit_code run_config(char **words, int count, const struct options *options)
{
    struct options look = *options;

    if (strcmp(words[0], "show") == 0 && count == 1)
        return show_config(options);
    if (strcmp(words[0], "diff") == 0 && count == 1) {
        look.dry_run = true;
        return run_reload(words, 0, &look);
    }
    if (strcmp(words[0], "check") == 0)
        return check_config(count > 1 ? words[1] : NULL);
    fprintf(stderr, "vipctl: usage: vipctl config check [FILE] | show | diff\n");
    return EXIT_USAGE;
}
