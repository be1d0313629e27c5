/*
 * The memory that the files of each user take: all pages that exist, made by programs or by vipd.
 *
 * A registered region takes no memory before a process touches it, and the kernel charges a page to
 * vipd if vipd touches it first. So vipd regularly measures the files of its sessions (arenas,
 * memfds of regions, segments, tables of receive descriptors). vipd/client/memory.c compares the
 * sums with the users' limits and ends sessions beyond these limits.
 *
 * A file that grew while it was mapped still counts after vipd has unmapped it, with the memory
 * that it took when vipd unmapped it. It counts until the kernel frees it. Otherwise a program
 * could make vipd fill one file after another. Such a file is called "left". inotify reports when
 * the kernel frees the file.
 *
 * Owns: one descriptor for each file and user, the sums. Does not own: limits, mappings. Called by
 * mapping.c and vipd/client/, from the control loop only. If `taken` is NULL, nothing is counted.
 */
#ifndef VIPD_REGISTRY_TAKEN_H
#define VIPD_REGISTRY_TAKEN_H

#include <stdint.h>
#include <sys/types.h>

struct taken;
struct taken_file;

/* Unit of st_blocks in bytes, not the page size. */
#define TAKEN_BLOCK_BYTES 512u

/* Returns NULL if there is no memory. */
struct taken *taken_new(void);
/* Call taken_put for all files first. */
void taken_free(struct taken *taken);

/*
 * The file *fd is mapped for this user. dev and ino identify the file, which takes `bytes` of
 * memory now. Outcomes: a reference to the file's entry; NULL: no memory. An entry keeps one
 * descriptor. If the entry has no descriptor yet, it keeps *fd, and *fd becomes -1.
 */
struct taken_file *taken_get(struct taken *taken, uint32_t owner, int *fd, dev_t dev, ino_t ino,
                             uint64_t bytes);
/*
 * Give a reference back. Give the last reference back before the file is unmapped, so that this
 * call frees no page. Returns the memory that the file takes now, in bytes: no mapping of the file
 * has more pages. UINT64_MAX: file is NULL, or fstat failed.
 */
uint64_t taken_put(struct taken *taken, struct taken_file *file);

/* Measure the next `files` mapped files, and forget left files that the kernel has freed. */
void taken_look(struct taken *taken, unsigned files);

/* Memory in bytes, as last measured. taken_file_bytes: of one file. taken_by: of all files of a
 * user; each file counts once. */
uint64_t taken_file_bytes(const struct taken_file *file);
uint64_t taken_by(const struct taken *taken, uint32_t owner);
/* Number of left files of a user. */
uint32_t taken_left(const struct taken *taken, uint32_t owner);

#endif
