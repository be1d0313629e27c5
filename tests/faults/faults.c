/* The functions whose calls can fail, and the loop over n (see faults.h). */
#include "faults/faults.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIVE_SLOTS 65536u /* slots of live[]; no test has as many allocations */
#define N_MAX      2000u  /* limit of n; no case makes as many calls */

static _Thread_local unsigned wanted, counted;
static _Thread_local const char *failed;
static _Thread_local int failed_with; /* errno of the last failure */

static pthread_mutex_t live_lock = PTHREAD_MUTEX_INITIALIZER;
static void *live[LIVE_SLOTS];
static long live_count;

void fault_arm(unsigned n)
{
    wanted = n;
    counted = 0;
    failed = NULL;
    failed_with = 0;
}

const char *fault_disarm(void)
{
    wanted = 0;
    return failed;
}

bool fault_of_resources(void)
{
    switch (failed_with) {
    case ENOMEM:
    case EMFILE:
    case ENOSPC:
    case ENOBUFS:
    case ENOLCK:
    case EAGAIN: /* result of pthread_create */
        return true;
    default:
        return false;
    }
}

/* True if the function `name` must fail now; errno is then `error`. */
static bool due(const char *name, int error)
{
    if (!wanted || ++counted != wanted)
        return false;
    failed = name;
    errno = failed_with = error;
    return true;
}

/* ---- allocations ----------------------------------------------------------------------------- */

static size_t live_slot(const void *memory)
{
    return (size_t)(((uintptr_t)memory >> 4) * 2654435761u) % LIVE_SLOTS;
}

static void *live_add(void *memory)
{
    if (!memory)
        return NULL;
    pthread_mutex_lock(&live_lock);
    for (size_t i = live_slot(memory), n = 0; n < LIVE_SLOTS; i = (i + 1) % LIVE_SLOTS, n++)
        if (!live[i] || live[i] == (void *)-1) {
            live[i] = memory;
            live_count++;
            break;
        }
    pthread_mutex_unlock(&live_lock);
    return memory;
}

/* Callers may also free memory that libc allocated. Such memory is not in the table. */
static void live_del(const void *memory)
{
    if (!memory)
        return;
    pthread_mutex_lock(&live_lock);
    for (size_t i = live_slot(memory), n = 0; live[i] && n < LIVE_SLOTS;
         i = (i + 1) % LIVE_SLOTS, n++)
        if (live[i] == memory) {
            live[i] = (void *)-1;
            live_count--;
            break;
        }
    pthread_mutex_unlock(&live_lock);
}

long fault_live(void)
{
    long count;

    pthread_mutex_lock(&live_lock);
    count = live_count;
    pthread_mutex_unlock(&live_lock);
    return count;
}

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
void *__real_aligned_alloc(size_t align, size_t bytes);
void *__wrap_aligned_alloc(size_t align, size_t bytes);
char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);
void __real_free(void *memory);
void __wrap_free(void *memory);

static bool no_memory(const char *name)
{
    return due(name, ENOMEM);
}

void *__wrap_malloc(size_t bytes)
{
    return no_memory("malloc") ? NULL : live_add(__real_malloc(bytes));
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return no_memory("calloc") ? NULL : live_add(__real_calloc(count, bytes));
}

void *__wrap_aligned_alloc(size_t align, size_t bytes)
{
    return no_memory("aligned_alloc") ? NULL : live_add(__real_aligned_alloc(align, bytes));
}

char *__wrap_strdup(const char *text)
{
    return no_memory("strdup") ? NULL : live_add(__real_strdup(text));
}

void *__wrap_realloc(void *memory, size_t bytes)
{
    if (no_memory("realloc"))
        return NULL;
    live_del(memory);
    return live_add(__real_realloc(memory, bytes));
}

void __wrap_free(void *memory)
{
    live_del(memory);
    __real_free(memory);
}

/* ---- system calls ---------------------------------------------------------------------------- */

