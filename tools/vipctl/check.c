/* The report of `vipctl check`; see check.h. */
#include "tools/vipctl/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tools/vipctl/commands.h"
#include "tools/vipctl/show.h"

static const char *verdict_word(enum verdict verdict)
{
    switch (verdict) {
    case VERDICT_PASS:
        return "PASS";
    case VERDICT_WARN:
        return "WARN";
    case VERDICT_FAIL:
        return "FAIL";
    }
    return "?";
}

static const char *verdict_colour(enum verdict verdict)
{
    switch (verdict) {
    case VERDICT_PASS:
        return "\033[32m";
    case VERDICT_WARN:
        return "\033[33m";
    case VERDICT_FAIL:
        return "\033[31m";
    }
    return "";
}

static void print_text(const struct findings *findings, bool colours)
{
    for (size_t i = 0; i < findings->count; i++) {
        const struct finding *f = &findings->finding[i];

        printf("%s%s%s  %-14s %s\n", colours ? verdict_colour(f->verdict) : "",
               verdict_word(f->verdict), colours ? "\033[0m" : "", f->subject, f->text);
        if (f->fix[0] != '\0')
            printf("      %-14s -> %s\n", "", f->fix);
    }
    printf("%zu checks, %u warning%s, %u failure%s\n", findings->count, findings->warnings,
           findings->warnings == 1 ? "" : "s", findings->failures,
           findings->failures == 1 ? "" : "s");
}

static void print_json(const struct findings *findings)
{
    show_json_begin("vipd.check/1");
    printf(",\n  \"warnings\": %u,\n  \"failures\": %u,\n  \"checks\": [", findings->warnings,
           findings->failures);
    for (size_t i = 0; i < findings->count; i++) {
        const struct finding *f = &findings->finding[i];

        printf("%s\n    {\"verdict\": \"%s\", \"subject\": ", i ? "," : "",
               verdict_word(f->verdict));
        view_json_string(stdout, f->subject);
        fputs(", \"text\": ", stdout);
        view_json_string(stdout, f->text);
        fputs(", \"fix\": ", stdout);
        if (f->fix[0] != '\0')
            view_json_string(stdout, f->fix);
        else
            fputs("null", stdout);
        putchar('}');
    }
    fputs("\n  ]", stdout);
    show_json_end();
}

/* Print one line in the format of Nagios plug-ins. Returns the exit code of such a plug-in. */
static int print_nagios(const struct findings *findings)
{
    const struct finding *worst = NULL;

    for (size_t i = 0; i < findings->count; i++) {
        const struct finding *f = &findings->finding[i];

        if (f->verdict != VERDICT_PASS && (!worst || f->verdict > worst->verdict))
            worst = f;
    }
    printf("VIPD %s - %s%s%s | warnings=%u;1 failures=%u;;1\n",
           !worst                           ? "OK"
           : worst->verdict == VERDICT_WARN ? "WARNING"
                                            : "CRITICAL",
           worst ? worst->subject : "all checks passed", worst ? ": " : "",
           worst ? worst->text : "", findings->warnings, findings->failures);
    return !worst ? 0 : worst->verdict == VERDICT_WARN ? 1 : 2;
}

enum exit_code run_check(char **words, int count, const struct options *options)
{
    static struct findings findings;
    uint64_t buffer_bytes = 0;
    enum exit_code code;
    int sock;

    (void)words;
    (void)count;
    code = query_connect(&sock);
    if (code == EXIT_OK) {
        code = check_vipd(sock, &findings, options->peer, &buffer_bytes);
        (void)close(sock);
    }
    if (code != EXIT_OK && !options->nagios)
        return code;
    if (code != EXIT_OK) {
        printf("VIPD %s - vipd cannot be asked\n", code == EXIT_NO_VIPD ? "CRITICAL" : "UNKNOWN");
        return (enum exit_code)(code == EXIT_NO_VIPD ? 2 : 3);
    }
    check_host(&findings, buffer_bytes);
    if (options->nagios)
        return (enum exit_code)print_nagios(&findings);
    if (options->json)
        print_json(&findings);
    else
        print_text(&findings, options->colours);
    if (show_flushed() != EXIT_OK)
        return EXIT_FAILED;
    return findings.failures ? EXIT_FAILURES : findings.warnings ? EXIT_WARNINGS : EXIT_OK;
}
