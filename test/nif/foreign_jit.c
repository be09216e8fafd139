/* foreign_jit.c - executable memory of other code generators than the VM's, as LuaJIT, PCRE2, wasm
 * runtimes and libffi map it. For tests alone. */
#include <erl_nif.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE 4096u

/* What the VM's JIT writes before a function: a call, module, function, arity, the jump that its
 * code starts with. */
static void write_code_info(unsigned char *at)
{
    uint64_t mfa[3] = {75, 75, 1};

    at[0] = 0xe8;
    memcpy(at + 16, mfa, sizeof mfa);
    at[40] = 0xeb;
}

/* (Count, none | code_info) -> ok. Anonymous mappings with gaps between them. */
static ERL_NIF_TERM map(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    unsigned count;
    char kind[16];

    (void)argc;
    if (!enif_get_uint(env, argv[0], &count) ||
        enif_get_atom(env, argv[1], kind, sizeof kind, ERL_NIF_LATIN1) <= 0)
        return enif_make_badarg(env);
    for (unsigned i = 0; i < count; i++) {
        unsigned char *at =
            mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        if (at == MAP_FAILED)
            return enif_make_atom(env, "error");
        memset(at, 0xc3, PAGE);
        if (strcmp(kind, "code_info") == 0)
            write_code_info(at);
        if (mprotect(at, PAGE, PROT_READ | PROT_EXEC) != 0 ||
            mprotect(at + PAGE, PAGE, PROT_NONE) != 0)
            return enif_make_atom(env, "error");
    }
    return enif_make_atom(env, "ok");
}

static ErlNifFunc functions[] = {{"map", 2, map, 0}};

ERL_NIF_INIT(foreign_jit, functions, NULL, NULL, NULL, NULL)
