#include "cstack/elf.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cstack/bytes.h"

#define PAGE 4096u
#define SECTIONS_MAX 1024u
#define NOTES_BYTES_MAX 4096u

static int read_header(const struct fp_elf_source *source, Elf64_Ehdr *header)
{
    if (source->read(source->self, 0, header, sizeof *header) != 0)
        return FP_EIO;
    if (memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64 ||
        header->e_ident[EI_DATA] != ELFDATA2LSB || header->e_machine != EM_X86_64)
        return FP_EINVAL;
    return 0;
}

static struct fp_elf_part of_segment(const Elf64_Phdr *header)
{
    return (struct fp_elf_part){header->p_vaddr, header->p_offset, header->p_filesz};
}

/* A note is {name size, description size, type}, a name and a description, these two padded to 4
 * bytes. */
static void find_build_id(struct fp_elf *elf, const struct fp_elf_source *source,
                          const struct fp_elf_part *notes)
{
    unsigned char *loaded = fp_elf_load(source, notes, NOTES_BYTES_MAX);
    struct fp_bytes bytes;

    if (loaded == NULL)
        return;
    bytes = fp_bytes(loaded, notes->size);
    while (fp_bytes_left(&bytes) > 0) {
        uint32_t name_size = fp_bytes_u32(&bytes);
        uint32_t size = fp_bytes_u32(&bytes);
        uint32_t type = fp_bytes_u32(&bytes);
        const unsigned char *name = bytes.at;
        uint64_t offset;

        fp_bytes_skip(&bytes, ((uint64_t)name_size + 3) & ~UINT64_C(3));
        offset = (uint64_t)(bytes.at - loaded);
        fp_bytes_skip(&bytes, ((uint64_t)size + 3) & ~UINT64_C(3));
        if (bytes.is_bad || type != NT_GNU_BUILD_ID || name_size != 4 ||
            memcmp(name, "GNU", 4) != 0 || size == 0 || size > FP_BUILD_ID_MAX)
            continue;
        elf->build_id = (struct fp_elf_part){notes->address + offset, notes->offset + offset, size};
        break;
    }
    free(loaded);
}

static void add_segment(struct fp_elf *elf, const struct fp_elf_source *source,
                        const Elf64_Phdr *header)
{
    struct fp_elf_part part = of_segment(header);

    /* Without these the sums below do not wrap around. */
    if (part.address + part.size < part.address || part.offset + part.size < part.offset)
        return;
    if (header->p_type == PT_LOAD && elf->segment_count < FP_ELF_SEGMENTS_MAX)
        elf->segment[elf->segment_count++] =
            (struct fp_elf_segment){part, (header->p_flags & PF_X) != 0};
    else if (header->p_type == PT_GNU_EH_FRAME)
        elf->frame_index = part;
    else if (header->p_type == PT_NOTE && elf->build_id.size == 0)
        find_build_id(elf, source, &part);
}

static int read_segments(struct fp_elf *elf, const struct fp_elf_source *source,
                         const Elf64_Ehdr *header)
{
    if (header->e_phentsize != sizeof(Elf64_Phdr))
        return FP_EINVAL;
    for (uint32_t i = 0; i < header->e_phnum; i++) {
        Elf64_Phdr segment;

        if (source->read(source->self, header->e_phoff + i * sizeof segment, &segment,
                         sizeof segment) != 0)
            return FP_EIO;
        add_segment(elf, source, &segment);
    }
    return elf->segment_count > 0 ? 0 : FP_EINVAL;
}

static int read_section(const struct fp_elf_source *source, const Elf64_Ehdr *header, uint32_t i,
                        Elf64_Shdr *section)
{
    if (i >= header->e_shnum)
        return FP_EINVAL;
    return source->read(source->self, header->e_shoff + i * sizeof *section, section,
                        sizeof *section);
}

static void find_symbols(const struct fp_elf_source *source, const Elf64_Ehdr *header,
                         const Elf64_Shdr *section, struct fp_elf_part *symbols,
                         struct fp_elf_part *strings)
{
    Elf64_Shdr names;

    if (section->sh_entsize != sizeof(Elf64_Sym) ||
        read_section(source, header, section->sh_link, &names) != 0 || names.sh_type != SHT_STRTAB)
        return;
    *symbols = (struct fp_elf_part){section->sh_addr, section->sh_offset, section->sh_size};
    *strings = (struct fp_elf_part){names.sh_addr, names.sh_offset, names.sh_size};
}

/* A library runs without sections: wrong ones leave it without symbols. */
static void read_sections(struct fp_elf *elf, const struct fp_elf_source *source,
                          const Elf64_Ehdr *header)
{
    Elf64_Shdr section;

    if (header->e_shentsize != sizeof section)
        return;
    for (uint32_t i = 0; i < header->e_shnum && i < SECTIONS_MAX; i++) {
        if (read_section(source, header, i, &section) != 0)
            return;
        if (section.sh_type == SHT_SYMTAB)
            find_symbols(source, header, &section, &elf->symbols, &elf->strings);
        else if (section.sh_type == SHT_DYNSYM)
            find_symbols(source, header, &section, &elf->dynamic_symbols, &elf->dynamic_strings);
    }
}

int fp_elf_parse(struct fp_elf *elf, const struct fp_elf_source *source)
{
    Elf64_Ehdr header;
    int err;

    memset(elf, 0, sizeof *elf);
    if ((err = read_header(source, &header)) != 0)
        return err;
    if ((err = read_segments(elf, source, &header)) != 0)
        return err;
    read_sections(elf, source, &header);
    return 0;
}

int fp_elf_at(const struct fp_elf *elf, uint64_t address, struct fp_elf_part *part)
{
    for (uint32_t i = 0; i < elf->segment_count; i++) {
        const struct fp_elf_part *in_file = &elf->segment[i].in_file;
        uint64_t skip = address - in_file->address;

        if (skip >= in_file->size)
            continue;
        *part = (struct fp_elf_part){address, in_file->offset + skip, in_file->size - skip};
        return 0;
    }
    return FP_ENOENT;
}

int fp_elf_code_address(const struct fp_elf *elf, uint64_t offset, uint64_t *address)
{
    for (uint32_t i = 0; i < elf->segment_count; i++) {
        const struct fp_elf_part *in_file = &elf->segment[i].in_file;
        uint64_t first = in_file->offset & ~(uint64_t)(PAGE - 1);

        if (!elf->segment[i].is_code || offset - first >= in_file->size + (in_file->offset - first))
            continue;
        *address = in_file->address + (offset - in_file->offset);
        return 0;
    }
    return FP_ENOENT;
}

unsigned char *fp_elf_load(const struct fp_elf_source *source, const struct fp_elf_part *part,
                           size_t most)
{
    unsigned char *bytes;

    if (part->size == 0 || part->size > most)
        return NULL;
    bytes = malloc(part->size);
    if (bytes != NULL && source->read(source->self, part->offset, bytes, part->size) != 0) {
        free(bytes);
        return NULL;
    }
    return bytes;
}
