/*
 * `vipctl completion`: prints the completion of a shell, made from the table of commands, so that
 * both always agree. When it completes, it asks vipd for peers, VIs and NICs.
 */
#include <stdio.h>
#include <string.h>

#include "tools/vipctl/commands.h"
#include "tools/vipctl/show.h"

static const char topics[] = "vi peer error nic";

static void print_views(void)
{
    for (size_t i = 0; i < show_view_count; i++)
        printf("%s%s", i ? " " : "", show_views[i].name);
}

static void print_verbs(void)
{
    for (size_t i = 0; i < command_count; i++)
        printf("%s%s", i ? " " : "", commands[i].name);
}

/* Print the options of a command with their dashes; NULL: all options. */
static void print_options(const struct command *command)
{
    const char *between = "";

    for (size_t i = 0; i < option_row_count; i++) {
        if (command && !command_takes(command, option_rows[i].name))
            continue;
        printf("%s--%s", between, option_rows[i].name);
        between = " ";
    }
    printf("%s--help --version", between);
}

/* Print the possible words after a verb, as a shell's list; $(...) asks vipd. */
static void print_words(enum word_kind words)
{
    switch (words) {
    case WORDS_VIEW:
        print_views();
        break;
    case WORDS_EXPLAIN:
        fputs(topics, stdout);
        break;
    case WORDS_SHELL:
        fputs("bash zsh fish", stdout);
        break;
    case WORDS_CONFIG:
        fputs("check show diff", stdout);
        break;
    case WORDS_TOP:
        fputs("vi peer program", stdout);
        break;
    case WORDS_PEER:
        fputs("$(vipctl -rn -o peer show peers 2>/dev/null)", stdout);
        break;
    case WORDS_TARGET:
        fputs(
            "$(vipctl -rn -o vi show vi 2>/dev/null) $(vipctl -rn -o peer show peers 2>/dev/null)",
            stdout);
        break;
    case WORDS_VERB:
        print_verbs();
        break;
    case WORDS_NONE:
    case WORDS_FILE:
    case WORDS_REST:
        break;
    }
}

/* ---- bash -------------------------------------------------------------------------------- */

static void print_bash(void)
{
    puts("# bash completion of vipctl; made by: vipctl completion bash\n"
         "_vipctl()\n"
         "{\n"
         "    local cur=${COMP_WORDS[COMP_CWORD]} verb='' before='' i words='' options=''\n"
         "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
         "        case ${COMP_WORDS[i]} in\n"
         "        -*) ;;\n"
         "        *) if [ -z \"$verb\" ]; then verb=${COMP_WORDS[i]}; else "
         "before=${COMP_WORDS[i]}; fi ;;\n"
         "        esac\n"
         "    done\n"
         "    case $verb in");
    fputs("    '') words=\"", stdout);
    print_verbs();
    fputs("\" options=\"", stdout);
    print_options(NULL);
    puts("\" ;;");
    for (size_t i = 0; i < command_count; i++) {
        printf("    %s) options=\"", commands[i].name);
        print_options(&commands[i]);
        fputs("\"\n", stdout);
        if (commands[i].words == WORDS_EXPLAIN)
            fputs("        case $before in\n"
                  "        vi) words=\"$(vipctl -rn -o vi show vi 2>/dev/null)\" ;;\n"
                  "        peer) words=\"$(vipctl -rn -o peer show peers 2>/dev/null)\" ;;\n"
                  "        nic) words=\"$(vipctl -rn -o name show nic 2>/dev/null)\" ;;\n"
                  "        esac\n",
                  stdout);
        fputs("        [ -n \"$before\" ] || words=\"", stdout);
        print_words(commands[i].words);
        puts("\" ;;");
    }
    puts("    esac\n"
         "    case $cur in\n"
         "    -*) words=$options ;;\n"
         "    esac\n"
         "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
         "    case $verb in");
    for (size_t i = 0; i < command_count; i++)
        if (commands[i].words == WORDS_FILE)
            printf("    %s) mapfile -t COMPREPLY < <(compgen -f -- \"$cur\") ;;\n",
                   commands[i].name);
    puts("    esac\n"
         "}\n"
         "complete -F _vipctl vipctl");
}

/* ---- zsh --------------------------------------------------------------------------------- */

