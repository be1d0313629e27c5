/*
 * Edits for assignments, ++ and --, := and :-, in which an object in global space or a wide pointer
 * occurs.
 *
 * An operator that reads and writes an object becomes a statement expression, in which a variable
 * has the address. The variables have numbers, so that nested expressions use different names.
 */
#include "splitc/sc1/expr.h"

/* The binary operator of an update: "+" for += and ++, "-" for -= and --, "*" for *=. */
static const char *operator_text(struct unit *u, const struct expr *e)
{
    const struct token *op = &u->tokens.items[e->op_token];
    int len = e->op == EX_ASSIGN ? (int)op->len - 1 : 1;

    return text_format(&u->arena, "%.*s", len, op->text);
}

static struct expr *strip(struct expr *e)
{
    while (e->op == EX_PAREN)
        e = e->kid[0];
    return e;
}

static bool is_bit_field(const struct expr *e)
{
    return e->member && e->member->bit_field;
}

/* Text that reads an object of this type from the address in the variable __sc_a<n>. */
static const char *read_text(struct unit *u, struct type *type, int n)
{
    const char *suffix = type_suffix(type), *text = type_text(u, type);

    if (suffix)
        return text_format(&u->arena, "(%s)sc_read_%s(__sc_a%d)", text, suffix, n);
    return text_format(&u->arena,
                       "({ %s __sc_o%d; sc_read((void *)&__sc_o%d, __sc_a%d, sizeof(__sc_o%d)); "
                       "__sc_o%d; })",
                       text, n, n, n, n, n);
}

static const char *write_text(struct unit *u, struct type *type, int n)
{
    const char *suffix = type_suffix(type);

    if (suffix)
        return text_format(&u->arena, "sc_write_%s(__sc_a%d, %s__sc_v%d)", suffix, n,
                           type->kind == TYPE_POINTER ? "(long)" : "", n);
    return text_format(&u->arena, "sc_write(__sc_a%d, (const void *)&__sc_v%d, sizeof(__sc_v%d))",
                       n, n, n);
}

/* Start of a call that adds to the wide pointer `text`. The caller adds the number and the rest. */
static const char *wide_sum(struct unit *u, struct type *type, const char *text, const char *sign)
{
    return text_format(&u->arena, "%s(%s, %s(long)(",
                       type->reach == REACH_SPREAD ? "sc_sadd" : "sc_gindex", text, sign);
}

/*
 * Lower "left op= operand", ++ and -- of an object in global space. The output computes the address
 * before the operand. operand: NULL means 1. old_value: the result is the value before the change.
 */
static void lower_update(struct unit *u, struct expr *e, struct expr *left, struct expr *operand,
                         const char *op, bool old_value)
{
    struct type *type = type_plain(u, left->type);
    const char *text = type_text(u, type), *read;
    struct text middle = {.arena = &u->arena}, end = {.arena = &u->arena};
    int n = ++u->made_up;

    read = read_text(u, type, n);
    if (type_is_wide(type))
        text_printf(
            &middle, "; %s __sc_r%d = %s, __sc_v%d = %s", text, n, read, n,
            wide_sum(u, type, text_format(&u->arena, "__sc_r%d", n), op[0] == '-' ? "-" : ""));
    else
        text_printf(&middle, "; %s __sc_r%d = %s, __sc_v%d = (__sc_r%d %s (", text, n, read, n, n,
                    op);
    if (type->kind == TYPE_POINTER && !type_is_wide(type))
        /* Use __typeof__: "T *a, b" would declare b as T, not as a pointer. */
        middle.len = 0,
        text_printf(&middle, "; __typeof__(%s) __sc_r%d = %s, __sc_v%d = (__sc_r%d %s (", text, n,
                    read, n, n, op);
    if (!operand)
        text_puts(&middle, "1");
    if (type_is_wide(type))
        text_printf(&end, "), %s)", lower_size(u, type->base));
    else
        text_puts(&end, "))");
    text_printf(&end, "; %s; __sc_%c%d; }))", write_text(u, type, n), old_value ? 'r' : 'v', n);
    edit_before(u, e->first, text_format(&u->arena, "(__extension__({ sc_ptr __sc_a%d = ", n));
    if (operand) {
        edit_after(u, e->last, end.data);
        edit_replace(u, e->op_token, middle.data);
    } else {
        edit_after(u, e->last, text_format(&u->arena, "%s%s", middle.data, end.data));
        edit_delete(u, e->op_token, e->op_token);
    }
    lower_address(u, left);
    if (operand)
        lower_value(u, operand, USE_VALUE);
}

