/*
 * The table of the kinds of links. The row of a kind has everything that the rest of vipd must know
 * of it. So no file of vipd above this folder compares a kind with a name or a number.
 *
 * Owns: the table. Does not own: the rows; each row is in the file that opens the kind. Any thread.
 */
#ifndef VIPD_LINK_KINDS_H
#define VIPD_LINK_KINDS_H

#include "proto/wire_path.h"
#include "vipd/link/link.h"

/* Values of the keys of [nic:NAME] that only some kinds have. */
struct link_keys {
    bool variant; /* the row's other word was written: link = xdp */
#define LINK_KEY(name, member, declaration, type, min, max, standard, help)      declaration;
#define LINK_KEY_LATE(name, member, declaration, type, min, max, standard, help) declaration;
#include "vipd/link/keys.def"
};

/* The arguments for opening a link. */
struct link_wish {
    const char *nic; /* name of the NIC, for log lines */
    const struct link_keys *keys;
    unsigned rank;                  /* number of earlier NICs that are rivals (link_kind_row) */
    bool (*random)(uint64_t *ret);  /* false: the kernel gives no random numbers */
    void (*warn)(const char *line); /* writes one line to the log */
    bool in_use;   /* the vipd from which this one takes over still uses the medium */
    int inherited; /* a kept socket, as in struct link_udp_config; 0 = none */
    void (*opened)(void *ctx, int sock);
    void *opened_ctx;
};

/* One kind. The file of the kind sets the members that apply; the others are zero. */
struct link_kind_row {
    const char *name;  /* in the configuration and in views: "udp" */
    uint32_t overhead; /* bytes of an interface's MTU that headers use; 0: it has no interface */
    /* Number of leading bytes of a host address that identify a source (a holder of a share): the
     * address without its port. */
    uint8_t source_bytes;
    /* Of these, number of leading bytes that a host cannot choose (its network); 0: all of them. */
    uint8_t network_bytes;
    /* Number of bytes at the end of a host address that hold the port; 0 if the address has no
     * port. */
    uint8_t port_bytes;
    /* First byte of addresses that each program of this host can use as its own; 0 if there are no
     * such addresses. */
    uint8_t local;
    int (*parse)(const char *text, uint16_t default_port, struct link_addr *ret); /* 0 or -EINVAL */
    void (*format)(const struct link_addr *addr, char *buf, size_t buf_bytes);

    bool sends_to_self; /* a packet to the own address comes back */
    /* The only address, if the kind reaches programs of this host only; NULL: it reaches other
     * hosts. */
    const char *only_host, *only_host_why; /* why: a sentence for `vipctl explain` */
    /* 4 or 6: host addresses are IPv4 or IPv6 addresses with a port, and libvipl can ask the
     * system's resolver for them; 0: addresses are of another type. */
    unsigned ip_version;

    const char *const *keys; /* names of the keys that this kind has; the last entry is NULL */
    /* In the printed configuration, keys that only this kind has stand in a NIC of their own, below
     * this sentence. NULL: they stand in the first NIC. */
    const char *sample;
    /* Set the key that holds the address of one path to a word of `paths`. false: it is no such
     * address. NULL: NICs of this kind have one path. */
    bool (*path)(const char *word, struct link_keys *ret);
    const char *path_key; /* this key */
    /* Another word for the kind, which sets keys->variant: "xdp"; NULL: there is none. */
    const char *variant;
    /* The kind that `link =` means when all keys are read; NULL: always this kind. */
    enum link_kind (*settle)(const struct link_keys *keys);
    /* Returns a key that must be set and is not, as in "interface = NAME"; NULL if there is none.
     * The member is NULL if the kind needs no key. */
    const char *(*lacks)(const struct link_keys *keys);
    /* Returns what two NICs of this kind have in common and must not, such as "the same address and
     * port", or NULL. The member is NULL if the kind has no such rule. */
    const char *(*clash)(const struct link_keys *a, const struct link_keys *b);

    bool keeps_socket; /* its socket may stay open while vipd is away (vipd/fd_store.h) */
    /* Are two NICs of this kind rivals: may a question for one name on a segment reach both? NULL:
     * NICs of this kind never are. */
    bool (*rivals)(const struct link_keys *a, const struct link_keys *b);
    /* Outcomes: 0 and *ret; negative errno with a sentence for people in err. */
    int (*open)(const struct link_wish *wish, struct link **ret, char *err, size_t err_bytes);
};

/*
 * The keys of each path of a NIC, as if it were a NIC with one path. Outcomes: the number of paths,
 * 1 without `paths`; 0: `paths` has too many words, or ret_bad is a word that is no address of the
 * kind.
 */
unsigned link_kind_paths(enum link_kind kind, const struct link_keys *keys,
                         struct link_keys ret[VIP_PATHS_MAX], char ret_bad[LINK_NAME_BYTES]);

/* The row of a kind; static. */
const struct link_kind_row *link_kind_row(enum link_kind kind);

/* Bytes of the list of all words for `link =`, with its terminating zero. */
#define LINK_WORDS_BYTES 128

/* The list of all words for `link =`: "udp, ether, xdp or loop". */
void link_kind_words(char ret[LINK_WORDS_BYTES]);

/* Has the kind this key (link_kind_row.keys)? */
bool link_kind_knows(enum link_kind kind, const char *key);

/* The list of the names of the kinds that have a key: "udp and ether". Returns their number. */
unsigned link_key_kinds(const char *key, char ret[LINK_WORDS_BYTES]);

/* ---- parts of rows ------------------------------------------------------------------------ */

#define LINK_KIND(number, row, help) extern const struct link_kind_row row;
#include "vipd/link/kinds.def"

/* Addresses that several rows use (addr.c): IPv6 with a port; MAC without a port. */
#define LINK_MAC_BYTES 6
int link_udp6_parse(const char *text, uint16_t default_port, struct link_addr *ret);
int link_mac_parse(const char *text, uint16_t default_port, struct link_addr *ret);
void link_mac_format(const struct link_addr *addr, char *buf, size_t buf_bytes);

#endif
