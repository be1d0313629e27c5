/*
 * VIPL 1.0: the VI Provider Library, the C interface of the Virtual Interface Architecture.
 *
 * Programs written for Intel's or Giganet's header compile with this header. The descriptor's
 * members have two spellings (CS/DS and Control/Data), which name the same 64 bytes. With VIPL095
 * defined, only CS/DS exist. The header is valid C89 with GNU extensions, every later C, and C++.
 *
 * vipl_ext.h has the extensions, which other VIPL libraries do not have.
 */
#ifndef VIPL_H
#define VIPL_H

#include <stddef.h>

#if defined(__GNUC__) || defined(__clang__)
#define VIPL_EXTENSION __extension__
#else
#define VIPL_EXTENSION
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- scalar types ---------------------------------------------------------------------- */

typedef void *VIP_PVOID;
typedef int VIP_BOOLEAN;
typedef char VIP_CHAR;
typedef unsigned char VIP_UCHAR;
typedef short VIP_SHORT;
typedef unsigned short VIP_USHORT;
typedef long VIP_LONG;
typedef unsigned long VIP_ULONG;
typedef unsigned char VIP_UINT8;
typedef unsigned short VIP_UINT16;
typedef unsigned int VIP_UINT32;
#if defined(__cplusplus) && __cplusplus < 201103L && defined(__UINT64_TYPE__)
typedef __UINT64_TYPE__ VIP_UINT64; /* C++98 has no long long */
#else
VIPL_EXTENSION typedef unsigned long long VIP_UINT64;
#endif
typedef void *VIP_EVENT_HANDLE;

#define VIP_TRUE  (1)
#define VIP_FALSE (0)

/* "For ever" as a time limit in milliseconds; the 32-bit 0xFFFFFFFF means the same. */
#define VIP_INFINITE (~(VIP_ULONG)0)

#ifndef IN
#define IN
#endif
#ifndef OUT
#define OUT
#endif

/* ---- handles --------------------------------------------------------------------------- */

typedef VIP_PVOID VIP_NIC_HANDLE;        /* one opening of a NIC by a process */
typedef VIP_PVOID VIP_VI_HANDLE;         /* one VI, an endpoint */
typedef VIP_PVOID VIP_CQ_HANDLE;         /* one completion queue; in VipCreateVi NULL = no CQ */
typedef VIP_PVOID VIP_PROTECTION_HANDLE; /* one protection tag; NULL = the default domain */
typedef VIP_PVOID VIP_CONN_HANDLE;       /* one pending incoming connection request */
typedef VIP_PVOID VIP_QOS;               /* quality of service: pass 0 */
typedef VIP_UINT32 VIP_MEM_HANDLE;       /* one registered region; never 0 or 0xFFFFFFFF */

/* ---- addresses ------------------------------------------------------------------------- */

/*
 * The host address begins at offset 4 and has HostAddressLen bytes. The discriminator follows the
 * host address without a gap and has DiscriminatorLen bytes. Allocate sizeof(VIP_NET_ADDRESS) plus
 * both lengths. For RemoteAddr of VipConnectWait allocate 4 + NicAddressLen + MaxDiscriminatorLen
 * bytes (156 at most), because the client chooses its own discriminator.
 *
 * The host address depends on the medium of the NIC (doc/architecture.md, "Links"). Its length is
 * VIP_NIC_ATTRIBUTES.NicAddressLen:
 *   6   UDP over IPv4: 4 bytes of address, 2 bytes of port, in network order
 *   18  UDP over IPv6: 16 bytes of address, 2 bytes of port, in network order; no scope id
 *   6   raw Ethernet: the MAC address of the card
 *   6   loop: 00:00:00:00:00:01
 * A program that takes the length from NicAddressLen, or addresses from VipNSGetHostByName, works
 * with all these media.
 */
