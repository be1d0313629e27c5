/*
 * Names of devices, as old programs give them to VipOpenNic (spec 2.1), and names of hosts, from
 * the table [names] of the configuration.
 *
 * Owns: the matching of names. Does not own: the configuration (vipd/config.h), the system's
 * resolver (libvipl asks the resolver for hosts that this table does not have). Any thread.
 */
#ifndef VIPD_NAMES_H
#define VIPD_NAMES_H

#include "vipd/config.h"

/*
 * Find the NIC that a device name means: first among the NICs' own names, then among configured
 * aliases, then among the historical names. Outcomes: the NIC's index in config->nics, or -1.
 */
int vipd_device_find(const struct vipd_config *config, const char *device);

/* Write all aliases of one NIC for people, with blanks between; "(empty)" is the empty alias. */
void vipd_device_aliases(const struct vipd_config *config, unsigned nic, char *buf,
                         unsigned buf_bytes);

/*
 * Find address number `index` (from 0) of a host, among the addresses that a NIC can use. These
 * have the NIC's medium; a link-local address also has its interface. Upper and lower case are the
 * same. "node1" and "node1.site.org" match each other, because old programs know short names only.
 * The text of an address counts as a name, too, but not on IPv4. With link = loop there is one
 * address, for "localhost", "loop" and this host's name. false: there is no such address.
 */
bool vipd_host_find(const struct vipd_config *config, const struct vipd_nic_config *nic,
                    const char *name, unsigned index, struct link_addr *ret);

/* The name of the host that has this address in this medium; NULL: there is none. */
const char *vipd_host_name(const struct vipd_config *config, enum link_kind kind,
                           const struct link_addr *addr);

#endif
