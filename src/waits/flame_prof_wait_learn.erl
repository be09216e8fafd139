%% @private What the receives of the program wait for, by the files of its modules.
%%
%% A process that waits at no site of {@link flame_prof_wait_sites} is in a receive of its own. The
%% module's BEAM file says which messages this receive takes ({@link flame_prof_wait_receives}); the
%% file is believed where its MD5 is the loaded module's, and no old code of the module is left.
%%
%% A worker reads the files, for a third of a second at most, and with a limit of memory. The code
%% server knows the file of the module.
-module(flame_prof_wait_learn).

-export([takes/1, rows/2, version/1]).

-define(ALL_MS, 300).
-define(FILE_MOST, 8 * 1024 * 1024).
-define(WORDS_MOST, 16 * 1024 * 1024).
%% Of the sites (c_src/erts/sites.h).
-define(SLOTS_MOST, 64).

%% @doc Of those functions that could be read in the time: `unknown' where the file does not tell.
-spec takes([mfa()]) -> #{mfa() => flame_prof_wait_receives:takes()}.
takes(Functions) ->
    Modules = lists:usort([Module || {Module, _, _} <- Functions]),
    Read = read(Modules),
    maps:from_list([{Mfa, taken(Of, {F, A})} || {M, F, A} = Mfa <- Functions,
        #{M := Of} <- [Read]]).

taken(unknown, _Function) ->
    unknown;
taken(Of, Function) ->
    case Of of
        #{Function := Receives} -> flame_prof_wait_receives:merged(Receives);
        #{} -> unknown
    end.

%% @doc Sites for processes that wait at these addresses. Each has `read'.
-spec rows([{Address :: pos_integer(), mfa()}], #{mfa() => flame_prof_wait_receives:takes()}) ->
    [flame_prof_wait_sites:row()].
rows(Places, Takes) ->
    lists:append([[{Address, read, 0} | role(Address, maps:get(Mfa, Takes))]
        || {Address, Mfa} <- Places, is_map_key(Mfa, Takes)]).

role(Address, any) -> [{Address, loop, 0}];
role(Address, nothing) -> [{Address, timer, 0}];
role(Address, #{only := [Slot]}) when Slot < ?SLOTS_MOST -> [{Address, only, Slot}];
role(_Address, #{some := []}) -> [];
%% As if it were no site.
role(Address, _) -> [{Address, some, 0}].

%% @doc Changes when the module's code does.
-spec version(module()) -> term().
version(Module) ->
    try
        {Module:module_info(md5), erlang:check_old_code(Module)}
    catch
        error:undef -> none
    end.

read(Modules) ->
    Alias = erlang:alias(),
    {Worker, Monitor} = spawn_opt(
        fun() -> [Alias ! {Alias, Module, of_module(Module)} || Module <- Modules] end,
        [monitor, {max_heap_size, #{size => ?WORDS_MOST, kill => true, error_logger => false}}]
    ),
    Found = collected(Alias, Monitor, now_ms() + ?ALL_MS, #{}),
    _ = erlang:unalias(Alias),
    true = exit(Worker, kill),
    true = erlang:demonitor(Monitor, [flush]),
    flush(Alias),
    Found.

now_ms() -> erlang:monotonic_time(millisecond).

collected(Alias, Monitor, Until, Found) ->
    receive
        {Alias, Module, Of} -> collected(Alias, Monitor, Until, Found#{Module => Of});
        {'DOWN', Monitor, process, _, _} -> Found
    after max(0, Until - now_ms()) -> Found
    end.

flush(Alias) ->
    receive
        {Alias, _, _} -> flush(Alias)
    after 0 -> ok
    end.

of_module(Module) ->
    try
        {Md5, false} = version(Module),
        {ok, Beam} = beam(file(Module)),
        Md5 = code:module_md5(Beam),
        {ok, Receives} = flame_prof_wait_receives:of_beam(Beam),
        Receives
    catch
        error:_ -> unknown
    end.

%% Preloaded ones are in the VM; their files lie with the libraries.
file(Module) ->
    case code:is_loaded(Module) of
        {file, preloaded} ->
            Vm = "erts-" ++ erlang:system_info(version),
            filename:join([code:lib_dir(), Vm, "ebin", atom_to_list(Module) ++ ".beam"]);
        {file, [_ | _] = File} ->
            File
    end.

%% By the calling process: the file server may be what is waited for.
beam(Path) ->
    {ok, File} = file:open(Path, [read, raw, binary]),
    try
        file:read(File, ?FILE_MOST)
    after
        file:close(File)
    end.
