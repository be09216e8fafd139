/* A table of atoms that ends early, for flame_prof_terms_out_SUITE: where the file that the
 * environment variable FLAME_PROF_TEST_ATOMS names has a number, the VM has so many atoms for the
 * library. The test libraries are linked with `--wrap' of both functions: erts/atom.c calls its own
 * count itself. */
#include <stdio.h>
#include <stdlib.h>

#include "erts/atom.h"
#include "erts/term.h"

uint32_t __real_fp_atom_count(const struct fp_layout *layout, const struct fp_memory *memory);
uint32_t __wrap_fp_atom_count(const struct fp_layout *layout, const struct fp_memory *memory);
int __real_fp_atom_is_known(const struct fp_layout *layout, const struct fp_memory *memory,
                            uint64_t word, uint32_t *count);
int __wrap_fp_atom_is_known(const struct fp_layout *layout, const struct fp_memory *memory,
                            uint64_t word, uint32_t *count);

uint32_t __wrap_fp_atom_count(const struct fp_layout *layout, const struct fp_memory *memory)
{
    uint32_t count = __real_fp_atom_count(layout, memory);
    const char *name = getenv("FLAME_PROF_TEST_ATOMS");
    FILE *file = name == NULL ? NULL : fopen(name, "r");

    if (file != NULL) {
        if (fscanf(file, "%u", &count) != 1)
            count = 0;
        (void)fclose(file);
    }
    return count;
}

int __wrap_fp_atom_is_known(const struct fp_layout *layout, const struct fp_memory *memory,
                            uint64_t word, uint32_t *count)
{
    return __real_fp_atom_is_known(layout, memory, word, count) &&
           fp_atom_index(word) < __wrap_fp_atom_count(layout, memory);
}
