/* The completion of a shell; see completion.h. */
#include "tools/vipctl/completion.h"

#include <stdio.h>
#include <string.h>

#include "tools/vipctl/show.h"

static const char topics[] = "vi peer error nic";

static void print_views(void)
{
    for (size_t i = 0; i < show_view_count; i++)
        printf("%s%s", i ? " " : "", show_views[i].name);
}

static void print_verbs(const struct command *table, size_t count)
{
    for (size_t i = 0; i < count; i++)
        printf("%s%s", i ? " " : "", table[i].name);
}

/* Print the options of a command with their dashes; command NULL: all options. */
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

/* Print the possible words after a verb, as a list for the shell. In the list, $(...) asks vipd. */
static void print_words(enum word_kind words, const struct command *table, size_t count)
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
        print_verbs(table, count);
        break;
    case WORDS_NONE:
    case WORDS_FILE:
    case WORDS_REST:
        break;
    }
}

/* ---- bash -------------------------------------------------------------------------------- */

static void print_bash(const struct command *table, size_t count)
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
    print_verbs(table, count);
    fputs("\" options=\"", stdout);
    print_options(NULL);
    puts("\" ;;");
    for (size_t i = 0; i < count; i++) {
        printf("    %s) options=\"", table[i].name);
        print_options(&table[i]);
        fputs("\"\n", stdout);
        if (table[i].words == WORDS_EXPLAIN)
            fputs("        case $before in\n"
                  "        vi) words=\"$(vipctl -rn -o vi show vi 2>/dev/null)\" ;;\n"
                  "        peer) words=\"$(vipctl -rn -o peer show peers 2>/dev/null)\" ;;\n"
                  "        nic) words=\"$(vipctl -rn -o name show nic 2>/dev/null)\" ;;\n"
                  "        esac\n",
                  stdout);
        fputs("        [ -n \"$before\" ] || words=\"", stdout);
        print_words(table[i].words, table, count);
        puts("\" ;;");
    }
    puts("    esac\n"
         "    case $cur in\n"
         "    -*) words=$options ;;\n"
         "    esac\n"
         "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
         "    case $verb in");
    for (size_t i = 0; i < count; i++)
        if (table[i].words == WORDS_FILE)
            printf("    %s) mapfile -t COMPREPLY < <(compgen -f -- \"$cur\") ;;\n", table[i].name);
    puts("    esac\n"
         "}\n"
         "complete -F _vipctl vipctl");
}

/* ---- zsh --------------------------------------------------------------------------------- */

/* Print a help text in single quotes; put a backslash before the characters of `special`. */
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

static void print_zsh(const struct command *table, size_t count)
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
    for (size_t i = 0; i < count; i++) {
        printf("        '%s:", table[i].name);
        print_quoted(table[i].help, ":");
        puts("'");
    }
    puts("    )\n"
         "    case $verb in");
    fputs("    '') options=(", stdout);
    print_options(NULL);
    puts("); [[ $PREFIX == -* ]] || _describe command verbs ;;");
    for (size_t i = 0; i < count; i++) {
        printf("    %s) options=(", table[i].name);
        print_options(&table[i]);
        fputs(")\n", stdout);
        if (table[i].words == WORDS_EXPLAIN)
            fputs(
                "        case $before in\n"
                "        vi) compadd -- ${(f)\"$(vipctl -rn -o vi show vi 2>/dev/null)\"} ;;\n"
                "        peer) compadd -- ${(f)\"$(vipctl -rn -o peer show peers 2>/dev/null)\"} "
                ";;\n"
                "        nic) compadd -- ${(f)\"$(vipctl -rn -o name show nic 2>/dev/null)\"} ;;\n"
                "        esac\n",
                stdout);
        if (table[i].words == WORDS_FILE) {
            fputs("        _files", stdout);
        } else {
            fputs("        [[ -n $before ]] || compadd -- ", stdout);
            print_words(table[i].words, table, count);
        }
        puts(" ;;");
    }
    puts("    esac\n"
         "    [[ $PREFIX == -* ]] && compadd -- $options\n"
         "}\n"
         "_vipctl \"$@\"");
}

/* ---- fish -------------------------------------------------------------------------------- */

static void print_fish(const struct command *table, size_t count)
{
    puts("# fish completion of vipctl; made by: vipctl completion fish\n"
         "complete -c vipctl -f");
    for (size_t i = 0; i < count; i++) {
        printf("complete -c vipctl -n __fish_use_subcommand -a %s -d '", table[i].name);
        print_quoted(table[i].help, "");
        puts("'");
    }
    for (size_t i = 0; i < count; i++) {
        if (table[i].words == WORDS_FILE) {
            printf("complete -c vipctl -F -n '__fish_seen_subcommand_from %s'\n", table[i].name);
        } else if (table[i].words != WORDS_NONE && table[i].words != WORDS_REST) {
            printf("complete -c vipctl -n '__fish_seen_subcommand_from %s' -a '", table[i].name);
            /* print_words prints $(...), which fish understands since version 3.4. */
            print_words(table[i].words, table, count);
            puts("'");
        }
        for (size_t k = 0; k < option_row_count; k++) {
            if (!command_takes(&table[i], option_rows[k].name))
                continue;
            printf("complete -c vipctl -n '__fish_seen_subcommand_from %s' -l %s%s -d '",
                   table[i].name, option_rows[k].name, option_rows[k].argument ? " -x" : "");
            print_quoted(option_rows[k].help, "");
            puts("'");
        }
    }
}

enum exit_code completion_print(const char *shell, const struct command *table, size_t count)
{
    if (strcmp(shell, "bash") == 0) {
        print_bash(table, count);
    } else if (strcmp(shell, "zsh") == 0) {
        print_zsh(table, count);
    } else if (strcmp(shell, "fish") == 0) {
        print_fish(table, count);
    } else {
        fprintf(stderr, "vipctl: there are completions for bash, zsh and fish, not for \"%s\"\n",
                shell);
        return EXIT_USAGE;
    }
    return show_flushed();
}
