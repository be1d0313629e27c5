/*
 * Extensions of this VIPL library; other VIPL libraries do not have them. A portable program looks
 * these functions up at run time (dlsym) or does not use them.
 */
#ifndef VIPL_EXT_H
#define VIPL_EXT_H

#include "vipl.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The reason why the last failed VIPL call of this thread failed: the request, the limit or rule
 * that forbids it, where this limit is set, and what to do. The text belongs to this thread and is
 * valid until the thread's next failing call. Never NULL; "" if no call has failed yet. In a
 * handler of VipErrorCallback it is the reported error's reason, until a call in the handler fails.
 */
const char *VipxLastError(void);

/*
 * VipxAllocMem returns page-aligned, zeroed memory of at least Length bytes. vipd reaches it
 * without a copy, and VipRegisterMem moves no pages. The memory has huge pages if the system has
 * transparent huge pages for shared memory. Call VipxFreeMem with the returned address, after the
 * last VipDeregisterMem of the memory. Outcomes: VIP_SUCCESS; VIP_INVALID_PARAMETER (Address is
 * NULL or unknown, Length is 0); VIP_ERROR_RESOURCE (no memory).
 */
VIP_RETURN VipxAllocMem(IN VIP_ULONG Length, OUT VIP_PVOID *Address);
VIP_RETURN VipxFreeMem(IN VIP_PVOID Address);

/*
 * Check that a registered region still reaches the memory that is now mapped at its addresses. A
 * layer that keeps registrations for later (an MPI library does) calls this before it uses a
 * registration again. Meanwhile the program may have unmapped the memory, and the C library may
 * have mapped other pages there. Data would then go to and come from pages that the program does
 * not see. A call takes about a microsecond with Linux 6.11 or newer, and more with older kernels.
 * Outcomes: VIP_SUCCESS (the region reaches that memory); VIP_INVALID_STATE (it does not:
 * deregister the region); VIP_INVALID_PARAMETER (no region of this NIC handle has this handle and
 * starts at VirtualAddress). Any thread.
 */
VIP_RETURN VipxCheckMem(IN VIP_NIC_HANDLE NicHandle, IN VIP_PVOID VirtualAddress,
                        IN VIP_MEM_HANDLE MemoryHandle);

/*
 * A file descriptor for epoll, poll or libev that is readable while a completion queue has entries.
 * The file descriptor becomes readable with the first entry and stays readable (level-triggered)
 * until VipCQDone or VipCQWait finds the queue empty. So this loop never misses an entry:
 *
 *     for (;;) {
 *         epoll_wait(...);
 *         while (VipCQDone(cq, &vi, &recv) == VIP_SUCCESS)
 *             ...
 *     }
 *
 * Sometimes the file descriptor is readable although the queue is empty. Edge-triggered use works
 * as well if every wake-up takes entries until VIP_NOT_DONE. A queue with a file descriptor costs
 * one system call in vipd when the queue becomes non-empty, and one in this process when it becomes
 * empty. Other queues have no such cost.
 *
 * Only wait for the file descriptor: do not read or close it. It is valid until its queue is
 * destroyed or its NIC handle is closed. Every call for one queue returns the same file descriptor.
 * Outcomes: VIP_SUCCESS; VIP_INVALID_PARAMETER (CQHandle is not a queue, Fd is NULL);
 * VIP_ERROR_RESOURCE (64 queues of this NIC handle have a file descriptor, or vipd has no more file
 * descriptors).
 */
VIP_RETURN VipxCQGetFd(IN VIP_CQ_HANDLE CQHandle, OUT int *Fd);

/* ---- data ---------------------------------------------------------------------------------- */

/*
 * VipxPostSendImm64 and VipxPostWriteMessage work only if the vipds of both ends support them. The
 * two vipds tell each other what they support when they set up the connection. If the other vipd
 * does not support a call, the call returns VIP_ERROR_NOT_SUPPORTED and posts nothing.
 */

/*
 * As VipPostSend, for a send or RDMA Write with 64 bits of immediate data. Immediate replaces the
 * descriptor's ImmediateData, and VIP_CONTROL_IMMEDIATE need not be set; the call changes neither
 * ImmediateData nor Control. The receiver sees VIP_STATUS_IMMEDIATE, the lower 32 bits in
 * ImmediateData, and all 64 bits with VipxGetImmediate64. Outcomes: those of VipPostSend;
 * VIP_ERROR_NOT_SUPPORTED. Any thread.
 */
VIP_RETURN VipxPostSendImm64(IN VIP_VI_HANDLE ViHandle, IN VIP_DESCRIPTOR *DescriptorPtr,
                             IN VIP_MEM_HANDLE MemoryHandle, IN VIP_UINT64 Immediate);

/*
 * Get the immediate data of a receive descriptor that VipRecvDone or VipRecvWait has returned. The
 * upper half is 0 if the data was sent with VipPostSend. Next of the descriptor holds the upper
 * half, so call this function before you use Next or post the descriptor again. Outcomes:
 * VIP_SUCCESS; VIP_DESCRIPTOR_ERROR (not completed, or no immediate data); VIP_INVALID_PARAMETER
 * (NULL). Any thread.
 */
