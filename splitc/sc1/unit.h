/*
 * One translation: its tokens, scopes and messages, and the functions that the files of sc1 share.
 *
 *   lex.c     input -> tokens            emit.c    tokens and edits -> output
 *   scope.c   names and their meaning    diag.c    messages in gcc's format
 *   decl*.c   declarations, declarators  init.c    initialisers
 *   stmt.c    statements and functions   expr*.c   expressions and their types, with primary.c
 *   specs.c   specifiers of declarations, with typespec.c and record.c
 *   type*.c   types and their text       lower*.c  edits for expressions of Split-C
 *
 * A wide pointer is a global or spread pointer. To lower an expression means: edit its tokens so
 * that they are C. Companions are declarations that sc1 generates for a declaration or function.
 */
#ifndef SPLITC_SC1_UNIT_H
#define SPLITC_SC1_UNIT_H

#include <stdio.h>

#include "splitc/sc1/type.h"

#define NAME_BUCKETS 4096
/* Limit for the levels of nested constructs in the source: the parser is recursive, so each level
 * takes stack. A pair of parentheses in an expression counts as three levels. */
#define NESTING_MAX 1500
/* Limit for the height of an expression tree ("a + a + a ..." is high): lowering is recursive. */
#define HEIGHT_MAX 3000
/* After this number of errors the translation ends. */
#define ERRORS_MAX 50

enum symbol_kind { SYM_OBJECT, SYM_TYPEDEF, SYM_ENUMERATOR };

/* The form of a spread array in the output. */
enum spread_form {
    FORM_POINTER, /* a variable of type sc_ptr */
    FORM_ARRAY    /* an ordinary array, with the same address in every process */
};

struct symbol {
    struct name *name;
    enum symbol_kind kind;
    struct type *type;
    struct symbol *shadowed; /* the name's meaning in outer scopes, or NULL */
    struct symbol *in_scope; /* the next older symbol of the same scope */
    enum spread_form form;   /* only used if the type is a spread array */
    const char *stands_for;  /* the name in the output if it differs, otherwise NULL */
    bool is_register;
    bool file_scope;
};

/* A mark is the declaration of an automatic spread array. No jump may enter the array's scope. */
struct spread_mark {
    struct spread_mark *outer; /* the mark of the declaration before this one */
    int token;                 /* index of the token of the array's name */
};

struct scope {
    struct scope *outer;
    struct symbol *symbols;   /* newest first */
    struct tag *tags;         /* newest first */
    struct spread_mark *mark; /* the newest mark at the start of the scope */
};

struct token_list {
    struct token *items;
    int count, cap;
};

struct string_list {
    const char **items;
    int count, cap;
};

/* A goto or a label of a function, for the check of jumps. */
struct jump {
    struct name *name;
    int token;
    struct spread_mark *mark; /* the newest mark in scope at the goto or label */
    bool is_label;
};

struct jump_list {
    struct jump *items;
    int count, cap;
};

/* The function whose body is being parsed. */
struct function {
    struct function *outer; /* the outer function of a nested function (GNU C), or NULL */
    struct name *name;
    struct type *result;
    struct jump_list jumps;
    struct spread_mark *switch_mark; /* the newest mark at the innermost switch */
    int first_token;                 /* index of the outermost function's first token */
};

struct unit {
    struct arena arena;
    const char *input;
    size_t input_len;
    struct token_list tokens; /* the last token is T_EOF */
    struct string_list files; /* the file names in the line markers */
    struct name *names[NAME_BUCKETS];
    int at;       /* index of the current token */
    int external; /* index of the first token of the current file-scope declaration */
    int nesting;  /* current number of levels, at most NESTING_MAX */
    struct scope *scope;
    struct spread_mark *mark;  /* the newest mark that is in scope */
    struct function *function; /* NULL at file scope */
    struct text companions;    /* companions of the current parameters */
    bool colon_taken;          /* between "?" and ":", where ":=" and ":-" are no operators */
    int made_up;               /* count of generated names */
    int statics;               /* count of static spread arrays that get memory at the start */
    jmp_buf *recover;          /* jump target after a syntax error */
    jmp_buf *give_up;          /* jump target if an error ends the translation */
    FILE *messages;
    int errors;
    unsigned options;          /* SC1_... */
    const char *said_function; /* the function to which the last message belongs */
    bool limit_told;           /* a message about a limit was written */
};

/* ---- lex.c ---- */

/* Split the input into tokens. */
void lex(struct unit *u);
/* Find or make the name with this spelling. */
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

/* Skip the current token unless it is T_EOF. Returns the token's index. */
int unit_next(struct unit *u);
/* Skip the current token if it has this id. Returns true if the token was skipped. */
bool unit_skip_if(struct unit *u, int id);
/* Skip the current token and return its index. A token with another id is a syntax error. */
int unit_expect(struct unit *u, int id);
/* Skip the tokens from the current "(", "[" or "{" up to and with the matching bracket. */
void unit_skip_group(struct unit *u);
/* Add one to u->nesting; more than NESTING_MAX ends the translation. */
void unit_deeper(struct unit *u);

/* ---- diag.c ---- */

/* Print a message about a token. The text is in gcc's style, without a full stop. */
void diag_error(struct unit *u, int token, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void diag_warning(struct unit *u, int token, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void diag_note(struct unit *u, int token, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Print a syntax error at the current token, and jump to u->recover. */
void diag_syntax(struct unit *u, const char *expected) __attribute__((noreturn));
/* The source exceeds a limit of sc1: print an error and end the translation. */
void diag_limit(struct unit *u, int token, const char *what) __attribute__((noreturn));

/* ---- scope.c ---- */

void scope_enter(struct unit *u);
void scope_leave(struct unit *u);
/* Leave scopes until `scope` is the current one. */
void scope_leave_to(struct unit *u, struct scope *scope);
struct symbol *scope_declare(struct unit *u, struct name *name, enum symbol_kind kind,
                             struct type *type);
/* Make a tag in the current scope, with this name (NULL: without a name). */
struct tag *scope_tag(struct unit *u, struct name *name, int keyword);
/* Is this tag declared in the current scope, not in an outer one? */
bool scope_owns_tag(const struct unit *u, const struct tag *tag);
/* Is this token the name of a typedef? */
bool scope_is_typedef(struct unit *u, const struct token *token);

/* ---- emit.c ---- */

/* Put text directly before or after a token. If one side of a token gets several texts, a later
 * text is nearer to the token than the earlier texts. */
void edit_before(struct unit *u, int token, const char *text);
void edit_after(struct unit *u, int token, const char *text);
void edit_replace(struct unit *u, int token, const char *text);
/* Delete the tokens from first to last and the edits between them. The gaps before tokens stay. */
void edit_delete(struct unit *u, int first, int last);
/* The text of these tokens with their edits, on one line. */
const char *edit_text(struct unit *u, int first, int last);
void emit(struct unit *u, FILE *out);

/* ---- sc1.c ---- */

/* Options of a translation: gcc's -w and -Werror. */
enum { SC1_NO_WARNINGS = 1, SC1_WARNINGS_ARE_ERRORS = 2 };

/*
 * Translate `len` bytes of preprocessed Split-C. Writes messages to `messages`, and the C text to
 * `out` if there was no error. Returns 0, or 1 if there were errors. Keeps no state between calls.
 */
int sc1_translate(const char *input, size_t len, FILE *out, FILE *messages, unsigned options);

#endif
