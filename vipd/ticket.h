/*
 * Tickets. A program keeps a ticket for the next life of vipd, so that a connection goes on. The
 * program can neither read nor change a ticket, because vipd alone has the key.
 *
 * Owns: the key and its file, sealing and opening. Does not own: when a ticket is made and taken
 * (vipd/client/), what the NIC does with its contents (nic_vi_restore).
 */
#ifndef VIPD_TICKET_H
#define VIPD_TICKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/limits.h"
#include "vipd/nic/outlive.h"

#define TICKET_KEY_FILE "ticket.key" /* in the runtime directory */

struct ticket_key {
    uint8_t bytes[32];
};

/* Contents of a ticket. */
struct ticket {
    uint64_t uid, pid, start_ticks; /* the program: only this process may come back with it */
    char nic[VIP_NIC_NAME_BYTES];
    struct cm_host self; /* address of the NIC: the peer looks for the connection there */
    struct nic_vi_checkpoint vi;
};

/* Bytes of a sealed ticket: version, nonce, 16 bytes that authenticate it, contents. */
#define TICKET_BYTES (1 + 24 + 16 + sizeof(struct ticket))

/* Call before the other functions. Outcomes: 0; -EIO: libsodium does not work here. */
int ticket_init(void);
/*
 * Read the key in the runtime directory dir_fd, or make a key. The file is replaced if it belongs
 * neither to `user` nor to this process's user, if others may open it, or if it has a second name.
 * Then no earlier ticket opens. Outcomes: 0; a negative errno: *ret is a new key, which the next
 * life of vipd will not have.
 */
int ticket_key_load(int dir_fd, uid_t user, struct ticket_key *ret);
void ticket_seal(const struct ticket_key *key, const struct ticket *ticket,
                 uint8_t ret[TICKET_BYTES]);
/* Open a ticket. false: it was not sealed with this key and version; *ret is unchanged. */
bool ticket_open(const struct ticket_key *key, const uint8_t *bytes, size_t len,
                 struct ticket *ret);

#endif
