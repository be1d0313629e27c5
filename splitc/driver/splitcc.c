/*
 * splitcc: the compiler of Split-C, used like gcc.
 *   splitcc [gcc's options] file.sc... [other files]      see doc/split-c.md
 *
 * The name of a Split-C file ends in .sc or follows "-x split-c". gcc preprocesses the file, sc1
 * translates it to C, and gcc compiles it. Other files go to gcc. The runtime is linked, too.
 * "--translate" stops after sc1.
 */
#include "splitc/driver/driver.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct words temporary; /* files to remove at exit */
static char *folder;           /* the folder that contains the temporary files */
static int next_file;

static void remove_temporary(void)
{
    for (int i = 0; i < temporary.count; i++)
        unlink(temporary.items[i]);
    if (folder)
        rmdir(folder);
}

static const char *gcc(void)
{
    const char *name = getenv("SPLITCC_GCC");

    return name && *name ? name : "gcc";
}

/* Make the name of an intermediate file, in `folder` or (with -save-temps) the current folder. */
static char *intermediate(const struct options *o, const char *input, const char *suffix)
{
    const char *slash = strrchr(input, '/');
    char *name;

    if (o->save_temps)
        return words_format("%s%s", slash ? slash + 1 : input, suffix);
    if (!folder) {
        const char *dir = getenv("TMPDIR");

        folder = words_format("%s/splitcc-XXXXXX", dir && *dir ? dir : "/tmp");
        if (!mkdtemp(folder)) {
            fprintf(stderr, "splitcc: cannot make a folder for temporary files in %s: %s\n",
                    dir && *dir ? dir : "/tmp", strerror(errno));
            folder = NULL;
            exit(1);
        }
        atexit(remove_temporary);
    }
    name = words_format("%s/%d%s", folder, next_file++, suffix);
    words_add(&temporary, name);
    return name;
}

/* Return the output for "dir/name.sc": as with gcc, "name" with the suffix `suffix`. */
static char *output_name(const char *input, const char *suffix)
{
    const char *slash = strrchr(input, '/');
    const char *base = slash ? slash + 1 : input, *dot = strrchr(base, '.');

    return words_format("%.*s%s", (int)(dot && dot > base ? dot - base : (long)strlen(base)), base,
                        suffix);
}

/* Add gcc's options for dependencies. gcc -E does not know the object's name, so pass it (-MT). */
static void add_dependencies(const struct options *o, struct words *w, const char *input,
                             const char *object)
{
    const char *named = o->output ? o->output : object;

    words_add_all(w, &o->depend);
    if (!o->depend.count)
        return;
    if (!o->depend_file && !o->depend_only) {
        words_add(w, "-MF");
        words_add(w, o->output ? output_name(o->output, ".d") : output_name(input, ".d"));
    }
    if (!o->depend_target) {
        words_add(w, "-MT");
        words_add(w, o->stage == STAGE_LINK ? output_name(input, ".o") : named);
    }
}

static int preprocess(const struct options *o, const struct paths *p, const char *input,
                      const char *object, const char *output)
{
    struct words w = {0};

    words_add(&w, gcc());
    words_add(&w, "-E");
    words_add(&w, "-D__SPLIT_C__=1");
    words_add_all(&w, &o->common);
    words_add_all(&w, &o->preprocess);
    words_add(&w, "-idirafter");
    words_add(&w, p->include);
    words_add(&w, "-include");
    words_add(&w, words_format("%s/split-c/runtime.h", p->include));
    add_dependencies(o, &w, input, object);
    words_add(&w, "-x");
    words_add(&w, "c");
    words_add(&w, input);
    if (output && !(o->depend_only && !o->output)) {
        words_add(&w, "-o");
        words_add(&w, output);
    }
    return run(o, &w);
}

static int translate(const struct options *o, const struct paths *p, const char *input,
                     const char *output)
{
    struct words w = {0};

    words_add(&w, p->sc1);
    if (o->no_warnings)
        words_add(&w, "-w");
    if (o->warnings_are_errors)
        words_add(&w, "-e");
    if (output) {
        words_add(&w, "-o");
        words_add(&w, output);
    }
    words_add(&w, input);
    return run(o, &w);
}

