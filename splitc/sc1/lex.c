/*
 * Splits the input into tokens. Line markers, pragmas and comments belong to the gap before a
 * token; markers set file and line of the tokens after them. Old compilers allowed newlines in
 * string literals, and gcc's preprocessor keeps them: the lexer puts such a literal on one line.
 */
#include "splitc/sc1/unit.h"

#include <ctype.h>
#include <string.h>

#define FILES_MAX 100000

struct lexer {
    struct unit *u;
    const char *at, *end;
    const char *line_start;
    uint32_t file, line;
};

static const struct {
    const char *text;
    int keyword;
} keywords[] = {
    {"_Alignas", K_ALIGNAS},
    {"_Alignof", K_ALIGNOF},
    {"__alignof", K_ALIGNOF},
    {"__alignof__", K_ALIGNOF},
    {"asm", K_ASM},
    {"__asm", K_ASM},
    {"__asm__", K_ASM},
    {"_Atomic", K_ATOMIC},
    {"__attribute", K_ATTRIBUTE},
    {"__attribute__", K_ATTRIBUTE},
    {"auto", K_AUTO},
    {"__auto_type", K_AUTO_TYPE},
    {"_Bool", K_BOOL},
    {"break", K_BREAK},
    {"case", K_CASE},
    {"char", K_CHAR},
    {"_Complex", K_COMPLEX},
    {"__complex", K_COMPLEX},
    {"__complex__", K_COMPLEX},
    {"const", K_CONST},
    {"__const", K_CONST},
    {"__const__", K_CONST},
    {"continue", K_CONTINUE},
    {"default", K_DEFAULT},
    {"do", K_DO},
    {"double", K_DOUBLE},
    {"else", K_ELSE},
    {"enum", K_ENUM},
    {"__extension__", K_EXTENSION},
    {"extern", K_EXTERN},
    {"float", K_FLOAT},
    {"_Float16", K_FLOAT_N},
    {"_Float32", K_FLOAT_N},
    {"_Float64", K_FLOAT_N},
    {"_Float128", K_FLOAT_N},
    {"_Float32x", K_FLOAT_N},
    {"_Float64x", K_FLOAT_N},
    {"__float80", K_FLOAT_N},
    {"__float128", K_FLOAT_N},
    {"__bf16", K_FLOAT_N},
    {"_Decimal32", K_FLOAT_N},
    {"_Decimal64", K_FLOAT_N},
    {"_Decimal128", K_FLOAT_N},
    {"for", K_FOR},
    {"_Generic", K_GENERIC},
    {"goto", K_GOTO},
    {"if", K_IF},
    {"__imag", K_IMAG},
    {"__imag__", K_IMAG},
    {"inline", K_INLINE},
    {"__inline", K_INLINE},
    {"__inline__", K_INLINE},
    {"int", K_INT},
    {"__int128", K_INT128},
    {"__label__", K_LABEL},
    {"long", K_LONG},
    {"_Noreturn", K_NORETURN},
    {"__builtin_offsetof", K_OFFSETOF},
    {"__real", K_REAL},
    {"__real__", K_REAL},
    {"register", K_REGISTER},
    {"restrict", K_RESTRICT},
    {"__restrict", K_RESTRICT},
    {"__restrict__", K_RESTRICT},
    {"return", K_RETURN},
    {"short", K_SHORT},
    {"signed", K_SIGNED},
    {"__signed", K_SIGNED},
    {"__signed__", K_SIGNED},
    {"sizeof", K_SIZEOF},
    {"static", K_STATIC},
    {"_Static_assert", K_STATIC_ASSERT},
    {"struct", K_STRUCT},
    {"switch", K_SWITCH},
    {"_Thread_local", K_THREAD},
    {"__thread", K_THREAD},
    {"typedef", K_TYPEDEF},
    {"typeof", K_TYPEOF},
    {"__typeof", K_TYPEOF},
    {"__typeof__", K_TYPEOF},
    {"__builtin_types_compatible_p", K_TYPES_COMPATIBLE},
    {"union", K_UNION},
    {"unsigned", K_UNSIGNED},
    {"__builtin_va_arg", K_VA_ARG},
    {"void", K_VOID},
    {"volatile", K_VOLATILE},
    {"__volatile", K_VOLATILE},
    {"__volatile__", K_VOLATILE},
    {"while", K_WHILE},
};

