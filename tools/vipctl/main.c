/*
 * vipctl: looks into a running vipd. Speaks control messages only, changes nothing.
 *
 * Owns: the command line. The table of verbs below is the only list of them: parsing and --help
 * both read it.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/vipctl/show.h"
#include "tools/vipctl/views.h"

struct verb {
    const char *name;
    const char *arguments; /* for --help */
    const char *help;
    int argument_count; /* exactly so many words follow the verb */
    enum exit_code (*run)(char **arguments, const struct show_options *options);
};

static enum exit_code run_show(char **arguments, const struct show_options *options)
{
    return show_view(arguments[0], options);
}

static const struct verb verbs[] = {
    {"show", "VIEW", "print one of the views below", 1, run_show},
};
#define VERB_COUNT (sizeof(verbs) / sizeof(*verbs))

static void print_help(void)
{
    puts("vipctl - look into a running vipd\n\n"
         "  vipctl [--json]                  a summary of vipd and its NICs");
    for (size_t i = 0; i < VERB_COUNT; i++)
        printf("  vipctl %s %s [--json]%*s%s\n", verbs[i].name, verbs[i].arguments,
               (int)(16 - strlen(verbs[i].name) - strlen(verbs[i].arguments)), "", verbs[i].help);
    puts("\nViews:");
    for (size_t i = 0; i < show_view_count; i++)
        printf("  %-9s %s\n", show_views[i].name, show_views[i].help);
    puts("\nOptions:\n"
         "  -j, --json     one JSON document instead of a table: raw numbers, units in the keys\n"
         "  -h, --help     this text\n"
         "  -V, --version  the version\n"
         "\n"
         "VIPD_RUNTIME_DIR chooses the vipd (default: /run/vipd, or $XDG_RUNTIME_DIR/vipd).\n"
         "NO_COLOR turns colours off; they are used on a terminal only.\n"
         "Exit code: 0 ok, 1 failed, 2 wrong usage, 3 no vipd, 4 no permission.");
}

static enum exit_code run_verb(int count, char **words, const struct show_options *options)
{
    for (size_t i = 0; i < VERB_COUNT; i++) {
        if (strcmp(verbs[i].name, words[0]) != 0)
            continue;
        if (count - 1 != verbs[i].argument_count) {
            fprintf(stderr, "vipctl: usage: vipctl %s %s; see vipctl --help\n", verbs[i].name,
                    verbs[i].arguments);
            return EXIT_USAGE;
        }
        return verbs[i].run(words + 1, options);
    }
    fprintf(stderr, "vipctl: there is no command \"%s\"; see vipctl --help\n", words[0]);
    return EXIT_USAGE;
}

int main(int argc, char **argv)
{
    static const struct option long_options[] = {
        {"json", no_argument, NULL, 'j'},
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},
        {0},
    };
    const char *no_color = getenv("NO_COLOR");
    struct show_options options = {
        .colours = isatty(STDOUT_FILENO) && !(no_color && *no_color),
    };
    int c;

    while ((c = getopt_long(argc, argv, "jhV", long_options, NULL)) != -1) {
        switch (c) {
        case 'j':
            options.json = true;
            break;
        case 'h':
            print_help();
            return EXIT_OK;
        case 'V':
            puts("vipctl " VIP_VERSION);
            return EXIT_OK;
        default:
            fprintf(stderr, "See vipctl --help\n");
            return EXIT_USAGE;
        }
    }
    if (optind == argc)
        return show_summary(&options);
    return run_verb(argc - optind, argv + optind, &options);
}
