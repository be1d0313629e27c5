/* reload, disconnect, drain, resume: requests of administrators. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tools/vipctl/commands.h"
#include "tools/vipctl/show.h"
#include "tools/vipctl/target.h"

/* ---- reload ------------------------------------------------------------------------------ */

static void print_faults_json(const char *faults)
{
    const char *between = "";

    fputs(",\n  \"faults\": [", stdout);
    while (*faults) {
        size_t len = strcspn(faults, "\n");
        char line[1024];

        snprintf(line, sizeof(line), "%.*s", (int)len, faults);
        fputs(between, stdout);
        view_json_string(stdout, line);
        between = ", ";
        faults += len + (faults[len] == '\n');
    }
    fputs("]", stdout);
}

static void print_classes(const Vip__ReloadReply *reload)
{
    static const struct {
        const char *reload, *sentence;
    } classes[] = {
        {"live", "live: in force now"},
        {"new", "new: for NIC handles opened from now on"},
        {"restart", "restart: when vipd is started again (systemctl restart vipd)"},
    };

    for (size_t k = 0; k < sizeof(classes) / sizeof(*classes); k++) {
        for (size_t i = 0; i < reload->n_changes; i++) {
            if (strcmp(reload->changes[i]->reload, classes[k].reload) == 0) {
                puts(classes[k].sentence);
                break;
            }
        }
    }
}

static enum exit_code print_reload(const Vip__ReloadReply *reload, const struct options *options)
{
    const void *const *rows = (const void *const *)reload->changes;
    enum exit_code code;

    if (options->json) {
        show_json_begin("vipd.reload/1");
        printf(",\n  \"dry_run\": %s,\n  \"faults\": [],\n  ", options->dry_run ? "true" : "false");
        view_json(stdout, &change_view, NULL, rows, reload->n_changes);
        show_json_end();
        return show_flushed();
    }
    code = show_print(&change_view, "", rows, reload->n_changes, options);
    if (reload->n_changes > 0 && options->dry_run)
        puts("Nothing has been changed (--dry-run).");
    else
        print_classes(reload);
    return code;
}

enum exit_code run_reload(char **words, int count, const struct options *options)
{
    Vip__ReloadRequest reload = VIP__RELOAD_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    Vip__Reply *reply;
    enum exit_code code;
    int sock;

    (void)words;
    (void)count;
    reload.has_dry_run = true;
    reload.dry_run = options->dry_run;
    request.body_case = VIP__REQUEST__BODY_RELOAD;
    request.reload = &reload;
    code = query_connect(&sock);
    if (code != EXIT_OK)
        return code;
    code = query_ask(sock, &request, &reply);
    if (code == EXIT_OK && reply->reload) {
        code = print_reload(reply->reload, options);
    } else if (reply && reply->reload && reply->reload->faults) {
        fputs(reply->reload->faults, stderr);
        if (options->json) {
            show_json_begin("vipd.reload/1");
            printf(",\n  \"dry_run\": %s", options->dry_run ? "true" : "false");
            print_faults_json(reply->reload->faults);
            fputs(",\n  \"changes\": []", stdout);
            show_json_end();
        }
    }
    if (reply)
        vip__reply__free_unpacked(reply, NULL);
    (void)close(sock);
    return code;
}

/* ---- disconnect, drain, resume ----------------------------------------------------------- */

/* Convert a target: "17" is a VI, "3:17" is VI 17 of client 3, any other text is a peer. */
static void read_target(const char *text, Vip__AdminRequest *admin)
{
    struct target target;

    if (target_read(text, &target)) {
        admin->what = VIP__ADMIN_REQUEST__WHAT__DISCONNECT_VI;
        admin->has_session = target.has_client;
        admin->session = target.client;
        admin->has_vi = true;
        admin->vi = target.vi;
    } else {
        admin->what = VIP__ADMIN_REQUEST__WHAT__DISCONNECT_PEER;
        admin->peer = (char *)text;
    }
}

static enum exit_code ask_admin(int sock, Vip__AdminRequest *admin, Vip__AdminReply *ret)
{
    Vip__Request request = VIP__REQUEST__INIT;
    Vip__Reply *reply;
    enum exit_code code;

