/*
 * vipd is the NIC and kernel agent of a host. This file has the command line, and the order of
 * starting and stopping.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "vipd/background.h"
#include "vipd/client/client.h"
#include "vipd/config.h"
#include "vipd/config_files.h"
#include "vipd/config_print.h"
#include "vipd/host.h"
#include "vipd/ctl/stats_file.h"
#include "vipd/fd_store.h"
#include "vipd/handover.h"
#include "vipd/log.h"
#include "vipd/systemd_notify.h"
#include "vipd/known_paths.h"
#include "vipd/owners.h"
#include "vipd/privilege.h"
#include "vipd/registry/memfile.h"
#include "vipd/runtime.h"
#include "vipd/config_apply.h"
#include "vipd/start.h"
#include "vipd/stats_print.h"
#include "vipd/takeover.h"
#include "vipd/ticket.h"
#include "vipd/units.h"

#define EXIT_USAGE   2 /* wrong command line */
#define ERRORS_BYTES 8192

struct options {
    struct vipd_config_source source;
    const char *runtime_dir;
    bool check_only;
    bool background;
    bool takeover;
    uint64_t idle_exit_ns; /* used if [daemon] idle_exit is 0 */
    bool log_level_given;  /* log_level replaces the level of the file */
    enum vipd_log_level log_level;
};

static void print_help(void)
{
    puts(
        "vipd - a software NIC of the Virtual Interface Architecture\n"
        "\n"
        "  vipd [--config FILE] [--runtime-dir DIR] [--log-level LEVEL]\n"
        "  vipd --check-config [--config FILE]\n"
        "  vipd --print-config[=man|=statistics]\n"
        "\n"
        "  -c, --config FILE      this configuration and FILE.d/*.conf instead of the system's:\n"
        "                         vipd.conf and vipd.conf.d in " VIPD_VENDOR_DIR ",\n"
        "                         /run/vipd and /etc/vipd. Without any file there is one NIC\n"
        "                         'vip0' over UDP on the address of the default route\n"
        "      --root DIR         look for the system's files under DIR\n"
        "  -r, --runtime-dir DIR  where programs find vipd.sock; default: $RUNTIME_DIRECTORY, "
        "else\n"
        "                         /run/vipd for root, $XDG_RUNTIME_DIR/vipd for others. Programs\n"
        "                         find another one through VIPD_RUNTIME_DIR=DIR\n"
        "  -l, --log-level LEVEL  error, warning, info (default) or debug\n"
        "  -k, --check-config     look at the configuration and exit: 0 good, 1 bad\n"
        "      --print-config     print a commented file with every key and its default and exit;\n"
        "                         =man, =statistics: sources of manual pages\n"
        "      --background       leave the terminal when ready (exit code 0); log in "
        "DIR/vipd.log\n"
        "      --takeover         take over from the vipd that runs in DIR: it hands over its "
        "sockets\n"
        "                         and ends, and its connections go on ([reliability] outlive)\n"
        "      --idle-exit TIME   end when no program has had a NIC open for so long, unless the\n"
        "                         configuration says [daemon] idle_exit\n"
        "  -f, --foreground       stay in the foreground; vipd always does\n"
        "  -h, --help             this text\n"
        "  -V, --version          the version\n"
        "\n"
        "SIGTERM or SIGINT stop it in good order; SIGHUP reads the configuration again. Several "
        "vipd on one host need an address (or\n"
        "port) and a runtime directory of their own each.");
}

static int print_config(const char *form)
{
    if (!form) {
        vipd_config_print_reference(stdout);
    } else if (strcmp(form, "man") == 0) {
        vipd_config_print_manual(stdout);
    } else if (strcmp(form, "statistics") == 0) {
        vipd_print_statistics(stdout);
    } else {
        fprintf(stderr, "vipd: --print-config=%s: there are =man and =statistics, or nothing\n",
                form);
        return EXIT_USAGE;
    }
    if (fflush(stdout) != 0 || ferror(stdout)) {
        perror("vipd: writing the configuration");
        return EXIT_FAILURE;
    }
    return 0;
}

