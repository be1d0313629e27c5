/* Giving up privileges, with a few system calls instead of a library. */
#include "vipd/privilege.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int vipd_user_find(const char *name, bool must, struct vipd_user *ret, char *err, size_t err_bytes)
{
    const struct passwd *entry;

    *ret = (struct vipd_user){0};
    if (geteuid() != 0)
        return 0;
    entry = getpwnam(name);
    if (!entry) {
        snprintf(err, err_bytes,
                 "[daemon] user = %s: there is no such user; make it (systemd-sysusers, adduser "
                 "--system), name another one, or say user = root to stay root",
                 name);
        return must ? -ENOENT : 0;
    }
    ret->found = true;
    snprintf(ret->name, sizeof(ret->name), "%s", name);
    ret->uid = entry->pw_uid;
    ret->gid = entry->pw_gid;
    return 0;
}

/* Empty the bounding set, which limits the capabilities of programs that vipd starts later. Without
 * CAP_SETPCAP the set does not change; then only no_new_privs protects. */
static int empty_bounding_set(void)
{
    for (unsigned long cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
        if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0 && errno != EPERM)
            return -errno;
    return 0;
}

static int become(const struct vipd_user *user)
{
    if (initgroups(user->name, user->gid) < 0 || setresgid(user->gid, user->gid, user->gid) < 0 ||
        setresuid(user->uid, user->uid, user->uid) < 0)
        return -errno;
    return 0;
}

int vipd_privilege_drop(const struct vipd_user *user, bool *ret_had)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {0};
    const uint32_t kept = 1u << CAP_LINUX_IMMUTABLE;
    int r;

    *ret_had = false;
    if (syscall(SYS_capget, &header, data) < 0)
        return -errno;
    for (unsigned i = 0; i < _LINUX_CAPABILITY_U32S_3; i++)
        *ret_had = *ret_had || data[i].permitted || data[i].inheritable;
    /* If this fails, the change of the user also removes CAP_LINUX_IMMUTABLE. */
    (void)prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0);
    r = empty_bounding_set();
    if (r == 0 && user->found)
        r = become(user);
    if (r < 0)
        return r;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -errno;
    if (!*ret_had)
        return 0;
    /* Clear the ambient set. To empty the inheritable set, as below, would also clear it. */
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    for (unsigned i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
        data[i].permitted &= i == 0 ? kept : 0;
        data[i].effective = data[i].permitted;
        data[i].inheritable = 0;
    }
    return syscall(SYS_capset, &header, data) < 0 ? -errno : 0;
}
