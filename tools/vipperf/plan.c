/* Parameters of a measurement and their text form; see plan.h. */
#include "tools/vipperf/plan.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/vipperf/pattern.h"

const char *const plan_test_names[] = {"lat", "bw", "rate", NULL};
const char *const plan_op_names[] = {"send", "write", "write-imm", "read", NULL};
const char *const plan_level_names[] = {"ud", "rd", "rr", NULL};
const char *const plan_wait_names[] = {"adaptive", "poll", "block", NULL};

uint64_t plan_size(const struct plan *plan, uint64_t number)
{
    return plan->random_sizes ? pattern_size(plan->seed, number, plan->size_bytes)
                              : plan->size_bytes;
}

/* Add a line; leave it out if there is no room. Then the other side reports a missing key. */
void note_put(struct note *note, const char *key, const char *value)
{
    size_t room = sizeof(note->text) - note->len_bytes;
    int len = snprintf(note->text + note->len_bytes, room, "%s=%s\n", key, value);

    if (len < 0 || (size_t)len >= room) {
        note->text[note->len_bytes] = '\0';
        return;
    }
    /* Replace newlines in the value: they would end the line. */
    for (int i = 0; i + 1 < len; i++)
        if (note->text[note->len_bytes + (size_t)i] == '\n')
            note->text[note->len_bytes + (size_t)i] = ' ';
    note->len_bytes += (size_t)len;
}

void note_put_number(struct note *note, const char *key, uint64_t value)
{
    char text[24];

    snprintf(text, sizeof(text), "%" PRIu64, value);
    note_put(note, key, text);
}

bool note_get(const struct note *note, const char *key, char *ret, size_t ret_bytes)
{
    size_t key_len = strlen(key);
    const char *line = note->text;

    while (*line) {
        const char *end = strchrnul(line, '\n');

        if (strncmp(line, key, key_len) == 0 && line[key_len] == '=') {
            const char *value = line + key_len + 1;

            snprintf(ret, ret_bytes, "%.*s", (int)(end - value), value);
            return true;
        }
        line = *end ? end + 1 : end;
    }
    return false;
}

bool note_get_number(const struct note *note, const char *key, uint64_t *ret)
{
    char text[32], *end;
    uint64_t value;

    if (!note_get(note, key, text, sizeof(text)) || text[0] < '0' || text[0] > '9')
        return false;
    errno = 0;
    value = strtoull(text, &end, 10);
    if (errno != 0 || *end != '\0')
        return false;
    *ret = value;
    return true;
}

/* Write the target as three lines; the handles are hexadecimal, each followed by a space. */
void target_put(struct note *note, const struct plan_target *target)
{
    char text[PLAN_APART_MAX * 9 + 1] = "";

    note_put_number(note, "remote_addr", target->addr);
    note_put_number(note, "remote_handle", target->handle);
    for (unsigned i = 0, at = 0; i < target->handle_count && i < PLAN_APART_MAX; i++)
        at += (unsigned)snprintf(text + at, sizeof(text) - at, "%" PRIx32 " ", target->handles[i]);
    note_put(note, "remote_handles", text);
}

bool target_get(const struct note *note, struct plan_target *ret)
{
    struct plan_target target = {0};
    char text[PLAN_APART_MAX * 9 + 1];
    uint64_t handle;

    if (!note_get_number(note, "remote_addr", &target.addr) ||
        !note_get_number(note, "remote_handle", &handle) ||
        !note_get(note, "remote_handles", text, sizeof(text)))
        return false;
    target.handle = (uint32_t)handle;
    for (const char *at = text; *at; target.handle_count++) {
        unsigned long value;
        char *end;

        errno = 0;
        value = strtoul(at, &end, 16);
        if (target.handle_count == PLAN_APART_MAX || !strchr("0123456789abcdef", *at) ||
            errno != 0 || *end != ' ' || value > UINT32_MAX)
            return false;
        target.handles[target.handle_count] = (uint32_t)value;
        at = end + 1;
    }
    *ret = target;
    return true;
}

void plan_put(struct note *note, const struct plan *plan)
{
    note_put_number(note, "protocol", PLAN_PROTOCOL);
    note_put(note, "build", VIP_VERSION);
    note_put(note, "test", plan_test_names[plan->test]);
    note_put(note, "op", plan_op_names[plan->op]);
    note_put(note, "reliability", plan_level_names[plan->level]);
    note_put(note, "wait", plan_wait_names[plan->wait]);
    note_put_number(note, "size_bytes", plan->size_bytes);
    note_put_number(note, "window", plan->window);
    note_put_number(note, "idle_vis", plan->idle_vis);
    note_put_number(note, "seed", plan->seed);
    note_put_number(note, "cq", plan->cq);
    note_put_number(note, "verify", plan->verify);
    note_put_number(note, "random_sizes", plan->random_sizes);
    note_put_number(note, "segments", plan->segments);
    note_put_number(note, "buffers", plan->buffers);
    note_put_number(note, "apart", plan->apart);
    note_put_number(note, "both_ways", plan->both_ways);
    target_put(note, &plan->own);
}

static bool get_choice(const struct note *note, const char *key, const char *const *names,
                       unsigned *ret)
{
    char text[32];

    if (!note_get(note, key, text, sizeof(text)))
        return false;
    for (unsigned i = 0; names[i]; i++) {
        if (strcmp(names[i], text) == 0) {
            *ret = i;
            return true;
        }
    }
    return false;
}

bool plan_get(const struct note *note, struct plan *ret, char *why, size_t why_bytes)
{
    static const struct {
        const char *key;
        const char *const *names; /* NULL: a number */
    } wanted[] = {
        {"test", plan_test_names}, {"op", plan_op_names},  {"reliability", plan_level_names},
        {"wait", plan_wait_names}, {"size_bytes", NULL},   {"window", NULL},
        {"idle_vis", NULL},        {"seed", NULL},         {"cq", NULL},
        {"verify", NULL},          {"random_sizes", NULL}, {"segments", NULL},
        {"buffers", NULL},         {"apart", NULL},        {"both_ways", NULL},
    };
    enum { COUNT = sizeof(wanted) / sizeof(*wanted) };
    struct plan_target own;
    uint64_t value[COUNT];

    for (unsigned i = 0; i < COUNT; i++) {
        unsigned choice = 0;
        bool known = wanted[i].names ? get_choice(note, wanted[i].key, wanted[i].names, &choice)
                                     : note_get_number(note, wanted[i].key, &value[i]);

        if (!known) {
            snprintf(why, why_bytes, "the first message has no usable \"%s\"", wanted[i].key);
            return false;
        }
        if (wanted[i].names)
            value[i] = choice;
    }
    if (!target_get(note, &own)) {
        snprintf(why, why_bytes, "the first message has no usable \"remote_addr\" or handles");
        return false;
    }
    *ret = (struct plan){.test = (enum plan_test)value[0],
                         .op = (enum plan_op)value[1],
                         .level = (enum plan_level)value[2],
                         .wait = (enum plan_wait)value[3],
                         .size_bytes = value[4],
                         .window = value[5],
                         .idle_vis = value[6],
                         .iters = UINT64_MAX,
                         .duration_ms = UINT64_MAX,
                         .total_bytes = UINT64_MAX,
                         .seed = value[7],
                         .cq = value[8] != 0,
                         .verify = value[9] != 0,
                         .random_sizes = value[10] != 0,
                         .segments = value[11],
                         .buffers = value[12],
                         .apart = value[13] != 0,
                         .both_ways = value[14] != 0,
                         .own = own};
    return true;
}
