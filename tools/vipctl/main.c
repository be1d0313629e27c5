/*
 * vipctl: inspects and controls a running vipd, with control requests only.
 *
 * Owns: the command line. The commands are in the table commands.def.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/vipctl/commands.h"

#define LONG_ONLY 256 /* first value that getopt returns for options without a letter */

/* given[i]: the user gave option_rows[i]. run() refuses an option that the command lacks. */
static bool given[32];

static bool number(const char *text, double min, double max, double *ret)
{
    char *end;
    double value = strtod(text, &end);

    if (end == text || *end != '\0' || !(value >= min && value <= max))
        return false;
    *ret = value;
    return true;
}

static bool set_color(const char *when, struct options *options)
{
    if (strcmp(when, "always") == 0)
        options->colours = true;
    else if (strcmp(when, "never") == 0)
        options->colours = false;
    else if (strcmp(when, "auto") != 0)
        return false;
    return true;
}

/* Set an option. argument NULL: the option has none. False: the argument is invalid. */
static bool set_option(const char *name, const char *argument, struct options *options)
{
    const struct {
        const char *name;
        bool *flag;
    } flags[] = {
        {"json", &options->json},
        {"raw", &options->raw},
        {"no-header", &options->no_header},
        {"nagios", &options->nagios},
        {"app", &options->app},
        {"once", &options->once},
        {"wait", &options->wait},
        {"dry-run", &options->dry_run},
        {"payload", &options->payload},
        {"tree", &options->tree},
        {"mapped", &options->mapped},
        {"defaults", &options->defaults},
    };
    double value;

    for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); i++) {
        if (strcmp(flags[i].name, name) == 0) {
            *flags[i].flag = true;
            return true;
        }
    }
    if (strcmp(name, "output") == 0)
        options->output = argument;
    else if (strcmp(name, "peer") == 0)
        options->peer = argument;
    else if (strcmp(name, "write") == 0)
        options->write = argument;
    else if (strcmp(name, "vi") == 0)
        options->vi = argument;
    else if (strcmp(name, "nic") == 0)
        options->nic = argument;
    else if (strcmp(name, "color") == 0)
        return set_color(argument, options);
    else if (strcmp(name, "interval") == 0)
        return number(argument, 0.01, 3600, &options->interval_s);
    else if (strcmp(name, "timeout") == 0)
        return number(argument, 0.01, 86400, &options->timeout_s);
    else if (!number(argument, 1, 1e9, &value) || value != (double)(uint64_t)value)
        return false;
    else
        options->count = (uint64_t)value;
    return true;
}

static void make_long_options(struct option *ret, char *letters)
{
    size_t n = 0;

    for (size_t i = 0; i < option_row_count; i++) {
        const struct option_row *row = &option_rows[i];

        ret[i] = (struct option){row->name, row->argument ? required_argument : no_argument, NULL,
                                 LONG_ONLY + (int)i};
        if (!row->letter)
            continue;
        letters[n++] = row->letter;
        if (row->argument)
            letters[n++] = ':';
    }
    ret[option_row_count] = (struct option){"help", no_argument, NULL, 'h'};
    ret[option_row_count + 1] = (struct option){"version", no_argument, NULL, 'V'};
    ret[option_row_count + 2] = (struct option){0};
    strcpy(letters + n, "hV");
}

static int row_of_letter(int letter)
{
    for (size_t i = 0; i < option_row_count; i++)
        if (option_rows[i].letter == letter)
            return (int)i;
    return -1;
}

/* Parse the options. Outcomes: -1: continue; otherwise the exit code. */
static int parse(int argc, char **argv, struct options *options, bool *ret_help)
{
    struct option long_options[40];
    char letters[80];
    int c;

    make_long_options(long_options, letters);
    while ((c = getopt_long(argc, argv, letters, long_options, NULL)) != -1) {
        int row = c >= LONG_ONLY ? c - LONG_ONLY : row_of_letter(c);

        if (c == 'V') {
            puts("vipctl " VIP_VERSION);
            return EXIT_OK;
        }
        if (c == 'h') {
            *ret_help = true;
            continue;
        }
        if (row < 0) {
            fprintf(stderr, "See vipctl --help\n");
            return EXIT_USAGE;
        }
        given[row] = true;
        if (!set_option(option_rows[row].name, optarg, options)) {
            fprintf(stderr, "vipctl: --%s %s makes no sense; --%s %s: %s\n", option_rows[row].name,
                    optarg, option_rows[row].name, option_rows[row].argument,
                    option_rows[row].help);
            return EXIT_USAGE;
        }
    }
    return -1;
}

static enum exit_code run(const struct command *command, char **words, int count,
                          const struct options *options)
{
    if (count < command->words_min || (command->words_max >= 0 && count > command->words_max)) {
        fprintf(stderr, "vipctl: usage: vipctl %s %s; see vipctl help %s\n", command->name,
                command->arguments, command->name);
        return EXIT_USAGE;
    }
    for (size_t i = 0; i < option_row_count; i++) {
        if (!given[i] || command_takes(command, option_rows[i].name))
            continue;
        fprintf(stderr, "vipctl: %s takes no --%s; see vipctl help %s\n", command->name,
                option_rows[i].name, command->name);
        return EXIT_USAGE;
    }
    return command->run(words, count, options);
}

int main(int argc, char **argv)
{
    const char *no_color = getenv("NO_COLOR");
    struct options options = {.colours = isatty(STDOUT_FILENO) && !(no_color && *no_color)};
    static char show[] = "show";
    char *summary[] = {show, NULL};
    const struct command *command;
    bool help = false;
    char **words;
    int r, count;

    /* All words and options after `bench` belong to vipperf. */
    if (argc > 1 && strcmp(argv[1], "bench") == 0)
        return run_bench(argv + 2, argc - 2, &options);
    r = parse(argc, argv, &options, &help);
    if (r >= 0)
        return r;
    query_set_timeout(options.timeout_s > 0 ? options.timeout_s : QUERY_TIMEOUT_S);
    words = optind < argc ? argv + optind : summary;
    count = optind < argc ? argc - optind : 1;
    command = command_find(words[0]);
    if (!command) {
        fprintf(stderr, "vipctl: there is no command \"%s\"; see vipctl --help\n", words[0]);
        return EXIT_USAGE;
    }
    if (help) {
        command_help(optind < argc ? command : NULL);
        return EXIT_OK;
    }
    return run(command, words + 1, count - 1, &options);
}
