/* `vipctl explain`: facts about a VI, a peer, a NIC or an error, with causes and advice; see
 * explain.h. */
#include "tools/vipctl/explain.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/limits.h"
#include "tools/vipctl/commands.h"
#include "tools/vipctl/show.h"
#include "tools/vipctl/target.h"

#define EVENTS_SHOWN 8 /* largest number of events shown for a VI: the last ones */

static const char *kind_word(enum line_kind kind)
{
    switch (kind) {
    case LINE_IS:
        return "is";
    case LINE_WHEN:
        return "when";
    case LINE_BECAUSE:
        return "because";
    case LINE_DO:
        return "do";
    }
    return "?";
}

/* A text from vipd may contain bytes of other programs: replace control characters by '?'. */
static void print_clean(const char *text)
{
    for (; *text; text++)
        putchar((unsigned char)*text < 0x20 || *text == 0x7f ? '?' : *text);
    putchar('\n');
}

static enum exit_code print_explanation(const char *topic, const char *subject,
                                        const struct explanation *from,
                                        const struct options *options)
{
    if (options->json) {
        show_json_begin("vipd.explain/1");
        fputs(",\n  \"topic\": ", stdout);
        view_json_string(stdout, topic);
        fputs(",\n  \"subject\": ", stdout);
        view_json_string(stdout, subject);
        fputs(",\n  \"lines\": [", stdout);
        for (size_t i = 0; i < from->count; i++) {
            printf("%s\n    {\"kind\": \"%s\", \"text\": ", i ? "," : "",
                   kind_word(from->line[i].kind));
            view_json_string(stdout, from->line[i].text);
            putchar('}');
        }
        fputs("\n  ]", stdout);
        show_json_end();
        return show_flushed();
    }
    printf("%s %s\n", topic, subject);
    for (size_t i = 0; i < from->count; i++) {
        bool again = i > 0 && from->line[i - 1].kind == from->line[i].kind;

        printf("  %-8s ", again ? "" : kind_word(from->line[i].kind));
        print_clean(from->line[i].text);
    }
    return show_flushed();
}

/* The text of a field, as the view's table shows it. */
static const char *cell(const struct show_view *view, const void *row, const char *key, char *buf,
                        size_t buf_bytes)
{
    view_format(view_column(&view->view, key, strlen(key)), row, buf, buf_bytes);
    return buf;
}

/* ---- vi ---------------------------------------------------------------------------------- */

static void add_event(struct explanation *to, const Vip__EventRow *event)
{
    const struct show_view *view = show_view_find("events");
    char time[64];

    explain_add(to, LINE_WHEN, "%s  %s %s%s%s", cell(view, event, "time_ns", time, sizeof(time)),
                event->kind, event->key, event->text && *event->text ? ": " : "",
                event->text ? event->text : "");
}

/* Add the last events of a VI. */
static enum exit_code add_events(int sock, struct explanation *to, uint64_t session, uint32_t vi)
{
    const Vip__EventRow *found[EVENTS_SHOWN];
    Vip__Reply *replies[64] = {0};
    uint64_t cursor = 0;
    size_t count = 0, pages = 0;
    enum exit_code code = EXIT_OK;

    while (code == EXIT_OK && pages < sizeof(replies) / sizeof(*replies)) {
        const Vip__ShowReply *show;

        code = query_page(sock, VIP__SHOW_REQUEST__WHAT__EVENT, cursor, &replies[pages]);
        if (code != EXIT_OK)
            break;
        show = replies[pages++]->show;
        for (size_t i = 0; i < show->n_events; i++)
            if (show->events[i]->session == session && show->events[i]->has_vi &&
                show->events[i]->vi == vi)
                found[count++ % EVENTS_SHOWN] = show->events[i];
        if (show->n_events == 0)
            break;
        cursor = show->next_cursor;
    }
    for (size_t i = count > EVENTS_SHOWN ? count - EVENTS_SHOWN : 0; i < count; i++)
        add_event(to, found[i % EVENTS_SHOWN]);
    for (size_t i = 0; i < pages; i++)
        vip__reply__free_unpacked(replies[i], NULL);
    return code;
}

