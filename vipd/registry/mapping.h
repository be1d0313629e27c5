/*
 * Mappings of the files that an application passed: its arena and its memfds. Each file is mapped
 * once for all regions in the file.
 *
 * Owns: checking of file type, seals and size; limits of one session's address space and number of
 * mappings in vipd. Does not own: regions and rights (registry.c, the only caller).
 *
 * With the SHRINK and GROW seals a file keeps its size. The application can still punch holes,
 * which read as zeroes, unless vipd made the file (memfile.h). guard.h handles pages that the
 * kernel refuses.
 */
#ifndef VIPD_REGISTRY_MAPPING_H
#define VIPD_REGISTRY_MAPPING_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct undertaker;

/* Largest number of mapped files of one session. By default a process has at most 65530
 * mappings. */
#define MAPPING_FILES_MAX 4096

/* Limit of address space of one session's files without the arena: 512 GiB of 128 TiB. */
#define MAPPING_BYTES_MAX (1ull << 39)

/*
 * vipd unmaps small mappings at once, in less than 1 ms, so that they no longer count in the user's
 * limits when the program learns of the end. While a session is open, a mapping of up to
 * MAPPING_SMALL_BYTES is small. When the session ends, its mappings are small until their sum would
 * exceed MAPPING_SMALL_BYTES. Each mapping counts at least MAPPING_COST_BYTES in this sum.
 */
#define MAPPING_SMALL_BYTES (4ull << 20)
#define MAPPING_COST_BYTES  (64ull << 10)

#define MAPPING_BUCKETS 256

struct guard;
struct taken;
struct taken_file;

/* A file, or a part of the arena, in vipd's address space. */
struct mapping {
    struct mapping *next; /* in the bucket */
    dev_t dev;            /* dev and ino identify the file */
    ino_t ino;            /* 0 = private to one region (part of the arena) */
    uint64_t bytes;       /* size of the mapping */
    uint64_t pages_bytes; /* memory that the file took when it was checked */
    uint8_t *base;
    uint32_t refs;  /* number of regions in the mapping */
    uint32_t guard; /* number in the table of guard.h */
    /* counts the memory of the file (taken.h); NULL for a part of the arena */
    struct taken_file *taken;
};

/* All mappings of one session. All zeros is a valid initial state. */
struct mappings {
    struct mapping *bucket[MAPPING_BUCKETS];
    uint32_t count;
    uint64_t bytes;
    /* If `limited`: the largest count and bytes that the limits of the user allow. */
    bool limited;
    uint64_t count_max, bytes_max;
    /* The undertaker unmaps mappings that are not small. Until it does, they count for uid
     * `owner`. */
    struct undertaker *undertaker;
    uint32_t owner;
    bool ending; /* the session is ending; small_bytes: sum of mappings unmapped at once */
    uint64_t small_bytes;
    bool arena; /* the only mapping is the arena, which counts as a session and not in bytes */
    struct guard *guard; /* the session's guard, which counts missing pages */
    struct taken *taken; /* counts the memory of the files for uid `owner`; NULL: not counted */
};

/*
 * Is fd a memfd of ordinary pages, open for writing, sealed SHRINK|GROW but not against writing,
 * and (if memfile_protects()) made by vipd? Outcomes: 0, and dev, ino, bytes and pages_bytes of
 * *ret are set; -EBADMSG, with a sentence in *why.
 */
int mapping_check_fd(int fd, struct mapping *ret, const char **why);

/*
 * Map the file that mapping_check_fd has checked, or find its mapping. Outcomes: a reference: *fd
 * is -1 if the mapping keeps the descriptor, otherwise the caller closes *fd; NULL, with errno and
 * a sentence in *why: *fd is unchanged.
 */
struct mapping *mapping_get(struct mappings *all, int *fd, const struct mapping *checked,
                            const char **why);

/* Map [offset, offset + bytes) of fd for one region; offset is page-aligned. Outcomes: a reference;
 * NULL with errno and a sentence in *why. */
struct mapping *mapping_get_part(struct mappings *all, int fd, uint64_t offset, uint64_t bytes,
                                 const char **why);

/* Memory of all files that the session has mapped, as last measured (taken.h). */
uint64_t mappings_taken(const struct mappings *all);

/* Give a reference back. After the last reference, this call or the undertaker unmaps the
 * mapping. */
void mapping_put(struct mappings *all, struct mapping *mapping);

#endif
