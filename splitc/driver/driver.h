/*
 * splitcc in parts: the command line taken apart (options.c), programs run (run.c), and what is done
 * with each file (splitcc.c).
 */
#ifndef SPLITC_DRIVER_DRIVER_H
#define SPLITC_DRIVER_DRIVER_H

#include <stdbool.h>

/* A list of words that ends with NULL. Grows; never freed, since splitcc is short-lived. */
struct words {
    char **items;
    int count, cap;
};

void words_add(struct words *w, const char *word);
void words_add_all(struct words *w, const struct words *more);
/* A formatted string; ends the program if there is no memory. */
char *words_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* An array of so many NULLs. */
char **words_array(int count);

/* How far to go with each file. */
enum stage { STAGE_LINK, STAGE_PREPROCESS, STAGE_TRANSLATE, STAGE_ASSEMBLER, STAGE_OBJECT };

/* An input file, or a word that keeps its place among them when linking (-l, -Wl). */
struct input {
    char *name;
    bool is_split_c;
    bool is_file;
    const char *language; /* of "-x", for files that gcc takes; NULL if the suffix says it */
};

struct options {
    enum stage stage;
    const char *output;      /* -o, or NULL */
    struct words common;     /* for all of gcc's stages */
    struct words preprocess; /* -I, -D and the like */
    struct words depend;     /* -MD and the like */
    bool depend_only;        /* -M, -MM */
    bool depend_file;        /* -MF was given */
    bool depend_target;      /* -MT or -MQ was given */
    bool save_temps, verbose, dry, no_warnings, warnings_are_errors, show_version;
    bool no_library; /* -nostdlib, -r, -shared: do not add the runtime */
    struct input *inputs;
    int input_count, input_cap;
};

/* Take the command line apart. Returns 0, or -1 after a message. */
int options_parse(struct options *o, int argc, char **argv);

/* From now on a signal that asks to end ends what runs first, so that temporary files go too. */
void run_begin(void);
/*
 * Run a program and wait; its exit status, or 1 if it could not be run or was killed. No return, but an
 * exit with 128 + the signal's number, after a signal that asks to end.
 */
int run(const struct options *o, const struct words *command);

/* Where the pieces of this installation or build are; each NULL-free after paths_find. */
struct paths {
    char *sc1;     /* the translator */
    char *include; /* has split-c/ */
    char *lib;     /* has libsplitc.a */
    char *vipl;    /* has libvipl.a */
};

void paths_find(struct paths *p);

#endif
