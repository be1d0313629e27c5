/*
 * The codes of every call (am_api): before AM_Init, for NULL and impossible numbers, when a
 * resource is used up, in handlers. Also the state of a new endpoint.
 */
#include "tests/am/api.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define GIVES(code, call) CHECK((call) == (code))

/* ---- before the start, and NULL -------------------------------------------------------------- */

/* Make each call that takes a token with this token. Each call must return `code`. */
static void calls_of_a_token(void *token, int code)
{
    amvia_returned_t back;
    char byte = 0;
    en_t name;
    tag_t tag;
    ep_t ep;

    GIVES(code, AM_GetSourceEndpoint(token, &name));
    GIVES(code, AM_GetDestEndpoint(token, &ep));
    GIVES(code, AM_GetMsgTag(token, &tag));
    GIVES(code, amvia_GetReturned(token, &back));
    GIVES(code, AM_Reply0(token, REP));
    GIVES(code, AM_ReplyI0(token, REP, &byte, 1));
    GIVES(code, AM_ReplyXfer0(token, 0, REP, &byte, 1));
}

/* Make each call that takes a bundle or an endpoint with NULL. Each call must return `code`. */
static void calls_of_an_object(int code)
{
    char byte = 0;
    en_t name = {0};
    handler_t h;
    uintptr_t len;
    void *at;
    tag_t tag;
    eb_t eb = NULL;
    ep_t ep;
    int n;

    GIVES(code, AM_AllocateEndpoint(NULL, &ep, &name));
    GIVES(code, AM_AllocateKnownEndpoint(NULL, &ep, NULL, 5));
    GIVES(code, AM_FreeEndpoint(NULL));
    GIVES(code, AM_FreeBundle(NULL));
    GIVES(code, AM_MoveEndpoint(NULL, eb, eb));
    GIVES(code, AM_SetExpectedResources(NULL, 1, 1));
    GIVES(code, AM_GetNumHandlers(NULL, &n));
    GIVES(code, AM_SetNumHandlers(NULL, 256));
    GIVES(code, AM_GetNumTranslations(NULL, &n));
    GIVES(code, AM_SetNumTranslations(NULL, 256));
    GIVES(code, AM_SetTag(NULL, 5));
    GIVES(code, AM_GetTag(NULL, &tag));
    GIVES(code, AM_SetSeg(NULL, &byte, 1));
    GIVES(code, AM_GetSeg(NULL, &at, &len));
    GIVES(code, AM_Map(NULL, 0, name, 5));
    GIVES(code, AM_MapAny(NULL, &n, name, 5));
    GIVES(code, AM_UnMap(NULL, 0));
    GIVES(code, AM_Unmap(NULL, 0));
    GIVES(code, AM_GetTranslationInuse(NULL, 0));
    GIVES(code, AM_GetTranslationTag(NULL, 0, &tag));
    GIVES(code, AM_GetTranslationName(NULL, 0, &name));
    GIVES(code, AMX_SetTranslationTag(NULL, 0, 5));
    GIVES(code, AM_SetHandler(NULL, 1, exchange));
    GIVES(code, AM_SetHandlerAny(NULL, &h, exchange));
    GIVES(code, AM_Poll(NULL));
    GIVES(code, AM_WaitSema(NULL));
    GIVES(code, AM_SetEventMask(NULL, AM_NOTEMPTY));
    GIVES(code, AM_GetEventMask(NULL, &n));
    GIVES(code, AM_Request0(NULL, 0, 1));
    GIVES(code, AM_RequestI0(NULL, 0, 1, &byte, 1));
    GIVES(code, AM_RequestXfer0(NULL, 0, 0, 1, &byte, 1));
    GIVES(code, AM_RequestXferAsync0(NULL, 0, 0, 1, &byte, 1));
    GIVES(code, AM_GetXfer0(NULL, 0, 0, 1, 0, 1));
    GIVES(code, AM_GetXferAsync0(NULL, 0, 0, 1, 0, 1));
    calls_of_a_token(NULL, code);
}

