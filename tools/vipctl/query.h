/*
 * Asks a running vipd: one connection for any number of requests.
 *
 * Owns: the socket, paging, the messages about failed requests, and the exit code of a refusal.
 * Does not own: the views (views.c).
 */
#ifndef VIPCTL_QUERY_H
#define VIPCTL_QUERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/control.pb-c.h"

/* Exit codes of vipctl; scripts rely on them. */
enum exit_code {
    EXIT_OK = 0,
    EXIT_FAILED = 1,     /* the action failed, or vipd's answer is invalid */
    EXIT_USAGE = 2,      /* the command line was wrong */
    EXIT_NO_VIPD = 3,    /* no vipd listens on the socket */
    EXIT_PERMISSION = 4, /* this user has no permission */
    EXIT_NO_OBJECT = 5,  /* the VI, peer, NIC or row does not exist */
    EXIT_TIMEOUT = 6,    /* no answer in time */
    EXIT_WARNINGS = 7,   /* check: at least one warning, no failure */
    EXIT_FAILURES = 8,   /* check: at least one failure */
};

/* Seconds to wait for one page, enough for a busy vipd. A slower vipd counts as hung. */
#define QUERY_TIMEOUT_S 5

/* Set another timeout, in seconds, for all later requests. */
void query_set_timeout(double timeout_s);

/* All pages of one view: the replies to its Show requests. */
struct query_pages {
    Vip__Reply **reply; /* page_count replies; each has ->show */
    size_t page_count;
};

/*
 * Connect to the vipd of VIPD_RUNTIME_DIR. Outcomes: EXIT_OK and *ret_sock; otherwise a message has
 * been printed to stderr and the exit code is returned.
 */
enum exit_code query_connect(int *ret_sock);

/* Like query_connect, but prints nothing: the caller does not need a vipd. False: no connection. */
bool query_try_connect(int *ret_sock);

/*
 * Send one request. Outcomes: EXIT_OK and *ret_reply, whose code is SUCCESS (free it with
 * vip__reply__free_unpacked); otherwise a message has been printed and the exit code is returned.
 * After a refusal *ret_reply is set, too; after other failures it is NULL.
 */
enum exit_code query_ask(int sock, const Vip__Request *request, Vip__Reply **ret_reply);

/* Like query_ask, for a reply with file descriptors; the caller owns them after any outcome. */
struct vip_fds;
enum exit_code query_ask_fds(int sock, const Vip__Request *request, Vip__Reply **ret_reply,
                             struct vip_fds *ret_fds);

/*
 * Ask for all pages of one view. Outcomes: EXIT_OK and *ret (free with query_free); otherwise a
 * message has been printed and the exit code is returned.
 */
enum exit_code query_show(int sock, Vip__ShowRequest__What what, struct query_pages *ret);
void query_free(struct query_pages *pages);

/* Ask for one page, from a cursor on. Outcomes: as query_ask. */
enum exit_code query_page(int sock, Vip__ShowRequest__What what, uint64_t cursor,
                          Vip__Reply **ret_reply);

#endif
