/*
 * Expressions. The parser makes a tree of each full expression. Each node has its type and its
 * range of tokens. Then a lower_* function walks through the tree and edits the tokens. An
 * expression of plain C gets no edits.
 */
#ifndef SPLITC_SC1_EXPR_H
#define SPLITC_SC1_EXPR_H

#include "splitc/sc1/unit.h"

enum expr_op {
    EX_IDENT,
    EX_CONSTANT,
    EX_STRING,
    EX_PAREN,
    EX_INDEX,     /* kid[0] [ kid[1] ] */
    EX_CALL,      /* kid[0] ( args ) */
    EX_WIDE_CALL, /* a call of tolocal, toglobal or toproc */
    EX_MEMBER,    /* kid[0] . member */
    EX_ARROW,     /* kid[0] -> member */
    EX_PREFIX,    /* ++ -- */
    EX_POSTFIX,
    EX_ADDRESS,
    EX_DEREF,
    EX_UNARY,   /* + - ~ ! and GNU's __real__, __imag__, __extension__ */
    EX_SIZEOF,  /* sizeof or alignof of kid[0], or of a type if kid[0] is NULL */
    EX_CAST,    /* (type) kid[0] */
    EX_LITERAL, /* compound literal */
    EX_BINARY,
    EX_CONDITION, /* kid[0] ? kid[1] : kid[2]; kid[1] may be NULL (GNU) */
    EX_ASSIGN,    /* = and op= */
    EX_SPLIT,     /* := and :- */
    EX_COMMA,
    EX_BLOCK, /* statement expression; the parser has already lowered it */
    EX_OPAQUE /* _Generic, &&label, a built-in with types as arguments; args has its expressions */
};

struct expr {
    enum expr_op op;
    struct type *type; /* type of the object; an array has its array type, not a pointer type */
    bool global;       /* the object may be in another process */
    int op_id;         /* id of the operator's token */
    int op_token;      /* index of the operator's token; of "[" in EX_INDEX, of "(" in EX_CALL */
    int first, last;   /* indexes of its first and last token */
    struct expr *kid[3];
    struct expr **args; /* only for EX_CALL, EX_WIDE_CALL, EX_OPAQUE */
    int arg_count;
    int height;            /* height of the tree below this node */
    struct member *member; /* only for EX_MEMBER, EX_ARROW; NULL if sc1 does not know the member */
    struct symbol *symbol; /* only for EX_IDENT; NULL if undeclared */
    bool zero;             /* only for EX_CONSTANT: it is the integer 0 */
};

/* ---- expr.c ---- */

/* Each function parses the kind of expression in its name; expr_parse also accepts commas. */
struct expr *expr_parse(struct unit *u);
struct expr *expr_parse_assignment(struct unit *u);
struct expr *expr_parse_conditional(struct unit *u);

/* ---- exprtree.c ---- */

/* Is the value known only at run time? Used for the bounds of arrays. */
bool expr_is_run_time(const struct expr *e);
/* Is the expression a null pointer constant? */
bool expr_is_null(const struct expr *e);

/* ---- exprtype.c ---- */

/* Set e->type and e->global from e's kids. Print an error if Split-C forbids the expression. */
void expr_check(struct unit *u, struct expr *e);
/* The type of the expression's value. An array becomes a pointer, a global one in global space. */
struct type *expr_value_type(struct unit *u, const struct expr *e);

/* ---- lower*.c ---- */

/* Is the value of the expression used? */
enum lower_use { USE_VALUE, USE_NOTHING };

void lower_value(struct unit *u, struct expr *e, enum lower_use use);
/* Lower a condition. In the output it only matters whether the value is 0. */
void lower_condition(struct unit *u, struct expr *e);
/* Lower a value, and convert it to the type `target` by the rules of an assignment. */
void lower_convert(struct unit *u, struct expr *e, struct type *target);
/*
 * As lower_convert, but for an initialiser of static storage, where gcc needs a constant. elided:
 * the source has no braces around the initialised object, so the output must have no braces.
 */
void lower_constant(struct unit *u, struct expr *e, struct type *target, bool elided);
/* Lower an object in global space to its address, of type sc_ptr. */
void lower_address(struct unit *u, struct expr *e);

/* Defined in lower_operator.c. Lowers operators whose result is not an object in global space. */
void lower_operator(struct unit *u, struct expr *e, enum lower_use use);
/* Defined in lower_assign.c, called in lower_operator.c. */
void lower_assign(struct unit *u, struct expr *e, enum lower_use use);
void lower_step(struct unit *u, struct expr *e, enum lower_use use);
void lower_split(struct unit *u, struct expr *e);
/* Defined in lower_wide.c. Lower operators and conversions of wide pointers. */
void lower_binary(struct unit *u, struct expr *e);
void lower_cast(struct unit *u, struct expr *e);
void lower_wide_call(struct unit *u, struct expr *e);

/* Put text around the tokens of e. */
void lower_wrap(struct unit *u, const struct expr *e, const char *before, const char *after);
/* Start of a call ("sc_sadd(") that adds to a wide pointer. reversed: the number is on the left. */
const char *lower_add_name(const struct type *pointer, bool reversed);
/* The text "sizeof(T)" for the type T. */
const char *lower_size(struct unit *u, struct type *type);

#endif
