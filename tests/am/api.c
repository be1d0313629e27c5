/*
 * The calls of AM-II one by one, in one process with endpoints that are connected by VIs like any
 * others: what each returns, what comes back to handler 0, tags, segments, credits, moving.
 *
 * usage: api
 */
#include "tests/am/amtest.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

bool am_test_blocking;

static eb_t bundle;
static ep_t a, b;
static en_t name_a, name_b;
static char seg_b[20000];

enum { REQ = 1, REP, BULK, SILENT, TO_UNSET_REPLY, HELD, LONG_ANSWER };
#define TAG_A ((tag_t)0xA0A0)
#define TAG_B ((tag_t)0xB0B0)

static int ran, replied, returned, last_status, last_opcode, last_arg;
static amvia_returned_t last_returned;
static en_t returned_from;
static tag_t returned_tag;

static void on_return(int status, op_t opcode, void *token)
{
    ep_t own;

    returned++;
    last_status = status;
    last_opcode = opcode;
    OK(amvia_GetReturned(token, &last_returned));
    OK(AM_GetSourceEndpoint(token, &returned_from));
    OK(AM_GetDestEndpoint(token, &own));
    OK(AM_GetMsgTag(token, &returned_tag));
    CHECK(own == a || own == b);
    CHECK(AM_Reply0(token, REP) == AM_ERR_RESOURCE);
}

static void on_req(void *token, int x)
{
    ran++;
    last_arg = x;
    OK(AM_Reply1(token, REP, x + 1));
}

static void on_rep(void *token, int x)
{
    replied++;
    last_arg = x;
    CHECK(AM_Reply1(token, REP, 1) == AM_ERR_RESOURCE);
}

static void on_bulk(void *token, void *buf, size_t nbytes, int seed)
{
    ran++;
    CHECK(pattern_good(buf, nbytes, (unsigned)seed));
    OK(AM_Reply1(token, REP, seed));
}

static void on_silent(void *token, int x)
{
    ran++;
}

static void on_unset_reply(void *token)
{
    ran++;
    OK(AM_Reply2(token, 200, 5, 6)); /* the requester has no handler 200 */
}

static void on_long_answer(void *token, int offset, int nbytes)
{
    static char source[5000];

    ran++;
    pattern_fill(source, sizeof(source), 3);
    OK(AM_ReplyXfer1(token, (uintptr_t)offset, BULK, source, (size_t)nbytes, 3));
}

static void set_up(void)
{
    OK(AM_Init());
    OK(AM_AllocateBundle(AM_SEQ, &bundle));
    OK(AM_AllocateEndpoint(bundle, &a, &name_a));
    OK(AM_AllocateEndpoint(bundle, &b, &name_b));
    OK(AM_SetTag(a, TAG_A));
    OK(AM_SetTag(b, TAG_B));
    OK(AM_Map(a, 0, name_b, TAG_B));
    OK(AM_Map(a, 3, name_a, TAG_A));
    OK(AM_SetSeg(b, seg_b, sizeof(seg_b)));
    for (int i = 0; i < 2; i++) {
        ep_t ep = i == 0 ? a : b;

        OK(AM_SetHandler(ep, 0, on_return));
        OK(AM_SetHandler(ep, REQ, on_req));
        OK(AM_SetHandler(ep, REP, on_rep));
        OK(AM_SetHandler(ep, BULK, on_bulk));
        OK(AM_SetHandler(ep, SILENT, on_silent));
        OK(AM_SetHandler(ep, TO_UNSET_REPLY, on_unset_reply));
        OK(AM_SetHandler(ep, LONG_ANSWER, on_long_answer));
    }
    ran = replied = returned = 0;
}

static void tear_down(void)
{
    OK(AM_Terminate());
}

/* One request from a to b whose answer has come. */
static void exchange(void)
{
    int before = replied;

    OK(AM_Request1(a, 0, REQ, 41));
    WAIT_FOR(bundle, replied == before + 1);
    CHECK(last_arg == 42);
}