void nothing_works_before_the_start(void)
{
    eb_t eb;
    en_t name;
    char byte;

    GIVES(AM_ERR_NOT_INIT, AM_Terminate());
    GIVES(AM_ERR_NOT_INIT, AMX_SPMDBarrier());
    GIVES(AM_ERR_NOT_INIT, AMX_SPMDAllGather(&byte, &byte, 1));
    GIVES(AM_ERR_NOT_INIT, AMX_SPMDBroadcast(&byte, 1, 0));
    CHECK(AMX_SPMDNumProcs() == 0 && AMX_SPMDMyProc() == -1);
    GIVES(AM_ERR_NOT_INIT, AM_AllocateBundle(AM_SEQ, &eb));
    GIVES(AM_ERR_NOT_INIT, amvia_KnownName(NULL, 5, &name));
    calls_of_an_object(AM_ERR_NOT_INIT);
}

void null_is_no_argument(void)
{
    int category, request;
    handler_t h;
    void *at;

    set_up();
    calls_of_an_object(AM_ERR_BAD_ARG);
    GIVES(AM_ERR_BAD_ARG, AM_AllocateBundle(AM_SEQ, NULL));
    GIVES(AM_ERR_BAD_ARG, AM_AllocateEndpoint(bundle, NULL, NULL));
    GIVES(AM_ERR_BAD_ARG, AM_MaxNumTranslations(NULL));
    GIVES(AM_ERR_BAD_ARG, AM_MaxSegLength(NULL));
    GIVES(AM_ERR_BAD_ARG, AM_GetNumHandlers(a, NULL));
    GIVES(AM_ERR_BAD_ARG, AM_GetNumTranslations(a, NULL));
    GIVES(AM_ERR_BAD_ARG, AM_GetSeg(a, &at, NULL));
    GIVES(AM_ERR_BAD_ARG, AM_GetSeg(a, NULL, NULL));
    GIVES(AM_ERR_BAD_ARG, AM_MapAny(a, NULL, name_b, 5));
    GIVES(AM_ERR_BAD_ARG, AM_GetTranslationTag(a, 0, NULL));
    GIVES(AM_ERR_BAD_ARG, AM_GetTranslationName(a, 0, NULL));
    GIVES(AM_ERR_BAD_ARG, AM_SetHandlerAny(a, &h, NULL));
    GIVES(AM_ERR_BAD_ARG, AM_GetEventMask(bundle, NULL));
    GIVES(AM_ERR_BAD_ARG, AM_MoveEndpoint(a, bundle, NULL));
    GIVES(AM_ERR_BAD_ARG, amvia_KnownName(NULL, 0, &name_a));
    GIVES(AM_ERR_BAD_ARG, amvia_GetCounts(NULL));
    GIVES(AM_ERR_BAD_ARG, AMX_GetSourceId(NULL, &request));
    GIVES(AM_ERR_BAD_ARG, AMX_GetTokenInfo(NULL, &h, (amx_category_t *)&category, &request));
    GIVES(AM_ERR_BAD_ARG, AMX_GetEndpointStatistics(a, NULL));
    GIVES(AM_ERR_BAD_ARG, AMX_ResetEndpointStatistics(NULL));
    GIVES(AM_ERR_BAD_ARG, AMX_AggregateStatistics(NULL, NULL));
    GIVES(AM_ERR_BAD_ARG, AMX_SetHandlerCallbacks(NULL, NULL, NULL));
    /* Every kind of request refuses an index outside of the table. */
    for (int dest = -1; dest <= 256; dest += 257) {
        GIVES(AM_ERR_BAD_ARG, AM_Request0(a, dest, REQ));
        GIVES(AM_ERR_BAD_ARG, AM_RequestI0(a, dest, REQ, "", 0));
        GIVES(AM_ERR_BAD_ARG, AM_RequestXfer0(a, dest, 0, REQ, "", 0));
        GIVES(AM_ERR_BAD_ARG, AM_RequestXferAsync0(a, dest, 0, REQ, "", 0));
        GIVES(AM_ERR_BAD_ARG, AM_GetXfer0(a, dest, 0, REQ, 0, 0));
    }
    GIVES(AM_ERR_BAD_ARG, AM_Request0(a, 1, REQ));
    GIVES(AM_ERR_BAD_ARG, AM_GetXfer0(a, 0, 0, REQ, 0, (size_t)AM_MaxLong() + 1));
    /* A request to a bad index returns an error, so handler 0 does not get EBADENTRY. */
    CHECK(returned == 0);
    exchange();
    tear_down();
}

