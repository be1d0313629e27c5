/*
 * The configuration of vipd: its files, their defaults and their errors.
 *
 * Owns: the files, the sections, the rules between keys, and the rule that vipd does not start with
 * a bad file. Does not own: the keys (vipd/config_keys.h), what a value does.
 *
 * libeconf reads the values. But libeconf silently merges a repeated section or key, and treats
 * indented lines as continuations. So vipd/config_scan.c checks the file first and refuses all
 * these lines.
 */
#ifndef VIPD_CONFIG_H
#define VIPD_CONFIG_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/limits.h"
#include "vipd/config_keys.h"
#include "vipd/cpus.h"
#include "vipd/engine/engine.h"
#include "vipd/link/kinds.h"
#include "vipd/log.h"

#define VIPD_NICS_MAX      16   /* NICs of one vipd; a loop serves all its NICs in each turn */
#define VIPD_NAMES_MAX     4096 /* entries of [names] */
#define VIPD_NAME_ADDR_MAX 8    /* addresses of one name */
#define VIPD_LISTENS_MAX   256  /* entries of [listen]; each wait is compared with every entry */
#define VIPD_ALIASES_MAX   32   /* configured aliases of one NIC */
/* Default UDP port of a NIC. Entries of [names] without a port get the first UDP NIC's port. */
#define VIPD_PORT_DEFAULT 4794

/* EtherType of vipd's frames: the first of the two that the IEEE reserves for experiments. */
#define VIPD_ETHERTYPE_DEFAULT 0x88b5

#define VIPD_GROUP_BYTES                                                                           \
    33 /* name of a user or a group with its terminating zero; Linux allows 32 characters */
#define VIPD_USER      "vipd" /* the default of [daemon] user; this user need not exist */
#define VIPD_FILES_MAX 64     /* files that one configuration is read from */

/* A number for vipd_origin.file: the value in force is older than the last reload. The files now
 * have another value, which takes effect after a restart of vipd. */
#define VIPD_FILE_BEFORE (VIPD_FILES_MAX + 1)

/* Where a value comes from. */
struct vipd_origin {
    /* 1 + index into vipd_config.files; 0: the value is a default; or VIPD_FILE_BEFORE */
    unsigned file;
    unsigned line;
};

/* How vipd waits when it has no work. */
enum vipd_wait {
    VIPD_WAIT_ADAPTIVE = 0, /* look for work for `spin_ns`, then sleep */
    VIPD_WAIT_SPIN,         /* never sleep */
    VIPD_WAIT_BLOCK,        /* sleep at once */
};

/* One [nic:NAME]. */
struct vipd_nic_config {
    char name[VIP_NIC_NAME_BYTES];
    enum link_kind link;   /* config_nics_settle can change LINK_UDP (link = udp) to LINK_UDP6 */
    struct link_keys keys; /* values of the keys that only some kinds of links have */
    char faults_text[256]; /* the value of `faults` as written; empty = no faults */
    struct link_faults faults;
    bool aliases_given; /* false: the NIC has the historical names (vipd/names.h) */
    unsigned alias_count;
    char aliases[VIPD_ALIASES_MAX][VIP_NIC_NAME_BYTES];
    unsigned line; /* line of the NIC's section, for messages; 0 = in no file */
    unsigned file; /* number of the file that has `line`, as in vipd_origin */
    struct vipd_origin origin[CONFIG_KEYS_MAX]; /* of each value; same index as config_keys */
};

/* One line of [names]. */
struct vipd_name {
    char *name;
    struct vipd_origin at;
    unsigned addr_count;
    struct link_addr addr[VIPD_NAME_ADDR_MAX];
    enum link_kind kind[VIPD_NAME_ADDR_MAX]; /* kind of link of each address */
    /* The interface of each link-local address; empty = any interface. */
    char scope[VIPD_NAME_ADDR_MAX][LINK_SCOPE_BYTES];
};

/* One line of [listen]: see vipd/config_listen.h. */
struct vipd_listen {
    char pattern[80]; /* for fnmatch */
    char user[VIPD_GROUP_BYTES];
    uid_t uid;
    struct vipd_origin at;
};

