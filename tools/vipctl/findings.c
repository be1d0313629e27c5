/* The findings of vipctl check. */
#include "tools/vipctl/check.h"

#include <stdarg.h>
#include <stdio.h>

void check_add(struct findings *to, enum verdict verdict, const char *subject, const char *fix,
               const char *format, ...)
{
    struct finding *finding = &to->finding[to->count];
    va_list args;

    if (to->count == FINDINGS_MAX)
        return;
    to->count++;
    finding->verdict = verdict;
    finding->subject = subject;
    snprintf(finding->fix, sizeof(finding->fix), "%s", fix ? fix : "");
    va_start(args, format);
    vsnprintf(finding->text, sizeof(finding->text), format, args);
    va_end(args);
    to->warnings += verdict == VERDICT_WARN;
    to->failures += verdict == VERDICT_FAIL;
}
