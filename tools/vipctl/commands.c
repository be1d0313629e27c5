/* The table of commands; see commands.h. */
#include "tools/vipctl/commands.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "tools/vipctl/views.h"

#define TABLE "json raw no-header output color timeout"

const struct command commands[] = {
    {"show", "[VIEW [FILTER...]]", "print a view; without VIEW: summary", WORDS_VIEW, 0, -1,
     TABLE " tree mapped", run_show},
    {"explain", "vi N | peer P | error CODE | nic N", "why something is as it is, and what to do",
     WORDS_EXPLAIN, 2, 2, "json timeout", run_explain},
    {"check", "", "the doctor: what is wrong or slow here, and the command that mends it",
     WORDS_NONE, 0, 0, "json nagios peer color timeout", run_check},
    {"ping", "PEER", "does the vipd of a host answer, and how fast", WORDS_PEER, 1, 1,
     "json count interval nic app timeout", run_ping},
    {"top", "[vi | peer | program]", "traffic, busiest first, every second", WORDS_TOP, 0, 1,
     "json interval count once color timeout", run_top},
    {"monitor", "", "what happens, as it happens", WORDS_NONE, 0, 0, "json count interval timeout",
     run_monitor},
    {"config", "check [FILE] | show | diff", "look at the configuration and what is in force",
     WORDS_CONFIG, 1, 2, TABLE " defaults", run_config},
    {"reload", "", "read the configuration again; all of it takes effect, or nothing", WORDS_NONE,
     0, 0, "json dry-run timeout", run_reload},
    {"disconnect", "VI | CLIENT:VI | PEER", "end a connection, or all with a peer", WORDS_TARGET, 1,
     1, "json timeout", run_disconnect},
    {"drain", "", "no new NIC handles and connections; what runs goes on", WORDS_NONE, 0, 0,
     "json wait timeout", run_drain},
    {"resume", "", "the end of drain", WORDS_NONE, 0, 0, "json timeout", run_resume},
    {"capture", "", "packets, postings and completions into a file for Wireshark", WORDS_NONE, 0, 0,
     "write vi peer payload count timeout", run_capture},
    {"metrics", "", "all statistics as OpenMetrics text", WORDS_NONE, 0, 0, "mapped timeout",
     run_metrics},
    {"bench", "[ARGUMENTS OF vipperf...]", "measure; runs vipperf", WORDS_REST, 0, -1, "",
     run_bench},
    {"support", "[FILE.tar.gz]", "one archive for a bug report, without addresses of memory",
     WORDS_FILE, 0, 1, "timeout", run_support},
    {"completion", "bash | zsh | fish", "print the completion of a shell", WORDS_SHELL, 1, 1, "",
     run_completion},
    {"help", "[COMMAND]", "this text, or that of one command", WORDS_VERB, 0, 1, "", run_help},
};
const size_t command_count = sizeof(commands) / sizeof(*commands);

const struct option_row option_rows[] = {
    {"json", 'j', NULL, "one JSON document (schema/*.json), numbers raw, units in the keys"},
    {"raw", 'r', NULL, "numbers without units, cells separated by tabs"},
    {"no-header", 'n', NULL, "no headings"},
    {"output", 'o', "COLUMNS",
     "these columns, by their JSON keys or headings, separated by commas"},
    {"color", 0, "WHEN", "auto (default: on a terminal, unless NO_COLOR is set), always or never"},
    {"timeout", 't', "SECONDS", "how long to wait for an answer (default 5)"},
    {"peer", 'p', "PEER",
     "check: also whether this peer answers; capture: packets of this one only"},
    {"write", 'w', "FILE", "capture: into this file (pcapng), - is standard output"},
    {"vi", 0, "VI", "capture: of this VI only; a number, or CLIENT:VI"},
    {"payload", 0, NULL, "capture: also what programs send; without it there are headers only"},
    {"nagios", 0, NULL, "check: one line; exit codes 0 ok, 1 warning, 2 critical, 3 unknown"},
    {"count", 'c', "N", "ping: so many (default 4); monitor, top, capture: end after so many"},
    {"interval", 'i', "SECONDS", "time between two (ping 0.2, monitor 0.2, top 1)"},
    {"nic", 0, "NIC", "ping: over this NIC (default: the first one)"},
    {"app", 0, NULL, "ping: from program to program; the peer runs vipperf serve"},
    {"once", '1', NULL, "top: print one interval and end"},
    {"wait", 0, NULL, "drain: until no program has a NIC open, at most --timeout"},
    {"dry-run", 0, NULL, "reload: say what would change"},
    {"tree", 0, NULL, "show clients: below their NICs, with their VIs"},
    {"mapped", 'm', NULL,
     "show stats, metrics: from the file vipd.stats, without asking vipd; for the group via-stat"},
    {"defaults", 0, NULL, "config show: also keys that have their default"},
};
const size_t option_row_count = sizeof(option_rows) / sizeof(*option_rows);

const struct command *command_find(const char *name)
{
    for (size_t i = 0; i < command_count; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

bool command_takes(const struct command *command, const char *option)
{
    size_t len = strlen(option);

    for (const char *at = command->options; *at;) {
        size_t word = strcspn(at, " ");

        if (word == len && strncmp(at, option, len) == 0)
            return true;
        at += word + (at[word] == ' ');
    }
    return false;
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