#define CALL(type, name, bad, error, params, args)                                                 \
    type __real_##name params;                                                                     \
    type __wrap_##name params;                                                                     \
    type __wrap_##name params                                                                      \
    {                                                                                              \
        return due(#name, error) ? bad : __real_##name args;                                       \
    }

struct ifaddrs;
struct mmsghdr;
struct epoll_event;

CALL(int, socket, -1, EMFILE, (int family, int type, int protocol), (family, type, protocol))
CALL(int, socketpair, -1, EMFILE, (int family, int type, int protocol, int pair[2]),
     (family, type, protocol, pair))
CALL(int, bind, -1, EACCES, (int sock, const struct sockaddr *addr, socklen_t len),
     (sock, addr, len))
CALL(int, listen, -1, EINVAL, (int sock, int backlog), (sock, backlog))
CALL(int, connect, -1, ENOBUFS, (int sock, const struct sockaddr *addr, socklen_t len),
     (sock, addr, len))
CALL(int, getsockname, -1, ENOBUFS, (int sock, struct sockaddr *addr, socklen_t *len),
     (sock, addr, len))
CALL(int, getsockopt, -1, ENOPROTOOPT, (int sock, int level, int name, void *value, socklen_t *len),
     (sock, level, name, value, len))
CALL(int, setsockopt, -1, ENOPROTOOPT,
     (int sock, int level, int name, const void *value, socklen_t len),
     (sock, level, name, value, len))
CALL(ssize_t, sendmsg, -1, ENOBUFS, (int sock, const struct msghdr *msg, int flags),
     (sock, msg, flags))
CALL(ssize_t, recvmsg, -1, ENOMEM, (int sock, struct msghdr *msg, int flags), (sock, msg, flags))
CALL(int, eventfd, -1, EMFILE, (unsigned value, int flags), (value, flags))
CALL(int, memfd_create, -1, EMFILE, (const char *name, unsigned flags), (name, flags))
CALL(int, ftruncate, -1, ENOSPC, (int fd, off_t bytes), (fd, bytes))
CALL(void *, mmap, MAP_FAILED, ENOMEM,
     (void *at, size_t bytes, int prot, int flags, int fd, off_t offset),
     (at, bytes, prot, flags, fd, offset))
CALL(int, madvise, -1, ENOMEM, (void *at, size_t bytes, int advice), (at, bytes, advice))
CALL(int, mprotect, -1, ENOMEM, (void *at, size_t bytes, int prot), (at, bytes, prot))
CALL(int, fstat, -1, EIO, (int fd, struct stat *ret), (fd, ret))
CALL(int, fstatfs, -1, EIO, (int fd, struct statfs *ret), (fd, ret))
CALL(int, stat, -1, EACCES, (const char *path, struct stat *ret), (path, ret))
CALL(int, mkdir, -1, ENOSPC, (const char *path, mode_t mode), (path, mode))
CALL(int, chmod, -1, EPERM, (const char *path, mode_t mode), (path, mode))
CALL(int, fchmod, -1, EPERM, (int fd, mode_t mode), (fd, mode))
CALL(int, rename, -1, ENOSPC, (const char *from, const char *to), (from, to))
CALL(int, unlink, -1, EPERM, (const char *path), (path))
CALL(int, flock, -1, ENOLCK, (int fd, int how), (fd, how))
CALL(FILE *, fopen, NULL, EMFILE, (const char *path, const char *mode), (path, mode))
CALL(int, getifaddrs, -1, ENOMEM, (struct ifaddrs * *ret), (ret))
CALL(unsigned, if_nametoindex, 0, ENODEV, (const char *name), (name))
CALL(int, pipe2, -1, EMFILE, (int ends[2], int flags), (ends, flags))
CALL(ssize_t, read, -1, EIO, (int fd, void *to, size_t bytes), (fd, to, bytes))
CALL(ssize_t, write, -1, ENOSPC, (int fd, const void *from, size_t bytes), (fd, from, bytes))
CALL(ssize_t, pread, -1, EIO, (int fd, void *to, size_t bytes, off_t at), (fd, to, bytes, at))
CALL(ssize_t, pwrite, -1, ENOSPC, (int fd, const void *from, size_t bytes, off_t at),
     (fd, from, bytes, at))
CALL(ssize_t, preadv2, -1, EIO, (int fd, const struct iovec *iov, int count, off_t at, int flags),
     (fd, iov, count, at, flags))
CALL(ssize_t, send, -1, ENOBUFS, (int sock, const void *from, size_t bytes, int flags),
     (sock, from, bytes, flags))
CALL(ssize_t, recv, -1, ENOMEM, (int sock, void *to, size_t bytes, int flags),
     (sock, to, bytes, flags))
CALL(int, sendmmsg, -1, ENOBUFS, (int sock, struct mmsghdr *msg, unsigned count, int flags),
     (sock, msg, count, flags))
CALL(int, recvmmsg, -1, ENOMEM,
     (int sock, struct mmsghdr *msg, unsigned count, int flags, struct timespec *limit),
     (sock, msg, count, flags, limit))
CALL(int, timerfd_create, -1, EMFILE, (int clock, int flags), (clock, flags))
CALL(int, epoll_create1, -1, EMFILE, (int flags), (flags))
CALL(int, epoll_ctl, -1, ENOSPC, (int epoll, int op, int fd, struct epoll_event *event),
     (epoll, op, fd, event))
CALL(int, sched_getaffinity, -1, EINVAL, (pid_t pid, size_t bytes, cpu_set_t *ret),
     (pid, bytes, ret))
CALL(int, pidfd_open, -1, EMFILE, (pid_t pid, unsigned flags), (pid, flags))
CALL(ssize_t, getrandom, -1, ENOSYS, (void *to, size_t bytes, unsigned flags), (to, bytes, flags))

int __real_pthread_create(pthread_t *ret, const pthread_attr_t *attr, void *(*fn)(void *),
                          void *arg);
int __wrap_pthread_create(pthread_t *ret, const pthread_attr_t *attr, void *(*fn)(void *),
                          void *arg);

int __wrap_pthread_create(pthread_t *ret, const pthread_attr_t *attr, void *(*fn)(void *),
                          void *arg)
{
    return due("pthread_create", EAGAIN) ? EAGAIN : __real_pthread_create(ret, attr, fn, arg);
}

/* Declare a function whose last argument depends on the command. Our arguments fit in a long. */
#define CALL_VARIADIC(name, error, first, command_type)                                            \
    int __real_##name(first, command_type command, ...);                                           \
    int __wrap_##name(first, command_type command, ...);

CALL_VARIADIC(fcntl, EINVAL, int fd, int)
CALL_VARIADIC(open, EMFILE, const char *path, int)
CALL_VARIADIC(ioctl, ENODEV, int fd, unsigned long)

int __wrap_fcntl(int fd, int command, ...)
{
    va_list args;
    long arg;

    va_start(args, command);
    arg = va_arg(args, long);
    va_end(args);
    if (due("fcntl", command == F_DUPFD_CLOEXEC ? EMFILE : EINVAL))
        return -1;
    return __real_fcntl(fd, command, arg);
}

int __wrap_open(const char *path, int command, ...)
{
    va_list args;
    mode_t mode;

    va_start(args, command);
    mode = va_arg(args, mode_t);
    va_end(args);
    if (due("open", EMFILE))
        return -1;
    return __real_open(path, command, mode);
}

int __wrap_ioctl(int fd, unsigned long command, ...)
{
    va_list args;
    long arg;

    va_start(args, command);
    arg = va_arg(args, long);
    va_end(args);
    if (due("ioctl", ENODEV))
        return -1;
    return __real_ioctl(fd, command, arg);
}

void *__real_mremap(void *from, size_t bytes, size_t want, int flags, ...);
void *__wrap_mremap(void *from, size_t bytes, size_t want, int flags, ...);

void *__wrap_mremap(void *from, size_t bytes, size_t want, int flags, ...)
{
    va_list args;
    void *to;

    va_start(args, flags);
    to = va_arg(args, void *);
    va_end(args);
    return due("mremap", ENOMEM) ? MAP_FAILED : __real_mremap(from, bytes, want, flags, to);
}

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

/* True if this system call must fail. System calls that need no resource never fail. */
static bool syscall_due(long number, unsigned long second)
{
    switch (number) {
    case SYS_userfaultfd:
        return due("userfaultfd", EMFILE);
    case SYS_ioctl:
        return second != UFFDIO_WAKE && second != UFFDIO_UNREGISTER && due("ioctl", ENOMEM);
    case SYS_mmap:
        return due("mmap", ENOMEM);
    case SYS_mremap:
        return due("mremap", ENOMEM);
    case SYS_mprotect:
        return due("mprotect", ENOMEM);
    case SYS_pwrite64:
        return due("pwrite", ENOSPC);
    default:
        return false;
    }
}

long __wrap_syscall(long number, ...)
{
    unsigned long arg[6];
    va_list args;

    va_start(args, number);
    for (unsigned i = 0; i < 6; i++)
        arg[i] = va_arg(args, unsigned long);
    va_end(args);
    if (syscall_due(number, arg[1]))
        return -1;
    return __real_syscall(number, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);
}

/* ---- the loop -------------------------------------------------------------------------------- */

unsigned fault_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    unsigned count = 0;

    FAULT_CHECK(dir);
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

#define EXIT_UNTOUCHED 3 /* exit code: the attempt made fewer than n calls */

/* Make one attempt in a child process. Returns its exit code, or 128 + its signal number. */
static int in_child(const struct fault_case *one, unsigned n)
{
    pid_t pid;
    int status;

    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        const char *what;

        alarm(30);
        what = one->attempt(n);
        if (getenv("FAULTS_VERBOSE"))
            fprintf(stderr, "%s %u: %s\n", one->name, n, what ? what : "-");
        fflush(NULL);
        exit(what ? 0 : EXIT_UNTOUCHED); /* not _Exit: the leak sanitizer runs at exit */
    }
    FAULT_CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int fault_run(const struct fault_case *cases, unsigned count, const char *only)
{
    /* With FAULTS_STEP=k, n grows by k from attempt to attempt. */
    unsigned step = getenv("FAULTS_STEP") ? (unsigned)atoi(getenv("FAULTS_STEP")) : 1;
    int bad = 0;

    FAULT_CHECK(step > 0);
    for (unsigned i = 0; i < count; i++) {
        unsigned n = 1;
        int result = 0;

        if (only && strcmp(only, cases[i].name) != 0)
            continue;
        for (; n < N_MAX; n += step) {
            result = in_child(&cases[i], n);
            if (result == EXIT_UNTOUCHED)
                break;
            if (result != 0) {
                printf("%s: failed at call %u (exit code or signal %d)\n", cases[i].name, n,
                       result);
                bad++;
            }
        }
        printf("%s: %u calls made to fail\n", cases[i].name, (n - 1) / step);
        if (n == 1)
            bad++;
    }
    return bad ? 1 : 0;
}
