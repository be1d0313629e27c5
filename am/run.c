/*
 * Running handlers. A handler's type depends on the number of its arguments. The library calls each
 * handler through a pointer of exactly this type, never of a variadic type.
 */
#include "am/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__thread int am_in_handler;

/* P0 to P16: parameter lists of 0 to 16 ints. A0 to A16: the arguments for these lists. */
#define P0
#define P1  P0, int
#define P2  P1, int
#define P3  P2, int
#define P4  P3, int
#define P5  P4, int
#define P6  P5, int
#define P7  P6, int
#define P8  P7, int
#define P9  P8, int
#define P10 P9, int
#define P11 P10, int
#define P12 P11, int
#define P13 P12, int
#define P14 P13, int
#define P15 P14, int
#define P16 P15, int
#define A0
#define A1  A0, arg[0]
#define A2  A1, arg[1]
#define A3  A2, arg[2]
#define A4  A3, arg[3]
#define A5  A4, arg[4]
#define A6  A5, arg[5]
#define A7  A6, arg[6]
#define A8  A7, arg[7]
#define A9  A8, arg[8]
#define A10 A9, arg[9]
#define A11 A10, arg[10]
#define A12 A11, arg[11]
#define A13 A12, arg[12]
#define A14 A13, arg[13]
#define A15 A14, arg[14]
#define A16 A15, arg[15]