/* It came back once, for this reason. */
#define COMES_BACK(status, opcode)                                                                 \
    do {                                                                                           \
        WAIT_FOR(bundle, returned == 1);                                                           \
        CHECK(last_status == (status) && last_opcode == (opcode));                                 \
        returned = 0;                                                                              \
    } while (0)

/* ---- start, limits, tables ------------------------------------------------------------------------ */

static void start_and_stop(void)
{
    eb_t eb;
    int n;

    CHECK(AM_Terminate() == AM_ERR_NOT_INIT);
    CHECK(AM_AllocateBundle(AM_SEQ, &eb) == AM_ERR_NOT_INIT);
    CHECK(AM_Poll(NULL) == AM_ERR_NOT_INIT);
    CHECK(AM_Request0(NULL, 0, 1) == AM_ERR_NOT_INIT);
    OK(AM_Init());
    OK(AM_Init());
    OK(AM_Terminate());
    OK(AM_AllocateBundle(AM_SEQ, &eb)); /* still started */
    CHECK(AM_AllocateBundle(7, &eb) == AM_ERR_BAD_ARG);
    CHECK(AM_AllocateBundle(AM_SEQ, NULL) == AM_ERR_BAD_ARG);
    CHECK(AM_Poll(NULL) == AM_ERR_BAD_ARG);
    OK(AM_Terminate());
    CHECK(AM_Terminate() == AM_ERR_NOT_INIT);
    CHECK(AM_MaxShort() == 16 && AM_MaxMedium() >= 65000 && AM_MaxLong() >= 1 << 20);
    CHECK(AM_MaxNumHandlers() == 256);
    OK(AM_MaxNumTranslations(&n));
    CHECK(n >= 256);
}

static void tables(void)
{
    handler_t h = 0;
    uintptr_t max;
    en_t name;
    tag_t tag;
    int n, i;

    set_up();
    OK(AM_GetNumHandlers(a, &n));
    CHECK(n == 256);
    OK(AM_SetNumHandlers(a, 256));
    CHECK(AM_SetNumHandlers(a, 100) == AM_ERR_RESOURCE);
    OK(AM_GetNumTranslations(a, &n));
    CHECK(n == 256);
    OK(AM_SetNumTranslations(a, 1000));
    OK(AM_Map(a, 999, name_b, TAG_B));
    CHECK(AM_SetNumTranslations(a, 500) == AM_ERR_RESOURCE);
    OK(AM_UnMap(a, 999));
    OK(AM_SetNumTranslations(a, 10));
    OK(AM_GetNumTranslations(a, &n));
    CHECK(n == 256);
    CHECK(AM_SetNumTranslations(a, 1 << 30) == AM_ERR_RESOURCE);
    OK(AM_MaxSegLength(&max));
    CHECK(max == UINTPTR_MAX);

    CHECK(AM_Map(a, -1, name_b, TAG_B) == AM_ERR_BAD_ARG);
    CHECK(AM_Map(a, 256, name_b, TAG_B) == AM_ERR_BAD_ARG);
    CHECK(AM_Map(a, 0, name_b, TAG_B) == AM_ERR_RESOURCE);
    OK(AM_MapAny(a, &i, name_b, 77)); /* the same name twice */
    CHECK(i == 1);
    CHECK(AM_GetTranslationInuse(a, 0) == AM_OK && AM_GetTranslationInuse(a, 2) != AM_OK);
    CHECK(AM_GetTranslationInuse(a, 256) != AM_OK && AM_GetTranslationInuse(NULL, 0) != AM_OK);
    OK(AM_GetTranslationTag(a, 1, &tag));
    CHECK(tag == 77);
    OK(AMX_SetTranslationTag(a, 1, 78));
    OK(AM_GetTranslationTag(a, 1, &tag));
    CHECK(tag == 78);
    OK(AM_GetTranslationName(a, 1, &name));
    CHECK(AMX_enEqual(name, name_b) && !AMX_enEqual(name, name_a));
    OK(AM_Unmap(a, 1));
    CHECK(AM_UnMap(a, 1) == AM_ERR_RESOURCE && AM_UnMap(a, 300) == AM_ERR_BAD_ARG);
    CHECK(AM_GetTranslationTag(a, 1, &tag) == AM_ERR_RESOURCE);
    CHECK(AM_GetTranslationName(a, 1, &name) == AM_ERR_RESOURCE);
    CHECK(AM_Request0(a, 1, REQ) == AM_ERR_BAD_ARG && AM_Request0(a, -1, REQ) == AM_ERR_BAD_ARG);

    OK(AM_SetHandlerAny(a, &h, on_req));
    CHECK(h == HELD); /* the lowest that is free, but 0 */
    for (i = LONG_ANSWER + 1; i < 256; i++)
        OK(AM_SetHandlerAny(a, &h, on_req));
    CHECK(h == 255 && AM_SetHandlerAny(a, &h, on_req) == AM_ERR_RESOURCE);
    OK(AM_SetHandler(a, 255, on_rep)); /* taken ones may be set again */
    tear_down();
}

