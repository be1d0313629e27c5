/*
 * The parts of splitcc: options.c parses the command line, run.c runs programs, splitcc.c handles
 * the files.
 */
#ifndef SPLITC_DRIVER_DRIVER_H
#define SPLITC_DRIVER_DRIVER_H

#include <stdbool.h>

/* A growing list of words, with NULL at its end. It is never freed: splitcc runs only briefly. */
struct words {
    char **items;
    int count, cap;
};

void words_add(struct words *w, const char *word);
void words_add_all(struct words *w, const struct words *more);
/* Return a formatted string. If there is no memory, end splitcc. */
char *words_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Return an array of `count` NULL pointers. */
char **words_array(int count);

/* The last stage that splitcc does. */
enum stage { STAGE_LINK, STAGE_PREPROCESS, STAGE_TRANSLATE, STAGE_ASSEMBLER, STAGE_OBJECT };

/* An input: a file, or an option for the linker (-l, -Wl), whose place among the files matters. */
struct input {
    char *name;
    bool is_split_c;
    bool is_file;
    const char *language; /* argument of "-x" for gcc; NULL: gcc looks at the suffix */
};

struct options {
    enum stage stage;
    const char *output;      /* -o, or NULL */
    struct words common;     /* options for all stages of gcc */
    struct words preprocess; /* -I, -D and the like */
    struct words depend;     /* -MD and the like */
    bool depend_only;        /* -M, -MM */
    bool depend_file;        /* -MF was given */
    bool depend_target;      /* -MT or -MQ was given */
    bool save_temps, verbose, dry, no_warnings, warnings_are_errors, show_version;
    bool no_library; /* after -nostdlib, -r or -shared: do not link the runtime */
    struct input *inputs;
    int input_count, input_cap;
};

/* Parse the command line. Outcomes: 0; -1 after an error message. */
int options_parse(struct options *o, int argc, char **argv);

/* Let SIGINT, SIGTERM and SIGHUP end the program that splitcc runs, and then splitcc itself. */
void run_begin(void);
/*
 * Run a program and wait until it ends. Returns the program's exit status, or 1 if the program did
 * not start or a signal ended it. After a signal of run_begin, splitcc exits: 128 + signal number.
 */
int run(const struct options *o, const struct words *command);

/* Paths of the parts of splitcc in the installation or build folder. paths_find sets all. */
struct paths {
    char *sc1;     /* the translator */
    char *include; /* the folder that contains split-c/ */
    char *lib;     /* libsplitc.a */
    char *vipl;    /* libvipl.a */
};

void paths_find(struct paths *p);

#endif
