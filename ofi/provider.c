/*
 * The provider's entry point. libfabric calls fi_prov_ini once when it loads the DSO, and the
 * function `cleanup` at its end.
 */
#include "ofi/calls.h"

/* libfabric's macro is a function head without a prototype. */
FI_EXT_INI;

FI_EXT_INI
{
    via_settings_read();
    via_provider.getinfo = via_getinfo;
    via_provider.fabric = via_fabric_open;
    via_provider.cleanup = via_info_cleanup;
    return &via_provider;
}
