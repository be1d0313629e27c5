/*
 * The private data of a connection request and of its answer. Any program of the network may send a
 * request. So the two processes prove to each other that they belong to the job (job/key.h).
 */
#include "splitc/lib/hello.h"
#include "splitc/lib/rt.h"

#include <string.h>

static struct job_proof prove(enum job_role role, int caller, int called, int bulk)
{
    struct rt_claim claim = rt_claim_of(rt.cards, caller, called, bulk);

    return job_prove(&rt.cards[called].key, role, &claim, sizeof(claim));
}

static bool proved(enum job_role role, int caller, int called, int bulk,
                   const struct job_proof *shown)
{
    struct rt_claim claim = rt_claim_of(rt.cards, caller, called, bulk);

    return job_proved(&rt.cards[called].key, role, &claim, sizeof(claim), shown);
}

static bool same_address(const VIP_NET_ADDRESS *a, const VIP_NET_ADDRESS *b)
{
    return a->HostAddressLen == b->HostAddressLen && a->DiscriminatorLen == b->DiscriminatorLen &&
           memcmp(a->HostAddress, b->HostAddress,
                  (size_t)a->HostAddressLen + a->DiscriminatorLen) == 0;
}

VIPX_PRIVATE_DATA rt_hello_make(int rank, bool bulk)
{
    struct rt_hello hello = {
        .rank = sc_myproc, .bulk = bulk, .proof = prove(JOB_CALLS, sc_myproc, rank, bulk)};
    VIPX_PRIVATE_DATA data = {.Length = sizeof(hello)};

    memcpy(data.Data, &hello, sizeof(hello));
    return data;
}

bool rt_hello_read(const VIP_NET_ADDRESS *from, const VIPX_PRIVATE_DATA *data,
                   struct rt_hello *ret_hello)
{
    if (data->Length != sizeof(*ret_hello))
        return false;
    memcpy(ret_hello, data->Data, sizeof(*ret_hello));
    return ret_hello->rank >= 0 && ret_hello->rank < sc_procs && ret_hello->rank != sc_myproc &&
           same_address(from, rt.addresses[ret_hello->rank]) &&
           proved(JOB_CALLS, ret_hello->rank, sc_myproc, ret_hello->bulk, &ret_hello->proof);
}

VIPX_PRIVATE_DATA rt_hello_answer(const struct rt_hello *hello)
{
    struct job_proof proof = prove(JOB_ANSWERS, hello->rank, sc_myproc, hello->bulk);
    VIPX_PRIVATE_DATA data = {.Length = sizeof(proof)};

    memcpy(data.Data, &proof, sizeof(proof));
    return data;
}

bool rt_hello_answered(int rank, bool bulk, const VIPX_PRIVATE_DATA *data)
{
    struct job_proof shown;

    if (data->Length != sizeof(shown))
        return false;
    memcpy(&shown, data->Data, sizeof(shown));
    return proved(JOB_ANSWERS, sc_myproc, rank, bulk, &shown);
}