typedef struct _VIP_NET_ADDRESS {
    VIP_UINT16 HostAddressLen;   /* bytes */
    VIP_UINT16 DiscriminatorLen; /* bytes */
    VIP_UINT8 HostAddress[1];    /* open-ended */
} VIP_NET_ADDRESS;

/* ---- attributes ------------------------------------------------------------------------ */

/* A VI has exactly one of these bits; VIP_NIC_ATTRIBUTES has a set of them. */
typedef VIP_USHORT VIP_RELIABILITY_LEVEL;
#define VIP_SERVICE_UNRELIABLE         0x01
#define VIP_SERVICE_RELIABLE_DELIVERY  0x02
#define VIP_SERVICE_RELIABLE_RECEPTION 0x04
/* Two more bits of Giganet's header; no NIC of this library supports them. */
#define VIP_SERVICE_ACK (1 << 14)
#define VIP_SERVICE_DFC (1 << 15)
#define VIP_BASE_SERVICES                                                                          \
    (VIP_SERVICE_UNRELIABLE | VIP_SERVICE_RELIABLE_DELIVERY | VIP_SERVICE_RELIABLE_RECEPTION)

typedef struct _VIP_NIC_ATTRIBUTES {
    VIP_CHAR Name[64];
    VIP_ULONG HardwareVersion;
    VIP_ULONG ProviderVersion;
    VIP_UINT16 NicAddressLen;         /* bytes of a host address: 6, or 18 over IPv6 */
    const VIP_UINT8 *LocalNicAddress; /* address of this NIC; valid while the NIC handle is open */
    VIP_BOOLEAN ThreadSafe;
    VIP_UINT16 MaxDiscriminatorLen;
    VIP_ULONG MaxRegisterBytes;
    VIP_ULONG MaxRegisterRegions;
    VIP_ULONG MaxRegisterBlockBytes;
    VIP_ULONG MaxVI;
    VIP_ULONG MaxDescriptorsPerQueue;
    VIP_ULONG MaxSegmentsPerDesc;
    VIP_ULONG MaxCQ;
    VIP_ULONG MaxCQEntries;
    VIP_ULONG MaxTransferSize; /* bytes of the largest message */
    VIP_ULONG NativeMTU;       /* bytes of the largest packet on the network of the NIC */
    VIP_ULONG MaxPtags;
    VIP_RELIABILITY_LEVEL ReliabilityLevelSupport;
    VIP_RELIABILITY_LEVEL RDMAReadSupport;
} VIP_NIC_ATTRIBUTES;

typedef struct _VIP_VI_ATTRIBUTES {
    VIP_RELIABILITY_LEVEL ReliabilityLevel;
    VIP_ULONG MaxTransferSize;
    VIP_QOS QoS;
    VIP_PROTECTION_HANDLE Ptag;
    VIP_BOOLEAN EnableRdmaWrite; /* the remote side may write through this VI */
    VIP_BOOLEAN EnableRdmaRead;  /* the remote side may read through this VI */
} VIP_VI_ATTRIBUTES;

typedef struct _VIP_MEM_ATTRIBUTES {
    VIP_PROTECTION_HANDLE Ptag;
    VIP_BOOLEAN EnableRdmaWrite; /* the remote side may write into this region */
    VIP_BOOLEAN EnableRdmaRead;  /* the remote side may read this region */
} VIP_MEM_ATTRIBUTES;

/* ---- descriptors ----------------------------------------------------------------------- */

#define VIP_DESCRIPTOR_ALIGNMENT 64

struct _VIP_DESCRIPTOR;

typedef union _VIP_PVOID64 {
    VIP_UINT64 AddressBits;
    VIP_PVOID Address;
    struct _VIP_DESCRIPTOR *Descriptor;
} VIP_PVOID64;

