/*
 * The limits that are common to several parts: wire, shared-memory ABI, vipd, libvipl.
 *
 * Does not own: limits that an administrator sets (vipd/config.h), constants of one module.
 */
#ifndef VIP_PROTO_LIMITS_H
#define VIP_PROTO_LIMITS_H

/* VIs of one opened NIC handle. (VI indexes have 16 bits on the wire and in shared memory.) */
#define VIP_VI_MAX 4096

/* Descriptors posted on one work queue and not completed (spec 3.13 asks for 1024). */
#define VIP_DESC_PER_QUEUE_MAX 1024

/* Segments of one descriptor besides its control segment; the VI Architecture allows 252. */
#define VIP_SEGS_PER_DESC_MAX 252

/* Completion queues of one opened NIC handle. */
#define VIP_CQ_MAX 1024

/* Largest EntryCount for VipCreateCQ. */
#define VIP_CQ_ENTRIES_MAX 65536

/* Entries of a completion queue that fit in its shared ring; further entries wait inside vipd. */
#define VIP_CQ_RING_SLOTS 16384

/* Slots of the submission ring of a session; the ring's 256 KiB fit in a second-level cache. */
#define VIP_SQ_SLOTS 4096

/* Bytes of one message, RDMA Write or RDMA Read (MaxTransferSize). */
#define VIP_TRANSFER_BYTES_MAX (4u * 1024 * 1024)

/* Bytes of the message of an RDMA Write; with its frame head it fits in every packet. */
#define VIP_MESSAGE_BYTES_MAX 256

/* Bytes of a discriminator (MaxDiscriminatorLen); libfabric puts connection data into it. */
#define VIP_DISCRIMINATOR_BYTES_MAX 128

/* Bytes of a host address: 6 for a MAC or for IPv4 with port, 18 for IPv6 with port. */
#define VIP_HOST_ADDR_BYTES_MAX 24

/* Protection tags of one opened NIC handle. */
#define VIP_PTAG_MAX 4096

/* Registered regions of one opened NIC handle; a memory handle has an index and a generation. */
#define VIP_REGION_MAX 65536

/* Bytes of one registered region. */
#define VIP_REGION_BYTES_MAX (1ull << 36)

/* Bytes of the sparse arena for adopted pages; unused parts cost address space only. */
#define VIP_ARENA_BYTES (1ull << 38)

/* Name of a NIC with its terminating zero (VIP_NIC_ATTRIBUTES.Name). */
#define VIP_NIC_NAME_BYTES 64

/* Largest packet on any link, headers included: a UDP datagram's payload over IPv4. */
#define VIP_PACKET_BYTES_MAX 65507

/* Smallest path MTU of a link; a header, an acknowledgement and a frame head must fit in it. */
#define VIP_PACKET_BYTES_MIN 512

/* Largest control message on the UNIX socket; it fits in the kernel's default socket buffer. */
#define VIP_CONTROL_BYTES_MAX 65536

/* File descriptors in one control message. A message with more descriptors than its type allows
 * ends the session. */
#define VIP_CONTROL_FDS_MAX 4

#endif
