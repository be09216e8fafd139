%% @private What is flame_prof's own: its modules and processes. No look reports them as processes
%% of the program.
-module(flame_prof_own).

-export([names/0, pids/0, is_own/1, is_in/1, is_live/1, is_module/1, loaded/0]).

%% Registered names that are no modules.
-define(NAMES, [flame_prof_cleanup, flame_prof_capture_probe]).
-define(PROCESSES, [flame_prof_sup, flame_prof_session, flame_prof_session_beside,
    flame_prof_triggers, flame_prof_agent, flame_prof_calibration, flame_prof_capture_classes,
    flame_prof_session_allocations, flame_prof_tracing, flame_prof_latency, flame_prof_looks
    | ?NAMES]).

%% @doc The names that its processes register.
-spec names() -> [atom()].
names() -> ?PROCESSES.

%% @doc Those of its processes that have a name. Any process of the node.
-spec pids() -> [pid()].
pids() -> [Pid || Name <- ?PROCESSES, Pid <- [whereis(Name)], is_pid(Pid)].

%% @doc Is it one of its processes, or one that works for it now, as the one that has called a look?
%% By its name, by what it was started as, and by its stack. Names are atoms or texts; any key may
%% be missing or `none'.
-spec is_own(#{registered_name => atom() | binary(), initial_call => term(),
    proc_lib_initial_call => term(), stack => [term()], _ => _} | exited) -> boolean().
is_own(exited) ->
    false;
is_own(Process) ->
    Calls = [Module || Key <- [initial_call, proc_lib_initial_call],
        #{Key := {Module, _, _}} <- [Process]],
    lists:any(fun is_name/1, [Name || #{registered_name := Name} <- [Process]] ++ Calls) orelse
        is_in(maps:get(stack, Process, [])).

%% @doc Has a stack a frame of flame_prof? Frames are as looks have them. Functions that
%% flame_prof:apply/1 and profile/1 call belong to the program.
-spec is_in([term()]) -> boolean().
is_in(Stack) -> lists:any(fun(Frame) -> is_at_work(module(Frame)) end, Stack).

is_at_work(none) -> false;
is_at_work(Module) ->
    is_module(Module) andalso not lists:member(text(Module), [<<"flame_prof">>,
        <<"flame_prof_oneshot">>, <<"flame_prof_original">>]).

module({native, _, _}) -> none;
module({_, {Module, _, _}}) -> Module;
module({Text, Dso}) when is_binary(Text), is_binary(Dso); is_binary(Text), is_atom(Dso) ->
    hd(binary:split(Text, <<":">>));
module(Text) when is_binary(Text) -> hd(binary:split(Text, <<":">>));
module(Frame) when is_tuple(Frame), tuple_size(Frame) >= 3 -> element(1, Frame);
module(_) -> none.

%% @doc Is a process of this node its own? It is asked for its name, and for the outermost frame of
%% its stack: one that works for flame_prof for a moment is the program's.
-spec is_live(pid()) -> boolean().
is_live(Pid) ->
    Items = [registered_name, initial_call, current_stacktrace, dictionary],
    case process_info(Pid, Items) of
        undefined -> false;
        [{_, Name}, {_, Call}, {_, Stack}, {_, Dictionary}] ->
            is_own(maps:from_list([{initial_call, Call}, {stack, lists:nthtail(max(0,
                    length(Stack) - 1), Stack)}] ++
                [{registered_name, Name} || is_atom(Name)] ++
                [{proc_lib_initial_call, Of} || {'$initial_call', Of} <- Dictionary]))
    end.

is_name(Name) -> is_module(Name) orelse lists:member(text(Name), [text(N) || N <- ?NAMES]).

%% @doc As an atom or a text. The program may have modules that begin with the same letters: where
%% the application is known, they are told apart.
-spec is_module(atom() | binary()) -> boolean().
is_module(Name) ->
    case text(Name) of
        <<"flame_prof">> -> true;
        <<"flame_prof_", _/binary>> = Text -> is_of_application(Text);
        _ -> false
    end.

%% @doc How many of its modules are loaded. In interactive mode each is loaded when it is first
%% called: that is code, and makes atoms. Where it was lent they are loaded at once, and not known.
-spec loaded() -> non_neg_integer().
loaded() ->
    case application:get_key(flame_prof, modules) of
        {ok, Modules} -> length([Module || Module <- Modules, erlang:module_loaded(Module)]);
        undefined -> 0
    end.

is_of_application(Text) ->
    case application:get_key(flame_prof, modules) of
        {ok, Modules} -> lists:member(Text, [atom_to_binary(Module) || Module <- Modules]);
        %% As of a node that it was lent to. Its tests are programs, too.
        undefined -> re:run(Text, "_(SUITE|tests)$", [{capture, none}]) =:= nomatch
    end.

text(Name) when is_atom(Name) -> atom_to_binary(Name);
text(Name) -> Name.