typedef struct _VIP_CONTROL_SEGMENT {
    VIP_PVOID64 Next;          /* written by the library */
    VIP_MEM_HANDLE NextHandle; /* written by the library */
    VIP_UINT16 SegCount;       /* number of segments that follow, the address segment included */
    VIP_UINT16 Control;        /* VIP_CONTROL_* */
    VIP_UINT32 Reserved;       /* 0 */
    VIP_UINT32 ImmediateData;
    VIP_UINT32 Length; /* total bytes of the data segments; completed receive: bytes received */
    VIP_UINT32 Status; /* VIP_STATUS_*; the library writes it when it returns the descriptor to the
                          program or, with VIPL_STATUS_IN_MEMORY=1, when the descriptor completes */
} VIP_CONTROL_SEGMENT;

/* Remote memory of an RDMA operation; the first segment of the operation's descriptor. */
typedef struct _VIP_ADDRESS_SEGMENT {
    VIP_PVOID64 Data;
    VIP_MEM_HANDLE Handle;
    VIP_UINT32 Reserved; /* 0 */
} VIP_ADDRESS_SEGMENT;

typedef struct _VIP_DATA_SEGMENT {
    VIP_PVOID64 Data;
    VIP_MEM_HANDLE Handle;
    VIP_UINT32 Length; /* bytes */
} VIP_DATA_SEGMENT;

typedef union _VIP_DESCRIPTOR_SEGMENT {
    VIP_ADDRESS_SEGMENT Remote;
    VIP_DATA_SEGMENT Local;
} VIP_DESCRIPTOR_SEGMENT;

/*
 * SegCount gives the number of segments. The segments after DS[1] (= Data[1]) follow it in memory.
 * With VIPL095 only the spelling CS/DS exists, as in Giganet's header, so that a descriptor can be
 * initialized by position. Without VIPL095 initializers must name the members, because the two
 * spellings lie in a union.
 */
#ifdef VIPL095
typedef struct _VIP_DESCRIPTOR {
    VIP_CONTROL_SEGMENT CS;
    VIP_DESCRIPTOR_SEGMENT DS[2];
} VIP_DESCRIPTOR;
#else
VIPL_EXTENSION typedef struct _VIP_DESCRIPTOR {
    union {
        VIP_CONTROL_SEGMENT CS;
        VIP_CONTROL_SEGMENT Control;
    };
    union {
        VIP_DESCRIPTOR_SEGMENT DS[2];
        VIP_DATA_SEGMENT Data[2];
    };
} VIP_DESCRIPTOR;
#endif

#define VIP_CONTROL_OP_SENDRECV  0x0000
#define VIP_CONTROL_OP_RDMAWRITE 0x0001
#define VIP_CONTROL_OP_RDMAREAD  0x0002
#define VIP_CONTROL_OP_RESERVED  0x0003
#define VIP_CONTROL_OP_MASK      0x0003
#define VIP_CONTROL_IMMEDIATE    0x0004
#define VIP_CONTROL_QFENCE       0x0008
#define VIP_CONTROL_RESERVED     0xFFF0

#define VIP_STATUS_DONE                 0x00000001
#define VIP_STATUS_FORMAT_ERROR         0x00000002
#define VIP_STATUS_PROTECTION_ERROR     0x00000004
#define VIP_STATUS_LENGTH_ERROR         0x00000008
#define VIP_STATUS_PARTIAL_ERROR        0x00000010
#define VIP_STATUS_DESC_FLUSHED_ERROR   0x00000020
#define VIP_STATUS_TRANSPORT_ERROR      0x00000040
#define VIP_STATUS_RDMA_PROT_ERROR      0x00000080
#define VIP_STATUS_REMOTE_DESC_ERROR    0x00000100
#define VIP_STATUS_ERROR_MASK           0x000001FE
#define VIP_STATUS_OP_SEND              0x00000000
#define VIP_STATUS_OP_RECEIVE           0x00010000
#define VIP_STATUS_OP_RDMA_WRITE        0x00020000
#define VIP_STATUS_OP_REMOTE_RDMA_WRITE 0x00030000
#define VIP_STATUS_OP_RDMA_READ         0x00040000
#define VIP_STATUS_OP_MASK              0x00070000
#define VIP_STATUS_IMMEDIATE            0x00080000
#define VIP_STATUS_RESERVED             0xFFF0FE00

