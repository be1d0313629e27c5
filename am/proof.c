/*
 * Proofs of calls and answers (wire.h). A call proves that the caller knows the key or the tag of
 * the called endpoint.
 */
#include <string.h>

#include "am/internal.h"

_Static_assert(sizeof(en_t) == 32, "a name in a claim");

static struct am_claim claim_of(const en_t *caller, const en_t *called, const struct am_call *call)
{
    struct am_claim claim = {.call = *call};

    memcpy(claim.caller, caller, sizeof(claim.caller));
    /* Leave out the called host: it may have several addresses, and each side may use another. */
    memcpy(claim.called, called, offsetof(en_t, host_bytes));
    memset(&claim.call.proof, 0, sizeof(claim.call.proof));
    return claim;
}

static struct am_claim answer_claim(const en_t *caller, const en_t *called,
                                    const struct am_call *call, const struct am_answer *answer)
{
    struct am_claim claim = claim_of(caller, called, call);

    claim.answer = *answer;
    memset(&claim.answer.proof, 0, sizeof(claim.answer.proof));
    return claim;
}

/* The key for a proof: *key, or the bytes of the tag if `key` is NULL. */
static struct job_key key_or_tag(const struct job_key *key, tag_t tag)
{
    struct job_key made = {{0}};

    memcpy(made.bytes, &tag, sizeof(tag));
    return key != NULL ? *key : made;
}

void am_call_prove(const struct job_key *key, tag_t tag, const en_t *caller, const en_t *called,
                   struct am_call *call)
{
    struct am_claim claim = claim_of(caller, called, call);
    struct job_key by = key_or_tag(key, tag);

    call->proof = job_prove(&by, JOB_CALLS, &claim, sizeof(claim));
}

bool am_call_proved(const struct job_key *key, tag_t tag, const en_t *caller, const en_t *called,
                    const struct am_call *call)
{
    struct am_claim claim = claim_of(caller, called, call);
    struct job_key by = key_or_tag(key, tag);

    return job_proved(&by, JOB_CALLS, &claim, sizeof(claim), &call->proof);
}

void am_answer_prove(const struct job_key *key, const en_t *caller, const en_t *called,
                     const struct am_call *call, struct am_answer *answer)
{
    struct am_claim claim = answer_claim(caller, called, call, answer);

    if (key != NULL)
        answer->proof = job_prove(key, JOB_ANSWERS, &claim, sizeof(claim));
}

bool am_answer_proved(const struct job_key *key, const en_t *caller, const en_t *called,
                      const struct am_call *call, const struct am_answer *answer)
{
    struct am_claim claim = answer_claim(caller, called, call, answer);

    return key == NULL || job_proved(key, JOB_ANSWERS, &claim, sizeof(claim), &answer->proof);
}
