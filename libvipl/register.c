/*
 * VipRegisterMem, VipDeregisterMem, VipSetMemAttributes, VipQueryMem (spec 2.3), VipxCheckMem,
 * VipxAllocMem, VipxFreeMem. mem.h decides how vipd reaches the memory.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libvipl/call.h"
#include "libvipl/error.h"
#include "libvipl/lent.h"
#include "libvipl/refused.h"
#include "libvipl/session.h"
#include "libvipl/vipl_ext.h"

/* Check attributes and convert them for vipd. NULL means the default domain and no RDMA. */
static VIP_RETURN check_attrs(const struct vipl__session *session, const char *call,
                              const VIP_MEM_ATTRIBUTES *attrs, Vip__MemAttributes *out)
{
    VIP_PROTECTION_HANDLE ptag = attrs == NULL ? NULL : attrs->Ptag;

    out->has_ptag = out->has_enable_rdma_write = out->has_enable_rdma_read = 1;
    if (!vipl__ptag_number(session, ptag, &out->ptag))
        return vipl__fail(VIP_INVALID_PTAG, "%s: %p is not a protection tag of this NIC handle",
                          call, ptag);
    if (attrs == NULL)
        return VIP_SUCCESS;
    if (attrs->EnableRdmaRead && session->nic.RDMAReadSupport == 0)
        return vipl__fail(VIP_INVALID_RDMAREAD,
                          "%s: EnableRdmaRead is set, and this NIC has no RDMA Read "
                          "(VIP_NIC_ATTRIBUTES.RDMAReadSupport is 0)",
                          call);
    out->enable_rdma_write = attrs->EnableRdmaWrite != 0;
    out->enable_rdma_read = attrs->EnableRdmaRead != 0;
    return VIP_SUCCESS;
}

/* Put a region that vipd has registered into the session's table. */
static int remember(struct vipl__session *session, struct vipl__region *region)
{
    struct vipl__loans *loans;
    int rc;

    loans = vipl__lent_lock(session);
    vipl__spin_lock(&session->post_lock);
    /* vipd can give a new region the handle of a refused region that is still in the table. */
    rc = vipl__region_find(&session->regions, region->handle) != NULL
             ? -EEXIST
             : vipl__region_add(&session->regions, region);
    vipl__spin_unlock(&session->post_lock);
    vipl__lent_unlock(loans);
    if (rc == 0 && region->mem.kind == VIPL__MEM_STAGED) {
        __atomic_add_fetch(&session->staged, 1, __ATOMIC_SEQ_CST);
        (void)vipl__lent_back(session, true); /* no loan goes on beside staged memory */
    }
    return rc;
}

/* Ask vipd to deregister a region. After success the caller must call vipl__call_kept. */
static VIP_RETURN ask_deregister(struct vipl__session *session, VIP_MEM_HANDLE handle,
                                 uintptr_t addr)
{
    Vip__MemRequest mem = VIP__MEM_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;

    mem.has_handle = mem.has_address = 1;
    mem.handle = handle;
    mem.address = addr;
    request.body_case = VIP__REQUEST__BODY_DEREGISTER_MEM;
    request.deregister_mem = &mem;
    return vipl__call_keep(session, "VipDeregisterMem", &request, NULL, 0, NULL);
}

static VIP_RETURN ask_register(struct vipl__session *session, struct vipl__region *region,
                               Vip__MemAttributes *attributes)
{
    Vip__RegisterMemRequest mem = VIP__REGISTER_MEM_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    Vip__Reply *reply = NULL;
    bool remembered;
    VIP_RETURN rc;

    mem.has_address = mem.has_bytes = mem.has_kind = mem.has_offset = 1;
    mem.address = region->addr;
    mem.bytes = region->bytes;
    mem.attributes = attributes;
    mem.kind = (Vip__MemKind)region->mem.kind;
    mem.offset = region->mem.offset;
    request.body_case = VIP__REQUEST__BODY_REGISTER_MEM;
    request.register_mem = &mem;
    rc = vipl__call_keep(session, "VipRegisterMem", &request, &region->mem.fd,
                         region->mem.fd >= 0 ? 1 : 0, &reply);
    if (rc != VIP_SUCCESS)
        return rc;
    region->handle = reply->number;
    vipl__reply_free(reply);
    remembered = remember(session, region) == 0;
    vipl__call_kept(session);
    if (!remembered) {
        if (ask_deregister(session, region->handle, region->addr) == VIP_SUCCESS)
            vipl__call_kept(session);
        return vipl__fail(VIP_ERROR_RESOURCE, "VipRegisterMem: out of memory");
    }
    return VIP_SUCCESS;
}

