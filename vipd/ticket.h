/*
 * Tickets. A program keeps a ticket so that its connection goes on in the next life of vipd. The
 * program can neither read nor change a ticket, because vipd alone has the key.
 *
 * Owns: the key and its file, sealing and opening. Does not own: when vipd makes and takes tickets
 * (vipd/client/), what the NIC does with a ticket's contents (nic_vi_restore).
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
    uint64_t uid, pid, start_ticks; /* the only process that may use this ticket */
    char nic[VIP_NIC_NAME_BYTES];
    struct cm_host self; /* address of the NIC, at which the peer looks for the connection */
    struct nic_vi_checkpoint vi;
};

/* Bytes of a sealed ticket: version, nonce, 16 bytes that authenticate it, contents. */
#define TICKET_BYTES (1 + 24 + 16 + sizeof(struct ticket))

/* Call before the other functions. Outcomes: 0; -EIO: libsodium does not work here. */
int ticket_init(void);
/*
 * Read the key in the runtime directory dir_fd, or make a key. The file is replaced if it has no
 * key, or if another user than `user` and this process's user owns it. It is also replaced if
 * others may open it, or if it has a second name. Then no earlier ticket opens. Outcomes: 0; a
 * negative errno: *ret is a new key, which the next life of vipd will not have.
 */
int ticket_key_load(int dir_fd, uid_t user, struct ticket_key *ret);
void ticket_seal(const struct ticket_key *key, const struct ticket *ticket,
                 uint8_t ret[TICKET_BYTES]);
/* Open a ticket. false: another key or version has sealed it; *ret is unchanged. */
bool ticket_open(const struct ticket_key *key, const uint8_t *bytes, size_t len,
                 struct ticket *ret);

#endif
