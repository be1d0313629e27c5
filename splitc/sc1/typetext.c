/*
 * Types as text: for gcc in the output (valid at this point of the source), and for the user in
 * messages.
 *
 * The text of a derived type is its base in __typeof__(...), then a suffix. So the suffix always
 * follows the base. For example, "int (*)[4]" is written as "__typeof__(int[4]) *".
 */
#include "splitc/sc1/unit.h"

static const char *const basic_names[] = {
    [BASIC_BOOL] = "_Bool",
    [BASIC_CHAR] = "char",
    [BASIC_SCHAR] = "signed char",
    [BASIC_UCHAR] = "unsigned char",
    [BASIC_SHORT] = "short",
    [BASIC_USHORT] = "unsigned short",
    [BASIC_INT] = "int",
    [BASIC_UINT] = "unsigned int",
    [BASIC_LONG] = "long",
    [BASIC_ULONG] = "unsigned long",
    [BASIC_LLONG] = "long long",
    [BASIC_ULLONG] = "unsigned long long",
    [BASIC_INT128] = "__int128",
    [BASIC_UINT128] = "unsigned __int128",
    [BASIC_FLOAT] = "float",
    [BASIC_DOUBLE] = "double",
    [BASIC_LDOUBLE] = "long double",
    [BASIC_OTHER] = NULL,
};

static const char *keyword_of(const struct tag *tag)
{
    return tag->keyword == K_STRUCT ? "struct" : tag->keyword == K_UNION ? "union" : "enum";
}

static void put_tag(struct unit *u, struct text *t, struct tag *tag)
{
    if (!tag->name && !tag->made_up && tag->brace >= 0) {
        tag->made_up = text_format(&u->arena, "__sc_tag_%d", ++u->made_up);
        edit_before(u, tag->brace, text_format(&u->arena, "%s ", tag->made_up));
    }
    if (tag->name && tag->name->tag != tag)
        diag_error(u, u->at,
                   "'%s %s' is hidden here by another declaration of that name, so that this "
                   "access cannot be translated; rename one of them",
                   keyword_of(tag), tag->name->text);
    text_printf(t, "%s %s", keyword_of(tag), tag->name ? tag->name->text : tag->made_up);
}

static void put_type(struct unit *u, struct text *t, struct type *type, bool quals);

/* Add the base of a derived type, inside __typeof__ if the suffix must apply to the whole base. */
static void put_base(struct unit *u, struct text *t, struct type *base, bool simple)
{
    bool wrap = simple ? base->kind == TYPE_ARRAY || base->kind == TYPE_FUNCTION
                       : base->kind != TYPE_BASIC && base->kind != TYPE_VOID;

    if (wrap && !base->alias)
        text_puts(t, "__typeof__(");
    put_type(u, t, base, true);
    if (wrap && !base->alias)
        text_puts(t, ")");
}

static void put_function(struct unit *u, struct text *t, struct type *type)
{
    put_base(u, t, type->base, false);
    text_puts(t, "(");
    for (int i = 0; i < type->param_count; i++) {
        if (i)
            text_puts(t, ", ");
        put_type(u, t, type->params[i], true);
    }
    if (type->variadic)
        text_puts(t, ", ...");
    else if (type->prototyped && type->param_count == 0)
        text_puts(t, "void");
    text_puts(t, ")");
}

static bool put_definition(struct unit *u, struct text *t, const struct type *type)
{
    const struct symbol *def = type->definition;

    if (!def || def->name->symbol != def || def->type->quals)
        return false;
    text_puts(t, def->stands_for ? def->stands_for : def->name->text);
    return true;
}

static void put_type(struct unit *u, struct text *t, struct type *type, bool quals)
{
    bool pointer = type->kind == TYPE_POINTER && type->reach == REACH_LOCAL;

    if (quals && !pointer) {
        text_puts(t, type->quals & QUAL_CONST ? "const " : "");
        text_puts(t, type->quals & QUAL_VOLATILE ? "volatile " : "");
    }
    if (type->alias) {
        text_puts(t, type->alias);
    } else if (put_definition(u, t, type)) {
        ;
    } else if (type_is_wide(type)) {
        text_puts(t, "sc_ptr");
    } else if (type->kind == TYPE_VOID) {
        text_puts(t, "void");
    } else if (type->kind == TYPE_RECORD || type->kind == TYPE_ENUM) {
        put_tag(u, t, type->tag);
    } else if (type->kind == TYPE_ARRAY) {
        put_base(u, t, type->base, false);
        text_printf(t, "[%s]", type->text ? type->text : "");
    } else if (type->kind == TYPE_FUNCTION) {
        put_function(u, t, type);
    } else if (pointer) {
        put_base(u, t, type->base, true);
        text_puts(t, " *");
    } else if (type->text) {
        text_puts(t, type->text);
    } else if (type->kind == TYPE_BASIC) {
        text_puts(t, basic_names[type->basic]);
    } else {
        /* Print no error after an earlier one, which is very probably the cause. */
        if (u->errors == 0)
            diag_error(u, u->at, "the Split-C translator does not know the type of this");
        text_puts(t, "int");
    }
    if (quals && pointer) {
        text_puts(t, type->quals & QUAL_CONST ? " const" : "");
        text_puts(t, type->quals & QUAL_VOLATILE ? " volatile" : "");
        text_puts(t, type->quals & QUAL_RESTRICT ? " __restrict__" : "");
    }
    if (t->len > (1u << 20))
        diag_limit(u, u->at, "this type is too complex for the Split-C translator");
}

const char *type_text(struct unit *u, struct type *type)
{
    struct text t = {.arena = &u->arena};

    put_type(u, &t, type, false);
    return t.data;
}

const char *type_show(struct unit *u, const struct type *type)
{
    static const char *const reaches[] = {"*", "*global", "*spread"};
    const char *quals = type->quals & QUAL_CONST ? "const " : "";

    if (type->definition)
        return text_format(&u->arena, "%s%s", quals, type->definition->name->text);
    switch (type->kind) {
    case TYPE_VOID:
        return "void";
    case TYPE_BASIC:
        if (!type->text)
            return text_format(&u->arena, "%s%s", quals, basic_names[type->basic]);
        break;
    case TYPE_ENUM:
    case TYPE_RECORD:
        return text_format(&u->arena, "%s%s %s", quals, keyword_of(type->tag),
                           type->tag->name ? type->tag->name->text : "<anonymous>");
    case TYPE_POINTER:
        return text_format(&u->arena, "%s %s", type_show(u, type->base), reaches[type->reach]);
    case TYPE_ARRAY:
        return text_format(&u->arena, "%s [%s]", type_show(u, type->base),
                           type->text ? type->text : "");
    case TYPE_SPREAD:
        return text_format(&u->arena, "%s []::", type_show(u, type->base));
    case TYPE_FUNCTION:
        return text_format(&u->arena, "%s ()", type_show(u, type->base));
    case TYPE_UNKNOWN:
        break;
    }
    return type->text ? type->text : "<unknown type>";
}
