/*
 * Privileges of the process: finding the user that vipd becomes, and giving privileges up.
 */
#ifndef VIPD_PRIVILEGE_H
#define VIPD_PRIVILEGE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* The user that vipd becomes if root has started it. */
struct vipd_user {
    bool found; /* false: vipd stays the user that started it */
    char name[33];
    uid_t uid;
    gid_t gid; /* the user's own group */
};

/*
 * Look up [daemon] user. name: name of a user. must: a missing user is an error. A process that is
 * not root keeps its user, whatever `name` says. Outcomes: 0: ret->found says whether vipd must
 * change its user; -ENOENT with a sentence in err: `must` is true, and there is no such user.
 */
int vipd_user_find(const char *name, bool must, struct vipd_user *ret, char *err, size_t err_bytes);

/*
 * Become `user` (if it was found) with the groups of that user, and give up every capability but
 * CAP_LINUX_IMMUTABLE for good. Neither this process nor a program that it starts gets a capability
 * back: no_new_privs is set, and the bounding set is emptied. Call it once links are open and the
 * socket listens: from then on vipd needs no other privilege (an Ethernet link needs none to bind
 * its socket again). vipd keeps CAP_LINUX_IMMUTABLE, if it has it, for the memory files that it
 * makes (vipd/registry/memfile.h). This capability only lets vipd set attributes of files that it
 * owns. The call covers the calling thread and threads that this thread starts later. *ret_had:
 * whether the process had any capability. Outcomes: 0; negative errno: the process must end,
 * because it may have kept privileges.
 */
int vipd_privilege_drop(const struct vipd_user *user, bool *ret_had);

#endif
