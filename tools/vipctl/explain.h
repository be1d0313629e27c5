/*
 * `vipctl explain`: an explanation is made of short sentences, each of a kind.
 *
 * Owns: collecting and printing them. Does not own: what is true (explain.c) and what the codes of
 * VIPL mean (codes.c).
 */
#ifndef VIPCTL_EXPLAIN_H
#define VIPCTL_EXPLAIN_H

#include <stddef.h>

#include "tools/vipctl/query.h"

enum line_kind {
    LINE_IS,      /* how it is */
    LINE_WHEN,    /* what happened, with its time */
    LINE_BECAUSE, /* the cause */
    LINE_DO,      /* what to do or to type */
};

/* Addresses of one host: one on each NIC at most. */
#define EXPLAIN_ADDRESSES_MAX 32

/* "[address]:port" of IPv6 with its terminating zero. */
#define EXPLAIN_ADDRESS_BYTES 80

struct explanation {
    struct {
        enum line_kind kind;
        char text[512];
    } line[40];
    size_t count;
    char address[EXPLAIN_ADDRESSES_MAX][EXPLAIN_ADDRESS_BYTES]; /* of the host that is explained */
    size_t addresses;
};

void explain_add(struct explanation *to, enum line_kind kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/*
 * Add which NIC reaches a host, at which address and with which MTU, why that one, and for each other NIC
 * why not; the host's addresses are collected. Outcomes: EXIT_OK one does; EXIT_NO_OBJECT none does, the reasons are added; otherwise a message has been printed.
 */
enum exit_code explain_way(int sock, const char *peer, struct explanation *to);

/* What a code of VIPL means, by its name ("VIP_ERROR_CONN_LOST"; the prefix VIP_ may be missing, any
 * case) or its number. */
struct vip_code {
    const char *name;
    int number;
    const char *kind; /* "return code", "asynchronous error", "bit of a descriptor's Status" */
    const char *meaning, *action;
};
/* The first match at or after *at (start with 0), which moves behind it; NULL: no more. */
const struct vip_code *code_find(const char *text, size_t *at);

/* Add what helps against a reason that vipd gave, if it is a known one. */
void explain_reason(struct explanation *to, const char *reason);

#endif
