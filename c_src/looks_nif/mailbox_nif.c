/* mailbox_nif.c - looks at mailboxes, for flame_prof_mailbox. A step takes some milliseconds and
 * may sleep between attempts, so it has a dirty I/O scheduler. */
#include "base/error.h"
#include "looks_nif/handle.h"
#include "looks_nif/looks.h"
#include "looks_nif/views.h"
#include "terms/term_words.h"
#include "terms/terms.h"
#include "waits/mailbox.h"

#define STEP_MAX 1048576u
#define ROWS_MAX 1000u

struct mailbox_handle {
    struct fp_look_handle handle;
    uint32_t rows;
};

static void close_mailbox(void *mailbox)
{
    fp_mailbox_close(mailbox);
}

static int get_limits(ErlNifEnv *env, ERL_NIF_TERM map, struct fp_mailbox_limits *limits,
                      uint32_t *rows)
{
    uint32_t millions = 0;
    int is_right = fp_map_get_u32(env, map, "oldest", &limits->oldest) &&
                   fp_map_get_u32(env, map, "time_ms", &limits->time_ms) &&
                   fp_map_get_u32(env, map, "millions", &millions) &&
                   fp_map_get_u32(env, map, "rows", rows);

    limits->messages = (uint64_t)millions * 1000000;
    return is_right && limits->oldest <= FP_MAILBOX_OLDEST_MAX && *rows <= ROWS_MAX;
}

/* (Pid, #{oldest, time_ms, millions, rows}) -> {ok, Mailbox} | {error, Error}; `unsupported` with a
 * text where the queues are not as calibration expected. */
ERL_NIF_TERM fp_nif_mailbox_open(FP_NIF_ARGS)
{
    struct fp_looks *library = fp_looks(env);
    struct fp_layout *layout = library->vm.layout;
    struct mailbox_handle *mailbox;
    struct fp_mailbox_limits limits;
    struct fp_mailbox *look = NULL;
    ErlNifPid pid;
    uint32_t rows;
    int err;

    if (layout == NULL || !enif_get_local_pid(env, argv[0], &pid) ||
        !get_limits(env, argv[1], &limits, &rows))
        return enif_make_badarg(env);
    if (layout->queue_refusal[0] != 0)
        return fp_error_text(env, FP_EUNSUPPORTED, layout->queue_refusal);
    mailbox = fp_look_handle_new(library->mailbox_type, sizeof *mailbox, close_mailbox, &err);
    mailbox->rows = rows;
    if (err == 0)
        err = fp_mailbox_open(&look, layout, &mailbox->handle.memory, argv[0], &limits);
    mailbox->handle.look = look;
    return fp_look_handle_result(env, &mailbox->handle, err);
}

/* ----------------------------------------------------------------- answers -- */

/* The state for writing the tables of an answer. */
struct teller {
    struct fp_terms_out out;
    uint32_t rows;
};

/* Pid, port or atom of this VM, or `unknown`. */
static ERL_NIF_TERM sender_term(struct fp_terms_out *out, uint64_t from)
{
    if (fp_term_is_pid(from))
        return fp_out_pid(out, from, "unknown");
    return fp_term_is_atom(from) ? fp_out_atom(out, from, "unknown")
                                 : fp_out_port(out, from, "unknown");
}

/* {Kind, {atom, Atom} | {tuple, Atom, Arity} | other | unknown} */
static ERL_NIF_TERM tag_term(struct fp_terms_out *out, const struct fp_mailbox_tag *tag)
{
    return enif_make_tuple2(out->env, fp_atom(out->env, fp_message_kind_name(tag->kind)),
                            fp_out_tag(out, &tag->tag));
}

