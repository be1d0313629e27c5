/*
 * Memory files that vipd makes and a program uses: memfds whose size stays and whose pages nobody takes away.
 *
 * A program that punches a hole into a file (PUNCH_HOLE, MADV_REMOVE) holds whoever touches those pages until it has
 * finished, in the kernel, where nothing ends the wait: for seconds, or on a busy machine for as long as the program
 * likes. A file that is sealed against it cannot be mapped for writing any more, not by the next NIC handle either. A file
 * that is immutable can: it takes no hole, and whoever has a descriptor maps it and writes. Only its owner may take the
 * attribute away, with CAP_LINUX_IMMUTABLE: so vipd makes the files, and keeps that capability.
 *
 * Without it (vipd of a user, or a kernel before 6.1) programs make their files, and can hold vipd.
 *
 * Owns: how such a file is made and known. Does not own: mappings (mapping.h), limits.
 */
#ifndef VIPD_REGISTRY_MEMFILE_H
#define VIPD_REGISTRY_MEMFILE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Find out whether this process may make files immutable. Call it once, before threads are started, after privileges were
 * given up. Outcome: what memfile_protects says from here on; before it is false.
 */
bool memfile_init(void);

/* Are files made here protected, so that no others need be believed? Any thread. */
bool memfile_protects(void);

/*
 * A new memfd of `bytes` (> 0), sealed SHRINK|GROW and `more_seals`; immutable if memfile_protects().
 * Outcomes: a close-on-exec descriptor, which is the caller's; negative errno. Any thread.
 */
int memfile_make(const char *name, uint64_t bytes, int more_seals);

/* Can no program punch holes into the memfd fd? Does not wait for anybody. Any thread. */
bool memfile_is_protected(int fd);

#endif