static void bad_arguments(void)
{
    static char big[1 << 21];

    set_up();
    CHECK(AM_RequestI0(a, 0, REQ, big, (size_t)AM_MaxMedium() + 1) == AM_ERR_BAD_ARG);
    CHECK(AM_RequestXfer0(a, 0, 0, REQ, big, (size_t)AM_MaxLong() + 1) == AM_ERR_BAD_ARG);
    CHECK(AM_RequestI0(a, 0, REQ, NULL, 1) == AM_ERR_BAD_ARG);
    CHECK(AM_RequestXfer0(a, 0, 0, REQ, NULL, 1) == AM_ERR_BAD_ARG);
    CHECK(AM_Request0(NULL, 0, REQ) == AM_ERR_BAD_ARG);
    CHECK(AM_Reply0(NULL, REQ) == AM_ERR_BAD_ARG);
    CHECK(AMVIA_Request(a, 0, REQ, 17) == AM_ERR_BAD_ARG);
    CHECK(AM_SetSeg(a, NULL, 5) == AM_ERR_BAD_ARG);
    CHECK(AM_AllocateEndpoint(NULL, &a, NULL) == AM_ERR_BAD_ARG);
    CHECK(AM_FreeEndpoint(NULL) == AM_ERR_BAD_ARG && AM_FreeBundle(NULL) == AM_ERR_BAD_ARG);
    CHECK(AM_SetTag(NULL, 1) == AM_ERR_BAD_ARG && AM_GetTag(a, NULL) == AM_ERR_BAD_ARG);
    CHECK(AM_SetExpectedResources(a, 1, 0) == AM_ERR_BAD_ARG);
    CHECK(AM_SetExpectedResources(a, 1, 1025) == AM_ERR_BAD_ARG);
    OK(AM_SetExpectedResources(a, 1, 1024));
    CHECK(AM_SetExpectedResources(a, 1, 4) == AM_ERR_RESOURCE);
    exchange(); /* 128 credits here, 8 there */
    tear_down();
}

/* ---- what comes back -------------------------------------------------------------------------------- */

