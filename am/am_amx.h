/*
 * The AMX extensions to Active Messages II: the calls of programs written for AMUDP or AMMPI. The
 * forwarding headers amudp.h, amudp_spmd.h, ammpi.h and ammpi_spmd.h beside this one let such
 * programs compile unchanged:
 *
 *     cc -DAMMPI prog.c $(pkg-config --cflags --libs vipam)      amrun -n 4 ./a.out
 *
 * Functions return AM_OK or AM_ERR_... like the functions of am.h, unless said otherwise.
 */
#ifndef VIPAM_AMX_H
#define VIPAM_AMX_H

#include <am.h>
#include <am_stats.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef AMX_H_STRINGS
#include <stdio.h>
#include <stdlib.h>
#include <inttypes.h>
#endif

typedef amvia_handler_fn_t amx_handler_fn_t;

typedef enum { amx_Short = 0, amx_Medium = 1, amx_Long = 2, amx_NumCategories = 3 } amx_category_t;

/* If not 0, every call that fails prints the reason on stderr. */
extern int AMX_VerboseErrors;
/* Has no effect: this library prints only errors. */
extern int AMX_SilentMode;
/* The word in front of the messages of AMX_FatalErr. */
extern const char *AMX_ProcessLabel;
/* AMX_SPMDExit ends the process with this function. It is _exit unless the program sets another
 * function. */
extern void (*AMX_SPMDkillmyprocess)(int);

/* Print a message, formatted as by printf, and a newline; then end the job. */
void AMX_FatalErr(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* ---- a job of processes -------------------------------------------------------------------- */

/*
 * Join the job that mpirun, mpiexec, srun or amrun has started. Without such a launcher the job has
 * one process. The call runs AM_Init, makes one AM_SEQ bundle and one endpoint with a random tag,
 * and maps all endpoints of the job by rank. networkdepth: largest number of unanswered requests to
 * one endpoint; 0: the default. Collective. AM_ERR_RESOURCE: no reply of the launcher, or no vipd.
 */
int AMX_SPMDStartup(int *argc, char ***argv, int networkdepth, uint64_t *networkpid, eb_t *bundle,
                    ep_t *endpoint);
int AMX_SPMDIsWorker(char **argv); /* always 1 */
int AMX_SPMDNumProcs(void);        /* 0 before AMX_SPMDStartup */
int AMX_SPMDMyProc(void);          /* -1 before AMX_SPMDStartup */
/* Wait for all processes; handlers run meanwhile. Collective. */
int AMX_SPMDBarrier(void);
/* Copy len bytes (up to 64 KiB) from each process to all processes, in the order of ranks;
 * handlers run meanwhile. Collective. */
int AMX_SPMDAllGather(void *source, void *dest, size_t len);
/* Copy len bytes (up to 64 KiB) from process root to all processes. Collective. */
int AMX_SPMDBroadcast(void *buf, size_t len, int root);
/*
 * End the job with this code; does not return. With code 0 the call first waits up to 30 s until
 * the other processes also call AMX_SPMDExit.
 */
int AMX_SPMDExit(int exitcode);
int AMX_SPMDSetExitCallback(void (*callback)(int));
/* The variable in this process's environment, which a launcher copies from its own environment. */
char *AMX_SPMDgetenvMaster(const char *name);

/* ---- messages, names, statistics ------------------------------------------------------------- */

int AMX_SetTranslationTag(ep_t ea, int index, tag_t tag);
/* The lowest index of a message's sender in our translation table, or -1 if the sender is not
 * mapped. */
int AMX_GetSourceId(void *token, int *rank);
int AMX_enEqual(en_t a, en_t b); /* not 0 if both are the same endpoint */
int AMX_GetTokenInfo(void *token, handler_t *handler, amx_category_t *category, int *is_request);

typedef void (*AMX_preHandlerCallback_t)(amx_category_t category, int is_request, int handler,
                                         void *token, void *buf, size_t nbytes, int numargs,
                                         uint32_t *args);
typedef void (*AMX_postHandlerCallback_t)(amx_category_t category, int is_request);
/* The library calls these functions before and after each run of any handler of the endpoint. NULL:
 * no function. The functions must not call AM functions. */
int AMX_SetHandlerCallbacks(ep_t ea, AMX_preHandlerCallback_t before,
                            AMX_postHandlerCallback_t after);

extern const amx_stats_t AMX_initial_stats;
int AMX_GetEndpointStatistics(ep_t ea, amx_stats_t *stats);
int AMX_ResetEndpointStatistics(ep_t ea);
int AMX_AggregateStatistics(amx_stats_t *sum, amx_stats_t *add);
/* Returns the statistics as text, valid until the next call. Also writes the text to file (FILE *),
 * unless file is NULL. */
const char *AMX_DumpStatistics(void *file, amx_stats_t *stats, int global);

#ifdef __cplusplus
}
#endif

#endif