/* Outcomes: -1: vipd goes on; else the exit code. */
static int parse_options(int argc, char **argv, struct options *options)
{
    static const struct option long_options[] = {
        {"config", required_argument, NULL, 'c'},
        {"runtime-dir", required_argument, NULL, 'r'},
        {"log-level", required_argument, NULL, 'l'},
        {"check-config", no_argument, NULL, 'k'},
        {"foreground", no_argument, NULL, 'f'},
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},
        {"root", required_argument, NULL, 'R'},
        {"print-config", optional_argument, NULL, 'p'},
        {"background", no_argument, NULL, 'b'},
        {"idle-exit", required_argument, NULL, 'i'},
        {"takeover", no_argument, NULL, 't'},
        {0},
    };
    int c;

    while ((c = getopt_long(argc, argv, "c:r:l:kfhV", long_options, NULL)) != -1) {
        switch (c) {
        case 'c':
            options->source.file = optarg;
            break;
        case 'R':
            options->source.root = optarg;
            break;
        case 'p':
            return print_config(optarg);
        case 'r':
            options->runtime_dir = optarg;
            break;
        case 'l':
            if (!vipd_log_level_parse(optarg, &options->log_level)) {
                fprintf(stderr, "vipd: --log-level %s: want error, warning, info or debug\n",
                        optarg);
                return EXIT_USAGE;
            }
            options->log_level_given = true;
            break;
        case 'k':
            options->check_only = true;
            break;
        case 'f':
            break;
        case 'b':
            options->background = true;
            break;
        case 't':
            options->takeover = true;
            break;
        case 'i':
            if (vipd_parse_duration(optarg, &options->idle_exit_ns) < 0) {
                fprintf(stderr, "vipd: --idle-exit %s: want a time with unit, such as 30s\n",
                        optarg);
                return EXIT_USAGE;
            }
            break;
        case 'h':
            print_help();
            return 0;
        case 'V':
            puts("vipd " VIP_VERSION);
            return 0;
        default:
            fprintf(stderr, "See vipd --help\n");
            return EXIT_USAGE;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "vipd: unexpected argument '%s'; see vipd --help\n", argv[optind]);
        return EXIT_USAGE;
    }
    return -1;
}

static struct vipd_config *load_config(struct options *options)
{
    static char errors[ERRORS_BYTES];
    struct vipd_config *config;
    char *rest = errors, *line;

    options->source.of_user = geteuid() != 0 && !options->source.root;
    config = vipd_config_read(&options->source, errors, sizeof(errors));
    if (config)
        return config;
    while ((line = strsep(&rest, "\n")) != NULL) {
        if (line[0] != '\0')
            vipd_error("%s", line);
    }
    return NULL;
}

/* Thousands of programs need thousands of descriptors; the soft limit is often 1024. */
static void raise_descriptor_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
        vipd_warning("the limit of open files stays low: %s", strerror(errno));
}

/* Call this when the links are open and the socket listens. An attacker who takes over vipd later
 * then gains no privilege. */
static int drop_privileges(const struct vipd_user *user, struct runtime *runtime, char *err,
                           size_t err_bytes)
{
    bool had;
    int r = user->found ? runtime_give(runtime, user->uid, err, err_bytes) : 0;

    if (r < 0)
        return r;
    r = vipd_privilege_drop(user, &had);
    if (r < 0) {
        snprintf(err, err_bytes, "privileges cannot be given up: %s", strerror(-r));
        return r;
    }
    if (user->found && user->uid != 0)
        vipd_info("running as user %s from here on", user->name);
    else if (geteuid() == 0 && !user->found)
        vipd_warning("running as root, without privileges: there is no user '" VIPD_USER
                     "' to become ([daemon] user)");
    if (had)
        vipd_debug("capabilities dropped");
    if (!memfile_init())
        vipd_log(had || user->found ? VIPD_LOG_WARNING : VIPD_LOG_INFO,
                 "programs can hold vipd up by punching holes into memory they share with it: it "
                 "lacks CAP_LINUX_IMMUTABLE, or the kernel is older than 6.1");
    return 0;
}

/* Listen on the socket that the service manager has opened. If there is none, open one. */
static int listen_somewhere(const struct vipd *vipd, struct runtime *runtime, char *err,
                            size_t err_bytes)
{
    if (vipd->fd_store->listener < 0) /* a vipd that takes over has an inherited listener */
        return runtime_listen(runtime, (mode_t)vipd->config->socket_mode, err, err_bytes);
    runtime->sock = vipd->fd_store->listener;
    return 0;
}

/* This vipd is ready. If it takes over: let the running vipd end, then use its directory. */
static int relieve(struct vipd *vipd, struct takeover *takeover, const struct vipd_user *user,
                   struct runtime *runtime, char *err, size_t err_bytes)
{
    int r;

