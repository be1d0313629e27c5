/*
 * Files in the runtime directory that a vipd leaves for the next one.
 *
 * Owns: which files vipd reads, and that a new file replaces the old one as a whole. Does not own:
 * the contents. Called by owners.c, known_paths.c and ticket.c.
 */
#ifndef VIPD_KEPT_FILE_H
#define VIPD_KEPT_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Read an array of entries. user: vipd's user, besides the present one. Returns the number of whole
 * entries, at most `most`; *ret is the caller's to free, NULL for 0. A file that is not of one of the
 * two users, that others may open, or that has a second name, counts as none.
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
