/*
 * The files that vipd reads the configuration from, and their order.
 *
 * Without a named file: vipd.conf in the vendor's folder (PREFIX/lib/vipd), /run/vipd and
 * /etc/vipd, then the drop-ins in vipd.conf.d of these three folders, in the order of their names.
 * If several folders have a drop-in of the same name, only the one in the last folder counts. If
 * that one is empty, no drop-in of this name counts. If the source has of_user set,
 * $XDG_CONFIG_HOME/vipd/vipd.conf (~/.config) and its drop-ins follow. A vipd that an ordinary user
 * starts reads these files of the user. A vipd that root starts does not, even if it changes its
 * user later. With a named file: that file and the drop-ins in NAME.d. A later file wins over an
 * earlier one, key by key.
 *
 * Owns: this order. Does not own: reading (vipd/config.c, which alone calls this).
 */
#ifndef VIPD_CONFIG_FILES_H
#define VIPD_CONFIG_FILES_H

#include "vipd/config.h"
#include "vipd/config_scan.h"

#ifndef VIPD_VENDOR_DIR
#define VIPD_VENDOR_DIR "/usr/lib/vipd" /* for a build that defines no folder */
#endif

/* Fill config->files, file_count and path. Outcomes: 0 (errors->count may be above 0); -ENOMEM. */
int config_files_find(const struct vipd_config_source *source, struct vipd_config *config,
                      struct config_errors *errors);

#endif
