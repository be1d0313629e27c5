/*
 * Edits for expressions: values, conditions, conversions, reads from global space, and addresses of
 * objects in global space.
 *
 * A node first gets text around its tokens, and then its parts are lowered. So several texts at one
 * token nest correctly. The user's tokens keep their order, and so they keep their lines.
 */
#include "splitc/sc1/expr.h"

#include <string.h>

void lower_wrap(struct unit *u, const struct expr *e, const char *before, const char *after)
{
    edit_before(u, e->first, before);
    edit_after(u, e->last, after);
}

const char *lower_size(struct unit *u, struct type *type)
{
    return text_format(&u->arena, "sizeof(%s)", type_text(u, type));
}

const char *lower_add_name(const struct type *pointer, bool reversed)
{
    if (pointer->reach == REACH_SPREAD)
        return reversed ? "sc_sadd_to(" : "sc_sadd(";
    return reversed ? "sc_gindex_to(" : "sc_gindex(";
}

static bool is_bit_field(const struct expr *e)
{
    return (e->op == EX_MEMBER || e->op == EX_ARROW) && e->member && e->member->bit_field;
}

/* Put a call around `e` that reads an object of `type`. The caller lowers `e` to an address. */
static void wrap_read(struct unit *u, const struct expr *e, struct type *type)
{
    const char *suffix = type_suffix(type), *text = type_text(u, type);
    int n;

    if (suffix) {
        lower_wrap(u, e, text_format(&u->arena, "((%s)sc_read_%s(", text, suffix), "))");
        return;
    }
    n = ++u->made_up;
    lower_wrap(u, e,
               text_format(&u->arena, "(__extension__({ %s __sc_v%d; sc_read((void *)&__sc_v%d, ",
                           text, n, n),
               text_format(&u->arena, ", sizeof(__sc_v%d)); __sc_v%d; }))", n, n));
}

static void lower_read(struct unit *u, struct expr *e)
{
    if (e->op == EX_PAREN) {
        lower_read(u, e->kid[0]);
    } else if (e->type->kind == TYPE_ARRAY) {
        lower_address(u, e);
    } else if (e->type->kind == TYPE_FUNCTION) {
        diag_error(u, e->op_token, "a function cannot be called through a global pointer");
    } else if (is_bit_field(e)) {
        /* A bit-field has no address: read the whole struct, and use its bit-field. */
        if (e->op == EX_MEMBER) {
            lower_read(u, e->kid[0]);
        } else {
            wrap_read(u, e->kid[0], expr_value_type(u, e->kid[0])->base);
            edit_replace(u, e->op_token, ".");
            lower_value(u, e->kid[0], USE_VALUE);
        }
    } else {
        wrap_read(u, e, e->type);
        lower_address(u, e);
    }
}

static void lower_member_address(struct unit *u, struct expr *e)
{
    struct type *record =
        e->op == EX_MEMBER ? e->kid[0]->type : expr_value_type(u, e->kid[0])->base;
    const struct token *member = &u->tokens.items[e->last];

    lower_wrap(u, e, "sc_gadd(", ")");
    edit_replace(u, e->op_token, ", ");
    edit_replace(u, e->last,
                 text_format(&u->arena, "__builtin_offsetof(%s, %.*s)", type_text(u, record),
                             (int)member->len, member->text));
    if (e->op == EX_MEMBER)
        lower_address(u, e->kid[0]);
    else
        lower_value(u, e->kid[0], USE_VALUE);
}

