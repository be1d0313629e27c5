/*
 * What a NIC with several paths knows of other hosts: which addresses a host has proved to have,
 * which of its paths answer, and which path packets to it take (doc/wire.md, "Several paths").
 *
 * Owns: the table of hosts, questions and answers, the choice of the path. Does not own: sockets;
 * time comes from the caller, messages leave by a callback. Called by paths.c, with one thread.
 *
 * A host is known by its address on path 0. Path i of this host talks to path i of others only.
 * Without a proof the only path to a host is path 0. The table takes a host when the user sends to
 * it, and keeps a host that has answered.
 */
#ifndef VIPD_LINK_PATH_HOSTS_H
#define VIPD_LINK_PATH_HOSTS_H

#include "proto/siphash.h"
#include "proto/wire_path.h"
#include "vipd/link/link.h"

/* Hosts of the table. Packets to further hosts always take path 0. */
#define PATH_HOSTS_MAX 4096u

/* One path to one host. */
struct path_way {
    struct link_addr addr;      /* len 0: not known */
    bool remembered;            /* it has answered an earlier vipd of this host */
    bool proved;                /* an answer has come from this address */
    bool silent;                /* answers have stopped to come */
    unsigned asked;             /* questions since the last answer */
    uint64_t nonce;             /* of these */
    uint64_t first_ns, last_ns; /* the first and the last of these; last_ns: of all questions */
    uint64_t heard_ns;          /* the last answer; of path 0 also the last packet of a stranger */
    uint64_t good_ns;           /* time since which every question was answered; 0: none was */
    uint64_t rtt_ns, deviation_ns; /* smoothed; 0: not measured */
    struct path_host *next;        /* in by_addr of this path, if proved; not for path 0 */
};

struct path_host {
    struct link_addr first; /* address on path 0, which is the host's name */
    struct path_host *next; /* in by_name */
    unsigned current;       /* the path that packets to this host take */
    uint64_t since_ns;      /* time since which they do */
    bool sent;              /* the user has sent to it since the last tick */
    struct path_way way[VIP_PATHS_MAX];
};

/* Why packets take another path. */
enum path_why {
    PATH_SILENT = 0, /* no answer by the path that they took */
    PATH_DOWN,       /* this host cannot use it */
    PATH_GONE,       /* the other host does not have it any more */
    PATH_BETTER,     /* a path with a lower number answers again */
    PATH_WHYS,
};

/* Hosts that changed from one path to another since the last line of the log. */
struct path_moves {
    unsigned count;
    struct link_addr host; /* the first of these */
    enum path_why why;     /* of this host */
};

#define PATH_BUCKETS 1024u

struct path_hosts {
    unsigned paths;
    unsigned source_bytes;  /* leading bytes of a host's name that are its machine's */
    struct siphash_key key; /* for nonces and tables */
    uint64_t drawn;         /* number of nonces */
    uint64_t tick_ns;       /* next call of path_hosts_tick; UINT64_MAX: none is due */
    unsigned count, hand;   /* hosts, and the next one that may lose its place */
    struct path_host *host[PATH_HOSTS_MAX];
    struct path_host *by_name[PATH_BUCKETS];
    struct path_host *by_addr[VIP_PATHS_MAX][PATH_BUCKETS]; /* proved addresses of each path */
    struct path_moves moves[VIP_PATHS_MAX][VIP_PATHS_MAX];  /* from, to */
    uint64_t told_ns;                                       /* the last line of the log */
    uint64_t stranger_ns;   /* time until which the probes of hosts without an answer are used up */
    uint64_t probes, moved; /* counters */
    bool learned;           /* an address was proved or given up; the caller sets it back */
};

/* Send a message by a path to an address. */
typedef void path_send_fn(void *ctx, unsigned path, const struct link_addr *to,
                          const struct vip_path_message *message);
/* Tell people that packets to hosts take path `to` in place of path `from`. */
typedef void path_tell_fn(void *ctx, const struct path_moves *moves, unsigned from, unsigned to);

/* Hosts with proved addresses whose names have the same source_bytes: one machine cannot fill the
 * table. */
#define PATH_HOSTS_SOURCE 64u

/* paths: 2..VIP_PATHS_MAX. source_bytes: as in link_kind_row. seed: two random numbers, which no other
 * host knows. NULL: no memory. */
struct path_hosts *path_hosts_new(unsigned paths, unsigned source_bytes, const uint64_t seed[2]);
void path_hosts_free(struct path_hosts *hosts);

/* The host that the user sends to; NULL: it has no entry. Valid until the next call with another
 * host. */
struct path_host *path_hosts_to(struct path_hosts *hosts, const struct link_addr *name,
                                uint64_t now_ns);

/* An earlier vipd of this host knew that the host `name` has this address on a path other than 0. It
 * is asked there as soon as the user sends to it, also if its path 0 does not answer. */
void path_hosts_remember(struct path_hosts *hosts, const struct link_addr *name, unsigned path,
                         const struct link_addr *addr);

/* A packet came from this address on path 0. If it is a host that was asked in vain, it is asked anew:
 * perhaps its vipd has begun since. */
void path_hosts_heard(struct path_hosts *hosts, const struct link_addr *name, uint64_t now_ns);

/* The user sends to this host. */
void path_hosts_sent(struct path_hosts *hosts, struct path_host *host, uint64_t now_ns);

/* A host without a send: for views. */
const struct path_host *path_hosts_find(const struct path_hosts *hosts,
                                        const struct link_addr *name);

/* The host that has proved to have an address on a path other than 0; NULL: none. Valid, as its
 * name is, until path_hosts_free. */
const struct path_host *path_hosts_from(const struct path_hosts *hosts, unsigned path,
                                        const struct link_addr *addr);

/* An answer came from an address. false: no question of ours waits for it. */
bool path_hosts_answered(struct path_hosts *hosts, const struct vip_path_message *message,
                         const struct link_addr *from, uint64_t now_ns);

/* At tick_ns: ask, judge and choose. `up`: can this host use the path? */
void path_hosts_tick(struct path_hosts *hosts, const bool up[VIP_PATHS_MAX], uint64_t now_ns,
                     path_send_fn *send, path_tell_fn *tell, void *ctx);

/* Has the host answered by this path, and not fallen silent? */
bool path_way_answers(const struct path_way *way);

/* One of this host's paths went down or came up: have the next tick at once. */
void path_hosts_hurry(struct path_hosts *hosts);

#endif
