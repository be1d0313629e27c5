/*
 * Declaration specifiers: storage classes, qualifiers, type specifiers, attributes, in any order.
 * typespec.c parses type specifiers other than words such as int or unsigned.
 */
#include "splitc/sc1/parse.h"

#include <string.h>

bool specs_attributes(struct unit *u)
{
    static const char *const changing[] = {"mode", "__mode__", "vector_size", "__vector_size__"};
    bool changes = false;

    while (unit_is(u, K_ATTRIBUTE)) {
        int first = unit_next(u);

        if (!unit_is(u, '('))
            diag_syntax(u, "'('");
        unit_skip_group(u);
        for (int i = first; i < u->at; i++) {
            const struct token *token = &u->tokens.items[i];

            for (size_t k = 0; k < sizeof(changing) / sizeof(changing[0]); k++)
                if (token->id == T_IDENT && strcmp(token->name->text, changing[k]) == 0)
                    changes = true;
        }
    }
    return changes;
}

static bool is_type_keyword(int id)
{
    switch (id) {
    case K_VOID:
    case K_BOOL:
    case K_CHAR:
    case K_SHORT:
    case K_INT:
    case K_LONG:
    case K_FLOAT:
    case K_DOUBLE:
    case K_SIGNED:
    case K_UNSIGNED:
    case K_COMPLEX:
    case K_INT128:
    case K_FLOAT_N:
    case K_STRUCT:
    case K_UNION:
    case K_ENUM:
    case K_TYPEOF:
    case K_AUTO_TYPE:
    case K_ATOMIC:
    case K_CONST:
    case K_VOLATILE:
    case K_RESTRICT:
        return true;
    default:
        return false;
    }
}

bool specs_type_name_starts(struct unit *u, const struct token *token)
{
    while (token->id == K_EXTENSION)
        token++;
    return is_type_keyword(token->id) || token->id == K_ATTRIBUTE || scope_is_typedef(u, token);
}

bool specs_start(struct unit *u)
{
    const struct token *token = unit_token(u);

    while (token->id == K_EXTENSION)
        token++;
    switch (token->id) {
    case K_TYPEDEF:
    case K_EXTERN:
    case K_STATIC:
    case K_AUTO:
    case K_REGISTER:
    case K_INLINE:
    case K_NORETURN:
    case K_THREAD:
    case K_ALIGNAS:
        return true;
    case K_ATTRIBUTE:
        /* This can also be the statement "__attribute__((fallthrough));": callers check it. */
        return true;
    case T_IDENT:
        return scope_is_typedef(u, token) && token[1].id != ':';
    default:
        return is_type_keyword(token->id);
    }
}

/* For each word of a type, such as int or unsigned: how many times the word occurs. */
struct words {
    int chars, shorts, ints, longs, floats, doubles, signs, unsigns, bools, voids, int128s;
    bool other; /* _Complex or a word such as _Float32 occurs */
};

static bool count_word(struct words *w, int id)
{
    switch (id) {
    case K_VOID:
        w->voids++;
        return true;
    case K_BOOL:
        w->bools++;
        return true;
    case K_CHAR:
        w->chars++;
        return true;
    case K_SHORT:
        w->shorts++;
        return true;
    case K_INT:
        w->ints++;
        return true;
    case K_LONG:
        w->longs++;
        return true;
    case K_FLOAT:
        w->floats++;
        return true;
    case K_DOUBLE:
        w->doubles++;
        return true;
    case K_SIGNED:
        w->signs++;
        return true;
    case K_UNSIGNED:
        w->unsigns++;
        return true;
    case K_INT128:
        w->int128s++;
        return true;
    case K_COMPLEX:
    case K_FLOAT_N:
        w->other = true;
        return true;
    default:
        return false;
    }
}

static enum basic basic_of(const struct words *w)
{
    int u = w->unsigns != 0;

