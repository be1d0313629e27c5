/*
 * One translation: its tokens, scopes and messages, and what the parts of sc1 call in each other.
 *
 *   lex.c     input -> tokens            emit.c    tokens and edits -> output
 *   scope.c   names and their meaning    diag.c    messages in gcc's format
 *   decl*.c   declarations, declarators  init.c    initialisers
 *   stmt.c    statements and functions   expr*.c   expressions and their types
 *   type*.c   types and their text       lower*.c  edits for expressions of Split-C
 */
#ifndef SPLITC_SC1_UNIT_H
#define SPLITC_SC1_UNIT_H

#include <stdio.h>

#include "splitc/sc1/type.h"

#define NAME_BUCKETS 4096
/* Nested constructs of the grammar; a pair of parentheses in an expression counts three. */
#define NESTING_MAX 1500
/* Operators on top of each other in one expression, "a + a + a ..." included. */
#define HEIGHT_MAX 3000
#define ERRORS_MAX 50

enum symbol_kind { SYM_OBJECT, SYM_TYPEDEF, SYM_ENUMERATOR };

/* How a spread array is kept in the output. */
enum spread_form {
    FORM_POINTER, /* a variable of type sc_ptr */
    FORM_ARRAY    /* an ordinary array, with the same address in every process */
};

struct symbol {
    struct name *name;
    enum symbol_kind kind;
    struct type *type;
    struct symbol *shadowed; /* what the name meant outside */
    struct symbol *in_scope; /* next older symbol of the same scope */
    enum spread_form form;   /* of a spread array */
    const char *stands_for;  /* the name in the output if it is another one */
    bool is_register;
    bool file_scope;
};

/* A place where automatic spread arrays come into being: jumps may not enter its rest. */
struct spread_mark {
    struct spread_mark *outer; /* the one in force when this one was declared */
    int token;                 /* its name */
};

struct scope {
    struct scope *outer;
    struct symbol *symbols;   /* newest first */
    struct tag *tags;         /* newest first */
    struct spread_mark *mark; /* in force when the scope was entered */
};

struct token_list {
    struct token *items;
    int count, cap;
};

struct string_list {
    const char **items;
    int count, cap;
};

/* A goto or a label of the function, for the check of jumps. */
struct jump {
    struct name *name;
    int token;
    struct spread_mark *mark; /* in force there */
    bool is_label;
};

struct jump_list {
    struct jump *items;
    int count, cap;
};

/* The function whose body is being parsed. */
struct function {
    struct function *outer; /* GNU C has nested functions */
    struct name *name;
    struct type *result;
    struct jump_list jumps;
    struct spread_mark *switch_mark; /* in force at the innermost switch */
    int first_token;                 /* of the outermost function's definition */
};

struct unit {
    struct arena arena;
    const char *input;
    size_t input_len;
    struct token_list tokens; /* the last one is T_EOF */
    struct string_list files; /* names as in line markers */
    struct name *names[NAME_BUCKETS];
    int at;       /* current token */
    int external; /* first token of the declaration of file scope being parsed */
    int nesting;  /* see NESTING_MAX */
    struct scope *scope;
    struct spread_mark *mark;  /* newest automatic spread array in scope */
    struct function *function; /* NULL at file scope */
    struct text companions;    /* generated declarations for the parameters being parsed */
    bool colon_taken;          /* inside the middle of "? :", where ":-" is no operator */
    int made_up;               /* names made up so far */
    int statics;               /* spread arrays with a size known at start-up */
    jmp_buf *recover;          /* after a syntax error */
    jmp_buf *give_up;          /* when nothing can be done */
    FILE *messages;
    int errors;
    unsigned options;          /* SC1_... */
    const char *said_function; /* the function that the last message was about */
    bool limit_told;           /* the message about a limit is out */
};

/* ---- lex.c ---- */

/* Cut the input into tokens. */
void lex(struct unit *u);
/* The one name of that spelling. */
struct name *lex_name(struct unit *u, const char *text, size_t len);

static inline struct token *unit_token(struct unit *u)
{
    return &u->tokens.items[u->at];
}

static inline struct token *unit_peek(struct unit *u, int ahead)
{
    int i = u->at + ahead;

    return &u->tokens.items[i < u->tokens.count ? i : u->tokens.count - 1];
}

static inline bool unit_is(struct unit *u, int id)
{
    return unit_token(u)->id == id;
}

/* Step over the current token, never beyond the end. Its index is returned. */
int unit_next(struct unit *u);
/* Step over it if it is this one. */
bool unit_skip_if(struct unit *u, int id);
/* It must be this one, else a syntax error. Its index is returned. */
int unit_expect(struct unit *u, int id);
/* At "(", "[" or "{": step behind its partner. */
void unit_skip_group(struct unit *u);
/* Count nesting; too deep ends the translation. */
void unit_deeper(struct unit *u);

/* ---- diag.c ---- */

/* Messages about a token. Text in gcc's style, without a full stop. */
void diag_error(struct unit *u, int token, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void diag_warning(struct unit *u, int token, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void diag_note(struct unit *u, int token, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* An error at the current token from which parsing cannot go on; goes to u->recover. */
void diag_syntax(struct unit *u, const char *expected) __attribute__((noreturn));
/* A limit of sc1 was reached: an error that ends the translation. */
void diag_limit(struct unit *u, int token, const char *what) __attribute__((noreturn));

/* ---- scope.c ---- */

void scope_enter(struct unit *u);
void scope_leave(struct unit *u);
/* Leave scopes until `scope` is the current one. */
void scope_leave_to(struct unit *u, struct scope *scope);
struct symbol *scope_declare(struct unit *u, struct name *name, enum symbol_kind kind,
                             struct type *type);
/* A new tag of this scope, visible under `name` (NULL: none). */
struct tag *scope_tag(struct unit *u, struct name *name, int keyword);
/* Was this tag declared in the current scope itself? */
bool scope_owns_tag(const struct unit *u, const struct tag *tag);
/* The current token names a type through a typedef. */
bool scope_is_typedef(struct unit *u, const struct token *token);

/* ---- emit.c ---- */

void edit_before(struct unit *u, int token, const char *text); /* behind earlier "before" texts */
void edit_after(struct unit *u, int token,
                const char *text); /* in front of earlier "after" texts */
void edit_replace(struct unit *u, int token, const char *text);
/* Delete the tokens from first to last with the edits between them; gaps stay. */
void edit_delete(struct unit *u, int first, int last);
/* The tokens as edited, on one line. */
const char *edit_text(struct unit *u, int first, int last);
void emit(struct unit *u, FILE *out);

/* ---- sc1.c ---- */

/* Options of a translation: gcc's -w and -Werror. */
enum { SC1_NO_WARNINGS = 1, SC1_WARNINGS_ARE_ERRORS = 2 };

/*
 * Translate `len` bytes of preprocessed Split-C. Messages go to `messages`, the C text to `out` if
 * there was no error. Returns 0, or 1 if there were errors. Keeps no state between calls.
 */
int sc1_translate(const char *input, size_t len, FILE *out, FILE *messages, unsigned options);

#endif
