/*
 * What the administrator decides: the configuration file, its defaults and its errors.
 *
 * Owns: the syntax and every key of vipd.conf (conf/vipd.conf documents them), ranges, and that a
 * bad file starts nothing. Does not own: what a value does.
 *
 * Values are read with libeconf. It silently folds a section or key that comes twice and takes
 * indented lines for continuations, so vipd/config_scan.c looks at the lines first and refuses that.
 */
#ifndef VIPD_CONFIG_H
#define VIPD_CONFIG_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/limits.h"
#include "vipd/engine/engine.h"
#include "vipd/link/link.h"
#include "vipd/log.h"

#define VIPD_NICS_MAX      16   /* NICs of one vipd; each costs every turn of the loop a call */
#define VIPD_NAMES_MAX     4096 /* entries of [names] */
#define VIPD_NAME_ADDR_MAX 8    /* addresses of one name */
#define VIPD_ALIASES_MAX   32   /* configured aliases of one NIC */
#define VIPD_PORT_DEFAULT  4794 /* UDP port of a NIC; a name without port has the first udp NIC's */

/* EtherType of our frames: the IEEE's first one for experiments of everybody. */
#define VIPD_ETHERTYPE_DEFAULT 0x88b5

/* How vipd waits when there is nothing to do. */
enum vipd_wait {
    VIPD_WAIT_ADAPTIVE = 0, /* look around for `spin_ns`, then sleep */
    VIPD_WAIT_SPIN,         /* never sleep */
    VIPD_WAIT_BLOCK,        /* sleep at once */
};

/* One [nic:NAME]. */
struct vipd_nic_config {
    char name[VIP_NIC_NAME_BYTES];
    enum link_kind link; /* LINK_UDP6: link = udp and an IPv6 address */
    char address
        [64];      /* udp: IPv4 or IPv6, link-local with %interface; empty = the default route's */
    uint64_t port; /* udp: 1..65535 */
    uint64_t mtu;  /* of the interface, 0 = ask it */
    uint64_t buffer_bytes; /* wanted socket buffers */
    bool gso, gro;         /* udp */
    char interface[16];    /* ether: its name */
    uint64_t ethertype;    /* ether: of our frames */
    uint64_t vlan;         /* ether: 1..4094, 0 = none */
    char announce[64];     /* ether: the name told to peers; empty = this host's, "none" */
    char faults_text[256]; /* as written; empty = none */
    struct link_faults faults;
    bool aliases_given; /* else the historical names of the n-th NIC */
    unsigned alias_count;
    char aliases[VIPD_ALIASES_MAX][VIP_NIC_NAME_BYTES];
    unsigned line; /* of its section, for messages; 0 = not from a file */
};

/* One line of [names]. */
struct vipd_name {
    char *name;
    unsigned addr_count;
    struct link_addr addr[VIPD_NAME_ADDR_MAX];
    enum link_kind kind[VIPD_NAME_ADDR_MAX]; /* the medium of each address */
    /* The interface where a link-local address is meant; empty = any. */
    char scope[VIPD_NAME_ADDR_MAX][LINK_SCOPE_BYTES];
};

struct vipd_config {
    char *path; /* NULL = no file was given */

    /* [daemon] */
    uint64_t socket_mode;
    enum vipd_log_level log_level;

    /* [engine]; the rest of it is in `engine` */
    enum vipd_wait wait;
    uint64_t spin_ns;

    /* [reliability]; the rest of it is in `engine` */
    uint64_t keepalive_ns;
    uint64_t peer_dead_ns;
    uint64_t accept_timeout_ns;
    struct eng_config engine; /* what every NIC's engines get */

    /* [limits] */
    uint64_t sessions_per_uid;
    uint64_t connections_per_uid;
    uint64_t vis_per_uid;
    uint64_t cqs_per_uid;
    uint64_t regions_per_uid;
    uint64_t register_bytes_per_uid;
    uint64_t mapped_bytes_per_uid;
    uint64_t mapped_files_per_uid;
    uint64_t waits_per_uid;
    uint64_t connects_per_uid;
    uint64_t register_bytes;   /* of one session */
    uint64_t register_regions; /* of one session */
    uint64_t ptags;            /* of one session */
    uint64_t vis;              /* of one session */
    uint64_t cqs;              /* of one session */
    uint64_t events_queued;    /* of one session */

    unsigned nic_count; /* at least 1 */
    struct vipd_nic_config nics[VIPD_NICS_MAX];

    unsigned name_count;
    struct vipd_name *names;
};

/* Defaults: one udp NIC "vip0" on the address of the default route. Free with vipd_config_free. */
struct vipd_config *vipd_config_default(void);

/*
 * Read a file. Outcomes: a configuration; NULL, and errors has one line "file:line: reason" for
 * each fault found (cut after errors_bytes).
 */
struct vipd_config *vipd_config_load(const char *path, char *errors, size_t errors_bytes);

/* Harmless on NULL. */
void vipd_config_free(struct vipd_config *config);

/* Every key there is, for the test that conf/vipd.conf documents each: section without "nic:". */
void vipd_config_each_key(void (*visit)(void *ctx, const char *section, const char *key),
                          void *ctx);

#endif
