/* Answers the PMI-1 commands that the processes send, for example put, get and barrier. */
#include "tools/amrun/amrun.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct pair **find(struct run *run, const char *key)
{
    unsigned hash = 5381;
    struct pair **at;

    for (const char *c = key; *c != '\0'; c++)
        hash = hash * 33 + (unsigned char)*c;
    for (at = &run->bucket[hash % 1024]; *at != NULL && strcmp((*at)->key, key) != 0;)
        at = &(*at)->next;
    return at;
}

/* Store the key and the value of a put command. Returns NULL, or the reason of the failure. */
static const char *put(struct run *run, const char *line)
{
    char key[PMI_KEY_MAX], value[PMI_VALUE_MAX];
    struct pair **at;

    if (!pmi_word(line, "key", key, sizeof(key)) || !pmi_word(line, "value", value, sizeof(value)))
        return "bad_key_or_value";
    at = find(run, key);
    if (*at != NULL)
        return "duplicate_key";
    if (run->pairs == AMRUN_PAIRS_MAX)
        return "too_many_keys";
    *at = calloc(1, sizeof(**at));
    if (*at == NULL)
        return "no_memory";
    strcpy((*at)->key, key);
    strcpy((*at)->value, value);
    run->pairs++;
    return NULL;
}

static int answer_get(struct run *run, int fd, const char *line)
{
    char key[PMI_KEY_MAX];
    struct pair *pair = NULL;

    if (pmi_word(line, "key", key, sizeof(key)))
        pair = *find(run, key);
    if (pair == NULL)
        return pmi_send(fd, "cmd=get_result rc=-1 msg=key_not_found value=unknown\n");
    return pmi_send(fd, "cmd=get_result rc=0 msg=success value=%s\n", pair->value);
}

/* If all processes wait in the barrier, release them. */
static void release(struct run *run)
{
    for (int i = 0; i < run->count; i++)
        if (!run->process[i].waits)
            return;
    for (int i = 0; i < run->count; i++) {
        run->process[i].waits = false;
        (void)pmi_send(run->process[i].fd, "cmd=barrier_out\n");
    }
}

/* Answer one line of process i. If the result is negative, the caller closes the wire. */
static int serve_line(struct run *run, int i, const char *line)
{
    struct process *process = &run->process[i];
    char cmd[PMI_KEY_MAX], word[PMI_KEY_MAX];
    const char *why;

    if (!pmi_word(line, "cmd", cmd, sizeof(cmd)))
        return -EPROTO;
    if (strcmp(cmd, "init") == 0)
        return pmi_send(process->fd,
                        "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0 %s=1\n",
                        PMI_SAYS_REASONS);
    if (strcmp(cmd, "get_maxes") == 0)
        return pmi_send(process->fd, "cmd=maxes kvsname_max=%d keylen_max=%d vallen_max=%d\n",
                        PMI_NAME_MAX, PMI_KEY_MAX, PMI_VALUE_MAX);
    if (strcmp(cmd, "get_appnum") == 0)
        return pmi_send(process->fd, "cmd=appnum appnum=0\n");
    if (strcmp(cmd, "get_my_kvsname") == 0)
        return pmi_send(process->fd, "cmd=my_kvsname kvsname=%s\n", run->name);
    if (strcmp(cmd, "get_universe_size") == 0)
        return pmi_send(process->fd, "cmd=universe_size size=%d\n", run->count);
    if (strcmp(cmd, "put") == 0) {
        why = put(run, line);
        return pmi_send(process->fd, "cmd=put_result rc=%d msg=%s\n", why == NULL ? 0 : -1,
                        why == NULL ? "success" : why);
    }
    if (strcmp(cmd, "get") == 0)
        return answer_get(run, process->fd, line);
    if (strcmp(cmd, "barrier_in") == 0) {
        process->waits = true;
        release(run);
        return 0;
    }
    if (strcmp(cmd, "finalize") == 0) {
        process->left = true;
        return pmi_send(process->fd, "cmd=finalize_ack\n");
    }
    if (strcmp(cmd, "abort") == 0) {
        int code = pmi_word(line, "exitcode", word, sizeof(word)) ? atoi(word) & 0xFF : 1;

        process->left = true;
        if (process->reason[0] == '\0')
            (void)pmi_word(line, "value", process->reason, sizeof(process->reason));
        run_abort(run, i, code);
        return 0;
    }
    return -EPROTO;
}

void serve(struct run *run, int i)
{
    struct process *process = &run->process[i];
    char line[PMI_LINE_BYTES];
    int rc;

    do {
        int lines = 0;

        rc = pmi_receive(&process->input, process->fd);
        while (rc > 0 && (lines = pmi_next_line(&process->input, line)) > 0)
            if ((lines = serve_line(run, i, line)) < 0)
                break;
        if (lines < 0)
            rc = lines;
    } while (rc > 0);
    if (rc == 0)
        return;
    if (rc == -EPROTO)
        run_end(run, 1, "process %d speaks no PMI-1 on its wire", i);
    close(process->fd);
    process->fd = -1;
}

void serve_free(struct run *run)
{
    for (unsigned i = 0; i < 1024; i++) {
        struct pair *pair;

        while ((pair = run->bucket[i]) != NULL) {
            run->bucket[i] = pair->next;
            free(pair);
        }
    }
}
