/*
 * Records the return codes of VIPL calls (record.h).
 */
#include "record.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* All VIPL functions. Each X has a function's name, parameters and arguments. */
#define FUNCTIONS(X)                                                                               \
    X(VipOpenNic, (const VIP_CHAR *a, VIP_NIC_HANDLE *b), (a, b))                                  \
    X(VipCloseNic, (VIP_NIC_HANDLE a), (a))                                                        \
    X(VipQueryNic, (VIP_NIC_HANDLE a, VIP_NIC_ATTRIBUTES * b), (a, b))                             \
    X(VipCreateVi,                                                                                 \
      (VIP_NIC_HANDLE a, VIP_VI_ATTRIBUTES * b, VIP_CQ_HANDLE c, VIP_CQ_HANDLE d,                  \
       VIP_VI_HANDLE * e),                                                                         \
      (a, b, c, d, e))                                                                             \
    X(VipDestroyVi, (VIP_VI_HANDLE a), (a))                                                        \
    X(VipQueryVi,                                                                                  \
      (VIP_VI_HANDLE a, VIP_VI_STATE * b, VIP_VI_ATTRIBUTES * c, VIP_BOOLEAN * d,                  \
       VIP_BOOLEAN * e),                                                                           \
      (a, b, c, d, e))                                                                             \
    X(VipSetViAttributes, (VIP_VI_HANDLE a, VIP_VI_ATTRIBUTES * b), (a, b))                        \
    X(VipCreatePtag, (VIP_NIC_HANDLE a, VIP_PROTECTION_HANDLE * b), (a, b))                        \
    X(VipDestroyPtag, (VIP_NIC_HANDLE a, VIP_PROTECTION_HANDLE b), (a, b))                         \
    X(VipRegisterMem,                                                                              \
      (VIP_NIC_HANDLE a, VIP_PVOID b, VIP_ULONG c, VIP_MEM_ATTRIBUTES * d, VIP_MEM_HANDLE * e),    \
      (a, b, c, d, e))                                                                             \
    X(VipDeregisterMem, (VIP_NIC_HANDLE a, VIP_PVOID b, VIP_MEM_HANDLE c), (a, b, c))              \
    X(VipSetMemAttributes,                                                                         \
      (VIP_NIC_HANDLE a, VIP_PVOID b, VIP_MEM_HANDLE c, VIP_MEM_ATTRIBUTES * d), (a, b, c, d))     \
    X(VipQueryMem, (VIP_NIC_HANDLE a, VIP_PVOID b, VIP_MEM_HANDLE c, VIP_MEM_ATTRIBUTES * d),      \
      (a, b, c, d))                                                                                \
    X(VipConnectWait,                                                                              \
      (VIP_NIC_HANDLE a, VIP_NET_ADDRESS * b, VIP_ULONG c, VIP_NET_ADDRESS * d,                    \
       VIP_VI_ATTRIBUTES * e, VIP_CONN_HANDLE * f),                                                \
      (a, b, c, d, e, f))                                                                          \
    X(VipConnectAccept, (VIP_CONN_HANDLE a, VIP_VI_HANDLE b), (a, b))                              \
    X(VipConnectReject, (VIP_CONN_HANDLE a), (a))                                                  \
    X(VipConnectRequest,                                                                           \
      (VIP_VI_HANDLE a, VIP_NET_ADDRESS * b, VIP_NET_ADDRESS * c, VIP_ULONG d,                     \
       VIP_VI_ATTRIBUTES * e),                                                                     \
      (a, b, c, d, e))                                                                             \
    X(VipDisconnect, (VIP_VI_HANDLE a), (a))                                                       \
    X(VipConnectPeerRequest,                                                                       \
      (VIP_VI_HANDLE a, VIP_NET_ADDRESS * b, VIP_NET_ADDRESS * c, VIP_ULONG d), (a, b, c, d))      \
    X(VipConnectPeerDone, (VIP_VI_HANDLE a, VIP_VI_ATTRIBUTES * b), (a, b))                        \
    X(VipConnectPeerWait, (VIP_VI_HANDLE a, VIP_VI_ATTRIBUTES * b), (a, b))                        \
    X(VipPostSend, (VIP_VI_HANDLE a, VIP_DESCRIPTOR * b, VIP_MEM_HANDLE c), (a, b, c))             \
    X(VipPostRecv, (VIP_VI_HANDLE a, VIP_DESCRIPTOR * b, VIP_MEM_HANDLE c), (a, b, c))             \
    X(VipSendDone, (VIP_VI_HANDLE a, VIP_DESCRIPTOR * *b), (a, b))                                 \
    X(VipRecvDone, (VIP_VI_HANDLE a, VIP_DESCRIPTOR * *b), (a, b))                                 \
    X(VipSendWait, (VIP_VI_HANDLE a, VIP_ULONG b, VIP_DESCRIPTOR * *c), (a, b, c))                 \
    X(VipRecvWait, (VIP_VI_HANDLE a, VIP_ULONG b, VIP_DESCRIPTOR * *c), (a, b, c))                 \
    X(VipSendNotify, (VIP_VI_HANDLE a, VIP_PVOID b, VIP_VI_CALLBACK c), (a, b, c))                 \
    X(VipRecvNotify, (VIP_VI_HANDLE a, VIP_PVOID b, VIP_VI_CALLBACK c), (a, b, c))                 \
    X(VipCreateCQ, (VIP_NIC_HANDLE a, VIP_ULONG b, VIP_CQ_HANDLE * c), (a, b, c))                  \
    X(VipDestroyCQ, (VIP_CQ_HANDLE a), (a))                                                        \
    X(VipResizeCQ, (VIP_CQ_HANDLE a, VIP_ULONG b), (a, b))                                         \
    X(VipCQDone, (VIP_CQ_HANDLE a, VIP_VI_HANDLE * b, VIP_BOOLEAN * c), (a, b, c))                 \
    X(VipCQWait, (VIP_CQ_HANDLE a, VIP_ULONG b, VIP_VI_HANDLE * c, VIP_BOOLEAN * d), (a, b, c, d)) \
    X(VipCQNotify, (VIP_CQ_HANDLE a, VIP_PVOID b, VIP_CQ_CALLBACK c), (a, b, c))                   \
    X(VipErrorCallback, (VIP_NIC_HANDLE a, VIP_PVOID b, VIP_ERROR_HANDLER c), (a, b, c))           \
    X(VipQuerySystemManagementInfo, (VIP_NIC_HANDLE a, VIP_ULONG b, VIP_PVOID c), (a, b, c))       \
    X(VipNSInit, (VIP_NIC_HANDLE a, VIP_PVOID b), (a, b))                                          \
    X(VipNSGetHostByName, (VIP_NIC_HANDLE a, VIP_CHAR * b, VIP_NET_ADDRESS * c, VIP_ULONG d),      \
      (a, b, c, d))                                                                                \
    X(VipNSGetHostByAddr, (VIP_NIC_HANDLE a, VIP_NET_ADDRESS * b, VIP_CHAR * c, VIP_ULONG * d),    \
      (a, b, c, d))                                                                                \
    X(VipNSShutdown, (VIP_NIC_HANDLE a), (a))

