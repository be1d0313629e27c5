/*
 * Each call of AM-II, in one process whose endpoints are connected by VIs as between processes:
 * codes, messages that come back to handler 0, tags, segments, credits, moving of endpoints.
 *
 * usage: am_api
 */
#include "tests/am/api.h"

bool am_test_blocking;

eb_t bundle;
ep_t a, b;
en_t name_a, name_b;
char seg_b[SEG_B_BYTES];
int ran, replied, returned, last_status, last_opcode, last_arg;
amvia_returned_t last_returned;
en_t returned_from;
tag_t returned_tag;

static void on_return(int status, op_t opcode, void *token)
{
    ep_t own;

    returned++;
    last_status = status;
    last_opcode = opcode;
    OK(amvia_GetReturned(token, &last_returned));
    am_test_returned(status, opcode, last_returned.reason);
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

void set_up(void)
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

void tear_down(void)
{
    OK(AM_Terminate());
}

void exchange(void)
{
    int before = replied;

    OK(AM_Request1(a, 0, REQ, 41));
    WAIT_FOR(bundle, replied == before + 1);
    CHECK(last_arg == 42);
}

/* ---- start, limits, tables ------------------------------------------------------------------- */

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
    OK(AM_AllocateBundle(AM_SEQ, &eb)); /* works: AM_Init was called once more than AM_Terminate */
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
    OK(AM_MapAny(a, &i, name_b, 77)); /* a second entry for b */
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
    CHECK(h == HELD); /* the lowest free handler number above 0 */
    for (i = LONG_ANSWER + 1; i < 256; i++)
        OK(AM_SetHandlerAny(a, &h, on_req));
    CHECK(h == 255 && AM_SetHandlerAny(a, &h, on_req) == AM_ERR_RESOURCE);
    OK(AM_SetHandler(a, 255, on_rep)); /* a handler may be set again */
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
    exchange(); /* a has 128 credits, b has 8 */
    tear_down();
}

/* ---- credits, discipline, events ------------------------------------------------------------- */

