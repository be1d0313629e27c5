/*
 * Files in the runtime directory that a vipd leaves for the next one.
 *
 * Owns: the choice of files that vipd trusts, and the replacement of an old file as a whole. Does
 * not own: the contents. Called by owners.c, known_paths.c and ticket.c.
 */
#ifndef VIPD_KEPT_FILE_H
#define VIPD_KEPT_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Read an array of entries. Returns the number of whole entries, at most `most`. The caller frees
 * *ret, which is NULL for 0. A file counts as missing if it belongs neither to this process's user
 * nor to `user`, if others may open it, or if it has a second name.
 */
uint32_t kept_file_read(int dir_fd, const char *name, uid_t user, size_t entry_bytes, uint32_t most,
                        void **ret);

/* Replace the file by one with these bytes. Outcomes: 0; negative errno, and the old file stays. */
int kept_file_write(int dir_fd, const char *name, const void *bytes, size_t len);

/*
 * The same in steps, for a file that stays open. Make a file that takes the name only by
 * kept_file_name: until then the file of the last vipd stays. Name it only if every write has
 * succeeded; drop it otherwise. Outcomes: a descriptor for writing, the caller's; negative errno.
 */
int kept_file_make(int dir_fd, const char *name);
/* Outcomes: 0; a negative errno, and the file is dropped. */
int kept_file_name(int dir_fd, const char *name);
void kept_file_drop(int dir_fd, const char *name);

#endif
