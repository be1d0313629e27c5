/*
 * Types of C and of Split-C. Types may share parts, because a type does not change later, with two
 * exceptions: a struct gets its members, and an array of run-time size gets its name.
 *
 * sc1 knows the structure of types, but no sizes: in its output gcc computes these.
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
    TYPE_SPREAD, /* a spread array, also after some of its spread subscripts */
    TYPE_FUNCTION
};

/* In the order of conversion ranks, signed before unsigned. */
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

/* A struct, union or enum with its tag. */
struct tag {
    struct name *name;      /* NULL: the source gives no name */
    const char *made_up;    /* NULL, or a name "__sc_tag_N" that sc1 puts before the brace */
    int keyword;            /* K_STRUCT, K_UNION, K_ENUM */
    int brace;              /* token index of its "{", or -1 */
    struct tag *shadowed;   /* meaning of the name in outer scopes */
    struct tag *in_scope;   /* next older tag of the same scope */
    struct member *members; /* in order */
    bool has_global;        /* a member is or contains a global pointer */
    bool complete;
};

/* The spread dimensions of a spread array. */
struct dims {
    int count;          /* at least 1 */
    const char **texts; /* bound of each dimension, for generated code; [0] may be NULL */
};

struct type {
    enum type_kind kind;
    enum basic basic;          /* TYPE_BASIC */
    enum reach reach;          /* TYPE_POINTER */
    unsigned quals;            /* QUAL_... */
    int depth;                 /* length of the chain of bases */
    struct type *base;         /* target, element, block of a spread array, result of a function */
    struct tag *tag;           /* TYPE_RECORD, TYPE_ENUM */
    const char *text;          /* TYPE_BASIC, TYPE_UNKNOWN: spelling, NULL if it has none;
                                   TYPE_ARRAY: the bound between the brackets */
    bool run_time;             /* TYPE_ARRAY: a bound of it or of its elements is not constant */
    const char *alias;         /* TYPE_ARRAY: generated name of this type, or NULL */
    struct symbol *definition; /* the typedef with which the source names the type, or NULL */
    struct dims *dims;         /* TYPE_SPREAD */
    int dims_used;             /* TYPE_SPREAD: number of spread subscripts applied so far */
    struct type **params;      /* TYPE_FUNCTION */
    int param_count;           /* TYPE_FUNCTION */
    bool prototyped, variadic; /* TYPE_FUNCTION */
};

struct unit;

struct type *type_new(struct unit *u, enum type_kind kind, struct type *base);
struct type *type_basic(struct unit *u, enum basic basic);
struct type *type_pointer(struct unit *u, struct type *base, enum reach reach);

/* type_qualified adds these qualifiers to the type; type_plain removes all. */
struct type *type_qualified(struct unit *u, struct type *type, unsigned quals);
struct type *type_plain(struct unit *u, struct type *type);

/* Is it a wide pointer, or a spread array (which decays to a spread pointer)? */
bool type_is_wide(const struct type *type);

/* Is it an arithmetic type (an integer type)? An enum is both. */
bool type_is_number(const struct type *type);
bool type_is_integer(const struct type *type);

/* Does an object of this type contain a wide pointer? */
bool type_holds_wide(const struct type *type);

/* The type of the value of an expression with this type: arrays and functions become pointers. */
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

/* The suffix of the runtime's access functions for a type: 1, 2, 4, 8, f, d. NULL: no suffix. */
const char *type_suffix(const struct type *type);

/* The member with this name, also in anonymous structs and unions; NULL: none. */
struct member *type_member(const struct type *record, const struct name *name);

#endif
