/*
 * Finds the type of an expression, and whether its object is in global space, that is, may be in
 * another process. gcc reports errors of plain C: sc1 then uses TYPE_UNKNOWN and prints no message.
 */
#include "splitc/sc1/parse.h"

#include <string.h>

static struct type *unknown(struct unit *u)
{
    return type_new(u, TYPE_UNKNOWN, NULL);
}

struct type *expr_value_type(struct unit *u, const struct expr *e)
{
    if (e->global && e->type->kind == TYPE_ARRAY)
        return type_pointer(u, e->type->base, REACH_GLOBAL);
    return type_plain(u, type_decayed(u, e->type));
}

/* Set the type of `e`, the object to which a pointer of type `pointer` points. */
static void point(struct unit *u, struct expr *e, const struct type *pointer)
{
    e->type = unknown(u);
    if (pointer->kind != TYPE_POINTER)
        return;
    e->type = pointer->base;
    if (pointer->reach == REACH_LOCAL)
        return;
    e->global = true;
    if (pointer->base->kind == TYPE_VOID) {
        diag_error(u, e->op_token, "dereference of a '%s' pointer", type_show(u, pointer));
        e->type = unknown(u);
        e->global = false;
    }
}

/* Set the type of `e`, which applies a subscript or "*" to a spread array. */
static void subscript_spread(struct unit *u, struct expr *e, struct type *array)
{
    if (array->dims_used + 1 < array->dims->count) {
        struct type *rest = arena_alloc(&u->arena, sizeof(*rest));

        *rest = *array;
        rest->dims_used++;
        e->type = rest;
    } else {
        e->type = array->base;
        e->global = true;
    }
}

static void check_index(struct unit *u, struct expr *e)
{
    struct type *left = expr_value_type(u, e->kid[0]);
    struct type *right = expr_value_type(u, e->kid[1]);

    if (e->kid[0]->type->kind == TYPE_SPREAD)
        subscript_spread(u, e, e->kid[0]->type);
    else if (e->kid[1]->type->kind == TYPE_SPREAD)
        subscript_spread(u, e, e->kid[1]->type);
    else
        point(u, e, left->kind == TYPE_POINTER ? left : right);
}

static void check_member(struct unit *u, struct expr *e)
{
    struct type *record = e->kid[0]->type;
    const struct name *name = u->tokens.items[e->last].name;

    e->type = unknown(u);
    if (e->op == EX_MEMBER) {
        e->global = e->kid[0]->global;
    } else {
        struct type *pointer = expr_value_type(u, e->kid[0]);

        if (pointer->kind != TYPE_POINTER)
            return;
        point(u, e, pointer);
        record = e->type;
        e->type = unknown(u);
    }
    e->member = type_member(record, name);
    if (e->member)
        e->type = type_qualified(u, e->member->type, record->quals & ~(unsigned)QUAL_RESTRICT);
    else if (e->global)
        diag_error(u, e->last, "'%s' has no member named '%s'", type_show(u, record),
                   name ? name->text : "?");
}

static bool is_bit_field(const struct expr *e)
{
    while (e->op == EX_PAREN)
        e = e->kid[0];
    return e->member && e->member->bit_field;
}

static void check_address(struct unit *u, struct expr *e)
{
    struct expr *kid = e->kid[0];

    if (kid->global && is_bit_field(kid))
        diag_error(u, e->op_token, "cannot take the address of a bit-field");
    if (kid->type->kind == TYPE_SPREAD) {
        diag_error(u, e->op_token,
                   "the address of a spread array cannot be taken; its name is a spread pointer");
        e->type = unknown(u);
        return;
    }
    e->type = type_pointer(u, kid->type, kid->global ? REACH_GLOBAL : REACH_LOCAL);
}

static void check_call(struct unit *u, struct expr *e)
{
    struct type *type = expr_value_type(u, e->kid[0]);

    e->type = unknown(u);
    if (type_is_wide(type)) {
        diag_error(u, e->op_token, "a function cannot be called through a '%s' pointer",
                   type_show(u, type));
    } else if (type->kind == TYPE_POINTER && type->base->kind == TYPE_FUNCTION) {
        e->type = type->base->base;
    } else if (e->kid[0]->op == EX_IDENT && !e->kid[0]->symbol) {
        const struct token *name = &u->tokens.items[e->kid[0]->first];

        /* C89: an undeclared function returns int. */
        if (name->len < 10 || memcmp(name->text, "__builtin_", 10) != 0)
            e->type = type_basic(u, BASIC_INT);
    }
}

