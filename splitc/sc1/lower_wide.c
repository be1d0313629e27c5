/*
 * Edits for operations on wide pointers: arithmetic, comparisons, casts, and calls of tolocal,
 * toglobal and toproc.
 */
#include "splitc/sc1/expr.h"

#include <string.h>

/* Lower == and != with NULL: only the address counts, not the process number. */
static void lower_null_test(struct unit *u, struct expr *e)
{
    struct expr *left = e->kid[0], *right = e->kid[1];
    struct expr *null = expr_is_null(right) ? right : left;
    struct expr *other = null == right ? left : right;

    edit_delete(u, null->first, null->last);
    edit_delete(u, e->op_token, e->op_token);
    lower_wrap(u, other, e->op_id == T_EQ ? "(!sc_true(" : "(sc_true(", "))");
    lower_value(u, other, USE_VALUE);
}

static void lower_comparison(struct unit *u, struct expr *e)
{
    struct type *left = expr_value_type(u, e->kid[0]), *right = expr_value_type(u, e->kid[1]);
    bool equality = e->op_id == T_EQ || e->op_id == T_NE;

    if (equality && (expr_is_null(e->kid[0]) || expr_is_null(e->kid[1]))) {
        lower_null_test(u, e);
        return;
    }
    if (equality) {
        lower_wrap(u, e, e->op_id == T_EQ ? "sc_eq(" : "(!sc_eq(", e->op_id == T_EQ ? ")" : "))");
    } else {
        const struct token *op = &u->tokens.items[e->op_token];

        lower_wrap(u, e, "(sc_cmp(", text_format(&u->arena, ") %.*s 0)", (int)op->len, op->text));
    }
    edit_replace(u, e->op_token, ", ");
    lower_convert(u, e->kid[0], type_is_wide(left) ? left : right);
    lower_convert(u, e->kid[1], type_is_wide(right) ? right : left);
}

static void lower_sum(struct unit *u, struct expr *e)
{
    struct type *left = expr_value_type(u, e->kid[0]), *right = expr_value_type(u, e->kid[1]);
    bool reversed = !type_is_wide(left);
    struct type *pointer = reversed ? right : left;
    const char *size = lower_size(u, pointer->base);

    if (type_is_wide(left) && type_is_wide(right)) {
        lower_wrap(u, e, left->reach == REACH_SPREAD ? "sc_sdiff(" : "sc_gdiff(",
                   text_format(&u->arena, ", %s)", size));
        edit_replace(u, e->op_token, ", ");
    } else {
        bool minus = e->op_id == '-';

        lower_wrap(u, e, lower_add_name(pointer, reversed),
                   text_format(&u->arena, "%s, %s)", minus ? ")" : "", size));
        edit_replace(u, e->op_token, minus ? ", -(long)(" : ", ");
    }
    lower_value(u, e->kid[0], USE_VALUE);
    lower_value(u, e->kid[1], USE_VALUE);
}

void lower_binary(struct unit *u, struct expr *e)
{
    bool wide =
        type_is_wide(expr_value_type(u, e->kid[0])) || type_is_wide(expr_value_type(u, e->kid[1]));

    if (e->op_id == T_ANDAND || e->op_id == T_OROR) {
        lower_condition(u, e->kid[0]);
        lower_condition(u, e->kid[1]);
    } else if (wide && (e->op_id == '+' || e->op_id == '-')) {
        lower_sum(u, e);
    } else if (wide && e->type->kind == TYPE_BASIC) {
        lower_comparison(u, e);
    } else {
        lower_value(u, e->kid[0], USE_VALUE);
        lower_value(u, e->kid[1], USE_VALUE);
    }
}

void lower_cast(struct unit *u, struct expr *e)
{
    struct expr *kid = e->kid[0];
    struct type *type = expr_value_type(u, kid);

    if (type_is_wide(e->type)) {
        if (expr_is_null(e)) {
            edit_delete(u, e->first, e->last);
            edit_replace(u, e->first, "((sc_ptr){0, 0})");
            return;
        }
        edit_delete(u, e->first, e->op_token);
        if (!type_is_wide(type))
            lower_wrap(u, kid,
                       type->kind == TYPE_POINTER ? "sc_here((void *)(" : "sc_here((void *)(long)(",
                       "))");
    } else if (type_is_wide(type) && e->type->kind != TYPE_VOID) {
        bool truth = e->type->kind == TYPE_BASIC && e->type->basic == BASIC_BOOL;
        bool integer = type_is_integer(e->type) && !truth;

        lower_wrap(u, kid, truth ? "sc_true(" : integer ? "(long)sc_local(" : "sc_local(", ")");
    }
    lower_value(u, kid, e->type->kind == TYPE_VOID ? USE_NOTHING : USE_VALUE);
}

void lower_wide_call(struct unit *u, struct expr *e)
{
    const struct token *name = &u->tokens.items[e->first];
    char which = name->text[2];
    struct expr *last;

    if (e->arg_count == 0 || e->arg_count > 2)
        return; /* exprtype.c has printed the error */
    last = e->args[e->arg_count - 1];
    if (which == 'l') {
        bool wide = type_is_wide(expr_value_type(u, last));

        lower_wrap(u, e, text_format(&u->arena, "((%s)", type_text(u, e->type)), ")");
        edit_replace(u, e->first, wide ? "sc_local" : "");
    } else if (which == 'p') {
        edit_replace(u, e->first, "sc_proc");
    } else {
        edit_replace(u, e->first, "sc_global");
        lower_wrap(u, last, "(void *)(", ")");
    }
    for (int i = 0; i < e->arg_count; i++)
        lower_value(u, e->args[i], USE_VALUE);
}
