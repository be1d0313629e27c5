/*
 * The arena and the texts of a translation. All memory of a translation is allocated in this file.
 */
#include "splitc/sc1/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES (256 * 1024)

struct arena_block {
    struct arena_block *next;
    size_t size_bytes;                          /* size of data */
    _Alignas(max_align_t) unsigned char data[]; /* zeroed */
};

void *arena_alloc(struct arena *a, size_t bytes)
{
    size_t align = _Alignof(max_align_t);
    size_t want = (bytes + align - 1) & ~(align - 1);
    struct arena_block *block = a->blocks;
    void *memory;

    if (!block || block->size_bytes - a->used_bytes < want) {
        size_t size = want > BLOCK_BYTES ? want : BLOCK_BYTES;

        if (want < bytes || size > ARENA_BYTES_MAX || a->total_bytes + size > ARENA_BYTES_MAX)
            longjmp(*a->exhausted, 1);
        block = calloc(1, sizeof(*block) + size);
        if (!block)
            longjmp(*a->exhausted, 1);
        block->size_bytes = size;
        block->next = a->blocks;
        a->blocks = block;
        a->used_bytes = 0;
        a->total_bytes += size;
    }
    memory = block->data + a->used_bytes;
    a->used_bytes += want;
    return memory;
}

void arena_free(struct arena *a)
{
    while (a->blocks) {
        struct arena_block *next = a->blocks->next;

        free(a->blocks);
        a->blocks = next;
    }
    a->used_bytes = 0;
    a->total_bytes = 0;
}

void text_add(struct text *t, const char *bytes, size_t len)
{
    if (t->len + len + 1 > t->cap) {
        size_t cap = (t->len + len + 1) * 2;
        char *data = arena_alloc(t->arena, cap < 64 ? 64 : cap);

        if (t->len)
            memcpy(data, t->data, t->len);
        t->data = data;
        t->cap = cap < 64 ? 64 : cap;
    }
    memcpy(t->data + t->len, bytes, len);
    t->len += len;
    t->data[t->len] = '\0';
}

void text_puts(struct text *t, const char *string)
{
    text_add(t, string, strlen(string));
}

char *text_vformat(struct arena *a, const char *format, va_list args)
{
    va_list again;
    char *string;
    int len;

    va_copy(again, args);
    len = vsnprintf(NULL, 0, format, again);
    va_end(again);
    string = arena_alloc(a, (size_t)len + 1);
    vsnprintf(string, (size_t)len + 1, format, args);
    return string;
}

char *text_format(struct arena *a, const char *format, ...)
{
    va_list args;
    char *string;

    va_start(args, format);
    string = text_vformat(a, format, args);
    va_end(args);
    return string;
}

void text_printf(struct text *t, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    text_puts(t, text_vformat(t->arena, format, args));
    va_end(args);
}

void *list_grow(struct arena *a, void *items, int count, int *ret_cap, size_t item_bytes)
{
    int cap = *ret_cap ? *ret_cap * 2 : 4;
    void *more = arena_alloc(a, (size_t)cap * item_bytes);

    if (count)
        memcpy(more, items, (size_t)count * item_bytes);
    *ret_cap = cap;
    return more;
}