/* Lower a change of a bit-field in global space: read the struct, change it, write it back. */
static void lower_bit_field(struct unit *u, struct expr *e, struct expr *left, bool old_value)
{
    struct expr *object = left->kid[0];
    struct type *record = left->op == EX_MEMBER ? object->type : expr_value_type(u, object)->base;
    const struct token *member = &u->tokens.items[left->last];
    const char *prefix = "", *end;
    int n = ++u->made_up;

    if (e->kid[0] != left) {
        diag_error(u, e->first,
                   "a bit-field in parentheses cannot be changed through a global "
                   "pointer; leave the parentheses out");
        return;
    }
    if (e->op == EX_PREFIX) {
        prefix = e->op_id == T_INC ? "++" : "--";
        edit_delete(u, e->op_token, e->op_token);
    } else if (old_value) {
        prefix = text_format(&u->arena, "long long __sc_o%d = ", n);
    }
    end = text_format(&u->arena, "; sc_write(__sc_a%d, &__sc_v%d, sizeof(__sc_v%d)); ", n, n, n);
    if (old_value)
        end = text_format(&u->arena, "%s__sc_o%d; }))", end, n);
    else
        end =
            text_format(&u->arena, "%s__sc_v%d.%.*s; }))", end, n, (int)member->len, member->text);
    edit_before(u, e->first, text_format(&u->arena, "(__extension__({ sc_ptr __sc_a%d = ", n));
    edit_after(u, e->last, end);
    edit_replace(u, left->op_token,
                 text_format(&u->arena,
                             "; %s __sc_v%d; sc_read(&__sc_v%d, __sc_a%d, sizeof(__sc_v%d)); "
                             "%s__sc_v%d.",
                             type_text(u, record), n, n, n, n, prefix, n));
    if (left->op == EX_MEMBER)
        lower_address(u, object);
    else
        lower_value(u, object, USE_VALUE);
    if (e->kid[1])
        lower_value(u, e->kid[1], USE_VALUE);
}

/* Lower a write, put or store of an object of type T to sc_<verb>_<suffix>(ADDRESS, (T)(VALUE)). */
static void lower_transfer(struct unit *u, struct expr *e, const char *verb, enum lower_use use)
{
    struct expr *left = e->kid[0], *right = e->kid[1];
    struct type *type = type_plain(u, left->type);
    const char *suffix = type_suffix(type), *text = type_text(u, type);
    int n;

    if (suffix) {
        const char *to_long = type->kind == TYPE_POINTER ? "(long)" : "";

        if (use == USE_VALUE)
            lower_wrap(u, e, text_format(&u->arena, "((%s)sc_%s_%s(", text, verb, suffix), ")))");
        else
            lower_wrap(u, e, text_format(&u->arena, "sc_%s_%s(", verb, suffix), "))");
        edit_replace(u, e->op_token, text_format(&u->arena, ", %s(%s)(", to_long, text));
    } else {
        n = ++u->made_up;
        edit_before(u, e->first, text_format(&u->arena, "(__extension__({ sc_ptr __sc_a%d = ", n));
        edit_replace(u, e->op_token, text_format(&u->arena, "; %s __sc_v%d = ", text, n));
        edit_after(
            u, e->last,
            text_format(
                &u->arena, "; sc_%s(__sc_a%d, (const void *)&__sc_v%d, sizeof(__sc_v%d)); %s", verb,
                n, n, n, use == USE_VALUE ? text_format(&u->arena, "__sc_v%d; }))", n) : "}))"));
    }
    lower_address(u, left);
    lower_convert(u, right, type);
}

/* Lower op=, ++ and -- of a wide pointer that is a local object. */
static void lower_wide_update(struct unit *u, struct expr *e, struct expr *left,
                              struct expr *operand, bool minus, bool old_value)
{
    struct type *type = left->type;
    const char *sum, *end;
    int n = ++u->made_up;

