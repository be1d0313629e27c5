/*
 * Names of VIPL's constants, for logs and tools (spec 1.4, 1.8, 1.9).
 *
 * Owns: the name tables. Called by vipd, libvipl and the tools, from any thread. The values may
 * come from a peer or an application, so unknown values are allowed.
 */
#include "proto/status.h"

#include <stddef.h>

/* The name of a value; "?" if the table has none. */
static const char *name_of(const char *const *names, size_t count, uint32_t value)
{
    return value < count && names[value] ? names[value] : "?";
}

#define NAME_OF(names, value) name_of(names, sizeof(names) / sizeof((names)[0]), (uint32_t)(value))

const char *vip_rc_name(enum vip_rc rc)
{
    static const char *const names[] = {
        [VIP_RC_SUCCESS] = "VIP_SUCCESS",
        [VIP_RC_NOT_DONE] = "VIP_NOT_DONE",
        [VIP_RC_INVALID_PARAMETER] = "VIP_INVALID_PARAMETER",
        [VIP_RC_ERROR_RESOURCE] = "VIP_ERROR_RESOURCE",
        [VIP_RC_TIMEOUT] = "VIP_TIMEOUT",
        [VIP_RC_REJECT] = "VIP_REJECT",
        [VIP_RC_INVALID_RELIABILITY_LEVEL] = "VIP_INVALID_RELIABILITY_LEVEL",
        [VIP_RC_INVALID_MTU] = "VIP_INVALID_MTU",
        [VIP_RC_INVALID_QOS] = "VIP_INVALID_QOS",
        [VIP_RC_INVALID_PTAG] = "VIP_INVALID_PTAG",
        [VIP_RC_INVALID_RDMAREAD] = "VIP_INVALID_RDMAREAD",
        [VIP_RC_DESCRIPTOR_ERROR] = "VIP_DESCRIPTOR_ERROR",
        [VIP_RC_INVALID_STATE] = "VIP_INVALID_STATE",
        [VIP_RC_ERROR_NAMESERVICE] = "VIP_ERROR_NAMESERVICE",
        [VIP_RC_NO_MATCH] = "VIP_NO_MATCH",
        [VIP_RC_NOT_REACHABLE] = "VIP_NOT_REACHABLE",
        [VIP_RC_ERROR_NOT_SUPPORTED] = "VIP_ERROR_NOT_SUPPORTED",
    };

    return NAME_OF(names, rc);
}

const char *vip_vi_state_name(enum vip_vi_state state)
{
    static const char *const names[] = {
        [VIP_VIST_IDLE] = "VIP_STATE_IDLE",
        [VIP_VIST_CONNECTED] = "VIP_STATE_CONNECTED",
        [VIP_VIST_CONNECT_PENDING] = "VIP_STATE_CONNECT_PENDING",
        [VIP_VIST_ERROR] = "VIP_STATE_ERROR",
    };

    return NAME_OF(names, state);
}

const char *vip_error_code_name(enum vip_error_code code)
{
    static const char *const names[] = {
        [VIP_EC_POST_DESC] = "VIP_ERROR_POST_DESC",
        [VIP_EC_CONN_LOST] = "VIP_ERROR_CONN_LOST",
        [VIP_EC_RECVQ_EMPTY] = "VIP_ERROR_RECVQ_EMPTY",
        [VIP_EC_VI_OVERRUN] = "VIP_ERROR_VI_OVERRUN",
        [VIP_EC_RDMAW_PROT] = "VIP_ERROR_RDMAW_PROT",
        [VIP_EC_RDMAW_DATA] = "VIP_ERROR_RDMAW_DATA",
        [VIP_EC_RDMAW_ABORT] = "VIP_ERROR_RDMAW_ABORT",
        [VIP_EC_RDMAR_PROT] = "VIP_ERROR_RDMAR_PROT",
        [VIP_EC_COMP_PROT] = "VIP_ERROR_COMP_PROT",
        [VIP_EC_RDMA_TRANSPORT] = "VIP_ERROR_RDMA_TRANSPORT",
        [VIP_EC_CATASTROPHIC] = "VIP_ERROR_CATASTROPHIC",
    };

    return NAME_OF(names, code);
}

const char *vip_level_name(uint32_t level)
{
    static const char *const names[] = {
        [VIP_LVL_UNRELIABLE] = "VIP_SERVICE_UNRELIABLE",
        [VIP_LVL_DELIVERY] = "VIP_SERVICE_RELIABLE_DELIVERY",
        [VIP_LVL_RECEPTION] = "VIP_SERVICE_RELIABLE_RECEPTION",
    };

    return NAME_OF(names, level);
}