    if (takeover->sock < 0)
        return 0;
    r = takeover_finish(takeover, err, err_bytes);
    if (r < 0)
        return r;
    runtime_own(runtime);
    owners_begin(vipd, runtime->dir_fd, user->found ? user->uid : geteuid());
    vipd->stats_file = stats_file_open(vipd);
    vipd_info("vipd (pid %ld) has ended; its connections go on here", (long)takeover->pid);
    vipd->draining = takeover->draining;
    if (vipd->draining)
        vipd_info("it was drained, and so is this one, until vipctl resume");
    return 0;
}

/* Listen, run, stop listening. */
static int serve(struct vipd *vipd, struct takeover *takeover, const struct vipd_user *user,
                 struct runtime *runtime, char *err, size_t err_bytes)
{
    struct client_listener *listener = NULL;
    struct notify *notify;
    int r = listen_somewhere(vipd, runtime, err, err_bytes);

    if (r < 0)
        return r;
    r = client_listen(vipd, runtime->sock, &listener);
    if (r < 0) {
        snprintf(err, err_bytes, "clients cannot be accepted: %s", strerror(-r));
        return r;
    }
    r = drop_privileges(user, runtime, err, err_bytes);
    if (r == 0)
        r = relieve(vipd, takeover, user, runtime, err, err_bytes);
    if (r < 0) {
        client_listener_free(listener);
        return r;
    }
    vipd_settle(vipd); /* the second call: log_level_fixed is set only now */
    vipd_info("vipd " VIP_VERSION " ready on %s",
              runtime->socket_path[0] ? runtime->socket_path : "the service manager's socket");
    background_ready(runtime->dir);
    notify = notify_ready(vipd);
    r = vipd_host_run(vipd->loop);
    notify_stopping(notify);
    if (r < 0)
        snprintf(err, err_bytes, "the threads of [engine] threads cannot be made: %s",
                 strerror(-r));
    vipd_info("stopping");
    client_listener_free(listener);
    return r;
}

/* Without the key of the last life no connection of that life goes on, but vipd starts. */
static int load_ticket_key(struct vipd *vipd, const struct runtime *runtime,
                           const struct vipd_user *user, char *err, size_t err_bytes)
{
    int r = ticket_init();

    if (r < 0) {
        snprintf(err, err_bytes, "libsodium does not work on this machine");
        return r;
    }
    r = ticket_key_load(runtime->dir_fd, user->found ? user->uid : geteuid(), &vipd->ticket_key);
    if (r < 0)
        vipd_warning("connections will not go on after the next end of vipd: %s/" TICKET_KEY_FILE
                     " cannot be written: %s",
                     runtime->dir, strerror(-r));
    return 0;
}

/* Get the runtime directory and inherited sockets: from the service manager, or from the running
 * vipd (--takeover). */
static int inherit(const struct options *options, const char *dir, uid_t user,
                   struct fd_store *fd_store, struct runtime *runtime, struct takeover *takeover,
                   char *err, size_t err_bytes)
{
    int r;

    if (!options->takeover) {
        r = runtime_open(dir, user, runtime, err, err_bytes);
        return r < 0 ? r : fd_store_inherit(fd_store, err, err_bytes);
    }
    r = takeover_ask(dir, user, fd_store, takeover, err, err_bytes);
    return r < 0 ? r : runtime_take(dir, user, takeover->lock_fd, runtime, err, err_bytes);
}

/* Why a vipd with these options and this configuration cannot take over; NULL: it can. */
static const char *unfit(const struct options *options, const struct vipd_config *config)
{
    if (!options->takeover)
        return NULL;
    if (getenv("NOTIFY_SOCKET"))
        return "--takeover is not for services of systemd: use vipctl restart (systemctl restart), "
               "which keeps the connections, too";
    if (config->outlive_ns == 0)
        return "--takeover: [reliability] outlive is 0 in the configuration, so connections of the "
               "vipd that runs could not go on";
    for (unsigned i = 0; i < config->nic_count; i++)
        if (config->nics[i].keys.variant)
            return "--takeover: a NIC with link = xdp cannot be opened while another vipd has it; "
                   "end that vipd with SIGTERM and start this one";
    return NULL;
}

/* The name of a socket's NIC; NULL if sock is NULL. */
static const char *nic_of(const struct fd_store_sock *sock)
{
    return sock ? sock->nic : NULL;
}

/* A NIC of the running vipd that the configuration does not have; NULL: none. */
static const char *missing_nic(const struct vipd_config *config, const struct fd_store *fd_store,
                               const struct takeover *takeover)
{
    for (unsigned i = 0; i < fd_store->count; i++) {
        struct link_keys paths[VIP_PATHS_MAX];
        char bad[LINK_NAME_BYTES];
        bool there = false;

        for (unsigned k = 0; k < config->nic_count; k++) {
            const struct vipd_nic_config *nic = &config->nics[k];

            there |= fd_store_is_of(&fd_store->sock[i], nic->name,
                                    link_kind_paths(nic->link, &nic->keys, paths, bad));
        }
        if (!there)
            return nic_of(&fd_store->sock[i]);
    }
    return takeover_missing(takeover, config);
}

