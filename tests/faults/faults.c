/* What can be made to fail, and the loop over all n. */
#include "faults/faults.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <pthread.h>
#include <unistd.h>

#define LIVE_SLOTS 65536u /* more than any test allocates */
#define N_MAX      2000u  /* no set-up makes so many calls */

static _Thread_local unsigned wanted, counted;
static _Thread_local const char *failed;

static pthread_mutex_t live_lock = PTHREAD_MUTEX_INITIALIZER;
static void *live[LIVE_SLOTS];
static long live_count;

void fault_arm(unsigned n)
{
    wanted = n;
    counted = 0;
    failed = NULL;
}

const char *fault_disarm(void)
{
    wanted = 0;
    return failed;
}

static bool due(const char *name)
{
    if (!wanted || ++counted != wanted)
        return false;
    failed = name;
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

/* What libc allocated is not known here, and may be freed all the same. */
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
    if (!due(name))
        return false;
    errno = ENOMEM;
    return true;
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
        if (due(#name)) {                                                                          \
            errno = error;                                                                         \
            return bad;                                                                            \
        }                                                                                          \
        return __real_##name args;                                                                 \
    }

struct ifaddrs;

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
CALL(int, mkdir, -1, ENOSPC, (const char *path, mode_t mode), (path, mode))
CALL(int, chmod, -1, EPERM, (const char *path, mode_t mode), (path, mode))
CALL(int, rename, -1, ENOSPC, (const char *from, const char *to), (from, to))
CALL(int, flock, -1, ENOLCK, (int fd, int how), (fd, how))
CALL(FILE *, fopen, NULL, EMFILE, (const char *path, const char *mode), (path, mode))
CALL(int, getifaddrs, -1, ENOMEM, (struct ifaddrs * *ret), (ret))
CALL(int, pidfd_open, -1, EMFILE, (pid_t pid, unsigned flags), (pid, flags))
CALL(ssize_t, getrandom, -1, ENOSYS, (void *to, size_t bytes, unsigned flags), (to, bytes, flags))

int __real_pthread_create(pthread_t *ret, const pthread_attr_t *attr, void *(*fn)(void *),
                          void *arg);
int __wrap_pthread_create(pthread_t *ret, const pthread_attr_t *attr, void *(*fn)(void *),
                          void *arg);

int __wrap_pthread_create(pthread_t *ret, const pthread_attr_t *attr, void *(*fn)(void *),
                          void *arg)
{
    return due("pthread_create") ? EAGAIN : __real_pthread_create(ret, attr, fn, arg);
}

/* With arguments that depend on the command; each of ours fits a long. */
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
    if (due("fcntl")) {
        errno = command == F_DUPFD_CLOEXEC ? EMFILE : EINVAL;
        return -1;
    }
    return __real_fcntl(fd, command, arg);
}

int __wrap_open(const char *path, int command, ...)
{
    va_list args;
    mode_t mode;

    va_start(args, command);
    mode = va_arg(args, mode_t);
    va_end(args);
    if (due("open")) {
        errno = EMFILE;
        return -1;
    }
    return __real_open(path, command, mode);
}

int __wrap_ioctl(int fd, unsigned long command, ...)
{
    va_list args;
    long arg;

    va_start(args, command);
    arg = va_arg(args, long);
    va_end(args);
    if (due("ioctl")) {
        errno = ENODEV;
        return -1;
    }
    return __real_ioctl(fd, command, arg);
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

#define EXIT_UNTOUCHED 3 /* there were fewer than n */

/* One attempt in a process of its own; its exit code, or 128 and the signal. */
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
        exit(what ? 0 : EXIT_UNTOUCHED); /* not _Exit: the leak sanitizer looks now */
    }
    FAULT_CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int fault_run(const struct fault_case *cases, unsigned count, const char *only)
{
    int bad = 0;

    for (unsigned i = 0; i < count; i++) {
        unsigned n = 1;
        int result = 0;

        if (only && strcmp(only, cases[i].name) != 0)
            continue;
        for (; n < N_MAX; n++) {
            result = in_child(&cases[i], n);
            if (result == EXIT_UNTOUCHED)
                break;
            if (result != 0) {
                printf("%s: failed at call %u (exit code or signal %d)\n", cases[i].name, n,
                       result);
                bad++;
            }
        }
        printf("%s: %u calls made to fail\n", cases[i].name, n - 1);
        if (n == 1)
            bad++;
    }
    return bad ? 1 : 0;
}
