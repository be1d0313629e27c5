/*
 * The part of the configuration that differs between links: words of [nic:NAME] and of [names], and
 * combinations that are refused.
 *
 * Owns: these rules. Does not own: reading the file (vipd/config.c, which alone calls this).
 */
#ifndef VIPD_CONFIG_NIC_H
#define VIPD_CONFIG_NIC_H

#include "vipd/config.h"
#include "vipd/config_scan.h"

/* Each: 0 and the result; -EINVAL. */
int config_link_parse(const char *text, struct vipd_nic_config *nic);
int config_interface_parse(const char *text, struct vipd_nic_config *nic);
int config_ethertype_parse(const char *text, uint64_t *ret);
int config_announce_parse(const char *text, struct vipd_nic_config *nic);
/* The address of a NIC over UDP; "auto" makes it empty. */
int config_own_address_parse(const char *text, struct vipd_nic_config *nic);

/* One word of a line in [names]: appended to `name`, which has room. 0 or -EINVAL. */
int config_address_parse(const struct vipd_config *config, const char *word,
                         struct vipd_name *name);

/* Called when all keys of the NICs have been read: choose IPv4 or IPv6 for link = udp. */
void config_nics_settle(struct vipd_config *config);

/* Report keys that a NIC's link does not know or lacks, and NICs that exclude each other. */
void config_nics_check(const struct vipd_config *config, struct config_errors *errors);

#endif
