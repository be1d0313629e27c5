/*
 * The table of the kinds of links. The row of a kind has all that the rest of vipd must know of the
 * kind. So no file outside of this folder has special code for one kind.
 *
 * Owns: the table. Does not own: the rows; each row is in the file that opens the kind. Any thread.
 */
#ifndef VIPD_LINK_KINDS_H
#define VIPD_LINK_KINDS_H

#include "proto/wire_path.h"
#include "vipd/link/link.h"

/* Values of the keys of [nic:NAME] that only some kinds of links have. */
struct link_keys {
    bool variant; /* `link =` is the second word for the kind, link_kind_row.variant ("xdp") */
#define LINK_KEY(name, member, declaration, type, min, max, standard, help)      declaration;
#define LINK_KEY_LATE(name, member, declaration, type, min, max, standard, help) declaration;
#include "vipd/link/keys.def"
};

/* The arguments for opening a link. */
struct link_wish {
    const char *nic; /* name of the NIC, for log lines */
    const struct link_keys *keys;
    unsigned rank; /* number of earlier NICs that are rivals of this NIC (link_kind_row.rivals) */
    bool (*random)(uint64_t *ret);  /* makes a random number; false: the kernel gives none */
    void (*warn)(const char *line); /* writes one line to the log */
    bool in_use;   /* the vipd from which this one takes over still uses the medium */
    int inherited; /* a kept socket, as in struct link_udp_config; 0 = none */
    void (*opened)(void *ctx, int sock);
    void *opened_ctx;
};

/* One kind. The file of the kind sets the members that apply; the others are zero. */
struct link_kind_row {
    const char *name;  /* name in the configuration and in views: "udp" */
    uint32_t overhead; /* bytes of the MTU that headers use; 0: the kind has no interface */
    /* Number of leading bytes of a host address that identify a source (a holder of a share): the
     * address without its port. */
    uint8_t source_bytes;
    /* Number of leading bytes of a source that name its network; a host can choose the other bytes.
     * 0: a host can choose no byte. */
    uint8_t network_bytes;
    /* Number of bytes at the end of a host address that hold the port; 0 if the address has no
     * port. */
    uint8_t port_bytes;
    /* First byte of the loopback addresses, which any program of this host can use; 0: the kind has
     * no range of such addresses. */
    uint8_t local;
    int (*parse)(const char *text, uint16_t default_port, struct link_addr *ret); /* 0 or -EINVAL */
    void (*format)(const struct link_addr *addr, char *buf, size_t buf_bytes);

    bool sends_to_self; /* a packet to the own address comes back */
    /* The only address, if the kind reaches programs of this host only; NULL: the kind reaches
     * other hosts. */
    const char *only_host, *only_host_why; /* only_host_why: a sentence for `vipctl explain` */
    /* 4 or 6: host addresses are IPv4 or IPv6 addresses with a port, and libvipl can ask the
     * system's resolver for them; 0: addresses are of another type. */
    unsigned ip_version;

    const char *const *keys; /* names of the keys that this kind has; the last entry is NULL */
    /* The sentence that vipd --print-config prints before a separate section [nic:NAME] with the
     * keys that only this kind has. NULL: these keys are in the section of the first NIC. */
    const char *sample;
    /* Set the key path_key to `word`, the address (or interface) of one path. false: the word is
     * not valid. The member is NULL if NICs of this kind have one path. */
    bool (*path)(const char *word, struct link_keys *ret);
    const char *path_key; /* "address" or "interface" */
    /* Another word for the kind, which sets keys->variant: "xdp"; NULL: there is none. */
    const char *variant;
    /* Returns the kind that `link =` means: other keys choose IPv4 or IPv6. NULL: always this. */
    enum link_kind (*settle)(const struct link_keys *keys);
    /* Returns a missing key that must be set, as in "interface = NAME"; NULL if there is none.
     * The member is NULL if the kind needs no key. */
    const char *(*lacks)(const struct link_keys *keys);
    /* Returns the values that a and b share although two NICs must not share them, such as "the
     * same address and port"; NULL: none. The member is NULL if two NICs may share all values. */
    const char *(*clash)(const struct link_keys *a, const struct link_keys *b);

    bool keeps_socket; /* the link's socket may stay open for the next vipd (vipd/fd_store.h) */
    /* Are two NICs of this kind rivals: can both answer the same question for a name? The member is
     * NULL if NICs of this kind are never rivals. */
    bool (*rivals)(const struct link_keys *a, const struct link_keys *b);
    /* Open a link. Outcomes: 0 and *ret; negative errno with a sentence for people in err. */
    int (*open)(const struct link_wish *wish, struct link **ret, char *err, size_t err_bytes);
};

/*
 * Make the keys of each path of a NIC: ret[i] has the keys of a NIC with path i + 1 only. Returns
 * the number of paths, which is 1 without `paths`. Returns 0 if `paths` has too many words (ret_bad
 * is empty) or a word is no address of the kind (ret_bad is this word).
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

/* Functions of addr.c for the addresses of several kinds: IPv6 with a port; MAC without a port. */
#define LINK_MAC_BYTES 6
int link_udp6_parse(const char *text, uint16_t default_port, struct link_addr *ret);
int link_mac_parse(const char *text, uint16_t default_port, struct link_addr *ret);
void link_mac_format(const struct link_addr *addr, char *buf, size_t buf_bytes);

#endif
