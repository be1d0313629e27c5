/*
 * The parts of splitcc: options.c parses the command line, run.c runs programs, splitcc.c handles
 * the files.
 */
#ifndef SPLITC_DRIVER_DRIVER_H
#define SPLITC_DRIVER_DRIVER_H

#include <stdbool.h>

/* A growing list of words with NULL at its end. Not freed, because splitcc runs a short time. */
struct words {
    char **items;
    int count, cap;
};

void words_add(struct words *w, const char *word);
void words_add_all(struct words *w, const struct words *more);
/* A formatted string; ends the program if there is no memory. */
char *words_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* An array of `count` NULLs. */
char **words_array(int count);

/* The stage after which splitcc stops with each file. */
enum stage { STAGE_LINK, STAGE_PREPROCESS, STAGE_TRANSLATE, STAGE_ASSEMBLER, STAGE_OBJECT };

/* An input file; or an option of the linker (-l, -Wl), whose place among the files matters. */
struct input {
    char *name;
    bool is_split_c;
    bool is_file;
    const char *language; /* for gcc, from "-x"; NULL: gcc finds it by the suffix of the name */
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

/* Parse the command line. Returns 0, or -1 after a message. */
int options_parse(struct options *o, int argc, char **argv);

/* From now on SIGINT, SIGTERM and SIGHUP end the running program, and then splitcc itself. */
void run_begin(void);
/*
 * Run a program and wait for it. Returns its exit status, or 1 if it could not start or was killed.
 * If splitcc has got one of the signals of run_begin, it exits with 128 + the signal's number.
 */
int run(const struct options *o, const struct words *command);

/* Paths of the parts of this installation or build; none is NULL after paths_find. */
struct paths {
    char *sc1;     /* the translator */
    char *include; /* the folder that contains split-c/ */
    char *lib;     /* libsplitc.a */
    char *vipl;    /* libvipl.a */
};

void paths_find(struct paths *p);

#endif
