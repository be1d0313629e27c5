/*
 * What happened in vipd. One list has the last events in order. The other has each distinct error
 * of a user once, with its count, first time and last time. Both lists are bounded, so that a
 * repeated fault does not fill the memory. When a list is full, the user with most entries in it
 * loses its oldest entry. So a user cannot make vipd forget entries of a user that has fewer.
 *
 * Owns: these records. Does not own: access rights (vipd/ctl/). One thread at a time. To make a
 * record takes some microseconds at most. Set-up calls and errors cause records; messages do not.
 */
#ifndef VIPD_HISTORY_H
#define VIPD_HISTORY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define HISTORY_EVENTS     2048 /* events kept, of all users together */
#define HISTORY_ERRORS     256  /* distinct errors kept, of all users together */
#define HISTORY_TEXT_BYTES 256
#define HISTORY_KEY_BYTES  48
#define HISTORY_NO_VI      UINT32_MAX
/* Most users with entries: each event and each error may belong to a different user. The 1 is for a
 * new user, which is added before the oldest entry of another user is removed. */
#define HISTORY_USERS (HISTORY_EVENTS + HISTORY_ERRORS + 1)

/* Kinds of events; history.c has their names. Errors are also counted as distinct errors. */
enum history_kind {
    HISTORY_OPEN,       /* a program opened a NIC */
    HISTORY_CLOSE,      /* a program closed its NIC, or vipd stopped */
    HISTORY_DIED,       /* a program ended without a close, or vipd ended it (which is an error) */
    HISTORY_CONNECTED,  /* a connection was established */
    HISTORY_REFUSED,    /* a request of a program was refused: an error */
    HISTORY_CONN_ERROR, /* an attempt to connect failed: an error */
    HISTORY_ASYNC,      /* an asynchronous error of a session: an error */
    HISTORY_ADMIN,      /* a request of an administrator */
    HISTORY_RETURNED,   /* end of the grace time for connections of an earlier vipd */
    HISTORY_KINDS,
};

/* The program that an event is about. */
struct history_who {
    uint64_t session; /* 0: none */
    uint32_t vi;      /* HISTORY_NO_VI: none */
    pid_t pid;        /* 0: none */
    uid_t uid;        /* only this user and administrators may read the text */
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
    char key[HISTORY_KEY_BYTES]; /* distinguishes errors: "VIP_ERROR_CONN_LOST" */
    char text[HISTORY_TEXT_BYTES];
};

struct history_error {
    uint64_t count, first_ns, last_ns; /* CLOCK_REALTIME */
    uint64_t noted_ns; /* time of the error's last event; limits the rate of events */
    /* the latest occurrence; its user, kind and key identify the error */
    struct history_event last;
};

/* How many entries one user has. */
struct history_user {
    uid_t uid;
    uint32_t events, errors;
};

/* Where an event is. The struct is small, because vipd searches an array of such structs. */
struct history_place {
    uint64_t number; /* number of the event */
    uid_t uid;
    uint32_t at; /* index into history.events */
};

struct history {
    uint64_t next; /* number of the next event */
    uint32_t event_count, error_count, user_count;
    uint64_t forgotten;                          /* distinct errors dropped to make room */
    struct history_place places[HISTORY_EVENTS]; /* sorted by the events' numbers */
    struct history_user users[HISTORY_USERS];    /* users that have an event or an error */
    struct history_event events[HISTORY_EVENTS];
    struct history_error errors[HISTORY_ERRORS];
};

/* NULL: out of memory. */
struct history *history_new(void);
void history_free(struct history *history);

/*
 * Record an event. is_error: also count it as a distinct error by (user, kind, key). The same error
 * of the same session becomes an event at most once a second: a flood must not push out the user's
 * other events. history NULL: nothing is recorded.
 */
void history_note(struct history *history, uint64_t wall_ns, enum history_kind kind, bool is_error,
                  const struct history_who *who, const char *key, const char *text);

/* Find the first event whose number is `from` or higher. NULL: there is none (yet). The numbers
 * increase; numbers of removed events are missing. */
const struct history_event *history_event_from(const struct history *history, uint64_t from);

const char *history_kind_name(enum history_kind kind);

#endif
