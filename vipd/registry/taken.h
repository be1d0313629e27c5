/*
 * How much memory the files of each user take: all pages that exist, made by programs or by vipd.
 *
 * A registered region costs nothing before it is touched, and a page that vipd touches first is
 * charged to vipd. So vipd looks at the files of its sessions (arenas, memfds of regions, segments,
 * tables of receives) again and again; vipd/client/memory.c compares the sums with the users'
 * limits and ends sessions beyond them.
 *
 * A file that grew while it was mapped still counts after vipd has unmapped it, with the memory
 * that it took then, until the program drops the file, too. Otherwise a program could make vipd
 * fill one file after another. Such a file is "left". inotify reports its end without keeping it
 * alive.
 *
 * Owns: one descriptor for each file and user, the sums. Does not own: limits, mappings. Called by
 * mapping.c and vipd/client/, from the control loop only. Each function takes NULL: nothing counts.
 */
#ifndef VIPD_REGISTRY_TAKEN_H
#define VIPD_REGISTRY_TAKEN_H

#include <stdint.h>
#include <sys/types.h>

struct taken;
struct taken_file;

/* Unit of st_blocks: not a page. */
#define TAKEN_BLOCK_BYTES 512u

/* Outcomes: NULL: out of memory. */
struct taken *taken_new(void);
/* All files must have been given back. */
void taken_free(struct taken *taken);

/*
 * The file *fd is mapped for this user. (dev, ino) identify the file, which takes `bytes` of memory
 * now. Outcomes: a reference to the file's entry; NULL: no memory. An entry keeps one descriptor:
 * if it has none yet, it takes *fd over and sets it to -1.
 */
struct taken_file *taken_get(struct taken *taken, uint32_t owner, int *fd, dev_t dev, ino_t ino,
                             uint64_t bytes);
/*
 * Give a reference back. Give the last one back before the file is unmapped, so that this call
 * frees no page. Returns the memory that the file takes now, in bytes: no mapping of the file has
 * more pages. UINT64_MAX: file is NULL, or the kernel does not report it.
 */
uint64_t taken_put(struct taken *taken, struct taken_file *file);

/* Look at up to `files` mapped files, in turn, and forget left files that are gone. */
void taken_look(struct taken *taken, unsigned files);

/* In bytes, as of the last look: one file; all files of a user, each once. */
uint64_t taken_file_bytes(const struct taken_file *file);
uint64_t taken_by(const struct taken *taken, uint32_t owner);
/* Number of left files of a user. */
uint32_t taken_left(const struct taken *taken, uint32_t owner);

#endif
