/*
 * [listen] of the configuration: which user's programs may wait on which discriminators.
 *
 * Owns: the patterns, and the form of a discriminator as text. Does not own: which user waits on a
 * discriminator at this moment (vipd/engine/cm.h).
 */
#ifndef VIPD_CONFIG_LISTEN_H
#define VIPD_CONFIG_LISTEN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct config_value;
struct vipd_config;

/* Size of a discriminator as text, with its terminating zero. */
#define DISC_TEXT_BYTES (2 * 128 + 8)

/*
 * Write a discriminator as text: its characters if all of them are visible ASCII (without a zero
 * byte at the end), else 0x and two hexadecimal digits for each byte. The text of a discriminator
 * without bytes is "(empty)".
 */
void config_disc_text(const uint8_t *disc, uint8_t len, char ret[DISC_TEXT_BYTES]);

/* Add a line PATTERN = user of [listen]. A mistake in the line is added to value->errors. */
void config_listen_add(struct vipd_config *config, const struct config_value *value, unsigned file);

/*
 * May programs of uid wait on this discriminator? Root may. Others may if no pattern matches, or if
 * a line with a matching pattern names uid. false: *ret_pattern and *ret_user are those of the
 * first matching line; they belong to config.
 */
bool config_may_listen(const struct vipd_config *config, uid_t uid, const uint8_t *disc,
                       uint8_t len, const char **ret_pattern, const char **ret_user);

#endif