    admin->has_what = true;
    request.body_case = VIP__REQUEST__BODY_ADMIN;
    request.admin = admin;
    code = query_ask(sock, &request, &reply);
    if (code == EXIT_OK && !reply->admin) {
        fprintf(stderr, "vipctl: vipd's answer makes no sense; is it of another version?\n");
        code = EXIT_FAILED;
    }
    if (code == EXIT_OK)
        *ret = *reply->admin; /* a full copy: it has only numbers, no pointers */
    if (reply)
        vip__reply__free_unpacked(reply, NULL);
    return code;
}

static enum exit_code print_admin(const Vip__AdminReply *reply, const struct options *options,
                                  const char *sentence)
{
    if (options->json) {
        show_json_begin("vipd.admin/1");
        printf(",\n  \"connections_ended\": %llu,\n  \"sessions\": %llu,\n  \"draining\": %s",
               (unsigned long long)reply->connections, (unsigned long long)reply->sessions,
               reply->draining ? "true" : "false");
        show_json_end();
    } else {
        puts(sentence);
    }
    return show_flushed();
}

static enum exit_code one_admin(Vip__AdminRequest *admin, const struct options *options,
                                const char *format)
{
    Vip__AdminReply reply = VIP__ADMIN_REPLY__INIT;
    char sentence[256];
    enum exit_code code;
    int sock;

    code = query_connect(&sock);
    if (code != EXIT_OK)
        return code;
    code = ask_admin(sock, admin, &reply);
    if (code == EXIT_OK) {
        snprintf(sentence, sizeof(sentence), "%s: %llu connection%s ended, %llu NIC handle%s open",
                 format, (unsigned long long)reply.connections, reply.connections == 1 ? "" : "s",
                 (unsigned long long)reply.sessions, reply.sessions == 1 ? "" : "s");
        code = print_admin(&reply, options, sentence);
    }
    (void)close(sock);
    return code;
}

enum exit_code run_disconnect(char **words, int count, const struct options *options)
{
    Vip__AdminRequest admin = VIP__ADMIN_REQUEST__INIT;

    (void)count;
    read_target(words[0], &admin);
    return one_admin(&admin, options, words[0]);
}

enum exit_code run_resume(char **words, int count, const struct options *options)
{
    Vip__AdminRequest admin = VIP__ADMIN_REQUEST__INIT;

    (void)words;
    (void)count;
    admin.what = VIP__ADMIN_REQUEST__WHAT__RESUME;
    return one_admin(&admin, options, "NICs can be opened again");
}

static double now_s(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* Ask for the number of open NICs until it is 0 or the timeout is over. vipd is already draining,
 * so the request only returns this number. */
static enum exit_code wait_drained(int sock, Vip__AdminRequest *admin, Vip__AdminReply *reply,
                                   const struct options *options)
{
    double end_s = now_s() + (options->timeout_s > 0 ? options->timeout_s : 1e9);
    enum exit_code code = EXIT_OK;

    while (code == EXIT_OK && reply->sessions > 0) {
        if (now_s() >= end_s) {
            fprintf(stderr, "vipctl: %llu NIC handles are still open (vipctl show clients)\n",
                    (unsigned long long)reply->sessions);
            return EXIT_TIMEOUT;
        }
        usleep(100000);
        code = ask_admin(sock, admin, reply);
    }
    return code;
}

enum exit_code run_drain(char **words, int count, const struct options *options)
{
    Vip__AdminRequest admin = VIP__ADMIN_REQUEST__INIT;
    Vip__AdminReply reply = VIP__ADMIN_REPLY__INIT;
    char sentence[160];
    enum exit_code code;
    int sock;

    (void)words;
    (void)count;
    admin.what = VIP__ADMIN_REQUEST__WHAT__DRAIN;
    code = query_connect(&sock);
    if (code != EXIT_OK)
        return code;
    code = ask_admin(sock, &admin, &reply);
    if (code == EXIT_OK && options->wait)
        code = wait_drained(sock, &admin, &reply, options);
    if (code == EXIT_OK) {
        snprintf(
            sentence, sizeof(sentence),
            "No NIC is opened and no connection made until vipctl resume; %llu NIC handle%s open",
            (unsigned long long)reply.sessions, reply.sessions == 1 ? " is" : "s are");
        code = print_admin(&reply, options, sentence);
    }
    (void)close(sock);
    return code;
}
