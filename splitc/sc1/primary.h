/*
 * Only for expr.c and primary.c: functions that make nodes, and the parser of cast expressions.
 */
#ifndef SPLITC_SC1_PRIMARY_H
#define SPLITC_SC1_PRIMARY_H

#include "splitc/sc1/expr.h"

struct expr *expr_new(struct unit *u, enum expr_op op, int first);
/* Complete a node whose kids are set: set its last token, height and type. */
struct expr *expr_done(struct unit *u, struct expr *e);
struct expr *expr_unary(struct unit *u, enum expr_op op, struct expr *kid, int first);

/* Parse a cast expression: casts, unary operators, postfix operators, primary expressions. */
struct expr *primary_cast(struct unit *u);

#endif
