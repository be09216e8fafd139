/*
 * cstack.c - make the set of libraries, and find names in it.
 *
 *      /proc/self/maps --> mapping --> library --> image: rows, symbols
 *                                         one for each file
 */
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

#include "base/assume.h"
#include "base/error.h"
#include "base/maps.h"
#include "base/safe_read.h"
#include "cstack/image.h"

/* ---- sources ---------------------------------------------------------- */

/* An image in memory. It may be unmapped, or its file truncated, while it is read. */
struct memory_image {
    const struct fp_memory *memory;
    uint64_t address;
};

static int read_memory(void *self, uint64_t offset, void *into, size_t size)
{
    const struct memory_image *image = self;

    return fp_safe_read(image->memory, image->address + offset, into, size) == 0 ? 0 : FP_EIO;
}

static int read_file(void *self, uint64_t offset, void *into, size_t size)
{
    const int *fd = self;

    for (size_t done = 0; done < size;) {
        ssize_t got = -1;

        if (offset + done <= INT64_MAX)
            got = pread(*fd, (char *)into + done, size - done, (off_t)(offset + done));
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
static int open_file(const struct fp_mapped_file *file)
{
    char exe[PATH_MAX + 16];
    ssize_t size = readlink("/proc/self/exe", exe, PATH_MAX);
    size_t path_size = strlen(file->path);
    const char *path = file->path;

    if (size >= 0 && strncmp(exe, path, path_size) == 0 &&
        ((size_t)size == path_size || ((size_t)size > path_size && exe[path_size] == ' ')))
        path = "/proc/self/exe";
    /* The path may be a pipe by now. */
    return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

/* ---- is this the file that is mapped? --------------------------------- */

static int is_same_inode(const struct fp_mapped_file *file, const struct stat *info)
{
    return file->inode == info->st_ino && file->device_major == major(info->st_dev) &&
           file->device_minor == minor(info->st_dev);
}

/* 1 or 0; -1 when the file has none, or memory cannot be read. */
static int is_build_id_in_memory(const struct fp_elf *elf, uint64_t bias,
                                 const struct fp_elf_source *source)
{
    unsigned char on_disk[FP_BUILD_ID_MAX], in_memory[FP_BUILD_ID_MAX];
    size_t size = elf->build_id.size;
    struct fp_memory memory;
    int is_same;

    if (size == 0 || fp_safe_read_open(&memory) != 0)
        return -1;
    is_same = source->read(source->self, elf->build_id.offset, on_disk, size) == 0 &&
              fp_safe_read(&memory, bias + elf->build_id.address, in_memory, size) == 0 &&
              memcmp(on_disk, in_memory, size) == 0;
    fp_safe_read_close(&memory);
    return is_same;
}

/* By its build id: some file systems (overlayfs, btrfs) have one inode number in maps and another
 * in fstat. Without one by device and inode. */
static int is_same_file(const struct fp_mapped_file *file, int fd, const struct fp_elf *elf,
                        const struct fp_elf_source *source)
{
    struct stat info;
    uint64_t address;
    int by_build_id;

    if (fstat(fd, &info) != 0 || fp_elf_code_address(elf, file->offset, &address) != 0)
        return 0;
    by_build_id = is_build_id_in_memory(elf, file->start - address, source);
    return by_build_id >= 0 ? by_build_id : is_same_inode(file, &info);
}

/* ---- libraries -------------------------------------------------------- */

static int load_vdso(struct fp_image *image, const struct fp_mapped_file *file)
{
    struct fp_memory memory;
    struct memory_image vdso = {&memory, file->start};
    struct fp_elf_source source = {read_memory, &vdso};
    int err = fp_safe_read_open(&memory);

    if (err != 0)
        return err;
    err = fp_image_load(image, &source);
    fp_safe_read_close(&memory);
    return err;
}

static int is_regular(int fd)
{
    struct stat info;

    return fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
}

static int load_file(struct fp_image *image, const struct fp_mapped_file *file)
{
    int fd = open_file(file), err = FP_EIO;
    struct fp_elf_source source = {read_file, &fd};

    if (fd < 0)
        return FP_EIO;
    if (is_regular(fd))
        err = fp_elf_parse(&image->elf, &source);
    if (err == 0)
        err = is_same_file(file, fd, &image->elf, &source) ? fp_image_load(image, &source)
                                                           : FP_EINVAL;
    close(fd);
    return err;
}

static void destroy_library(struct fp_cstack_library *library)
{
    FP_ASSUME(library != NULL); /* only made ones are counted */
    fp_image_unload(&library->image);
    free(library->name);
    free(library);
}

static int create_library(struct fp_cstack_library **library, const struct fp_mapped_file *file)
{
    const char *slash = strrchr(file->path, '/');
    struct fp_cstack_library *made = calloc(1, sizeof *made);
    int err;

    if (made == NULL)
        return FP_ENOMEM;
    made->name = strdup(slash == NULL ? file->path : slash + 1);
    if (made->name == NULL) {
        free(made);
        return FP_ENOMEM;
    }
    err = file->path[0] == '/' ? load_file(&made->image, file) : load_vdso(&made->image, file);
    if (err == FP_ENOMEM) {
        destroy_library(made);
        return FP_ENOMEM;
    }
    if (err != 0) /* known by its name */
        memset(&made->image, 0, sizeof made->image);
    *library = made;
    return 0;
}

/* ---- the set ---------------------------------------------------------- */

/* Two mappings are of one file. */
static int is_alike(const struct fp_mapped_file *a, const struct fp_mapped_file *b)
{
    return a->inode == b->inode && a->device_major == b->device_major &&
           a->device_minor == b->device_minor && strcmp(a->path, b->path) == 0;
}

static struct fp_cstack_library *known_library(const struct fp_cstack *cstack,
                                               const struct fp_mapped_files *files, size_t i)
{
    for (size_t k = i; k-- > 0;)
        if (is_alike(&files->of[k], &files->of[i]))
            return cstack->mapping[k].library;
    return NULL;
}

static int add_mapping(struct fp_cstack *cstack, const struct fp_mapped_files *files, size_t i)
{
    const struct fp_mapped_file *file = &files->of[i];
    struct fp_cstack_library *library = known_library(cstack, files, i);
    uint64_t address;

    if (library == NULL) {
        int err = create_library(&library, file);

        if (err != 0)
            return err;
        cstack->library[cstack->libraries++] = library;
    }
    if (fp_elf_code_address(&library->image.elf, file->offset, &address) != 0)
        address = 0; /* without an image no bias is needed */
    cstack->mapping[cstack->mappings++] =
        (struct fp_mapping){file->start, file->end, file->start - address, library};
    return 0;
}

static int fill(struct fp_cstack *cstack, const struct fp_mapped_files *files)
{
    cstack->mapping = calloc(files->count + 1, sizeof *cstack->mapping);
    cstack->library = calloc(files->count + 1, sizeof *cstack->library);
    if (cstack->mapping == NULL || cstack->library == NULL)
        return FP_ENOMEM;
    for (size_t i = 0; i < files->count; i++) {
        int err = add_mapping(cstack, files, i);

        if (err != 0)
            return err;
    }
    return 0;
}

static int note_counters(struct dl_phdr_info *info, size_t size, void *into)
{
    struct fp_cstack *cstack = into;

    (void)size;
    cstack->loaded = info->dlpi_adds;
    cstack->unloaded = info->dlpi_subs;
    return 1; /* they are the same for all libraries */
}

int fp_cstack_create(struct fp_cstack **out)
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
        err = fill(cstack, &files);
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

size_t fp_cstack_bytes(const struct fp_cstack *cstack)
{
    size_t bytes = sizeof *cstack + cstack->mappings * sizeof *cstack->mapping;

    for (size_t i = 0; i < cstack->libraries; i++) {
        const struct fp_image *image = &cstack->library[i]->image;

        bytes += sizeof *cstack->library[i] +
                 image->rows.count * (sizeof *image->rows.from + sizeof *image->rows.shape) +
                 image->rows.distinct_count * sizeof *image->rows.distinct +
                 image->symbols.count * sizeof *image->symbols.entry + image->symbols.names_size;
    }
    return bytes;
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
