/*
 * Types of C and of Split-C. A type is never changed after it has been built, except that a struct is
 * completed and an array of run-time size gets its name; so types may share parts.
 *
 * sc1 knows kinds and structure of types but computes no sizes: gcc does that in the output.
 */
#ifndef SPLITC_SC1_TYPE_H
#define SPLITC_SC1_TYPE_H

#include "splitc/sc1/token.h"

enum type_kind {
    TYPE_UNKNOWN, /* what sc1 need not understand; nothing is diagnosed about it */
    TYPE_VOID,
    TYPE_BASIC,
    TYPE_ENUM,
    TYPE_RECORD, /* struct or union */
    TYPE_POINTER,
    TYPE_ARRAY,
    TYPE_SPREAD, /* a spread array, or what is left of it after some spread subscripts */
    TYPE_FUNCTION
};

/* In the order of their conversion rank, signed before unsigned. */
enum basic {
    BASIC_BOOL,
    BASIC_CHAR,
    BASIC_SCHAR,
    BASIC_UCHAR,
    BASIC_SHORT,
    BASIC_USHORT,
    BASIC_INT,
    BASIC_UINT,
    BASIC_LONG,
    BASIC_ULONG,
    BASIC_LLONG,
    BASIC_ULLONG,
    BASIC_INT128,
    BASIC_UINT128,
    BASIC_FLOAT,
    BASIC_DOUBLE,
    BASIC_LDOUBLE,
    BASIC_OTHER /* complex, _FloatN, va_list: `text` spells it */
};

/* Where the target of a pointer may be. */
enum reach { REACH_LOCAL, REACH_GLOBAL, REACH_SPREAD };

enum { QUAL_CONST = 1, QUAL_VOLATILE = 2, QUAL_RESTRICT = 4, QUAL_ATOMIC = 8 };

/* A type that sc1 made unreadable with a deeper chain than this is refused, see type_new. */
#define TYPE_DEPTH_MAX 500

struct member {
    struct member *next;
    struct name *name; /* NULL: an anonymous struct or union, or a nameless bit-field */
    struct type *type;
    bool bit_field;
};

/* A struct, union or enum with its tag. */
struct tag {
    struct name *name;      /* NULL until one had to be made up */
    const char *made_up;    /* "__sc_tag_N", put before the brace */
    int keyword;            /* K_STRUCT, K_UNION, K_ENUM */
    int brace;              /* token index of its "{", or -1 */
    struct tag *shadowed;   /* what the name meant outside */
    struct tag *in_scope;   /* next older tag of the same scope */
    struct member *members; /* in order */
    bool has_global;        /* a member is or contains a global pointer */
    bool complete;
};

/* The spread dimensions of a spread array. */
struct dims {
    int count;          /* at least 1 */
    const char **texts; /* expression in generated code per dimension; [0] may be NULL */
};

struct type {
    enum type_kind kind;
    enum basic basic;          /* TYPE_BASIC */
    enum reach reach;          /* TYPE_POINTER */
    unsigned quals;            /* QUAL_... */
    int depth;                 /* longest chain of bases */
    struct type *base;         /* pointee, element, block of a spread array, result */
    struct tag *tag;           /* TYPE_RECORD, TYPE_ENUM */
    const char *text;          /* TYPE_BASIC, TYPE_UNKNOWN: spelling, NULL if it has none;
                                   TYPE_ARRAY: the bound between the brackets */
    bool run_time;             /* TYPE_ARRAY: the bound or the element's is not constant */
    const char *alias;         /* TYPE_ARRAY: a typedef name that stands for this type */
    struct symbol *definition; /* the typedef through which it was named, or NULL */
    struct dims *dims;         /* TYPE_SPREAD */
    int dims_used;             /* TYPE_SPREAD: subscripts already applied */
    struct type **params;      /* TYPE_FUNCTION */
    int param_count;           /* TYPE_FUNCTION */
    bool prototyped, variadic; /* TYPE_FUNCTION */
};

struct unit;

struct type *type_new(struct unit *u, enum type_kind kind, struct type *base);
struct type *type_basic(struct unit *u, enum basic basic);
struct type *type_pointer(struct unit *u, struct type *base, enum reach reach);

/* The same type with these qualifiers added, or with none. */
struct type *type_qualified(struct unit *u, struct type *type, unsigned quals);
struct type *type_plain(struct unit *u, struct type *type);

/* Global or spread pointers, and spread arrays, which become spread pointers when used. */
bool type_is_wide(const struct type *type);

/* Arithmetic types, enums included. */
bool type_is_number(const struct type *type);
bool type_is_integer(const struct type *type);

/* A wide pointer somewhere in an object of this type. */
bool type_holds_wide(const struct type *type);

/* What an expression of this type becomes when its value is used: arrays and functions decay. */
struct type *type_decayed(struct unit *u, struct type *type);

/* The same type but for qualifiers, as far as sc1 can tell (unknown types equal everything). */
bool type_same(const struct type *a, const struct type *b);

/*
 * A type name for the output, without outer qualifiers, that gcc understands at this point of the
 * source. A type that cannot be named here is an error.
 */
const char *type_text(struct unit *u, struct type *type);

/* The type as the user would write it, for diagnostics. */
const char *type_show(struct unit *u, const struct type *type);

/* The suffix of the runtime's access functions ("1", "2", "4", "8", "f", "d"), NULL for others. */
const char *type_suffix(const struct type *type);

/* The member of that name, looking into anonymous structs and unions; NULL if there is none. */
struct member *type_member(const struct type *record, const struct name *name);

#endif