static ERL_NIF_TERM tally_term(struct teller *to, const struct fp_tally *tally, int is_tags)
{
    ErlNifEnv *env = to->out.env;
    ERL_NIF_TERM list = enif_make_list(env, 0), key;
    uint32_t rows = tally->used < to->rows ? tally->used : to->rows;

    for (uint32_t k = rows; k-- > 0;) {
        const struct fp_tally_row *row = &tally->row[k];
        struct fp_mailbox_tag tag = fp_mailbox_tag_of(row);

        key = is_tags ? tag_term(&to->out, &tag) : sender_term(&to->out, row->key[0]);
        list = enif_make_list_cell(
            env, enif_make_tuple2(env, key, enif_make_uint64(env, row->count)), list);
    }
    return list;
}

static ERL_NIF_TERM oldest_term(struct fp_terms_out *out, const struct fp_mailbox_answer *answer)
{
    ERL_NIF_TERM list = enif_make_list(out->env, 0);

    for (uint32_t k = answer->oldest_count; k-- > 0;) {
        const struct fp_mailbox_message *message = &answer->oldest[k];

        list = enif_make_list_cell(out->env,
                                   enif_make_tuple2(out->env, sender_term(out, message->from),
                                                    tag_term(out, &message->is)),
                                   list);
    }
    return list;
}

static ERL_NIF_TERM answer_term(struct teller *to, const struct fp_mailbox_answer *answer)
{
    const struct {
        const char *name;
        uint64_t value;
    } number[] = {
        {"messages", answer->messages},        {"undecoded", answer->undecoded},
        {"signals", answer->signals},          {"taken", answer->taken},
        {"doubtful", answer->doubtful},        {"bytes", answer->bytes},
        {"on_heap", answer->on_heap},          {"attempts", answer->attempts},
        {"all_senders", answer->senders.used}, {"untold_senders", answer->senders.others},
        {"all_tags", answer->tags.used},       {"untold_tags", answer->tags.others},
    };
    ErlNifEnv *env = to->out.env;
    ERL_NIF_TERM map = enif_make_new_map(env);

    for (size_t k = 0; k < sizeof number / sizeof *number; k++)
        fp_map_put_u64(env, &map, number[k].name, number[k].value);
    fp_map_put(env, &map, "expected",
               answer->expected < 0 ? fp_atom(env, "unknown")
                                    : enif_make_int64(env, answer->expected));
    fp_map_put(env, &map, "complete", fp_boolean(env, answer->is_complete));
    fp_map_put(env, &map, "ran", fp_boolean(env, answer->has_run));
    fp_map_put(env, &map, "ended", fp_boolean(env, answer->has_ended));
    fp_map_put(env, &map, "moved", fp_boolean(env, answer->has_moved));
    fp_map_put(env, &map, "buffers_unknown", fp_boolean(env, answer->buffers_unknown));
    fp_map_put(env, &map, "error",
               fp_atom(env, answer->err == 0 ? "none" : fp_err_name(answer->err)));
    fp_map_put(env, &map, "senders", tally_term(to, &answer->senders, 0));
    fp_map_put(env, &map, "tags", tally_term(to, &answer->tags, 1));
    fp_map_put(env, &map, "oldest", oldest_term(&to->out, answer));
    return map;
}

/* (Mailbox, Nodes) -> more | #{...}, the fields of struct fp_mailbox_answer. The answer is told
 * once. */
ERL_NIF_TERM fp_nif_mailbox_next(FP_NIF_ARGS)
{
    struct mailbox_handle *mailbox;
    struct teller to;
    ERL_NIF_TERM term = fp_atom(env, "more");
    unsigned nodes;

    if (!enif_get_uint(env, argv[1], &nodes) || nodes == 0 || nodes > STEP_MAX ||
        (mailbox = fp_look_handle_enter(env, argv[0], fp_looks(env)->mailbox_type)) == NULL)
        return enif_make_badarg(env);
    if (fp_mailbox_step(mailbox->handle.look, nodes)) {
        to.rows = mailbox->rows;
        fp_terms_out_start(&to.out, env, fp_vm(env)->layout, &mailbox->handle.memory);
        term = answer_term(&to, fp_mailbox_answer(mailbox->handle.look));
        fp_look_handle_close(&mailbox->handle);
    }
    fp_look_handle_leave(&mailbox->handle);
    return term;
}