/* Ask vipd for a memory file. This is the function `make` of struct vipl__mem_files. */
static int make_file(void *ctx, size_t bytes)
{
    int fd;

    if (vipl__session_make_memory(ctx, "VipRegisterMem", bytes, &fd) != VIP_SUCCESS)
        return -ENOMEM;
    return fd;
}

/* Prepare and register a region. *ret_shared: is it memory of VipxAllocMem? */
static VIP_RETURN try_register(struct vipl__session *session, struct vipl__region *region,
                               bool no_shared, Vip__MemAttributes *attributes, bool *ret_shared)
{
    const struct vipl__mem_files files = {make_file, session, no_shared};
    const char *why = "";
    int error = vipl__mem_prepare((void *)region->addr, region->bytes, &files, &region->mem, &why);
    VIP_RETURN rc;

    *ret_shared = false;
    if (error < 0)
        return vipl__fail(error == -EFAULT ? VIP_INVALID_PARAMETER : VIP_ERROR_RESOURCE,
                          "VipRegisterMem: %lu bytes at %p cannot be registered: %s (%s)",
                          (unsigned long)region->bytes, (void *)region->addr, why,
                          vipl__mem_file_error(error));
    *ret_shared = region->mem.kind == VIPL__MEM_SHARED;
    rc = ask_register(session, region, attributes);
    if (rc != VIP_SUCCESS)
        vipl__mem_release(&region->mem);
    return rc;
}

static VIP_RETURN do_register(struct vipl__session *session, VIP_PVOID address, VIP_ULONG length,
                              const VIP_MEM_ATTRIBUTES *attrs, VIP_MEM_HANDLE *ret_handle)
{
    Vip__MemAttributes attributes = VIP__MEM_ATTRIBUTES__INIT;
    VIP_RETURN rc = check_attrs(session, "VipRegisterMem", attrs, &attributes);
    struct vipl__region *region;
    bool shared;

    if (rc != VIP_SUCCESS)
        return rc;
    region = calloc(1, sizeof(*region));
    if (region == NULL)
        return vipl__fail(VIP_ERROR_RESOURCE, "VipRegisterMem: out of memory");
    region->addr = (uintptr_t)address;
    region->bytes = length;
    region->ptag = attributes.ptag;
    if (attrs != NULL)
        region->attrs = *attrs;
    rc = try_register(session, region, false, &attributes, &shared);
    /* A vipd that makes all memory files itself refuses the library's file: stage the memory. */
    if (rc == VIP_INVALID_PARAMETER && shared)
        rc = try_register(session, region, true, &attributes, &shared);
    if (rc != VIP_SUCCESS) {
        free(region);
        return rc;
    }
    *ret_handle = region->handle;
    return VIP_SUCCESS;
}

VIP_RETURN VipRegisterMem(VIP_NIC_HANDLE NicHandle, VIP_PVOID VirtualAddress, VIP_ULONG Length,
                          VIP_MEM_ATTRIBUTES *MemAttribs, VIP_MEM_HANDLE *MemoryHandle)
{
    struct vipl__session *session = vipl__nic_enter(NicHandle, "VipRegisterMem");
    VIP_RETURN rc;

    if (session == NULL)
        return VIP_INVALID_PARAMETER;
    if (VirtualAddress == NULL || Length == 0 || MemoryHandle == NULL)
        rc = vipl__fail(VIP_INVALID_PARAMETER, "VipRegisterMem: %s",
                        VirtualAddress == NULL ? "VirtualAddress is NULL"
                        : Length == 0          ? "Length is 0"
                                               : "MemoryHandle is NULL");
    else if (Length > session->nic.MaxRegisterBlockBytes ||
             (uintptr_t)VirtualAddress > UINTPTR_MAX - Length)
        rc = vipl__fail(VIP_INVALID_PARAMETER,
                        "VipRegisterMem: %lu bytes at %p: a region has at most %lu bytes "
                        "(MaxRegisterBlockBytes; [limits] register_bytes of vipd.conf) and does "
                        "not wrap around",
                        Length, VirtualAddress, session->nic.MaxRegisterBlockBytes);
    else
        rc = do_register(session, VirtualAddress, Length, MemAttribs, MemoryHandle);
    vipl__leave(session);
    return rc;
}

