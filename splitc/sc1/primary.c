/*
 * Parses casts, unary and postfix operators, primary expressions, and the built-in functions of
 * GNU C that have types as arguments.
 */
#include "splitc/sc1/primary.h"
#include "splitc/sc1/parse.h"

#include <ctype.h>
#include <string.h>

struct expr_list {
    struct expr **items;
    int count, cap;
};

static struct type *unknown(struct unit *u)
{
    return type_new(u, TYPE_UNKNOWN, NULL);
}

/* Parse an expression in parentheses: there ":=" and ":-" are operators, even after "?". */
static struct expr *parse_inside(struct unit *u)
{
    bool outer = u->colon_taken;
    struct expr *e;

    u->colon_taken = false;
    e = expr_parse(u);
    u->colon_taken = outer;
    return e;
}

/* The type of a number, by its spelling. *ret_odd: sc1 does not know the suffix and the type. */
static enum basic number_type(const struct token *t, bool *ret_zero, bool *ret_odd)
{
    const char *p = t->text, *end = p + t->len;
    bool hex = t->len > 1 && p[0] == '0' && (p[1] | 32) == 'x';
    bool binary = t->len > 1 && p[0] == '0' && (p[1] | 32) == 'b';
    bool is_float = memchr(p, '.', t->len) ||
                    (hex && (memchr(p, 'p', t->len) || memchr(p, 'P', t->len))) ||
                    (!hex && !binary && (memchr(p, 'e', t->len) || memchr(p, 'E', t->len)));
    unsigned base = hex ? 16 : binary ? 2 : p[0] == '0' ? 8 : 10;
    uint64_t value = 0;
    int longs = 0, is_unsigned = 0;

    *ret_zero = *ret_odd = false;
    if (is_float) {
        char last = (char)(end[-1] | 32);

        *ret_odd = last == 'i' || last == 'j' || isdigit((unsigned char)last)
                       ? last == 'i' || last == 'j'
                       : false;
        return last == 'f' && !hex ? BASIC_FLOAT : last == 'l' ? BASIC_LDOUBLE : BASIC_DOUBLE;
    }
    for (p += hex || binary ? 2 : 0; p < end; p++) {
        int c = *p | 32;

        if (isdigit((unsigned char)*p))
            value = value * base + (unsigned)(*p - '0');
        else if (hex && c >= 'a' && c <= 'f')
            value = value * base + (unsigned)(c - 'a' + 10);
        else if (c == 'u')
            is_unsigned = 1;
        else if (c == 'l')
            longs++;
        else
            *ret_odd = true;
    }
    *ret_zero = value == 0 && !*ret_odd;
    if (longs == 0 && value > (base == 10 && !is_unsigned ? INT32_MAX : UINT32_MAX))
        longs = 1;
    if (longs == 0 && value > INT32_MAX)
        is_unsigned = 1;
    if (longs && base != 10 && value > INT64_MAX)
        is_unsigned = 1;
    return (enum basic)((longs == 0   ? BASIC_INT
                         : longs == 1 ? BASIC_LONG
                                      : BASIC_LLONG) +
                        is_unsigned);
}

static struct expr *parse_constant(struct unit *u)
{
    struct expr *e = expr_new(u, EX_CONSTANT, u->at);
    bool odd = false;

    if (unit_is(u, T_CHAR))
        e->type = type_basic(u, BASIC_INT);
    else
        e->type = type_basic(u, number_type(unit_token(u), &e->zero, &odd));
    if (odd)
        e->type = unknown(u);
    unit_next(u);
    return expr_done(u, e);
}

static struct expr *parse_string(struct unit *u)
{
    struct expr *e = expr_new(u, EX_STRING, u->at);
    char prefix = unit_token(u)->text[0];

    while (unit_is(u, T_STRING))
        unit_next(u);
    e->type = type_new(u, TYPE_ARRAY, type_basic(u, prefix == 'L' ? BASIC_INT : BASIC_CHAR));
    return expr_done(u, e);
}

static struct expr *parse_identifier(struct unit *u)
{
    struct expr *e = expr_new(u, EX_IDENT, u->at);

    e->symbol = unit_token(u)->name->symbol;
    if (e->symbol && e->symbol->kind == SYM_TYPEDEF)
        diag_syntax(u, "expression");
    e->type = e->symbol ? e->symbol->type : unknown(u);
    unit_next(u);
    return expr_done(u, e);
}

/* Parse arguments up to ")". types: an argument may be a type, as in calls of built-ins. */
static void parse_arguments(struct unit *u, struct expr *e, bool types)
{
    struct expr_list list = {0};
    bool outer = u->colon_taken;

    u->colon_taken = false;
    while (!unit_is(u, ')')) {
        if (types && specs_type_name_starts(u, unit_token(u)))
            declarator_type_name(u);
        else
            LIST_ADD(&u->arena, &list, expr_parse_assignment(u));
        if (!unit_is(u, ')'))
            unit_expect(u, ',');
    }
    u->colon_taken = outer;
    unit_next(u);
    e->args = list.items;
    e->arg_count = list.count;
}

