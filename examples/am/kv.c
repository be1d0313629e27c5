/*
 * A small key-value store. Two processes (the keepers) store each key. Every process is a keeper of
 * some keys and a client of all processes. Then one process ends its service: it sets its tag to
 * AM_NONE. After that, a request to this process comes back to handler 0 of its sender, and the
 * sender asks the key's other keeper.
 *
 *   amrun -n 4 kv [KEYS]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <am_amx.h>

enum { PUT = 1, STORED, GET, VALUE, NO_VALUE };

#define VALUE_MAX 200
#define TABLE     4096 /* entries of a process's table; a process needs fewer */

struct entry {
    int key; /* 0: the entry is free */
    int len;
    char value[VALUE_MAX];
};

static struct entry table[TABLE];
static int me, procs;
static int stored, came_back;
static int answer_key, answer_len; /* answer to get(); len -1: no value; -2: request came back */
static char answer[VALUE_MAX];

static void die(const char *what, int code)
{
    fprintf(stderr, "kv: %s: %d (%s)\n", what, code, amvia_LastError());
    AMX_SPMDExit(1);
}

#define DO(call)                                                                                   \
    do {                                                                                           \
        int do_code = (call);                                                                      \
        if (do_code != AM_OK)                                                                      \
            die(#call, do_code);                                                                   \
    } while (0)

static struct entry *find(int key)
{
    unsigned i = (unsigned)key * 2654435761u % TABLE;

    while (table[i].key != 0 && table[i].key != key)
        i = (i + 1) % TABLE;
    return &table[i];
}

/* ---- the server's side: handlers ------------------------------------------------------------ */

static void on_put(void *token, void *buf, size_t nbytes, int key)
{
    struct entry *entry = find(key);

    entry->key = key;
    entry->len = (int)nbytes;
    memcpy(entry->value, buf, nbytes);
    DO(AM_Reply0(token, STORED));
}

static void on_get(void *token, int key)
{
    struct entry *entry = find(key);

    if (entry->key == key)
        DO(AM_ReplyI1(token, VALUE, entry->value, (size_t)entry->len, key));
    else
        DO(AM_Reply1(token, NO_VALUE, key));
}

/* ---- the client's side ---------------------------------------------------------------------- */

static void on_stored(void *token)
{
    (void)token;
    stored++;
}

static void on_value(void *token, void *buf, size_t nbytes, int key)
{
    (void)token;
    memcpy(answer, buf, nbytes);
    answer_len = (int)nbytes;
    answer_key = key;
}

static void on_no_value(void *token, int key)
{
    (void)token;
    answer_len = -1;
    answer_key = key;
}

/*
 * A request came back: the keeper has ended its service. A handler may not send a request, so get()
 * asks the other keeper later.
 */
static void on_returned(int status, op_t opcode, void *token)
{
    amvia_returned_t what;

    DO(amvia_GetReturned(token, &what));
    if (opcode != AM_REQUEST_M || what.handler != GET ||
        (status != EBADTAG && status != EUNREACHABLE))
        die("a message came back that should not have", status);
    came_back++;
    answer_len = -2;
    answer_key = what.arg[0];
}

static int keeper(int key, int copy)
{
    return (int)(((unsigned)key * 40503u >> 4) + (unsigned)copy) % procs;
}

static int make_value(int key, char *value)
{
    return snprintf(value, VALUE_MAX, "value of key %d: %d squared is %d", key, key, key * key);
}

static void put_all(ep_t ep, eb_t bundle, int keys)
{
    char value[VALUE_MAX];
    int i, copy, sent = 0;

    for (i = 0; i < keys; i++)
        for (copy = 0; copy < 2; copy++) {
            int key = 1 + me * keys + i, len = make_value(key, value);

            DO(AM_RequestI1(ep, keeper(key, copy), PUT, value, (size_t)len, key));
            sent++;
        }
    while (stored < sent)
        DO(AM_Poll(bundle));
}

/* Get a value. Returns its length; -1 if there is no value. */
static int get(ep_t ep, eb_t bundle, int key)
{
    int copy;

    for (copy = 0; copy < 2; copy++) {
        answer_key = 0;
        DO(AM_Request1(ep, keeper(key, copy), GET, key));
        while (answer_key != key) {
            DO(AM_SetEventMask(bundle, AM_NOTEMPTY));
            DO(AM_WaitSema(bundle));
        }
        if (answer_len != -2)
            return answer_len;
    }
    return -1;
}

static int get_all(ep_t ep, eb_t bundle, int keys)
{
    char value[VALUE_MAX];
    int key, len, bad = 0;

    for (key = 1; key <= keys * procs; key++) {
        len = make_value(key, value);
        if (get(ep, bundle, key) != len || memcmp(answer, value, (size_t)len) != 0)
            bad++;
    }
    return bad;
}

int main(int argc, char **argv)
{
    uint64_t job;
    eb_t bundle;
    ep_t ep;
    int keys, bad = 0, leaver;

    DO(AMX_SPMDStartup(&argc, &argv, 0, &job, &bundle, &ep));
    me = AMX_SPMDMyProc();
    procs = AMX_SPMDNumProcs();
    keys = argc > 1 ? atoi(argv[1]) : 200;
    if (keys < 1 || keys * 2 > TABLE / 2)
        die("KEYS: 1 to 1024 are possible", keys);
    DO(AM_SetHandler(ep, 0, on_returned));
    DO(AM_SetHandler(ep, PUT, on_put));
    DO(AM_SetHandler(ep, STORED, on_stored));
    DO(AM_SetHandler(ep, GET, on_get));
    DO(AM_SetHandler(ep, VALUE, on_value));
    DO(AM_SetHandler(ep, NO_VALUE, on_no_value));
    DO(AMX_SPMDBarrier());
    put_all(ep, bundle, keys);
    DO(AMX_SPMDBarrier());
    leaver = procs > 1 ? procs - 1 : -1;
    if (me == leaver)
        DO(AM_SetTag(ep, AM_NONE));
    DO(AMX_SPMDBarrier());
    if (me != leaver) {
        bad = get_all(ep, bundle, keys);
        if (get(ep, bundle, 1 << 30) != -1)
            bad++;
        if (procs > 1 && came_back == 0)
            bad++;
    }
    if (bad != 0)
        die("values that are wrong or missing", bad);
    DO(AMX_SPMDBarrier());
    if (me == 0)
        printf("kv: %d processes, %d keys each: all there (%d requests of process 0 came back and "
               "went "
               "to the other keeper)\n",
               procs, keys, came_back);
    fflush(stdout);
    DO(AMX_SPMDBarrier());
    return AMX_SPMDExit(0);
}
