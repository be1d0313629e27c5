/*
 * Asking a running vipd: one connection, as many requests as are needed.
 *
 * Owns: the socket, paging, the wording of "could not ask", and which exit code a refusal is. Does
 * not own: what is shown (views.c).
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
    EXIT_FAILED = 1,     /* it was tried and failed, or vipd answered nonsense */
    EXIT_USAGE = 2,      /* the command line was wrong */
    EXIT_NO_VIPD = 3,    /* nobody listens on the socket */
    EXIT_PERMISSION = 4, /* this user may not */
    EXIT_NO_OBJECT = 5,  /* no such VI, peer, NIC, view row */
    EXIT_TIMEOUT = 6,    /* no answer in time */
    EXIT_WARNINGS = 7,   /* check: at least one warning, no failure */
    EXIT_FAILURES = 8,   /* check: at least one failure */
};

/* How long a busy vipd may take for one page before it counts as hung. */
#define QUERY_TIMEOUT_S 5

/* Another time than that, in seconds, for all that follows. */
void query_set_timeout(double timeout_s);

/* Everything vipd said to one kind of Show request, over all pages. */
struct query_pages {
    Vip__Reply **reply; /* page_count of them; each has ->show */
    size_t page_count;
};

/*
 * Connect to the vipd of VIPD_RUNTIME_DIR. Outcomes: EXIT_OK and *ret_sock; otherwise a message has
 * been printed to stderr and the exit code is returned.
 */
enum exit_code query_connect(int *ret_sock);

/* The same for who can do without a vipd: nothing is printed. */
bool query_try_connect(int *ret_sock);

/*
 * One request. Outcomes: EXIT_OK and *ret_reply, whose code is SUCCESS (free it with
 * vip__reply__free_unpacked); otherwise a message has been printed and the exit code is returned.
 * *ret_reply is also set when vipd refused with more to say (else NULL).
 */
enum exit_code query_ask(int sock, const Vip__Request *request, Vip__Reply **ret_reply);

/* The same for a reply that comes with descriptors; they are the caller's, whatever the outcome. */
struct vip_fds;
enum exit_code query_ask_fds(int sock, const Vip__Request *request, Vip__Reply **ret_reply,
                             struct vip_fds *ret_fds);

/*
 * Ask for one view, all pages (of EVENT one page). Outcomes: EXIT_OK and *ret (free with query_free);
 * otherwise a message has been printed and the exit code is returned.
 */
enum exit_code query_show(int sock, Vip__ShowRequest__What what, struct query_pages *ret);
void query_free(struct query_pages *pages);

/* One page from a cursor on. */
enum exit_code query_page(int sock, Vip__ShowRequest__What what, uint64_t cursor,
                          Vip__Reply **ret_reply);

#endif
