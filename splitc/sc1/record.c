/* Parses struct, union and enum specifiers. */
#include "splitc/sc1/parse.h"

static void add_member(struct unit *u, struct tag *tag, struct member ***tail, struct name *name,
                       struct type *type, bool bit_field)
{
    struct member *member = arena_alloc(&u->arena, sizeof(*member));

    member->name = name;
    member->type = type;
    member->bit_field = bit_field;
    if (type_holds_wide(type))
        tag->has_global = true;
    **tail = member;
    *tail = &member->next;
}

/* Parse one declaration of members. */
static void parse_members(struct unit *u, struct tag *tag, struct member ***tail)
{
    struct base_state state = {.place = PLACE_MEMBER, .comma = -1};
    struct specs specs;

    if (unit_is(u, K_STATIC_ASSERT)) {
        decl_static_assert(u);
        unit_expect(u, ';');
        return;
    }
    specs_parse(u, &specs);
    if (specs.last < specs.first)
        diag_syntax(u, "a member declaration");
    if (unit_is(u, ';') && (specs.base->kind == TYPE_RECORD || specs.base->kind == TYPE_UNKNOWN))
        add_member(u, tag, tail, NULL, specs.base, false);
    while (!unit_is(u, ';')) {
        struct declarator d;
        bool bit_field = false;

        declarator_parse(u, &d, PLACE_MEMBER);
        declarator_finish(u, &d, &specs, PLACE_MEMBER);
        decl_base(u, &state, &specs, &d);
        if (unit_skip_if(u, ':')) {
            lower_value(u, expr_parse_conditional(u), USE_VALUE);
            specs_attributes(u);
            bit_field = true;
        }
        add_member(u, tag, tail, d.name, d.type, bit_field);
        if (!unit_is(u, ','))
            break;
        state.comma = unit_next(u);
        specs_attributes(u);
    }
    /* In old programs the last ";" of a struct may be missing; gcc warns about that. */
    if (!unit_is(u, '}'))
        unit_expect(u, ';');
}

static void parse_record_body(struct unit *u, struct tag *tag)
{
    struct member **tail = &tag->members;

    tag->brace = unit_expect(u, '{');
    unit_deeper(u);
    while (!unit_is(u, '}')) {
        if (unit_is(u, T_EOF))
            diag_syntax(u, "'}'");
        if (!unit_skip_if(u, ';'))
            parse_members(u, tag, &tail);
    }
    unit_next(u);
    u->nesting--;
    tag->complete = true;
}

static void parse_enum_body(struct unit *u, struct tag *tag)
{
    tag->brace = unit_expect(u, '{');
    while (!unit_is(u, '}')) {
        int name = unit_expect(u, T_IDENT);

        scope_declare(u, u->tokens.items[name].name, SYM_ENUMERATOR, type_basic(u, BASIC_INT));
        specs_attributes(u);
        if (unit_skip_if(u, '='))
            lower_value(u, expr_parse_conditional(u), USE_VALUE);
        if (!unit_is(u, '}'))
            unit_expect(u, ',');
    }
    unit_next(u);
    tag->complete = true;
}

struct type *record_parse(struct unit *u, bool *ret_has_body)
{
    int keyword = unit_token(u)->id;
    struct name *name = NULL;
    struct tag *tag = NULL;
    struct type *type;

    unit_next(u);
    specs_attributes(u);
    if (unit_is(u, T_IDENT))
        name = u->tokens.items[unit_next(u)].name;
    else if (!unit_is(u, '{'))
        diag_syntax(u, "identifier or '{'");
    specs_attributes(u);
    *ret_has_body = unit_is(u, '{');
    if (name)
        tag = name->tag;
    if (tag && ((*ret_has_body || unit_is(u, ';')) && !scope_owns_tag(u, tag)))
        tag = NULL; /* a new tag of this scope hides the tag of the outer scope */
    if (tag && *ret_has_body && tag->complete)
        tag = NULL; /* the tag is defined twice: gcc reports the error */
    if (!tag)
        tag = scope_tag(u, name, keyword);
    if (*ret_has_body) {
        if (keyword == K_ENUM)
            parse_enum_body(u, tag);
        else
            parse_record_body(u, tag);
        specs_attributes(u);
    }
    type = type_new(u, keyword == K_ENUM ? TYPE_ENUM : TYPE_RECORD, NULL);
    type->tag = tag;
    return type;
}
