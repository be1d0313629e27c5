/* The cards of a job (struct am_card). Their keys prove the calls between processes of the job. */
#include "am/internal.h"

/* The cards, and the name of our endpoint in the job. Under am_net.lock. */
static struct {
    en_t name;             /* zeros before AMX_SPMDStartup */
    struct am_card *cards; /* NULL: not known yet */
    int count;
} known;

static const struct job_key *key_of(const en_t *name)
{
    for (int i = 0; i < known.count; i++)
        if (am_name_equal(&known.cards[i].name, name))
            return &known.cards[i].key;
    return NULL;
}

const struct job_key *am_spmd_key(const struct am_ep *ep, const en_t *other, const en_t *called,
                                  bool *ret_early)
{
    bool ours = am_name_equal(&ep->name, &known.name);

    *ret_early = ours && known.cards == NULL;
    return ours && key_of(other) != NULL ? key_of(called) : NULL;
}

void am_cards_know(const struct am_ep *ep, struct am_card *cards, int count)
{
    pthread_mutex_lock(&am_net.lock);
    known.name = ep->name;
    known.cards = cards;
    known.count = count;
    pthread_mutex_unlock(&am_net.lock);
}
