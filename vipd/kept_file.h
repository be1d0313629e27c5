/*
 * Files in the runtime directory that a vipd leaves for the next one.
 *
 * Owns: which files vipd reads, and that a new file replaces the old one as a whole. Does not own:
 * the contents. Called by owners.c and known_paths.c.
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

/* Make a file that takes the name only by kept_file_name: until then the file of the last vipd stays.
 * Outcomes: a descriptor for writing, the caller's; negative errno. */
int kept_file_make(int dir_fd, const char *name);
/* Outcomes: 0; negative errno. */
int kept_file_name(int dir_fd, const char *name);

#endif
