/*
 * Tokens of preprocessed C, names, and the ids of keywords and punctuators.
 *
 * The output of sc1 is its input with edits. sc1 keeps the text of each token, and the bytes before
 * the token (white space, line markers, pragmas). An edit puts text before the token, after it, or
 * in its place. Without edits the output equals the input, byte for byte.
 */
#ifndef SPLITC_SC1_TOKEN_H
#define SPLITC_SC1_TOKEN_H

#include "splitc/sc1/text.h"

/* The id of a punctuator consists of its characters. */
#define PUNCT2(a, b)    ((a) | (b) << 8)
#define PUNCT3(a, b, c) ((a) | (b) << 8 | (c) << 16)

enum {
    T_EOF = 0,
    T_ARROW = PUNCT2('-', '>'),
    T_INC = PUNCT2('+', '+'),
    T_DEC = PUNCT2('-', '-'),
    T_SHL = PUNCT2('<', '<'),
    T_SHR = PUNCT2('>', '>'),
    T_LE = PUNCT2('<', '='),
    T_GE = PUNCT2('>', '='),
    T_EQ = PUNCT2('=', '='),
    T_NE = PUNCT2('!', '='),
    T_ANDAND = PUNCT2('&', '&'),
    T_OROR = PUNCT2('|', '|'),
    T_ELLIPSIS = PUNCT3('.', '.', '.'),
    T_IDENT = 1 << 24,
    T_NUMBER,
    T_CHAR,
    T_STRING,
    T_KEYWORDS = 1 << 25, /* the first id of a keyword */
    K_ALIGNAS = T_KEYWORDS,
    K_ALIGNOF,
    K_ASM,
    K_ATOMIC,
    K_ATTRIBUTE,
    K_AUTO,
    K_AUTO_TYPE,
    K_BOOL,
    K_BREAK,
    K_CASE,
    K_CHAR,
    K_COMPLEX,
    K_CONST,
    K_CONTINUE,
    K_DEFAULT,
    K_DO,
    K_DOUBLE,
    K_ELSE,
    K_ENUM,
    K_EXTENSION,
    K_EXTERN,
    K_FLOAT,
    K_FLOAT_N, /* _Float32, __float80 and others: see the token's text */
    K_FOR,
    K_GENERIC,
    K_GOTO,
    K_IF,
    K_IMAG,
    K_INLINE,
    K_INT,
    K_INT128,
    K_LABEL,
    K_LONG,
    K_NORETURN,
    K_OFFSETOF,
    K_REAL,
    K_REGISTER,
    K_RESTRICT,
    K_RETURN,
    K_SHORT,
    K_SIGNED,
    K_SIZEOF,
    K_STATIC,
    K_STATIC_ASSERT,
    K_STRUCT,
    K_SWITCH,
    K_THREAD,
    K_TYPEDEF,
    K_TYPEOF,
    K_TYPES_COMPATIBLE,
    K_UNION,
    K_UNSIGNED,
    K_VA_ARG,
    K_VOID,
    K_VOLATILE,
    K_WHILE
};

struct symbol;
struct tag;
struct label;

/* An identifier. Each spelling has one struct name, so equal names have equal pointers. */
struct name {
    struct name *next;     /* next name of the same hash bucket */
    const char *text;      /* NUL-terminated */
    uint32_t len;          /* bytes */
    int keyword;           /* K_..., or 0 */
    struct symbol *symbol; /* meaning of the name in the current scope, or NULL */
    struct tag *tag;       /* meaning of "struct name" in the current scope, or NULL */
};

struct token {
    int id;            /* T_..., K_... or a punctuator */
    uint32_t len;      /* bytes of its text */
    const char *text;  /* in the input */
    struct name *name; /* the spelling; only for identifiers and keywords */
    uint32_t file;     /* index into unit.files */
    uint32_t line;     /* line in the user's file, from 1 */
    uint32_t col;      /* column in the line of the input, in bytes from 1 */
    /* Edits, each NULL or a string of the arena. */
    const char *before;
    const char *instead; /* replaces the text; "" deletes it */
    const char *after;
};

#endif
