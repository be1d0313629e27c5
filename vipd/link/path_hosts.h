/*
 * What a NIC with several paths knows of other hosts: which addresses a host has proved to have,
 * which of its paths answer, and which path packets to it take (doc/wire.md, "Several paths").
 *
 * Owns: the table of hosts, questions and answers, the choice of the path. Does not own: sockets;
 * time comes from the caller, messages leave by a callback. Called by paths.c, from one thread.
 *
 * The address of a host on path 0 is its name. Path i of this host talks to path i of others only.
 * Until a host has proved other addresses, packets to it take path 0. The table gets a host when
 * the NIC sends to it, and never loses a host that has answered.
 */
#ifndef VIPD_LINK_PATH_HOSTS_H
#define VIPD_LINK_PATH_HOSTS_H

#include "proto/siphash.h"
#include "proto/wire_path.h"
#include "vipd/link/link.h"

/* Largest number of hosts in the table. Packets to other hosts always take path 0. */
#define PATH_HOSTS_MAX 4096u

/* One path to one host. */
struct path_way {
    struct link_addr addr; /* len 0: not known */
    bool remembered;       /* this address has answered an earlier vipd of this host */
    bool proved;    /* an answer has come from this address; on path 0 perhaps to an earlier vipd */
    bool silent;    /* the host no longer answers on this path, or the path is down here */
    unsigned asked; /* number of questions since the last answer */
    uint64_t nonce; /* the nonce of all questions since the last answer */
    /* time of the first question since the last answer; time of the last question */
    uint64_t first_ns, last_ns;
    /* time of the last answer; on path 0, of the last packet until the host's address is proved */
    uint64_t heard_ns;
    uint64_t good_ns; /* time since which the path answers and accepts packets; 0: it does not */
    uint64_t rtt_ns, deviation_ns; /* round trip, smoothed; 0: not measured */
    struct path_host *next;        /* in a bucket of by_addr, if `proved`; not used for path 0 */
};

struct path_host {
    struct link_addr first; /* address on path 0, which is the host's name */
    struct path_host *next; /* in by_name */
    unsigned current;       /* the path that packets to this host take */
    uint64_t since_ns;      /* time since which packets take the path `current` */
    bool sent;              /* the NIC has sent to this host since the last tick */
    struct path_way way[VIP_PATHS_MAX];
};

/* Why packets take another path. */
enum path_why {
    PATH_SILENT = 0, /* the host does not answer on the old path */
    PATH_DOWN,       /* the old path is down on this host */
    PATH_GONE,       /* the other host no longer has the old path */
    PATH_BETTER,     /* a path with a lower number answers again */
    PATH_WHYS,
};

/* Hosts that changed from one path to another since the last line of the log. */
struct path_moves {
    unsigned count;
    struct link_addr host; /* the first of these hosts */
    enum path_why why;     /* why this host changed */
};

#define PATH_BUCKETS 1024u

struct path_hosts {
    unsigned paths;
    unsigned source_bytes;  /* number of leading bytes of a host's name that identify its machine */
    struct siphash_key key; /* for nonces and tables */
    uint64_t drawn;         /* number of nonces drawn so far */
    uint64_t tick_ns;       /* next call of path_hosts_tick; UINT64_MAX: none is due */
    unsigned count, hand;   /* number of hosts; index of the host that may lose its place next */
    struct path_host *host[PATH_HOSTS_MAX];
    struct path_host *by_name[PATH_BUCKETS];
    struct path_host *by_addr[VIP_PATHS_MAX][PATH_BUCKETS]; /* proved addresses of each path */
    struct path_moves moves[VIP_PATHS_MAX][VIP_PATHS_MAX];  /* [from path][to path] */
    uint64_t told_ns;                                       /* time of the last line of the log */
    /* each question to a host that has never answered adds 1 s / STRANGER_RATE */
    uint64_t stranger_ns;
    uint64_t probes, moved; /* number of questions; number of changes of paths */
    bool learned;           /* an address was proved or forgotten; the caller sets this to false */
};

/* Send a message by a path to an address. */
typedef void path_send_fn(void *ctx, unsigned path, const struct link_addr *to,
                          const struct vip_path_message *message);
/* Write to the log that packets to these hosts take path `to` in place of path `from`. */
typedef void path_tell_fn(void *ctx, const struct path_moves *moves, unsigned from, unsigned to);

/* Largest number of proved hosts whose names have the same source_bytes, so that one machine cannot
 * fill the table. */
#define PATH_HOSTS_SOURCE 64u

/* paths: 2..VIP_PATHS_MAX. source_bytes: as in link_kind_row. seed: two random numbers, which no
 * other host knows. NULL: no memory. */
struct path_hosts *path_hosts_new(unsigned paths, unsigned source_bytes, const uint64_t seed[2]);
void path_hosts_free(struct path_hosts *hosts);

/* The NIC sends to this host. Returns its entry, valid until the next call with another host; NULL:
 * there is no room or no memory for an entry. */
struct path_host *path_hosts_to(struct path_hosts *hosts, const struct link_addr *name,
                                uint64_t now_ns);

/* An earlier vipd knew this address of the host `name` on a path other than 0. As soon as the NIC
 * sends to the host, path_hosts_tick asks this address, too, even if path 0 does not answer. */
void path_hosts_remember(struct path_hosts *hosts, const struct link_addr *name, unsigned path,
                         const struct link_addr *addr);

/* A packet came from this host on path 0. If the host has never answered, questions to it begin
 * anew, because its vipd may have started meanwhile. */
void path_hosts_heard(struct path_hosts *hosts, const struct link_addr *name, uint64_t now_ns);

/* The NIC sends to this host, whose entry the caller has already. */
void path_hosts_sent(struct path_hosts *hosts, struct path_host *host, uint64_t now_ns);

/* The entry of a host, for views; NULL: none. This does not count as sending to the host. */
const struct path_host *path_hosts_find(const struct path_hosts *hosts,
                                        const struct link_addr *name);

/* The host that has proved to have an address on a path other than 0; NULL: none. The entry and its
 * name are valid until path_hosts_free. */
const struct path_host *path_hosts_from(const struct path_hosts *hosts, unsigned path,
                                        const struct link_addr *addr);

/* An answer came from an address. false: this host has not asked for this answer. */
bool path_hosts_answered(struct path_hosts *hosts, const struct vip_path_message *message,
                         const struct link_addr *from, uint64_t now_ns);

/* Call this at tick_ns: asks hosts, finds silent paths, chooses paths. up[i]: path i is up here. */
void path_hosts_tick(struct path_hosts *hosts, const bool up[VIP_PATHS_MAX], uint64_t now_ns,
                     path_send_fn *send, path_tell_fn *tell, void *ctx);

/* Does the host answer and accept packets on this path? */
bool path_way_answers(const struct path_way *way);

/* Make the next tick due at once, because a path of this host went down or came up. */
void path_hosts_hurry(struct path_hosts *hosts);

#endif