VIP_RETURN VipxGetImmediate64(IN const VIP_DESCRIPTOR *Descriptor, OUT VIP_UINT64 *Immediate);

/*
 * RDMA Write with message: as VipPostSend of an RDMA Write (with data or without), but also
 * consumes a posted receive at the target. After all data of the write is in the target's memory,
 * Bytes bytes (1 to VIPX_MESSAGE_MAX) from Message go into that receive's segments. The call copies
 * the message, so the message's memory need not be registered.
 *
 * At the target the receive completes with VIP_STATUS_OP_REMOTE_RDMA_WRITE and Length = Bytes. With
 * VIP_CONTROL_IMMEDIATE, immediate data arrives, too. The target has the same errors as for a send:
 * no receive is posted, the receive is too short (VIP_STATUS_LENGTH_ERROR), or its memory is not
 * accessible. If the write is denied, the receive completes with VIP_STATUS_RDMA_PROT_ERROR and
 * without the message. At the sender, Length, MaxTransferSize and the completion concern only the
 * write, not the message.
 *
 * Outcomes: those of VipPostSend; VIP_ERROR_NOT_SUPPORTED; VIP_INVALID_PARAMETER (Message, Bytes).
 * A descriptor that is not an RDMA Write completes with VIP_STATUS_FORMAT_ERROR. Any thread.
 */
#define VIPX_MESSAGE_MAX 256
VIP_RETURN VipxPostWriteMessage(IN VIP_VI_HANDLE ViHandle, IN VIP_DESCRIPTOR *DescriptorPtr,
                                IN VIP_MEM_HANDLE MemoryHandle, IN VIP_PVOID Message,
                                IN VIP_ULONG Bytes);

/* ---- connections --------------------------------------------------------------------------- */

/* Private data: bytes that the two programs send each other while they connect. */
#define VIPX_PRIVATE_DATA_MAX 64
typedef struct {
    VIP_ULONG Length; /* 0 to VIPX_PRIVATE_DATA_MAX */
    unsigned char Data[VIPX_PRIVATE_DATA_MAX];
} VIPX_PRIVATE_DATA;

/*
 * A listener accepts connection requests for one discriminator, from VipxListen to VipxListenClose,
 * even while no thread waits. It holds up to Backlog requests until the program takes and answers
 * these. A Backlog of 0 means VIPX_BACKLOG_DEFAULT; a Backlog above VIPX_BACKLOG_MAX means
 * VIPX_BACKLOG_MAX. Further requests wait at their clients up to the client's time limit; they
 * never fail with VIP_NO_MATCH. Several listeners and VipConnectWaits on one discriminator share
 * the requests; each request goes to one of them.
 */
typedef VIP_PVOID VIPX_LISTENER;
#define VIPX_BACKLOG_DEFAULT 128
#define VIPX_BACKLOG_MAX     1024

/*
 * Open a listener. Only the discriminator of LocalAddr counts. Outcomes: VIP_SUCCESS;
 * VIP_INVALID_PARAMETER (handle, NULL, lengths of the address); VIP_ERROR_RESOURCE (the NIC
 * handle has 256 listeners or 4096 waits and unanswered requests; no memory; no file descriptor;
 * vipd has ended). Any thread.
 */
VIP_RETURN VipxListen(IN VIP_NIC_HANDLE NicHandle, IN VIP_NET_ADDRESS *LocalAddr,
                      IN VIP_ULONG Backlog, OUT VIPX_LISTENER *Listener);

/*
 * A file descriptor for poll, epoll or libev. It is readable while a request waits in the listener,
 * and after vipd has ended. Only wait for the file descriptor: do not read, write or close
 * it. It is valid until VipxListenClose. Outcomes: VIP_SUCCESS; VIP_INVALID_PARAMETER. Any thread.
 */
VIP_RETURN VipxListenGetFd(IN VIPX_LISTENER Listener, OUT int *Fd);

/*
 * Take the oldest request, as VipConnectWait does, but with Timeout 0 do not wait. RemoteAddr,
 * RemoteViAttribs and Data (the client's private data) may be NULL. ConnHandle is for
 * VipConnectAccept, VipConnectReject or their Vipx forms. Outcomes: VIP_SUCCESS; VIP_TIMEOUT;
 * VIP_INVALID_PARAMETER (NULL, not an open listener, closed during the wait); VIP_ERROR_RESOURCE
 * (no memory, vipd has ended, the NIC handle is being closed). Any number of threads at once.
 */
VIP_RETURN VipxListenWait(IN VIPX_LISTENER Listener, IN VIP_ULONG Timeout,
                          OUT VIP_NET_ADDRESS *RemoteAddr, OUT VIP_VI_ATTRIBUTES *RemoteViAttribs,
                          OUT VIPX_PRIVATE_DATA *Data, OUT VIP_CONN_HANDLE *ConnHandle);

