/*
 * Messages that the receiver refuses come back to handler 0 with the reason (am_api).
 */
#include "tests/am/api.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

void wrong_tags_come_back(void)
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
    /* An endpoint with AM_ALL accepts every tag; an endpoint with AM_NONE accepts no tag. */
    OK(AM_SetTag(b, AM_ALL));
    exchange();
    OK(AM_SetTag(b, AM_NONE));
    OK(AM_RequestI1(a, 0, BULK, "x", 1, 0));
    COMES_BACK(EBADTAG, AM_REQUEST_IM);
    CHECK(ran == 2);
    OK(AM_SetTag(b, TAG_B));
    OK(AMX_SetTranslationTag(a, 0, TAG_B));
    exchange();
    /* A reply carries the requester's tag. A requester with AM_NONE refuses the reply. */
    OK(AM_SetTag(a, AM_NONE));
    OK(AM_Request1(a, 0, REQ, 1));
    COMES_BACK(EREPLYREJECTED, AM_REPLY_M);
    CHECK(last_returned.reason == EBADTAG && last_returned.dest == -1);
    CHECK(AMX_enEqual(returned_from, name_a));
    OK(AM_SetTag(a, TAG_A));
    /* If b's tag changes before b polls, the request carries the old tag. So it comes back. */
    OK(AM_Request1(a, 0, REQ, 1));
    OK(AM_SetTag(b, 99));
    WAIT_FOR(bundle, returned == 1);
    CHECK(last_status == EBADTAG);
    returned = 0;
    OK(AM_SetTag(b, TAG_B));
    exchange();
    tear_down();
}

/* A caller with a wrong tag gets no connection: the tag is checked first. */
void calls_without_the_tag_get_no_connection(void)
{
    amvia_counts_t before, after;

    set_up();
    OK(amvia_GetCounts(&before));
    OK(AMX_SetTranslationTag(a, 0, 4711));
    for (int i = 0; i < 5; i++) {
        OK(AM_Request1(a, 0, REQ, i));
        COMES_BACK(EBADTAG, AM_REQUEST_M);
        CHECK(returned_tag == 4711 && last_returned.arg[0] == i);
    }
    OK(AM_SetTag(b, AM_NONE));
    OK(AMX_SetTranslationTag(a, 0, AM_NONE));
    OK(AM_Request1(a, 0, REQ, 1));
    COMES_BACK(EBADTAG, AM_REQUEST_M);
    OK(amvia_GetCounts(&after));
    CHECK(ran == 0 && after.connects == before.connects && after.live == before.live);
    OK(AM_SetTag(b, TAG_B));
    OK(AMX_SetTranslationTag(a, 0, TAG_B));
    exchange();
    tear_down();
}

void missing_handlers_come_back(void)
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

void segments_are_judged_at_delivery(void)
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
    OK(AM_RequestXfer1(a, 0, UINTPTR_MAX - 5, BULK, source, 100, 5)); /* offset + length wraps */
    COMES_BACK(EBADSEGOFF, AM_REQUEST_XFER_M);
    OK(AM_RequestXfer1(a, 0, sizeof(seg_b) + 1000, BULK, source, 0, 5)); /* no bytes to write */
    WAIT_FOR(bundle, replied == 2);
    /* The sender may write the later ones of these messages straight into the segment. */
    for (int i = 0; i < 4; i++) {
        memset(seg_b, 0, sizeof(seg_b));
        OK(AM_RequestXfer1(a, 0, 10, BULK, source, 15000, 5));
        WAIT_FOR(bundle, replied == 3 + i);
        CHECK(pattern_good(seg_b + 10, 15000, 5));
    }
    /* After AM_SetSeg the sender must use the new segment. */
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
    /* b's segment is now the whole address space. */
    OK(AM_SetSeg(b, NULL, UINTPTR_MAX));
    memset(other, 0, sizeof(other));
    OK(AM_RequestXfer1(a, 0, (uintptr_t)other, BULK, source, 5500, 5));
    WAIT_FOR(bundle, replied == 10);
    CHECK(pattern_good(other, 5500, 5));
    /* A long reply that does not fit into a's segment comes back. */
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

