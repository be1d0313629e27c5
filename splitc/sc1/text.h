/*
 * Memory and text of one translation. All its memory comes from an arena, which is freed as a whole
 * when the translation ends. If the arena reaches its limit, the translation ends with an error.
 */
#ifndef SPLITC_SC1_TEXT_H
#define SPLITC_SC1_TEXT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Largest size of an arena, in bytes. A real program of 5,000 preprocessed lines needs a few MB. */
#define ARENA_BYTES_MAX (1ull << 30)

struct arena_block;

struct arena {
    struct arena_block *blocks; /* newest first */
    size_t used_bytes;          /* used bytes of the newest block */
    uint64_t total_bytes;       /* size of all blocks */
    jmp_buf *exhausted;         /* jump target if there is no more memory */
};

/* Zeroed memory, aligned for any object. Does not return if the arena is exhausted. */
void *arena_alloc(struct arena *a, size_t bytes);

/* Free all blocks. */
void arena_free(struct arena *a);

/* Text that grows. An empty text has its arena, and zeros in the other members. */
struct text {
    struct arena *arena;
    char *data; /* NUL-terminated if not NULL */
    size_t len; /* bytes without the NUL */
    size_t cap; /* bytes allocated */
};

void text_add(struct text *t, const char *bytes, size_t len);
void text_puts(struct text *t, const char *string);
void text_printf(struct text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A formatted string in the arena. */
char *text_format(struct arena *a, const char *format, ...) __attribute__((format(printf, 2, 3)));
char *text_vformat(struct arena *a, const char *format, va_list args);

/* Move an array to larger memory: returns its new base and updates *ret_cap. Called by LIST_ADD. */
void *list_grow(struct arena *a, void *items, int count, int *ret_cap, size_t item_bytes);

/* Append `item` to list->items[list->count] of a struct with members items, count and cap. */
#define LIST_ADD(a, list, item)                                                                    \
    do {                                                                                           \
        if ((list)->count == (list)->cap)                                                          \
            (list)->items = list_grow((a), (list)->items, (list)->count, &(list)->cap,             \
                                      sizeof(*(list)->items));                                     \
        (list)->items[(list)->count++] = (item);                                                   \
    } while (0)

#endif
