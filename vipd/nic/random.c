/* Random numbers of a NIC. */
#include "vipd/nic/internal.h"

/* Connection ids are made of these numbers. Other hosts see some ids and must not be able to
 * predict further ids. */
uint64_t nic_random(struct nic *nic)
{
    nic->random++;
    return siphash(&nic->random_key, &nic->random, sizeof(nic->random));
}
