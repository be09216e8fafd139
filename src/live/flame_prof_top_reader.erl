%% @private Processes as the live table needs them: their metrics, their name, and the
%% function that they are in.
%%
%% The native engine reads their memory, as pstack does. The portable engine calls
%% `process_info/2'.
-module(flame_prof_top_reader).

-export([engine/0, read/3, on_schedulers/0, on_dirty_schedulers/0]).

-export_type([engine/0, depth/0, observation/0]).

-type engine() :: native | portable.

%% `full': with the stack of a running process, by a capture. `named': names, and the
%% function of a process that is off CPU; for walks over all processes. `bare': numbers.
-type depth() :: full | named | bare.

%% A size is unknown while the collector exchanges the heaps. `is_own': of flame_prof.
-type observation() ::
    #{
        status := flame_prof:status() | free,
        reductions := integer(),
        message_queue_len := integer() | unknown,
        memory := integer() | unknown,
        name => binary(),
        frame => binary(),
        is_own => boolean()
    }.

%% @doc Makes the native engine ready, where it is not refused.
-spec engine() -> engine().
engine() ->
    case flame_prof_engine:choose(auto) of
        {ok, #{engine := native}} ->
            _ = flame_prof_schedulers:ensure(),
            native;
        _ ->
            portable
    end.

%% @doc Of those that are alive.
-spec read(engine(), depth(), [pid()]) -> [{pid(), observation()}].
read(native, full, Pids) -> native(flame_prof_nif:snapshot(Pids));
read(native, _, Pids) -> native(flame_prof_nif:snapshot([brief | Pids]));
read(portable, Depth, Pids) -> [{Pid, Map} || Pid <- Pids, Map <- portable(Depth, Pid)].

%% @doc What the normal schedulers run now.
-spec on_schedulers() -> [{pid(), observation()}].
on_schedulers() ->
    case flame_prof_nif:snapshot(schedulers) of
        {error, _} -> [];
        Schedulers -> native([Running || {_, {_, _} = Running} <- Schedulers])
    end.

%% @doc A walk over the process table, of 0.2 to 0.5 microseconds a process.
-spec on_dirty_schedulers() -> [{pid(), observation()}].
on_dirty_schedulers() -> native(flame_prof_nif:snapshot(dirty)).

native({error, _}) -> [];
native(Snapshots) -> [{Pid, observation(Map)} || {Pid, #{} = Map} <- Snapshots].

observation(#{stack := Stack} = Map) ->
    Numbers = maps:with([status, reductions, message_queue_len, memory], Map),
    Numbers#{name => name(Map), frame => frame(Stack), is_own => flame_prof_own:is_own(Map)}.

name(#{registered_name := Name}) when Name =/= none -> flame_prof_names:function(Name);
name(#{proc_lib_initial_call := {_, _, _} = Call}) -> flame_prof_names:call(Call);
name(#{initial_call := {_, _, _} = Call}) -> flame_prof_names:call(Call);
name(_) -> <<>>.

%% C functions are a detail of the function that called them.
frame([{native, _, _} | Stack]) -> frame(Stack);
frame([{Kind, {_, _, _} = Call} | _]) when Kind =:= bif; Kind =:= nif ->
    flame_prof_names:call(Call);
frame([{Module, Function, Arity, _, _} | _]) ->
    flame_prof_names:call({Module, Function, Arity});
frame([gc | _]) -> <<"[gc]">>;
frame([Word | _]) when is_atom(Word) -> atom_to_binary(Word);
frame(_) -> <<>>.

portable(Depth, Pid) ->
    case process_info(Pid, items(Depth)) of
        undefined -> [];
        List -> [portable_observation(Depth, Pid, maps:from_list(List))]
    end.

items(bare) -> [status, reductions, message_queue_len, memory];
items(_) -> [registered_name, current_function | items(bare)].

portable_observation(bare, _Pid, Map) ->
    Map;
portable_observation(_, Pid, #{registered_name := Name, current_function := Current} = Map) ->
    Calls = lists:reverse([text(Call) || Call <- flame_prof_names:initial_calls(Pid)]),
    Named = #{
        registered_name => registered(Name),
        initial_call => first(Calls),
        proc_lib_initial_call => none,
        stack => [Current]
    },
    (maps:with(items(bare), Map))#{
        name => name(Named),
        frame => frame([bif(Current)]),
        is_own => flame_prof_own:is_own(Named)
    }.

registered([]) -> none;
registered(Name) -> atom_to_binary(Name).

first([Call | _]) -> Call;
first([]) -> none.

bif({_, _, _} = Call) -> {bif, text(Call)};
bif(_) -> none.

text({Module, Function, Arity}) -> {atom_to_binary(Module), atom_to_binary(Function), Arity}.
