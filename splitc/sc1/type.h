/*
 * Types of C and of Split-C. A finished type does not change, so types may share parts. There are
 * two exceptions: a struct later gets its members, and an array of run-time size gets its name.
 *
 * sc1 knows the structure of types, but not their sizes: gcc computes the sizes in the output.
 */
#ifndef SPLITC_SC1_TYPE_H
#define SPLITC_SC1_TYPE_H

#include "splitc/sc1/token.h"

enum type_kind {
    TYPE_UNKNOWN, /* sc1 does not know the type, and prints no messages about it */
    TYPE_VOID,
    TYPE_BASIC,
    TYPE_ENUM,
    TYPE_RECORD, /* struct or union */
    TYPE_POINTER,
    TYPE_ARRAY,
    TYPE_SPREAD, /* a spread array, also with some of its spread subscripts applied */
    TYPE_FUNCTION
};

/* Arithmetic types in the order of conversion ranks; signed before unsigned. */
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
    BASIC_OTHER /* complex, _FloatN, va_list: type.text has the spelling */
};

/* Where the target of a pointer may be. */
enum reach { REACH_LOCAL, REACH_GLOBAL, REACH_SPREAD };

enum { QUAL_CONST = 1, QUAL_VOLATILE = 2, QUAL_RESTRICT = 4, QUAL_ATOMIC = 8 };

/* Longest chain of type.base; type_new refuses a longer chain. */
#define TYPE_DEPTH_MAX 500

struct member {
    struct member *next;
    struct name *name; /* NULL: an anonymous struct or union, or a nameless bit-field */
    struct type *type;
    bool bit_field;
};

/* A struct, union or enum; `name` is its tag. */
struct tag {
    struct name *name;      /* NULL: the source gives no name */
    const char *made_up;    /* NULL, or a name "__sc_tag_N" that sc1 puts before the brace */
    int keyword;            /* K_STRUCT, K_UNION, K_ENUM */
    int brace;              /* index of the token "{", or -1 */
    struct tag *shadowed;   /* the tag of an outer scope that this one hides, or NULL */
    struct tag *in_scope;   /* the next older tag of the same scope */
    struct member *members; /* in order */
    bool has_global;        /* a member is or contains a wide pointer */
    bool complete;
};

/* The spread dimensions of a spread array. */
struct dims {
    int count;          /* at least 1 */
    const char **texts; /* the bound of each dimension, as C text; [0] may be NULL */
};

struct type {
    enum type_kind kind;
    enum basic basic;          /* TYPE_BASIC */
    enum reach reach;          /* TYPE_POINTER */
    unsigned quals;            /* QUAL_... */
    int depth;                 /* number of types in the chain of `base` */
    struct type *base;         /* target of a pointer, element, block (spread array), or result */
    struct tag *tag;           /* only for TYPE_RECORD and TYPE_ENUM */
    const char *text;          /* TYPE_BASIC, TYPE_UNKNOWN: spelling, NULL if it has none;
                                   TYPE_ARRAY: the bound between the brackets */
    bool run_time;             /* TYPE_ARRAY: its bound or an inner bound is not constant */
    const char *alias;         /* TYPE_ARRAY: generated name of this type, or NULL */
    struct symbol *definition; /* the typedef with which the source names the type, or NULL */
    struct dims *dims;         /* TYPE_SPREAD */
    int dims_used;             /* TYPE_SPREAD: number of spread subscripts applied so far */
    struct type **params;      /* only for TYPE_FUNCTION */
    int param_count;           /* only for TYPE_FUNCTION */
    bool prototyped, variadic; /* only for TYPE_FUNCTION */
};

struct unit;

struct type *type_new(struct unit *u, enum type_kind kind, struct type *base);
struct type *type_basic(struct unit *u, enum basic basic);
struct type *type_pointer(struct unit *u, struct type *base, enum reach reach);

/* type_qualified adds these qualifiers to the type; type_plain removes all. */
struct type *type_qualified(struct unit *u, struct type *type, unsigned quals);
struct type *type_plain(struct unit *u, struct type *type);

/* Is the type a wide pointer, or a spread array (which decays to a spread pointer)? */
bool type_is_wide(const struct type *type);

/* Is the type an arithmetic type? Is it an integer type? An enum is both. */
bool type_is_number(const struct type *type);
bool type_is_integer(const struct type *type);

/* Does an object of this type contain a wide pointer? */
bool type_holds_wide(const struct type *type);

/* Returns a pointer type for an array, spread array or function; otherwise the same type. */
struct type *type_decayed(struct unit *u, struct type *type);

/* Are the types the same apart from qualifiers? An unknown type counts as the same as any other. */
bool type_same(const struct type *a, const struct type *b);

/*
 * A type name for the output, without outer qualifiers, that gcc understands at this point of the
 * source. If there is no such name, prints an error.
 */
const char *type_text(struct unit *u, struct type *type);

/* The type as the user would write it, for diagnostics. */
const char *type_show(struct unit *u, const struct type *type);

/* The suffix of the runtime's functions for the type (sc_read_4): 1, 2, 4, 8, f, d. NULL: none. */
const char *type_suffix(const struct type *type);

/* Find the member with this name, also in anonymous structs and unions. NULL: there is none. */
struct member *type_member(const struct type *record, const struct name *name);

#endif
