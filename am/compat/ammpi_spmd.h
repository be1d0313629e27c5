/*
 * The SPMD functions of am_amx.h by their names in AMMPI.
 */
#ifndef VIPAM_AMMPI_SPMD_H
#define VIPAM_AMMPI_SPMD_H

#include <ammpi.h>

#define AMMPI_SPMDIsWorker        AMX_SPMDIsWorker
#define AMMPI_SPMDNumProcs        AMX_SPMDNumProcs
#define AMMPI_SPMDMyProc          AMX_SPMDMyProc
#define AMMPI_SPMDBarrier         AMX_SPMDBarrier
#define AMMPI_SPMDAllGather       AMX_SPMDAllGather
#define AMMPI_SPMDBroadcast       AMX_SPMDBroadcast
#define AMMPI_SPMDExit            AMX_SPMDExit
#define AMMPI_SPMDSetExitCallback AMX_SPMDSetExitCallback
#define AMMPI_SPMDkillmyprocess   AMX_SPMDkillmyprocess
#define AMMPI_SPMDgetenvMaster    AMX_SPMDgetenvMaster

#endif
