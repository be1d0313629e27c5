/*
 * Several links as one: the paths of a NIC (doc/wire.md, "Several paths"). Packets to a host take
 * one path at a time, another one when that falls silent.
 *
 * Owns: the links of the paths, what passes between these links of two hosts. Does not own: the
 * choice of a path (vipd/link/path_hosts.h).
 */
#ifndef VIPD_LINK_PATHS_H
#define VIPD_LINK_PATHS_H

#include "proto/wire_path.h"
#include "vipd/link/link.h"

/* The link has learned, or lost, an address of another host (link_class.visit_paths). Called by the
 * thread that uses the link. */
typedef void link_paths_learned_fn(void *ctx);

/*
 * Make one link of count (2..VIP_PATHS_MAX) links of one kind; the first is path 0, whose address
 * is the address of the NIC. seed: two random numbers. learned: may be NULL. The new link then owns these links. Outcomes:
 * 0 and *ret; -ENOMEM; negative errno: no epoll descriptor. Then they stay the caller's.
 */
int link_paths_join(struct link *const *inner, unsigned count, const uint64_t seed[2],
                    link_paths_learned_fn *learned, void *ctx, struct link **ret);

#endif
