/*
 * Edits for operations on global and spread pointers: subscripts, arithmetic, comparisons, casts,
 * and the three conversion functions.
 */
#include "splitc/sc1/expr.h"

#include <string.h>

/* The subscripts of a spread array, and the array itself (root). */
struct chain {
    struct expr *root;
    struct expr **nodes; /* [0] is applied first */
    int count;
};

static struct chain chain_of(struct unit *u, struct expr *e)
{
    struct chain chain = {.root = e};
    int i;

    while (chain.root->op == EX_INDEX && chain.root->kid[0]->type->kind == TYPE_SPREAD) {
        chain.root = chain.root->kid[0];
        chain.count++;
    }
    chain.nodes = arena_alloc(&u->arena, sizeof(*chain.nodes) * (size_t)(chain.count + 1));
    for (i = chain.count; i > 0; i--, e = e->kid[0])
        chain.nodes[i - 1] = e;
    return chain;
}

/* X[i][j] of X[v][w]::B becomes sc_sadd(X, ((long)(i) * (w) + (j)), sizeof(B)). */
static void lower_spread_index(struct unit *u, struct expr *e)
{
    struct chain chain = chain_of(u, e);
    struct type *type = chain.root->type;
    struct text rest = {.arena = &u->arena}, open = {.arena = &u->arena};
    int used = type->dims_used;

    for (int i = used + chain.count; i < type->dims->count; i++)
        text_printf(&rest, " * (%s)", type->dims->texts[i]);
    text_printf(&rest, ", %s)", lower_size(u, type->base));
    lower_wrap(u, e, "sc_sadd(", rest.data);
    text_puts(&open, ", ");
    for (int i = 1; i < chain.count; i++)
        text_puts(&open, "(");
    text_puts(&open, "(long)(");
    lower_value(u, chain.root, USE_VALUE);
    for (int i = 0; i < chain.count; i++) {
        struct expr *node = chain.nodes[i];

        edit_replace(u, node->op_token,
                     i == 0 ? open.data
                            : text_format(&u->arena, " * (%s) + (", type->dims->texts[used + i]));
        edit_replace(u, node->last, i == 0 ? ")" : "))");
        lower_value(u, node->kid[1], USE_VALUE);
    }
}

static const char *add_name(const struct type *pointer, bool reversed)
{
    if (pointer->reach == REACH_SPREAD)
        return reversed ? "sc_sadd_to(" : "sc_sadd(";
    return reversed ? "sc_gindex_to(" : "sc_gindex(";
}

void lower_index(struct unit *u, struct expr *e)
{
    struct type *left = expr_value_type(u, e->kid[0]), *right = expr_value_type(u, e->kid[1]);
    bool reversed = !type_is_wide(left);
    struct type *pointer = reversed ? right : left;

    if (e->kid[0]->type->kind == TYPE_SPREAD) {
        lower_spread_index(u, e);
        return;
    }
    lower_wrap(u, e, add_name(pointer, reversed),
               text_format(&u->arena, ", %s)", lower_size(u, pointer->base)));
    edit_replace(u, e->op_token, ", (");
    edit_replace(u, e->last, ")");
    lower_value(u, e->kid[0], USE_VALUE);
    lower_value(u, e->kid[1], USE_VALUE);
}

/* Lower == and != with NULL: all null pointers are equal, in any process. */
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

        lower_wrap(u, e, add_name(pointer, reversed),
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
        return; /* diagnosed */
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
