/* The variadic functions that am_macros.h uses: each calls the function of the same name + VA. */
#include "am/am.h"

int AMVIA_Request(ep_t ea, int dest, handler_t handler, int numargs, ...)
{
    va_list args;
    int rc;

    va_start(args, numargs);
    rc = AMVIA_RequestVA(ea, dest, handler, numargs, args);
    va_end(args);
    return rc;
}

int AMVIA_RequestI(ep_t ea, int dest, handler_t handler, void *source, size_t nbytes, int numargs,
                   ...)
{
    va_list args;
    int rc;

    va_start(args, numargs);
    rc = AMVIA_RequestIVA(ea, dest, handler, source, nbytes, numargs, args);
    va_end(args);
    return rc;
}

int AMVIA_RequestXfer(ep_t ea, int dest, uintptr_t dest_offset, handler_t handler, void *source,
                      size_t nbytes, int async, int numargs, ...)
{
    va_list args;
    int rc;

    va_start(args, numargs);
    rc = AMVIA_RequestXferVA(ea, dest, dest_offset, handler, source, nbytes, async, numargs, args);
    va_end(args);
    return rc;
}

int AMVIA_Reply(void *token, handler_t handler, int numargs, ...)
{
    va_list args;
    int rc;

    va_start(args, numargs);
    rc = AMVIA_ReplyVA(token, handler, numargs, args);
    va_end(args);
    return rc;
}

int AMVIA_ReplyI(void *token, handler_t handler, void *source, size_t nbytes, int numargs, ...)
{
    va_list args;
    int rc;

    va_start(args, numargs);
    rc = AMVIA_ReplyIVA(token, handler, source, nbytes, numargs, args);
    va_end(args);
    return rc;
}

int AMVIA_ReplyXfer(void *token, uintptr_t dest_offset, handler_t handler, void *source,
                    size_t nbytes, int numargs, ...)
{
    va_list args;
    int rc;

    va_start(args, numargs);
    rc = AMVIA_ReplyXferVA(token, dest_offset, handler, source, nbytes, numargs, args);
    va_end(args);
    return rc;
}

int AMVIA_GetXfer(ep_t ea, int dest, uintptr_t source_offset, handler_t handler,
                  uintptr_t dest_offset, size_t nbytes, int async, int numargs, ...)
{
    va_list args;
    int rc;

    va_start(args, numargs);
    rc = AMVIA_GetXferVA(ea, dest, source_offset, handler, dest_offset, nbytes, async, numargs,
                         args);
    va_end(args);
    return rc;
}
