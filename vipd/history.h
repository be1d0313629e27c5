/*
 * What happened: the last events in order, and each distinct error once with how often, when first and
 * when last. Both are bounded, so that a chronic fault fills nothing.
 *
 * Owns: these records. Does not own: who may read them (vipd/ctl/). One thread at a time. A record costs well
 * under a microsecond and is made for set-up and for errors, never per message.
 */
#ifndef VIPD_HISTORY_H
#define VIPD_HISTORY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define HISTORY_EVENTS     2048 /* kept; older ones are overwritten */
#define HISTORY_ERRORS     256  /* distinct ones; the one that came last longest ago makes room */
#define HISTORY_TEXT_BYTES 256
#define HISTORY_KEY_BYTES  48
#define HISTORY_NO_VI      UINT32_MAX

/* Kinds of events; names in history.c. Errors are also kept as distinct errors. */
enum history_kind {
    HISTORY_OPEN,       /* a program opened a NIC */
    HISTORY_CLOSE,      /* it closed it, in good order */
    HISTORY_DIED,       /* it ended without that, or was ended: an error unless it just died */
    HISTORY_CONNECTED,  /* a connection stands */
    HISTORY_REFUSED,    /* a request of a program was refused: an error */
    HISTORY_CONN_ERROR, /* an attempt to connect failed: an error */
    HISTORY_ASYNC,      /* an asynchronous error was told to a program: an error */
    HISTORY_ADMIN,      /* an administrator did something */
    HISTORY_KINDS,
};

/* Who is concerned. */
struct history_who {
    uint64_t session; /* 0: none */
    uint32_t vi;      /* HISTORY_NO_VI: none */
    pid_t pid;        /* 0: nobody */
    uid_t uid;        /* who may read the text, besides administrators */
    const char *program;
    const char *nic;
};

struct history_event {
    uint64_t number;  /* from 1 on */
    uint64_t time_ns; /* CLOCK_REALTIME */
    uint64_t session;
    enum history_kind kind;
    uint32_t vi;
    pid_t pid;
    uid_t uid;
    char program[32];
    char nic[32];
    char key[HISTORY_KEY_BYTES]; /* what distinguishes it: "VIP_ERROR_CONN_LOST" */
    char text[HISTORY_TEXT_BYTES];
};

struct history_error {
    uint64_t count, first_ns, last_ns; /* CLOCK_REALTIME */
    uint64_t noted_ns;                 /* when it last became an event, for their rate */
    struct history_event last;         /* the latest one; kind and key distinguish errors */
};

struct history {
    uint64_t next; /* number of the event to come */
    uint32_t error_count;
    uint64_t forgotten; /* distinct errors that made room */
    struct history_event events[HISTORY_EVENTS];
    struct history_error errors[HISTORY_ERRORS];
};

/* NULL: out of memory. */
struct history *history_new(void);
void history_free(struct history *history);

/*
 * Note something. is_error: count it as a distinct error by (kind, key), too; of the same one at most
 * one event a second is kept, so that a flood does not wash everything else away. NULL is fine for
 * history: nothing is noted.
 */
void history_note(struct history *history, uint64_t wall_ns, enum history_kind kind, bool is_error,
                  const struct history_who *who, const char *key, const char *text);

/* The first event from number `from` on, or NULL: there is none (yet). */
const struct history_event *history_event_from(const struct history *history, uint64_t from);

const char *history_kind_name(enum history_kind kind);

#endif
