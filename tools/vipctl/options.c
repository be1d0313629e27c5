/* The options of the commands; see commands.h. */
#include <string.h>

#include "tools/vipctl/commands.h"

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