#define SHORT_CASE(n)                                                                              \
    case n:                                                                                        \
        ((void (*)(void *P##n))handler)(token A##n);                                               \
        break
#define BULK_CASE(n)                                                                               \
    case n:                                                                                        \
        ((void (*)(void *, void *, size_t P##n))handler)(token, buf, nbytes A##n);                 \
        break
#define ALL_CASES(CASE)                                                                            \
    CASE(0);                                                                                       \
    CASE(1);                                                                                       \
    CASE(2);                                                                                       \
    CASE(3);                                                                                       \
    CASE(4);                                                                                       \
    CASE(5);                                                                                       \
    CASE(6);                                                                                       \
    CASE(7);                                                                                       \
    CASE(8);                                                                                       \
    CASE(9);                                                                                       \
    CASE(10);                                                                                      \
    CASE(11);                                                                                      \
    CASE(12);                                                                                      \
    CASE(13);                                                                                      \
    CASE(14);                                                                                      \
    CASE(15);                                                                                      \
    CASE(16)

static void call_short(amvia_handler_fn_t handler, void *token, unsigned n, const int32_t *arg)
{
    switch (n) {
        ALL_CASES(SHORT_CASE);
    }
}

/* Pass nbytes as size_t. A handler whose parameter is an int reads the lower half of the same
 * register. */
static void call_bulk(amvia_handler_fn_t handler, void *token, void *buf, size_t nbytes, unsigned n,
                      const int32_t *arg)
{
    switch (n) {
        ALL_CASES(BULK_CASE);
    }
}

enum am_class am_class_of(uint8_t kind)
{
    switch (kind) {
    case AM_KIND_MEDIUM:
    case AM_KIND_R_MEDIUM:
        return AM_MEDIUM;
    case AM_KIND_LONG:
    case AM_KIND_R_LONG:
    case AM_KIND_GET:
        return AM_LONG;
    }
    return AM_SHORT;
}

/* Call the program's callback, if any, that runs before every handler (am_amx.h). */
static void before(const struct am_token *token, const struct am_message *msg, void *buf)
{
    am_pre_handler_t pre = token->ep->before_handler;

    if (pre != NULL)
        pre((int)am_class_of(msg->kind), msg->kind < AM_KIND_R_SHORT, msg->handler,
            (void *)(uintptr_t)token, buf, msg->nbytes, msg->numargs,
            (uint32_t *)(uintptr_t)msg->arg);
}

/*
 * Copy the token to the memory of the endpoint; the program gets the address of this copy. If the
 * program uses the token after the handler's return, the library still reads valid memory and finds
 * magic 0. Under the bundle's lock, like token_hide.
 */
static struct am_token *token_show(const struct am_token *token)
{
    struct am_token *shown = &token->ep->shown[token->ep->shown_count++];

    *shown = *token;
    shown->magic = AM_TOKEN_MAGIC;
    return shown;
}

static void token_hide(struct am_token *shown)
{
    shown->magic = 0;
    shown->ep->shown_count--;
    shown->ep->bundle->handled++;
}

void am_run(struct am_token *token, const struct am_message *msg, void *buf)
{
    amvia_handler_fn_t handler = token->ep->handler[msg->handler];
    struct am_bundle *bundle = token->ep->bundle;
    struct am_token *shown;
    enum am_part part;

    token->msg = msg;
    token->tag = msg->tag;
    token->reply_tag = msg->reply_tag;
    shown = token_show(token);
    am_unlock(bundle);
    am_in_handler++;
    part = am_part(AM_PART_OUTSIDE);
    before(shown, msg, buf);
    if (am_class_of(msg->kind) == AM_SHORT)
        call_short(handler, shown, msg->numargs, msg->arg);
    else
        call_bulk(handler, shown, buf, msg->nbytes, msg->numargs, msg->arg);
    if (token->ep->after_handler != NULL)
        token->ep->after_handler((int)am_class_of(msg->kind), msg->kind < AM_KIND_R_SHORT);
    am_part(part);
    am_in_handler--;
    am_lock(bundle);
    token->replied = shown->replied;
    token_hide(shown);
}

op_t am_opcode(uint8_t kind)
{
    switch (kind) {
    case AM_KIND_SHORT:
        return AM_REQUEST_M;
    case AM_KIND_MEDIUM:
        return AM_REQUEST_IM;
    case AM_KIND_LONG:
        return AM_REQUEST_XFER_M;
    case AM_KIND_GET:
        return AM_GET_XFER_M;
    case AM_KIND_R_SHORT:
        return AM_REPLY_M;
    case AM_KIND_R_MEDIUM:
        return AM_REPLY_IM;
    }
    return AM_REPLY_XFER_M;
}

static const char *am_status_name(int status)
{
    static const char *const name[] = {
        "0",          "EBADARGS",     "EBADENTRY",   "EBADTAG",      "EBADHANDLER",   "EBADSEGOFF",
        "EBADLENGTH", "EBADENDPOINT", "ECONGESTION", "EUNREACHABLE", "EREPLYREJECTED"};

    return status >= 0 && status <= EREPLYREJECTED ? name[status] : "unknown";
}

/* Handler 0 of a new endpoint: print the message that came back, and abort. */
void am_default_returned(int status, op_t opcode, void *argblock)
{
    static const char *const what[] = {"",      "request",      "medium request", "long request",
                                       "reply", "medium reply", "long reply",     "get"};
    struct am_token *token = argblock;
    const struct am_message *msg = token->msg;
    char name[AM_NAME_TEXT];

    am_name_text(&token->map->name, name);
    fprintf(stderr,
            "libvipam: a %s for handler %u of endpoint %s came back: %s%s%s; tag 0x%llx, %u bytes, "
            "%u arguments:",
            what[opcode], msg->handler, name, am_status_name(status),
            token->reason != status ? ", the requester says " : "",
            token->reason != status ? am_status_name(token->reason) : "",
            (unsigned long long)msg->tag, (unsigned)msg->nbytes, msg->numargs);
    for (unsigned i = 0; i < msg->numargs; i++)
        fprintf(stderr, " 0x%x", (unsigned)msg->arg[i]);
    fprintf(stderr, "\nlibvipam: this endpoint has no handler 0 of the program's own: aborting\n");
    abort();
}

void am_run_returned(struct am_token *token, const struct am_message *msg, int status)
{
    amvia_handler_fn_t handler = token->ep->handler[0];
    struct am_bundle *bundle = token->ep->bundle;
    struct am_token *shown;

    token->returned = true;
    token->msg = msg;
    token->tag = msg->tag;
    token->ep->stats.ReturnedMessages++;
    shown = token_show(token);
    am_unlock(bundle);
    am_in_handler++;
    ((void (*)(int, op_t, void *))handler)(status, am_opcode(msg->kind), shown);
    am_in_handler--;
    am_lock(bundle);
    token_hide(shown);
}