void gets(void)
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
    OK(AM_GetXfer1(a, 0, 0, HELD, 2000, 1001, 8)); /* beyond a's segment: a refuses the answer */
    COMES_BACK(EREPLYREJECTED, AM_REPLY_XFER_M);
    CHECK(ran == 0);
    tear_down();
}

void gone_endpoints(void)
{
    en_t absent;

    set_up();
    absent = name_b;
    absent.number += 1000;
    OK(AM_Map(a, 7, absent, 5));
    OK(AM_Request1(a, 7, REQ, 1));
    COMES_BACK(EBADENDPOINT, AM_REQUEST_M);
    CHECK(last_returned.dest == 7);
    absent.process += 12345; /* no process has this number */
    OK(AM_Map(a, 8, absent, 5));
    OK(AM_RequestI1(a, 8, REQ, "x", 1, 1));
    COMES_BACK(EUNREACHABLE, AM_REQUEST_IM);
    exchange();
    OK(AM_FreeEndpoint(b));
    b = a;
    WAIT_FOR(bundle, AM_Request1(a, 0, REQ, 1) == AM_OK && returned > 0);
    CHECK(last_status == EUNREACHABLE || last_status == EBADENDPOINT);
    tear_down();
}

/* The default handler 0 prints the message and aborts. */
void the_default_aborts(void)
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

/* ---- refused replies; the credit of a returned request --------------------------------------- */

static int answer_as; /* the kind of reply: AM_REPLY_... */

static void on_answer_as(void *token)
{
    static char bytes[64];

    if (answer_as == AM_REPLY_M)
        OK(AM_Reply1(token, 99, 5));
    else if (answer_as == AM_REPLY_IM)
        OK(AM_ReplyI1(token, 99, bytes, sizeof(bytes), 5));
    else
        OK(AM_ReplyXfer1(token, 0, 99, bytes, sizeof(bytes), 5));
}

/* Every kind of refused reply comes back to its sender, also if an endpoint replies to itself. */
void refused_replies_come_back(void)
{
    set_up();
    OK(AM_SetHandler(a, HELD, on_answer_as));
    OK(AM_SetHandler(b, HELD, on_answer_as));
    for (answer_as = AM_REPLY_M; answer_as <= AM_REPLY_XFER_M; answer_as++)
        for (int dest = 0; dest <= 3; dest += 3) {
            OK(AM_Request0(a, dest, HELD));
            COMES_BACK(EREPLYREJECTED, answer_as);
            CHECK(last_returned.reason == EBADHANDLER && last_returned.handler == 99);
            CHECK(last_returned.dest == -1 && last_returned.arg[0] == 5);
        }
    /* A long reply to an endpoint without a segment comes back. */
    OK(AM_Request2(a, 0, LONG_ANSWER, 0, 100));
    COMES_BACK(EREPLYREJECTED, AM_REPLY_XFER_M);
    CHECK(last_returned.reason == EBADSEGOFF && last_returned.nbytes == 100);
    exchange();
    tear_down();
}

static ep_t only_credit_of;
static int asked_again;

static void *ask_again(void *arg)
{
    asked_again = AM_RequestXferAsync0(only_credit_of, 0, 0, 99, "", 0);
    return arg;
}

/* Handler 0. When it runs, the only credit must be free again for another thread. */
static void on_return_ask(int status, op_t opcode, void *token)
{
    pthread_t thread;

    if (returned++ > 0)
        return;
    CHECK(pthread_create(&thread, NULL, ask_again, NULL) == 0);
    pthread_join(thread, NULL);
}

void the_credit_is_back_before_handler_0(void)
{
    eb_t par;

    set_up();
    OK(AM_AllocateBundle(AM_PAR, &par));
    OK(AM_AllocateEndpoint(par, &only_credit_of, NULL));
    OK(AM_SetTag(only_credit_of, AM_ALL));
    OK(AM_SetHandler(only_credit_of, 0, on_return_ask));
    OK(AM_SetExpectedResources(only_credit_of, 1, 1));
    OK(AM_Map(only_credit_of, 0, name_b, TAG_B));
    OK(AM_RequestXferAsync0(only_credit_of, 0, 0, 99, "", 0));
    while (returned < 2) {
        OK(AM_Poll(bundle));
        OK(AM_Poll(par));
    }
    CHECK(asked_again == AM_OK);
    OK(AM_FreeBundle(par));
    tear_down();
}
