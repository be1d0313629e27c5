/*
 * Statements and function bodies. Statements have no tree: the parser lowers each full expression
 * as soon as it has parsed it.
 */
#include "splitc/sc1/parse.h"

static struct type *parse_statement(struct unit *u);

static void note_jump(struct unit *u, int token, bool is_label)
{
    struct jump jump = {u->tokens.items[token].name, token, u->mark, is_label};

    if (u->function)
        LIST_ADD(&u->arena, &u->function->jumps, jump);
}

/* Is `inner`, the mark of a label, also in scope at the jump with mark `from`? */
static bool encloses(const struct spread_mark *inner, const struct spread_mark *from)
{
    for (; from; from = from->outer)
        if (from == inner)
            return true;
    return !inner;
}

static void report_jump(struct unit *u, int token, const struct spread_mark *mark, const char *what)
{
    diag_error(u, token, "%s jumps into the scope of a spread array", what);
    diag_note(u, mark->token, "'%s' is declared here", u->tokens.items[mark->token].name->text);
}

static void check_jumps(struct unit *u, const struct function *f)
{
    for (int i = 0; i < f->jumps.count; i++) {
        const struct jump *from = &f->jumps.items[i];

        for (int k = 0; !from->is_label && k < f->jumps.count; k++) {
            const struct jump *to = &f->jumps.items[k];

            if (to->is_label && to->name == from->name && !encloses(to->mark, from->mark)) {
                report_jump(u, from->token, to->mark, "this 'goto'");
                break;
            }
        }
    }
}

static void parse_condition(struct unit *u)
{
    unit_expect(u, '(');
    lower_condition(u, expr_parse(u));
    unit_expect(u, ')');
}

static void parse_for(struct unit *u)
{
    unit_next(u);
    unit_expect(u, '(');
    scope_enter(u);
    if (specs_start(u)) {
        decl_block(u, PLACE_FOR);
    } else {
        if (!unit_is(u, ';'))
            lower_value(u, expr_parse(u), USE_NOTHING);
        unit_expect(u, ';');
    }
    if (!unit_is(u, ';'))
        lower_condition(u, expr_parse(u));
    unit_expect(u, ';');
    if (!unit_is(u, ')'))
        lower_value(u, expr_parse(u), USE_NOTHING);
    unit_expect(u, ')');
    parse_statement(u);
    scope_leave(u);
}

static void parse_switch(struct unit *u)
{
    struct spread_mark *outer = u->function ? u->function->switch_mark : NULL;

    unit_next(u);
    unit_expect(u, '(');
    lower_value(u, expr_parse(u), USE_VALUE);
    unit_expect(u, ')');
    if (u->function)
        u->function->switch_mark = u->mark;
    parse_statement(u);
    if (u->function)
        u->function->switch_mark = outer;
}

static void parse_case(struct unit *u)
{
    int token = unit_next(u);

    if (u->tokens.items[token].id == K_CASE) {
        lower_value(u, expr_parse_conditional(u), USE_VALUE);
        if (unit_skip_if(u, T_ELLIPSIS))
            lower_value(u, expr_parse_conditional(u), USE_VALUE);
    }
    unit_expect(u, ':');
    if (u->function && u->mark != u->function->switch_mark &&
        !encloses(u->mark, u->function->switch_mark))
        report_jump(u, token, u->mark, "this case");
}

static void parse_return(struct unit *u)
{
    unit_next(u);
    if (!unit_is(u, ';')) {
        struct expr *e = expr_parse(u);

        if (u->function && u->function->result->kind != TYPE_VOID)
            lower_convert(u, e, u->function->result);
        else
            lower_value(u, e, USE_VALUE);
    }
    unit_expect(u, ';');
}

/* Parse asm [volatile|goto|inline] (template : outputs : inputs : clobbers : labels). */
static void parse_asm(struct unit *u)
{
    unit_next(u);
    while (unit_is(u, K_VOLATILE) || unit_is(u, K_GOTO) || unit_is(u, K_INLINE) ||
           unit_is(u, K_CONST))
        unit_next(u);
    unit_expect(u, '(');
    for (;;) {
        while (unit_is(u, T_STRING) || unit_is(u, ',') || unit_is(u, ':') || unit_is(u, T_IDENT))
            unit_next(u);
        if (unit_is(u, '[')) {
            unit_skip_group(u);
        } else if (unit_is(u, '(')) {
            unit_next(u);
            lower_value(u, expr_parse(u), USE_VALUE);
            unit_expect(u, ')');
        } else {
            break;
        }
    }
    unit_expect(u, ')');
    unit_expect(u, ';');
}

static void parse_goto(struct unit *u)
{
    unit_next(u);
    if (unit_skip_if(u, '*')) {
        lower_value(u, expr_parse(u), USE_VALUE);
    } else {
        note_jump(u, u->at, false);
        unit_expect(u, T_IDENT);
    }
    unit_expect(u, ';');
}