/* A spread array (root) and the subscripts applied to it. */
struct chain {
    struct expr *root;
    struct expr **nodes; /* the subscripts; [0] is applied first */
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

/* If X is B X[v][w]::, X[i][j] becomes sc_sadd(X, ((long)(i) * (w) + (j)), sizeof(B)). */
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

/* Lower a subscript to the address of the element. The array is spread, or in global space. */
static void lower_index(struct unit *u, struct expr *e)
{
    struct type *left = expr_value_type(u, e->kid[0]), *right = expr_value_type(u, e->kid[1]);
    bool reversed = !type_is_wide(left);
    struct type *pointer = reversed ? right : left;

    if (e->kid[0]->type->kind == TYPE_SPREAD) {
        lower_spread_index(u, e);
        return;
    }
    lower_wrap(u, e, lower_add_name(pointer, reversed),
               text_format(&u->arena, ", %s)", lower_size(u, pointer->base)));
    edit_replace(u, e->op_token, ", (");
    edit_replace(u, e->last, ")");
    lower_value(u, e->kid[0], USE_VALUE);
    lower_value(u, e->kid[1], USE_VALUE);
}

void lower_address(struct unit *u, struct expr *e)
{
    switch (e->op) {
    case EX_PAREN:
        lower_address(u, e->kid[0]);
        break;
    case EX_UNARY: /* __extension__ */
        edit_delete(u, e->op_token, e->op_token);
        lower_address(u, e->kid[0]);
        break;
    case EX_DEREF:
        edit_delete(u, e->op_token, e->op_token);
        lower_value(u, e->kid[0], USE_VALUE);
        break;
    case EX_INDEX:
        lower_index(u, e);
        break;
    case EX_MEMBER:
    case EX_ARROW:
        lower_member_address(u, e);
        break;
    default:
        diag_error(u, e->first, "this is no object in global space");
    }
}

static void lower_identifier(struct unit *u, struct expr *e)
{
    if (!e->symbol || e->type->kind != TYPE_SPREAD)
        return;
    if (e->symbol->form == FORM_ARRAY)
        lower_wrap(u, e, "sc_base(", ")");
    if (e->symbol->stands_for)
        edit_replace(u, e->first, e->symbol->stands_for);
}

/* Lower the parts of a node that needs no edit itself. */
static void lower_kids(struct unit *u, struct expr *e)
{
    for (int i = 0; i < 3; i++)
        if (e->kid[i])
            lower_value(u, e->kid[i], USE_VALUE);
    for (int i = 0; i < e->arg_count; i++)
        lower_value(u, e->args[i], USE_VALUE);
}

void lower_value(struct unit *u, struct expr *e, enum lower_use use)
{
    if (e->global) {
        lower_read(u, e);
        return;
    }
    switch (e->op) {
    case EX_IDENT:
        lower_identifier(u, e);
        break;
    case EX_PAREN:
        lower_value(u, e->kid[0], use);
        break;
    case EX_INDEX:
        if (e->type->kind == TYPE_SPREAD)
            lower_index(u, e);
        else
            lower_kids(u, e);
        break;
    case EX_DEREF:
        if (e->type->kind == TYPE_SPREAD) /* X is a spread array: *X is the same pointer as X */
            edit_delete(u, e->op_token, e->op_token);
        lower_value(u, e->kid[0], USE_VALUE);
        break;
    case EX_CONSTANT:
    case EX_STRING:
    case EX_LITERAL:
    case EX_BLOCK:
    case EX_MEMBER:
    case EX_ARROW:
    case EX_OPAQUE:
        lower_kids(u, e);
        break;
    default:
        lower_operator(u, e, use);
    }
}

void lower_condition(struct unit *u, struct expr *e)
{
    if (type_is_wide(expr_value_type(u, e)))
        lower_wrap(u, e, "sc_true(", ")");
    lower_value(u, e, USE_VALUE);
}

static void replace_null(struct unit *u, struct expr *e, const char *text)
{
    edit_delete(u, e->first, e->last);
    edit_replace(u, e->first, text);
}

static void convert_to_wide(struct unit *u, struct expr *e, struct type *target)
{
    struct type *type = expr_value_type(u, e);

    if (expr_is_null(e)) {
        replace_null(u, e, "((sc_ptr){0, 0})");
        return;
    }
    if (type_is_wide(type)) {
        if (type->reach == REACH_GLOBAL && target->reach == REACH_SPREAD &&
            type->base->kind != TYPE_VOID)
            diag_warning(u, e->first,
                         "a spread pointer is made from a global pointer without a cast");
        else if (type->base->kind != TYPE_VOID && target->base->kind != TYPE_VOID &&
                 !type_same(type->base, target->base))
            diag_warning(u, e->first, "'%s' is converted to the incompatible type '%s'",
                         type_show(u, type), type_show(u, target));
    } else if (type->kind == TYPE_POINTER) {
        diag_warning(u, e->first,
                     "a global pointer is made from a local pointer without a cast; it will "
                     "point into this process");
        lower_wrap(u, e, "sc_here((void *)(", "))");
    } else if (type->kind != TYPE_UNKNOWN) {
        diag_error(u, e->first, "'%s' is made from '%s' without a cast", type_show(u, target),
                   type_show(u, type));
    }
    lower_value(u, e, USE_VALUE);
}

void lower_convert(struct unit *u, struct expr *e, struct type *target)
{
    struct type *type = expr_value_type(u, e);

    if (target->kind == TYPE_SPREAD)
        target = type_decayed(u, target);
    if (type_is_wide(target)) {
        convert_to_wide(u, e, target);
        return;
    }
    if (type_is_wide(type)) {
        if (target->kind == TYPE_BASIC && target->basic == BASIC_BOOL)
            lower_wrap(u, e, "sc_true(", ")");
        else if (target->kind == TYPE_POINTER)
            diag_error(u, e->first,
                       "a local pointer is made from '%s' without a cast; use tolocal() or a cast",
                       type_show(u, type));
        else if (target->kind != TYPE_UNKNOWN && target->kind != TYPE_VOID)
            diag_error(u, e->first, "'%s' is made from '%s' without a cast", type_show(u, target),
                       type_show(u, type));
    }
    lower_value(u, e, USE_VALUE);
}

void lower_constant(struct unit *u, struct expr *e, struct type *target, bool elided)
{
    struct expr *plain = e;

    if (!type_is_wide(target)) {
        lower_convert(u, e, target);
        return;
    }
    while (plain->op == EX_PAREN || (plain->op == EX_CAST && type_is_wide(plain->type)))
        plain = plain->kid[0];
    if (expr_is_null(e)) {
        replace_null(u, e, elided ? "0, 0" : "{0, 0}");
    } else if (plain->op == EX_IDENT && plain->symbol && plain->type->kind == TYPE_SPREAD &&
               plain->symbol->form == FORM_ARRAY) {
        const struct token *name = &u->tokens.items[plain->first];

        replace_null(u, e,
                     text_format(&u->arena, elided ? "0, (void *)%.*s" : "{0, (void *)%.*s}",
                                 (int)name->len, name->text));
    } else {
        diag_error(u, e->first,
                   "a global pointer of static storage can only be initialised with NULL or a "
                   "spread array of constant size");
    }
}
