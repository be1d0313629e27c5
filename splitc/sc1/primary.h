/*
 * Shared by expr.c and primary.c only: node construction, and the lower half of the expression
 * grammar.
 */
#ifndef SPLITC_SC1_PRIMARY_H
#define SPLITC_SC1_PRIMARY_H

#include "splitc/sc1/expr.h"

struct expr *expr_new(struct unit *u, enum expr_op op, int first);
/* Set last token, height, type. The kids are in place. */
struct expr *expr_done(struct unit *u, struct expr *e);
struct expr *expr_unary(struct unit *u, enum expr_op op, struct expr *kid, int first);

/* A cast expression: casts, unary operators, postfix operators, primaries. */
struct expr *primary_cast(struct unit *u);

#endif
