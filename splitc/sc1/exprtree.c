/* Tests an expression: is its value known only at run time, is it a null pointer constant? */
#include "splitc/sc1/expr.h"

bool expr_is_run_time(const struct expr *e)
{
    switch (e->op) {
    case EX_CONSTANT:
    case EX_STRING:
        return false;
    case EX_IDENT:
        return !(e->symbol && e->symbol->kind == SYM_ENUMERATOR);
    case EX_SIZEOF:
        return false;
    case EX_PAREN:
    case EX_UNARY:
    case EX_CAST:
    case EX_BINARY:
    case EX_CONDITION:
        for (int i = 0; i < 3; i++)
            if (e->kid[i] && expr_is_run_time(e->kid[i]))
                return true;
        return false;
    case EX_OPAQUE: /* offsetof and similar built-ins are constants */
        return false;
    default:
        return true;
    }
}

bool expr_is_null(const struct expr *e)
{
    while (e->op == EX_PAREN || (e->op == EX_UNARY && e->op_id == K_EXTENSION) ||
           (e->op == EX_CAST && (e->type->kind == TYPE_POINTER || type_is_integer(e->type))))
        e = e->kid[0];
    return e->op == EX_CONSTANT && e->zero;
}