/* Parse __builtin_offsetof(type, member.member[index]). */
static struct expr *parse_offsetof(struct unit *u)
{
    struct expr *e = expr_new(u, EX_OPAQUE, unit_next(u));
    struct expr_list list = {0};

    unit_expect(u, '(');
    declarator_type_name(u);
    unit_expect(u, ',');
    while (!unit_is(u, ')')) {
        if (unit_skip_if(u, '[')) {
            LIST_ADD(&u->arena, &list, parse_inside(u));
            unit_expect(u, ']');
        } else if (!unit_skip_if(u, '.') && !unit_skip_if(u, T_ARROW)) {
            unit_expect(u, T_IDENT);
        }
    }
    unit_next(u);
    e->args = list.items;
    e->arg_count = list.count;
    e->type = type_basic(u, BASIC_ULONG);
    return expr_done(u, e);
}

/* Parse __builtin_va_arg(list, type) or __builtin_types_compatible_p(type, type). */
static struct expr *parse_typed_builtin(struct unit *u)
{
    bool va_arg = unit_is(u, K_VA_ARG);
    struct expr *e = expr_new(u, EX_OPAQUE, unit_next(u));
    struct expr_list list = {0};

    unit_expect(u, '(');
    if (va_arg)
        LIST_ADD(&u->arena, &list, expr_parse_assignment(u));
    else
        declarator_type_name(u);
    unit_expect(u, ',');
    e->type = declarator_type_name(u);
    unit_expect(u, ')');
    if (!va_arg)
        e->type = type_basic(u, BASIC_INT);
    e->args = list.items;
    e->arg_count = list.count;
    return expr_done(u, e);
}

/* Parse _Generic(value, type: expression, ...). Lowers the value, which gcc will not evaluate. */
static struct expr *parse_generic(struct unit *u)
{
    struct expr *e = expr_new(u, EX_OPAQUE, unit_next(u));
    struct expr_list list = {0};
    struct type *wanted, *type = NULL, *otherwise = NULL;

    unit_expect(u, '(');
    LIST_ADD(&u->arena, &list, expr_parse_assignment(u));
    wanted = expr_value_type(u, list.items[0]);
    while (unit_skip_if(u, ',')) {
        struct type *label = NULL;
        struct expr *value;

        if (!unit_skip_if(u, K_DEFAULT))
            label = declarator_type_name(u);
        unit_expect(u, ':');
        value = expr_parse_assignment(u);
        LIST_ADD(&u->arena, &list, value);
        if (!label)
            otherwise = expr_value_type(u, value);
        else if (!type && wanted->kind != TYPE_UNKNOWN && type_same(label, wanted))
            type = expr_value_type(u, value);
    }
    unit_expect(u, ')');
    e->type = type ? type : otherwise && wanted->kind != TYPE_UNKNOWN ? otherwise : unknown(u);
    e->args = list.items;
    e->arg_count = list.count;
    return expr_done(u, e);
}

/* Parse "(" expression ")" or "({ ... })". */
static struct expr *parse_paren(struct unit *u)
{
    int first = unit_next(u);
    struct expr *e;

    if (unit_is(u, '{')) {
        bool outer = u->colon_taken;
        struct type *type;

        if (!u->function)
            diag_error(u, u->at, "a statement expression is allowed only inside a function");
        u->colon_taken = false;
        e = expr_new(u, EX_BLOCK, first);
        type = stmt_block(u);
        e->type = type ? type : type_new(u, TYPE_VOID, NULL);
        u->colon_taken = outer;
    } else {
        e = expr_new(u, EX_PAREN, first);
        e->kid[0] = parse_inside(u);
    }
    unit_expect(u, ')');
    return expr_done(u, e);
}

static struct expr *parse_primary(struct unit *u)
{
    switch (unit_token(u)->id) {
    case T_IDENT:
        return parse_identifier(u);
    case T_NUMBER:
    case T_CHAR:
        return parse_constant(u);
    case T_STRING:
        return parse_string(u);
    case '(':
        return parse_paren(u);
    case K_GENERIC:
        return parse_generic(u);
    case K_OFFSETOF:
        return parse_offsetof(u);
    case K_VA_ARG:
    case K_TYPES_COMPATIBLE:
        return parse_typed_builtin(u);
    default:
        diag_syntax(u, "expression");
    }
}

static bool is_name(const struct expr *e, const char *text)
{
    return e->op == EX_IDENT && !e->symbol && text;
}