/* Add the latencies of the VI's messages, if vipd measures them for each VI. */
static void add_latency(struct explanation *to, const Vip__ViRow *row)
{
    const struct {
        const char *what;
        uint64_t p50_ns, p99_ns, max_ns;
    } spans[] = {
        {"posted to wire", row->post_to_wire_p50_ns, row->post_to_wire_p99_ns,
         row->post_to_wire_max_ns},
        {"wire to acknowledgement", row->wire_to_ack_p50_ns, row->wire_to_ack_p99_ns,
         row->wire_to_ack_max_ns},
        {"posted to completed", row->post_to_complete_p50_ns, row->post_to_complete_p99_ns,
         row->post_to_complete_max_ns},
    };

    for (size_t i = 0; i < sizeof(spans) / sizeof(*spans); i++)
        if (spans[i].max_ns)
            explain_add(to, LINE_IS,
                        "%s: half within %.1f us, 99 %% within %.1f us, at most %.1f us",
                        spans[i].what, (double)spans[i].p50_ns / 1e3, (double)spans[i].p99_ns / 1e3,
                        (double)spans[i].max_ns / 1e3);
}

/* Add what happened to a connection when a new vipd, here or at the peer, replaced an old vipd. */
static void add_binding(struct explanation *to, const Vip__ViRow *row)
{
    const struct show_view *view = show_view_find("vi");
    char since[64], left[64], told[64];

    if (!row->has_since_ns)
        return;
    cell(view, row, "since_ns", since, sizeof(since));
    cell(view, row, "left_ns", left, sizeof(left));
    if (row->rebound > 0)
        explain_add(to, LINE_IS, "bound anew %llu time%s by this vipd%s%s%s",
                    (unsigned long long)row->rebound, row->rebound == 1 ? "" : "s",
                    row->waits_for ? "" : ", last ", row->waits_for ? "" : since,
                    row->waits_for ? "" : " ago");
    if (!row->waits_for || !*row->waits_for)
        return;
    if (strcmp(row->waits_for, "peer") == 0 && row->has_told_ns)
        explain_add(to, LINE_BECAUSE,
                    "it waits for the next vipd of %s, which said %s ago that it is back within %s",
                    row->peer, since, cell(view, row, "told_ns", told, sizeof(told)));
    else if (strcmp(row->waits_for, "peer") == 0)
        explain_add(to, LINE_BECAUSE,
                    "it waits for the next vipd of %s to go on with it: %s ago the former one was "
                    "found to be gone",
                    row->peer, since);
    else if (strcmp(row->waits_for, "answer") == 0)
        explain_add(to, LINE_BECAUSE,
                    "vipd here has begun anew, and asks %s to go on with it: no answer for %s",
                    row->peer, since);
    else
        explain_add(to, LINE_BECAUSE,
                    "vipd here has begun anew, and the program has not asked to go on with it: "
                    "for %s",
                    since);
    if (row->has_left_ns)
        explain_add(to, LINE_BECAUSE, "if that does not come within %s, the connection is lost",
                    left);
    if (strcmp(row->waits_for, "program") != 0)
        explain_add(to, LINE_DO, "vipctl ping %s; at the peer: systemctl status vipd", row->peer);
}

/* Add who carries the data of the VI's connection, if it has one. */
static enum exit_code add_data_path(int sock, struct explanation *to, const Vip__ViRow *vi)
{
    struct show_rows rows;
    enum exit_code code = show_fetch(sock, show_view_find("conn"), &rows);

