/* Tickets (ticket.h), sealed with libsodium's secretbox. */
#include "vipd/ticket.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vipd/kept_file.h"

/* Add 1 with each change of struct ticket: a vipd does not open tickets of another version. */
#define TICKET_VERSION 1

_Static_assert(sizeof(struct ticket_key) == crypto_secretbox_KEYBYTES, "secretbox");
_Static_assert(TICKET_BYTES == 1 + crypto_secretbox_NONCEBYTES + crypto_secretbox_MACBYTES +
                                   sizeof(struct ticket),
               "secretbox");

int ticket_init(void)
{
    return sodium_init() < 0 ? -EIO : 0;
}

/* Read the key. false: the open file has no key, or another user may have written it. */
static bool key_read(int fd, uid_t user, struct ticket_key *ret)
{
    struct stat st;

    return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 1 &&
           (st.st_uid == geteuid() || st.st_uid == user) && !(st.st_mode & 077) &&
           st.st_size == sizeof(ret->bytes) &&
           pread(fd, ret->bytes, sizeof(ret->bytes), 0) == sizeof(ret->bytes);
}

int ticket_key_load(int dir_fd, uid_t user, struct ticket_key *ret)
{
    int fd =
        openat(dir_fd, TICKET_KEY_FILE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    bool good = fd >= 0 && key_read(fd, user, ret);

    if (fd >= 0)
        close(fd);
    if (good)
        return 0;
    randombytes_buf(ret->bytes, sizeof(ret->bytes));
    return kept_file_write(dir_fd, TICKET_KEY_FILE, ret->bytes, sizeof(ret->bytes));
}

void ticket_seal(const struct ticket_key *key, const struct ticket *ticket,
                 uint8_t ret[TICKET_BYTES])
{
    uint8_t *nonce = ret + 1, *box = nonce + crypto_secretbox_NONCEBYTES;

    ret[0] = TICKET_VERSION;
    randombytes_buf(nonce, crypto_secretbox_NONCEBYTES);
    (void)crypto_secretbox_easy(box, (const uint8_t *)ticket, sizeof(*ticket), nonce, key->bytes);
}

bool ticket_open(const struct ticket_key *key, const uint8_t *bytes, size_t len, struct ticket *ret)
{
    const uint8_t *nonce;
    struct ticket ticket;

    if (len != TICKET_BYTES || bytes[0] != TICKET_VERSION) /* len 0: bytes may be NULL */
        return false;
    nonce = bytes + 1;
    if (crypto_secretbox_open_easy((uint8_t *)&ticket, nonce + crypto_secretbox_NONCEBYTES,
                                   len - 1 - crypto_secretbox_NONCEBYTES, nonce, key->bytes) != 0)
        return false;
    *ret = ticket;
    return true;
}
