#include "cstack/elf.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cstack/bytes.h"

#define PAGE 4096u
#define SECTIONS_MAX 1024u
#define NOTES_BYTES_MAX 4096u

/* ---- segments --------------------------------------------------------- */

/* A note is {name size, description size, type}, a name and a description, these two padded to 4
 * bytes. */
static void find_build_id(struct fp_elf *elf, const struct fp_elf_source *source,
                          const struct fp_elf_part *notes)
{
    unsigned char *loaded = notes->size > NOTES_BYTES_MAX ? NULL : fp_elf_load(source, notes);
    struct fp_bytes bytes, name, id;

    if (loaded == NULL)
        return;
    bytes = fp_bytes(loaded, notes->size);
    while (fp_bytes_left(&bytes) > 0 && elf->build_id.size == 0) {
        uint32_t name_size = fp_bytes_u32(&bytes);
        uint32_t size = fp_bytes_u32(&bytes);
        uint32_t type = fp_bytes_u32(&bytes);
        uint64_t offset;

        name = fp_bytes_part(&bytes, ((uint64_t)name_size + 3) & ~UINT64_C(3));
        id = fp_bytes_part(&bytes, ((uint64_t)size + 3) & ~UINT64_C(3));
        offset = (uint64_t)(id.at - loaded);
        if (!bytes.is_bad && type == NT_GNU_BUILD_ID && name_size == 4 &&
            memcmp(name.at, "GNU", 4) == 0 && size <= FP_BUILD_ID_MAX)
            elf->build_id =
                (struct fp_elf_part){notes->address + offset, notes->offset + offset, size};
    }
    free(loaded);
}

static void add_segment(struct fp_elf *elf, const struct fp_elf_source *source,
                        const Elf64_Phdr *header)
{
    struct fp_elf_part part = {header->p_vaddr, header->p_offset, header->p_filesz};

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
    Elf64_Phdr segment;

    if (header->e_phentsize != sizeof segment)
        return FP_EINVAL;
    for (uint32_t i = 0; i < header->e_phnum; i++) {
        uint64_t offset = header->e_phoff + i * sizeof segment;

        if (source->read(source->self, offset, &segment, sizeof segment) != 0)
            return FP_EIO;
        add_segment(elf, source, &segment);
    }
    return elf->segment_count > 0 ? 0 : FP_EINVAL;
}

/* ---- sections --------------------------------------------------------- */

static int read_section(const struct fp_elf_source *source, const Elf64_Ehdr *header, uint32_t i,
                        Elf64_Shdr *section)
{
    uint64_t offset = header->e_shoff + i * sizeof *section;

    return i >= header->e_shnum ? FP_EINVAL
                                : source->read(source->self, offset, section, sizeof *section);
}

/* A library runs without sections: wrong ones leave it without symbols. */
static void read_sections(struct fp_elf *elf, const struct fp_elf_source *source,
                          const Elf64_Ehdr *header)
{
    Elf64_Shdr section, names;

    if (header->e_shentsize != sizeof section)
        return;
    for (uint32_t i = 0; i < SECTIONS_MAX && read_section(source, header, i, &section) == 0; i++) {
        if ((section.sh_type != SHT_SYMTAB && section.sh_type != SHT_DYNSYM) ||
            section.sh_entsize != sizeof(Elf64_Sym) ||
            read_section(source, header, section.sh_link, &names) != 0 ||
            names.sh_type != SHT_STRTAB)
            continue;
        *(section.sh_type == SHT_SYMTAB ? &elf->symtab : &elf->dynsym) =
            (struct fp_elf_symbols){{section.sh_addr, section.sh_offset, section.sh_size},
                                    {names.sh_addr, names.sh_offset, names.sh_size}};
    }
}

/* ---- the interface ---------------------------------------------------- */

int fp_elf_parse(struct fp_elf *elf, const struct fp_elf_source *source)
{
    Elf64_Ehdr header;
    int err;

    memset(elf, 0, sizeof *elf);
    if (source->read(source->self, 0, &header, sizeof header) != 0)
        return FP_EIO;
    if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
        header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_machine != EM_X86_64)
        return FP_EINVAL;
    if ((err = read_segments(elf, source, &header)) == 0)
        read_sections(elf, source, &header);
    return err;
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

unsigned char *fp_elf_load(const struct fp_elf_source *source, const struct fp_elf_part *part)
{
    unsigned char *bytes;

    if (part->size == 0 || part->size > FP_ELF_PART_MAX)
        return NULL;
    bytes = malloc(part->size);
    if (bytes != NULL && source->read(source->self, part->offset, bytes, part->size) != 0) {
        free(bytes);
        return NULL;
    }
    return bytes;
}
