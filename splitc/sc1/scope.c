/*
 * Scopes. A name points to its meaning in the innermost scope, and each meaning points to the outer
 * meaning that it hides. So a look-up is one step, and scope_leave can undo declarations.
 */
#include "splitc/sc1/unit.h"

void scope_enter(struct unit *u)
{
    struct scope *scope = arena_alloc(&u->arena, sizeof(*scope));

    scope->outer = u->scope;
    scope->mark = u->mark;
    u->scope = scope;
}

void scope_leave(struct unit *u)
{
    struct scope *scope = u->scope;

    for (struct symbol *s = scope->symbols; s; s = s->in_scope)
        s->name->symbol = s->shadowed;
    for (struct tag *t = scope->tags; t; t = t->in_scope)
        if (t->name)
            t->name->tag = t->shadowed;
    u->mark = scope->mark;
    u->scope = scope->outer;
}

void scope_leave_to(struct unit *u, struct scope *scope)
{
    while (u->scope != scope)
        scope_leave(u);
}

struct symbol *scope_declare(struct unit *u, struct name *name, enum symbol_kind kind,
                             struct type *type)
{
    struct symbol *symbol = arena_alloc(&u->arena, sizeof(*symbol));

    symbol->name = name;
    symbol->kind = kind;
    symbol->type = type;
    symbol->shadowed = name->symbol;
    symbol->in_scope = u->scope->symbols;
    symbol->file_scope = !u->scope->outer;
    u->scope->symbols = symbol;
    name->symbol = symbol;
    return symbol;
}

struct tag *scope_tag(struct unit *u, struct name *name, int keyword)
{
    struct tag *tag = arena_alloc(&u->arena, sizeof(*tag));

    tag->name = name;
    tag->keyword = keyword;
    tag->brace = -1;
    tag->in_scope = u->scope->tags;
    u->scope->tags = tag;
    if (name) {
        tag->shadowed = name->tag;
        name->tag = tag;
    }
    return tag;
}

bool scope_owns_tag(const struct unit *u, const struct tag *tag)
{
    for (const struct tag *t = u->scope->tags; t; t = t->in_scope)
        if (t == tag)
            return true;
    return false;
}

bool scope_is_typedef(struct unit *u, const struct token *token)
{
    return token->id == T_IDENT && token->name->symbol && token->name->symbol->kind == SYM_TYPEDEF;
}
