/*
 * amrun: starts a job of N processes on this machine, where there is no launcher such as mpiexec,
 * mpirun or srun. Each process gets PMI_RANK, PMI_SIZE and PMI_FD, the file descriptor of a wire.
 * amrun answers PMI-1 commands on this wire.
 *
 * The job ends when all processes have ended. The job ends early, with a message, in four cases: a
 * process is killed by a signal, exits with a status other than 0, asks for the end of the job, or
 * ends while other processes wait in a barrier.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <fcntl.h>

#include "tools/amrun/amrun.h"

/* Milliseconds between SIGTERM and SIGKILL when the job ends. */
#define GRACE_MS 2000

/* Longest wait, in ms, for the cause of an error. A process may report the end of another process
 * before the kernel reports it. */
#define CAUSE_MS 300

static int usage(FILE *to)
{
    fputs("usage: amrun -n N [--] PROGRAM [ARGUMENT...]\n"
          "Starts N processes of PROGRAM on this machine as one job (PMI_RANK 0 to N-1).\n"
          "Exit status: 0 if all ended with 0; otherwise that of the first process that did not,\n"
          "128 + the signal if one killed it, 2 for a wrong call, 127 if PROGRAM cannot be run.\n",
          to);
    return to == stdout ? 0 : 2;
}

static long now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void run_end(struct run *run, int code, const char *format, ...)
{
    char text[300];
    va_list args;

    if (run->ending)
        return;
    run->ending = true;
    run->code = code;
    if (format == NULL)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    fprintf(stderr, "amrun: %s; ending the job\n", text);
}

/* Replace the child by the program of the job. Does not return. */
static void become(const struct run *run, int rank, int fd, char **argv)
{
    char text[32], why[PMI_REASON_BYTES];
    sigset_t none;
    int input;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    /*
     * Put the process into its own group, so that amrun's signals also end its children. Only
     * process 0 stays in amrun's group if it uses a terminal.
     */
    if (rank != 0 || !isatty(STDIN_FILENO))
        setpgid(0, 0);
    if (rank != 0 && (input = open("/dev/null", O_RDONLY)) >= 0) {
        dup2(input, STDIN_FILENO);
        close(input);
    }
    fcntl(fd, F_SETFD, 0);
    snprintf(text, sizeof(text), "%d", fd);
    setenv("PMI_FD", text, 1);
    snprintf(text, sizeof(text), "%d", rank);
    setenv("PMI_RANK", text, 1);
    snprintf(text, sizeof(text), "%d", run->count);
    setenv("PMI_SIZE", text, 1);
    execvp(argv[0], argv);
    snprintf(why, sizeof(why), "%s: %s", argv[0], strerror(errno));
    if (pmi_send_abort(fd, 127, why) != 0)
        fprintf(stderr, "amrun: %s\n", why);
    _exit(127);
}

static int start(struct run *run, char **argv)
{
    for (int i = 0; i < run->count; i++) {
        struct process *process = &run->process[i];
        int pair[2];

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
            run_end(run, 1, "no wire for process %d: %s", i, strerror(errno));
            return -1;
        }
        process->pid = fork();
        if (process->pid == 0)
            become(run, i, pair[1], argv);
        close(pair[1]);
        process->fd = pair[0];
        fcntl(pair[0], F_SETFL, O_NONBLOCK);
        if (process->pid < 0) {
            process->pid = 0;
            process->ended = true;
            run_end(run, 1, "process %d cannot be started: %s", i, strerror(errno));
            return -1;
        }
    }
    return 0;
}

/* Find a process that was killed and is not reaped yet; do not reap it. -1 = none. */
static int find_killed(const struct run *run)
{
    for (int i = 0; i < run->count; i++) {
        siginfo_t info = {0};

        if (run->process[i].pid > 0 &&
            waitid(P_PID, (id_t)run->process[i].pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
            (info.si_code == CLD_KILLED || info.si_code == CLD_DUMPED))
            return i;
    }
    return -1;
}

/*
 * Called after a process has failed. True: another process was killed. Its death is the cause of
 * the failure, so the caller prints no message: judge() prints the cause. The kernel may report a
 * death after the failure that it causes, so this function waits.
 */
static bool was_killed(const struct run *run)
{
    const struct timespec nap = {.tv_nsec = 5000000};
    long until = now_ms() + CAUSE_MS;

    while (find_killed(run) < 0) {
        if (run->ending || now_ms() >= until)
            return false;
        nanosleep(&nap, NULL);
    }
    return true;
}

/* End the job if process i was killed or failed. */
static void judge(struct run *run, int i, pid_t pid)
{
    struct process *process = &run->process[i];

    if (WIFSIGNALED(process->status)) {
        int sig = WTERMSIG(process->status);

        run_end(run, 128 + sig, "process %d (pid %d) was killed by signal %d (%s)", i, (int)pid,
                sig, strsignal(sig));
    } else if (WEXITSTATUS(process->status) != 0 && !was_killed(run)) {
        run_end(run, WEXITSTATUS(process->status), "process %d (pid %d) exited with status %d", i,
                (int)pid, WEXITSTATUS(process->status));
    }
}

void run_abort(struct run *run, int i, int code)
{
    bool reasoned = run->process[i].reason[0] != '\0';

    if (code != 0 && was_killed(run))
        return;
    if (!run->ending)
        run->reasoned = code != 0 && reasoned;
    run_end(run, code, code == 0 || reasoned ? NULL : "process %d ends the job with exit code %d",
            i, code);
}

/*
 * Write the numbers of process i and of all later processes with the same reason, for example
 * "0-2, 5". Clear their reasons.
 */
static void list_alike(struct run *run, int i, char *to, size_t room)
{
    char reason[PMI_REASON_BYTES];
    size_t at = 0;

    strcpy(reason, run->process[i].reason);
    to[0] = '\0';
    while (i < run->count) {
        int first = i;

        while (i < run->count && strcmp(run->process[i].reason, reason) == 0)
            run->process[i++].reason[0] = '\0';
        if (i > first && at < room)
            at += (size_t)snprintf(to + at, room - at, i - 1 > first ? "%s%d-%d" : "%s%d",
                                   at > 0 ? ", " : "", first, i - 1);
        i += i == first;
    }
}

/* Print the reasons that processes have sent for ending the job, each reason once. */
static void print_reasons(struct run *run)
{
    for (int i = 0; i < run->count && run->reasoned; i++) {
        char reason[PMI_REASON_BYTES], who[400];

        if (run->process[i].reason[0] == '\0')
            continue;
        strcpy(reason, run->process[i].reason);
        list_alike(run, i, who, sizeof(who));
        fprintf(stderr, "amrun: process%s %s: %s; ending the job\n",
                strpbrk(who, "-,") != NULL ? "es" : "", who, reason);
    }
}

static void reap(struct run *run)
{
    pid_t pid;
    int status;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        for (int i = 0; i < run->count; i++) {
            if (run->process[i].pid != pid)
                continue;
            run->process[i].pid = 0;
            run->process[i].ended = true;
            run->process[i].status = status;
            /* Handle the last lines that the process wrote before it ended. */
            if (run->process[i].fd >= 0)
                serve(run, i);
            judge(run, i, pid);
        }
    }
}

