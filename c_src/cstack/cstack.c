/* cstack.c - make the set of libraries, and find names in it.
 *
 *      /proc/self/maps --> mapping --> library --> image: rows, symbols
 *                                         one for each file */
#include "cstack/cstack.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/error.h"
#include "base/maps.h"
#include "base/safe_read.h"
#include "cstack/image.h"

/* A set in the making. */
struct making {
    struct fp_cstack *cstack;
    const struct fp_mapped_file *file; /* the current one */
    struct fp_memory memory;
    int fd;           /* of `file` */
    size_t bytes_max; /* of the images */
};

/* ---- sources ---------------------------------------------------------- */

/* The vDSO. It may be unmapped while it is read. */
static int read_memory(void *self, uint64_t offset, void *into, size_t size)
{
    const struct making *making = self;
    uint64_t address = making->file->start + offset;

    return fp_safe_read(&making->memory, address, into, size) == 0 ? 0 : FP_EIO;
}

/* The file may be truncated while it is read. */
static int read_file(void *self, uint64_t offset, void *into, size_t size)
{
    const struct making *making = self;

    for (size_t done = 0; done < size;) {
        ssize_t got = -1;

        if (offset + done <= INT64_MAX)
            got = pread(making->fd, (char *)into + done, size - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return FP_EIO;
        done += (size_t)got;
    }
    return 0;
}

/* /proc/self/exe is the executable as long as it runs, also when its path is
 * another file by now, or none. */
static int open_file(const char *path)
{
    char exe[PATH_MAX + 16];
    ssize_t size = readlink("/proc/self/exe", exe, PATH_MAX);
    size_t path_size = strlen(path);

    if (size >= 0 && strncmp(exe, path, path_size) == 0 &&
        ((size_t)size == path_size || ((size_t)size > path_size && exe[path_size] == ' ')))
        path = "/proc/self/exe";
    /* The path may be a pipe by now. */
    return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

/* ---- libraries -------------------------------------------------------- */

/* Whether the open file is the mapped one. By its build id: some file systems (overlayfs, btrfs)
 * have one inode number in maps and another in fstat. Without one by device and inode. */
static int is_same_file(struct making *making, const struct fp_elf *elf, const struct stat *info)
{
    const struct fp_mapped_file *file = making->file;
    unsigned char on_disk[FP_BUILD_ID_MAX], in_memory[FP_BUILD_ID_MAX];
    size_t size = elf->build_id.size;
    uint64_t address;

    if (fp_elf_code_address(elf, file->offset, &address) != 0)
        return 0;
    if (size == 0)
        return file->inode == info->st_ino && file->device_major == major(info->st_dev) &&
               file->device_minor == minor(info->st_dev);
    address = file->start - address + elf->build_id.address;
    return read_file(making, elf->build_id.offset, on_disk, size) == 0 &&
           fp_safe_read(&making->memory, address, in_memory, size) == 0 &&
           memcmp(on_disk, in_memory, size) == 0;
}

static int load_file(struct making *making, struct fp_image *image, size_t room)
{
    struct fp_elf_source source = {read_file, making};
    struct stat info;
    int err = FP_EIO;

    making->fd = open_file(making->file->path);
    if (making->fd < 0)
        return FP_EIO;
    if (fstat(making->fd, &info) == 0 && S_ISREG(info.st_mode))
        err = fp_elf_parse(&image->elf, &source);
    if (err == 0 && !is_same_file(making, &image->elf, &info))
        err = FP_EINVAL;
    if (err == 0)
        err = fp_image_load(image, &source, room);
    close(making->fd);
    return err;
}

static void destroy_library(struct fp_cstack_library *library)
{
    fp_image_unload(&library->image);
    free(library->name);
    free(library);
}

/* 0 or FP_ENOMEM. A library whose file does not load is known by its name. */
static int add_library(struct making *making)
{
    struct fp_cstack *cstack = making->cstack;
    const char *path = making->file->path, *slash = strrchr(path, '/');
    struct fp_elf_source vdso = {read_memory, making};
    size_t room = making->bytes_max - cstack->bytes;
    struct fp_cstack_library *library = calloc(1, sizeof *library);
    int err;

    if (library == NULL)
        return FP_ENOMEM;
    cstack->library[cstack->libraries++] = library;
    library->name = strdup(slash == NULL ? path : slash + 1);
    if (library->name == NULL)
        return FP_ENOMEM;
    err = path[0] == '/' ? load_file(making, &library->image, room)
                         : fp_image_load(&library->image, &vdso, room);
    if (err != 0)
        memset(&library->image, 0, sizeof library->image);
    cstack->bytes += fp_image_bytes(&library->image);
    cstack->left_out += err == FP_EFULL;
    return err == FP_ENOMEM ? FP_ENOMEM : 0;
}

/* ---- the set ---------------------------------------------------------- */

/* Two mappings are of one file. */
static int is_alike(const struct fp_mapped_file *a, const struct fp_mapped_file *b)
{
    return a->inode == b->inode && a->device_major == b->device_major &&
           a->device_minor == b->device_minor && strcmp(a->path, b->path) == 0;
}

static int add_mapping(struct making *making, const struct fp_mapped_files *files, size_t i)
{
    const struct fp_mapped_file *file = making->file = &files->of[i];
    struct fp_cstack *cstack = making->cstack;
    struct fp_mapping *mapping = &cstack->mapping[i];
    uint64_t address = 0;
    size_t k = i;

    while (k > 0 && !is_alike(&files->of[k - 1], file))
        k--;
    if (k == 0 && add_library(making) != 0)
        return FP_ENOMEM;
    mapping->library =
        k > 0 ? cstack->mapping[k - 1].library : cstack->library[cstack->libraries - 1];
    /* Without an image no bias is needed. */
    fp_elf_code_address(&mapping->library->image.elf, file->offset, &address);
    mapping->start = file->start;
    mapping->end = file->end;
    mapping->bias = file->start - address;
    cstack->mappings++;
    return 0;
}

static int fill(struct fp_cstack *cstack, const struct fp_mapped_files *files, size_t bytes_max)
{
    struct making making = {.cstack = cstack, .bytes_max = bytes_max};
    int err = 0;

    cstack->mapping = calloc(files->count + 1, sizeof *cstack->mapping);
    cstack->library = calloc(files->count + 1, sizeof *cstack->library);
    if (cstack->mapping == NULL || cstack->library == NULL)
        return FP_ENOMEM;
    fp_safe_read_open(&making.memory); /* or all reads fail */
    for (size_t i = 0; i < files->count && err == 0; i++)
        err = add_mapping(&making, files, i);
    fp_safe_read_close(&making.memory);
    return err;
}

static int note_counters(struct dl_phdr_info *info, size_t size, void *into)
{
    struct fp_cstack *cstack = into;

    (void)size;
    cstack->loaded = info->dlpi_adds;
    cstack->unloaded = info->dlpi_subs;
    return 1; /* they are the same for all libraries */
}

int fp_cstack_create(struct fp_cstack **out, size_t bytes_max)
{
    struct fp_cstack *cstack = calloc(1, sizeof *cstack);
    struct fp_mapped_files files;
    int err;

    if (cstack == NULL)
        return FP_ENOMEM;
    /* Before the maps: a library that comes in between makes the set not current, whether the set
     * has it or not. */
    dl_iterate_phdr(note_counters, cstack);
    err = fp_mapped_files_read(&files);
    if (err == 0)
        err = fill(cstack, &files, bytes_max);
    fp_mapped_files_free(&files);
    if (err != 0) {
        fp_cstack_destroy(cstack);
        return err;
    }
    *out = cstack;
    return 0;
}

void fp_cstack_destroy(struct fp_cstack *cstack)
{
    if (cstack == NULL)
        return;
    for (size_t i = 0; i < cstack->libraries; i++)
        destroy_library(cstack->library[i]);
    free(cstack->library);
    free(cstack->mapping);
    free(cstack);
}

int fp_cstack_is_current(const struct fp_cstack *cstack)
{
    struct fp_cstack now;

    dl_iterate_phdr(note_counters, &now);
    return now.loaded == cstack->loaded && now.unloaded == cstack->unloaded;
}

int fp_cstack_resolve(const struct fp_cstack *cstack, uint64_t pc, const char **name,
                      const char **library)
{
    const struct fp_mapping *mapping = fp_cstack_mapping(cstack, pc);

    if (mapping == NULL)
        return FP_ENOENT;
    *library = mapping->library->name;
    *name = fp_symbol_table_find(&mapping->library->image.symbols, pc - mapping->bias);
    return 0;
}
