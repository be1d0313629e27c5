/*
 * Memory files that vipd makes and a program uses: memfds with a fixed size and pages that no
 * program can remove.
 *
 * While a program punches a hole (PUNCH_HOLE, MADV_REMOVE), a thread that touches those pages waits
 * in the kernel, and nothing ends the wait: for seconds, or on a busy machine for as long as the
 * program likes. A seal against holes also forbids new mappings for writing, which the next NIC
 * handle needs. An immutable file takes no hole, and can still be mapped and written. Only its
 * owner with CAP_LINUX_IMMUTABLE may remove the attribute: so vipd makes the files, and keeps that
 * capability.
 *
 * Without this capability (vipd of a user, or a kernel before 6.1) programs make their files
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
 * Find out whether this process may make files immutable. Call it once, before threads start and
 * after privileges were given up. memfile_protects returns the result; before this call it returns
 * false.
 */
bool memfile_init(void);

/* Are files made here immutable? Then vipd accepts no other files. Any thread. */
bool memfile_protects(void);

/*
 * A new memfd of `bytes` (> 0), sealed SHRINK|GROW and `more_seals`; immutable if memfile_protects.
 * Outcomes: a close-on-exec descriptor, which is the caller's; negative errno. Any thread.
 */
int memfile_make(const char *name, uint64_t bytes, int more_seals);

/*
 * Leave shared memory out of a core of this process: a vipd that dies would send nothing until
 * gigabytes are written. Call it once, before threads start and before privileges are given up. If
 * it fails (no /proc), memfile_map leaves out each mapping by a system call of its own.
 */
void memfile_shrink_core(void);

/*
 * Map `bytes` of a memory file that a program shares with vipd, from `offset` on, for reading and
 * (`writable`) writing. It is no part of a core. NULL: errno says why. Any thread.
 */
void *memfile_map(int fd, uint64_t bytes, off_t offset, bool writable);

/* Is fd, whose fstat is *st, a regular file of the file system of memfds with ordinary pages? Any
 * thread after memfile_init. */
bool memfile_is_like(int fd, const struct stat *st);

/* Is the memfd fd immutable, so that no program can punch holes into it? Does not block. Any
 * thread. */
bool memfile_is_protected(int fd);

#endif
