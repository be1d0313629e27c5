/*
 * The command line, with the options of gcc. This file knows which options have their argument in
 * the next word, and which options belong to one stage. Other options go to every stage of gcc.
 */
#include "splitc/driver/driver.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A block of memory, never freed. A list has all blocks, so leak checkers do not report them. */
struct kept {
    struct kept *next;
    _Alignas(max_align_t) char data[];
};

static struct kept *all_kept;

static void *keep(size_t bytes)
{
    struct kept *kept = calloc(1, sizeof(*kept) + bytes);

    if (!kept) {
        fprintf(stderr, "splitcc: out of memory\n");
        exit(1);
    }
    kept->next = all_kept;
    all_kept = kept;
    return kept->data;
}

/* Return a larger block that begins with the bytes of the block `old`. */
static void *larger(const void *old, size_t old_bytes, size_t bytes)
{
    void *more = keep(bytes);

    if (old_bytes)
        memcpy(more, old, old_bytes);
    return more;
}

static char *copy(const char *string)
{
    return larger(string, strlen(string), strlen(string) + 1);
}

void words_add(struct words *w, const char *word)
{
    if (w->count + 1 >= w->cap) {
        w->cap = w->cap ? w->cap * 2 : 16;
        w->items = larger(w->items, sizeof(*w->items) * (size_t)w->count,
                          sizeof(*w->items) * (size_t)w->cap);
    }
    w->items[w->count++] = copy(word);
    w->items[w->count] = NULL;
}

void words_add_all(struct words *w, const struct words *more)
{
    for (int i = 0; i < more->count; i++)
        words_add(w, more->items[i]);
}

char *words_format(const char *format, ...)
{
    va_list args;
    char *string;
    int len;

    va_start(args, format);
    len = vsnprintf(NULL, 0, format, args);
    va_end(args);
    string = keep((size_t)len + 1);
    va_start(args, format);
    vsnprintf(string, (size_t)len + 1, format, args);
    va_end(args);
    return string;
}

char **words_array(int count)
{
    return keep(sizeof(char *) * (size_t)count);
}

static void add_input(struct options *o, const char *name, bool is_file, const char *language)
{
    const char *dot = strrchr(name, '.');
    struct input *input;

    if (o->input_count == o->input_cap) {
        o->input_cap = o->input_cap ? o->input_cap * 2 : 16;
        o->inputs = larger(o->inputs, sizeof(*o->inputs) * (size_t)o->input_count,
                           sizeof(*o->inputs) * (size_t)o->input_cap);
    }
    input = &o->inputs[o->input_count++];
    memset(input, 0, sizeof(*input));
    input->name = copy(name);
    input->is_file = is_file;
    if (language && strcmp(language, "split-c") == 0)
        input->is_split_c = is_file;
    else if (language)
        input->language = language;
    else
        input->is_split_c = is_file && dot && strcmp(dot, ".sc") == 0;
}

static bool begins(const char *word, const char *with)
{
    return strncmp(word, with, strlen(with)) == 0;
}

static bool is_one_of(const char *word, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(word, *list) == 0)
            return true;
    return false;
}

/* Handle an option of the preprocessor: with a joined (-Idir) or a separate argument (-I dir). */
static bool preprocess_option(struct options *o, char **argv, int *i)
{
    static const char *const joined[] = {"-I", "-D", "-U", NULL};
    static const char *const apart[] = {"-include",       "-imacros", "-isystem",     "-iquote",
                                        "-idirafter",     "-iprefix", "-iwithprefix", "-isysroot",
                                        "-Xpreprocessor", NULL};
    const char *word = argv[*i];

    if (is_one_of(word, apart) || is_one_of(word, joined)) {
        words_add(&o->preprocess, word);
        if (argv[*i + 1])
            words_add(&o->preprocess, argv[++*i]);
        return true;
    }
    if (begins(word, "-I") || begins(word, "-D") || begins(word, "-U") || begins(word, "-Wp,") ||
        strcmp(word, "-nostdinc") == 0 || strcmp(word, "-C") == 0 || strcmp(word, "-P") == 0 ||
        strcmp(word, "-undef") == 0 || strcmp(word, "-trigraphs") == 0) {
        words_add(&o->preprocess, word);
        return true;
    }
    return false;
}