/* The sizes are part of the interface, because programs put bytes directly after these
 * structures. */
typedef char vipl_check_net_address[sizeof(VIP_NET_ADDRESS) == 6 ? 1 : -1];
typedef char vipl_check_pvoid64[sizeof(VIP_PVOID64) == 8 ? 1 : -1];
typedef char vipl_check_control_segment[sizeof(VIP_CONTROL_SEGMENT) == 32 ? 1 : -1];
typedef char vipl_check_address_segment[sizeof(VIP_ADDRESS_SEGMENT) == 16 ? 1 : -1];
typedef char vipl_check_data_segment[sizeof(VIP_DATA_SEGMENT) == 16 ? 1 : -1];
typedef char vipl_check_descriptor[sizeof(VIP_DESCRIPTOR) == 64 ? 1 : -1];
typedef char vipl_check_descriptor_segments[offsetof(VIP_DESCRIPTOR, DS) == 32 ? 1 : -1];

/* ---- results, states, errors ------------------------------------------------------------ */

typedef enum _VIP_RETURN {
    VIP_SUCCESS = 0,
    VIP_NOT_DONE = 1,
    VIP_INVALID_PARAMETER = 2,
    VIP_ERROR_RESOURCE = 3,
    VIP_TIMEOUT = 4,
    VIP_REJECT = 5,
    VIP_INVALID_RELIABILITY_LEVEL = 6,
    VIP_INVALID_MTU = 7,
    VIP_INVALID_QOS = 8,
    VIP_INVALID_PTAG = 9,
    VIP_INVALID_RDMAREAD = 10,
    VIP_DESCRIPTOR_ERROR = 11,
    VIP_INVALID_STATE = 12,
    VIP_ERROR_NAMESERVICE = 13,
    VIP_NO_MATCH = 14,
    VIP_NOT_REACHABLE = 15,
    VIP_ERROR_NOT_SUPPORTED = 16
} VIP_RETURN;

/* Older headers lack these two names; programs test for them with #ifndef. */
#define VIP_NOT_REACHABLE       VIP_NOT_REACHABLE
#define VIP_ERROR_NOT_SUPPORTED VIP_ERROR_NOT_SUPPORTED
/* Giganet's header has this second name for VIP_DESCRIPTOR_ERROR. */
#ifndef VIP_ERROR
#define VIP_ERROR VIP_DESCRIPTOR_ERROR
#endif

typedef enum _VIP_VI_STATE {
    VIP_STATE_IDLE = 0,
    VIP_STATE_CONNECTED = 1,
    VIP_STATE_CONNECT_PENDING = 2,
    VIP_STATE_ERROR = 3
} VIP_VI_STATE;

typedef enum _VIP_RESOURCE_CODE {
    VIP_RESOURCE_NIC = 0,
    VIP_RESOURCE_VI = 1,
    VIP_RESOURCE_CQ = 2,
    VIP_RESOURCE_DESCRIPTOR = 3
} VIP_RESOURCE_CODE;

typedef enum _VIP_ERROR_CODE {
    VIP_ERROR_POST_DESC = 0,
    VIP_ERROR_CONN_LOST = 1,
    VIP_ERROR_RECVQ_EMPTY = 2,
    VIP_ERROR_VI_OVERRUN = 3,
    VIP_ERROR_RDMAW_PROT = 4,
    VIP_ERROR_RDMAW_DATA = 5,
    VIP_ERROR_RDMAW_ABORT = 6,
    VIP_ERROR_RDMAR_PROT = 7,
    VIP_ERROR_COMP_PROT = 8,
    VIP_ERROR_RDMA_TRANSPORT = 9,
    VIP_ERROR_CATASTROPHIC = 10
} VIP_ERROR_CODE;

