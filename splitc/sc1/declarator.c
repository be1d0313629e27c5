/*
 * Declarators. The parser reads a declarator into a list of derivations, from the name outwards.
 * Then it builds the type from the last derivation to the first. In the output, sc_ptr replaces the
 * base type, the first wide pointer or spread array of the list, and all derivations after it.
 */
#include "splitc/sc1/parse.h"

#include <string.h>

static bool is_word(const struct token *token, const char *text)
{
    return token->id == T_IDENT && strcmp(token->name->text, text) == 0;
}

/*
 * Is the current token the qualifier "global" or "spread" of a pointer? C programs may use these
 * words as names. So the next token decides: before "=" or ";", for example, the word is a name.
 */
static bool is_reach(struct unit *u, enum place place)
{
    bool named = place != PLACE_PARAM && place != PLACE_TYPE_NAME;

    if (!is_word(unit_token(u), "global") && !is_word(unit_token(u), "spread"))
        return false;
    switch (unit_peek(u, 1)->id) {
    case ';':
    case '=':
    case ':':
    case '[':
        return !named && unit_peek(u, 1)->id == '[';
    case ',':
    case ')':
        return !named;
    default:
        return true;
    }
}

static struct derivation parse_pointer(struct unit *u, struct declarator *d, enum place place)
{
    struct derivation p = {.kind = DERIVE_POINTER, .first = unit_next(u)};

    for (;;) {
        if (is_reach(u, place)) {
            enum reach reach = is_word(unit_token(u), "global") ? REACH_GLOBAL : REACH_SPREAD;

            if (p.reach != REACH_LOCAL && p.reach != reach)
                diag_error(u, u->at, "a pointer cannot be both 'global' and 'spread'");
            p.reach = reach;
            unit_next(u);
        } else if (unit_is(u, K_CONST) || unit_is(u, K_VOLATILE) || unit_is(u, K_RESTRICT) ||
                   unit_is(u, K_ATOMIC)) {
            p.quals |= unit_is(u, K_CONST)      ? QUAL_CONST
                       : unit_is(u, K_VOLATILE) ? QUAL_VOLATILE
                                                : 0;
            unit_next(u);
        } else if (unit_is(u, K_ATTRIBUTE)) {
            d->opaque |= specs_attributes(u);
        } else {
            break;
        }
    }
    p.last = u->at - 1;
    return p;
}

/* Parse one pair of brackets with its bound, from "[" to "]". */
static struct derivation parse_brackets(struct unit *u)
{
    struct derivation a = {.kind = DERIVE_ARRAY, .first = unit_expect(u, '[')};

    while (unit_is(u, K_STATIC) || unit_is(u, K_CONST) || unit_is(u, K_RESTRICT) ||
           unit_is(u, K_VOLATILE))
        unit_next(u);
    if (unit_is(u, '*') && unit_peek(u, 1)->id == ']') {
        unit_next(u);
    } else if (!unit_is(u, ']')) {
        bool outer = u->colon_taken;
        struct expr *e;

        u->colon_taken = false;
        e = expr_parse_assignment(u);
        u->colon_taken = outer;
        a.run_time = expr_is_run_time(e);
        lower_value(u, e, USE_VALUE);
        a.bound = edit_text(u, e->first, e->last);
    }
    a.last = unit_expect(u, ']');
    return a;
}

/* Parse "::", and join all brackets directly before it into one derivation. */
static void make_spread(struct unit *u, struct derivation_list *list, int from)
{
    struct derivation *first = &list->items[from];
    struct dims *dims = arena_alloc(&u->arena, sizeof(*dims));

    dims->count = list->count - from;
    dims->texts = arena_alloc(&u->arena, sizeof(*dims->texts) * (size_t)dims->count);
    for (int i = 0; i < dims->count; i++) {
        dims->texts[i] = list->items[from + i].bound;
        first->run_time |= list->items[from + i].run_time;
        if (i > 0 && !dims->texts[i])
            diag_error(u, list->items[from + i].first,
                       "only the first bound of a spread array can be left out");
    }
    first->kind = DERIVE_SPREAD;
    first->dims = dims;
    first->colons = unit_next(u);
    first->last = unit_next(u);
    list->count = from + 1;
}