/* Punctuators of several characters, longest first. Digraphs have the id of a bracket or brace. */
static const struct {
    const char *text;
    int id; /* 0: the id consists of the characters of `text` */
} puncts[] = {
    {"<<=", 0}, {">>=", 0},  {"...", 0},  {"->", 0},   {"++", 0},   {"--", 0}, {"<<", 0},
    {">>", 0},  {"<=", 0},   {">=", 0},   {"==", 0},   {"!=", 0},   {"&&", 0}, {"||", 0},
    {"+=", 0},  {"-=", 0},   {"*=", 0},   {"/=", 0},   {"%=", 0},   {"&=", 0}, {"|=", 0},
    {"^=", 0},  {"<:", '['}, {":>", ']'}, {"<%", '{'}, {"%>", '}'},
};

struct name *lex_name(struct unit *u, const char *text, size_t len)
{
    uint32_t hash = 2166136261u;
    struct name **bucket, *name;
    char *copy;
    size_t i;

    for (i = 0; i < len; i++)
        hash = (hash ^ (unsigned char)text[i]) * 16777619u;
    bucket = &u->names[hash % NAME_BUCKETS];
    for (name = *bucket; name; name = name->next)
        if (name->len == len && memcmp(name->text, text, len) == 0)
            return name;
    name = arena_alloc(&u->arena, sizeof(*name));
    copy = arena_alloc(&u->arena, len + 1);
    memcpy(copy, text, len);
    name->text = copy;
    name->len = (uint32_t)len;
    name->next = *bucket;
    *bucket = name;
    return name;
}

static void new_line(struct lexer *lx)
{
    lx->at++;
    lx->line++;
    lx->line_start = lx->at;
}

/* Find or add a line marker's file name in unit.files. Returns its index. Removes backslashes. */
static uint32_t marker_file(struct lexer *lx, const char *from, const char *to)
{
    struct unit *u = lx->u;
    char *name = arena_alloc(&u->arena, (size_t)(to - from) + 1);
    size_t len = 0;

    for (; from < to; from++) {
        if (*from == '\\' && from + 1 < to)
            from++;
        name[len++] = *from;
    }
    if (u->files.count && strcmp(u->files.items[lx->file], name) == 0)
        return lx->file;
    for (int i = u->files.count - 1; i >= 0 && i >= u->files.count - 200; i--)
        if (strcmp(u->files.items[i], name) == 0)
            return (uint32_t)i;
    if (u->files.count >= FILES_MAX)
        return lx->file;
    LIST_ADD(&u->arena, &u->files, name);
    return (uint32_t)u->files.count - 1;
}

/* Skip a line that begins with "#". If the line is a line marker, take file and line from it. */
static void directive(struct lexer *lx)
{
    const char *eol = memchr(lx->at, '\n', (size_t)(lx->end - lx->at));
    const char *p = lx->at + 1;
    uint64_t line = 0;

    if (!eol)
        eol = lx->end;
    while (p < eol && (*p == ' ' || *p == '\t'))
        p++;
    if (eol - p > 5 && memcmp(p, "line ", 5) == 0)
        p += 5;
    if (p < eol && isdigit((unsigned char)*p)) {
        while (p < eol && isdigit((unsigned char)*p) && line < 1000000000)
            line = line * 10 + (uint64_t)(*p++ - '0');
        while (p < eol && *p == ' ')
            p++;
        if (p < eol && *p == '"') {
            const char *to = ++p;

            while (to < eol && *to != '"')
                to += *to == '\\' && to + 1 < eol ? 2 : 1;
            lx->file = marker_file(lx, p, to < eol ? to : eol);
        }
        lx->line = (uint32_t)line - 1; /* new_line adds one at the end of this line */
    }
    lx->at = eol;
}

static void skip_comment(struct lexer *lx)
{
    bool one_line = lx->at[1] == '/';

    lx->at += 2;
    while (lx->at < lx->end) {
        if (*lx->at == '\n') {
            if (one_line)
                return;
            new_line(lx);
        } else if (!one_line && *lx->at == '*' && lx->end - lx->at > 1 && lx->at[1] == '/') {
            lx->at += 2;
            return;
        } else {
            lx->at++;
        }
    }
}