struct vipd_config {
    /* text for people: the name of the first file and the number of other files; NULL = no file */
    char *path;
    unsigned file_count;
    char *files[VIPD_FILES_MAX]; /* in the order of reading; a later file wins */
    /* origins of the values outside [nic:NAME], by index into config_keys */
    struct vipd_origin origin[CONFIG_KEYS_MAX];

    /* [daemon] */
    uint64_t socket_mode;
    char user[VIPD_GROUP_BYTES];
    char open_group[VIPD_GROUP_BYTES];
    char admin_group[VIPD_GROUP_BYTES];
    bool autostart; /* only libvipl uses this value; see libvipl/autostart.c */
    bool direct;
    bool stats_latency, stats_vi_latency;
    char stats_group[VIPD_GROUP_BYTES];
    uint64_t stats_interval_ns;
    uint64_t idle_exit_ns; /* 0 = never */
    enum vipd_log_level log_level;

    /* [engine]; the other keys of this section are in the member `engine` */
    enum vipd_wait wait;
    uint64_t spin_ns;
    char cpus[CPUS_TEXT_BYTES]; /* processors that vipd runs on; empty = all allowed ones */
    uint64_t threads; /* threads that drive NICs; 1 = one thread does everything; 0 = auto */
    uint64_t loan;    /* 0 = no, 1 = auto */
    uint64_t loan_moves;

    /* [reliability]; the other keys of this section are in the member `engine` */
    uint64_t keepalive_ns;
    uint64_t peer_dead_ns;
    uint64_t accept_timeout_ns;
    uint64_t linger_ns;
    uint64_t outlive_ns;
    struct eng_config engine; /* every NIC gives this to its engines */

    /* [limits] */
    uint64_t sessions_per_uid;
    uint64_t loan_moves_per_uid;
    uint64_t loans_per_uid;
    uint64_t connections_per_uid;
    uint64_t vis_per_uid;
    uint64_t cqs_per_uid;
    uint64_t regions_per_uid;
    uint64_t register_bytes_per_uid;
    uint64_t mapped_bytes_per_uid;
    uint64_t mapped_files_per_uid;
    uint64_t waits_per_uid;
    uint64_t connects_per_uid;
    uint64_t register_bytes;   /* limit of one session */
    uint64_t register_regions; /* limit of one session */
    uint64_t ptags;            /* limit of one session */
    uint64_t vis;              /* limit of one session */
    uint64_t cqs;              /* limit of one session */
    uint64_t events_queued;    /* limit of one session */

    unsigned nic_count; /* at least 1 */
    struct vipd_nic_config nics[VIPD_NICS_MAX];

    unsigned name_count;
    struct vipd_name *names;

    unsigned listen_count;
    struct vipd_listen listens[VIPD_LISTENS_MAX]; /* in the order of the files' lines */
};

/* Defaults: one udp NIC "vip0" on the address of the default route. Free with vipd_config_free. */
struct vipd_config *vipd_config_default(void);

/* Which files to read. */
struct vipd_config_source {
    /* read this file and *.conf in FILE.d/; NULL: read the system's files (vipd/config_files.h) */
    const char *file;
    /* prefix of the paths of the system's files, for tests and images; NULL = no prefix */
    const char *root;
    /* if `file` is NULL, also read the files of the user who starts vipd; false for root */
    bool of_user;
};

/*
 * Read all files. Outcomes: a configuration; NULL, and `errors` has a line "file:line: reason" for
 * each mistake in the files (cut after errors_bytes).
 */
struct vipd_config *vipd_config_read(const struct vipd_config_source *source, char *errors,
                                     size_t errors_bytes);

/* Read one file and its drop-ins, as vipd_config_read does. */
struct vipd_config *vipd_config_load(const char *path, char *errors, size_t errors_bytes);

/* Returns the name of the file that vipd_origin.file numbers. */
const char *vipd_config_file(const struct vipd_config *config, unsigned number);

/* NULL is allowed. */
void vipd_config_free(struct vipd_config *config);

#endif
