/* The manual page of the statistics, made of the table (proto/stats.def). */
#include "vipd/stats_print.h"

#include <string.h>

#include "proto/stats.h"

/* Print text; escape the characters that scdoc takes for markup. */
static void print_escaped(FILE *out, const char *text)
{
    for (; *text; text++) {
        if (strchr("\\*_#|[<>.~-`", *text))
            fputc('\\', out);
        fputc(*text, out);
    }
}

static void print_one(FILE *out, const char *name, const char *kind, const char *unit,
                      const char *help)
{
    fputc('*', out);
    print_escaped(out, name);
    fprintf(out, "* (%s)\n\t", kind);
    print_escaped(out, unit);
    fputs(": ", out);
    print_escaped(out, help);
    fputs("\n\n", out);
}

static void print_scope(FILE *out, enum vip_stat_scope scope, const char *title)
{
    fprintf(out, "# %s\n\n", title);
    for (unsigned id = 0; id < VIP_STATS; id++) {
        const struct vip_stat_info *info = &vip_stats[id];

        if (info->scope == scope)
            print_one(out, info->name, vip_stat_kind_name(info->kind), info->unit, info->help);
    }
}

void vipd_print_statistics(FILE *out)
{
    fputs("vipd-statistics(7)\n\n"
          "# NAME\n\n"
          "vipd-statistics - what vipd counts\n\n"
          "# DESCRIPTION\n\n"
          "*vipctl show stats* shows these numbers, *vipctl metrics* gives them as OpenMetrics "
          "text: those "
          "of vipd as _vipd\\_NAME_, those of a NIC as _vipd\\_nic\\_NAME_ with the label _nic_, "
          "counters "
          "with the suffix _\\_total_, and the percentiles of what takes how long as summaries, in "
          "seconds. A "
          "counter only grows while vipd lives; a gauge is of this "
          "moment.\n\n",
          out);
    print_scope(out, VIP_STAT_SCOPE_VIPD, "OF VIPD");
    print_scope(out, VIP_STAT_SCOPE_NIC, "OF EACH NIC");
    fputs("# OF EACH PEER\n\n"
          "*vipctl show peers* shows these, and the OpenMetrics text has them as "
          "_vipd\\_peer\\_NAME_ with the labels _nic_, _peer_ and, if it is in [names], _name_; "
          "they are "
          "not in the file. _vipd\\_peer\\_up_ is 1 while the host answers.\n\n",
          out);
    for (enum vip_peer_stat id = 0; id < VIP_PEER_STATS; id++)
        print_one(out, vip_peer_stats[id].name, "gauge", vip_peer_stats[id].unit,
                  vip_peer_stats[id].help);
    fputs("# SEE ALSO\n\n*vipctl*(1), *vipd*(8)\n", out);
}
