/*
 * A job that strangers call, for strangers.sh. It polls until the file argv[1] exists. Then each
 * process sends a request to each other process, and all requests must be answered.
 * usage: am_strangers FILE
 */
#include <unistd.h>

#include "am/am_amx.h"
#include "tests/am/amtest.h"

bool am_test_blocking;

enum { REQ = 1, REP };

static int ran, replied;

static void on_req(void *token)
{
    ran++;
    OK(AM_Reply0(token, REP));
}

static void on_rep(void *token)
{
    (void)token;
    replied++;
}

int main(int argc, char **argv)
{
    eb_t bundle;
    ep_t ep;
    int n;

    OK(AMX_SPMDStartup(&argc, &argv, 0, NULL, &bundle, &ep));
    n = AMX_SPMDNumProcs();
    OK(AM_SetHandler(ep, REQ, on_req));
    OK(AM_SetHandler(ep, REP, on_rep));
    OK(AMX_SPMDBarrier());
    while (argc > 1 && access(argv[1], F_OK) != 0) {
        OK(AM_Poll(bundle));
        usleep(200);
    }
    CHECK(ran == 0);
    for (int i = 0; i < n; i++)
        OK(AM_Request0(ep, i, REQ));
    WAIT_FOR(bundle, replied == n && ran == n);
    OK(AMX_SPMDBarrier());
    CHECK(ran == n);
    printf("process %d was called by its job only\n", AMX_SPMDMyProc());
    AMX_SPMDExit(0);
    return 1;
}