    if (w->other)
        return BASIC_OTHER;
    if (w->bools)
        return BASIC_BOOL;
    if (w->chars)
        return u ? BASIC_UCHAR : w->signs ? BASIC_SCHAR : BASIC_CHAR;
    if (w->floats)
        return BASIC_FLOAT;
    if (w->doubles)
        return w->longs ? BASIC_LDOUBLE : BASIC_DOUBLE;
    if (w->shorts)
        return (enum basic)(BASIC_SHORT + u);
    if (w->int128s)
        return (enum basic)(BASIC_INT128 + u);
    if (w->longs)
        return (enum basic)((w->longs > 1 ? BASIC_LLONG : BASIC_LONG) + u);
    return (enum basic)(BASIC_INT + u);
}

static struct type *words_type(struct unit *u, const struct words *w, struct text *spelling)
{
    struct type *type;

    if (w->voids)
        return type_new(u, TYPE_VOID, NULL);
    type = type_basic(u, basic_of(w));
    if (type->basic == BASIC_OTHER)
        type->text = spelling->data;
    return type;
}

static void add_part(struct unit *u, struct specs *specs, enum spec_kind kind, int first)
{
    struct spec_part part = {kind, first, u->at - 1};

    LIST_ADD(&u->arena, &specs->parts, part);
}

/* Parse a storage class, an attribute or a similar specifier. Returns false if there is none. */
static bool parse_storage(struct unit *u, struct specs *specs)
{
    int first = u->at;

    switch (unit_token(u)->id) {
    case K_TYPEDEF:
        specs->is_typedef = true;
        break;
    case K_EXTERN:
        specs->is_extern = true;
        break;
    case K_STATIC:
        specs->is_static = true;
        break;
    case K_REGISTER:
        specs->is_register = true;
        unit_next(u);
        add_part(u, specs, SPEC_REGISTER, first);
        return true;
    case K_AUTO:
    case K_INLINE:
    case K_NORETURN:
    case K_THREAD:
    case K_EXTENSION:
        break;
    case K_ALIGNAS:
        unit_next(u);
        unit_skip_group(u);
        add_part(u, specs, SPEC_STORAGE, first);
        return true;
    case K_ATTRIBUTE:
        specs->opaque |= specs_attributes(u);
        add_part(u, specs, SPEC_STORAGE, first);
        return true;
    default:
        return false;
    }
    unit_next(u);
    add_part(u, specs, SPEC_STORAGE, first);
    return true;
}

static unsigned qualifier(int id)
{
    return id == K_CONST      ? QUAL_CONST
           : id == K_VOLATILE ? QUAL_VOLATILE
           : id == K_RESTRICT ? QUAL_RESTRICT
           : id == K_ATOMIC   ? QUAL_ATOMIC
                              : 0;
}

void specs_parse(struct unit *u, struct specs *specs)
{
    struct words words = {0};
    struct text spelling = {.arena = &u->arena};
    struct type *type = NULL;
    bool any_word = false;
    unsigned quals = 0;

    memset(specs, 0, sizeof(*specs));
    specs->first = u->at;
    for (;;) {
        int first = u->at, id = unit_token(u)->id;
        struct type *whole;

        if (parse_storage(u, specs))
            continue;
        if (id == K_ATOMIC) {
            whole = typespec_atomic(u);
            type = whole ? whole : type;
            quals |= QUAL_ATOMIC;
        } else if (qualifier(id)) {
            quals |= qualifier(id);
            unit_next(u);
        } else if (count_word(&words, id)) {
            any_word = true;
            text_add(&spelling, unit_token(u)->text, unit_token(u)->len);
            text_puts(&spelling, " ");
            unit_next(u);
        } else {
            whole = typespec_parse(u, specs, type || any_word);
            if (!whole)
                break;
            type = whole;
        }
        add_part(u, specs, SPEC_TYPE, first);
    }
    specs->last = u->at - 1;
    if (!type)
        type = words_type(u, &words, &spelling);
    specs->base = type_qualified(u, type, quals);
}