static void skip_gap(struct lexer *lx)
{
    while (lx->at < lx->end) {
        char c = *lx->at;

        if (c == '\n') {
            new_line(lx);
        } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') {
            lx->at++;
        } else if (c == '\\' && lx->end - lx->at > 1 && lx->at[1] == '\n') {
            lx->at++;
        } else if (c == '/' && lx->end - lx->at > 1 && (lx->at[1] == '/' || lx->at[1] == '*')) {
            skip_comment(lx);
        } else if (c == '#') {
            const char *p = lx->line_start;

            while (p < lx->at && (*p == ' ' || *p == '\t'))
                p++;
            if (p != lx->at)
                return;
            directive(lx);
        } else {
            return;
        }
    }
}

static bool starts_name(char c)
{
    return isalpha((unsigned char)c) || c == '_' || c == '$' || (unsigned char)c >= 0x80;
}

static bool in_name(const char *p, const char *end)
{
    return starts_name(*p) || isdigit((unsigned char)*p) ||
           (*p == '\\' && end - p > 1 && (p[1] == 'u' || p[1] == 'U'));
}

/* Skip the text after an opening quote, and the closing quote. false: no closing quote. */
static bool skip_quoted(struct lexer *lx, char quote, bool *ret_newline)
{
    *ret_newline = false;
    while (lx->at < lx->end) {
        char c = *lx->at;

        if (c == quote) {
            lx->at++;
            return true;
        }
        if (c == '\n') {
            if (quote == '\'')
                return false;
            *ret_newline = true;
            new_line(lx);
            continue;
        }
        if (c == '\\' && lx->end - lx->at > 1 && lx->at[1] != '\n')
            lx->at++;
        lx->at++;
    }
    return false;
}

/* Put a literal of several lines on one line, without the line markers inside the literal. */
static const char *joined(struct unit *u, const char *text, const char *end)
{
    struct text t = {.arena = &u->arena};

    while (text < end) {
        const char *eol = memchr(text, '\n', (size_t)(end - text));

        if (!eol) {
            text_add(&t, text, (size_t)(end - text));
            break;
        }
        if (!(text[0] == '#' && text[1] == ' ' && isdigit((unsigned char)text[2]))) {
            text_add(&t, text, (size_t)(eol - text));
            text_puts(&t, "\\n");
        }
        text = eol + 1;
    }
    return t.data;
}

/* Skip a raw string R"x(...)x", from the first quote on. Returns false if it is no raw string. */
static bool skip_raw(struct lexer *lx)
{
    const char *p = lx->at + 1, *open = p;
    size_t len;

    while (p < lx->end && *p != '(' && *p != '"' && *p != '\n' && p - open < 17)
        p++;
    if (p == lx->end || *p != '(')
        return false;
    len = (size_t)(p - open);
    for (p++; lx->end - p > (ptrdiff_t)len + 1; p++) {
        if (*p == ')' && memcmp(p + 1, open, len) == 0 && p[1 + len] == '"') {
            for (; lx->at < p + len + 2;)
                if (*lx->at == '\n')
                    new_line(lx);
                else
                    lx->at++;
            return true;
        }
    }
    return false;
}

static int lex_quoted(struct lexer *lx, struct token *token, int index)
{
    char quote = *lx->at++;
    bool newline;

    if (!skip_quoted(lx, quote, &newline)) {
        diag_error(lx->u, index, "missing terminating %c character", quote);
        longjmp(*lx->u->give_up, 1);
    }
    if (newline)
        token->instead = joined(lx->u, token->text, lx->at);
    return quote == '"' ? T_STRING : T_CHAR;
}

/* Read a name, a keyword, or a literal with a prefix of letters. */
static int lex_word(struct lexer *lx, struct token *token, int index)
{
    size_t len;

    while (lx->at < lx->end && in_name(lx->at, lx->end))
        lx->at++;
    len = (size_t)(lx->at - token->text);
    if (lx->at < lx->end && (*lx->at == '"' || *lx->at == '\'') && len <= 3) {
        const char *t = token->text;
        bool raw = t[len - 1] == 'R' && *lx->at == '"';
        size_t prefix = len - raw;

        if (raw &&
            (prefix == 0 || (prefix == 1 && strchr("LuU", t[0])) ||
             (prefix == 2 && memcmp(t, "u8", 2) == 0)) &&
            skip_raw(lx))
            return T_STRING;
        if (!raw && ((len == 1 && strchr("LuU", t[0])) || (len == 2 && memcmp(t, "u8", 2) == 0)))
            return lex_quoted(lx, token, index);
    }
    token->name = lex_name(lx->u, token->text, len);
    return token->name->keyword ? token->name->keyword : T_IDENT;
}

