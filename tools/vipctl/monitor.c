/* `vipctl monitor`: prints events as they happen, as text or as one JSON object per line. */
#include <stdio.h>
#include <unistd.h>

#include "tools/vipctl/commands.h"
#include "tools/vipctl/show.h"

#define INTERVAL_DEFAULT_S 0.2

static void print_event(const Vip__EventRow *row, const struct options *options)
{
    const struct view *view = &show_view_find("events")->view;
    char time[64], key[64];

    if (options->json) {
        fputs("{\"schema\": \"vipd.event/1\", ", stdout);
        view_json_members(stdout, view, NULL, row, ", ");
        puts("}");
        return;
    }
    view_format(view_column(view, "time_ns", 7), row, time, sizeof(time));
    snprintf(key, sizeof(key), "%s", row->key ? row->key : "");
    printf("%s  %-14s %s", time, row->kind ? row->kind : "", key);
    if (row->has_session)
        printf("  client %llu", (unsigned long long)row->session);
    if (row->has_vi)
        printf("  VI %u", row->vi);
    if (row->program && *row->program)
        printf("  %s[%llu]", row->program, (unsigned long long)row->pid);
    if (row->text && *row->text)
        printf("  %s", row->text);
    putchar('\n');
}

enum exit_code run_monitor(char **words, int count, const struct options *options)
{
    double interval_s = options->interval_s > 0 ? options->interval_s : INTERVAL_DEFAULT_S;
    uint64_t cursor = 0, printed = 0;
    enum exit_code code;
    int sock;

    (void)words;
    (void)count;
    code = query_connect(&sock);
    while (code == EXIT_OK) {
        Vip__Reply *reply;
        const Vip__ShowReply *show;

        code = query_page(sock, VIP__SHOW_REQUEST__WHAT__EVENT, cursor, &reply);
        if (code != EXIT_OK)
            break;
        show = reply->show;
        for (size_t i = 0; i < show->n_events && code == EXIT_OK; i++) {
            print_event(show->events[i], options);
            if (++printed == options->count && options->count > 0) {
                vip__reply__free_unpacked(reply, NULL);
                (void)close(sock);
                return show_flushed();
            }
        }
        cursor = show->has_next_cursor ? show->next_cursor : cursor;
        if (show->n_events == 0)
            usleep((useconds_t)(interval_s * 1e6));
        vip__reply__free_unpacked(reply, NULL);
        code = show_flushed();
    }
    if (code != EXIT_NO_VIPD && code != EXIT_PERMISSION && code != EXIT_USAGE)
        (void)close(sock);
    return code;
}