    sum = wide_sum(u, type, text_format(&u->arena, "__sc_o%d", n), minus ? "-" : "");
    sum = text_format(&u->arena, "; sc_ptr __sc_o%d = *__sc_p%d, __sc_v%d = %s%s", n, n, n, sum,
                      operand ? "" : "1");
    end = text_format(&u->arena, "), %s); *__sc_p%d = __sc_v%d; __sc_%c%d; }))",
                      lower_size(u, type->base), n, n, old_value ? 'o' : 'v', n);
    edit_before(u, e->first, text_format(&u->arena, "(__extension__({ sc_ptr *__sc_p%d = &", n));
    if (operand) {
        edit_replace(u, e->op_token, sum);
        edit_after(u, e->last, end);
    } else {
        edit_delete(u, e->op_token, e->op_token);
        edit_after(u, e->last, text_format(&u->arena, "%s%s", sum, end));
    }
    lower_value(u, left, USE_VALUE);
    if (operand)
        lower_value(u, operand, USE_VALUE);
}

void lower_assign(struct unit *u, struct expr *e, enum lower_use use)
{
    struct expr *left = e->kid[0], *inner = strip(left);
    bool plain = e->op_id == '=';

    if (left->global && is_bit_field(inner)) {
        lower_bit_field(u, e, inner, false);
    } else if (left->global && plain) {
        lower_transfer(u, e, "write", use);
    } else if (left->global) {
        lower_update(u, e, left, e->kid[1], operator_text(u, e), false);
    } else if (!plain && type_is_wide(left->type) && left->type->kind == TYPE_POINTER) {
        lower_wide_update(u, e, left, e->kid[1], e->op_id == PUNCT2('-', '='), false);
    } else {
        lower_value(u, left, USE_VALUE);
        if (plain)
            lower_convert(u, e->kid[1], left->type);
        else
            lower_value(u, e->kid[1], USE_VALUE);
    }
}

void lower_step(struct unit *u, struct expr *e, enum lower_use use)
{
    struct expr *left = e->kid[0], *inner = strip(left);
    bool old_value = e->op == EX_POSTFIX && use == USE_VALUE;

    if (left->global && is_bit_field(inner))
        lower_bit_field(u, e, inner, e->op == EX_POSTFIX && old_value);
    else if (left->global)
        lower_update(u, e, left, NULL, operator_text(u, e), old_value);
    else if (type_is_wide(left->type) && left->type->kind == TYPE_POINTER)
        lower_wide_update(u, e, left, NULL, e->op_id == T_DEC, old_value);
    else
        lower_value(u, left, USE_VALUE);
}

static bool in_register(const struct expr *e)
{
    return e->op == EX_IDENT && e->symbol && e->symbol->is_register;
}

/* Lower a get: "local object := object in global space". */
static void lower_get(struct unit *u, struct expr *e)
{
    struct expr *left = e->kid[0], *inner = strip(left);
    struct type *type = type_plain(u, e->kid[1]->type);
    const char *suffix = type_suffix(type);

    if (type->kind == TYPE_ARRAY)
        diag_error(u, e->op_token, "an array cannot be got; get its elements or use bulk_get()");
    if (!type_same(left->type, type) || in_register(inner) || is_bit_field(inner) ||
        is_bit_field(strip(e->kid[1]))) {
        diag_warning(u, e->op_token,
                     "this get needs a conversion or has no address to go to; it waits for the "
                     "value");
        lower_wrap(u, e, "((void)(", "))");
        edit_replace(u, e->op_token, "=");
        lower_value(u, left, USE_VALUE);
        lower_convert(u, e->kid[1], left->type);
        return;
    }
    if (suffix)
        lower_wrap(u, e, text_format(&u->arena, "sc_get_%s((void *)&", suffix), ")");
    else
        lower_wrap(u, e, "sc_get((void *)&", text_format(&u->arena, ", %s)", lower_size(u, type)));
    edit_replace(u, e->op_token, ", ");
    lower_value(u, left, USE_VALUE);
    lower_address(u, e->kid[1]);
}

void lower_split(struct unit *u, struct expr *e)
{
    struct expr *left = e->kid[0];

    edit_replace(u, e->op_token + 1, "");
    if (left->global) {
        lower_transfer(u, e, e->op_id == '-' ? "store" : "put", USE_NOTHING);
    } else if (e->kid[1]->global) {
        lower_get(u, e);
    } else {
        lower_wrap(u, e, "((void)(", "))");
        edit_replace(u, e->op_token, "=");
        lower_value(u, left, USE_VALUE);
        lower_convert(u, e->kid[1], left->type);
    }
}