static void check_wide_call(struct unit *u, struct expr *e)
{
    const struct token *name = &u->tokens.items[e->first];
    char which = name->text[2]; /* 'l': tolocal, 'g': toglobal, 'p': toproc */
    int wanted = which == 'g' ? 2 : 1;
    struct type *type;

    e->type = unknown(u);
    if (e->arg_count != wanted) {
        diag_error(u, e->first, "'%.*s' takes %s", (int)name->len, name->text,
                   wanted == 2 ? "a process and a local pointer" : "one global pointer");
        return;
    }
    type = expr_value_type(u, e->args[wanted - 1]);
    if (which == 'g') {
        if (type->kind != TYPE_POINTER && type->kind != TYPE_UNKNOWN)
            diag_error(u, e->args[1]->first, "the second argument of 'toglobal' is no pointer");
        else if (type->kind == TYPE_POINTER)
            e->type = type_pointer(u, type->base, REACH_GLOBAL);
        return;
    }
    if (which == 'l' && type->kind == TYPE_POINTER)
        e->type = type_pointer(u, type->base, REACH_LOCAL);
    if (which == 'p')
        e->type = type_basic(u, BASIC_INT);
    if (type->kind != TYPE_UNKNOWN && !type_is_wide(type) &&
        !(which == 'l' && type->kind == TYPE_POINTER))
        diag_error(u, e->args[0]->first, "the argument of '%.*s' is no global pointer",
                   (int)name->len, name->text);
}

/* The common type of two operands: the promoted type that comes later in enum basic. */
static struct type *arithmetic(struct unit *u, struct type *a, struct type *b)
{
    enum basic x = a->kind == TYPE_ENUM ? BASIC_INT : a->basic;
    enum basic y = b->kind == TYPE_ENUM ? BASIC_INT : b->basic;

    if (!type_is_number(a) || !type_is_number(b) || x == BASIC_OTHER || y == BASIC_OTHER)
        return x == BASIC_OTHER && type_is_number(a)   ? a
               : y == BASIC_OTHER && type_is_number(b) ? b
                                                       : unknown(u);
    if (x < BASIC_INT)
        x = BASIC_INT;
    if (y < BASIC_INT)
        y = BASIC_INT;
    return type_basic(u, x > y ? x : y);
}

static void bad_operands(struct unit *u, const struct expr *e, struct type *a, struct type *b)
{
    const struct token *op = &u->tokens.items[e->op_token];

    diag_error(u, e->op_token, "invalid operands to binary %.*s (have '%s' and '%s')", (int)op->len,
               op->text, type_show(u, a), type_show(u, b));
}

/* Set the type of a + or - with a pointer operand. Print an error if the operands are invalid. */
static void check_pointer_sum(struct unit *u, struct expr *e, struct type *a, struct type *b)
{
    bool wide = type_is_wide(a) || type_is_wide(b);

    if (a->kind == TYPE_POINTER && b->kind == TYPE_POINTER) {
        e->type = type_basic(u, BASIC_LONG);
        if (wide && (e->op_id == '+' || a->reach != b->reach))
            bad_operands(u, e, a, b);
        return;
    }
    e->type = a->kind == TYPE_POINTER ? a : b;
    if (!wide)
        return;
    if (a->kind == TYPE_POINTER
            ? !type_is_integer(b) && b->kind != TYPE_UNKNOWN
            : (!type_is_integer(a) && a->kind != TYPE_UNKNOWN) || e->op_id == '-')
        bad_operands(u, e, a, b);
}

static void check_binary(struct unit *u, struct expr *e)
{
    struct type *a = expr_value_type(u, e->kid[0]), *b = expr_value_type(u, e->kid[1]);
    bool wide = type_is_wide(a) || type_is_wide(b);

    switch (e->op_id) {
    case '<':
    case '>':
    case T_LE:
    case T_GE:
    case T_EQ:
    case T_NE:
        e->type = type_basic(u, BASIC_INT);
        if (wide && (type_is_number(a) || type_is_number(b)) && !expr_is_null(e->kid[0]) &&
            !expr_is_null(e->kid[1]))
            bad_operands(u, e, a, b);
        break;
    case T_ANDAND:
    case T_OROR:
        e->type = type_basic(u, BASIC_INT);
        break;
    case '+':
    case '-':
        if (a->kind == TYPE_POINTER || b->kind == TYPE_POINTER)
            check_pointer_sum(u, e, a, b);
        else
            e->type = arithmetic(u, a, b);
        break;
    case T_SHL:
    case T_SHR:
        e->type = arithmetic(u, a, a);
        if (wide)
            bad_operands(u, e, a, b);
        break;
    default:
        e->type = arithmetic(u, a, b);
        if (wide)
            bad_operands(u, e, a, b);
    }
}

static void check_condition(struct unit *u, struct expr *e)
{
    struct type *a = expr_value_type(u, e->kid[1] ? e->kid[1] : e->kid[0]);
    struct type *b = expr_value_type(u, e->kid[2]);
    bool a_null = e->kid[1] && expr_is_null(e->kid[1]), b_null = expr_is_null(e->kid[2]);

    if (a->kind == TYPE_POINTER && b->kind == TYPE_POINTER && type_is_wide(a) && type_is_wide(b))
        e->type = a->reach == REACH_GLOBAL     ? a
                  : b->reach == REACH_GLOBAL   ? b
                  : a->base->kind == TYPE_VOID ? b
                                               : a;
    else if (type_is_wide(a) && !a_null)
        e->type = a;
    else if (type_is_wide(b) && !b_null)
        e->type = b;
    else if (type_is_number(a) && type_is_number(b))
        e->type = arithmetic(u, a, b);
    else if (a->kind == TYPE_POINTER && (b_null || b->kind != TYPE_POINTER))
        e->type = a;
    else if (b->kind == TYPE_POINTER && (a_null || a->kind != TYPE_POINTER))
        e->type = b;
    else if (a->kind == TYPE_POINTER && a->base->kind == TYPE_VOID && b->kind == TYPE_POINTER)
        e->type = a;
    else if (a->kind == TYPE_UNKNOWN || a->kind == TYPE_VOID)
        e->type = a;
    else
        e->type = b->kind == TYPE_VOID ? b : a->kind == b->kind ? b : unknown(u);
}

