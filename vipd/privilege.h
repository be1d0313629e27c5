/*
 * Privileges of the process: what vipd may do beyond an ordinary user, and giving it up.
 */
#ifndef VIPD_PRIVILEGE_H
#define VIPD_PRIVILEGE_H

#include <stdbool.h>

/*
 * Give up every capability, for good: once links are open and the socket listens, vipd needs none (an
 * Ethernet link binds its socket again without). Only the calling thread and those that it starts
 * later lose them. *ret_had: whether there were any. Outcomes: 0; negative errno, all are kept.
 */
int vipd_privilege_drop(bool *ret_had);

#endif
