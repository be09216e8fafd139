/* A table of atoms that ends early, for flame_prof_terms_out_SUITE: where the file that the
 * environment variable FLAME_PROF_TEST_ATOMS names has a number, the VM has so many atoms for the
 * library. Both test libraries are linked with `--wrap=fp_atom_count`. */
#include <stdio.h>
#include <stdlib.h>

#include "erts/atom.h"

uint32_t __real_fp_atom_count(const struct fp_layout *layout, const struct fp_memory *memory);
uint32_t __wrap_fp_atom_count(const struct fp_layout *layout, const struct fp_memory *memory);

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