/* Is there a registered region with this address and handle? Copies its attributes. */
static VIP_RETURN check_region(struct vipl__session *session, const char *call, VIP_PVOID address,
                               VIP_MEM_HANDLE handle, VIP_MEM_ATTRIBUTES *ret_attrs)
{
    struct vipl__region *region;
    bool found;

    vipl__spin_lock(&session->post_lock);
    region = vipl__region_find(&session->regions, handle);
    found = region != NULL && region->addr == (uintptr_t)address;
    if (found && ret_attrs != NULL)
        *ret_attrs = region->attrs;
    vipl__spin_unlock(&session->post_lock);
    if (found)
        return VIP_SUCCESS;
    return vipl__fail(VIP_INVALID_PARAMETER,
                      "%s: no region of this NIC handle has memory handle 0x%x and starts at %p",
                      call, handle, address);
}

VIP_RETURN VipDeregisterMem(VIP_NIC_HANDLE NicHandle, VIP_PVOID VirtualAddress,
                            VIP_MEM_HANDLE MemoryHandle)
{
    struct vipl__loans *loans;
    struct vipl__session *session = vipl__nic_enter(NicHandle, "VipDeregisterMem");
    struct vipl__region *region = NULL;
    VIP_RETURN rc;

    if (session == NULL)
        return VIP_INVALID_PARAMETER;
    rc = check_region(session, "VipDeregisterMem", VirtualAddress, MemoryHandle, NULL);
    if (rc == VIP_SUCCESS)
        rc = ask_deregister(session, MemoryHandle, (uintptr_t)VirtualAddress);
    if (rc == VIP_INVALID_PARAMETER) { /* vipd may have refused the region */
        pthread_mutex_lock(&session->region_lock);
        region = vipl__refused_region(session, MemoryHandle);
        pthread_mutex_unlock(&session->region_lock);
        rc = region != NULL ? VIP_SUCCESS : rc;
    } else if (rc == VIP_SUCCESS) {
        /* Take region_lock, to wait for staged copies: none may use the memory released below. */
        pthread_mutex_lock(&session->region_lock);
        loans = vipl__lent_lock(session);
        vipl__spin_lock(&session->post_lock);
        region = vipl__region_take(&session->regions, MemoryHandle);
        __atomic_add_fetch(&session->region_epoch, 1, __ATOMIC_RELEASE);
        vipl__spin_unlock(&session->post_lock);
        vipl__lent_unlock(loans);
        pthread_mutex_unlock(&session->region_lock);
        vipl__call_kept(session);
    }
    if (region != NULL) {
        if (region->mem.kind == VIPL__MEM_STAGED)
            __atomic_sub_fetch(&session->staged, 1, __ATOMIC_RELEASE);
        vipl__mem_release(&region->mem);
        free(region);
    }
    vipl__leave(session);
    return rc;
}

static VIP_RETURN set_attrs(struct vipl__session *session, VIP_PVOID address, VIP_MEM_HANDLE handle,
                            const VIP_MEM_ATTRIBUTES *attrs)
{
    struct vipl__loans *loans;
    static const char call[] = "VipSetMemAttributes";
    Vip__MemAttributes attributes = VIP__MEM_ATTRIBUTES__INIT;
    Vip__MemRequest mem = VIP__MEM_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    struct vipl__region *region;
    VIP_RETURN rc = check_region(session, call, address, handle, NULL);

    if (rc == VIP_SUCCESS)
        rc = check_attrs(session, call, attrs, &attributes);
    if (rc != VIP_SUCCESS)
        return rc;
    mem.has_handle = mem.has_address = 1;
    mem.handle = handle;
    mem.address = (uintptr_t)address;
    mem.attributes = &attributes;
    request.body_case = VIP__REQUEST__BODY_SET_MEM_ATTRIBUTES;
    request.set_mem_attributes = &mem;
    rc = vipl__call_keep(session, call, &request, NULL, 0, NULL);
    if (rc != VIP_SUCCESS)
        return rc;
    loans = vipl__lent_lock(session);
    vipl__spin_lock(&session->post_lock);
    region = vipl__region_find(&session->regions, handle);
    if (region != NULL) {
        region->attrs = *attrs;
        region->ptag = attributes.ptag;
        __atomic_add_fetch(&session->region_epoch, 1, __ATOMIC_RELEASE);
    }
    vipl__spin_unlock(&session->post_lock);
    vipl__lent_unlock(loans);
    vipl__call_kept(session);
    return VIP_SUCCESS;
}

