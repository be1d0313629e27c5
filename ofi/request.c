/* Rejects and frees connection requests that the program has not answered. */
#include <stdlib.h>

#include "ofi/calls.h"

void via_request_drop(fid_t handle)
{
    struct via_request *request;

    if (handle == NULL || handle->fclass != FI_CLASS_CONNREQ)
        return;
    request = via_container(handle, struct via_request, fid);
    VipxConnectReject(request->conn, NULL);
    free(request);
}