static int compile(const struct options *o, const char *input, const char *output)
{
    struct words w = {0};

    words_add(&w, gcc());
    words_add(&w, "-fno-pie");
    words_add_all(&w, &o->common);
    words_add(&w, o->stage == STAGE_ASSEMBLER ? "-S" : "-c");
    words_add(&w, "-x");
    words_add(&w, "cpp-output");
    words_add(&w, input);
    words_add(&w, "-o");
    words_add(&w, output);
    return run(o, &w);
}

/* Do all stages of a Split-C file except linking. *ret_object: the name of its object file. */
static int do_file(const struct options *o, const struct paths *p, const char *input,
                   char **ret_object)
{
    const char *suffix = o->stage == STAGE_ASSEMBLER ? ".s" : ".o";
    char *object, *preprocessed, *c;
    int status;

    if (o->stage == STAGE_LINK)
        object = intermediate(o, input, ".o");
    else
        object = o->output ? words_format("%s", o->output) : output_name(input, suffix);
    *ret_object = object;
    if (o->stage == STAGE_PREPROCESS || o->depend_only)
        return preprocess(o, p, input, object, o->output);
    preprocessed = intermediate(o, input, ".i");
    status = preprocess(o, p, input, object, preprocessed);
    if (status)
        return status;
    if (o->stage == STAGE_TRANSLATE)
        return translate(o, p, preprocessed, o->output);
    c = intermediate(o, input, ".c");
    status = translate(o, p, preprocessed, c);
    return status ? status : compile(o, c, object);
}

/* Without linking (-c, -S, -E, --translate): run gcc on the files that are not Split-C. */
static int do_rest(const struct options *o)
{
    static const char *const flags[] = {[STAGE_PREPROCESS] = "-E",
                                        [STAGE_TRANSLATE] = "-E",
                                        [STAGE_ASSEMBLER] = "-S",
                                        [STAGE_OBJECT] = "-c"};
    struct words w = {0};
    bool any = false;

    words_add(&w, gcc());
    words_add(&w, flags[o->stage]);
    words_add_all(&w, &o->common);
    words_add_all(&w, &o->preprocess);
    words_add_all(&w, &o->depend);
    for (int i = 0; i < o->input_count; i++) {
        const struct input *in = &o->inputs[i];

        if (!in->is_file || in->is_split_c)
            continue;
        words_add(&w, "-x");
        words_add(&w, in->language ? in->language : "none");
        words_add(&w, in->name);
        any = true;
    }
    if (o->output) {
        words_add(&w, "-o");
        words_add(&w, o->output);
    }
    return any ? run(o, &w) : 0;
}

static int link_all(const struct options *o, const struct paths *p, char **objects)
{
    struct words w = {0};

    words_add(&w, gcc());
    words_add(&w, "-no-pie");
    words_add_all(&w, &o->common);
    words_add_all(&w, &o->preprocess);
    words_add(&w, "-o");
    words_add(&w, o->output ? o->output : "a.out");
    for (int i = 0; i < o->input_count; i++) {
        const struct input *in = &o->inputs[i];

        if (in->is_file) {
            words_add(&w, "-x");
            words_add(&w, in->language && !in->is_split_c ? in->language : "none");
        }
        words_add(&w, in->is_split_c ? objects[i] : in->name);
    }
    if (!o->no_library) {
        words_add(&w, "-x");
        words_add(&w, "none");
        words_add(&w, p->lib);
        words_add(&w, p->vipl);
        words_add(&w, "-lpthread");
        words_add(&w, "-lm");
        words_add(&w, "-ldl");
    }
    return run(o, &w);
}

int main(int argc, char **argv)
{
    struct options o = {0};
    struct paths p;
    char **objects;
    int status = 0, files = 0;

    if (options_parse(&o, argc, argv))
        return 1;
    paths_find(&p);
    run_begin();
    if (o.show_version) {
        printf("splitcc (vipd) %s\n", VIP_VERSION);
        return 0;
    }
    objects = words_array(o.input_count + 1);
    for (int i = 0; i < o.input_count; i++) {
        files += o.inputs[i].is_file;
        if (o.inputs[i].is_split_c && do_file(&o, &p, o.inputs[i].name, &objects[i]))
            status = 1;
    }
    if (files == 0) {
        fprintf(stderr, "splitcc: no input files\n");
        return 1;
    }
    if (o.stage != STAGE_LINK || o.depend_only)
        return (o.depend_only ? 0 : do_rest(&o)) || status;
    return status ? 1 : link_all(&o, &p, objects);
}
