/* The expected layout of each OTP release, on x86_64 with the JIT. The calibration finds every
 * `offset` again before it is used and walks queues by `queue` (message_queue.c); each
 * scheduler checks `running` (capture/sigcapture.c). How to add a release:
 * doc/dev/new_otp_release.md.
 *
 *   offset, running    offsetof() compiled against erl_process.h of 25.2.3, 26.2.5, 27.3.4.1 and
 *                      29.1.1 (JIT, frame pointers compiled in, no DEBUG); for the tested releases
 *                      also read from Debian's stock builds with a debugger
 *   pid_form           erl_ptab.h erts_ptab_id2pix()
 *   pid_number_bits    erl_term.h _PID_NUM_SIZE
 *   atom_form          atom.h struct atom: byte *name, or Eterm bin
 *   functions_to_*     beam_code.h BeamCodeHeader under BEAMASM
 *   process_size, message_size    sizeof(struct process), sizeof(ErtsMessage)
 *
 * 26 has the process structure of 25 and the pids of 27. 28 was not compiled from a release: its
 * structure is that of 27 and 29 (whose texts agree with each other and with an erl_process.h from
 * between them), its module header and atoms are those of 29 (beam_code.h of 2025; atoms became
 * binaries in 2024). 26 and 28 are not in the tested matrix: they run when the calibration agrees
 * in every field. */
#include "erts/layout.h"

#include <string.h>

/* clang-format off */
#define OFFSETS_25 { \
    [FP_FIELD_id] = 0, [FP_FIELD_registered] = 48, [FP_FIELD_htop] = 80, [FP_FIELD_stop] = 88, \
    [FP_FIELD_heap] = 128, [FP_FIELD_hend] = 136, [FP_FIELD_i] = 256, [FP_FIELD_reds] = 280, \
    [FP_FIELD_inner_len] = 392, [FP_FIELD_dictionary] = 416, [FP_FIELD_initial_call] = 448, \
    [FP_FIELD_parent] = 480, [FP_FIELD_high_water] = 496, [FP_FIELD_old_hend] = 504, \
    [FP_FIELD_old_htop] = 512, [FP_FIELD_old_heap] = 520, [FP_FIELD_gen_gcs] = 528, \
    [FP_FIELD_bin_vheap] = 544, [FP_FIELD_mbuf_size] = 584, [FP_FIELD_bin_vheap_block] = 600, \
    [FP_FIELD_bin_old_vheap_block] = 608, [FP_FIELD_bin_old_vheap] = 616, \
    [FP_FIELD_state] = 640, [FP_FIELD_outer_len] = 672}
#define OFFSETS_27 { \
    [FP_FIELD_id] = 0, [FP_FIELD_registered] = 32, [FP_FIELD_htop] = 80, [FP_FIELD_stop] = 88, \
    [FP_FIELD_heap] = 192, [FP_FIELD_hend] = 200, [FP_FIELD_i] = 248, [FP_FIELD_reds] = 272, \
    [FP_FIELD_inner_len] = 336, [FP_FIELD_dictionary] = 408, [FP_FIELD_initial_call] = 440, \
    [FP_FIELD_parent] = 472, [FP_FIELD_gen_gcs] = 484, [FP_FIELD_high_water] = 488, \
    [FP_FIELD_old_hend] = 496, [FP_FIELD_old_htop] = 504, [FP_FIELD_old_heap] = 512, \
    [FP_FIELD_bin_vheap] = 528, [FP_FIELD_mbuf_size] = 568, [FP_FIELD_bin_vheap_block] = 584, \
    [FP_FIELD_bin_old_vheap_block] = 592, [FP_FIELD_bin_old_vheap] = 600, \
    [FP_FIELD_state] = 624, [FP_FIELD_outer_len] = 656}

/* scheduler_data, fcalls, current; current_process, number */
#define RUNNING_25 {760, 104, 472, 168, 184}
#define RUNNING_27 {744, 120, 464, 168, 184}

/* inner: 64 (25) or 24 (27) before its length; middle: 24 or 32 behind that; outer: 16 before its
 * length; buffers behind it (erl_message.h ErtsSignalPrivQueues, ErtsSignalInQueue) */
#define QUEUE_25 {328, 352, 656, 696}
#define QUEUE_27 {312, 344, 640, 680}

#define SLOT_HIGH FP_PID_SLOT_HIGH, 15
#define SLOT_LOW FP_PID_SLOT_LOW, 28

static const struct fp_release releases[] = {
    /* otp, tested, pid_form and pid_number_bits, atom_form, functions_to_line_table and
     * _num_functions, process_size, message_size, running, queue, offset */
    {25, 1, SLOT_HIGH, FP_ATOM_NAME_POINTER, 3, 12, 776, 88, RUNNING_25, QUEUE_25, OFFSETS_25},
    {26, 0, SLOT_LOW, FP_ATOM_NAME_POINTER, 3, 12, 776, 88, RUNNING_25, QUEUE_25, OFFSETS_25},
    {27, 1, SLOT_LOW, FP_ATOM_NAME_POINTER, 8, 17, 760, 88, RUNNING_27, QUEUE_27, OFFSETS_27},
    {28, 0, SLOT_LOW, FP_ATOM_NAME_BINARY, 10, 19, 760, 88, RUNNING_27, QUEUE_27, OFFSETS_27},
    {29, 1, SLOT_LOW, FP_ATOM_NAME_BINARY, 10, 19, 768, 88, RUNNING_27, QUEUE_27, OFFSETS_27},
};
/* clang-format on */

const struct fp_release *fp_release_find(unsigned otp)
{
    for (size_t i = 0; i < sizeof releases / sizeof *releases; i++)
        if (releases[i].otp == otp)
            return &releases[i];
    return NULL;
}

uint32_t fp_field_width(enum fp_field field)
{
#define FP_FIELD_BYTES(name, width) width,
    static const uint8_t bytes[] = {FP_FIELD_MAP(FP_FIELD_BYTES)};
#undef FP_FIELD_BYTES

    return bytes[field];
}
