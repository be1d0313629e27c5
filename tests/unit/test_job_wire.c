/*
 * job/: words and lines of the PMI-1 protocol, and the start of a job. The test is the launcher.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "job/internal.h"
#include "job/job.h"

static void words_are_found(void **state)
{
    const char *line = "cmd=put kvsname=a key=cmd value=x y=1 key=z";
    char word[32], small[3];

    assert_true(pmi_word(line, "cmd", word, sizeof(word)));
    assert_string_equal(word, "put");
    assert_true(pmi_word(line, "key", word, sizeof(word)));
    assert_string_equal(word, "cmd");
    assert_true(pmi_word(line, "value", word, sizeof(word)));
    assert_string_equal(word, "x y=1 key=z");
    assert_false(pmi_word(line, "name", word, sizeof(word)));
    assert_false(pmi_word(line, "ke", word, sizeof(word)));
    assert_false(pmi_word(line, "cmd", small, sizeof(small)));
    assert_false(pmi_word("", "cmd", word, sizeof(word)));
}

static void lines_come_whole(void **state)
{
    struct pmi_input input = {.used = 0};
    char line[PMI_LINE_BYTES];
    int pair[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    assert_int_equal(pmi_receive(&input, pair[0]), 0);
    assert_int_equal(write(pair[1], "cmd=a\ncmd=", 10), 10);
    assert_int_equal(pmi_receive(&input, pair[0]), 1);
    assert_int_equal(pmi_next_line(&input, line), 1);
    assert_string_equal(line, "cmd=a");
    assert_int_equal(pmi_next_line(&input, line), 0);
    assert_int_equal(write(pair[1], "b\n", 2), 2);
    assert_int_equal(pmi_receive(&input, pair[0]), 1);
    assert_int_equal(pmi_next_line(&input, line), 1);
    assert_string_equal(line, "cmd=b");
    memset(input.bytes, 'x', sizeof(input.bytes));
    input.used = sizeof(input.bytes);
    assert_int_equal(pmi_next_line(&input, line), -EPROTO);
    close(pair[1]);
    input.used = 0;
    assert_int_equal(pmi_receive(&input, pair[0]), -ECONNRESET);
    close(pair[0]);
}

/* Each pair of the script has the beginning of a line and the launcher's answer to this line. */
struct script {
    int fd;
    const char *(*answer)[2];
};

static void *launcher(void *arg)
{
    struct script *script = arg;
    struct pmi_input input = {.used = 0};
    char line[PMI_LINE_BYTES];

    while (pmi_receive(&input, script->fd) > 0)
        while (pmi_next_line(&input, line) > 0)
            for (int i = 0; script->answer[i][0] != NULL; i++)
                if (strncmp(line, script->answer[i][0], strlen(script->answer[i][0])) == 0) {
                    if (pmi_send(script->fd, "%s", script->answer[i][1]) != 0)
                        return NULL;
                    break;
                }
    return NULL;
}

