/*
 * Edits for operators: calls, ?:, sizeof and others. lower_assign.c lowers assignments, and
 * lower_wide.c lowers operations on wide pointers.
 */
#include "splitc/sc1/expr.h"

static void lower_call(struct unit *u, struct expr *e)
{
    struct type *type = expr_value_type(u, e->kid[0]);
    struct type *function = type->kind == TYPE_POINTER ? type->base : NULL;

    if (function && (function->kind != TYPE_FUNCTION || !function->prototyped))
        function = NULL;
    lower_value(u, e->kid[0], USE_VALUE);
    for (int i = 0; i < e->arg_count; i++) {
        if (function && i < function->param_count)
            lower_convert(u, e->args[i], function->params[i]);
        else
            lower_value(u, e->args[i], USE_VALUE);
    }
}

static void lower_conditional(struct unit *u, struct expr *e, enum lower_use use)
{
    bool wide = type_is_wide(e->type);

    if (wide && !e->kid[1])
        diag_error(u, e->op_token,
                   "'?:' without its middle is not supported for global pointers; "
                   "write the condition twice");
    lower_condition(u, e->kid[0]);
    for (int i = 1; i < 3; i++) {
        if (!e->kid[i])
            continue;
        if (wide)
            lower_convert(u, e->kid[i], e->type);
        else
            lower_value(u, e->kid[i], use);
    }
}

/* Lower sizeof. If the operand is in global space, the operand's type replaces it. */
static void lower_sizeof(struct unit *u, struct expr *e)
{
    struct expr *kid = e->kid[0];

    if (!kid)
        return;
    if (kid->global) {
        const char *text = text_format(&u->arena, "(%s)", type_text(u, kid->type));

        edit_delete(u, kid->first, kid->last);
        edit_replace(u, kid->first, text);
    } else {
        lower_value(u, kid, USE_VALUE);
    }
}

void lower_operator(struct unit *u, struct expr *e, enum lower_use use)
{
    switch (e->op) {
    case EX_CALL:
        lower_call(u, e);
        break;
    case EX_WIDE_CALL:
        lower_wide_call(u, e);
        break;
    case EX_ADDRESS:
        if (e->kid[0]->global) {
            edit_delete(u, e->op_token, e->op_token);
            lower_address(u, e->kid[0]);
        } else {
            lower_value(u, e->kid[0], USE_VALUE);
        }
        break;
    case EX_PREFIX:
    case EX_POSTFIX:
        lower_step(u, e, use);
        break;
    case EX_UNARY:
        if (e->op_id == '!')
            lower_condition(u, e->kid[0]);
        else
            lower_value(u, e->kid[0], use);
        break;
    case EX_SIZEOF:
        lower_sizeof(u, e);
        break;
    case EX_CAST:
        lower_cast(u, e);
        break;
    case EX_BINARY:
        lower_binary(u, e);
        break;
    case EX_CONDITION:
        lower_conditional(u, e, use);
        break;
    case EX_ASSIGN:
        lower_assign(u, e, use);
        break;
    case EX_SPLIT:
        lower_split(u, e);
        break;
    case EX_COMMA:
        lower_value(u, e->kid[0], USE_NOTHING);
        lower_value(u, e->kid[1], use);
        break;
    default: /* lower_value handles the other kinds of nodes */
        break;
    }
}
