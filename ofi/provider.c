/*
 * The provider's entry points. libfabric calls fi_prov_ini once when it loads the shared library,
 * and calls via_provider.cleanup at the end of the process.
 */
#include "ofi/calls.h"

/* libfabric's macro FI_EXT_INI is the head of fi_prov_ini; here it makes a prototype. */
FI_EXT_INI;

FI_EXT_INI
{
    via_settings_read();
    via_provider.getinfo = via_getinfo;
    via_provider.fabric = via_fabric_open;
    via_provider.cleanup = via_info_cleanup;
    return &via_provider;
}