/* Join a job whose launcher follows the script; the launcher ends when the connection ends. */
static int join(const char *(*answer)[2], const char *rank, const char *size, struct job **ret,
                struct script *script, pthread_t *thread, int *fd)
{
    char text[16];
    int pair[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    script->fd = pair[1];
    script->answer = answer;
    *fd = pair[0];
    assert_int_equal(pthread_create(thread, NULL, launcher, script), 0);
    snprintf(text, sizeof(text), "%d", pair[0]);
    setenv("PMI_FD", text, 1);
    setenv("PMI_RANK", rank, 1);
    setenv("PMI_SIZE", size, 1);
    return job_start(ret);
}

static void part(struct script *script, pthread_t thread, int fd)
{
    shutdown(fd, SHUT_RDWR);
    pthread_join(thread, NULL);
    close(fd);
    close(script->fd);
    unsetenv("PMI_FD");
}

#define HELLO                                                                                      \
    {"cmd=init", "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n"},                    \
        {"cmd=get_maxes", "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=80\n"},              \
    {                                                                                              \
        "cmd=get_my_kvsname", "cmd=my_kvsname kvsname=kvs_1\n"                                     \
    }

static void a_job_by_the_wire(void **state)
{
    const char *answer[][2] = {
        HELLO,
        {"cmd=put", "cmd=put_result rc=0 msg=success\n"},
        {"cmd=barrier_in", "cmd=barrier_out\n"},
        {"cmd=get kvsname=kvs_1 key=vip-0-0-0", "cmd=get_result rc=0 msg=success value=0102\n"},
        {"cmd=get kvsname=kvs_1 key=vip-0-1-0", "cmd=get_result rc=0 msg=success value=ff7f\n"},
        {"cmd=get kvsname=kvs_1 key=vip-1-0-0", "cmd=get_result rc=0 msg=success value=010203\n"},
        {"cmd=finalize", "cmd=finalize_ack\n"},
        {NULL, NULL}};
    unsigned char mine[2] = {0xFF, 0x7F}, all[4] = {0};
    struct script script;
    struct job *job = NULL;
    pthread_t thread;
    int fd;

    assert_int_equal(join(answer, "1", "2", &job, &script, &thread, &fd), 0);
    assert_int_equal(job_rank(job), 1);
    assert_int_equal(job_size(job), 2);
    assert_string_equal(job_launcher(job), "pmi");
    assert_int_equal(job_barrier(job), 0);
    assert_int_equal(job_barrier_begin(job), 0);
    while (job_barrier_test(job, 0) == 0)
        continue;
    assert_int_equal(job_allgather(job, mine, all, 2), 0);
    assert_memory_equal(all, "\x01\x02\xff\x7f", 4);
    /* Another rank gives three bytes instead of two: that is an error. */
    assert_int_equal(job_allgather(job, mine, all, 2), -EPROTO);
    assert_int_equal(job_allgather(job, mine, all, JOB_GATHER_BYTES_MAX + 1), -EINVAL);
    job_finish(job);
    part(&script, thread, fd);
}

static void bad_launchers_are_told_from_good_ones(void **state)
{
    const char *refuses[][2] = {{"cmd=init", "cmd=response_to_init rc=-1\n"}, {NULL, NULL}};
    const char *babbles[][2] = {{"cmd=init", "hello\n"}, {NULL, NULL}};
    const char *good[][2] = {HELLO, {NULL, NULL}};
    struct script script;
    struct job *job = NULL;
    pthread_t thread;
    int fd;

    assert_int_equal(join(refuses, "0", "1", &job, &script, &thread, &fd), -EPROTO);
    assert_non_null(strstr(job_error(), "refused"));
    part(&script, thread, fd);
    assert_int_equal(join(babbles, "0", "1", &job, &script, &thread, &fd), -EPROTO);
    assert_non_null(strstr(job_error(), "hello"));
    part(&script, thread, fd);
    assert_int_equal(join(good, "2", "2", &job, &script, &thread, &fd), -EPROTO);
    assert_non_null(strstr(job_error(), "PMI_RANK=2"));
    part(&script, thread, fd);
    assert_null(job);
}

static void without_launcher_a_job_of_one(void **state)
{
    struct job *job = NULL;
    int mine = 7, all = 0;

    unsetenv("PMI_FD");
    unsetenv("PMIX_RANK");
    assert_int_equal(job_start(&job), 0);
    assert_int_equal(job_rank(job), 0);
    assert_int_equal(job_size(job), 1);
    assert_string_equal(job_launcher(job), "alone");
    assert_int_equal(job_barrier(job), 0);
    assert_int_equal(job_allgather(job, &mine, &all, sizeof(mine)), 0);
    assert_int_equal(all, 7);
    job_finish(job);
    job_finish(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_found),
        cmocka_unit_test(lines_come_whole),
        cmocka_unit_test(a_job_by_the_wire),
        cmocka_unit_test(bad_launchers_are_told_from_good_ones),
        cmocka_unit_test(without_launcher_a_job_of_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
