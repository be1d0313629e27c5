/*
 * Expressions. The parser makes a tree of a full expression; each node knows its type and its range
 * of tokens. Then a lower function walks the tree and puts the edits on the tokens. A tree without
 * Split-C gets no edits.
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
    EX_WIDE_CALL, /* tolocal, toglobal, toproc: args only */
    EX_MEMBER,    /* kid[0] . member */
    EX_ARROW,     /* kid[0] -> member */
    EX_PREFIX,    /* ++ -- */
    EX_POSTFIX,
    EX_ADDRESS,
    EX_DEREF,
    EX_UNARY,   /* + - ~ ! and GNU's real, imag, extension */
    EX_SIZEOF,  /* of kid[0], or of a type if kid[0] is NULL; alignof too */
    EX_CAST,    /* (type) kid[0] */
    EX_LITERAL, /* compound literal */
    EX_BINARY,
    EX_CONDITION, /* kid[0] ? kid[1] : kid[2], kid[1] may be NULL (GNU) */
    EX_ASSIGN,    /* = and op= */
    EX_SPLIT,     /* := and :- */
    EX_COMMA,
    EX_BLOCK, /* statement expression: its edits are made already */
    EX_OPAQUE /* built-ins with types as arguments, _Generic: args are lowered */
};

struct expr {
    enum expr_op op;
    struct type *type; /* type of the object; an array has not decayed */
    bool global;       /* the object may be in another process */
    int op_id;         /* id of the operator's token */
    int op_token;      /* index of this token; EX_INDEX: of "[", EX_CALL: of "(" */
    int first, last;   /* tokens of the expression */
    struct expr *kid[3];
    struct expr **args; /* EX_CALL, EX_WIDE_CALL, EX_OPAQUE */
    int arg_count;
    int height;            /* of the tree */
    struct member *member; /* EX_MEMBER, EX_ARROW; NULL if unknown to sc1 */
    struct symbol *symbol; /* EX_IDENT, NULL if undeclared */
    bool zero;             /* EX_CONSTANT: an integer 0 */
};

/* ---- expr.c ---- */

/* Parse an expression (with commas), an assignment expression, a conditional expression. */
struct expr *expr_parse(struct unit *u);
struct expr *expr_parse_assignment(struct unit *u);
struct expr *expr_parse_conditional(struct unit *u);

/* ---- exprtree.c ---- */

/* Is the value known only at run time? An array with such a bound has a run-time type. */
bool expr_is_run_time(const struct expr *e);
/* Is it a null pointer constant? */
bool expr_is_null(const struct expr *e);

/* ---- exprtype.c ---- */

/* Set e->type and e->global from the kids; reports what Split-C forbids. */
void expr_check(struct unit *u, struct expr *e);
/* The type of the expression's value. Arrays decay; in global space to a global pointer. */
struct type *expr_value_type(struct unit *u, const struct expr *e);

/* ---- lower*.c ---- */

/* Is the value of the expression used? */
enum lower_use { USE_VALUE, USE_NOTHING };

void lower_value(struct unit *u, struct expr *e, enum lower_use use);
/* For a condition: only the truth value is used. */
void lower_condition(struct unit *u, struct expr *e);
/* The value is converted like in an assignment to an object of this type. */
void lower_convert(struct unit *u, struct expr *e, struct type *target);
/*
 * The same where gcc needs a constant. elided: the source leaves out the braces around the object,
 * so the edits must leave them out, too.
 */
void lower_constant(struct unit *u, struct expr *e, struct type *target, bool elided);
/* Turn an object in global space into its address, of type sc_ptr. */
void lower_address(struct unit *u, struct expr *e);

/* Of lower_operator.c, for lower.c: an operation whose result is no object in global space. */
void lower_operator(struct unit *u, struct expr *e, enum lower_use use);
/* Of lower_assign.c, for lower_operator.c. */
void lower_assign(struct unit *u, struct expr *e, enum lower_use use);
void lower_step(struct unit *u, struct expr *e, enum lower_use use);
void lower_split(struct unit *u, struct expr *e);
/* Of lower_wide.c, for lower_operator.c: operators and conversions of global pointers. */
void lower_binary(struct unit *u, struct expr *e);
void lower_cast(struct unit *u, struct expr *e);
void lower_wide_call(struct unit *u, struct expr *e);

/* Put text around the tokens of e. */
void lower_wrap(struct unit *u, const struct expr *e, const char *before, const char *after);
/* Start of the call that adds a number to a wide pointer. reversed: the number is on the left. */
const char *lower_add_name(const struct type *pointer, bool reversed);
/* "sizeof(T)" for arithmetic on a pointer to T. */
const char *lower_size(struct unit *u, struct type *type);

#endif