static bool depend_option(struct options *o, char **argv, int *i)
{
    const char *word = argv[*i];

    if (!begins(word, "-M"))
        return false;
    words_add(&o->depend, word);
    if (strcmp(word, "-M") == 0 || strcmp(word, "-MM") == 0)
        o->depend_only = true;
    if (begins(word, "-MF"))
        o->depend_file = true;
    if (begins(word, "-MT") || begins(word, "-MQ"))
        o->depend_target = true;
    if ((strcmp(word, "-MF") == 0 || strcmp(word, "-MT") == 0 || strcmp(word, "-MQ") == 0) &&
        argv[*i + 1])
        words_add(&o->depend, argv[++*i]);
    return true;
}

/* Handle an option for the linker. It becomes an input, to keep its place among the files. */
static bool link_option(struct options *o, char **argv, int *i)
{
    static const char *const apart[] = {"-L", "-l", "-Xlinker", "-T", "-u", "-z", "-e", NULL};
    const char *word = argv[*i];

    if (is_one_of(word, apart)) {
        add_input(o, word, false, NULL);
        if (argv[*i + 1])
            add_input(o, argv[++*i], false, NULL);
        return true;
    }
    if (begins(word, "-l") || begins(word, "-L") || begins(word, "-Wl,") ||
        begins(word, "-rdynamic") || strcmp(word, "-s") == 0) {
        add_input(o, word, false, NULL);
        return true;
    }
    return false;
}

static bool stage_option(struct options *o, char **argv, int *i)
{
    const char *word = argv[*i];

    if (strcmp(word, "-c") == 0) {
        o->stage = STAGE_OBJECT;
    } else if (strcmp(word, "-S") == 0) {
        o->stage = STAGE_ASSEMBLER;
    } else if (strcmp(word, "-E") == 0) {
        o->stage = STAGE_PREPROCESS;
    } else if (strcmp(word, "--translate") == 0) {
        o->stage = STAGE_TRANSLATE;
    } else if (begins(word, "-o") && !begins(word, "-ob")) {
        o->output = word[2] ? word + 2 : argv[*i + 1] ? argv[++*i] : NULL;
    } else if (strcmp(word, "-v") == 0) {
        o->verbose = true;
    } else if (strcmp(word, "-###") == 0) {
        o->verbose = o->dry = true;
    } else if (strcmp(word, "--version") == 0) {
        o->show_version = true;
    } else if (begins(word, "-save-temps") || begins(word, "--save-temps")) {
        o->save_temps = true;
    } else {
        return false;
    }
    return true;
}

int options_parse(struct options *o, int argc, char **argv)
{
    static const char *const apart[] = {"-Xassembler", "-aux-info", "--param",
                                        "-wrapper",    "-B",        NULL};
    static const char *const bare[] = {"-nostdlib", "-nodefaultlibs", "-r", "-shared", NULL};
    const char *language = NULL;

    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];

        if (word[0] != '-' || word[1] == '\0') {
            add_input(o, word, true, language);
        } else if (begins(word, "-x")) {
            language = word[2] ? word + 2 : argv[i + 1] ? argv[++i] : "none";
            if (strcmp(language, "none") == 0)
                language = NULL;
        } else if (stage_option(o, argv, &i) || preprocess_option(o, argv, &i) ||
                   depend_option(o, argv, &i) || link_option(o, argv, &i)) {
            continue;
        } else {
            words_add(&o->common, word);
            o->no_warnings |= strcmp(word, "-w") == 0;
            o->warnings_are_errors |= strcmp(word, "-Werror") == 0;
            o->no_library |= is_one_of(word, bare);
            if (is_one_of(word, apart) && argv[i + 1])
                words_add(&o->common, argv[++i]);
        }
    }
    if (o->output && o->stage != STAGE_LINK) {
        int files = 0;

        for (int i = 0; i < o->input_count; i++)
            files += o->inputs[i].is_file;
        if (files > 1) {
            fprintf(stderr, "splitcc: -o with -c, -S, -E or --translate takes one file, not %d\n",
                    files);
            return -1;
        }
    }
    return 0;
}
