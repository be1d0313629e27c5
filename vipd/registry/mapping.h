/*
 * Mappings of what an application passed: its arena and its memfds, each file mapped once however
 * many regions lie in it.
 *
 * Owns: checking of file type, seals and size; the address space and the number of mappings that
 * one session may cost vipd. Does not own: regions and rights (registry.c, the only caller).
 *
 * With the SHRINK and GROW seals a page inside the file's size always exists: the application can
 * punch holes, which read as zeroes, but no access of vipd can raise SIGBUS.
 */
#ifndef VIPD_REGISTRY_MAPPING_H
#define VIPD_REGISTRY_MAPPING_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Files of one session mapped at a time; the kernel gives a process 65530 mappings in all. */
#define MAPPING_FILES_MAX 4096

/* Address space of one session's files (the arena not counted): 512 GiB of vipd's 128 TiB. */
#define MAPPING_BYTES_MAX (1ull << 39)

#define MAPPING_BUCKETS 256

/* A file, or a part of the arena, in vipd's address space. */
struct mapping {
    struct mapping *next; /* in the bucket */
    dev_t dev;            /* with ino: which file */
    ino_t ino;            /* 0 = private to one region (part of the arena) */
    uint64_t bytes;       /* mapped */
    uint8_t *base;
    uint32_t refs; /* regions */
};

/* All of one session. Zeroed is a legal start. */
struct mappings {
    struct mapping *bucket[MAPPING_BUCKETS];
    uint32_t count;
    uint64_t bytes;
    /* A limit of the user's, if `limited`: how much may be reached by the next mapping. */
    bool limited;
    uint64_t count_max, bytes_max;
};

/*
 * Is fd a memfd of ordinary pages, sealed SHRINK|GROW and not against our writing? Outcomes: 0 and
 * its size and identity in *ret (any fields but base, refs, next); -EBADMSG with a sentence in *why.
 */
int mapping_check_fd(int fd, struct mapping *ret, const char **why);

/*
 * Map the file checked before, or find it mapped. The fd stays the caller's.
 * Outcomes: a reference; NULL with errno and a sentence in *why.
 */
struct mapping *mapping_get(struct mappings *all, int fd, const struct mapping *checked,
                            const char **why);

/* Map [offset, offset + bytes) of fd for one region; offset is page-aligned. Outcomes as above. */
struct mapping *mapping_get_part(struct mappings *all, int fd, uint64_t offset, uint64_t bytes,
                                 const char **why);

/* Give a reference back; the last one unmaps. */
void mapping_put(struct mappings *all, struct mapping *mapping);

#endif