/* ResourceCode says which handle the error concerns; the other handles may be NULL. */
typedef struct _VIP_ERROR_DESCRIPTOR {
    VIP_NIC_HANDLE NicHandle;
    VIP_VI_HANDLE ViHandle;
    VIP_CQ_HANDLE CQHandle;
    VIP_DESCRIPTOR *DescriptorPtr;
    VIP_ULONG OpCode; /* VIP_CONTROL_OP_* of the operation concerned */
    VIP_RESOURCE_CODE ResourceCode;
    VIP_ERROR_CODE ErrorCode;
} VIP_ERROR_DESCRIPTOR;

/* ---- system management ------------------------------------------------------------------ */

#define VIP_SMI_AUTODISCOVERY ((VIP_ULONG)1)

typedef struct _VIP_AUTODISCOVERY_LIST {
    VIP_ULONG NumberOfHops;
    VIP_NET_ADDRESS **ADAddrArray;
    VIP_ULONG NumAdAddrs;
} VIP_AUTODISCOVERY_LIST;

/* ---- callbacks: they run in a thread of the library and may call any VIPL function ------- */

typedef void (*VIP_ERROR_HANDLER)(VIP_PVOID Context, VIP_ERROR_DESCRIPTOR *ErrorDesc);
typedef void (*VIP_VI_CALLBACK)(VIP_PVOID Context, VIP_NIC_HANDLE NicHandle, VIP_VI_HANDLE ViHandle,
                                VIP_DESCRIPTOR *DescriptorPtr);
typedef void (*VIP_CQ_CALLBACK)(VIP_PVOID Context, VIP_NIC_HANDLE NicHandle, VIP_VI_HANDLE ViHandle,
                                VIP_BOOLEAN RecvQueue);

/* ---- NIC -------------------------------------------------------------------------------- */

VIP_RETURN VipOpenNic(IN const VIP_CHAR *DeviceName, OUT VIP_NIC_HANDLE *NicHandle);
VIP_RETURN VipCloseNic(IN VIP_NIC_HANDLE NicHandle);
VIP_RETURN VipQueryNic(IN VIP_NIC_HANDLE NicHandle, OUT VIP_NIC_ATTRIBUTES *NicAttribs);

/* ---- VI --------------------------------------------------------------------------------- */

VIP_RETURN VipCreateVi(IN VIP_NIC_HANDLE NicHandle, IN VIP_VI_ATTRIBUTES *ViAttribs,
                       IN VIP_CQ_HANDLE SendCQHandle, IN VIP_CQ_HANDLE RecvCQHandle,
                       OUT VIP_VI_HANDLE *ViHandle);
VIP_RETURN VipDestroyVi(IN VIP_VI_HANDLE ViHandle);
VIP_RETURN VipQueryVi(IN VIP_VI_HANDLE ViHandle, OUT VIP_VI_STATE *State,
                      OUT VIP_VI_ATTRIBUTES *ViAttribs, OUT VIP_BOOLEAN *ViSendQEmpty,
                      OUT VIP_BOOLEAN *ViRecvQEmpty);
VIP_RETURN VipSetViAttributes(IN VIP_VI_HANDLE ViHandle, IN VIP_VI_ATTRIBUTES *ViAttribs);

/* ---- memory and protection tags ---------------------------------------------------------- */

VIP_RETURN VipCreatePtag(IN VIP_NIC_HANDLE NicHandle, OUT VIP_PROTECTION_HANDLE *ProtectionTag);
VIP_RETURN VipDestroyPtag(IN VIP_NIC_HANDLE NicHandle, IN VIP_PROTECTION_HANDLE ProtectionTag);
VIP_RETURN VipRegisterMem(IN VIP_NIC_HANDLE NicHandle, IN VIP_PVOID VirtualAddress,
                          IN VIP_ULONG Length, IN VIP_MEM_ATTRIBUTES *MemAttribs,
                          OUT VIP_MEM_HANDLE *MemoryHandle);
