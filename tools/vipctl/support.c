/*
 * `vipctl support`: writes one archive with all data that helps with a bug report. The archive has
 * no secrets, and no memory addresses or memory handles, which could help an attacker.
 *
 * `vipctl bench`: runs vipperf.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tools/vipctl/commands.h"
#include "tools/vipctl/program.h"
#include "tools/vipctl/show.h"

#define FOLDER "vipd-support"

enum exit_code run_bench(char **words, int count, const struct options *options)
{
    char **arguments = calloc((size_t)count + 2, sizeof(*arguments));
    enum exit_code code;

    (void)options;
    if (!arguments) {
        fprintf(stderr, "vipctl: out of memory\n");
        return EXIT_FAILED;
    }
    arguments[0] = (char *)"vipperf";
    for (int i = 0; i < count; i++)
        arguments[i + 1] = words[i];
    code = program_run("vipperf", arguments);
    free(arguments);
    return code;
}

/* Write a part (a view, the report of check, the metrics) in a child that prints to a file. */
static void write_part(const char *dir, const char *name,
                       enum exit_code (*run)(char **words, int count,
                                             const struct options *options),
                       char **words, int count, const struct options *options)
{
    char path[PATH_MAX];
    pid_t pid;
    int fd;

    if (snprintf(path, sizeof(path), "%s/" FOLDER "/%s", dir, name) >= (int)sizeof(path))
        return;
    (void)fflush(stdout);
    pid = fork();
    if (pid < 0)
        return;
    if (pid == 0) {
        fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0 || dup2(fd, STDERR_FILENO) < 0)
            _exit(1);
        _exit(run(words, count, options));
    }
    (void)waitpid(pid, NULL, 0);
}

static void write_views(const char *dir)
{
    for (size_t i = 0; i < show_view_count; i++) {
        struct options options = {.json = true};
        char *words[] = {(char *)show_views[i].name};
        char name[64];

        if (strcmp(words[0], "mem") == 0)
            options.output = "nic,client,size_bytes,kind,rdma,pid,uid,program";
        if (strcmp(words[0], "ptag") == 0)
            options.output = "nic,client,users,pid,uid,program";
        snprintf(name, sizeof(name), "show-%s.json", words[0]);
        write_part(dir, name, run_show, words, 1, &options);
    }
}

static enum exit_code system_facts(char **words, int count, const struct options *options)
{
    static const char *const files[] = {
        "/etc/os-release",
        "/proc/loadavg",
        "/proc/meminfo",
        "/proc/net/dev",
        "/proc/net/snmp",
        "/proc/sys/net/core/rmem_max",
        "/proc/sys/net/core/wmem_max",
        "/proc/sys/vm/max_map_count",
        "/proc/sys/vm/unprivileged_userfaultfd",
    };
    struct utsname uts;
    char line[512];

    (void)words;
    (void)count;
    (void)options;
    puts("vipctl " VIP_VERSION);
    if (uname(&uts) == 0)
        printf("%s %s %s, %ld processors\n", uts.sysname, uts.release, uts.machine,
               sysconf(_SC_NPROCESSORS_ONLN));
    for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
        FILE *file = fopen(files[i], "re");

        printf("\n== %s\n", files[i]);
        while (file && fgets(line, sizeof(line), file))
            fputs(line, stdout);
        if (file)
            fclose(file);
    }
    return show_flushed();
}

static int run_program(char *const arguments[])
{
    pid_t pid = fork();
    int status;

    if (pid < 0)
        return -1;
    if (pid == 0) {
        execvp(arguments[0], arguments);
        _exit(127);
    }
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static enum exit_code pack(const char *dir, const char *file)
{
    char *const tar[] = {(char *)"tar", (char *)"-C", (char *)dir,    (char *)"-czf",
                         (char *)file,  (char *)"--", (char *)FOLDER, NULL};

    if (run_program(tar) == 0)
        return EXIT_OK;
    fprintf(stderr, "vipctl: tar could not write %s\n", file);
    return EXIT_FAILED;
}

static void remove_dir(const char *dir)
{
    char *const rm[] = {(char *)"rm", (char *)"-rf", (char *)"--", (char *)dir, NULL};

    (void)run_program(rm);
}

enum exit_code run_support(char **words, int count, const struct options *options)
{
    struct options all = {.json = true, .defaults = true}, plain = {0};
    char *config[] = {(char *)"show"};
    char dir[PATH_MAX], folder[PATH_MAX + 32], file[PATH_MAX];
    const char *tmp = getenv("TMPDIR");
    enum exit_code code;
    time_t now = time(NULL);
    struct tm tm;
    int sock;

    (void)options;
    localtime_r(&now, &tm);
    if (count > 0)
        snprintf(file, sizeof(file), "%s", words[0]);
    else
        strftime(file, sizeof(file), FOLDER "-%Y%m%d-%H%M%S.tar.gz", &tm);
    snprintf(dir, sizeof(dir), "%s/vipctl-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(dir) || snprintf(folder, sizeof(folder), "%s/" FOLDER, dir) < 0 ||
        mkdir(folder, 0700) < 0) {
        fprintf(stderr, "vipctl: no folder can be made: %s\n", strerror(errno));
        return EXIT_FAILED;
    }
    write_part(dir, "system.txt", system_facts, NULL, 0, &plain);
    /* Without a vipd, the archive has only the facts of the system. */
    code = query_connect(&sock);
    if (code == EXIT_OK) {
        (void)close(sock);
        write_views(dir);
        write_part(dir, "config.json", run_config, config, 1, &all);
        write_part(dir, "check.txt", run_check, NULL, 0, &plain);
        write_part(dir, "metrics.txt", run_metrics, NULL, 0, &plain);
    }
    if (pack(dir, file) != EXIT_OK)
        code = EXIT_FAILED;
    else
        printf("%s\n", file);
    remove_dir(dir);
    return code;
}