/* Parse an old-style list of parameter names. */
static void parse_name_list(struct unit *u, struct derivation *f)
{
    for (;;) {
        struct param param = {.token = u->at};

        param.name = u->tokens.items[unit_expect(u, T_IDENT)].name;
        param.type = type_basic(u, BASIC_INT);
        LIST_ADD(&u->arena, &f->params, param);
        if (!unit_skip_if(u, ','))
            return;
    }
}

static struct type *param_type(struct unit *u, const struct declarator *d)
{
    if (d->type->kind == TYPE_ARRAY)
        return type_pointer(u, d->type->base, REACH_LOCAL);
    if (d->type->kind == TYPE_FUNCTION)
        return type_pointer(u, d->type, REACH_LOCAL);
    return d->type;
}

static void parse_param_list(struct unit *u, struct derivation *f)
{
    for (;;) {
        struct base_state state = {.place = PLACE_PARAM, .comma = -1};
        struct param param = {.token = u->at};
        struct declarator d;
        struct specs specs;

        if (unit_skip_if(u, T_ELLIPSIS)) {
            f->variadic = true;
            return;
        }
        specs_parse(u, &specs);
        if (specs.last < specs.first)
            diag_syntax(u, "a parameter declaration");
        declarator_parse(u, &d, PLACE_PARAM);
        declarator_finish(u, &d, &specs, PLACE_PARAM);
        decl_base(u, &state, &specs, &d);
        param.name = d.name;
        param.type = param_type(u, &d);
        param.is_register = specs.is_register;
        if (d.name) {
            param.token = d.name_token;
            scope_declare(u, d.name, SYM_OBJECT, param.type);
        }
        LIST_ADD(&u->arena, &f->params, param);
        if (!unit_skip_if(u, ','))
            return;
    }
}

/* Parse the parameters of a function, from "(" to ")". */
static struct derivation parse_params(struct unit *u)
{
    struct derivation f = {.kind = DERIVE_FUNCTION, .first = unit_expect(u, '(')};
    struct text outer = u->companions;

    unit_deeper(u);
    memset(&u->companions, 0, sizeof(u->companions));
    u->companions.arena = &u->arena;
    scope_enter(u);
    if (unit_is(u, K_VOID) && unit_peek(u, 1)->id == ')') {
        unit_next(u);
        f.prototyped = true;
    } else if (unit_is(u, T_IDENT) && !scope_is_typedef(u, unit_token(u))) {
        parse_name_list(u, &f);
    } else if (!unit_is(u, ')')) {
        parse_param_list(u, &f);
        f.prototyped = true;
    }
    f.last = unit_expect(u, ')');
    scope_leave(u);
    f.companions = u->companions.data;
    u->companions = outer;
    u->nesting--;
    return f;
}

/* Does the current "(" start a declarator in parentheses? Otherwise "(" starts parameters. */
static bool nests(struct unit *u, enum place place)
{
    const struct token *next = unit_peek(u, 1);

    if (place != PLACE_PARAM && place != PLACE_TYPE_NAME)
        return true;
    return next->id == '*' || next->id == '(' || next->id == '[' || next->id == K_ATTRIBUTE ||
           (next->id == T_IDENT && !scope_is_typedef(u, next));
}

