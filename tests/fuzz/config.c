/*
 * Fuzz: the text of vipd.conf. vipd refuses the file with a reason, or accepts the file. In an
 * accepted file each value is in its range, and a second reading gives the same values.
 */
#include "fuzz/fuzz.h"

#include <fcntl.h>
#include <unistd.h>

#include "vipd/config.h"

static char path[64];

static void remove_path(void)
{
    unlink(path);
}

void fuzz_begin(void)
{
    int fd;

    snprintf(path, sizeof(path), "/dev/shm/vip-fuzz-XXXXXX");
    fd = mkstemp(path);
    if (fd < 0) {
        snprintf(path, sizeof(path), "/tmp/vip-fuzz-XXXXXX");
        fd = mkstemp(path);
    }
    FUZZ_CHECK(fd >= 0);
    close(fd);
    atexit(remove_path);
}

static void check_nic(const struct vipd_config *config, unsigned i)
{
    const struct vipd_nic_config *nic = &config->nics[i];

    FUZZ_CHECK(nic->name[0] && strlen(nic->name) < sizeof(nic->name));
    FUZZ_CHECK(nic->alias_count <= VIPD_ALIASES_MAX);
    FUZZ_CHECK(nic->link != LINK_UDP || (nic->keys.port >= 1 && nic->keys.port <= 65535));
    FUZZ_CHECK(nic->link != LINK_ETHER || (nic->keys.interface[0] && nic->keys.vlan <= 4094));
    for (unsigned k = 0; k < i; k++)
        FUZZ_CHECK(strcmp(config->nics[k].name, nic->name) != 0);
    FUZZ_CHECK(nic->faults.loss >= 0 && nic->faults.loss <= 1);
    FUZZ_CHECK(nic->faults.corrupt >= 0 && nic->faults.corrupt <= 1);
}

static void check(const struct vipd_config *config)
{
    FUZZ_CHECK(config->nic_count >= 1 && config->nic_count <= VIPD_NICS_MAX);
    for (unsigned i = 0; i < config->nic_count; i++)
        check_nic(config, i);
    FUZZ_CHECK(config->vis >= 1 && config->vis <= VIP_VI_MAX);
    FUZZ_CHECK(config->cqs <= VIP_CQ_MAX && config->ptags <= VIP_PTAG_MAX);
    FUZZ_CHECK(config->register_regions <= VIP_REGION_MAX);
    FUZZ_CHECK(config->engine.rto_min_ns && config->engine.rto_max_ns >= config->engine.rto_min_ns);
    FUZZ_CHECK(config->engine.conn_timeout_ns && config->engine.ack_every_packets);
    FUZZ_CHECK(config->engine.turn_packets && config->engine.turn_bytes);
    FUZZ_CHECK(config->name_count <= VIPD_NAMES_MAX);
    for (unsigned i = 0; i < config->name_count; i++) {
        FUZZ_CHECK(config->names[i].name && config->names[i].addr_count >= 1);
        FUZZ_CHECK(config->names[i].addr_count <= VIPD_NAME_ADDR_MAX);
    }
}

void fuzz_one(const uint8_t *bytes, size_t len)
{
    struct vipd_config *config, *again;
    char errors[2048] = "", errors_again[2048] = "";
    int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);

    FUZZ_CHECK(fd >= 0 && write(fd, bytes, len) == (ssize_t)len);
    close(fd);
    config = vipd_config_load(path, errors, sizeof(errors));
    again = vipd_config_load(path, errors_again, sizeof(errors_again));
    FUZZ_CHECK((config != NULL) == (again != NULL));
    FUZZ_CHECK(strcmp(errors, errors_again) == 0);
    if (config) {
        check(config);
        FUZZ_CHECK(config->nic_count == again->nic_count &&
                   memcmp(config->nics, again->nics, sizeof(config->nics)) == 0);
    } else {
        FUZZ_CHECK(errors[0]);
    }
    vipd_config_free(config);
    vipd_config_free(again);
}