static void wrong_tags_come_back(void)
{
    set_up();
    exchange();
    OK(AMX_SetTranslationTag(a, 0, 4711));
    OK(AM_Request3(a, 0, REQ, 1, 2, 3));
    COMES_BACK(EBADTAG, AM_REQUEST_M);
    CHECK(returned_tag == 4711 && AMX_enEqual(returned_from, name_b));
    CHECK(last_returned.reason == EBADTAG && last_returned.dest == 0 &&
          last_returned.handler == REQ && last_returned.numargs == 3 && last_returned.arg[2] == 3 &&
          last_returned.nbytes == 0);
    /* AM_ALL takes everything, AM_NONE nothing. */
    OK(AM_SetTag(b, AM_ALL));
    exchange();
    OK(AM_SetTag(b, AM_NONE));
    OK(AM_RequestI1(a, 0, BULK, "x", 1, 0));
    COMES_BACK(EBADTAG, AM_REQUEST_IM);
    CHECK(ran == 2);
    OK(AM_SetTag(b, TAG_B));
    OK(AMX_SetTranslationTag(a, 0, TAG_B));
    exchange();
    /* A reply carries the requester's tag; without one it is refused there. */
    OK(AM_SetTag(a, AM_NONE));
    OK(AM_Request1(a, 0, REQ, 1));
    COMES_BACK(EREPLYREJECTED, AM_REPLY_M);
    CHECK(last_returned.reason == EBADTAG && last_returned.dest == -1);
    CHECK(AMX_enEqual(returned_from, name_a));
    OK(AM_SetTag(a, TAG_A));
    /* Messages that wait under an old tag go back. */
    OK(AM_Request1(a, 0, REQ, 1));
    OK(AM_SetTag(b, 99));
    WAIT_FOR(bundle, returned == 1);
    CHECK(last_status == EBADTAG);
    returned = 0;
    OK(AM_SetTag(b, TAG_B));
    exchange();
    tear_down();
}

static void missing_handlers_come_back(void)
{
    set_up();
    OK(AM_Request2(a, 0, 99, 7, 8));
    COMES_BACK(EBADHANDLER, AM_REQUEST_M);
    OK(AM_RequestXfer2(a, 0, 0, 99, "abc", 3, 7, 8));
    COMES_BACK(EBADHANDLER, AM_REQUEST_XFER_M);
    CHECK(seg_b[0] == 0 && last_returned.nbytes == 3 && last_returned.source != NULL);
    OK(AM_Request0(a, 0, TO_UNSET_REPLY));
    COMES_BACK(EREPLYREJECTED, AM_REPLY_M);
    CHECK(last_returned.reason == EBADHANDLER && last_returned.handler == 200 &&
          last_returned.numargs == 2 && last_returned.arg[1] == 6);
    exchange();
    tear_down();
}

static void segments_are_judged_at_delivery(void)
{
    static char source[20000], other[6000];

    set_up();
    pattern_fill(source, sizeof(source), 5);
    OK(AM_RequestXfer1(a, 0, sizeof(seg_b) - 100, BULK, source, 100, 5));
    WAIT_FOR(bundle, replied == 1);
    OK(AM_RequestXfer1(a, 0, sizeof(seg_b) - 99, BULK, source, 100, 5));
    COMES_BACK(EBADLENGTH, AM_REQUEST_XFER_M);
    OK(AM_RequestXfer1(a, 0, sizeof(seg_b) + 1, BULK, source, 1, 5));
    COMES_BACK(EBADSEGOFF, AM_REQUEST_XFER_M);
    OK(AM_RequestXfer1(a, 0, UINTPTR_MAX - 5, BULK, source, 100, 5)); /* would wrap */
    COMES_BACK(EBADSEGOFF, AM_REQUEST_XFER_M);
    OK(AM_RequestXfer1(a, 0, sizeof(seg_b) + 1000, BULK, source, 0, 5)); /* nothing anywhere */
    WAIT_FOR(bundle, replied == 2);
    /* Twice, so that the second one may be written straight. */
    for (int i = 0; i < 4; i++) {
        memset(seg_b, 0, sizeof(seg_b));
        OK(AM_RequestXfer1(a, 0, 10, BULK, source, 15000, 5));
        WAIT_FOR(bundle, replied == 3 + i);
        CHECK(pattern_good(seg_b + 10, 15000, 5));
    }
    /* Another segment: what was known of the old one is not used any more. */
    memset(seg_b, 0, sizeof(seg_b));
    OK(AM_SetSeg(b, other, sizeof(other)));
    OK(AM_RequestXfer1(a, 0, 10, BULK, source, 15000, 5));
    COMES_BACK(EBADLENGTH, AM_REQUEST_XFER_M);
    for (int i = 0; i < 3; i++) {
        OK(AM_RequestXfer1(a, 0, 10, BULK, source, 5000, 5));
        WAIT_FOR(bundle, replied == 7 + i);
    }
    CHECK(pattern_good(other + 10, 5000, 5) && seg_b[10] == 0 && seg_b[11] == 0);
    OK(AM_SetSeg(b, NULL, 0));
    OK(AM_RequestXfer1(a, 0, 0, BULK, source, 5000, 5));
    COMES_BACK(EBADSEGOFF, AM_REQUEST_XFER_M);
    /* The whole address space. */
    OK(AM_SetSeg(b, NULL, UINTPTR_MAX));
    memset(other, 0, sizeof(other));
    OK(AM_RequestXfer1(a, 0, (uintptr_t)other, BULK, source, 5500, 5));
    WAIT_FOR(bundle, replied == 10);
    CHECK(pattern_good(other, 5500, 5));
    /* A long reply that does not fit. */
    OK(AM_SetSeg(a, seg_b, 1000));
    OK(AM_Request2(a, 0, LONG_ANSWER, 0, 2000));
    COMES_BACK(EREPLYREJECTED, AM_REPLY_XFER_M);
    CHECK(last_returned.reason == EBADLENGTH && seg_b[0] == 0);
    tear_down();
}