VIP_RETURN VipDeregisterMem(IN VIP_NIC_HANDLE NicHandle, IN VIP_PVOID VirtualAddress,
                            IN VIP_MEM_HANDLE MemoryHandle);
VIP_RETURN VipSetMemAttributes(IN VIP_NIC_HANDLE NicHandle, IN VIP_PVOID Address,
                               IN VIP_MEM_HANDLE MemHandle, IN VIP_MEM_ATTRIBUTES *MemAttribs);
VIP_RETURN VipQueryMem(IN VIP_NIC_HANDLE NicHandle, IN VIP_PVOID Address,
                       IN VIP_MEM_HANDLE MemHandle, OUT VIP_MEM_ATTRIBUTES *MemAttribs);

/* ---- connections: client and server ------------------------------------------------------ */

VIP_RETURN VipConnectWait(IN VIP_NIC_HANDLE NicHandle, IN VIP_NET_ADDRESS *LocalAddr,
                          IN VIP_ULONG Timeout, OUT VIP_NET_ADDRESS *RemoteAddr,
                          OUT VIP_VI_ATTRIBUTES *RemoteViAttribs, OUT VIP_CONN_HANDLE *ConnHandle);
VIP_RETURN VipConnectAccept(IN VIP_CONN_HANDLE ConnHandle, IN VIP_VI_HANDLE ViHandle);
VIP_RETURN VipConnectReject(IN VIP_CONN_HANDLE ConnHandle);
VIP_RETURN VipConnectRequest(IN VIP_VI_HANDLE ViHandle, IN VIP_NET_ADDRESS *LocalAddr,
                             IN VIP_NET_ADDRESS *RemoteAddr, IN VIP_ULONG Timeout,
                             OUT VIP_VI_ATTRIBUTES *RemoteViAttribs);
/*
 * End the connection or the attempt; afterwards the VI is Idle. At the reliable levels the call
 * first waits until the peer has processed all earlier sends and RDMA operations, or the connection
 * has ended. vipd's [reliability] linger limits this wait (1 s by default). Then posted descriptors
 * complete as flushed. Outcomes: VIP_SUCCESS in any state; VIP_INVALID_PARAMETER (ViHandle is no
 * VI, or another thread has destroyed the VI); VIP_ERROR_RESOURCE (vipd has ended). Any thread.
 */
VIP_RETURN VipDisconnect(IN VIP_VI_HANDLE ViHandle);

/* ---- connections: peer to peer ----------------------------------------------------------- */

VIP_RETURN VipConnectPeerRequest(IN VIP_VI_HANDLE ViHandle, IN VIP_NET_ADDRESS *LocalAddr,
                                 IN VIP_NET_ADDRESS *RemoteAddr, IN VIP_ULONG Timeout);
VIP_RETURN VipConnectPeerDone(IN VIP_VI_HANDLE ViHandle, OUT VIP_VI_ATTRIBUTES *RemoteViAttribs);
VIP_RETURN VipConnectPeerWait(IN VIP_VI_HANDLE ViHandle, OUT VIP_VI_ATTRIBUTES *RemoteViAttribs);

/* ---- posting and completing -------------------------------------------------------------- */

VIP_RETURN VipPostSend(IN VIP_VI_HANDLE ViHandle, IN VIP_DESCRIPTOR *DescriptorPtr,
                       IN VIP_MEM_HANDLE MemoryHandle);
VIP_RETURN VipPostRecv(IN VIP_VI_HANDLE ViHandle, IN VIP_DESCRIPTOR *DescriptorPtr,
                       IN VIP_MEM_HANDLE MemoryHandle);
VIP_RETURN VipSendDone(IN VIP_VI_HANDLE ViHandle, OUT VIP_DESCRIPTOR **DescriptorPtr);
VIP_RETURN VipRecvDone(IN VIP_VI_HANDLE ViHandle, OUT VIP_DESCRIPTOR **DescriptorPtr);
VIP_RETURN VipSendWait(IN VIP_VI_HANDLE ViHandle, IN VIP_ULONG Timeout,
                       OUT VIP_DESCRIPTOR **DescriptorPtr);