VIP_RETURN VipSetMemAttributes(VIP_NIC_HANDLE NicHandle, VIP_PVOID Address,
                               VIP_MEM_HANDLE MemHandle, VIP_MEM_ATTRIBUTES *MemAttribs)
{
    struct vipl__session *session = vipl__nic_enter(NicHandle, "VipSetMemAttributes");
    VIP_RETURN rc;

    if (session == NULL)
        return VIP_INVALID_PARAMETER;
    if (MemAttribs == NULL)
        rc = vipl__fail(VIP_INVALID_PARAMETER, "VipSetMemAttributes: MemAttribs is NULL");
    else
        rc = set_attrs(session, Address, MemHandle, MemAttribs);
    vipl__leave(session);
    return rc;
}

VIP_RETURN VipQueryMem(VIP_NIC_HANDLE NicHandle, VIP_PVOID Address, VIP_MEM_HANDLE MemHandle,
                       VIP_MEM_ATTRIBUTES *MemAttribs)
{
    struct vipl__session *session = vipl__nic_enter(NicHandle, "VipQueryMem");
    VIP_RETURN rc;

    if (session == NULL)
        return VIP_INVALID_PARAMETER;
    if (MemAttribs == NULL)
        rc = vipl__fail(VIP_INVALID_PARAMETER, "VipQueryMem: MemAttribs is NULL");
    else
        rc = check_region(session, "VipQueryMem", Address, MemHandle, MemAttribs);
    vipl__leave(session);
    return rc;
}

static VIP_RETURN check_mem(struct vipl__session *session, VIP_PVOID address, VIP_MEM_HANDLE handle)
{
    struct vipl__region *region;
    struct vipl__mem mem;
    VIP_RETURN rc = check_region(session, "VipxCheckMem", address, handle, NULL);

    if (rc != VIP_SUCCESS)
        return rc;
    vipl__spin_lock(&session->post_lock);
    region = vipl__region_find(&session->regions, handle);
    if (region != NULL)
        mem = region->mem;
    vipl__spin_unlock(&session->post_lock);
    if (region == NULL)
        return vipl__fail(VIP_INVALID_PARAMETER, "VipxCheckMem: the region was deregistered");
    if (!vipl__mem_intact(&mem))
        return vipl__outcome(VIP_INVALID_STATE,
                             "memory of the region was unmapped or mapped anew after it was "
                             "registered; deregister it");
    return VIP_SUCCESS;
}

VIP_RETURN VipxCheckMem(VIP_NIC_HANDLE NicHandle, VIP_PVOID VirtualAddress,
                        VIP_MEM_HANDLE MemoryHandle)
{
    struct vipl__session *session = vipl__nic_enter(NicHandle, "VipxCheckMem");
    VIP_RETURN rc;

    if (session == NULL)
        return VIP_INVALID_PARAMETER;
    rc = check_mem(session, VirtualAddress, MemoryHandle);
    vipl__leave(session);
    return rc;
}

VIP_RETURN VipxAllocMem(VIP_ULONG Length, VIP_PVOID *Address)
{
    void *memory;

    if (Length == 0 || Address == NULL)
        return vipl__fail(VIP_INVALID_PARAMETER, "VipxAllocMem: %s",
                          Length == 0 ? "Length is 0" : "Address is NULL");
    memory = vipl__mem_alloc(Length);
    if (memory == NULL)
        return vipl__fail(VIP_ERROR_RESOURCE, "VipxAllocMem: %lu bytes: %s", Length,
                          vipl__mem_file_error(-errno));
    *Address = memory;
    return VIP_SUCCESS;
}

VIP_RETURN VipxFreeMem(VIP_PVOID Address)
{
    if (vipl__mem_free(Address) < 0)
        return vipl__fail(VIP_INVALID_PARAMETER,
                          "VipxFreeMem: %p was not returned by VipxAllocMem, or was freed",
                          Address);
    return VIP_SUCCESS;
}