/* Parse "__label__ a, b;". */
static void parse_local_labels(struct unit *u)
{
    while (unit_skip_if(u, K_LABEL)) {
        do
            unit_expect(u, T_IDENT);
        while (unit_skip_if(u, ','));
        unit_expect(u, ';');
    }
}

/* Returns the type, or NULL: the last expression of a block may be the value of the block. */
static struct type *parse_expression_statement(struct unit *u)
{
    struct expr *e;

    if (unit_skip_if(u, ';'))
        return NULL;
    e = expr_parse(u);
    unit_expect(u, ';');
    lower_value(u, e, unit_is(u, '}') ? USE_VALUE : USE_NOTHING);
    return expr_value_type(u, e);
}

static struct type *parse_keyword(struct unit *u)
{
    switch (unit_token(u)->id) {
    case K_IF:
        unit_next(u);
        parse_condition(u);
        parse_statement(u);
        if (unit_skip_if(u, K_ELSE))
            parse_statement(u);
        break;
    case K_WHILE:
        unit_next(u);
        parse_condition(u);
        parse_statement(u);
        break;
    case K_DO:
        unit_next(u);
        parse_statement(u);
        unit_expect(u, K_WHILE);
        parse_condition(u);
        unit_expect(u, ';');
        break;
    case K_FOR:
        parse_for(u);
        break;
    case K_SWITCH:
        parse_switch(u);
        break;
    case K_RETURN:
        parse_return(u);
        break;
    case K_BREAK:
    case K_CONTINUE:
        unit_next(u);
        unit_expect(u, ';');
        break;
    case K_GOTO:
        parse_goto(u);
        break;
    case K_ASM:
        parse_asm(u);
        break;
    case K_ATTRIBUTE:
        specs_attributes(u);
        unit_expect(u, ';');
        break;
    default:
        return parse_expression_statement(u);
    }
    return NULL;
}

/* Parse labels of all kinds, before a statement or the end of a block. */
static bool parse_labels(struct unit *u)
{
    bool any = false;

    for (;;) {
        if (unit_is(u, K_CASE) || unit_is(u, K_DEFAULT)) {
            parse_case(u);
        } else if (unit_is(u, T_IDENT) && unit_peek(u, 1)->id == ':' &&
                   unit_peek(u, 2)->id != '=') {
            note_jump(u, u->at, true);
            unit_next(u);
            unit_next(u);
            specs_attributes(u);
        } else {
            return any;
        }
        any = true;
    }
}

static struct type *parse_statement(struct unit *u)
{
    struct type *type;

    unit_deeper(u);
    parse_labels(u);
    if (unit_is(u, '{'))
        type = stmt_block(u);
    else if (unit_is(u, '}')) /* a label at the end of a block: gcc accepts or refuses it */
        type = NULL;
    else
        type = parse_keyword(u);
    u->nesting--;
    return type;
}

static bool attribute_statement(struct unit *u)
{
    int at = u->at;
    bool result;

    if (!unit_is(u, K_ATTRIBUTE))
        return false;
    specs_attributes(u);
    result = unit_is(u, ';');
    u->at = at;
    return result;
}

static struct type *parse_items(struct unit *u)
{
    struct type *type = NULL;

    unit_expect(u, '{');
    parse_local_labels(u);
    while (!unit_is(u, '}')) {
        if (unit_is(u, T_EOF))
            diag_syntax(u, "'}'");
        if ((specs_start(u) || unit_is(u, K_STATIC_ASSERT)) && !attribute_statement(u)) {
            decl_block(u, PLACE_BLOCK);
            type = NULL;
        } else {
            type = parse_statement(u);
        }
    }
    unit_next(u);
    return type;
}

struct type *stmt_block(struct unit *u)
{
    struct type *type;

    unit_deeper(u);
    scope_enter(u);
    type = parse_items(u);
    scope_leave(u);
    u->nesting--;
    return type;
}

void stmt_function_body(struct unit *u, const struct declarator *d, int first_token)
{
    const struct derivation *f = &d->list.items[0];
    struct function function = {.outer = u->function, .name = d->name, .result = d->type->base};

    function.first_token = u->function ? u->function->first_token : first_token;
    u->function = &function;
    if (f->companions)
        edit_after(u, u->at, text_format(&u->arena, " %s", f->companions));
    scope_enter(u);
    for (int i = 0; i < f->params.count; i++)
        if (f->params.items[i].name) {
            const struct param *p = &f->params.items[i];

            scope_declare(u, p->name, SYM_OBJECT, p->type)->is_register = p->is_register;
        }
    parse_items(u);
    scope_leave(u);
    check_jumps(u, &function);
    u->function = function.outer;
}
