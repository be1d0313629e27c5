/*
 * `vipctl restart`: if vipd is a service of systemd, ask systemd to restart it; systemd keeps the
 * sockets of the NICs meanwhile (vipd/fd_store.h). vipctl does not end any other vipd, because
 * vipctl does not know the options for its next start.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-login.h>
#include <unistd.h>

#include "tools/vipctl/commands.h"

/* Is the unit one of vipd's services (vipd.service, vipd@NAME.service)? */
static bool is_service(const char *unit)
{
    static const char end[] = ".service";
    size_t len = strlen(unit);

    return strncmp(unit, "vipd", 4) == 0 && (unit[4] == '.' || unit[4] == '@') &&
           len > sizeof(end) && strcmp(unit + len - (sizeof(end) - 1), end) == 0;
}

static enum exit_code restart(pid_t pid)
{
    char *unit = NULL;
    char *user[] = {"systemctl", "--user", "restart", NULL, NULL};
    char *system[] = {"systemctl", "restart", NULL, NULL};

    if (sd_pid_get_user_unit(pid, &unit) >= 0 && is_service(unit)) {
        uid_t owner;

        /* Refuse another user's vipd: systemctl --user would instead restart this user's service
         * with the same name. */
        if (sd_pid_get_owner_uid(pid, &owner) < 0 || owner != geteuid()) {
            fprintf(stderr,
                    "vipctl: vipd (pid %ld) is a service of another user, who can restart it\n",
                    (long)pid);
            return EXIT_PERMISSION;
        }
        user[3] = unit;
        execvp(user[0], user);
    } else if (sd_pid_get_unit(pid, &unit) >= 0 && is_service(unit)) {
        system[2] = unit;
        execvp(system[0], system);
    } else {
        fprintf(stderr,
                "vipctl: vipd (pid %ld) is not a service of systemd, so vipctl cannot start it "
                "again\nStart the next one with the options of this one and --takeover. The "
                "connections\ngo on if [reliability] outlive is not 0 at both hosts.\n",
                (long)pid);
        return EXIT_FAILED;
    }
    perror("vipctl: systemctl");
    return EXIT_FAILED;
}

enum exit_code run_restart(char **words, int count, const struct options *options)
{
    enum exit_code code;
    Vip__Reply *reply;
    pid_t pid = 0;
    int sock;

    (void)words;
    (void)count;
    (void)options;
    code = query_connect(&sock);
    if (code != EXIT_OK)
        return code;
    code = query_page(sock, VIP__SHOW_REQUEST__WHAT__SUMMARY, 0, &reply);
    (void)close(sock);
    if (code == EXIT_OK && reply->show && reply->show->summary)
        pid = (pid_t)reply->show->summary->pid;
    if (reply)
        vip__reply__free_unpacked(reply, NULL);
    return code == EXIT_OK ? restart(pid) : code;
}
