/*
 * Declarations: lists of declarators with initialisers, and function definitions.
 */
#include "splitc/sc1/parse.h"

#include <string.h>

/* Returns the old declaration's type if only that type has parameter types; otherwise `type`. */
static struct type *merged(const struct symbol *old, struct type *type)
{
    if (old && old->kind == SYM_OBJECT && type->kind == TYPE_FUNCTION && !type->prototyped &&
        old->type->kind == TYPE_FUNCTION && old->type->prototyped)
        return old->type;
    return type;
}

static struct symbol *declare(struct unit *u, const struct specs *specs, struct declarator *d)
{
    struct symbol *symbol;

    if (!d->name)
        return NULL;
    symbol = scope_declare(u, d->name, specs->is_typedef ? SYM_TYPEDEF : SYM_OBJECT,
                           merged(d->name->symbol, d->type));
    symbol->is_register = specs->is_register;
    if (d->type->kind == TYPE_SPREAD) {
        symbol->form = d->wide == 0 ? FORM_POINTER : FORM_ARRAY;
        if (d->spread) {
            struct spread_mark *mark = arena_alloc(&u->arena, sizeof(*mark));

            mark->outer = u->mark;
            mark->token = d->name_token;
            u->mark = mark;
        }
    }
    return symbol;
}

static void initialise(struct unit *u, const struct specs *specs, struct declarator *d,
                       struct symbol *symbol, enum place place)
{
    bool constant = place == PLACE_FILE || specs->is_static || specs->is_extern;
    struct type *type;

    if (d->type->kind == TYPE_SPREAD) {
        diag_error(u, d->name_token, "a spread array cannot have an initialiser");
        d->type = type_new(u, TYPE_UNKNOWN, NULL);
    }
    type = init_parse(u, d->type, constant);
    if (symbol && specs->is_auto_type && type)
        symbol->type = type;
}

/* Declare a static spread array of a function, and its allocation, before the function. */
static void hoist(struct unit *u, struct declarator *d, struct symbol *symbol)
{
    const char *variable = text_format(&u->arena, "__sc_static_var_%d", ++u->made_up);

    symbol->stands_for = variable;
    edit_before(u, u->function->first_token,
                text_format(&u->arena, "%s ", spread_static_text(u, variable, d->type, true)));
    edit_after(u, d->last, " __attribute__((unused))");
}

/* Parse the rest of a declaration up to its ";". Returns text to put after the ";", or NULL. */
static const char *parse_list(struct unit *u, const struct specs *specs, struct declarator *d,
                              struct base_state *state)
{
    struct text at_end = {.arena = &u->arena};

    for (;;) {
        struct symbol *symbol = declare(u, specs, d);

        if (d->is_static_spread && symbol) {
            if (u->function)
                hoist(u, d, symbol);
            else
                text_puts(&at_end, spread_static_text(u, d->name->text, d->type, false));
        }
        if (unit_skip_if(u, '='))
            initialise(u, specs, d, symbol, state->place);
        if (!unit_is(u, ','))
            return at_end.data;
        state->comma = unit_next(u);
        declarator_parse(u, d, state->place);
        declarator_finish(u, d, specs, state->place);
        decl_base(u, state, specs, d);
    }
}

static void end_declaration(struct unit *u, const char *at_end)
{
    int semicolon;

    semicolon = unit_expect(u, ';');
    if (at_end)
        edit_after(u, semicolon, at_end);
}