static void on_got(void *token, void *buf, size_t nbytes, int seed)
{
    ran++;
    CHECK(pattern_good(buf, nbytes, (unsigned)seed));
}

static void gets(void)
{
    static char mine[3000];

    set_up();
    OK(AM_SetHandler(a, HELD, on_got));
    pattern_fill(seg_b, sizeof(seg_b), 8);
    OK(AM_SetSeg(a, mine, sizeof(mine)));
    OK(AM_GetXfer1(a, 0, 0, HELD, 100, 2000, 8));
    WAIT_FOR(bundle, ran == 1);
    CHECK(pattern_good(mine + 100, 2000, 8));
    ran = 0;
    OK(AM_GetXfer1(a, 0, sizeof(seg_b) - 10, HELD, 0, 11, 8));
    COMES_BACK(EBADLENGTH, AM_GET_XFER_M);
    OK(AM_GetXfer1(a, 0, 0, HELD, 2000, 1001, 8)); /* does not fit here: the answer is refused */
    COMES_BACK(EREPLYREJECTED, AM_REPLY_XFER_M);
    CHECK(ran == 0);
    tear_down();
}

static void gone_endpoints(void)
{
    en_t nobody;

    set_up();
    nobody = name_b;
    nobody.number += 1000;
    OK(AM_Map(a, 7, nobody, 5));
    OK(AM_Request1(a, 7, REQ, 1));
    COMES_BACK(EBADENDPOINT, AM_REQUEST_M);
    CHECK(last_returned.dest == 7);
    nobody.process += 12345; /* a process that never was */
    OK(AM_Map(a, 8, nobody, 5));
    OK(AM_RequestI1(a, 8, REQ, "x", 1, 1));
    COMES_BACK(EUNREACHABLE, AM_REQUEST_IM);
    exchange();
    OK(AM_FreeEndpoint(b));
    b = a;
    WAIT_FOR(bundle, AM_Request1(a, 0, REQ, 1) == AM_OK && returned > 0);
    CHECK(last_status == EUNREACHABLE || last_status == EBADENDPOINT);
    tear_down();
}

/* Handler 0 that nobody has replaced prints and aborts. */
static void the_default_aborts(void)
{
    int fd[2], status;
    char text[600] = "";
    pid_t child;

    CHECK(pipe(fd) == 0);
    child = fork();
    if (child == 0) {
        dup2(fd[1], 2);
        OK(AM_Init());
        OK(AM_AllocateBundle(AM_SEQ, &bundle));
        OK(AM_AllocateEndpoint(bundle, &a, &name_a));
        OK(AM_Map(a, 0, name_a, 5));
        AM_Request2(a, 0, 44, 1, 0xBEEF);
        _exit(0);
    }
    close(fd[1]);
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    CHECK(read(fd[0], text, sizeof(text) - 1) > 0);
    CHECK(strstr(text, "request for handler 44") && strstr(text, "EBADTAG") &&
          strstr(text, "0xbeef"));
    close(fd[0]);
}

