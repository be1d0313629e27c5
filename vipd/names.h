/*
 * Names: of devices, as old programs give them to VipOpenNic (spec 2.1), and of hosts, from the
 * table [names] of the configuration.
 *
 * Owns: matching. Does not own: the configuration (vipd/config.h), the system's resolver (libvipl
 * asks the resolver for hosts that this table does not have). Any thread.
 */
#ifndef VIPD_NAMES_H
#define VIPD_NAMES_H

#include "vipd/config.h"

/*
 * The NIC that a device name means: a NIC's own name first, then configured aliases, then the
 * historical forms with the number of the NIC. Outcomes: its index in config->nics, or -1.
 */
int vipd_device_find(const struct vipd_config *config, const char *device);

/* All aliases of one NIC for people, separated by blanks; the empty alias is shown as "(empty)". */
void vipd_device_aliases(const struct vipd_config *config, unsigned nic, char *buf,
                         unsigned buf_bytes);

/*
 * Address number `index` of a host, among the addresses that a NIC can use: those of its medium; a
 * link-local address only on its interface. Upper and lower case are the same.
 * "node1" and "node1.site.org" match each other, because old programs know short names only. The
 * text of an address counts as a name, too, but not on IPv4. A kind with one host (loop) has one
 * address, for "localhost", "loop" and the own host's name. false: there is no such address.
 */
bool vipd_host_find(const struct vipd_config *config, const struct vipd_nic_config *nic,
                    const char *name, unsigned index, struct link_addr *ret);

/* The name of the host that has this address in this medium; NULL: there is none. */
const char *vipd_host_name(const struct vipd_config *config, enum link_kind kind,
                           const struct link_addr *addr);

#endif