/* If nic is not NULL, refuse to take over because of this NIC; `what` says why. Outcomes: 0: nic is
 * NULL; -EPERM with a sentence in err. */
static int refuse_for(const char *nic, const char *what, char *err, size_t err_bytes)
{
    if (!nic)
        return 0;
    snprintf(err, err_bytes,
             "--takeover: NIC %s of the vipd that runs %s, so its connections could not go on; to "
             "change that, end that vipd with SIGTERM and start this one",
             nic, what);
    return -EPERM;
}

static int run(const struct options *options, const struct vipd_config *config)
{
    static struct runtime runtime;
    static struct vipd vipd;
    static struct fd_store fd_store;
    struct takeover takeover = {.sock = -1, .pidfd = -1, .lock_fd = -1};
    struct vipd_user user;
    char default_dir[PATH_MAX], err[512] = "";
    const char *dir = options->runtime_dir;
    int r;

    if (!dir) {
        if (runtime_default_dir(default_dir, sizeof(default_dir), err, sizeof(err)) < 0) {
            vipd_error("%s", err);
            return EXIT_FAILURE;
        }
        dir = default_dir;
    }
    runtime = (struct runtime){.lock_fd = -1, .sock = -1, .dir_fd = -1};
    r = vipd_user_find(config->user, strcmp(config->user, VIPD_USER) != 0, &user, err, sizeof(err));
    fd_store_init(&fd_store);
    if (r == 0)
        r = inherit(options, dir, user.found ? user.uid : geteuid(), &fd_store, &runtime, &takeover,
                    err, sizeof(err));
    if (r == 0 && fd_store.in_use)
        r = refuse_for(missing_nic(config, &fd_store, &takeover),
                       "is missing in this configuration", err, sizeof(err));
    if (r == 0)
        r = vipd_start(config, runtime.dir, &fd_store, &vipd, err, sizeof(err));
    if (r == 0) {
        fd_store_forget_rest(&fd_store);
        known_paths_begin(&vipd, runtime.dir_fd, user.found ? user.uid : geteuid());
        vipd.runtime = &runtime;
        vipd.idle_exit_ns = options->idle_exit_ns;
        vipd.source = options->source;
        vipd.log_level_fixed = options->log_level_given;
        if (!fd_store.in_use) /* else the running vipd still writes the file of owners */
            owners_begin(&vipd, runtime.dir_fd, user.found ? user.uid : geteuid());
        r = load_ticket_key(&vipd, &runtime, &user, err, sizeof(err));
        if (r == 0 && fd_store.in_use)
            r = refuse_for(nic_of(fd_store_unused(&fd_store)),
                           "has another address or port in this configuration", err, sizeof(err));
        if (r == 0)
            r = serve(&vipd, &takeover, &user, &runtime, err, sizeof(err));
        handover_stop(&vipd);
        vipd_stop(&vipd);
        owners_end(&vipd);
        if (handover_begun(&vipd))
            runtime_leave(&runtime);
        handover_go(&vipd);
    }
    takeover_free(&takeover);
    runtime_close(&runtime);
    if (r < 0) {
        vipd_error("%s", err);
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    struct options options = {0};
    struct vipd_config *config;
    int r = parse_options(argc, argv, &options);

    if (r >= 0)
        return r;
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a write beyond RLIMIT_FSIZE then fails with an errno */
    config = load_config(&options);
    if (!config)
        return EXIT_FAILURE;
    vipd_log_set_level(options.log_level_given ? options.log_level : config->log_level);
    if (options.check_only) {
        printf("%s: good, %u NIC%s, %u name%s\n", config->path ? config->path : "(defaults)",
               config->nic_count, config->nic_count == 1 ? "" : "s", config->name_count,
               config->name_count == 1 ? "" : "s");
        r = EXIT_SUCCESS;
    } else if (unfit(&options, config)) {
        vipd_error("%s", unfit(&options, config));
        r = EXIT_FAILURE;
    } else {
        raise_descriptor_limit();
        memfile_shrink_core();
        if (options.background && background_begin() < 0) {
            vipd_error("cannot leave the terminal: %s", strerror(errno));
            return EXIT_FAILURE;
        }
        r = run(&options, config);
    }
    vipd_config_free(config);
    return r;
}