/* ---- credits, discipline, events --------------------------------------------------------------------- */

static void credits(void)
{
    char byte = 1;
    int sent = 0, rc;

    OK(AM_Init());
    OK(AM_Terminate());
    set_up();
    OK(AM_SetExpectedResources(a, 1, 4));
    exchange(); /* connected */
    for (int round = 0; round < 3; round++) {
        eb_t other;
        ran = replied = sent = 0;
        /* b does not answer meanwhile: it is in a bundle that nobody polls. */
        OK(AM_AllocateBundle(AM_SEQ, &other));
        OK(AM_MoveEndpoint(b, bundle, other));
        while ((rc = AM_RequestXferAsync1(a, 0, 0, BULK, &byte, 0, 3)) == AM_OK)
            sent++;
        CHECK(rc == AM_ERR_IN_USE && sent == 4);
        CHECK(AM_RequestXferAsync1(a, 0, 0, BULK, &byte, 0, 3) == AM_ERR_IN_USE);
        WAIT_FOR(other, ran == 4);
        WAIT_FOR(bundle, replied == 4);
        /* Handlers that do not reply give the credit back as well. */
        for (int i = 0; i < 4; i++)
            OK(AM_Request1(a, 0, SILENT, i));
        WAIT_FOR(other, ran == 8);
        while (AM_RequestXferAsync1(a, 0, 0, BULK, &byte, 0, 3) == AM_ERR_IN_USE)
            OK(AM_Poll(bundle));
        WAIT_FOR(other, ran == 9);
        WAIT_FOR(bundle, replied == 5);
        /* Moving waits for answers, which need the other bundle polled: nothing is under way now. */
        OK(AM_Poll(other));
        OK(AM_FreeEndpoint(b));
        OK(AM_FreeBundle(other));
        tear_down();
        set_up();
        OK(AM_SetExpectedResources(a, 1, 4));
        exchange();
    }
    tear_down();
}

static void on_misuse(void *token, int x)
{
    ran++;
    CHECK(AM_Poll(bundle) == AM_ERR_RESOURCE);
    CHECK(AM_WaitSema(bundle) == AM_ERR_RESOURCE);
    CHECK(AM_Request1(a, 0, REQ, 1) == AM_ERR_RESOURCE);
    CHECK(AM_FreeEndpoint(b) == AM_ERR_RESOURCE || x == 0);
    CHECK(AM_Terminate() == AM_ERR_RESOURCE);
    OK(AM_Reply1(token, REP, x));
    CHECK(AM_Reply1(token, REP, x) == AM_ERR_RESOURCE);
}

static void *kept_token;

static void on_keep(void *token, int x)
{
    kept_token = token;
    ran++;
}

static void handlers_are_kept_to_the_rules(void)
{
    set_up();
    OK(AM_SetHandler(b, HELD, on_misuse));
    OK(AM_Request1(a, 0, HELD, 1));
    WAIT_FOR(bundle, replied == 1);
    OK(AM_SetHandler(b, HELD, on_keep));
    OK(AM_Request1(a, 0, HELD, 1));
    WAIT_FOR(bundle, ran == 2);
    CHECK(kept_token != NULL);
    tear_down();
}

