/*
 * The part of the configuration that differs between links: values of [nic:NAME] and of [names],
 * and forbidden combinations.
 *
 * Owns: these rules. Does not own: reading the file (vipd/config.c, which alone calls this).
 */
#ifndef VIPD_CONFIG_NIC_H
#define VIPD_CONFIG_NIC_H

#include "vipd/config.h"
#include "vipd/config_scan.h"

/* Each function reads one key's value. Outcomes: 0; -EINVAL: the key cannot have this value. */
int config_link_parse(const char *text, struct vipd_nic_config *nic);
int config_interface_parse(const char *text, struct vipd_nic_config *nic);
int config_paths_parse(const char *text, struct vipd_nic_config *nic);
int config_ethertype_parse(const char *text, uint64_t *ret);
int config_announce_parse(const char *text, struct vipd_nic_config *nic);
/* Read the address of a NIC over UDP; "auto" gives an empty address. Outcomes as above. */
int config_own_address_parse(const char *text, struct vipd_nic_config *nic);

/* Read one word of a line in [names] and append the address to `name`, which has room. Outcomes: 0;
 * -EINVAL: the word is not an address. */
int config_address_parse(const struct vipd_config *config, const char *word,
                         struct vipd_name *name);

/* Call this when all keys of the NICs are read. It sets the address or interface of a NIC to the
 * first of several paths, and chooses IPv4 or IPv6 for link = udp. */
void config_nics_settle(struct vipd_config *config);

/* Report keys that the kind of a NIC's link does not have, missing keys, wrong paths, and NICs that
 * cannot exist together. */
void config_nics_check(const struct vipd_config *config, struct config_errors *errors);

#endif