VIP_RETURN VipRecvWait(IN VIP_VI_HANDLE ViHandle, IN VIP_ULONG Timeout,
                       OUT VIP_DESCRIPTOR **DescriptorPtr);
VIP_RETURN VipSendNotify(IN VIP_VI_HANDLE ViHandle, IN VIP_PVOID Context,
                         IN void (*Handler)(VIP_PVOID Context, VIP_NIC_HANDLE NicHandle,
                                            VIP_VI_HANDLE ViHandle, VIP_DESCRIPTOR *DescriptorPtr));
VIP_RETURN VipRecvNotify(IN VIP_VI_HANDLE ViHandle, IN VIP_PVOID Context,
                         IN void (*Handler)(VIP_PVOID Context, VIP_NIC_HANDLE NicHandle,
                                            VIP_VI_HANDLE ViHandle, VIP_DESCRIPTOR *DescriptorPtr));

/* ---- completion queues -------------------------------------------------------------------- */

VIP_RETURN VipCreateCQ(IN VIP_NIC_HANDLE NicHandle, IN VIP_ULONG EntryCount,
                       OUT VIP_CQ_HANDLE *CQHandle);
VIP_RETURN VipDestroyCQ(IN VIP_CQ_HANDLE CQHandle);
VIP_RETURN VipResizeCQ(IN VIP_CQ_HANDLE CQHandle, IN VIP_ULONG EntryCount);
VIP_RETURN VipCQDone(IN VIP_CQ_HANDLE CQHandle, OUT VIP_VI_HANDLE *ViHandle,
                     OUT VIP_BOOLEAN *RecvQueue);
VIP_RETURN VipCQWait(IN VIP_CQ_HANDLE CQHandle, IN VIP_ULONG Timeout, OUT VIP_VI_HANDLE *ViHandle,
                     OUT VIP_BOOLEAN *RecvQueue);
VIP_RETURN VipCQNotify(IN VIP_CQ_HANDLE CQHandle, IN VIP_PVOID Context,
                       IN void (*Handler)(VIP_PVOID Context, VIP_NIC_HANDLE NicHandle,
                                          VIP_VI_HANDLE ViHandle, VIP_BOOLEAN RecvQueue));

/* ---- errors, management ------------------------------------------------------------------- */

VIP_RETURN VipErrorCallback(IN VIP_NIC_HANDLE NicHandle, IN VIP_PVOID Context,
                            IN void (*Handler)(VIP_PVOID Context, VIP_ERROR_DESCRIPTOR *ErrorDesc));
VIP_RETURN VipQuerySystemManagementInfo(IN VIP_NIC_HANDLE NicHandle, IN VIP_ULONG InfoType,
                                        OUT VIP_PVOID SysManInfo);

/* ---- name service ------------------------------------------------------------------------- */

VIP_RETURN VipNSInit(IN VIP_NIC_HANDLE NicHandle, IN VIP_PVOID NSInitInfo);
VIP_RETURN VipNSGetHostByName(IN VIP_NIC_HANDLE NicHandle, IN VIP_CHAR *Name,
                              OUT VIP_NET_ADDRESS *Address, IN VIP_ULONG NameIndex);
VIP_RETURN VipNSGetHostByAddr(IN VIP_NIC_HANDLE NicHandle, IN VIP_NET_ADDRESS *Address,
                              OUT VIP_CHAR *Name, IN OUT VIP_ULONG *NameLen);
VIP_RETURN VipNSShutdown(IN VIP_NIC_HANDLE NicHandle);

/* ---- Giganet: a pointer stored with a VI --------------------------------------------------- */

VIP_PVOID VipGetUserData(IN VIP_VI_HANDLE ViHandle);
void VipSetUserData(IN VIP_VI_HANDLE ViHandle, IN VIP_PVOID UserData);

#ifdef __cplusplus
}
#endif

#endif