    for (size_t i = 0; code == EXIT_OK && i < rows.count; i++) {
        const Vip__ConnRow *row = rows.row[i];

        if (row->session != vi->session || row->vi != vi->vi)
            continue;
        if (row->has_lent && row->data_path && *row->data_path)
            explain_add(to, LINE_IS,
                        "%s carries its data; vipd has lent this %llu time%s (came back: %s)",
                        strcmp(row->data_path, "vipd") == 0 ? "vipd" : "the program",
                        (unsigned long long)row->lent, row->lent == 1 ? "" : "s", row->taken_back);
        if (row->data_path && strcmp(row->data_path, "revoked") == 0) {
            explain_add(to, LINE_BECAUSE,
                        "the program is stopped, or has no processor, in the middle of its work on "
                        "the connection; vipd waits for it, at most [reliability] conn_timeout");
            explain_add(to, LINE_DO, "kill -CONT %llu, if the program is stopped",
                        (unsigned long long)vi->pid);
        }
        if (row->not_lent && *row->not_lent)
            explain_add(to, LINE_IS,
                        "vipd did not lend its data path when the program asked last: %s",
                        row->not_lent);
    }
    show_rows_free(&rows);
    return code;
}

static void judge_vi(struct explanation *to, const Vip__ViRow *row)
{
    if (row->error && *row->error) {
        explain_add(to, LINE_BECAUSE, "%s", row->error);
        explain_reason(to, row->error);
        explain_add(to, LINE_DO,
                    "the program: VipDisconnect takes the VI back to Idle, then it can "
                    "connect again");
        return;
    }
    if (strstr(row->state, "IDLE"))
        explain_add(to, LINE_DO, "VipConnectRequest, or VipConnectWait and VipConnectAccept");
    if (strstr(row->state, "CONNECTED") && row->recv_depth == 0)
        explain_add(to, LINE_BECAUSE,
                    "no receive descriptor is posted: a message that comes now "
                    "finds none");
    if (row->retransmits > 0 && row->tx_messages > 0 && row->retransmits * 100 > row->tx_messages)
        explain_add(to, LINE_BECAUSE,
                    "more than one packet per hundred messages was sent again: the "
                    "network loses packets (vipctl check --peer %s)",
                    row->peer ? row->peer : "PEER");
}

static enum exit_code explain_vi(int sock, const char *which, struct explanation *to)
{
    const struct show_view *view = show_view_find("vi");
    const Vip__ViRow *found = NULL;
    struct target target;
    struct show_rows rows;
    char a[64], b[64], c[64];
    unsigned count = 0;
    enum exit_code code;

    if (!target_read(which, &target)) {
        fprintf(
            stderr,
            "vipctl: \"%s\" is no VI: want its number below %d, or CLIENT:VI (vipctl show vi)\n",
            which, VIP_VI_MAX);
        return EXIT_USAGE;
    }
    code = show_fetch(sock, view, &rows);
    for (size_t i = 0; code == EXIT_OK && i < rows.count; i++) {
        const Vip__ViRow *row = rows.row[i];

        if (row->vi != target.vi || (target.has_client && row->session != target.client))
            continue;
        found = row;
        count++;
    }
    if (code == EXIT_OK && count != 1) {
        fprintf(stderr, "vipctl: %s VI %s%s\n", count ? "several clients have a" : "there is no",
                which, count ? ": say CLIENT:VI (vipctl show vi)" : " (vipctl show vi)");
        code = count ? EXIT_USAGE : EXIT_NO_OBJECT;
    }
    if (code == EXIT_OK) {
        explain_add(to, LINE_IS, "%s, %s, of %s (client %llu, pid %llu, uid %u) on %s",
                    cell(view, found, "state", a, sizeof(a)),
                    cell(view, found, "level", b, sizeof(b)), found->program,
                    (unsigned long long)found->session, (unsigned long long)found->pid, found->uid,
                    found->nic);
        if (found->peer && *found->peer)
            explain_add(to, LINE_IS, "connected with %s, round trip %s, window %s", found->peer,
                        cell(view, found, "srtt_ns", a, sizeof(a)),
                        cell(view, found, "window_bytes", b, sizeof(b)));
        explain_add(to, LINE_IS,
                    "%u sends and %u receives are posted; %llu messages sent (%s), %llu "
                    "received; %llu packets sent again",
                    found->send_depth, found->recv_depth, (unsigned long long)found->tx_messages,
                    cell(view, found, "tx_bytes", c, sizeof(c)),
                    (unsigned long long)found->rx_messages, (unsigned long long)found->retransmits);
        add_latency(to, found);
        add_binding(to, found);
        code = add_data_path(sock, to, found);
    }
    if (code == EXIT_OK) {
        code = add_events(sock, to, found->session, found->vi);
        judge_vi(to, found);
    }
    show_rows_free(&rows);
    return code;
}

