#include "store/log_file.h"

#include <stdio.h>
#include <stdlib.h>

#include "store/directory.h"
#include "store/fs.h"

int fp_log_file_begin(struct fp_log_file *file, int folder, time_t begun, enum fp_log_kind kind,
                      const char *node, bool is_zst, int64_t offset_ns)
{
    struct fp_log_name name = {.kind = kind, .is_zst = is_zst};
    int descriptor;

    snprintf(name.node, sizeof(name.node), "%s", node);
    descriptor = fp_directory_create(folder, begun, &name);
    if (descriptor < 0)
        return descriptor;
    *file = (struct fp_log_file){
        .descriptor = descriptor, .name = name, .is_zst = is_zst, .offset_ns = offset_ns};
    return 0;
}

int fp_log_file_write(struct fp_log_file *file, const char *bytes, size_t size, size_t text,
                      uint64_t weight)
{
    int err = fp_fs_write(file->descriptor, bytes, size);

    if (err != 0)
        return err;
    file->size += size;
    file->weight += weight;
    file->unsynced += weight;
    if (file->is_zst)
        fp_zstd_table_add(&file->table, size, text);
    return 0;
}

int fp_log_file_cut(struct fp_log_file *file)
{
    return fp_fs_cut(file->descriptor, file->size);
}

int fp_log_file_sync(struct fp_log_file *file, uint64_t *unsaved)
{
    int err = fp_fs_sync(file->descriptor);

    if (err != 0) {
        *unsaved += file->unsynced;
        file->weight -= file->unsynced;
    }
    file->unsynced = 0;
    return err;
}

bool fp_log_file_is_named(const struct fp_log_file *file, int folder)
{
    char name[FP_LOG_NAME_ROOM];

    fp_log_name_print(&file->name, name);
    return fp_fs_is_named(folder, name, file->descriptor);
}

/* A file without a table is whole, too: a full disk is no error here. */
static int write_table(struct fp_log_file *file, uint64_t *bytes)
{
    size_t size;
    char *table = file->is_zst ? fp_zstd_table_print(&file->table, &size) : NULL;
    int err;

    if (table == NULL)
        return 0;
    err = fp_fs_write(file->descriptor, table, size);
    free(table);
    if (err == 0)
        *bytes += size;
    else if (fp_log_file_cut(file) == 0 && fp_fs_is_full(err))
        err = 0;
    return err;
}

int fp_log_file_finish(struct fp_log_file *file, int folder, bool is_synced, uint64_t *bytes,
                       uint64_t *unsaved)
{
    int err = write_table(file, bytes);

    if (err != 0)
        return err;
    if (is_synced)
        err = fp_log_file_sync(file, unsaved);
    if (err == 0)
        err = fp_directory_finish(folder, &file->name);
    if (err != 0 && !fp_log_file_is_named(file, folder)) {
        *unsaved += file->weight;
        file->weight = 0;
    }
    if (err == 0 && is_synced)
        err = fp_fs_sync_folder(folder);
    return err;
}

int fp_log_file_remove(const struct fp_log_file *file, int folder)
{
    char name[FP_LOG_NAME_ROOM];

    fp_log_name_print(&file->name, name);
    return fp_fs_remove(folder, name);
}

void fp_log_file_close(struct fp_log_file *file)
{
    fp_fs_close(file->descriptor);
    file->descriptor = -1;
    fp_zstd_table_free(&file->table);
}
