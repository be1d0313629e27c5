/* VipQuerySystemManagementInfo: the lists of addresses that the application got. */
#ifndef LIBVIPL_DISCOVER_H
#define LIBVIPL_DISCOVER_H

#include "libvipl/session.h"

/* The session ends: free its lists. */
void vipl__discovered_free(struct vipl__session *session);

#endif