/* ---- peer -------------------------------------------------------------------------------- */

static void judge_peer(struct explanation *to, const Vip__PeerRow *row)
{
    const struct show_view *view = show_view_find("peers");
    char a[64], b[64];

    if (strcmp(row->state, "away") == 0) {
        explain_add(to, LINE_BECAUSE, "its vipd was restarted or stopped %s ago%s%s",
                    cell(view, row, "since_ns", a, sizeof(a)),
                    row->has_told_ns ? ", and said that the next one is back within " : "",
                    row->has_told_ns ? cell(view, row, "told_ns", b, sizeof(b)) : "");
        explain_add(to, LINE_BECAUSE,
                    "its connections wait for the next one, and are lost after another %s",
                    cell(view, row, "left_ns", a, sizeof(a)));
        explain_add(to, LINE_DO, "vipctl ping %s; at the peer: systemctl status vipd", row->peer);
    }
    if (strcmp(row->state, "lost") == 0 || strcmp(row->state, "silent") == 0) {
        explain_add(to, LINE_BECAUSE, "its vipd does not answer");
        explain_add(to, LINE_DO, "vipctl ping %s; at the peer: systemctl status vipd", row->peer);
    }
    if (row->tx_bytes > 0 && row->lost > 0) {
        explain_add(to, LINE_BECAUSE, "%llu packets were lost on the way there",
                    (unsigned long long)row->lost);
        explain_add(to, LINE_DO,
                    "vipctl check --peer %s; is the path MTU smaller than the NIC's mtu, "
                    "or a socket buffer too small over there?",
                    row->peer);
    }
    if (row->window_bytes > 0 && row->inflight_bytes * 10 >= row->window_bytes * 9)
        explain_add(to, LINE_BECAUSE,
                    "the window is full: the path or the receiver decides the rate");
    else if (row->connections > 0)
        explain_add(to, LINE_BECAUSE, "the window is not full: the programs decide the rate");
}

/* Is `which` the address without its port? (MAC addresses have no port.) An IPv6 address with a
 * port is in brackets; in `which` the brackets may be absent. */
static bool is_without_port(const char *address, const char *which)
{
    const char *port = strrchr(address, ':');
    size_t len;

    if (!port || (address[0] != '[' && strchr(address, ':') != port))
        return false;
    len = (size_t)(port - address);
    if (strlen(which) == len && strncmp(address, which, len) == 0)
        return true;
    return address[0] == '[' && strlen(which) == len - 2 &&
           strncmp(address + 1, which, len - 2) == 0;
}

/* Does `which` name this peer? It may be the peer's address, with or without the port, the peer's
 * name, or a name that has the peer's address. */
static bool is_peer(const struct explanation *of, const Vip__PeerRow *row, const char *which)
{
    for (size_t i = 0; i < of->addresses; i++)
        if (strcmp(row->peer, of->address[i]) == 0)
            return true;
    return strcmp(row->peer, which) == 0 || (row->name && strcmp(row->name, which) == 0) ||
           is_without_port(row->peer, which);
}

static enum exit_code explain_peer(int sock, const char *which, struct explanation *to)
{
    const struct show_view *view = show_view_find("peers");
    struct show_rows rows;
    char a[64], b[64], c[64], d[64];
    unsigned count = 0;
    enum exit_code way = explain_way(sock, which, to), code;