static void on_order(void *token, int x)
{
    int rank = -2, is_request = -1;
    handler_t handler = 0;
    amx_category_t category = amx_Long;
    en_t from;
    tag_t tag;
    ep_t own;

    OK(AMX_GetSourceId(token, &rank));
    OK(AMX_GetTokenInfo(token, &handler, &category, &is_request));
    OK(AM_GetSourceEndpoint(token, &from));
    OK(AM_GetDestEndpoint(token, &own));
    OK(AM_GetMsgTag(token, &tag));
    CHECK(handler == HELD && category == amx_Short && is_request == 1);
    CHECK(own == (x == 0 ? b : a) && AMX_enEqual(from, name_a));
    CHECK(tag == (x == 0 ? TAG_B : TAG_A) && rank == (x == 0 ? -1 : 3));
    ran += 10;
    OK(AM_Reply1(token, REP, 0));
    /* To ourselves, the reply's handler has run before the reply returns. */
    CHECK(x == 0 || replied == 2);
}

static void tokens_and_loopback(void)
{
    set_up();
    OK(AM_SetHandler(a, HELD, on_order));
    OK(AM_SetHandler(b, HELD, on_order));
    OK(AM_Request1(a, 0, HELD, 0));
    WAIT_FOR(bundle, replied == 1);
    OK(AM_Request1(a, 3, HELD, 1));
    CHECK(ran == 20 && replied == 2); /* all of it inside the call */
    OK(AM_Request1(a, 3, 99, 1));
    CHECK(returned == 1 && last_status == EBADHANDLER && last_opcode == AM_REQUEST_M);
    tear_down();
}

static void events(void)
{
    int mask = 7;

    set_up();
    OK(AM_GetEventMask(bundle, &mask));
    CHECK(mask == AM_NOEVENTS && AM_WaitSema(bundle) == AM_ERR_RESOURCE);
    CHECK(AM_SetEventMask(bundle, 5) == AM_ERR_BAD_ARG);
    OK(AM_SetEventMask(bundle, AM_NOTEMPTY));
    OK(AM_GetEventMask(bundle, &mask));
    CHECK(mask == AM_NOTEMPTY);
    am_test_blocking = true;
    for (int i = 0; i < 20; i++)
        exchange();
    am_test_blocking = false;
    tear_down();
}

/* ---- bundles ------------------------------------------------------------------------------------------- */

static void moving(void)
{
    eb_t second;
    tag_t tag;
    void *base;
    uintptr_t len;

    set_up();
    OK(AM_AllocateBundle(AM_PAR, &second));
    exchange();
    CHECK(AM_MoveEndpoint(a, second, bundle) == AM_ERR_RESOURCE);
    OK(AM_MoveEndpoint(a, bundle, bundle));
    /* Both ends are in this bundle: the connection closes by agreement with oneself. */
    OK(AM_MoveEndpoint(b, bundle, second));
    OK(AM_GetTag(b, &tag));
    OK(AM_GetSeg(b, &base, &len));
    CHECK(tag == TAG_B && base == seg_b && len == sizeof(seg_b));
    OK(AM_Request1(a, 0, REQ, 1));
    WAIT_FOR(second, ran == 2);
    WAIT_FOR(bundle, replied == 2);
    OK(AM_FreeEndpoint(a));
    OK(AM_FreeBundle(bundle)); /* empty */
    CHECK(AM_GetTranslationInuse(b, 0) != AM_OK);
    OK(AM_FreeBundle(second)); /* with an endpoint in it */
    tear_down();
}

static void known_endpoints(void)
{
    en_t *name = NULL, there, here;
    ep_t known, again;
    int at;

    set_up();
    OK(AM_AllocateKnownEndpoint(bundle, &known, &name, 5150));
    CHECK(AM_AllocateKnownEndpoint(bundle, &again, NULL, 5150) == AM_ERR_IN_USE);
    CHECK(AM_AllocateKnownEndpoint(bundle, &again, NULL, 0) == AM_ERR_BAD_ARG);
    OK(AM_SetTag(known, AM_ALL));
    OK(AM_SetHandler(known, REQ, on_req));
    OK(amvia_KnownName(getenv("VIP_ADDRESS_A"), 5150, &there));
    OK(amvia_KnownName(NULL, 5150, &here));
    CHECK(AMX_enEqual(there, *name) && AMX_enEqual(here, *name));
    CHECK(amvia_KnownName("no such host at all", 5150, &there) == AM_ERR_RESOURCE);
    OK(AM_MapAny(a, &at, here, 12345));
    OK(AM_Request1(a, at, REQ, 1));
    WAIT_FOR(bundle, replied == 1);
    OK(AM_FreeEndpoint(known));
    tear_down();
}