/* Help texts go between single quotes. */
static void print_quoted(const char *text, const char *special)
{
    for (; *text; text++) {
        if (*text == '\'')
            fputs("'\\''", stdout);
        else if (strchr(special, *text))
            printf("\\%c", *text);
        else
            putchar(*text);
    }
}

static void print_zsh(void)
{
    puts("#compdef vipctl\n"
         "# zsh completion of vipctl; made by: vipctl completion zsh\n"
         "_vipctl() {\n"
         "    local -a verbs options\n"
         "    local verb= before= word\n"
         "    for word in ${words[2,CURRENT-1]}; do\n"
         "        [[ $word == -* ]] && continue\n"
         "        if [[ -z $verb ]]; then verb=$word; else before=$word; fi\n"
         "    done\n"
         "    verbs=(");
    for (size_t i = 0; i < command_count; i++) {
        printf("        '%s:", commands[i].name);
        print_quoted(commands[i].help, ":");
        puts("'");
    }
    puts("    )\n"
         "    case $verb in");
    fputs("    '') options=(", stdout);
    print_options(NULL);
    puts("); [[ $PREFIX == -* ]] || _describe command verbs ;;");
    for (size_t i = 0; i < command_count; i++) {
        printf("    %s) options=(", commands[i].name);
        print_options(&commands[i]);
        fputs(")\n", stdout);
        if (commands[i].words == WORDS_EXPLAIN)
            fputs(
                "        case $before in\n"
                "        vi) compadd -- ${(f)\"$(vipctl -rn -o vi show vi 2>/dev/null)\"} ;;\n"
                "        peer) compadd -- ${(f)\"$(vipctl -rn -o peer show peers 2>/dev/null)\"} "
                ";;\n"
                "        nic) compadd -- ${(f)\"$(vipctl -rn -o name show nic 2>/dev/null)\"} ;;\n"
                "        esac\n",
                stdout);
        if (commands[i].words == WORDS_FILE) {
            fputs("        _files", stdout);
        } else {
            fputs("        [[ -n $before ]] || compadd -- ", stdout);
            print_words(commands[i].words);
        }
        puts(" ;;");
    }
    puts("    esac\n"
         "    [[ $PREFIX == -* ]] && compadd -- $options\n"
         "}\n"
         "_vipctl \"$@\"");
}

/* ---- fish -------------------------------------------------------------------------------- */

static void print_fish(void)
{
    puts("# fish completion of vipctl; made by: vipctl completion fish\n"
         "complete -c vipctl -f");
    for (size_t i = 0; i < command_count; i++) {
        printf("complete -c vipctl -n __fish_use_subcommand -a %s -d '", commands[i].name);
        print_quoted(commands[i].help, "");
        puts("'");
    }
    for (size_t i = 0; i < command_count; i++) {
        if (commands[i].words == WORDS_FILE) {
            printf("complete -c vipctl -F -n '__fish_seen_subcommand_from %s'\n", commands[i].name);
        } else if (commands[i].words != WORDS_NONE && commands[i].words != WORDS_REST) {
            printf("complete -c vipctl -n '__fish_seen_subcommand_from %s' -a '", commands[i].name);
            /* fish has $(...) since 3.4; Debian 12 has 3.6. */
            print_words(commands[i].words);
            puts("'");
        }
        for (size_t k = 0; k < option_row_count; k++) {
            if (!command_takes(&commands[i], option_rows[k].name))
                continue;
            printf("complete -c vipctl -n '__fish_seen_subcommand_from %s' -l %s%s -d '",
                   commands[i].name, option_rows[k].name, option_rows[k].argument ? " -x" : "");
            print_quoted(option_rows[k].help, "");
            puts("'");
        }
    }
}

enum exit_code run_completion(char **words, int count, const struct options *options)
{
    (void)count;
    (void)options;
    if (strcmp(words[0], "bash") == 0) {
        print_bash();
    } else if (strcmp(words[0], "zsh") == 0) {
        print_zsh();
    } else if (strcmp(words[0], "fish") == 0) {
        print_fish();
    } else {
        fprintf(stderr, "vipctl: there are completions for bash, zsh and fish, not for \"%s\"\n",
                words[0]);
        return EXIT_USAGE;
    }
    return show_flushed();
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