static int lex_number(struct lexer *lx)
{
    while (lx->at < lx->end) {
        char c = *lx->at;

        if ((c == '+' || c == '-') && strchr("eEpP", lx->at[-1]))
            lx->at++;
        else if (c == '.' || in_name(lx->at, lx->end))
            lx->at++;
        else
            break;
    }
    return T_NUMBER;
}

static int lex_punct(struct lexer *lx)
{
    size_t left = (size_t)(lx->end - lx->at);

    for (size_t i = 0; i < sizeof(puncts) / sizeof(puncts[0]); i++) {
        const char *p = puncts[i].text;
        size_t len = strlen(p);

        if (left >= len && memcmp(lx->at, p, len) == 0) {
            lx->at += len;
            if (puncts[i].id)
                return puncts[i].id;
            return len == 2 ? PUNCT2(p[0], p[1]) : PUNCT3(p[0], p[1], p[2]);
        }
    }
    return (unsigned char)*lx->at++;
}

void lex(struct unit *u)
{
    struct lexer lx = {.u = u, .at = u->input, .end = u->input + u->input_len, .line = 1};

    lx.line_start = lx.at;
    for (size_t i = 0; i < sizeof(keywords) / sizeof(keywords[0]); i++)
        lex_name(u, keywords[i].text, strlen(keywords[i].text))->keyword = keywords[i].keyword;
    LIST_ADD(&u->arena, &u->files, "<stdin>");
    for (;;) {
        struct token token = {0};
        int index = u->tokens.count;

        skip_gap(&lx);
        token.text = lx.at;
        token.file = lx.file;
        token.line = lx.line;
        token.col = (uint32_t)(lx.at - lx.line_start) + 1;
        LIST_ADD(&u->arena, &u->tokens, token);
        if (lx.at == lx.end)
            break;
        if (starts_name(*lx.at) || (*lx.at == '\\' && in_name(lx.at, lx.end)))
            token.id = lex_word(&lx, &token, index);
        else if (isdigit((unsigned char)*lx.at) ||
                 (*lx.at == '.' && lx.end - lx.at > 1 && isdigit((unsigned char)lx.at[1])))
            token.id = lex_number(&lx);
        else if (*lx.at == '"' || *lx.at == '\'')
            token.id = lex_quoted(&lx, &token, index);
        else
            token.id = lex_punct(&lx);
        if (token.id == 0) /* a NUL byte in the input: its id must not be T_EOF */
            token.id = 0x7f;
        token.len = (uint32_t)(lx.at - token.text);
        u->tokens.items[index] = token;
    }
}

int unit_next(struct unit *u)
{
    int at = u->at;

    if (at < u->tokens.count - 1)
        u->at++;
    return at;
}

bool unit_skip_if(struct unit *u, int id)
{
    if (!unit_is(u, id))
        return false;
    unit_next(u);
    return true;
}

int unit_expect(struct unit *u, int id)
{
    char wanted[16] = "'   '";

    if (unit_is(u, id))
        return unit_next(u);
    if (id < T_IDENT) {
        snprintf(wanted, sizeof(wanted), "'%c%c%c'", id & 0xff, id >> 8 & 0xff, id >> 16 & 0xff);
        if (id <= 0xff)
            snprintf(wanted, sizeof(wanted), "'%c'", id);
        diag_syntax(u, wanted);
    }
    diag_syntax(u, id == T_IDENT ? "identifier" : id == T_STRING ? "string literal" : "keyword");
}

void unit_skip_group(struct unit *u)
{
    int depth = 0;

    do {
        int id = unit_token(u)->id;

        if (id == '(' || id == '[' || id == '{')
            depth++;
        else if (id == ')' || id == ']' || id == '}')
            depth--;
        else if (id == T_EOF)
            diag_syntax(u, "closing bracket");
        unit_next(u);
    } while (depth > 0);
}

void unit_deeper(struct unit *u)
{
    if (++u->nesting > NESTING_MAX)
        diag_limit(u, u->at, "nesting is too deep for the Split-C translator");
}