static void check_split(struct unit *u, struct expr *e)
{
    const struct expr *left = e->kid[0], *right = e->kid[1];

    e->type = type_new(u, TYPE_VOID, NULL);
    if (left->type->kind == TYPE_UNKNOWN && !left->global)
        return;
    if (e->op_id == '-') {
        if (!left->global)
            diag_error(u, e->op_token,
                       "':-' stores only through a global pointer, and its left "
                       "side is local");
    } else if (!left->global && !right->global) {
        diag_warning(u, e->op_token,
                     "neither side of ':=' is global; this is an ordinary assignment");
    } else if (left->global && right->global) {
        diag_warning(u, e->op_token,
                     "both sides of ':=' are global; the right one is read before the put starts");
    }
    if (left->global && left->type->kind == TYPE_ARRAY)
        diag_error(u, e->op_token, "assignment to an expression with array type");
    if (left->global && is_bit_field(left))
        diag_error(u, e->op_token, "a bit-field cannot be put or stored; assign to it with '='");
}

static void check_unary(struct unit *u, struct expr *e)
{
    struct type *type = expr_value_type(u, e->kid[0]);

    if (e->op_id == '!') {
        e->type = type_basic(u, BASIC_INT);
    } else if (e->op_id == K_EXTENSION) {
        e->type = e->kid[0]->type;
        e->global = e->kid[0]->global;
    } else if (type_is_wide(type)) {
        const struct token *op = &u->tokens.items[e->op_token];

        diag_error(u, e->op_token, "wrong type argument to unary %.*s (have '%s')", (int)op->len,
                   op->text, type_show(u, type));
        e->type = unknown(u);
    } else if (e->op_id == K_REAL || e->op_id == K_IMAG) {
        e->type = unknown(u);
    } else {
        e->type = arithmetic(u, type, type);
    }
}

static void check_assign(struct unit *u, struct expr *e)
{
    const struct expr *left = e->kid[0];
    struct type *type = left->type;

    e->type = type_plain(u, type);
    if (type->kind == TYPE_SPREAD || (left->global && type->kind == TYPE_ARRAY))
        diag_error(u, e->op_token, "assignment to an expression with array type");
    if (left->global && (type->quals & QUAL_CONST))
        diag_error(u, e->op_token, "assignment of a read-only object in global space");
    if (e->op == EX_ASSIGN && e->op_id != '=' && e->op_id != PUNCT2('+', '=') &&
        e->op_id != PUNCT2('-', '=') && type_is_wide(type) && type->kind == TYPE_POINTER)
        bad_operands(u, e, type, expr_value_type(u, e->kid[1]));
}

void expr_check(struct unit *u, struct expr *e)
{
    switch (e->op) {
    case EX_OPAQUE:
        if (!e->type)
            e->type = unknown(u);
        break;
    case EX_PAREN:
        e->type = e->kid[0]->type;
        e->global = e->kid[0]->global;
        break;
    case EX_INDEX:
        check_index(u, e);
        break;
    case EX_DEREF:
        if (e->kid[0]->type->kind == TYPE_SPREAD)
            subscript_spread(u, e, e->kid[0]->type);
        else if (expr_value_type(u, e->kid[0])->kind == TYPE_POINTER)
            point(u, e, expr_value_type(u, e->kid[0]));
        else
            e->type = unknown(u);
        break;
    case EX_CALL:
        check_call(u, e);
        break;
    case EX_WIDE_CALL:
        check_wide_call(u, e);
        break;
    case EX_MEMBER:
    case EX_ARROW:
        check_member(u, e);
        break;
    case EX_ADDRESS:
        check_address(u, e);
        break;
    case EX_UNARY:
        check_unary(u, e);
        break;
    case EX_SIZEOF:
        e->type = type_basic(u, BASIC_ULONG);
        if (e->kid[0] && e->kid[0]->type->kind == TYPE_SPREAD)
            diag_error(u, e->first,
                       "'sizeof' of a spread array, which has no size in one process; "
                       "take that of an element");
        break;
    case EX_BINARY:
        check_binary(u, e);
        break;
    case EX_CONDITION:
        check_condition(u, e);
        break;
    case EX_ASSIGN:
    case EX_PREFIX:
    case EX_POSTFIX:
        check_assign(u, e);
        break;
    case EX_SPLIT:
        check_split(u, e);
        break;
    case EX_COMMA:
        e->type = expr_value_type(u, e->kid[1]);
        break;
    default: /* names, constants, literals, casts, blocks: the parser has set the type */
        break;
    }
}
