/* Constructs, compares and classifies types. typetext.c makes the text of types. */
#include "splitc/sc1/unit.h"

#include <string.h>

struct type *type_new(struct unit *u, enum type_kind kind, struct type *base)
{
    struct type *type = arena_alloc(&u->arena, sizeof(*type));

    type->kind = kind;
    type->base = base;
    type->depth = base ? base->depth + 1 : 0;
    if (type->depth > TYPE_DEPTH_MAX)
        diag_limit(u, u->at, "this type is too complex for the Split-C translator");
    return type;
}

struct type *type_basic(struct unit *u, enum basic basic)
{
    struct type *type = type_new(u, TYPE_BASIC, NULL);

    type->basic = basic;
    return type;
}

struct type *type_pointer(struct unit *u, struct type *base, enum reach reach)
{
    struct type *type = type_new(u, TYPE_POINTER, base);

    type->reach = reach;
    return type;
}

static struct type *copy(struct unit *u, const struct type *type)
{
    struct type *clone = arena_alloc(&u->arena, sizeof(*clone));

    *clone = *type;
    return clone;
}

struct type *type_qualified(struct unit *u, struct type *type, unsigned quals)
{
    struct type *clone;

    if ((type->quals | quals) == type->quals)
        return type;
    clone = copy(u, type);
    /* Qualifiers of an array apply to its elements. */
    if (type->kind == TYPE_ARRAY && !type->alias)
        clone->base = type_qualified(u, type->base, quals);
    else
        clone->quals |= quals;
    return clone;
}

struct type *type_plain(struct unit *u, struct type *type)
{
    struct type *clone;

    if (!type->quals)
        return type;
    clone = copy(u, type);
    clone->quals = 0;
    return clone;
}

bool type_is_wide(const struct type *type)
{
    return (type->kind == TYPE_POINTER && type->reach != REACH_LOCAL) || type->kind == TYPE_SPREAD;
}

bool type_is_integer(const struct type *type)
{
    return type->kind == TYPE_ENUM || (type->kind == TYPE_BASIC && type->basic <= BASIC_UINT128);
}

bool type_is_number(const struct type *type)
{
    return type->kind == TYPE_ENUM || type->kind == TYPE_BASIC;
}

bool type_holds_wide(const struct type *type)
{
    while (type->kind == TYPE_ARRAY)
        type = type->base;
    if (type->kind == TYPE_RECORD)
        return type->tag->has_global;
    return type_is_wide(type);
}

struct type *type_decayed(struct unit *u, struct type *type)
{
    switch (type->kind) {
    case TYPE_ARRAY:
        return type_pointer(u, type->base, REACH_LOCAL);
    case TYPE_FUNCTION:
        return type_pointer(u, type, REACH_LOCAL);
    case TYPE_SPREAD:
        return type_pointer(u, type->base, REACH_SPREAD);
    case TYPE_UNKNOWN:
    case TYPE_VOID:
    case TYPE_BASIC:
    case TYPE_ENUM:
    case TYPE_RECORD:
    case TYPE_POINTER:
        break;
    }
    return type;
}

bool type_same(const struct type *a, const struct type *b)
{
    for (;;) {
        if (a == b || a->kind == TYPE_UNKNOWN || b->kind == TYPE_UNKNOWN)
            return true;
        /* gcc stores an enum as int or unsigned int, so an enum counts as the same type as both. */
        if (a->kind == TYPE_ENUM || b->kind == TYPE_ENUM) {
            const struct type *other = a->kind == TYPE_ENUM ? b : a;

            return other->kind == TYPE_ENUM ||
                   (other->kind == TYPE_BASIC &&
                    (other->basic == BASIC_INT || other->basic == BASIC_UINT));
        }
        if (a->kind != b->kind)
            return false;
        if (a->kind == TYPE_BASIC)
            return a->basic == b->basic &&
                   (a->basic != BASIC_OTHER || strcmp(a->text, b->text) == 0);
        if (a->kind == TYPE_VOID)
            return true;
        if (a->kind == TYPE_RECORD)
            return a->tag == b->tag;
        if (a->kind == TYPE_POINTER && a->reach != b->reach)
            return false;
        a = a->base;
        b = b->base;
    }
}

const char *type_suffix(const struct type *type)
{
    if (type->kind == TYPE_POINTER && type->reach == REACH_LOCAL)
        return "8";
    if (type->kind != TYPE_BASIC)
        return NULL;
    switch (type->basic) {
    case BASIC_BOOL:
    case BASIC_CHAR:
    case BASIC_SCHAR:
    case BASIC_UCHAR:
        return "1";
    case BASIC_SHORT:
    case BASIC_USHORT:
        return "2";
    case BASIC_INT:
    case BASIC_UINT:
        return "4";
    case BASIC_LONG:
    case BASIC_ULONG:
    case BASIC_LLONG:
    case BASIC_ULLONG:
        return "8";
    case BASIC_FLOAT:
        return "f";
    case BASIC_DOUBLE:
        return "d";
    case BASIC_INT128:
    case BASIC_UINT128:
    case BASIC_LDOUBLE:
    case BASIC_OTHER:
        break;
    }
    return NULL;
}

/* NESTING_MAX also limits the depth of this recursion. */
struct member *type_member(const struct type *record, const struct name *name)
{
    if (record->kind != TYPE_RECORD)
        return NULL;
    for (struct member *m = record->tag->members; m; m = m->next) {
        if (m->name == name)
            return m;
        if (!m->name && m->type->kind == TYPE_RECORD && m->type->tag != record->tag) {
            struct member *inner = type_member(m->type, name);

            if (inner)
                return inner;
        }
    }
    return NULL;
}