static void parse_suffixes(struct unit *u, struct derivation_list *list)
{
    int brackets = -1;

    for (;;) {
        if (unit_is(u, '[')) {
            if (brackets < 0)
                brackets = list->count;
            LIST_ADD(&u->arena, list, parse_brackets(u));
        } else if (unit_is(u, ':') && unit_peek(u, 1)->id == ':' && brackets >= 0) {
            if (list->items[brackets].kind == DERIVE_SPREAD)
                diag_error(u, u->at, "a second '::' in one declarator");
            make_spread(u, list, brackets);
        } else if (unit_is(u, '(')) {
            LIST_ADD(&u->arena, list, parse_params(u));
            brackets = -1;
        } else {
            return;
        }
    }
}

static void parse_direct(struct unit *u, struct declarator *d, enum place place)
{
    struct derivation_list pointers = {0};

    unit_deeper(u);
    specs_attributes(u);
    while (unit_is(u, '*'))
        LIST_ADD(&u->arena, &pointers, parse_pointer(u, d, place));
    if (unit_is(u, '(') && nests(u, place)) {
        unit_next(u);
        parse_direct(u, d, place);
        unit_expect(u, ')');
    } else if (unit_is(u, T_IDENT) && place != PLACE_TYPE_NAME) {
        d->name_token = unit_next(u);
        d->name = u->tokens.items[d->name_token].name;
    } else if (place != PLACE_PARAM && place != PLACE_TYPE_NAME &&
               !(place == PLACE_MEMBER && unit_is(u, ':'))) {
        diag_syntax(u, "identifier or '('");
    }
    parse_suffixes(u, &d->list);
    for (int i = pointers.count - 1; i >= 0; i--)
        LIST_ADD(&u->arena, &d->list, pointers.items[i]);
    u->nesting--;
}

void declarator_parse(struct unit *u, struct declarator *d, enum place place)
{
    memset(d, 0, sizeof(*d));
    d->wide = -1;
    d->name_token = -1;
    d->first = u->at;
    parse_direct(u, d, place);
    if (unit_is(u, K_ASM) && place != PLACE_TYPE_NAME) {
        unit_next(u);
        while (unit_is(u, K_VOLATILE))
            unit_next(u);
        unit_skip_group(u);
    }
    d->opaque |= specs_attributes(u);
    d->last = u->at - 1;
}

/* Name an array type of run-time size in the output, so that gcc evaluates its bounds only once. */
static void name_array(struct unit *u, struct declarator *d, struct type *type, enum place place)
{
    const char *alias, *text;

    if (place == PLACE_TYPE_NAME || place == PLACE_MEMBER || d->outlives)
        return;
    if (place == PLACE_FILE) {
        diag_error(u, d->first, "a type with a bound that is not constant, at file scope");
        return;
    }
    text = type_text(u, type);
    alias = text_format(&u->arena, "__sc_type_%d", ++u->made_up);
    text =
        text_format(&u->arena, "typedef __typeof__(%s) %s __attribute__((unused)); ", text, alias);
    if (place == PLACE_PARAM)
        text_puts(&u->companions, text);
    else
        d->companions = text_format(&u->arena, "%s%s", d->companions ? d->companions : "", text);
    type->alias = alias;
    /* Build the name of each element type from the name of its array type. */
    for (struct type *inner = type; inner->base->kind == TYPE_ARRAY; inner = inner->base)
        inner->base->alias = text_format(&u->arena, "__typeof__((*(%s *)0)[0])", inner->alias);
}

static struct type *derive(struct unit *u, struct declarator *d, int index, struct type *base,
                           enum place place)
{
    const struct derivation *x = &d->list.items[index];
    struct type *type;

