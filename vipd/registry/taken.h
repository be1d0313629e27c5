/*
 * How much memory the files of each user take: all pages that exist, made by programs or by vipd.
 *
 * A registered region costs nothing before it is touched, and a page that vipd touches first is
 * charged to vipd. So vipd looks at the files of its sessions (arenas, memfds of regions, segments,
 * tables of receives) again and again; vipd/client/memory.c compares with the limit of the user and
 * ends sessions beyond it.
 *
 * A file that grew while it was mapped still counts after its last mapping, with what it took then,
 * until the program drops it too: else a program could have vipd fill one file after another. Such
 * a file is "left". inotify reports its end without keeping it alive.
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

/* st_blocks of a file counts in these, not in pages. */
#define TAKEN_BLOCK_BYTES 512u

/* Outcomes: NULL: out of memory. */
struct taken *taken_new(void);
/* All files must have been given back. */
void taken_free(struct taken *taken);

/*
 * The file *fd, which is (dev, ino) and takes `bytes` now, is mapped for this user: a reference to
 * its entry. An entry keeps a descriptor: *fd, which is -1 then, or the one that it has. Outcomes:
 * NULL: no memory.
 */
struct taken_file *taken_get(struct taken *taken, uint32_t owner, int *fd, dev_t dev, ino_t ino,
                             uint64_t bytes);
/*
 * Give it back; the last one before the file is unmapped, so that this frees no page. Returns what
 * the file takes now, in bytes: no mapping of it has more pages. UINT64_MAX: file is NULL, or the
 * kernel does not report it.
 */
uint64_t taken_put(struct taken *taken, struct taken_file *file);

/* Look at up to `files` mapped files, in turn, and forget left ones that are gone. */
void taken_look(struct taken *taken, unsigned files);

/* In bytes, as of the last look: one file; all files of a user, each once. */
uint64_t taken_file_bytes(const struct taken_file *file);
uint64_t taken_by(const struct taken *taken, uint32_t owner);
/* Left files of a user. */
uint32_t taken_left(const struct taken *taken, uint32_t owner);

#endif
