/* fuzz_unzst.c - any bytes as zstd frames, in pieces of any sizes. */
#include "fuzz.h"

#include "base/error.h"
#include "store/unzstd.h"

#define ROOM_MAX 4096u
#define TEXT_MAX (UINT32_C(4) << 20)

/* One call; 0 at the end of it all. */
static int read_some(struct fp_unzstd *unzst, struct fuzz_input *from, size_t piece, size_t room,
                     uint64_t *made_in_all)
{
    static char out[ROOM_MAX];
    size_t used = 0, made = 0, size = piece < from->left ? piece : from->left;
    const char *why = NULL;
    int err = fp_unzstd_read(unzst, (const char *)from->at, size, &used, out, room, &made, &why);

    FUZZ_CHECK(err == 0 || err == FP_EINVAL);
    FUZZ_CHECK(used <= size && made <= room);
    FUZZ_CHECK(err == 0 || (made == 0 && why != NULL && why[0] != '\0'));
    FUZZ_CHECK(err == 0 || fp_unzstd_is_between(unzst));
    from->at += used;
    from->left -= used;
    *made_in_all += made;
    if (err != 0 && used == 0) { /* begin behind the next byte */
        from->at += from->left > 0;
        from->left -= from->left > 0;
    }
    return from->left > 0 || made > 0;
}

void fuzz_unzst(const uint8_t *bytes, size_t size)
{
    struct fuzz_input input = {bytes, size};
    size_t piece = 1 + fuzz_u16(&input), room = 1 + fuzz_u16(&input) % ROOM_MAX;
    struct fp_unzstd *unzst;
    uint64_t made = 0, calls = 0;

    if (fp_unzstd_create(&unzst) != 0)
        return;
    while (made < TEXT_MAX && read_some(unzst, &input, piece, room, &made))
        FUZZ_CHECK(++calls <= 4 * (size + TEXT_MAX));
    fp_unzstd_destroy(unzst);
}