/* An endpoint connects to many others and back, with room for a few connections. */
static void many_endpoints(void)
{
    enum { MANY = 40 };
    amvia_counts_t counts;
    ep_t ep[MANY];
    en_t name[MANY];

    setenv("VIPAM_CONNECTIONS", "6", 1);
    set_up();
    for (int i = 0; i < MANY; i++) {
        OK(AM_AllocateEndpoint(bundle, &ep[i], &name[i]));
        OK(AM_SetTag(ep[i], TAG_B + (unsigned)i + 1));
        OK(AM_SetHandler(ep[i], REQ, on_req));
        OK(AM_SetHandler(ep[i], REP, on_rep));
        OK(AM_Map(a, 10 + 3 * i, name[i], TAG_B + (unsigned)i + 1)); /* a sparse table */
    }
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < MANY; i++)
            OK(AM_Request1(a, 10 + 3 * i, REQ, i));
    WAIT_FOR(bundle, replied == 2 * MANY && ran == 2 * MANY);
    OK(amvia_GetCounts(&counts));
    /* Each connection has two ends in this process. */
    CHECK(counts.live_max <= 6 + 2 && counts.reclaimed >= MANY && counts.dropped == 0);
    tear_down();
    unsetenv("VIPAM_CONNECTIONS");
}

static void statistics(void)
{
    amx_stats_t stats, sum = AMX_initial_stats;
    const char *text;

    set_up();
    exchange();
    OK(AM_RequestI1(a, 0, BULK, "", 0, 9));
    WAIT_FOR(bundle, replied == 2);
    OK(AMX_GetEndpointStatistics(a, &stats));
    CHECK(stats.RequestsSent[amx_Short] == 1 && stats.RequestsSent[amx_Medium] == 1);
    CHECK(stats.RepliesReceived[amx_Short] == 2 && stats.ReturnedMessages == 0);
    OK(AMX_AggregateStatistics(&sum, &stats));
    OK(AMX_GetEndpointStatistics(b, &stats));
    CHECK(stats.RequestsReceived[amx_Short] == 1 && stats.RepliesSent[amx_Short] == 2);
    OK(AMX_AggregateStatistics(&sum, &stats));
    text = AMX_DumpStatistics(NULL, &sum, 1);
    CHECK(strstr(text, "4 sent, 4 received") != NULL);
    CHECK(sizeof(stats) < (size_t)AM_MaxMedium());
    OK(AMX_ResetEndpointStatistics(a));
    OK(AMX_GetEndpointStatistics(a, &stats));
    CHECK(stats.RequestsSent[amx_Short] == 0);
    tear_down();
}

int main(void)
{
    const struct {
        const char *name;
        void (*run)(void);
    } tests[] = {
#define TEST(f) {#f, f}
        TEST(the_default_aborts),
        TEST(start_and_stop),
        TEST(tables),
        TEST(bad_arguments),
        TEST(wrong_tags_come_back),
        TEST(missing_handlers_come_back),
        TEST(segments_are_judged_at_delivery),
        TEST(gets),
        TEST(gone_endpoints),
        TEST(credits),
        TEST(handlers_are_kept_to_the_rules),
        TEST(tokens_and_loopback),
        TEST(events),
        TEST(moving),
        TEST(known_endpoints),
        TEST(many_endpoints),
        TEST(statistics),
    };

    setvbuf(stdout, NULL, _IOLBF, 0);
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        printf("api: %s\n", tests[i].name);
        tests[i].run();
    }
    printf("api: %zu tests, all good\n", sizeof(tests) / sizeof(tests[0]));
    return 0;
}