#define NUMBER(function, parameters, arguments) F_##function,
enum function { FUNCTIONS(NUMBER) FUNCTION_COUNT };

#define NAME(function, parameters, arguments) #function,
static const char *const function_names[] = {FUNCTIONS(NAME)};

static const char *const code_names[] = {"VIP_SUCCESS",
                                         "VIP_NOT_DONE",
                                         "VIP_INVALID_PARAMETER",
                                         "VIP_ERROR_RESOURCE",
                                         "VIP_TIMEOUT",
                                         "VIP_REJECT",
                                         "VIP_INVALID_RELIABILITY_LEVEL",
                                         "VIP_INVALID_MTU",
                                         "VIP_INVALID_QOS",
                                         "VIP_INVALID_PTAG",
                                         "VIP_INVALID_RDMAREAD",
                                         "VIP_DESCRIPTOR_ERROR",
                                         "VIP_INVALID_STATE",
                                         "VIP_ERROR_NAMESERVICE",
                                         "VIP_NO_MATCH",
                                         "VIP_NOT_REACHABLE",
                                         "VIP_ERROR_NOT_SUPPORTED"};
#define CODE_COUNT (sizeof(code_names) / sizeof(code_names[0]))

static const char *const error_names[] = {
    "VIP_ERROR_POST_DESC",      "VIP_ERROR_CONN_LOST",   "VIP_ERROR_RECVQ_EMPTY",
    "VIP_ERROR_VI_OVERRUN",     "VIP_ERROR_RDMAW_PROT",  "VIP_ERROR_RDMAW_DATA",
    "VIP_ERROR_RDMAW_ABORT",    "VIP_ERROR_RDMAR_PROT",  "VIP_ERROR_COMP_PROT",
    "VIP_ERROR_RDMA_TRANSPORT", "VIP_ERROR_CATASTROPHIC"};
