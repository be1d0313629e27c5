/* The files of the configuration; see config_files.h. */
#include "vipd/config_files.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Folders in the order of reading: values in a later folder replace those in an earlier folder. */
static const char *const system_dirs[] = {VIPD_VENDOR_DIR, "/run/vipd", "/etc/vipd"};

/* Paths of the drop-ins found so far, one for each file name. take_drop_ins sorts them by name. */
struct drop_ins {
    char *path[VIPD_FILES_MAX];
    unsigned count;
};

static int add_file(struct vipd_config *config, const char *path, struct config_errors *errors)
{
    if (config->file_count == VIPD_FILES_MAX) {
        config_error(errors, 0, "more than %d files of configuration", VIPD_FILES_MAX);
        return 0;
    }
    config->files[config->file_count] = strdup(path);
    if (!config->files[config->file_count])
        return -ENOMEM;
    config->file_count++;
    return 0;
}

static bool exists(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0;
}

/* Is the file empty, or /dev/null? Such a file switches off a vendor's drop-in of the same name. */
static bool masks(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 &&
           (S_ISCHR(st.st_mode) || (S_ISREG(st.st_mode) && st.st_size == 0));
}

static const char *base_name(const char *path)
{
    return strrchr(path, '/') + 1;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(base_name(*(char *const *)a), base_name(*(char *const *)b));
}

static int add_drop_in(struct drop_ins *found, const char *dir, const char *name,
                       struct config_errors *errors)
{
    char path[PATH_MAX];

    if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int)sizeof(path)) {
        config_error(errors, 0, "the path of %s is too long", name);
        return 0;
    }
    for (unsigned i = 0; i < found->count; i++) {
        if (strcmp(base_name(found->path[i]), name) != 0)
            continue;
        free(found->path[i]);
        found->path[i] = strdup(path);
        return found->path[i] ? 0 : -ENOMEM;
    }
    if (found->count == VIPD_FILES_MAX) {
        config_error(errors, 0, "more than %d drop-ins", VIPD_FILES_MAX);
        return 0;
    }
    found->path[found->count] = strdup(path);
    return found->path[found->count++] ? 0 : -ENOMEM;
}

/* Add every *.conf of a folder, which need not exist. */
static int scan_dir(struct drop_ins *found, const char *dir, struct config_errors *errors)
{
    DIR *handle = opendir(dir);
    const struct dirent *entry;
    int r = 0;

    if (!handle) {
        if (errno != ENOENT && errno != ENOTDIR) {
            const char *before = errors->file;

            errors->file = dir;
            config_error(errors, 0, "cannot be read: %s", strerror(errno));
            errors->file = before;
        }
        return 0;
    }
    while (r == 0 && (entry = readdir(handle)) != NULL) {
        size_t len = strlen(entry->d_name);

        if (entry->d_name[0] != '.' && len > 5 && strcmp(entry->d_name + len - 5, ".conf") == 0)
            r = add_drop_in(found, dir, entry->d_name, errors);
    }
    closedir(handle);
    return r;
}

/* Sort the drop-ins, append them to config->files, and empty the list. r < 0: only empty it. */
static int take_drop_ins(struct drop_ins *found, struct vipd_config *config,
                         struct config_errors *errors, int r)
{
    if (r == 0)
        qsort(found->path, found->count, sizeof(found->path[0]), by_name);
    for (unsigned i = 0; i < found->count; i++) {
        if (r == 0 && !masks(found->path[i]))
            r = add_file(config, found->path[i], errors);
        free(found->path[i]);
    }
    found->count = 0;
    return r;
}

/* Add vipd.conf of each folder that has one, then the drop-ins of all folders. */
static int add_dirs(const char *const *dirs, unsigned count, const char *root,
                    struct vipd_config *config, struct config_errors *errors)
{
    struct drop_ins found = {0};
    char path[PATH_MAX];
    int r = 0;

    for (unsigned i = 0; r == 0 && i < count; i++) {
        if (snprintf(path, sizeof(path), "%s%s/vipd.conf", root, dirs[i]) < (int)sizeof(path) &&
            exists(path))
            r = add_file(config, path, errors);
    }
    for (unsigned i = 0; r == 0 && i < count; i++) {
        if (snprintf(path, sizeof(path), "%s%s/vipd.conf.d", root, dirs[i]) < (int)sizeof(path))
            r = scan_dir(&found, path, errors);
    }
    return take_drop_ins(&found, config, errors, r);
}

static int add_user(struct vipd_config *config, struct config_errors *errors)
{
    const char *home = getenv("XDG_CONFIG_HOME"), *tail = "/vipd";
    char dir[PATH_MAX];
    const char *const dirs[] = {dir};

    if (!home || home[0] != '/') {
        home = getenv("HOME");
        tail = "/.config/vipd";
    }
    if (!home || home[0] != '/' ||
        snprintf(dir, sizeof(dir), "%s%s", home, tail) >= (int)sizeof(dir))
        return 0;
    return add_dirs(dirs, 1, "", config, errors);
}

static int add_named(const char *file, struct vipd_config *config, struct config_errors *errors)
{
    struct drop_ins found = {0};
    char dir[PATH_MAX];
    int r = add_file(config, file, errors);

    if (r == 0 && snprintf(dir, sizeof(dir), "%s.d", file) < (int)sizeof(dir))
        r = scan_dir(&found, dir, errors);
    return take_drop_ins(&found, config, errors, r);
}

int config_files_find(const struct vipd_config_source *source, struct vipd_config *config,
                      struct config_errors *errors)
{
    int r;

    if (source->file) {
        r = add_named(source->file, config, errors);
    } else {
        r = add_dirs(system_dirs, sizeof(system_dirs) / sizeof(system_dirs[0]),
                     source->root ? source->root : "", config, errors);
        if (r == 0 && source->of_user)
            r = add_user(config, errors);
    }
    if (r < 0 || config->file_count == 0)
        return r;
    if (config->file_count == 1)
        r = asprintf(&config->path, "%s", config->files[0]);
    else
        r = asprintf(&config->path, "%s + %u drop-in%s", config->files[0], config->file_count - 1,
                     config->file_count == 2 ? "" : "s");
    if (r < 0)
        config->path = NULL;
    return r < 0 ? -ENOMEM : 0;
}

const char *vipd_config_file(const struct vipd_config *config, unsigned number)
{
    if (number == VIPD_FILE_BEFORE)
        return "(before the reload)";
    return number == 0 ? "(defaults)" : config->files[number - 1];
}
