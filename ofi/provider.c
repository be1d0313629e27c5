/*
 * The provider's entry point. libfabric calls fi_prov_ini once when it loads the shared library,
 * and via_provider.cleanup at the end of the process.
 */
#include "ofi/calls.h"

/* A prototype of fi_prov_ini: libfabric's macro is the head of this function. */
FI_EXT_INI;

FI_EXT_INI
{
    via_settings_read();
    via_provider.getinfo = via_getinfo;
    via_provider.fabric = via_fabric_open;
    via_provider.cleanup = via_info_cleanup;
    return &via_provider;
}
