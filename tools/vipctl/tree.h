/* NICs, clients and VIs as a tree. */
#ifndef VIPCTL_TREE_H
#define VIPCTL_TREE_H

#include "tools/vipctl/options.h"
#include "tools/vipctl/query.h"

/* Fetch NICs, clients and VIs, and print them as a tree. Outcomes: as show_fetch. */
enum exit_code tree_show(int sock, const struct options *options);

#endif