static struct expr *parse_call(struct unit *u, struct expr *callee)
{
    static const char *const wide_calls[] = {"tolocal", "toglobal", "toproc"};
    const struct token *name = &u->tokens.items[callee->first];
    struct expr *e = expr_new(u, EX_CALL, callee->first);
    bool builtin = is_name(callee, name->name ? name->name->text : NULL) && name->len > 10 &&
                   memcmp(name->text, "__builtin_", 10) == 0;

    for (size_t i = 0; i < sizeof(wide_calls) / sizeof(wide_calls[0]); i++)
        if (callee->op == EX_IDENT && !callee->symbol &&
            strcmp(name->name->text, wide_calls[i]) == 0)
            e->op = EX_WIDE_CALL;
    e->op_token = unit_next(u);
    e->kid[0] = callee;
    parse_arguments(u, e, builtin);
    return expr_done(u, e);
}

static struct expr *parse_member(struct unit *u, struct expr *object, enum expr_op op)
{
    struct expr *e = expr_new(u, op, object->first);

    e->op_token = unit_next(u);
    e->kid[0] = object;
    /* After "." and "->" every identifier is a member, even a typedef's name. */
    unit_expect(u, T_IDENT);
    return expr_done(u, e);
}

static struct expr *parse_postfix(struct unit *u, struct expr *e)
{
    for (;;) {
        struct expr *outer;

        switch (unit_token(u)->id) {
        case '[':
            outer = expr_new(u, EX_INDEX, e->first);
            outer->op_token = unit_next(u);
            outer->kid[0] = e;
            outer->kid[1] = parse_inside(u);
            unit_expect(u, ']');
            e = expr_done(u, outer);
            break;
        case '(':
            e = parse_call(u, e);
            break;
        case '.':
            e = parse_member(u, e, EX_MEMBER);
            break;
        case T_ARROW:
            e = parse_member(u, e, EX_ARROW);
            break;
        case T_INC:
        case T_DEC:
            outer = expr_new(u, EX_POSTFIX, e->first);
            outer->op_id = unit_token(u)->id;
            outer->op_token = unit_next(u);
            outer->kid[0] = e;
            e = expr_done(u, outer);
            break;
        default:
            return e;
        }
    }
}

/* Parse a compound literal or a cast, from the "(" before its type on. */
static struct expr *parse_type_in_parens(struct unit *u)
{
    int first = unit_next(u);
    struct type *type = declarator_type_name(u);
    struct expr *e;

    unit_expect(u, ')');
    if (unit_is(u, '{')) {
        e = expr_new(u, EX_LITERAL, first);
        e->type = type;
        init_parse(u, type, !u->function);
        return parse_postfix(u, expr_done(u, e));
    }
    e = expr_new(u, EX_CAST, first);
    e->op_token = u->at - 1; /* the ")" after the type */
    e->type = type;
    e->kid[0] = primary_cast(u);
    return expr_done(u, e);
}

static struct expr *parse_sizeof(struct unit *u)
{
    int first = unit_next(u);
    struct expr *e = expr_new(u, EX_SIZEOF, first);

    if (unit_is(u, '(') && specs_type_name_starts(u, unit_peek(u, 1))) {
        int paren = unit_next(u);
        struct type *type = declarator_type_name(u);

        unit_expect(u, ')');
        if (unit_is(u, '{')) {
            struct expr *literal = expr_new(u, EX_LITERAL, paren);

            literal->type = type;
            init_parse(u, type, !u->function);
            e->kid[0] = parse_postfix(u, expr_done(u, literal));
        }
    } else {
        e->kid[0] = primary_cast(u);
    }
    return expr_done(u, e);
}

static struct expr *parse_unary(struct unit *u)
{
    int id = unit_token(u)->id, first;
    enum expr_op op = EX_UNARY;

    switch (id) {
    case T_INC:
    case T_DEC:
        op = EX_PREFIX;
        break;
    case '&':
        op = EX_ADDRESS;
        break;
    case '*':
        op = EX_DEREF;
        break;
    case '+':
    case '-':
    case '~':
    case '!':
    case K_EXTENSION:
    case K_REAL:
    case K_IMAG:
        break;
    case K_SIZEOF:
    case K_ALIGNOF:
        return parse_sizeof(u);
    case T_ANDAND: { /* the address of a label */
        struct expr *e = expr_new(u, EX_OPAQUE, unit_next(u));

        unit_expect(u, T_IDENT);
        e->type = type_pointer(u, type_new(u, TYPE_VOID, NULL), REACH_LOCAL);
        return expr_done(u, e);
    }
    default:
        return parse_postfix(u, parse_primary(u));
    }
    first = unit_next(u);
    return expr_unary(u, op, primary_cast(u), first);
}

struct expr *primary_cast(struct unit *u)
{
    struct expr *e;

    unit_deeper(u);
    if (unit_is(u, '(') && specs_type_name_starts(u, unit_peek(u, 1)))
        e = parse_type_in_parens(u);
    else
        e = parse_unary(u);
    u->nesting--;
    return e;
}
