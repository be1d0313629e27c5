/*
 * Extensions of this VIPL library; no other provider has them. A portable program looks them up at
 * run time or does without.
 */
#ifndef VIPL_EXT_H
#define VIPL_EXT_H

#include "vipl.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Why the last VIPL call of this thread that did not succeed failed: what was asked, which limit or
 * rule stood against it, where that is set, what to do. Text of this thread, valid until its next
 * failing call; never NULL, "" if nothing has failed yet.
 */
const char *VipxLastError(void);

/*
 * Page-aligned, zeroed memory of at least Length bytes that vipd reaches without a copy and without
 * moving pages at VipRegisterMem. VipxFreeMem: after the last VipDeregisterMem of it, with the
 * address as returned. Outcomes: VIP_SUCCESS; VIP_INVALID_PARAMETER (NULL, length 0, unknown
 * address); VIP_ERROR_RESOURCE (no memory).
 */
VIP_RETURN VipxAllocMem(IN VIP_ULONG Length, OUT VIP_PVOID *Address);
VIP_RETURN VipxFreeMem(IN VIP_PVOID Address);

#ifdef __cplusplus
}
#endif

#endif
