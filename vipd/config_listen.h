/*
 * [listen] of the configuration: which user's programs may wait on which discriminators.
 *
 * Owns: the patterns, and the text that they are compared with. Does not own: which user waits on a
 * discriminator at this moment (vipd/engine/cm.h).
 */
#ifndef VIPD_CONFIG_LISTEN_H
#define VIPD_CONFIG_LISTEN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct config_value;
struct vipd_config;

/* size of a discriminator as text, with its terminating zero */
#define DISC_TEXT_BYTES (2 * 128 + 8)

/*
 * A discriminator as text: its characters if all of them are visible ASCII (a zero byte at the end
 * is left out), else 0x and two hexadecimal digits per byte. A discriminator without bytes is
 * "(empty)".
 */
void config_disc_text(const uint8_t *disc, uint8_t len, char ret[DISC_TEXT_BYTES]);

/* Add a line PATTERN = user. A fault is added to value->errors. */
void config_listen_add(struct vipd_config *config, const struct config_value *value, unsigned file);

/*
 * May programs of uid wait on this discriminator? Yes for root, if no pattern matches, or if a
 * pattern that matches names uid. If not, *ret_pattern and *ret_user are those of the first match;
 * they belong to config.
 */
bool config_may_listen(const struct vipd_config *config, uid_t uid, const uint8_t *disc,
                       uint8_t len, const char **ret_pattern, const char **ret_user);

#endif
