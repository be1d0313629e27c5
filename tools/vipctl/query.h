/*
 * Asking a running vipd: one connection, as many Show requests as there are pages.
 *
 * Owns: the socket, paging, the wording of "could not ask". Does not own: what is shown (views.c).
 */
#ifndef VIPCTL_QUERY_H
#define VIPCTL_QUERY_H

#include <stddef.h>

#include "proto/control.pb-c.h"

/* Exit codes of vipctl; scripts rely on them. */
enum exit_code {
    EXIT_OK = 0,
    EXIT_FAILED = 1,     /* vipd answered nonsense, an error, or not in time */
    EXIT_USAGE = 2,      /* the command line was wrong */
    EXIT_NO_VIPD = 3,    /* nobody listens on the socket */
    EXIT_PERMISSION = 4, /* somebody may listen, but not to us */
};

/* How long a busy vipd may take for one page before it counts as hung. */
#define QUERY_TIMEOUT_S 5

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

/*
 * Ask for one view, all pages. Outcomes: EXIT_OK and *ret (free with query_free); otherwise a
 * message has been printed and the exit code is returned.
 */
enum exit_code query_show(int sock, Vip__ShowRequest__What what, struct query_pages *ret);
void query_free(struct query_pages *pages);

#endif
