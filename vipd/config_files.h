/*
 * Which files the configuration is read from, in which order.
 *
 * Without a named file: vipd.conf in the vendor's folder (PREFIX/lib/vipd), /run/vipd and /etc/vipd, then
 * the drop-ins vipd.conf.d of the three folders in the order of their names; of equally named drop-ins only that
 * of the last folder counts, and an empty one switches it off. A later file wins over an earlier one
 * key by key. If the source says so (a vipd that an ordinary user started, not one that root started and that
 * has become another user since), $XDG_CONFIG_HOME/vipd/vipd.conf (~/.config) and its drop-ins follow. With a
 * named file: that one and NAME.d.
 *
 * Owns: this order. Does not own: reading (vipd/config.c, which alone calls this).
 */
#ifndef VIPD_CONFIG_FILES_H
#define VIPD_CONFIG_FILES_H

#include "vipd/config.h"
#include "vipd/config_scan.h"

#ifndef VIPD_VENDOR_DIR
#define VIPD_VENDOR_DIR "/usr/lib/vipd" /* the build says where it will be installed */
#endif

/* Fill config->files, file_count and path. Outcomes: 0 (look at errors->count); -ENOMEM. */
int config_files_find(const struct vipd_config_source *source, struct vipd_config *config,
                      struct config_errors *errors);

#endif