static void credits(void)
{
    char byte = 1;
    int sent = 0, rc;

    OK(AM_Init());
    OK(AM_Terminate());
    set_up();
    OK(AM_SetExpectedResources(a, 1, 4));
    exchange(); /* makes the connection */
    for (int round = 0; round < 3; round++) {
        eb_t other;
        ran = replied = sent = 0;
        /* Move b to a bundle that no call polls yet. So b does not answer yet. */
        OK(AM_AllocateBundle(AM_SEQ, &other));
        OK(AM_MoveEndpoint(b, bundle, other));
        while ((rc = AM_RequestXferAsync1(a, 0, 0, BULK, &byte, 0, 3)) == AM_OK)
            sent++;
        CHECK(rc == AM_ERR_IN_USE && sent == 4);
        CHECK(AM_RequestXferAsync1(a, 0, 0, BULK, &byte, 0, 3) == AM_ERR_IN_USE);
        WAIT_FOR(other, ran == 4);
        WAIT_FOR(bundle, replied == 4);
        /* The credit of a request also comes back if the request's handler does not reply. */
        for (int i = 0; i < 4; i++)
            OK(AM_Request1(a, 0, SILENT, i));
        WAIT_FOR(other, ran == 8);
        while (AM_RequestXferAsync1(a, 0, 0, BULK, &byte, 0, 3) == AM_ERR_IN_USE)
            OK(AM_Poll(bundle));
        WAIT_FOR(other, ran == 9);
        WAIT_FOR(bundle, replied == 5);
        /* No request is under way. Otherwise AM_FreeEndpoint would wait for the answers. */
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
    /* If an endpoint sends to itself (x != 0), AM_Reply1 itself runs the reply's handler. */
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
    CHECK(ran == 20 && replied == 2); /* AM_Request1 has run all handlers */
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

/* ---- bundles --------------------------------------------------------------------------------- */

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
    /* Both ends of the connection are in `bundle`. So AM_MoveEndpoint must close both ends. */
    OK(AM_MoveEndpoint(b, bundle, second));
    OK(AM_GetTag(b, &tag));
    OK(AM_GetSeg(b, &base, &len));
    CHECK(tag == TAG_B && base == seg_b && len == sizeof(seg_b));
    OK(AM_Request1(a, 0, REQ, 1));
    WAIT_FOR(second, ran == 2);
    WAIT_FOR(bundle, replied == 2);
    OK(AM_FreeEndpoint(a));
    OK(AM_FreeBundle(bundle)); /* the bundle is empty */
    CHECK(AM_GetTranslationInuse(b, 0) != AM_OK);
    OK(AM_FreeBundle(second)); /* this bundle still has an endpoint */
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

/* One endpoint sends to 40 others in its process. VIPAM_CONNECTIONS allows only 6 connections. */
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

/* ---- callbacks around handlers --------------------------------------------------------------- */

static int before_count, after_count;

static void before_handler(amx_category_t category, int is_request, int handler, void *token,
                           void *buf, size_t nbytes, int numargs, uint32_t *args)
{
    CHECK(before_count == after_count && ran == before_count);
    CHECK(category == (before_count == 0 ? amx_Short : amx_Medium) && is_request == 1);
    CHECK(handler == (before_count == 0 ? REQ : BULK) && numargs == 1 && token != NULL);
    CHECK(args[0] == (before_count == 0 ? 41u : 9u) && nbytes == (before_count == 0 ? 0u : 3u));
    CHECK(category == amx_Short || pattern_good(buf, 3, 9));
    before_count++;
}

static void after_handler(amx_category_t category, int is_request)
{
    after_count++;
    CHECK(after_count == before_count && ran == after_count && is_request == 1);
    CHECK(category == (after_count == 1 ? amx_Short : amx_Medium));
}

static void callbacks(void)
{
    char bytes[3];

    set_up();
    before_count = after_count = 0;
    pattern_fill(bytes, sizeof(bytes), 9);
    OK(AMX_SetHandlerCallbacks(b, before_handler, after_handler));
    exchange();
    OK(AM_RequestI1(a, 0, BULK, bytes, sizeof(bytes), 9));
    WAIT_FOR(bundle, replied == 2);
    CHECK(before_count == 2 && after_count == 2);
    OK(AMX_SetHandlerCallbacks(b, NULL, NULL));
    exchange();
    CHECK(before_count == 2 && after_count == 2);
    tear_down();
}

int main(int argc, char **argv)
{
    const struct {
        const char *name;
        void (*run)(void);
    } tests[] = {
#define TEST(f) {"api:" #f, f}
        TEST(the_default_aborts),
        TEST(nothing_works_before_the_start),
        TEST(start_and_stop),
        TEST(null_is_no_argument),
        TEST(tables),
        TEST(a_full_table),
        TEST(bad_arguments),
        TEST(without_resources),
        TEST(a_new_endpoint),
        TEST(wrong_tags_come_back),
        TEST(calls_without_the_tag_get_no_connection),
        TEST(missing_handlers_come_back),
        TEST(segments_are_judged_at_delivery),
        TEST(gets),
        TEST(gone_endpoints),
        TEST(refused_replies_come_back),
        TEST(the_credit_is_back_before_handler_0),
        TEST(another_variant_is_refused),
        TEST(no_resources_here_or_there),
        TEST(a_killed_peer_returns_each_once),
        TEST(credits),
        TEST(handlers_are_kept_to_the_rules),
        TEST(spent_tokens),
        TEST(segments_in_handlers),
        TEST(variadic_twins),
        TEST(tokens_and_loopback),
        TEST(events),
        TEST(sleeping_uses_no_processor),
        TEST(waiting_for_room_uses_no_processor),
        TEST(strangers_get_half_of_the_room),
        TEST(tags_set_after_the_call),
        TEST(moving),
        TEST(freeing_a_bundle_of_several),
        TEST(mapping_after_the_first_traffic),
        TEST(known_endpoints),
        TEST(many_endpoints),
        TEST(statistics),
        TEST(callbacks),
    };

    if (argc > 2 && strcmp(argv[1], "child") == 0)
        return peer(argv[2]);
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        printf("%s\n", tests[i].name);
        am_test_begin();
        tests[i].run();
        am_test_passed(tests[i].name);
    }
    printf("api: %zu tests, all good\n", sizeof(tests) / sizeof(tests[0]));
    return 0;
}
