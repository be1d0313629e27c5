/* The parser of declarations and statements: the functions that its files call in each other. */
#ifndef SPLITC_SC1_PARSE_H
#define SPLITC_SC1_PARSE_H

#include "splitc/sc1/expr.h"

/* The place of a declaration in the source text. */
enum place { PLACE_FILE, PLACE_BLOCK, PLACE_FOR, PLACE_MEMBER, PLACE_PARAM, PLACE_TYPE_NAME };

enum spec_kind { SPEC_STORAGE, SPEC_REGISTER, SPEC_TYPE };

/* One specifier of a declaration: its kind and its tokens. Adjacent attributes count as one. */
struct spec_part {
    enum spec_kind kind;
    int first, last;
};

struct spec_parts {
    struct spec_part *items;
    int count, cap;
};

/* All specifiers of a declaration. */
struct specs {
    struct type *base;
    int first, last; /* indexes of the tokens; last < first if there are none */
    struct spec_parts parts;
    bool is_typedef, is_extern, is_static, is_register;
    bool has_body; /* the specifiers define a struct, union or enum */
    bool is_auto_type;
    bool opaque; /* an attribute changes the type itself (mode, vector_size) */
};

struct param {
    struct name *name; /* NULL: the parameter has no name */
    struct type *type;
    int token;
    bool is_register;
};

struct param_list {
    struct param *items;
    int count, cap;
};

enum derivation_kind { DERIVE_POINTER, DERIVE_ARRAY, DERIVE_SPREAD, DERIVE_FUNCTION };

/* One "*", "[n]", "[n]..[m]::" or "(...)" of a declarator. */
struct derivation {
    enum derivation_kind kind;
    int first, last;   /* indexes of its tokens; DERIVE_SPREAD: from the first "[" to "::" */
    int colons;        /* DERIVE_SPREAD: index of the first ":" of "::" */
    enum reach reach;  /* only for DERIVE_POINTER */
    unsigned quals;    /* only for DERIVE_POINTER */
    const char *bound; /* DERIVE_ARRAY: text between the brackets, or NULL */
    bool run_time;     /* a bound is not constant */
    struct dims *dims; /* DERIVE_SPREAD: the bounds, as text */
    struct param_list params;
    bool prototyped, variadic;
    const char *companions; /* DERIVE_FUNCTION: text for the start of the function's body */
};

struct derivation_list {
    struct derivation *items; /* from the name outwards: [0] is next to the name */
    int count, cap;
};

struct declarator {
    struct name *name; /* NULL: the declarator has no name */
    int name_token;
    int first, last; /* indexes of its tokens, with attributes; last < first if it is empty */
    struct derivation_list list;
    struct type *type;
    bool opaque;
    int wide;               /* sc_ptr replaces list[wide] and all derivations after it; -1: none */
    const char *companions; /* declarations that the output needs before this one, or NULL */
    const char *spread;     /* generated initialiser of an automatic spread array, or NULL */
    bool outlives;          /* a spread array of static storage: its type cannot use local names */
    bool is_static_spread;  /* a static spread array that gets its memory at program start */
};

/* ---- specs.c ---- */

bool specs_start(struct unit *u);
/* Does this token start a type name (of a cast, for example)? */
bool specs_type_name_starts(struct unit *u, const struct token *token);
void specs_parse(struct unit *u, struct specs *specs);
/* Skip attributes from the current token on. Returns true if one of them changes the type. */
bool specs_attributes(struct unit *u);

/* ---- typespec.c ---- */

/* Parse a type specifier other than words such as int or unsigned. NULL: none starts here. */
struct type *typespec_parse(struct unit *u, struct specs *specs, bool have_type);
/* Parse _Atomic(type). Returns NULL for the qualifier _Atomic. */
struct type *typespec_atomic(struct unit *u);

/* ---- record.c ---- */

/* Parse a specifier that starts with "struct", "union" or "enum". */
struct type *record_parse(struct unit *u, bool *ret_has_body);

/* ---- declarator.c ---- */

void declarator_parse(struct unit *u, struct declarator *d, enum place place);
/* Make d->type from specs->base and the derivations, and delete the tokens that sc_ptr replaces. */
void declarator_finish(struct unit *u, struct declarator *d, const struct specs *specs,
                       enum place place);
/* Parse a type name, for example the type name in a cast, and make its edits. */
struct type *declarator_type_name(struct unit *u);

/* ---- declbase.c ---- */

/* State of decl_base between the declarators of one declaration. */
struct base_state {
    enum place place;
    bool started; /* decl_base was called for an earlier declarator */
    bool wide;    /* the current declaration of the output has the base type sc_ptr */
    int comma;    /* index of the "," before the current declarator, or -1 */
};

/* Edit the base type of a declarator. The caller has called declarator_finish for it. */
void decl_base(struct unit *u, struct base_state *state, const struct specs *specs,
               const struct declarator *d);

/* ---- decl.c ---- */

/* Parse a declaration or function at file scope. */
void decl_external(struct unit *u);
/* Parse a declaration in a block, or in the head of a "for". */
void decl_block(struct unit *u, enum place place);
/* After a syntax error in the declaration that starts at token `from`: skip to its end. */
void decl_recover(struct unit *u, int from);
/* Parse "_Static_assert(...)" without its semicolon. */
void decl_static_assert(struct unit *u);

/* ---- declspread.c ---- */

/* Choose the storage of a spread array; sets d->companions, d->spread and the dims of d->type. */
void spread_declare(struct unit *u, struct declarator *d, const struct specs *specs,
                    enum place place);
/* Returns C text that allocates a spread array of static storage at the start of the program. */
const char *spread_static_text(struct unit *u, const char *variable, const struct type *type,
                               bool own_variable);

/* ---- init.c ---- */

/*
 * Parse the initialiser after "=" or in a compound literal. Returns the type of the value if the
 * initialiser is an expression, or NULL if the initialiser has braces.
 */
struct type *init_parse(struct unit *u, struct type *type, bool is_constant);

/* ---- stmt.c ---- */

/* Parse the body of a function, from "{" to "}". */
void stmt_function_body(struct unit *u, const struct declarator *d, int first_token);
/* Parse a block, "{" to "}", in a new scope. Returns the type of its last expression, or NULL. */
struct type *stmt_block(struct unit *u);

#endif
