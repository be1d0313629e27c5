/*
 * Initialisers. If the object contains wide pointers, sc1 finds the member or element that each
 * expression initialises, by the rules of C, also where the source leaves out braces. If the object
 * contains none, sc1 only lowers the expressions.
 */
#include "splitc/sc1/parse.h"

static bool is_aggregate(const struct type *type)
{
    return type->kind == TYPE_ARRAY || (type->kind == TYPE_RECORD && type->tag->complete);
}

/* Lower an expression of an initialiser. elided: see lower_constant. */
static void convert(struct unit *u, struct expr *e, struct type *type, bool constant, bool elided)
{
    if (constant)
        lower_constant(u, e, type, elided);
    else
        lower_convert(u, e, type);
}

static struct type *braced(struct unit *u, struct type *type, bool constant);

/* Parse designators (.name, [n], [n ... m], name:). Returns the type of the part; NULL: none. */
static struct type *designators(struct unit *u, struct type *type, struct member **ret_member)
{
    bool any = false;

    *ret_member = NULL;
    if (unit_is(u, T_IDENT) && unit_peek(u, 1)->id == ':') {
        *ret_member = type_member(type, unit_token(u)->name);
        unit_next(u);
        unit_next(u);
        return *ret_member ? (*ret_member)->type : type_new(u, TYPE_UNKNOWN, NULL);
    }
    while (unit_is(u, '.') || unit_is(u, '[')) {
        if (unit_skip_if(u, '.')) {
            struct member *member = type_member(type, unit_token(u)->name);

            unit_expect(u, T_IDENT);
            if (!any)
                *ret_member = member;
            type = member ? member->type : type_new(u, TYPE_UNKNOWN, NULL);
        } else {
            unit_next(u);
            lower_value(u, expr_parse_conditional(u), USE_VALUE);
            if (unit_skip_if(u, T_ELLIPSIS))
                lower_value(u, expr_parse_conditional(u), USE_VALUE);
            unit_expect(u, ']');
            type = type->kind == TYPE_ARRAY ? type->base : type_new(u, TYPE_UNKNOWN, NULL);
        }
        any = true;
    }
    if (!any)
        return NULL;
    unit_skip_if(u, '='); /* in old GNU C the "=" may be missing */
    return type;
}

/* Skip the comma after a value. Returns true if another value follows in the same braces. */
static bool another(struct unit *u)
{
    if (!unit_skip_if(u, ','))
        return false;
    return !unit_is(u, '}');
}

/*
 * Parse the values of an object without braces of its own. `pending` is the first value, already
 * parsed. Returns true if another value follows: it belongs to the surrounding object.
 */
static bool fill(struct unit *u, struct type *type, struct expr *pending, bool constant,
                 bool elided)
{
    struct member *member = type->kind == TYPE_RECORD ? type->tag->members : NULL;
    bool is_union = type->kind == TYPE_RECORD && type->tag->keyword == K_UNION;
    bool more = true;

    if (!is_aggregate(type) || pending->op == EX_STRING || type_same(pending->type, type)) {
        convert(u, pending, type, constant, elided);
        return another(u);
    }
    for (;;) {
        struct type *part = type->kind == TYPE_ARRAY ? type->base : member ? member->type : NULL;

        if (!part) {
            if (pending)
                convert(u, pending, type_new(u, TYPE_UNKNOWN, NULL), constant, true);
            return pending ? another(u) : more;
        }
        if (pending) {
            more = fill(u, part, pending, constant, true);
            pending = NULL;
        } else if (unit_is(u, '{')) {
            braced(u, part, constant);
            more = another(u);
        } else {
            more = fill(u, part, expr_parse_assignment(u), constant, true);
        }
        if (member)
            member = is_union ? NULL : member->next;
        /* An array takes all remaining values: sc1 does not know its number of elements. */
        if (!more || (type->kind == TYPE_RECORD && !member) || unit_is(u, '.') || unit_is(u, '['))
            return more;
    }
}

/* Parse an initialiser in braces, from "{" to "}", for an aggregate or a scalar. */
static struct type *braced(struct unit *u, struct type *type, bool constant)
{
    struct member *member = type->kind == TYPE_RECORD ? type->tag->members : NULL;
    int brace = unit_expect(u, '{'), last;
    bool scalar = !is_aggregate(type) && type_is_wide(type);

    unit_deeper(u);
    while (!unit_is(u, '}')) {
        struct member *named = NULL;
        struct type *part = designators(u, type, &named);
        bool more;

        if (named)
            member = named;
        if (!part)
            part = scalar                     ? type
                   : type->kind == TYPE_ARRAY ? type->base
                   : member                   ? member->type
                                              : NULL;
        if (!part)
            part = type_new(u, TYPE_UNKNOWN, NULL);
        if (unit_is(u, '{')) {
            braced(u, part, constant);
            more = another(u);
        } else {
            more = fill(u, part, expr_parse_assignment(u), constant, false);
        }
        member = member ? member->next : NULL;
        if (!more)
            break;
    }
    last = unit_expect(u, '}');
    if (scalar) {
        edit_replace(u, brace, "");
        edit_delete(u, last, last);
    }
    u->nesting--;
    return type;
}

struct type *init_parse(struct unit *u, struct type *type, bool is_constant)
{
    struct expr *e;

    if (unit_is(u, '{')) {
        braced(u, type_holds_wide(type) ? type : type_new(u, TYPE_UNKNOWN, NULL), is_constant);
        return NULL;
    }
    e = expr_parse_assignment(u);
    convert(u, e, type, is_constant, false);
    return expr_value_type(u, e);
}
