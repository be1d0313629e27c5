/*
 * VipQuerySystemManagementInfo: the lists that were handed out.
 */
#ifndef LIBVIPL_DISCOVER_H
#define LIBVIPL_DISCOVER_H

#include "libvipl/session.h"

/* The session ends, and with it the lists of addresses that the application got. */
void vipl__discovered_free(struct vipl__session *session);

#endif