/* ---- used up --------------------------------------------------------------------------------- */

void a_full_table(void)
{
    int index;

    set_up();
    for (int i = 0; i < 254; i++) /* entries 0 and 3 of the 256 are mapped */
        OK(AM_MapAny(a, &index, name_b, TAG_B));
    CHECK(index == 255);
    GIVES(AM_ERR_RESOURCE, AM_MapAny(a, &index, name_b, TAG_B));
    OK(AM_SetNumTranslations(a, 300));
    OK(AM_MapAny(a, &index, name_b, TAG_B));
    CHECK(index == 256);
    exchange();
    tear_down();
}

int use_up_descriptors(int fd[], int max)
{
    struct rlimit limit;
    int n = 0;

    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = (rlim_t)max;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    while (n < max && (fd[n] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
        n++;
    CHECK(n < max);
    return n;
}

void without_resources(void)
{
    const char *home = getenv("VIPD_RUNTIME_DIR");
    char *saved = strdup(home != NULL ? home : "");
    int n = 0, fd[64], fds, rc = AM_OK;
    struct rlimit before;
    ep_t ep[300];
    eb_t eb;

    setenv("VIPD_RUNTIME_DIR", "/nonexistent", 1);
    GIVES(AM_ERR_RESOURCE, AM_Init());
    CHECK(*amvia_LastError() != '\0');
    setenv("VIPD_RUNTIME_DIR", saved, 1);
    free(saved);
    set_up();
    CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
    fds = use_up_descriptors(fd, 64);
    GIVES(AM_ERR_RESOURCE, AM_AllocateBundle(AM_SEQ, &eb));
    while (fds > 0)
        close(fd[--fds]);
    CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
    OK(AM_AllocateBundle(AM_SEQ, &eb));
    while (n < 300 && (rc = AM_AllocateKnownEndpoint(bundle, &ep[n], NULL, 7000 + n)) == AM_OK)
        n++;
    CHECK(n >= 100 && n < 300 && rc == AM_ERR_RESOURCE);
    exchange();
    tear_down();
}

/* ---- tokens, handlers ------------------------------------------------------------------------ */

static void *token_of[3]; /* tokens of a request handler, a reply handler and handler 0 */

static void on_request_keep(void *token, int x)
{
    amvia_returned_t back;
    static char big[1 << 17];

    token_of[0] = token;
    GIVES(AM_ERR_RESOURCE, amvia_GetReturned(token, &back));
    GIVES(AM_ERR_BAD_ARG, AM_GetSourceEndpoint(token, NULL));
    GIVES(AM_ERR_BAD_ARG, AM_ReplyI0(token, REP, big, (size_t)AM_MaxMedium() + 1));
    GIVES(AM_ERR_BAD_ARG, AM_ReplyXfer0(token, 0, REP, big, (size_t)AM_MaxLong() + 1));
    GIVES(AM_ERR_BAD_ARG, AM_ReplyI0(token, REP, NULL, 1));
    GIVES(AM_ERR_BAD_ARG, AMVIA_Reply(token, REP, 17));
    GIVES(AM_ERR_RESOURCE, AM_RequestI0(a, 0, REQ, "", 0));
    GIVES(AM_ERR_RESOURCE, AM_RequestXfer0(a, 0, 0, REQ, "", 0));
    GIVES(AM_ERR_RESOURCE, AM_RequestXferAsync0(a, 0, 0, REQ, "", 0));
    GIVES(AM_ERR_RESOURCE, AM_GetXfer0(a, 0, 0, REQ, 0, 0));
    GIVES(AM_ERR_RESOURCE, AM_GetXferAsync0(a, 0, 0, REQ, 0, 0));
    GIVES(AM_ERR_RESOURCE, AM_FreeBundle(bundle));
    OK(AM_Reply1(token, HELD, x));
    GIVES(AM_ERR_RESOURCE, AM_ReplyI0(token, REP, "", 0));
    GIVES(AM_ERR_RESOURCE, AM_ReplyXfer0(token, 0, REP, "", 0));
    ran++;
}

static void on_reply_keep(void *token, int x)
{
    token_of[1] = token;
    GIVES(AM_ERR_RESOURCE, AM_Poll(bundle));
    replied++;
}

static void on_return_keep(int status, op_t opcode, void *token)
{
    amvia_returned_t back;

    token_of[2] = token;
    OK(amvia_GetReturned(token, &back));
    am_test_returned(status, opcode, back.reason);
    returned++;
}

void spent_tokens(void)
{
    amx_category_t category;
    handler_t h;
    int rank, request;

    set_up();
    OK(AM_SetHandler(b, HELD, on_request_keep));
    OK(AM_SetHandler(a, HELD, on_reply_keep));
    OK(AM_SetHandler(a, 0, on_return_keep));
    OK(AM_Request1(a, 0, HELD, 1));
    WAIT_FOR(bundle, replied == 1);
    OK(AM_Request1(a, 0, 99, 1));
    WAIT_FOR(bundle, returned == 1);
    for (int i = 0; i < 3; i++) {
        calls_of_a_token(token_of[i], AM_ERR_RESOURCE);
        GIVES(AM_ERR_RESOURCE, AMX_GetSourceId(token_of[i], &rank));
        GIVES(AM_ERR_RESOURCE, AMX_GetTokenInfo(token_of[i], &h, &category, &request));
    }
    CHECK(ran == 1 && replied == 1 && returned == 1);
    /* If a sends to itself, the reply's handler runs inside the request's handler. */
    OK(AM_Request1(a, 3, REQ, 41));
    CHECK(ran == 2 && replied == 2);
    exchange();
    tear_down();
}

static void on_change(void *token)
{
    static char other[100];

    /* AM_SetSeg would have to wait for senders to b's segment, but a handler cannot wait. */
    GIVES(AM_ERR_RESOURCE, AM_SetSeg(b, other, sizeof(other)));
    OK(AM_SetSeg(a, other, sizeof(other)));
    ran++;
}

void segments_in_handlers(void)
{
    amvia_counts_t counts;
    int asked = 0;
    void *at;
    uintptr_t len;

    set_up();
    OK(AM_SetHandler(b, HELD, on_change));
    pattern_fill(seg_b, sizeof(seg_b), 5);
    do { /* repeat until a long message is written straight into the segment */
        OK(AM_RequestXfer1(a, 0, 0, BULK, seg_b, 4000, 5));
        asked++;
        WAIT_FOR(bundle, replied == asked);
        OK(amvia_GetCounts(&counts));
    } while (counts.longs_direct == 0);
    OK(AM_Request0(a, 0, HELD));
    WAIT_FOR(bundle, ran == asked + 1);
    OK(AM_GetSeg(b, &at, &len));
    CHECK(at == seg_b && len == sizeof(seg_b));
    OK(AM_SetSeg(b, NULL, 0));
    tear_down();
}

/* ---- the va_list forms ----------------------------------------------------------------------- */

enum { FORM_SHORT, FORM_MEDIUM, FORM_LONG, FORM_GET, FORMS };
static int form_answered;

/* Send a message of this form with two arguments: a reply to token, or a request if NULL. */
static int of_form(int form, void *token, ...)
{
    static char bytes[100];
    va_list args;
    int rc = AM_ERR_BAD_ARG;

    va_start(args, token);
    if (token != NULL && form == FORM_SHORT)
        rc = AMVIA_ReplyVA(token, HELD, 2, args);
    else if (token != NULL && form == FORM_MEDIUM)
        rc = AMVIA_ReplyIVA(token, HELD, bytes, 100, 2, args);
    else if (token != NULL)
        rc = AMVIA_ReplyXferVA(token, 0, HELD, bytes, 100, 2, args);
    else if (form == FORM_SHORT)
        rc = AMVIA_RequestVA(a, 0, HELD, 2, args);
    else if (form == FORM_MEDIUM)
        rc = AMVIA_RequestIVA(a, 0, HELD, bytes, 100, 2, args);
    else if (form == FORM_LONG)
        rc = AMVIA_RequestXferVA(a, 0, 0, HELD, bytes, 100, 0, 2, args);
    else
        rc = AMVIA_GetXferVA(a, 0, 0, HELD, 0, 100, 0, 2, args);
    va_end(args);
    return rc;
}

static void on_form_short(void *token, int x, int y)
{
    CHECK(x == 71 && y == -72);
    OK(of_form(FORM_SHORT, token, 81, -82));
}

static void on_form_bulk(void *token, void *buf, size_t nbytes, int x, int y)
{
    CHECK(x == 71 && y == -72 && nbytes == 100);
    OK(of_form(buf == seg_b ? FORM_LONG : FORM_MEDIUM, token, 81, -82));
}

static void on_answer_short(void *token, int x, int y)
{
    CHECK(x == 81 && y == -82);
    form_answered++;
}

static void on_answer_bulk(void *token, void *buf, size_t nbytes, int x, int y)
{
    CHECK((x == 81 && y == -82) || (x == 71 && y == -72)); /* 71, -72: arguments of the get */
    CHECK(nbytes == 100);
    form_answered++;
}

void variadic_twins(void)
{
    static char mine[100];

    set_up();
    OK(AM_SetSeg(a, mine, sizeof(mine)));
    form_answered = 0;
    for (int form = 0; form < FORMS; form++) {
        if (form == FORM_SHORT) {
            OK(AM_SetHandler(a, HELD, on_answer_short));
            OK(AM_SetHandler(b, HELD, on_form_short));
        } else {
            OK(AM_SetHandler(a, HELD, on_answer_bulk));
            OK(AM_SetHandler(b, HELD, on_form_bulk));
        }
        OK(of_form(form, NULL, 71, -72));
        WAIT_FOR(bundle, form_answered == form + 1);
    }
    tear_down();
}

/* ---- objects --------------------------------------------------------------------------------- */

void a_new_endpoint(void)
{
    uintptr_t len = 1;
    void *at = &len;
    tag_t tag = 5;
    en_t name;
    ep_t ep;
    int n;

    set_up();
    OK(AM_AllocateEndpoint(bundle, &ep, &name));
    OK(AM_GetTag(ep, &tag));
    OK(AM_GetSeg(ep, &at, &len));
    OK(AM_GetNumTranslations(ep, &n));
    CHECK(tag == AM_NONE && at == NULL && len == 0 && n == 256);
    for (int i = 0; i < n; i++)
        CHECK(AM_GetTranslationInuse(ep, i) == AM_ERR_RESOURCE);
    CHECK(!AMX_enEqual(name, name_a) && !AMX_enEqual(name, name_b));
    /* A new endpoint has the tag AM_NONE, so it refuses all messages. It has no handlers. */
    OK(AM_Map(a, 9, name, 5));
    OK(AM_Request1(a, 9, REQ, 1));
    COMES_BACK(EBADTAG, AM_REQUEST_M);
    OK(AM_SetTag(ep, 5));
    for (int h = 0; h < 256; h += 51) {
        OK(AM_Request1(a, 9, (handler_t)h, 1));
        COMES_BACK(EBADHANDLER, AM_REQUEST_M);
    }
    tear_down();
}

void freeing_a_bundle_of_several(void)
{
    eb_t other;
    ep_t ep[5];
    en_t name[5];

    set_up();
    OK(AM_AllocateBundle(AM_SEQ, &other));
    for (int i = 0; i < 5; i++) {
        OK(AM_AllocateEndpoint(other, &ep[i], &name[i]));
        OK(AM_SetTag(ep[i], 5));
        OK(AM_SetHandler(ep[i], REQ, exchange)); /* any function, because no call reaches it */
        OK(AM_Map(a, 10 + i, name[i], 5));
    }
    OK(AM_FreeBundle(other));
    /* AM_FreeBundle has freed all endpoints of the bundle. */
    for (int i = 0; i < 5; i++) {
        OK(AM_Request1(a, 10 + i, REQ, 1));
        COMES_BACK(EBADENDPOINT, AM_REQUEST_M);
    }
    exchange();
    tear_down();
}

void mapping_after_the_first_traffic(void)
{
    int at;

    set_up();
    exchange();
    OK(AM_MapAny(a, &at, name_b, TAG_B));
    OK(AM_Request1(a, at, REQ, 1));
    WAIT_FOR(bundle, replied == 2);
    OK(AM_UnMap(a, at));
    /* The connection of the two endpoints stays when an entry of the table is unmapped. */
    exchange();
    OK(AM_UnMap(a, 0));
    GIVES(AM_ERR_BAD_ARG, AM_Request1(a, 0, REQ, 1));
    OK(AM_Map(a, 0, name_b, TAG_B));
    exchange();
    tear_down();
}

/* ---- sleeping -------------------------------------------------------------------------------- */

static int sleeper; /* atomic: the thread's id */

static void *sleep_once(void *arg)
{
    __atomic_store_n(&sleeper, (int)syscall(SYS_gettid), __ATOMIC_RELEASE);
    OK(AM_WaitSema(bundle));
    return arg;
}

static long long used_ns(int thread)
{
    char path[64];
    long long ns = -1;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/self/task/%d/schedstat", thread);
    file = fopen(path, "r");
    CHECK(file != NULL && fscanf(file, "%lld", &ns) == 1);
    fclose(file);
    return ns;
}

/* A waiting thread soon uses no more processor time, and a message wakes the thread. */
void sleeping_uses_no_processor(void)
{
    struct timespec nap = {.tv_nsec = 2000000};
    time_t end = time(NULL) + 60;
    eb_t other;
    pthread_t thread;
    long long before = -1, now;

    set_up();
    OK(AM_AllocateBundle(AM_SEQ, &other));
    OK(AM_MoveEndpoint(a, bundle, other));
    OK(AM_SetEventMask(bundle, AM_NOTEMPTY));
    __atomic_store_n(&sleeper, 0, __ATOMIC_RELAXED);
    CHECK(pthread_create(&thread, NULL, sleep_once, NULL) == 0);
    while (__atomic_load_n(&sleeper, __ATOMIC_ACQUIRE) == 0)
        nanosleep(&nap, NULL);
    for (int still = 0; still < 50;) {
        now = used_ns(sleeper);
        still = now == before ? still + 1 : 0;
        before = now;
        CHECK(time(NULL) < end);
        nanosleep(&nap, NULL);
    }
    OK(AM_Request1(a, 0, REQ, 1));
    pthread_join(thread, NULL);
    CHECK(ran == 1);
    WAIT_FOR(other, replied == 1);
    OK(AM_FreeBundle(other));
    tear_down();
}
