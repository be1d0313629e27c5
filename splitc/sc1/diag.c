/*
 * Messages in gcc's format: "file:line:column: error: text", then the user's line and a mark below
 * it. A macro changes the columns of the text after it, so sc1 looks for the token's text in the
 * user's file. If the user's line lacks this text, the message has the token's column in the input.
 */
#include "splitc/sc1/unit.h"

#include <string.h>

#define LINE_BYTES_MAX 4096

/* Read a line of the user's file, without its newline. false: the line cannot be read. */
static bool read_line(const char *file, uint32_t number, char *line)
{
    FILE *f;
    uint32_t at = 0;
    bool found = false;

    if (file[0] == '<' || number == 0)
        return false;
    f = fopen(file, "r");
    if (!f)
        return false;
    while (!found && fgets(line, LINE_BYTES_MAX, f)) {
        size_t len = strlen(line);

        found = ++at == number;
        if (len && line[len - 1] == '\n')
            line[len - 1] = '\0';
        else if (len == LINE_BYTES_MAX - 1)
            break; /* the line is too long for a source line */
    }
    fclose(f);
    return found;
}

/* Find the token's text in the user's line. Of several places, choose the nearest to token->col. */
static uint32_t user_column(const struct token *token, const char *line)
{
    size_t best = 0, len = strlen(line);
    bool found = false;

    if (token->len == 0 || token->len > len)
        return token->col;
    for (size_t i = 0; i + token->len <= len; i++) {
        size_t distance = i + 1 > token->col ? i + 1 - token->col : token->col - i - 1;

        if (memcmp(line + i, token->text, token->len) != 0)
            continue;
        if (!found ||
            distance < (best + 1 > token->col ? best + 1 - token->col : token->col - best - 1))
            best = i;
        found = true;
    }
    return found ? (uint32_t)best + 1 : token->col;
}

static void show_line(struct unit *u, const char *line, uint32_t number, uint32_t col)
{
    uint32_t i;

    if (col > strlen(line) + 1)
        return;
    fprintf(u->messages, "%5u | %s\n      | ", number, line);
    for (i = 1; i < col; i++)
        fputc(line[i - 1] == '\t' ? '\t' : ' ', u->messages);
    fputs("^\n", u->messages);
}

static void say(struct unit *u, int index, const char *kind, const char *format, va_list args)
{
    const struct token *token = &u->tokens.items[index];
    const char *file = u->files.items[token->file];
    char line[LINE_BYTES_MAX];
    bool have = read_line(file, token->line, line);
    uint32_t col = have ? user_column(token, line) : token->col;
    const char *function = u->function ? u->function->name->text : NULL;

    if (function && u->said_function != function)
        fprintf(u->messages, "%s: In function '%s':\n", file, function);
    u->said_function = function;
    fprintf(u->messages, "%s:%u:%u: %s: ", file, token->line, col, kind);
    vfprintf(u->messages, format, args);
    fputc('\n', u->messages);
    if (have)
        show_line(u, line, token->line, col);
}

void diag_error(struct unit *u, int token, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    say(u, token, "error", format, args);
    va_end(args);
    if (++u->errors >= ERRORS_MAX && !u->limit_told) {
        u->limit_told = true;
        fprintf(u->messages, "sc1: %d errors, giving up\n", u->errors);
        longjmp(*u->give_up, 1);
    }
}

void diag_warning(struct unit *u, int token, const char *format, ...)
{
    va_list args;

    if (u->options & SC1_NO_WARNINGS)
        return;
    va_start(args, format);
    if (u->options & SC1_WARNINGS_ARE_ERRORS) {
        say(u, token, "error", format, args);
        u->errors++;
    } else {
        say(u, token, "warning", format, args);
    }
    va_end(args);
}

void diag_note(struct unit *u, int token, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    say(u, token, "note", format, args);
    va_end(args);
}

void diag_syntax(struct unit *u, const char *expected)
{
    const struct token *token = unit_token(u);

    if (token->id == T_EOF)
        diag_error(u, u->at, "expected %s at end of input", expected);
    else
        diag_error(u, u->at, "expected %s before '%.*s'", expected,
                   (int)(token->len < 60 ? token->len : 60), token->text);
    longjmp(*u->recover, 1);
}

void diag_limit(struct unit *u, int token, const char *what)
{
    if (!u->limit_told) {
        u->limit_told = true;
        diag_error(u, token, "%s", what);
    }
    longjmp(*u->give_up, 1);
}
