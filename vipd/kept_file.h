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
 * *ret, which is NULL if this number is 0. A file counts as missing if its owner is neither this
 * process's user nor `user`. So does a file that others may open, or that has a second name.
 */
uint32_t kept_file_read(int dir_fd, const char *name, uid_t user, size_t entry_bytes, uint32_t most,
                        void **ret);

/* Replace the file by one with these bytes. Outcomes: 0; negative errno, and the old file stays. */
int kept_file_write(int dir_fd, const char *name, const void *bytes, size_t len);

/*
 * Replace a file in steps; the new file may stay open. kept_file_make makes it, and kept_file_name
 * gives it the name of the old file, which stays until then. Name the new file only if every write
 * has succeeded; else drop it. Outcomes: a descriptor that the caller owns; negative errno.
 */
int kept_file_make(int dir_fd, const char *name);
/* Name the new file. Outcomes: 0; a negative errno, and the new file is dropped. */
int kept_file_name(int dir_fd, const char *name);
void kept_file_drop(int dir_fd, const char *name);

#endif
