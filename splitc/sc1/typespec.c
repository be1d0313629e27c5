/*
 * Type specifiers other than words such as int or unsigned: structs, unions and enums, typeof,
 * typedef names, and _Atomic(type). Most of them contain declarations, types or expressions.
 */
#include "splitc/sc1/parse.h"

/* Parse typeof(expression) or typeof(type). */
static struct type *parse_typeof(struct unit *u)
{
    int first = unit_next(u), last;
    struct type *type;

    unit_expect(u, '(');
    if (specs_type_name_starts(u, unit_token(u))) {
        type = declarator_type_name(u);
        unit_expect(u, ')');
    } else {
        struct expr *e = expr_parse(u);

        type = e->type;
        unit_expect(u, ')');
        if (e->global || type->kind == TYPE_SPREAD) {
            const char *text = type_text(u, type);

            edit_delete(u, e->first, e->last);
            edit_replace(u, e->first, text);
            type = type->kind == TYPE_SPREAD ? type_decayed(u, type) : type;
        } else {
            lower_value(u, e, USE_VALUE);
        }
    }
    last = u->at - 1;
    if (type->kind == TYPE_UNKNOWN && !type->text) {
        type = type_new(u, TYPE_UNKNOWN, NULL);
        type->text = edit_text(u, first, last);
    }
    return type;
}

struct type *typespec_atomic(struct unit *u)
{
    struct type *type;

    unit_next(u);
    if (!unit_skip_if(u, '('))
        return NULL;
    type = declarator_type_name(u);
    unit_expect(u, ')');
    return type;
}

struct type *typespec_parse(struct unit *u, struct specs *specs, bool have_type)
{
    const struct token *token = unit_token(u);
    struct type *type;

    switch (token->id) {
    case K_STRUCT:
    case K_UNION:
    case K_ENUM: {
        bool body;

        type = record_parse(u, &body);
        specs->has_body |= body;
        return type;
    }
    case K_TYPEOF:
        return parse_typeof(u);
    case K_AUTO_TYPE:
        unit_next(u);
        specs->is_auto_type = true;
        type = type_new(u, TYPE_UNKNOWN, NULL);
        type->text = "__auto_type";
        return type;
    case T_IDENT:
        if (have_type || !scope_is_typedef(u, token))
            return NULL;
        type = arena_alloc(&u->arena, sizeof(*type));
        *type = *token->name->symbol->type;
        type->definition = token->name->symbol;
        unit_next(u);
        return type;
    default:
        return NULL;
    }
}
