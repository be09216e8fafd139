/*
 * native.c - make the set of libraries, and ask it for names.
 *
 *      /proc/self/maps --> mapping --> library --> image: cfi, symbols
 *                                         one for each file
 */
#include "cstack/cstack.h"
#include "base/assume.h"

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

/* ---- sources ---------------------------------------------------------- */

/* An image in memory. It may be unmapped, or its file truncated, while it is
 * read. */
struct memory_image {
    const struct fp_memory *memory;
    uint64_t address;
};

static int read_memory(void *self, uint64_t offset, void *into, size_t size)
{
    const struct memory_image *image = self;

    return fp_safe_read(image->memory, image->address + offset, into, size) == 0
               ? 0
               : FP_EIO;
}

static int read_file(void *self, uint64_t offset, void *into, size_t size)
{
    const int *fd = self;

    for (size_t done = 0; done < size;) {
        ssize_t got = -1;

        if (offset + done <= INT64_MAX)
            got = pread(*fd, (char *)into + done, size - done,
                        (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return FP_EIO;
        done += (size_t)got;
    }
    return 0;
}

/* The executable is there as long as it runs, also when its path is another
 * file by now, or none. */
static int open_file(const struct fp_mapped_file *file)
{
    char exe[PATH_MAX + 16];
    ssize_t size = readlink("/proc/self/exe", exe, PATH_MAX);
    size_t path_size = strlen(file->path);
    const char *path = file->path;

    if (size >= 0 && strncmp(exe, path, path_size) == 0 &&
        ((size_t)size == path_size ||
         ((size_t)size > path_size && exe[path_size] == ' ')))
        path = "/proc/self/exe";
    /* Somebody may have put a pipe there. */
    return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

/* ---- is this the file that is mapped? --------------------------------- */

static int is_same_inode(const struct fp_mapped_file *file,
                         const struct stat *info)
{
    return file->inode == info->st_ino &&
           file->device_major == major(info->st_dev) &&
           file->device_minor == minor(info->st_dev);
}

/* 1 or 0; -1 when the file has none, or memory cannot be read. */
static int has_memory_s_build_id(const struct fp_elf *elf, uint64_t bias,
                                 const struct fp_elf_source *source)
{
    unsigned char on_disk[FP_BUILD_ID_MAX], in_memory[FP_BUILD_ID_MAX];
    size_t size = elf->build_id.size;
    struct fp_memory memory;
    int is_same;

    if (size == 0 || fp_safe_read_open(&memory) != 0)
        return -1;
    is_same =
        source->read(source->self, elf->build_id.offset, on_disk, size) == 0 &&
        fp_safe_read(&memory, bias + elf->build_id.address, in_memory, size) ==
            0 &&
        memcmp(on_disk, in_memory, size) == 0;
    fp_safe_read_close(&memory);
    return is_same;
}

/* By its build id, which stays what it is where file systems tell one number to
 * maps and another to fstat (overlayfs, btrfs); else by device and inode. */
static int is_same_file(const struct fp_mapped_file *file, int fd,
                        const struct fp_elf *elf,
                        const struct fp_elf_source *source)
{
    struct stat info;
    uint64_t address;
    int by_build_id;

    if (fstat(fd, &info) != 0 ||
        fp_elf_code_address(elf, file->offset, &address) != 0)
        return 0;
    by_build_id = has_memory_s_build_id(elf, file->start - address, source);
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
        err = is_same_file(file, fd, &image->elf, &source)
                  ? fp_image_load(image, &source)
                  : FP_EINVAL;
    close(fd);
    return err;
}

static void destroy_library(struct fp_cstack_library *library)
{
    FP_ASSUME(library != NULL); /* only what was made is counted */
    fp_image_unload(&library->image);
    free(library->name);
    free(library);
}

static int create_library(struct fp_cstack_library **library,
                          const struct fp_mapped_file *file)
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
    err = file->path[0] == '/' ? load_file(&made->image, file)
                               : load_vdso(&made->image, file);
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
static int is_alike(const struct fp_mapped_file *a,
                    const struct fp_mapped_file *b)
{
    return a->inode == b->inode && a->device_major == b->device_major &&
           a->device_minor == b->device_minor && strcmp(a->path, b->path) == 0;
}

static struct fp_cstack_library *
known_library(const struct fp_cstack *native,
              const struct fp_mapped_files *files, size_t i)
{
    for (size_t k = i; k-- > 0;)
        if (is_alike(&files->of[k], &files->of[i]))
            return native->mapping[k].library;
    return NULL;
}

static int add_mapping(struct fp_cstack *native,
                       const struct fp_mapped_files *files, size_t i)
{
    const struct fp_mapped_file *file = &files->of[i];
    struct fp_cstack_library *library = known_library(native, files, i);
    uint64_t address;

    if (library == NULL) {
        int err = create_library(&library, file);

        if (err != 0)
            return err;
        native->library[native->libraries++] = library;
    }
    if (fp_elf_code_address(&library->image.elf, file->offset, &address) != 0)
        address = 0; /* there is nothing then that a bias would be needed for */
    native->mapping[native->mappings++] = (struct fp_mapping){
        file->start, file->end, file->start - address, library};
    return 0;
}

static int fill(struct fp_cstack *native, const struct fp_mapped_files *files)
{
    native->mapping = calloc(files->count + 1, sizeof *native->mapping);
    native->library = calloc(files->count + 1, sizeof *native->library);
    if (native->mapping == NULL || native->library == NULL)
        return FP_ENOMEM;
    for (size_t i = 0; i < files->count; i++) {
        int err = add_mapping(native, files, i);

        if (err != 0)
            return err;
    }
    return 0;
}

static int note_counters(struct dl_phdr_info *info, size_t size, void *into)
{
    struct fp_cstack *native = into;

    (void)size;
    native->loaded = info->dlpi_adds;
    native->unloaded = info->dlpi_subs;
    return 1; /* they are the same for all libraries */
}

int fp_cstack_create(struct fp_cstack **out)
{
    struct fp_cstack *native = calloc(1, sizeof *native);
    struct fp_mapped_files files;
    int err;

    if (native == NULL)
        return FP_ENOMEM;
    /* Before the maps: what is loaded in between is in the set or is not, and
     * the set does not pass for current. */
    dl_iterate_phdr(note_counters, native);
    err = fp_mapped_files_read(&files);
    if (err == 0)
        err = fill(native, &files);
    fp_mapped_files_free(&files);
    if (err != 0) {
        fp_cstack_destroy(native);
        return err;
    }
    *out = native;
    return 0;
}

void fp_cstack_destroy(struct fp_cstack *native)
{
    if (native == NULL)
        return;
    for (size_t i = 0; i < native->libraries; i++)
        destroy_library(native->library[i]);
    free(native->library);
    free(native->mapping);
    free(native);
}

int fp_cstack_is_current(const struct fp_cstack *native)
{
    struct fp_cstack now;

    dl_iterate_phdr(note_counters, &now);
    return now.loaded == native->loaded && now.unloaded == native->unloaded;
}

size_t fp_cstack_bytes(const struct fp_cstack *native)
{
    size_t bytes = sizeof *native + native->mappings * sizeof *native->mapping;

    for (size_t i = 0; i < native->libraries; i++) {
        const struct fp_image *image = &native->library[i]->image;

        bytes += sizeof *native->library[i] +
                 image->rows.count *
                     (sizeof *image->rows.from + sizeof *image->rows.shape) +
                 image->rows.distinct_count * sizeof *image->rows.distinct +
                 image->symbols.count * sizeof *image->symbols.entry +
                 image->symbols.names_size;
    }
    return bytes;
}

int fp_cstack_resolve(const struct fp_cstack *native, uint64_t pc,
                      const char **name, const char **library)
{
    const struct fp_mapping *mapping = fp_cstack_mapping(native, pc);

    if (mapping == NULL)
        return FP_ENOENT;
    *library = mapping->library->name;
    *name = fp_symbol_table_find(&mapping->library->image.symbols,
                                 pc - mapping->bias);
    return 0;
}
