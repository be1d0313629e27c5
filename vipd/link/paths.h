/*
 * Several links as one: the paths of a NIC (doc/wire.md, "Several paths"). Packets to a host take
 * one path. If this path falls silent, the packets take another path.
 *
 * Owns: the links of the paths, sending and receiving of questions and answers about paths. Does
 * not own: the choice of a path (vipd/link/path_hosts.h).
 */
#ifndef VIPD_LINK_PATHS_H
#define VIPD_LINK_PATHS_H

#include "proto/wire_path.h"
#include "vipd/link/link.h"

/* The link has learned, or lost, an address of another host (link_class.visit_paths). Called by the
 * thread that uses the link. */
typedef void link_paths_learned_fn(void *ctx);

/*
 * Join `count` (2..VIP_PATHS_MAX) links of one kind to one link. The first link is path 0, whose
 * address becomes the address of the NIC. seed: two random numbers. learned: may be NULL. Outcomes:
 * 0 and *ret, which now owns the links; -ENOMEM or another negative errno: the caller still owns
 * the links.
 */
int link_paths_join(struct link *const *inner, unsigned count, const uint64_t seed[2],
                    link_paths_learned_fn *learned, void *ctx, struct link **ret);

#endif
