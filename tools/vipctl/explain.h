/*
 * `vipctl explain`: an explanation consists of short sentences. Each has a kind (enum line_kind).
 *
 * Owns: collecting and printing sentences. Does not own: finding the facts (explain.c), and the
 * meaning of VIPL's codes (codes.c).
 */
#ifndef VIPCTL_EXPLAIN_H
#define VIPCTL_EXPLAIN_H

#include <stddef.h>

#include "tools/vipctl/query.h"

enum line_kind {
    LINE_IS,      /* a fact */
    LINE_WHEN,    /* an event, with its time */
    LINE_BECAUSE, /* the cause */
    LINE_DO,      /* advice, or a command */
};

/* Largest number of addresses of one host; a host has at most one address per NIC of vipd. */
#define EXPLAIN_ADDRESSES_MAX 32

/* Bytes of an IPv6 "[address]:port" with its terminating zero. */
#define EXPLAIN_ADDRESS_BYTES 80

struct explanation {
    struct {
        enum line_kind kind;
        char text[512];
    } line[40];
    size_t count;
    char address[EXPLAIN_ADDRESSES_MAX][EXPLAIN_ADDRESS_BYTES]; /* of the host */
    size_t addresses;
};

void explain_add(struct explanation *to, enum line_kind kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/*
 * Add the NIC that reaches a host, with the host's address, the NIC's MTU, and the reason for this
 * choice. For each other NIC, add the reason against it. Collects the host's addresses. Outcomes:
 * EXIT_OK; EXIT_NO_OBJECT: no NIC reaches the host, and the reasons are added; otherwise a message
 * has been printed.
 */
enum exit_code explain_way(int sock, const char *peer, struct explanation *to);

/* A code of VIPL. Case does not matter; the prefix VIP_ERROR_, VIP_STATUS_, VIP_ may be absent. */
struct vip_code {
    const char *name;
    int number;
    const char *kind; /* "return code", "asynchronous error", "bit of a descriptor's Status" */
    const char *meaning, *action;
};
/* Find the next code with this number or name. *at: table index, first 0. NULL: no more codes. */
const struct vip_code *code_find(const char *text, size_t *at);

/* Add cause and advice for a reason that vipd gave, if vipctl knows this reason. */
void explain_reason(struct explanation *to, const char *reason);

#endif