/* End the job if a process waits in a barrier that another process, now ended, cannot reach. */
static void look_for_deadlock(struct run *run)
{
    int gone = -1, waiting = -1;

    for (int i = 0; i < run->count; i++) {
        if (run->process[i].ended)
            gone = i;
        else if (run->process[i].waits)
            waiting = i;
    }
    if (gone >= 0 && waiting >= 0)
        run_end(run, 1, "process %d has ended while process %d waits for all in a barrier", gone,
                waiting);
}

static int running(const struct run *run)
{
    int n = 0;

    for (int i = 0; i < run->count; i++)
        n += run->process[i].pid > 0;
    return n;
}

static void signal_all(const struct run *run, int sig)
{
    for (int i = 0; i < run->count; i++) {
        pid_t pid = run->process[i].pid;

        /* Signal the process's group or, if it has no group of its own (yet), only the process. */
        if (pid > 0 && kill(-pid, sig) != 0)
            kill(pid, sig);
    }
}

static void take_signals(struct run *run, int fd)
{
    struct signalfd_siginfo info;

    while (read(fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (info.ssi_signo == SIGCHLD)
            reap(run);
        else
            run_end(run, 128 + (int)info.ssi_signo, "signal %d (%s)", (int)info.ssi_signo,
                    strsignal((int)info.ssi_signo));
    }
}

/* Wait for lines on the wires and for signals. Answer the lines, and reap ended processes. */
static void turn(struct run *run, int signals, int timeout_ms)
{
    struct pollfd wait[AMRUN_PROCESSES_MAX + 1];
    int who[AMRUN_PROCESSES_MAX + 1];
    nfds_t n = 0;

    wait[n++] = (struct pollfd){.fd = signals, .events = POLLIN};
    for (int i = 0; i < run->count; i++) {
        if (run->process[i].fd < 0)
            continue;
        who[n] = i;
        wait[n++] = (struct pollfd){.fd = run->process[i].fd, .events = POLLIN};
    }
    if (poll(wait, n, timeout_ms) <= 0)
        return;
    for (nfds_t k = 1; k < n; k++)
        if (wait[k].revents != 0 && run->process[who[k]].fd >= 0)
            serve(run, who[k]);
    take_signals(run, signals);
    look_for_deadlock(run);
}

/* End all processes: SIGTERM, then SIGKILL. */
static void finish(struct run *run, int signals)
{
    long until = now_ms() + GRACE_MS;

    signal_all(run, SIGTERM);
    while (running(run) > 0 && now_ms() < until)
        turn(run, signals, (int)(until - now_ms()));
    signal_all(run, SIGKILL);
    while (running(run) > 0)
        turn(run, signals, 1000);
}

/* Open a signalfd for SIGCHLD, SIGINT, SIGTERM and SIGHUP. */
static int open_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
}

int main(int argc, char **argv)
{
    static struct run run;
    int opt, signals;

    while ((opt = getopt(argc, argv, "+n:h-:")) != -1) {
        switch (opt) {
        case 'n':
            run.count = atoi(optarg);
            break;
        case '-':
            if (strcmp(optarg, "version") == 0) {
                puts("amrun " VIP_VERSION);
                return 0;
            }
            return usage(strcmp(optarg, "help") == 0 ? stdout : stderr);
        default:
            return usage(opt == 'h' ? stdout : stderr);
        }
    }
    if (optind >= argc || run.count < 1)
        return usage(stderr);
    if (run.count > AMRUN_PROCESSES_MAX) {
        fprintf(stderr, "amrun: -n %d: at most %d processes; use a launcher for clusters\n",
                run.count, AMRUN_PROCESSES_MAX);
        return 2;
    }
    signals = open_signals();
    for (int i = 0; i < run.count; i++)
        run.process[i].fd = -1;
    snprintf(run.name, sizeof(run.name), "amrun-%d-%ld", (int)getpid(), (long)time(NULL));
    if (start(&run, argv + optind) == 0)
        while (running(&run) > 0 && !run.ending)
            turn(&run, signals, -1);
    /* Other processes may also have sent a reason: read these reasons, too. */
    turn(&run, signals, 0);
    print_reasons(&run);
    finish(&run, signals);
    serve_free(&run);
    return run.code;
}