#define ERROR_COUNT (sizeof(error_names) / sizeof(error_names[0]))

static const char *const resource_names[] = {"NIC", "VI", "CQ", "descriptor"};
#define RESOURCE_COUNT (sizeof(resource_names) / sizeof(resource_names[0]))

static const char *const status_names[] = {
    "VIP_STATUS_FORMAT_ERROR",    "VIP_STATUS_PROTECTION_ERROR",   "VIP_STATUS_LENGTH_ERROR",
    "VIP_STATUS_PARTIAL_ERROR",   "VIP_STATUS_DESC_FLUSHED_ERROR", "VIP_STATUS_TRANSPORT_ERROR",
    "VIP_STATUS_RDMA_PROT_ERROR", "VIP_STATUS_REMOTE_DESC_ERROR"};
#define STATUS_COUNT (sizeof(status_names) / sizeof(status_names[0]))

/* Of the running test: the expected return codes (codes), all return codes (came), and the expected
 * errors and status bits. Atomic, because several threads write them. */
static bool codes[FUNCTION_COUNT + 1][CODE_COUNT];
static bool came[FUNCTION_COUNT][CODE_COUNT];
static bool errors[ERROR_COUNT][RESOURCE_COUNT];
static bool statuses[2][STATUS_COUNT]; /* index 0: send queue, 1: receive queue */

static _Thread_local enum function last_function = FUNCTION_COUNT;
static _Thread_local VIP_RETURN last_code;

static void mark(bool *at)
{
    __atomic_store_n(at, true, __ATOMIC_RELAXED);
}

static VIP_RETURN called(enum function function, VIP_RETURN code)
{
    last_function = function;
    last_code = code;
    if ((unsigned)code < CODE_COUNT)
        mark(&came[function][code]);
    return code;
}

#define WRAP(function, parameters, arguments)                                                      \
    VIP_RETURN __real_##function parameters;                                                       \
    VIP_RETURN __wrap_##function parameters;                                                       \
    VIP_RETURN __wrap_##function parameters                                                        \
    {                                                                                              \
        return called(F_##function, __real_##function arguments);                                  \
    }
FUNCTIONS(WRAP)

void conf_expected(VIP_RETURN code)
{
    if (code == last_code && (unsigned)code < CODE_COUNT)
        mark(&codes[last_function][code]);
}

void conf_expect_nothing(void)
{
    last_function = FUNCTION_COUNT;
}

void conf_expected_error(VIP_ERROR_CODE code, VIP_RESOURCE_CODE resource)
{
    if ((unsigned)code < ERROR_COUNT && (unsigned)resource < RESOURCE_COUNT)
        mark(&errors[code][resource]);
}

void conf_expected_status(int recv, VIP_UINT32 status)
{
    /* Bit 1 is the first of the error bits. */
    for (unsigned i = 0; i < STATUS_COUNT; i++)
        if ((status & (2u << i)) != 0)
            mark(&statuses[recv != 0][i]);
}

void conf_record_begin(void)
{
    memset(codes, 0, sizeof(codes));
    memset(came, 0, sizeof(came));
    memset(errors, 0, sizeof(errors));
    memset(statuses, 0, sizeof(statuses));
}

void conf_record_end(const char *program, const char *test)
{
    const char *path = getenv("VIP_CONF_CODES");
    FILE *file = path != NULL ? fopen(path, "a") : NULL;

    if (file == NULL)
        return;
    fprintf(file, "passed\t-\t%s:%s\n", program, test);
    for (unsigned i = 0; i < FUNCTION_COUNT; i++)
        for (unsigned k = 0; k < CODE_COUNT; k++) {
            if (codes[i][k])
                fprintf(file, "%s\t%s\t%s:%s\n", function_names[i], code_names[k], program, test);
            if (came[i][k])
                fprintf(file, "came\t%s\t%s:%s\t%s\n", function_names[i], program, test,
                        code_names[k]);
        }
    for (unsigned i = 0; i < ERROR_COUNT; i++)
        for (unsigned k = 0; k < RESOURCE_COUNT; k++)
            if (errors[i][k])
                fprintf(file, "(callback,%s)\t%s\t%s:%s\n", resource_names[k], error_names[i],
                        program, test);
    for (unsigned i = 0; i < 2; i++)
        for (unsigned k = 0; k < STATUS_COUNT; k++)
            if (statuses[i][k])
                fprintf(file, "(%s,queue)\t%s\t%s:%s\n", i ? "receive" : "send", status_names[k],
                        program, test);
    fclose(file);
}
