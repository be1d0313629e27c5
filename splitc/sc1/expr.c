/*
 * Parses expressions with commas, assignments, ?: and binary operators (by precedence climbing).
 * primary.c parses the operands.
 */
#include "splitc/sc1/parse.h"
#include "splitc/sc1/primary.h"

#include <string.h>

struct expr *expr_new(struct unit *u, enum expr_op op, int first)
{
    struct expr *e = arena_alloc(&u->arena, sizeof(*e));

    e->op = op;
    e->first = first;
    e->op_token = first;
    return e;
}

/* The last token of the node is the token before the current token. */
struct expr *expr_done(struct unit *u, struct expr *e)
{
    e->last = u->at - 1;
    for (int i = 0; i < 3; i++)
        if (e->kid[i] && e->kid[i]->height >= e->height)
            e->height = e->kid[i]->height + 1;
    for (int i = 0; i < e->arg_count; i++)
        if (e->args[i]->height >= e->height)
            e->height = e->args[i]->height + 1;
    if (e->height > HEIGHT_MAX)
        diag_limit(u, e->first, "this expression is too deep for the Split-C translator");
    expr_check(u, e);
    return e;
}

struct expr *expr_unary(struct unit *u, enum expr_op op, struct expr *kid, int first)
{
    struct expr *e = expr_new(u, op, first);

    e->op_id = u->tokens.items[first].id;
    e->kid[0] = kid;
    return expr_done(u, e);
}

static int precedence(int id)
{
    switch (id) {
    case '*':
    case '/':
    case '%':
        return 10;
    case '+':
    case '-':
        return 9;
    case T_SHL:
    case T_SHR:
        return 8;
    case '<':
    case '>':
    case T_LE:
    case T_GE:
        return 7;
    case T_EQ:
    case T_NE:
        return 6;
    case '&':
        return 5;
    case '^':
        return 4;
    case '|':
        return 3;
    case T_ANDAND:
        return 2;
    case T_OROR:
        return 1;
    default:
        return 0;
    }
}

/* Parse operands, with binary operators of precedence `least` or higher between them. */
static struct expr *parse_binary(struct unit *u, int least)
{
    struct expr *left = primary_cast(u);

    for (;;) {
        int id = unit_token(u)->id, level = precedence(id);
        struct expr *e;

        if (level < least || level == 0)
            return left;
        e = expr_new(u, EX_BINARY, left->first);
        e->op_id = id;
        e->op_token = unit_next(u);
        e->kid[0] = left;
        e->kid[1] = parse_binary(u, level + 1);
        left = expr_done(u, e);
    }
}

struct expr *expr_parse_conditional(struct unit *u)
{
    struct expr *cond, *e;

    unit_deeper(u);
    cond = parse_binary(u, 1);
    if (unit_is(u, '?')) {
        e = expr_new(u, EX_CONDITION, cond->first);
        e->op_token = unit_next(u);
        e->kid[0] = cond;
        if (!unit_is(u, ':')) {
            /* The next ":" belongs to this "?", so ":" does not start ":=" or ":-". */
            bool outer = u->colon_taken;

            u->colon_taken = true;
            e->kid[1] = expr_parse(u);
            u->colon_taken = outer;
        }
        unit_expect(u, ':');
        e->kid[2] = expr_parse_conditional(u);
        cond = expr_done(u, e);
    }
    u->nesting--;
    return cond;
}

static bool is_assignment(int id)
{
    static const int ids[] = {'=',
                              PUNCT2('+', '='),
                              PUNCT2('-', '='),
                              PUNCT2('*', '='),
                              PUNCT2('/', '='),
                              PUNCT2('%', '='),
                              PUNCT2('&', '='),
                              PUNCT2('|', '='),
                              PUNCT2('^', '='),
                              PUNCT3('<', '<', '='),
                              PUNCT3('>', '>', '=')};

    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++)
        if (ids[i] == id)
            return true;
    return false;
}

/* Does ":=" or ":-" start here? The lexer makes two tokens, because "a ? b :-c" is valid C. */
static bool at_split(struct unit *u)
{
    const struct token *colon = unit_token(u), *next = unit_peek(u, 1);

    return !u->colon_taken && colon->id == ':' && (next->id == '=' || next->id == '-') &&
           next->text == colon->text + 1;
}

struct expr *expr_parse_assignment(struct unit *u)
{
    struct expr *left, *e;

    unit_deeper(u);
    left = expr_parse_conditional(u);
    if (is_assignment(unit_token(u)->id)) {
        e = expr_new(u, EX_ASSIGN, left->first);
        e->op_id = unit_token(u)->id;
    } else if (at_split(u)) {
        e = expr_new(u, EX_SPLIT, left->first);
        e->op_id = unit_peek(u, 1)->id;
    } else {
        u->nesting--;
        return left;
    }
    e->op_token = unit_next(u);
    if (e->op == EX_SPLIT)
        unit_next(u);
    e->kid[0] = left;
    e->kid[1] = expr_parse_assignment(u);
    u->nesting--;
    return expr_done(u, e);
}

struct expr *expr_parse(struct unit *u)
{
    struct expr *left = expr_parse_assignment(u);

    while (unit_is(u, ',')) {
        struct expr *e = expr_new(u, EX_COMMA, left->first);

        e->op_token = unit_next(u);
        e->kid[0] = left;
        e->kid[1] = expr_parse_assignment(u);
        left = expr_done(u, e);
    }
    return left;
}