    if (way != EXIT_OK && way != EXIT_NO_OBJECT)
        return way;
    code = show_fetch(sock, view, &rows);
    for (size_t i = 0; code == EXIT_OK && i < rows.count; i++) {
        const Vip__PeerRow *row = rows.row[i];

        if (!is_peer(to, row, which))
            continue;
        count++;
        explain_add(to, LINE_IS, "%s: %s, over %s, %llu connections, heard of %s ago", row->peer,
                    row->state, row->nic, (unsigned long long)row->connections,
                    cell(view, row, "heard_ago_ns", a, sizeof(a)));
        explain_add(to, LINE_IS,
                    "sent %s, received %s; %llu packets sent again; round trip %s, window "
                    "%s",
                    cell(view, row, "tx_bytes", a, sizeof(a)),
                    cell(view, row, "rx_bytes", b, sizeof(b)), (unsigned long long)row->retransmits,
                    cell(view, row, "srtt_ns", c, sizeof(c)),
                    cell(view, row, "window_bytes", d, sizeof(d)));
        if (row->rebound > 0)
            explain_add(to, LINE_IS, "%llu of the connections were bound anew by this vipd",
                        (unsigned long long)row->rebound);
        judge_peer(to, row);
    }
    if (code == EXIT_OK && count == 0 && way == EXIT_OK) {
        explain_add(to, LINE_IS, "we have no connection with it now (vipctl show peers)");
        explain_add(to, LINE_DO, "vipctl ping %s asks whether it is there", which);
    } else if (code == EXIT_OK && count == 0) {
        fprintf(stderr,
                "vipctl: no NIC reaches \"%s\", and we have no connection with it (vipctl show "
                "peers)\n",
                which);
        for (size_t i = 0; i < to->count; i++)
            fprintf(stderr, "  %s\n", to->line[i].text);
        code = way;
    }
    show_rows_free(&rows);
    return code;
}

/* ---- error ------------------------------------------------------------------------------- */

static enum exit_code add_occurrences(int sock, const char *name, struct explanation *to)
{
    const struct show_view *view = show_view_find("errors");
    struct show_rows rows;
    char first[64], last[64], when[160];
    enum exit_code code = show_fetch(sock, view, &rows);

    for (size_t i = 0; code == EXIT_OK && i < rows.count; i++) {
        const Vip__ErrorRow *row = rows.row[i];

        if (!strstr(row->key, name))
            continue;
        cell(view, row, "last_ns", last, sizeof(last));
        if (row->count == 1)
            snprintf(when, sizeof(when), "once, at %s", last);
        else
            snprintf(when, sizeof(when), "%llu times from %s to %s", (unsigned long long)row->count,
                     cell(view, row, "first_ns", first, sizeof(first)), last);
        explain_add(to, LINE_WHEN, "%s: %s, last of %s (pid %llu)%s%s", when, row->key,
                    row->program, (unsigned long long)row->pid, row->text ? ": " : "",
                    row->text ? row->text : "");
        explain_reason(to, row->text);
    }
    show_rows_free(&rows);
    return code;
}

/* Explain a code. This needs no vipd. */
static enum exit_code explain_error(const char *which, struct explanation *to)
{
    const struct vip_code *code;
    enum exit_code exit = EXIT_NO_OBJECT;
    size_t at = 0;
    int sock;

    while ((code = code_find(which, &at)) != NULL) {
        exit = EXIT_OK;
        explain_add(to, LINE_IS, "%s, %s %d: %s", code->name, code->kind, code->number,
                    code->meaning);
        explain_add(to, LINE_DO, "%s", code->action);
        /* Only a running vipd knows how often the error occurred. */
        if (query_try_connect(&sock)) {
            (void)add_occurrences(sock, code->name, to);
            (void)close(sock);
        }
    }
    if (exit != EXIT_OK)
        fprintf(stderr,
                "vipctl: \"%s\" is no code of VIPL, such as VIP_ERROR_CONN_LOST, conn_lost or "
                "14\n",
                which);
    return exit;
}

/* ---- nic --------------------------------------------------------------------------------- */

/* Add the counters of drops and errors that are not 0, in the order of the view stats. */
static enum exit_code add_drops(int sock, const char *nic, struct explanation *to)
{
    struct show_rows rows;
    char scope[96];
    enum exit_code code = show_fetch(sock, show_view_find("stats"), &rows);