/*
 * End a listener and reject the requests that the program has not taken (VIP_REJECT at the client).
 * Connection handles that the program got from the listener stay valid; threads in VipxListenWait
 * return. VipCloseNic does the same. Outcomes: VIP_SUCCESS; VIP_INVALID_PARAMETER. Any thread.
 */
VIP_RETURN VipxListenClose(IN VIPX_LISTENER Listener);

/*
 * VipConnectAccept and VipConnectReject with private data for the client. Data NULL: no
 * private data. Outcomes: those of VipConnectAccept and VipConnectReject; VIP_INVALID_PARAMETER if
 * Data->Length is too large (ConnHandle stays valid then).
 */
VIP_RETURN VipxConnectAccept(IN VIP_CONN_HANDLE ConnHandle, IN VIP_VI_HANDLE ViHandle,
                             IN const VIPX_PRIVATE_DATA *Data);
VIP_RETURN VipxConnectReject(IN VIP_CONN_HANDLE ConnHandle, IN const VIPX_PRIVATE_DATA *Data);

/*
 * The user of the program that asks to connect. *Uid comes from this host's kernel, not from a
 * packet. The client chooses the discriminator in RemoteAddr and the private data, but it cannot
 * choose *Uid. Outcomes: VIP_SUCCESS; VIP_ERROR_NOT_SUPPORTED (the client is on another host, so
 * its user is unknown); VIP_INVALID_PARAMETER (NULL, not a pending request any more);
 * VIP_ERROR_RESOURCE (vipd has ended). ConnHandle stays valid. Any thread.
 */
VIP_RETURN VipxConnectUser(IN VIP_CONN_HANDLE ConnHandle, OUT VIP_UINT32 *Uid);

/*
 * Start a VipConnectRequest (with VIPX_CONNECT_PEER: a VipConnectPeerRequest) and return at once.
 * The VI is then Connect Pending. Data is private data for the other program; NULL: none. Timeout
 * counts from now; VIP_INFINITE is possible, 0 is not. VipDisconnect cancels the attempt. This call
 * discards an earlier attempt's result that was not fetched. Outcomes: VIP_SUCCESS (under way);
 * VIP_INVALID_PARAMETER (handle, addresses, Timeout 0, Flags, Data->Length); VIP_INVALID_STATE (the
 * VI is not Idle, or another thread connects it); VIP_ERROR_RESOURCE. Any thread.
 */
#define VIPX_CONNECT_PEER 0x1
VIP_RETURN VipxConnectStart(IN VIP_VI_HANDLE ViHandle, IN VIP_NET_ADDRESS *LocalAddr,
                            IN VIP_NET_ADDRESS *RemoteAddr, IN VIP_ULONG Timeout,
                            IN VIP_ULONG Flags, IN const VIPX_PRIVATE_DATA *Data);

/*
 * Fetch the result of VipxConnectStart or VipConnectPeerRequest without waiting. A result can be
 * fetched once. RemoteViAttribs is written with VIP_SUCCESS. Data is written with every result: the
 * private data of the other program's accept, reject or peer request. RemoteViAttribs and Data may
 * be NULL. Outcomes: VIP_NOT_DONE (still under way); what VipConnectRequest or VipConnectPeerWait
 * returns; VIP_INVALID_STATE (no attempt is under way: never started, fetched already, or cancelled
 * by VipDisconnect); VIP_INVALID_PARAMETER; VIP_ERROR_RESOURCE (vipd has ended). Any thread.
 */
VIP_RETURN VipxConnectFinish(IN VIP_VI_HANDLE ViHandle, OUT VIP_VI_ATTRIBUTES *RemoteViAttribs,
                             OUT VIPX_PRIVATE_DATA *Data);

/*
 * A file descriptor for poll, epoll or libev. It is readable from the end of an attempt of
 * VipxConnectStart or VipConnectPeerRequest until its result is fetched, and when vipd ends during
 * the attempt. Only wait for the file descriptor. All attempts of the VI share this one, which
 * is valid until VipDestroyVi. Outcomes: VIP_SUCCESS; VIP_INVALID_PARAMETER; VIP_ERROR_RESOURCE (no
 * file descriptor). Any thread.
 */
VIP_RETURN VipxConnectGetFd(IN VIP_VI_HANDLE ViHandle, OUT int *Fd);

/*
 * A random number. Its 8 bytes in memory (little-endian) are a discriminator that is not in use on
 * this NIC. Other programs and hosts cannot guess the number. Outcomes: VIP_SUCCESS;
 * VIP_INVALID_PARAMETER; VIP_ERROR_RESOURCE (vipd has ended). Any thread.
 */
VIP_RETURN VipxNewDiscriminator(IN VIP_NIC_HANDLE NicHandle, OUT VIP_UINT64 *Number);

#ifdef __cplusplus
}
#endif

#endif
