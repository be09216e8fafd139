%% What the C libraries make of a term: the stubs of test/nif/term_test_nif.c, which tools/nif.mk
%% links with the product's objects.
-module(term_test_nif).

-export([load/0, view/2, copy/2, value_take/1]).

-nifs([view/2, copy/2, value_take/1]).

-define(NOT_LOADED, erlang:nif_error({not_loaded, ?MODULE})).

-type numbers() :: {non_neg_integer(), non_neg_integer(), non_neg_integer()}.

%% With the agent's layout, if it is known.
-spec load() -> ok.
load() ->
    case erlang:load_nif(hooked_library:path(?MODULE_STRING), 0) of
        ok -> ok;
        {error, {reload, _}} -> ok
    end,
    case flame_prof_nif:value(layout) of
        undefined -> ok;
        Layout -> ?MODULE:value_take(Layout)
    end.

%% c_src/looks_nif/views.h has the shapes. As a message: its kind, tag, who waits for the answer,
%% the call's reference, and how many reads of memory it has cost. As OpenTelemetry's context: the
%% ids of its current span.
-spec view(term(), Depth :: 0..4) -> term();
    (term(), message) ->
        {atom(), Tag :: {atom, atom()} | {tuple, atom(), arity()} | other | unknown,
            pid() | none, numbers() | none, Reads :: non_neg_integer()};
    (term(), otel) -> {Trace :: <<_:128>>, Span :: <<_:64>>} | none.
view(_, _) -> ?NOT_LOADED.

%% As a readable trace shows it: c_src/terms/term_copy.h says what is left out, and how.
-spec copy(term(), #{depth | bytes | items => non_neg_integer()}) -> term().
copy(_, _) -> ?NOT_LOADED.

-spec value_take(binary()) -> ok | {error, term()}.
value_take(_) -> ?NOT_LOADED.
