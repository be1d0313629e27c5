/*
 * The SPMD functions of am_amx.h by their names in AMUDP.
 */
#ifndef VIPAM_AMUDP_SPMD_H
#define VIPAM_AMUDP_SPMD_H

#include <amudp.h>

#define AMUDP_SPMDIsWorker        AMX_SPMDIsWorker
#define AMUDP_SPMDNumProcs        AMX_SPMDNumProcs
#define AMUDP_SPMDMyProc          AMX_SPMDMyProc
#define AMUDP_SPMDBarrier         AMX_SPMDBarrier
#define AMUDP_SPMDAllGather       AMX_SPMDAllGather
#define AMUDP_SPMDBroadcast       AMX_SPMDBroadcast
#define AMUDP_SPMDExit            AMX_SPMDExit
#define AMUDP_SPMDSetExitCallback AMX_SPMDSetExitCallback
#define AMUDP_SPMDkillmyprocess   AMX_SPMDkillmyprocess
#define AMUDP_SPMDgetenvMaster    AMX_SPMDgetenvMaster

#endif
