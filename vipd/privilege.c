/* Giving up capabilities. Two system calls: no library is worth depending on for them. */
#include "vipd/privilege.h"

#include <errno.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int vipd_privilege_drop(bool *ret_had)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {0};
    const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {0};

    *ret_had = false;
    if (syscall(SYS_capget, &header, data) < 0)
        return -errno;
    for (unsigned i = 0; i < _LINUX_CAPABILITY_U32S_3; i++)
        *ret_had = *ret_had || data[i].permitted || data[i].inheritable;
    if (!*ret_had)
        return 0;
    /* What another program would inherit; it goes with the inheritable set, but let us be plain. */
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    return syscall(SYS_capset, &header, none) < 0 ? -errno : 0;
}
