/*
 * Uses vipl.h as old programs do, with both spellings of descriptor members, in C89 and C++98.
 * header.sh compiles it. With HEADER_POSITIONAL, header.sh links (without libvipl) and runs it.
 */
#include <vipl.h>
#include <vipl_ext.h>

/* Old programs test these names with #ifndef, so the names must be macros. */
#ifndef VIP_NOT_REACHABLE
#error VIP_NOT_REACHABLE
#endif
#ifndef VIP_ERROR_NOT_SUPPORTED
#error VIP_ERROR_NOT_SUPPORTED
#endif

/* This initializer is right only if the members are in the right order. */
static VIP_VI_ATTRIBUTES attributes = {VIP_SERVICE_RELIABLE_DELIVERY, 65472, 0, 0, 0, 0};

/* Names of return codes. The return code is the index. */
static const char *const names[] = {"success", "not done"};

static void intel(VIP_DESCRIPTOR *desc, void *data, VIP_MEM_HANDLE handle)
{
    desc->CS.SegCount = 2;
    desc->CS.Control = VIP_CONTROL_OP_RDMAWRITE | VIP_CONTROL_IMMEDIATE;
    desc->DS[0].Remote.Data.Address = data;
    desc->DS[0].Remote.Handle = handle;
    desc->DS[1].Local.Data.AddressBits = 0;
    desc->DS[1].Local.Length = 4;
}

#ifdef VIPL095
/* This initializer depends on the positions of the members. */
static VIP_DESCRIPTOR positional = {
    {{0}, 0, 2, VIP_CONTROL_OP_RDMAWRITE, 0, 7, 4, 0},
    {{{{0}, 11, 0}}, {{{0}, 12, 4}}},
};

int header_positional(void);
int header_positional(void)
{
    return positional.CS.SegCount == 2 && positional.CS.Control == VIP_CONTROL_OP_RDMAWRITE &&
           positional.CS.ImmediateData == 7 && positional.CS.Length == 4 &&
           positional.DS[0].Remote.Handle == 11 && positional.DS[1].Local.Handle == 12 &&
           positional.DS[1].Remote.Reserved == 4;
}
#else
static void giganet(VIP_DESCRIPTOR *desc, void *data, VIP_MEM_HANDLE handle)
{
    desc->Control.SegCount = 1;
    desc->Control.Control = VIP_CONTROL_OP_SENDRECV;
    desc->Control.Next.Descriptor = desc;
    desc->Data[0].Data.Address = data;
    desc->Data[0].Handle = handle;
    desc->Data[0].Length = 4;
}
#endif

static void on_error(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error)
{
    *(VIP_ERROR_CODE *)context = error->ErrorCode;
}

#ifdef HEADER_POSITIONAL
int main(void)
{
    return header_positional() ? 0 : 1;
}
#else
const char *header_use(const char *device);
const char *header_use(const char *device)
{
    VIP_NIC_HANDLE nic = 0;
    VIP_ERROR_HANDLER handler = on_error;
    VIP_ERROR_CODE code = VIP_ERROR_POST_DESC;
    VIP_DESCRIPTOR desc;
    VIP_RETURN result = VipOpenNic(device, &nic);

    intel(&desc, &code, 1);
#ifndef VIPL095
    giganet(&desc, &code, 1);
#endif
    VipErrorCallback(nic, &code, handler);
    switch (result) {
    case VIP_SUCCESS:
    case VIP_NOT_DONE:
        return names[result];
    case VIP_NOT_REACHABLE:
    case VIP_ERROR_NOT_SUPPORTED:
        return VipxLastError();
    case VIP_DESCRIPTOR_ERROR:
        return VIP_ERROR == VIP_DESCRIPTOR_ERROR ? "descriptor" : "";
    default:
        return attributes.MaxTransferSize == VIP_INFINITE ? "infinite" : "other";
    }
}
#endif
