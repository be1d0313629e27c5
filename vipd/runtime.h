/*
 * The runtime directory: the socket to which applications connect, and the lock by which only one
 * vipd uses the directory.
 *
 * Owns: the choice of the directory, the socket and the lock in it. Does not own: the messages of
 * the socket. Used by main.c and tests.
 */
#ifndef VIPD_RUNTIME_H
#define VIPD_RUNTIME_H

#include <limits.h>
#include <stddef.h>
#include <sys/types.h>

struct runtime {
    char dir[PATH_MAX];
    char socket_path[PATH_MAX]; /* empty while there is no socket */
    int dir_fd;                 /* descriptor of the directory, O_PATH */
    int lock_fd;
    int sock; /* listening, non-blocking; -1 before runtime_listen */
};

/*
 * Choose a directory if the user gave none: $RUNTIME_DIRECTORY (systemd), else /run/vipd for root,
 * else $XDG_RUNTIME_DIR/vipd. Outcomes: 0; -ENOENT with a sentence in err that says what to do.
 */
int runtime_default_dir(char *buf, size_t buf_bytes, char *err, size_t err_bytes);

/*
 * Make the directory if it is missing and lock it. A directory in which another user could replace
 * vipd's files is refused. Its owner must be this process's user, root or `user`. Neither its group
 * nor others may write there, unless the directory has the sticky bit. Outcomes: 0; negative errno
 * with a sentence in err: -EBUSY: another vipd has the directory; -EPERM: the directory is refused.
 * *ret can be given to runtime_close after every outcome.
 */
int runtime_open(const char *dir, uid_t user, struct runtime *ret, char *err, size_t err_bytes);

/*
 * Like runtime_open, but with the lock that the running vipd has handed over. The running vipd uses
 * the directory until runtime_own. *ret owns lock_fd after every outcome.
 */
int runtime_take(const char *dir, uid_t user, int lock_fd, struct runtime *ret, char *err,
                 size_t err_bytes);

/*
 * This process now uses the directory: write its pid into the lock (a failure does not matter).
 * From now on runtime_close removes the name of the listening socket.
 */
void runtime_own(struct runtime *runtime);

/*
 * As root, give the directory and vipd's files in it to `user`, which this process is about to
 * become. A directory that is shared (sticky) stays root's. Outcomes: 0; negative errno with a
 * sentence in err.
 */
int runtime_give(struct runtime *runtime, uid_t user, char *err, size_t err_bytes);

/*
 * Listen on DIR/vipd.sock. The socket appears there once programs can connect to it; a socket that
 * a killed vipd left is replaced. Outcomes: 0; negative errno with a sentence in err.
 */
int runtime_listen(struct runtime *runtime, mode_t mode, char *err, size_t err_bytes);

/* Another vipd has the socket: runtime_close must not remove the socket's name. */
void runtime_leave(struct runtime *runtime);

/* Remove the socket's name, close the socket, release the lock. */
void runtime_close(struct runtime *runtime);

#endif