/* Parse the declarations between an old-style parameter list and the function's body. */
static void parse_old_params(struct unit *u, struct derivation *f)
{
    while (!unit_is(u, '{')) {
        struct base_state state = {.place = PLACE_PARAM, .comma = -1};
        struct specs specs;

        specs_parse(u, &specs);
        if (specs.last < specs.first)
            diag_syntax(u, "declaration or '{'");
        while (!unit_is(u, ';')) {
            struct declarator d;

            declarator_parse(u, &d, PLACE_PARAM);
            declarator_finish(u, &d, &specs, PLACE_PARAM);
            decl_base(u, &state, &specs, &d);
            for (int i = 0; i < f->params.count; i++) {
                struct param *p = &f->params.items[i];

                if (p->name != d.name)
                    continue;
                p->type = d.type->kind == TYPE_ARRAY || d.type->kind == TYPE_FUNCTION
                              ? type_decayed(u, d.type)
                              : d.type;
                p->is_register = specs.is_register;
            }
            if (d.name)
                scope_declare(u, d.name, SYM_OBJECT, d.type);
            if (!unit_is(u, ','))
                break;
            state.comma = unit_next(u);
        }
        unit_expect(u, ';');
    }
}

static bool is_definition(struct unit *u, const struct declarator *d)
{
    if (d->list.count == 0 || d->list.items[0].kind != DERIVE_FUNCTION)
        return false;
    if (unit_is(u, '{'))
        return true;
    return !d->list.items[0].prototyped && d->list.items[0].params.count && !unit_is(u, ',') &&
           !unit_is(u, ';') && !unit_is(u, '=') && specs_start(u);
}

static void parse_definition(struct unit *u, const struct specs *specs, struct declarator *d)
{
    struct derivation *f = &d->list.items[0];
    struct text outer = u->companions;

    memset(&u->companions, 0, sizeof(u->companions));
    u->companions.arena = &u->arena;
    declare(u, specs, d);
    scope_enter(u);
    parse_old_params(u, f);
    scope_leave(u);
    if (u->companions.data)
        f->companions =
            text_format(&u->arena, "%s%s", f->companions ? f->companions : "", u->companions.data);
    u->companions = outer;
    stmt_function_body(u, d, specs->last >= specs->first ? specs->first : d->first);
}

void decl_static_assert(struct unit *u)
{
    unit_expect(u, K_STATIC_ASSERT);
    unit_expect(u, '(');
    lower_value(u, expr_parse_conditional(u), USE_VALUE);
    if (unit_skip_if(u, ','))
        while (unit_is(u, T_STRING))
            unit_next(u);
    unit_expect(u, ')');
}

static void parse_declaration(struct unit *u, enum place place)
{
    struct base_state state = {.place = place, .comma = -1};
    struct declarator d;
    struct specs specs;

    if (unit_is(u, K_STATIC_ASSERT)) {
        decl_static_assert(u);
        unit_expect(u, ';');
        return;
    }
    specs_parse(u, &specs);
    if (unit_is(u, ';')) {
        unit_next(u);
        return;
    }
    declarator_parse(u, &d, place);
    declarator_finish(u, &d, &specs, place);
    decl_base(u, &state, &specs, &d);
    if (place != PLACE_FOR && is_definition(u, &d))
        parse_definition(u, &specs, &d);
    else
        end_declaration(u, parse_list(u, &specs, &d, &state));
}

void decl_block(struct unit *u, enum place place)
{
    parse_declaration(u, place);
}

void decl_external(struct unit *u)
{
    if (unit_skip_if(u, ';'))
        return;
    if (unit_is(u, K_ASM)) {
        unit_next(u);
        while (unit_is(u, K_VOLATILE))
            unit_next(u);
        if (!unit_is(u, '('))
            diag_syntax(u, "'('");
        unit_skip_group(u);
        unit_expect(u, ';');
        return;
    }
    parse_declaration(u, PLACE_FILE);
}

void decl_recover(struct unit *u, int from)
{
    int depth = 0;

    for (int i = from; i < u->at; i++) {
        depth += u->tokens.items[i].id == '{';
        depth -= u->tokens.items[i].id == '}';
    }
    /* Skip the rest of the declaration, up to its ";" or "}", or to a "}" in the first column. */
    while (!unit_is(u, T_EOF)) {
        int id = unit_token(u)->id;
        bool first_column = unit_token(u)->col == 1;

        unit_next(u);
        depth += id == '{';
        depth -= id == '}';
        if ((id == '}' && (depth <= 0 || first_column)) || (id == ';' && depth <= 0))
            return;
    }
}