    snprintf(scope, sizeof(scope), "nic:%s", nic);
    for (size_t i = 0; code == EXIT_OK && i < rows.count; i++) {
        const Vip__Counter *row = rows.row[i];

        if (strcmp(row->scope, scope) != 0 || row->value == 0 ||
            (strncmp(row->name, "drop_", 5) != 0 && !strstr(row->name, "errors") &&
             strcmp(row->name, "tx_down") != 0 && strcmp(row->name, "recvq_empty") != 0 &&
             strcmp(row->name, "retransmits") != 0))
            continue;
        explain_add(to, LINE_BECAUSE, "%s = %llu: %s %s", row->name, (unsigned long long)row->value,
                    row->unit, row->help);
    }
    show_rows_free(&rows);
    return code;
}

static enum exit_code explain_nic(int sock, const char *which, struct explanation *to)
{
    const struct show_view *view = show_view_find("nic");
    const Vip__NicRow *found = NULL;
    struct show_rows rows;
    char a[64], b[64];
    enum exit_code code = show_fetch(sock, view, &rows);

    for (size_t i = 0; code == EXIT_OK && i < rows.count; i++)
        if (strcmp(((const Vip__NicRow *)rows.row[i])->name, which) == 0)
            found = rows.row[i];
    if (code == EXIT_OK && !found) {
        fprintf(stderr, "vipctl: there is no NIC \"%s\" (vipctl show nic)\n", which);
        code = EXIT_NO_OBJECT;
    }
    if (code == EXIT_OK) {
        if (found->address && *found->address)
            explain_add(to, LINE_IS, "%s, link %s, address %s, packets of at most %u bytes",
                        found->state, found->link, found->address, found->mtu);
        else
            explain_add(to, LINE_IS, "%s, link %s, which has had no address yet", found->state,
                        found->link);
        explain_add(to, LINE_IS, "%llu programs with %llu VIs; sent %s, received %s",
                    (unsigned long long)found->clients, (unsigned long long)found->vis,
                    cell(view, found, "tx_bytes", a, sizeof(a)),
                    cell(view, found, "rx_bytes", b, sizeof(b)));
        explain_add(to, LINE_IS, "VipOpenNic takes the names %s %s", found->name,
                    found->aliases ? found->aliases : "");
        explain_reason(to, found->state);
        if (found->without && *found->without) {
            explain_add(to, LINE_BECAUSE, "it is %s without %s", found->link, found->without);
            explain_reason(to, found->without);
        }
        if (found->faults && *found->faults) {
            explain_add(to, LINE_BECAUSE, "it damages packets on purpose: faults = %s",
                        found->faults);
            explain_add(to, LINE_DO, "remove faults from [nic:%s] and restart vipd", which);
        }
        code = add_drops(sock, which, to);
    }
    show_rows_free(&rows);
    return code;
}

enum exit_code run_explain(char **words, int count, const struct options *options)
{
    struct explanation explanation = {0};
    enum exit_code code;
    int sock;

    (void)count;
    if (strcmp(words[0], "error") == 0) {
        code = explain_error(words[1], &explanation);
        return code == EXIT_OK ? print_explanation(words[0], words[1], &explanation, options)
                               : code;
    }
    if (strcmp(words[0], "vi") != 0 && strcmp(words[0], "peer") != 0 &&
        strcmp(words[0], "nic") != 0) {
        fprintf(stderr, "vipctl: explain knows vi N, peer P, error CODE and nic N, not \"%s\"\n",
                words[0]);
        return EXIT_USAGE;
    }
    code = query_connect(&sock);
    if (code != EXIT_OK)
        return code;
    if (strcmp(words[0], "vi") == 0)
        code = explain_vi(sock, words[1], &explanation);
    else if (strcmp(words[0], "peer") == 0)
        code = explain_peer(sock, words[1], &explanation);
    else
        code = explain_nic(sock, words[1], &explanation);
    (void)close(sock);
    return code == EXIT_OK ? print_explanation(words[0], words[1], &explanation, options) : code;
}
