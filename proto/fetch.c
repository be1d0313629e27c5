/* The record of the double-fetch detector (proto/fetch.h). */
#include "proto/fetch.h"

#ifdef VIP_FETCH_CHECK

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define NOTES_MAX 1024 /* loads per transaction; the longest descriptor has 85 slots of 9 loads */
#define DEPTH_MAX 8

struct note {
    uintptr_t at;
    size_t bytes;
};

static _Thread_local struct note notes[NOTES_MAX];
static _Thread_local unsigned count, depth, start[DEPTH_MAX];

static void die(const char *what, const void *word)
{
    fprintf(stderr, "fetch check: %s (word %p, depth %u)\n", what, word, depth);
    abort();
}

void vip_fetch_begin(void)
{
    if (depth == DEPTH_MAX)
        die("transactions too deep", NULL);
    start[depth++] = count;
}

void vip_fetch_end(void)
{
    if (!depth)
        die("end without begin", NULL);
    count = start[--depth];
}

void vip_fetch_note(const void *word, size_t bytes)
{
    uintptr_t at = (uintptr_t)word;

    if (!depth)
        die("a foreign word was loaded outside of a transaction", word);
    for (unsigned i = 0; i < count; i++)
        if (at < notes[i].at + notes[i].bytes && notes[i].at < at + bytes)
            die("a foreign word was loaded twice", word);
    if (count == NOTES_MAX)
        die("too many loads in one transaction", word);
    notes[count++] = (struct note){at, bytes};
}

#else

/* C does not allow a file without a declaration. */
typedef int vip_fetch_unused;

#endif
