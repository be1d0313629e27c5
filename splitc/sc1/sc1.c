/* One translation, from input to output. */
#include "splitc/sc1/unit.h"
#include "splitc/sc1/parse.h"

#include <string.h>

/* Parse the whole input. After a syntax error, go on at the next declaration of file scope. */
static void parse(struct unit *u)
{
    static const char *const builtin_types[] = {"__int128_t", "__uint128_t", "__builtin_va_list"};
    jmp_buf recover;

    scope_enter(u);
    for (size_t i = 0; i < sizeof(builtin_types) / sizeof(builtin_types[0]); i++) {
        struct type *type = type_new(u, TYPE_BASIC, NULL);

        type->basic = i == 0 ? BASIC_INT128 : i == 1 ? BASIC_UINT128 : BASIC_OTHER;
        type->text = builtin_types[i];
        scope_declare(u, lex_name(u, builtin_types[i], strlen(builtin_types[i])), SYM_TYPEDEF,
                      type);
    }
    u->recover = &recover;
    if (setjmp(recover)) {
        while (u->scope->outer)
            scope_leave(u);
        u->mark = NULL;
        u->function = NULL;
        u->nesting = 0;
        u->colon_taken = false;
        memset(&u->companions, 0, sizeof(u->companions));
        u->companions.arena = &u->arena;
        decl_recover(u, u->external);
    }
    while (!unit_is(u, T_EOF)) {
        u->external = u->at;
        decl_external(u);
    }
}

int sc1_translate(const char *input, size_t len, FILE *out, FILE *messages, unsigned options)
{
    struct unit u = {.input = input, .input_len = len, .messages = messages};
    jmp_buf give_up, exhausted;
    volatile int result = 1; /* volatile, so that longjmp does not lose its value */

    u.options = options;
    u.give_up = &give_up;
    u.recover = &give_up;
    u.arena.exhausted = &exhausted;
    u.companions.arena = &u.arena;
    if (setjmp(exhausted)) {
        fprintf(messages, "sc1: error: out of memory (the limit is %llu MB)\n",
                (unsigned long long)(ARENA_BYTES_MAX >> 20));
    } else if (!setjmp(give_up)) {
        lex(&u);
        parse(&u);
        if (u.errors == 0) {
            emit(&u, out);
            result = 0;
        }
    }
    arena_free(&u.arena);
    return result;
}
