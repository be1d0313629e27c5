/*
 * Edits of tokens, and output of the edited text. emit counts lines as gcc will. Where an edit
 * changes the line number, emit adds a line marker, so that gcc and debuggers show user lines.
 */
#include "splitc/sc1/unit.h"

#include <string.h>

/* Largest total size, in bytes, of the edits of one token. Only hostile input needs more. */
#define EDIT_BYTES_MAX (16u << 20)

static struct token *at(struct unit *u, int token)
{
    return &u->tokens.items[token];
}

static const char *concat(struct unit *u, int token, const char *a, const char *b)
{
    if (!a)
        return b;
    if (!b)
        return a;
    if (strlen(a) + strlen(b) > EDIT_BYTES_MAX)
        diag_limit(u, token, "this is too complex for the Split-C translator");
    return text_format(&u->arena, "%s%s", a, b);
}

void edit_before(struct unit *u, int token, const char *text)
{
    at(u, token)->before = concat(u, token, at(u, token)->before, text);
}

void edit_after(struct unit *u, int token, const char *text)
{
    at(u, token)->after = concat(u, token, text, at(u, token)->after);
}

void edit_replace(struct unit *u, int token, const char *text)
{
    at(u, token)->instead = text;
}

/* The edits before `first` and after `last` belong to a larger expression, and stay. */
void edit_delete(struct unit *u, int first, int last)
{
    for (int i = first; i <= last; i++) {
        if (i > first)
            at(u, i)->before = NULL;
        if (i < last)
            at(u, i)->after = NULL;
        at(u, i)->instead = "";
    }
}

const char *edit_text(struct unit *u, int first, int last)
{
    struct text t = {.arena = &u->arena};

    for (int i = first; i <= last; i++) {
        const struct token *token = at(u, i);

        if (i > first && token->text > token[-1].text + token[-1].len)
            text_puts(&t, " ");
        if (token->before)
            text_puts(&t, token->before);
        if (token->instead)
            text_puts(&t, token->instead);
        else
            text_add(&t, token->text, token->len);
        if (token->after)
            text_puts(&t, token->after);
        if (t.len > EDIT_BYTES_MAX)
            diag_limit(u, first, "this is too complex for the Split-C translator");
    }
    return t.data ? t.data : "";
}

/* The position in the output, with lines as gcc counts them. */
struct position {
    FILE *out;
    uint32_t line;
    bool line_start; /* the current line of the output is empty so far */
};

static void put(struct position *pos, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (text[i] == '\n')
            pos->line++;
    if (len)
        pos->line_start = text[len - 1] == '\n';
    fwrite(text, 1, len, pos->out);
}

static void put_marker(struct unit *u, struct position *pos, const struct token *token)
{
    fprintf(pos->out, "%s# %u \"", pos->line_start ? "" : "\n", token->line);
    for (const char *p = u->files.items[token->file]; *p; p++) {
        if (*p == '"' || *p == '\\')
            fputc('\\', pos->out);
        fputc(*p, pos->out);
    }
    fputs("\"\n", pos->out);
    pos->line = token->line;
    pos->line_start = true;
}

void emit(struct unit *u, FILE *out)
{
    struct position pos = {.out = out, .line = 1, .line_start = true};
    const char *from = u->input;

    for (int i = 0; i < u->tokens.count; i++) {
        const struct token *token = at(u, i);
        const char *end = token->text + token->len;

        put(&pos, from, (size_t)(token->text - from));
        /* A line marker before the token tells gcc the line of the token. */
        if (memchr(from, '#', (size_t)(token->text - from)))
            pos.line = token->line;
        if (pos.line != token->line && token->len)
            put_marker(u, &pos, token);
        if (token->before)
            put(&pos, token->before, strlen(token->before));
        if (token->instead)
            put(&pos, token->instead, strlen(token->instead));
        else
            put(&pos, token->text, token->len);
        if (token->after)
            put(&pos, token->after, strlen(token->after));
        from = end;
    }
}
