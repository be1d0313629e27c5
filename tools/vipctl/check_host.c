/* The checks of the machine: limits of the kernel, clock, processors. See check.h. */
#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/vipctl/check.h"

#define CPUS_TO_SPIN 4 /* with fewer processors, a program that polls takes vipd's processor */

/* Read a file's first line; the path is below $VIPCTL_SYSROOT (for tests). False: not readable. */
static bool read_line(const char *path, char *buf, size_t buf_bytes)
{
    const char *root = getenv("VIPCTL_SYSROOT");
    char full[512];
    FILE *file;
    bool ok;

    snprintf(full, sizeof(full), "%s%s", root ? root : "", path);
    file = fopen(full, "re");
    if (!file)
        return false;
    ok = fgets(buf, (int)buf_bytes, file) != NULL;
    fclose(file);
    if (ok)
        buf[strcspn(buf, "\n")] = '\0';
    return ok;
}

/* Compare a limit of the kernel for socket buffers with the wanted size. A container may hide the
 * limit; then there is no finding. */
static void check_buffer(struct findings *to, const char *key, uint64_t wanted_bytes)
{
    char path[128], line[64], fix[128];
    uint64_t value;

    snprintf(path, sizeof(path), "/proc/sys/net/core/%s", key);
    if (!read_line(path, line, sizeof(line)))
        return;
    value = strtoull(line, NULL, 10);
    snprintf(fix, sizeof(fix), "sysctl -w net.core.%s=%llu   (and into /etc/sysctl.d)", key,
             (unsigned long long)wanted_bytes);
    if (value < wanted_bytes)
        check_add(
            to, VERDICT_WARN, key, fix,
            "the kernel allows socket buffers of %llu bytes, [nic:...] buffer wants %llu: bursts "
            "of packets may be lost",
            (unsigned long long)value, (unsigned long long)wanted_bytes);
    else
        check_add(to, VERDICT_PASS, key, NULL, "socket buffers of %llu bytes are allowed",
                  (unsigned long long)value);
}

static void check_clock(struct findings *to)
{
    char clock[64];

    if (!read_line("/sys/devices/system/clocksource/clocksource0/current_clocksource", clock,
                   sizeof(clock)))
        return;
    if (strcmp(clock, "hpet") == 0 || strcmp(clock, "acpi_pm") == 0 ||
        strcmp(clock, "jiffies") == 0)
        check_add(to, VERDICT_WARN, "clock",
                  "boot with a stable TSC (dmesg | grep -i tsc says why not)",
                  "the clock source is %s: reading the time is a slow system call", clock);
    else
        check_add(to, VERDICT_PASS, "clock", NULL, "the clock source is %s", clock);
}

static void check_cpus(struct findings *to)
{
    cpu_set_t set;
    char line[128];
    double load;
    int cpus;

    if (sched_getaffinity(0, sizeof(set), &set) < 0)
        return;
    cpus = CPU_COUNT(&set);
    if (!read_line("/proc/loadavg", line, sizeof(line)))
        return;
    load = strtod(line, NULL);
    if (load > 1.5 * cpus)
        check_add(to, VERDICT_WARN, "load",
                  "give vipd processors of its own (CPUAffinity= in a drop-in "
                  "of the unit)",
                  "load %.1f on %d processor%s: latencies will be those of the scheduler", load,
                  cpus, cpus == 1 ? "" : "s");
    else
        check_add(to, VERDICT_PASS, "load", NULL, "load %.1f on %d processor%s", load, cpus,
                  cpus == 1 ? "" : "s");
    if (cpus < CPUS_TO_SPIN)
        check_add(to, VERDICT_PASS, "processors", NULL,
                  "%d: vipd and programs give the processor away while they poll", cpus);
}

static void check_governor(struct findings *to)
{
    char governor[64];

    if (!read_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", governor,
                   sizeof(governor)))
        return;
    if (strcmp(governor, "powersave") == 0)
        check_add(to, VERDICT_WARN, "cpu frequency",
                  "cpupower frequency-set -g performance   (or powerprofilesctl set performance)",
                  "the governor is powersave: small messages wait for the processor to speed up");
    else
        check_add(to, VERDICT_PASS, "cpu frequency", NULL, "the governor is %s", governor);
}

/* Without userfaultfd, a move of pages to the arena could lose writes of other threads.
 * In this case libvipl stages the memory, which costs a copy. */
static void check_userfaultfd(struct findings *to)
{
    char line[16];

    if (!read_line("/proc/sys/vm/unprivileged_userfaultfd", line, sizeof(line)))
        return;
    if (strcmp(line, "0") == 0 && geteuid() != 0 && access("/dev/userfaultfd", R_OK | W_OK) < 0)
        check_add(
            to, VERDICT_WARN, "userfaultfd",
            "sysctl -w vm.unprivileged_userfaultfd=1, or use VipxAllocMem in the program",
            "not for ordinary users: memory registered by VipRegisterMem is copied (vipctl show "
            "mem kind=staged)");
    else
        check_add(to, VERDICT_PASS, "userfaultfd", NULL, "memory can be registered without copies");
}

static void check_maps(struct findings *to)
{
    char line[64];
    uint64_t maps;

    if (!read_line("/proc/sys/vm/max_map_count", line, sizeof(line)))
        return;
    maps = strtoull(line, NULL, 10);
    if (maps < 65530)
        check_add(to, VERDICT_WARN, "max_map_count", "sysctl -w vm.max_map_count=262144",
                  "%llu mappings per process: many regions of memory files will not fit",
                  (unsigned long long)maps);
    else
        check_add(to, VERDICT_PASS, "max_map_count", NULL, "%llu mappings per process",
                  (unsigned long long)maps);
}

void check_host(struct findings *to, uint64_t wanted_buffer_bytes)
{
    if (wanted_buffer_bytes > 0) {
        check_buffer(to, "rmem_max", wanted_buffer_bytes);
        check_buffer(to, "wmem_max", wanted_buffer_bytes);
    }
    check_clock(to);
    check_cpus(to);
    check_governor(to);
    check_userfaultfd(to);
    check_maps(to);
}