    switch (x->kind) {
    case DERIVE_POINTER:
        return type_qualified(u, type_pointer(u, base, x->reach), x->quals);
    case DERIVE_ARRAY:
        type = type_new(u, TYPE_ARRAY, base);
        type->text = x->bound;
        type->run_time =
            x->run_time || (base->kind == TYPE_ARRAY && base->run_time && !base->alias);
        if (type->run_time && d->wide >= 0 && index > d->wide &&
            d->list.items[index - 1].kind != DERIVE_ARRAY)
            name_array(u, d, type, place);
        return type;
    case DERIVE_SPREAD:
        type = type_new(u, TYPE_SPREAD, base);
        type->dims = x->dims;
        return type;
    case DERIVE_FUNCTION:
        break;
    }
    type = type_new(u, TYPE_FUNCTION, base);
    type->prototyped = x->prototyped;
    type->variadic = x->variadic;
    type->params = arena_alloc(&u->arena, sizeof(*type->params) * (size_t)(x->params.count + 1));
    type->param_count = x->params.count;
    for (int i = 0; i < x->params.count; i++)
        type->params[i] = x->params.items[i].type;
    return type;
}

static bool is_static_spread(const struct declarator *d, const struct specs *specs,
                             enum place place)
{
    bool is_static = place == PLACE_FILE || specs->is_static || specs->is_extern;

    return d->list.count && d->list.items[0].kind == DERIVE_SPREAD && is_static &&
           place != PLACE_PARAM && place != PLACE_TYPE_NAME && place != PLACE_MEMBER;
}

/* Are all bounds of the array constant? If so, the output has an ordinary array. */
static bool has_constant_bounds(const struct declarator *d)
{
    for (int i = 0; i < d->list.count; i++) {
        enum derivation_kind kind = d->list.items[i].kind;

        if (kind != DERIVE_ARRAY && kind != DERIVE_SPREAD)
            break;
        if (d->list.items[i].run_time)
            return false;
    }
    return true;
}

static void check_spread_place(struct unit *u, struct declarator *d, const struct specs *specs,
                               enum place place)
{
    for (int i = 0; i < d->list.count; i++) {
        if (d->list.items[i].kind != DERIVE_SPREAD)
            continue;
        if (i > 0)
            diag_error(u, d->list.items[i].first,
                       "a spread array cannot be part of another type; use a spread pointer");
        else if (place == PLACE_MEMBER || place == PLACE_FOR || specs->is_typedef)
            diag_error(u, d->list.items[i].first,
                       "a spread array cannot be declared here; use a spread pointer");
    }
}

void declarator_finish(struct unit *u, struct declarator *d, const struct specs *specs,
                       enum place place)
{
    bool is_static = is_static_spread(d, specs, place);
    int start = is_static && has_constant_bounds(d) ? 1 : 0;
    struct type *type = specs->base;

    check_spread_place(u, d, specs, place);
    d->outlives = is_static;
    for (int i = start; i < d->list.count && d->wide < 0; i++)
        if (d->list.items[i].kind == DERIVE_SPREAD ||
            (d->list.items[i].kind == DERIVE_POINTER && d->list.items[i].reach != REACH_LOCAL))
            d->wide = i;
    if (specs->opaque || d->opaque) {
        type = type_new(u, TYPE_UNKNOWN, NULL);
    }
    for (int i = d->list.count - 1; i >= 0; i--)
        type = derive(u, d, i, type, place);
    d->type = type;
    if (type->kind == TYPE_SPREAD) {
        bool is_array = d->list.count && d->list.items[0].kind == DERIVE_SPREAD;

        if (is_array && place != PLACE_TYPE_NAME)
            spread_declare(u, d, specs, place);
        else /* in a type name or typeof, a spread array is a spread pointer */
            d->type = type_decayed(u, type);
    }
    if (d->wide < 0)
        return;
    for (int i = d->wide; i < d->list.count; i++)
        edit_delete(u, d->list.items[i].first, d->list.items[i].last);
}

struct type *declarator_type_name(struct unit *u)
{
    struct base_state state = {.place = PLACE_TYPE_NAME, .comma = -1};
    struct declarator d;
    struct specs specs;

    unit_deeper(u);
    specs_parse(u, &specs);
    declarator_parse(u, &d, PLACE_TYPE_NAME);
    declarator_finish(u, &d, &specs, PLACE_TYPE_NAME);
    decl_base(u, &state, &specs, &d);
    u->nesting--;
    return d.type;
}
