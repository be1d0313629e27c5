/*
 * Joining by the PMI-1 wire protocol: lines of text on a file descriptor that the process gets from
 * the launcher. The process sends one request at a time; each has one answer.
 */
#include "job/internal.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job/job.h"

/* The connection to the launcher. */
struct pmi {
    int fd;
    bool fencing; /* we have sent barrier_in, and barrier_out has not come */
    bool reasons; /* the launcher prints the reason of an abort */
    char name[PMI_NAME_MAX];
    struct pmi_input input;
};

/* Wait for the next line. Outcomes: 1; 0: no line within timeout_ms (-1: no limit); -EPROTO. */
static int await_line(struct pmi *pmi, char *line, int timeout_ms)
{
    for (;;) {
        struct pollfd wait = {.fd = pmi->fd, .events = POLLIN};
        int rc = pmi_next_line(&pmi->input, line);

        if (rc < 0)
            return job_fail(-EPROTO, "the launcher sent a line of more than %d bytes",
                            PMI_LINE_BYTES);
        if (rc > 0)
            return 1;
        rc = poll(&wait, 1, timeout_ms);
        if (rc < 0 && errno == EINTR)
            continue;
        if (rc == 0)
            return 0;
        if (pmi_receive(&pmi->input, pmi->fd) < 0)
            return job_fail(-EPROTO, "the launcher has closed the connection");
    }
}

/* Read the answer. Its word cmd must be `kind`; its word rc must be 0 or absent. */
static int answer(struct pmi *pmi, const char *kind, char *line)
{
    char word[PMI_KEY_MAX];
    int rc = await_line(pmi, line, -1);

    if (rc < 0)
        return rc;
    if (!pmi_word(line, "cmd", word, sizeof(word)) || strcmp(word, kind) != 0)
        return job_fail(-EPROTO, "the launcher answered \"%.80s\" where cmd=%s was due", line,
                        kind);
    if (pmi_word(line, "rc", word, sizeof(word)) && atoi(word) != 0)
        return job_fail(-EPROTO, "the launcher refused: %.200s", line);
    return 0;
}

#define ASK(pmi, kind, line, ...)                                                                  \
    (pmi_send((pmi)->fd, __VA_ARGS__) < 0                                                          \
         ? job_fail(-EPROTO, "the launcher does not take our line (cmd for %s)", kind)             \
         : answer(pmi, kind, line))

static int pmi_put(void *at, const char *key, const char *value)
{
    struct pmi *pmi = at;
    char line[PMI_LINE_BYTES];

    return ASK(pmi, "put_result", line, "cmd=put kvsname=%s key=%s value=%s\n", pmi->name, key,
               value);
}

static int pmi_get(void *at, int rank, const char *key, char *value, size_t room)
{
    struct pmi *pmi = at;
    char line[PMI_LINE_BYTES];
    int rc = ASK(pmi, "get_result", line, "cmd=get kvsname=%s key=%s\n", pmi->name, key);

    if (rc == 0 && !pmi_word(line, "value", value, room))
        rc = job_fail(-EPROTO, "the launcher's answer for key %s of process %d has no value", key,
                      rank);
    return rc;
}

static int pmi_fence_begin(void *at)
{
    struct pmi *pmi = at;

    if (pmi->fencing)
        return 0;
    if (pmi_send(pmi->fd, "cmd=barrier_in\n") < 0)
        return job_fail(-EPROTO, "the launcher does not take our line (barrier_in)");
    pmi->fencing = true;
    return 0;
}

static int pmi_fence_test(void *at, int timeout_ms)
{
    struct pmi *pmi = at;
    char line[PMI_LINE_BYTES], word[PMI_KEY_MAX];
    int rc = await_line(pmi, line, timeout_ms);

    if (rc <= 0)
        return rc;
    if (!pmi_word(line, "cmd", word, sizeof(word)) || strcmp(word, "barrier_out") != 0)
        return job_fail(-EPROTO, "the launcher sent \"%.80s\" during a barrier", line);
    pmi->fencing = false;
    return 1;
}

static bool pmi_abort(void *at, int code, const char *why)
{
    struct pmi *pmi = at;

    if (pmi->reasons)
        return pmi_send_abort(pmi->fd, code, why) == 0;
    (void)pmi_send(pmi->fd, "cmd=abort exitcode=%d\n", code);
    return false;
}

static void pmi_finish(void *at)
{
    struct pmi *pmi = at;
    char line[PMI_LINE_BYTES];

    if (!pmi->fencing)
        (void)ASK(pmi, "finalize_ack", line, "cmd=finalize\n");
    free(pmi);
}

static const struct job_way pmi_way = {
    .name = "pmi",
    .put = pmi_put,
    .fence_begin = pmi_fence_begin,
    .fence_test = pmi_fence_test,
    .get = pmi_get,
    .abort = pmi_abort,
    .finish = pmi_finish,
};

/* Get rank and size from the environment; ask the launcher for limits and the job's name. */
static int introduce(struct pmi *pmi, struct job_place *ret)
{
    char line[PMI_LINE_BYTES], word[PMI_KEY_MAX];
    const char *rank = getenv("PMI_RANK"), *size = getenv("PMI_SIZE");
    int rc = ASK(pmi, "response_to_init", line, "cmd=init pmi_version=1 pmi_subversion=1\n");

    pmi->reasons = rc == 0 && pmi_word(line, PMI_SAYS_REASONS, word, sizeof(word));
    if (rc == 0)
        rc = ASK(pmi, "maxes", line, "cmd=get_maxes\n");
    if (rc != 0)
        return rc;
    ret->value_max = PMI_VALUE_MAX;
    if (pmi_word(line, "vallen_max", word, sizeof(word)) && atoi(word) > 64 &&
        atoi(word) < PMI_VALUE_MAX)
        ret->value_max = (size_t)atoi(word);
    rc = ASK(pmi, "my_kvsname", line, "cmd=get_my_kvsname\n");
    if (rc != 0)
        return rc;
    if (!pmi_word(line, "kvsname", pmi->name, sizeof(pmi->name)))
        return job_fail(-EPROTO, "the launcher does not tell its name: %.80s", line);
    strcpy(ret->name, pmi->name);
    ret->rank = rank != NULL ? atoi(rank) : -1;
    ret->size = size != NULL ? atoi(size) : -1;
    if (ret->size < 1 || ret->rank < 0 || ret->rank >= ret->size)
        return job_fail(-EPROTO, "PMI_RANK=%s of PMI_SIZE=%s make no sense",
                        rank != NULL ? rank : "(unset)", size != NULL ? size : "(unset)");
    return 0;
}

int job_pmi_join(int fd, struct job_place *ret)
{
    struct pmi *pmi = calloc(1, sizeof(*pmi));
    int rc;

    if (pmi == NULL)
        return job_fail(-ENOMEM, "no memory");
    pmi->fd = fd;
    rc = introduce(pmi, ret);
    if (rc != 0) {
        free(pmi);
        return rc;
    }
    ret->way = &pmi_way;
    ret->at = pmi;
    return 0;
}
