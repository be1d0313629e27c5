/*
 * Memory files that vipd makes and a program uses: memfds with a fixed size and pages that no
 * program can remove.
 *
 * While a program punches a hole (PUNCH_HOLE, MADV_REMOVE), a thread that touches those pages waits
 * in the kernel: for seconds, or on a busy machine for as long as the program likes. No signal ends
 * this wait. A seal against holes also forbids new mappings for writing, which the next NIC handle
 * needs. An immutable file can have no holes, but can still be mapped and written. Only the owner
 * of the file, with CAP_LINUX_IMMUTABLE, may remove the attribute. So vipd makes the files, and
 * keeps this capability.
 *
 * Without immutable files (vipd of a user, or a kernel before 6.1) programs make their files
 * themselves, except the arena, and can block vipd.
 *
 * Owns: how such a file is made and recognised. Does not own: mappings (mapping.h), limits.
 */
#ifndef VIPD_REGISTRY_MEMFILE_H
#define VIPD_REGISTRY_MEMFILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

/*
 * Find out whether this process may make files immutable. Call this once, before threads start and
 * after privileges were given up. Returns the result, which memfile_protects returns from then on.
 * Before this call, memfile_protects returns false.
 */
bool memfile_init(void);

/* Does memfile_make make immutable files? Then vipd accepts no other files. Any thread. */
bool memfile_protects(void);

/*
 * A new memfd of `bytes` (> 0), sealed SHRINK|GROW and `more_seals`; immutable if memfile_protects.
 * Outcomes: a close-on-exec descriptor, which the caller closes; negative errno. Any thread.
 */
int memfile_make(const char *name, uint64_t bytes, int more_seals);

/*
 * Leave shared memory out of core files of this process, because a vipd that crashes cannot end
 * before the kernel has written gigabytes. Call this once, before threads start and before
 * privileges are given up. If this fails (no /proc), memfile_map leaves out each mapping by one
 * more system call.
 */
void memfile_shrink_core(void);

/*
 * Map `bytes` of a memory file that a program shares with vipd, from `offset` on, for reading and
 * (`writable`) writing. Core files do not have the mapping. NULL: errno says why. Any thread.
 */
void *memfile_map(int fd, uint64_t bytes, off_t offset, bool writable);

/* Is fd, whose fstat is *st, a regular file of the file system of memfds with ordinary pages? Any
 * thread after memfile_init. */
bool memfile_is_like(int fd, const struct stat *st);

/* Is the memfd fd immutable, so that no program can punch holes into it? Does not block. Any
 * thread. */
bool memfile_is_protected(int fd);

#endif
