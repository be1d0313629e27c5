/*
 * vipctl's commands, from the table commands.def. Parsing, --help and the completions of three
 * shells use this table.
 *
 * Owns: the names of the commands, their words and options. Does not own: their functions.
 */
#ifndef VIPCTL_COMMANDS_H
#define VIPCTL_COMMANDS_H

#include <stddef.h>

#include "tools/vipctl/options.h"
#include "tools/vipctl/query.h"

/* Kinds of words after a command's name (the "verb"). The completions use these kinds. */
enum word_kind {
    WORDS_NONE,
    WORDS_VIEW,    /* first a view, then filters */
    WORDS_EXPLAIN, /* vi, peer, error or nic, then a name */
    WORDS_SHELL,   /* bash, zsh or fish */
    WORDS_PEER,    /* an address or a name */
    WORDS_TARGET,  /* a VI or a peer */
    WORDS_CONFIG,  /* check, show or diff */
    WORDS_TOP,     /* vi, peer or program */
    WORDS_FILE,
    WORDS_REST, /* all words that follow belong to another program */
    WORDS_VERB,
};

/* Runs a command. words: the words after the verb. */
typedef enum exit_code command_run(char **words, int count, const struct options *options);

struct command {
    const char *name;
    const char *arguments; /* the arguments, as --help shows them */
    const char *help;      /* one line */
    enum word_kind words;
    int words_min, words_max; /* number of words after the verb; max -1: no limit */
    const char *options;      /* the command's long options, separated by spaces */
    command_run *run;
};

extern const struct command commands[];
extern const size_t command_count;

/* An option that some commands take (options.c). */
struct option_row {
    const char *name;     /* without the dashes */
    char letter;          /* 0: no letter */
    const char *argument; /* name of the argument; NULL: the option has no argument */
    const char *help;
};

extern const struct option_row option_rows[];
extern const size_t option_row_count;

/* Find a command by its name. NULL: no such command. */
const struct command *command_find(const char *name);

/* Does the command take this long option (options.c)? */
bool command_takes(const struct command *command, const char *option);

/* Print the help text of one command, or of all commands if only is NULL. */
void command_help(const struct command *only);

/* ---- actions of the commands ---- */

#define COMMAND(name, arguments, help, words, words_min, words_max, options, run) command_run run;
#include "tools/vipctl/commands.def"

#endif
