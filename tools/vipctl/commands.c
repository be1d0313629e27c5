/* The table of commands, the help, and the commands help and completion; see commands.h. */
#include "tools/vipctl/commands.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "tools/vipctl/completion.h"
#include "tools/vipctl/show.h"
#include "tools/vipctl/views.h"

enum exit_code run_completion(char **words, int count, const struct options *options)
{
    (void)count;
    (void)options;
    return completion_print(words[0], commands, command_count);
}

enum exit_code run_help(char **words, int count, const struct options *options)
{
    const struct command *command = count > 0 ? command_find(words[0]) : NULL;

    (void)options;
    if (count > 0 && !command) {
        fprintf(stderr, "vipctl: there is no command \"%s\"; see vipctl --help\n", words[0]);
        return EXIT_USAGE;
    }
    command_help(command);
    return show_flushed();
}

const struct command commands[] = {
#define COMMAND(name, arguments, help, words, words_min, words_max, options, run)                  \
    {name, arguments, help, words, words_min, words_max, options, run},
#include "tools/vipctl/commands.def"
};
const size_t command_count = sizeof(commands) / sizeof(*commands);

const struct command *command_find(const char *name)
{
    for (size_t i = 0; i < command_count; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

static void print_option(const struct option_row *row)
{
    char text[64];

    snprintf(text, sizeof(text), "--%s%s%s", row->name, row->argument ? " " : "",
             row->argument ? row->argument : "");
    if (row->letter)
        printf("  -%c, %-20s %s\n", row->letter, text, row->help);
    else
        printf("      %-20s %s\n", text, row->help);
}

static void help_one(const struct command *command)
{
    printf("vipctl %s%s%s\n\n  %s\n", command->name, *command->arguments ? " " : "",
           command->arguments, command->help);
    if (*command->options)
        puts("\nOptions:");
    for (size_t i = 0; i < option_row_count; i++)
        if (command_takes(command, option_rows[i].name))
            print_option(&option_rows[i]);
    if (command->words == WORDS_VIEW) {
        puts("\nViews:");
        for (size_t i = 0; i < show_view_count; i++)
            printf("  %-9s %s\n", show_views[i].name, show_views[i].help);
        puts("\nFilters: COLUMN=VALUE, COLUMN!=VALUE, COLUMN~TEXT (contains), COLUMN>N, COLUMN<N;\n"
             "all must hold. COLUMN is a JSON key or a heading:  vipctl show vi state=error "
             "pid=4711");
    }
}

void command_help(const struct command *only)
{
    if (only) {
        help_one(only);
        return;
    }
    puts("vipctl - look into a running vipd, and steer it\n\n"
         "  vipctl [OPTIONS] [COMMAND]       without a command: show summary\n\n"
         "Commands:");
    for (size_t i = 0; i < command_count; i++)
        printf("  %-11s %-36s %s\n", commands[i].name, commands[i].arguments, commands[i].help);
    puts("\nViews:");
    for (size_t i = 0; i < show_view_count; i++)
        printf("  %-9s %s\n", show_views[i].name, show_views[i].help);
    puts("\nOptions (vipctl help COMMAND says which belong to it):");
    for (size_t i = 0; i < option_row_count; i++)
        print_option(&option_rows[i]);
    puts("  -h, --help               this text\n"
         "  -V, --version            the version\n"
         "\n"
         "VIPD_RUNTIME_DIR chooses the vipd (default: /run/vipd, or $XDG_RUNTIME_DIR/vipd).\n"
         "\n"
         "Exit code: 0 ok, 1 failed, 2 wrong usage, 3 no vipd, 4 no permission, 5 no such object,\n"
         "6 timed out, 7 check: warnings, 8 check: failures.");
}
