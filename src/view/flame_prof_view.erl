%% @private A server of profiles to a browser on this machine: flame_prof:view/2.
%%
%% One for each directory or file that is shown, a child of the application's supervisor,
%% whose list of children has all of them.
%% It owns an HTTP server of inets on 127.0.0.1, which ends with it, and a private
%% directory for the indexes that it makes: doc/viewer_index.md. A person with the link may
%% look; nothing can be changed through it. flame_prof_view_http answers requests
%% and asks this process for what they are about.
%%
%% A profile is read when it is asked for, by a process of its own. When its file
%% has grown since, as that of a running session does with each flush, it is read
%% again, but never for more than a twentieth of the time.
-module(flame_prof_view).
-behaviour(gen_server).

-include_lib("kernel/include/file.hrl").

-export([start/1, start/2, format/1, stop/0, stop/1]).
-export([start_link/2, profiles/1, prepare/2, index/3]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

-export_type([options/0, started/0, prepared/0]).

-type options() :: #{port => inet:port_number() | flame_prof_options:left_out()}.
-type started() :: #{pid := pid(), url := binary()}.

-type prepared() ::
    {ready, Version :: binary(), Size :: non_neg_integer()}
    | {reading, Read :: non_neg_integer(), Size :: non_neg_integer()}
    | {failed, Why :: binary()}.

-define(TOKEN_BYTES, 24).
-define(PORT_TRIES, 10).
-define(BUILDS_AT_ONCE, 2).
-define(INDEXES_KEPT, 4).
-define(REST_PER_WORK, 20).
-define(CALL_MS, 30000).
-define(SHUTDOWN_MS, 10000).
-define(NO_HOUSE, "0").
-define(ABANDONED_S, 30 * 24 * 3600).

%% Connections at once, each of which holds an answer of 4 MiB at most.
-define(CLIENTS, 32).
-define(REQUEST_BYTES, 8192).
-define(BODY_BYTES, 1024).

-spec start(file:name_all()) -> {ok, started()} | {error, flame_prof:reason()}.
start(Given) ->
    start(Given, #{}).

-spec start(file:name_all(), options()) -> {ok, started()} | {error, flame_prof:reason()}.
start(Given, Options) ->
    Checked = flame_prof_schema:checked(rows(), Options),
    Built = flame_prof_report:built(),
    case {Checked, code:which(httpd), flame_prof_view_files:root(Given)} of
        {{error, _} = Error, _, _} ->
            Error;
        _ when Built =/= ok ->
            Built;
        {_, non_existing, _} ->
            refused(<<"the page is served by inets, which is not on this node's code path: add "
                "inets to the release's applications (on Debian, install erlang-inets)">>);
        {_, _, {error, _} = Error} ->
            Error;
        {{ok, #{port := Port}}, _, {ok, Root}} ->
            start_child(Root, Port)
    end.

start_child(Root, Port) ->
    case flame_prof_sup:ensure_started() of
        ok -> started(flame_prof_sup:start_child(spec(Root, Port)));
        {error, _} = Error -> Error
    end.

rows() ->
    [#{key => port, type => {own, fun port/1, "a whole number from 0 to 65535; 0 is any free port"},
        default => 0}].

port(Port) when is_integer(Port), Port >= 0, Port =< 65535 -> {ok, Port};
port(_) -> error.

refused(Why) ->
    {error, {view, #{reason => Why}}}.

spec(Root, Port) ->
    #{
        id => {?MODULE, Root, Port},
        start => {?MODULE, start_link, [Root, Port]},
        restart => temporary,
        shutdown => ?SHUTDOWN_MS
    }.

started({ok, Pid}) when is_pid(Pid) -> described(Pid);
started({error, {already_started, Pid}}) when is_pid(Pid) -> described(Pid);
started({error, {{shutdown, {refused, Reason}}, _Child}}) -> {error, Reason};
started({error, {Reason, _Child}}) -> {error, flame_prof_error:of_exit(Reason)}.

described(Pid) ->
    try
        {ok, #{pid => Pid, url => gen_server:call(Pid, url, ?CALL_MS)}}
    catch
        exit:{timeout, _} -> {error, {timeout, #{ms => ?CALL_MS}}};
        exit:{Reason, _} -> {error, flame_prof_error:of_exit(Reason)}
    end.

%% @doc The link, and how it is reached from elsewhere, for a person.
-spec format(started()) -> unicode:chardata().
format(#{url := Url}) ->
    #{port := Port} = uri_string:parse(Url),
    io_lib:format("~ts~nFrom another machine, first: ssh -L ~b:127.0.0.1:~b ~ts~n",
        [Url, Port, Port, net_adm:localhost()]).

%% @doc All of this node.
-spec stop() -> ok.
stop() ->
    lists:foreach(fun stop/1, [Pid || {{?MODULE, _, _}, Pid, _, _} <- children(), is_pid(Pid)]).

%% None where the application is not running, or ends meanwhile.
children() ->
    try
        supervisor:which_children(flame_prof_sup)
    catch
        exit:_ -> []
    end.

-spec stop(pid()) -> ok.
stop(Pid) ->
    try
        gen_server:stop(Pid)
    catch
        exit:_ -> ok
    end.

-spec start_link(flame_prof_view_files:root(), inet:port_number()) ->
    {ok, pid()} | {error, term()}.
start_link(Root, Port) ->
    case gen_server:start_link(?MODULE, {Root, Port}, []) of
        {ok, Pid} -> {ok, Pid};
        {error, Reason} -> {error, Reason};
        ignore -> {error, ignore}
    end.

%% For flame_prof_view_http.

-spec profiles(pid()) -> [flame_prof_view_files:entry()].
profiles(Pid) ->
    gen_server:call(Pid, profiles, ?CALL_MS).

-spec prepare(pid(), binary()) -> prepared().
prepare(Pid, Name) ->
    gen_server:call(Pid, {prepare, Name}, ?CALL_MS).

%% Where an index lies that prepare/2 has told of.
-spec index(pid(), binary(), binary()) -> {ok, file:name_all(), non_neg_integer()} | error.
index(Pid, Name, Version) ->
    gen_server:call(Pid, {index, Name, Version}, ?CALL_MS).

%% gen_server

init({Root, Wanted}) ->
    process_flag(trap_exit, true),
    Token = token(),
    case make_cache(Token) of
        {ok, Cache} -> served(Root, Token, Cache, serve(Token, Wanted));
        {error, Reason} -> {stop, {shutdown, {refused, Reason}}}
    end.

served(Root, Token, Cache, {ok, Httpd, Port}) ->
    Url = <<"http://127.0.0.1:", (integer_to_binary(Port))/binary, "/", Token/binary, "/">>,
    {ok, #{root => Root, url => Url, httpd => Httpd, cache => Cache, builds => #{},
        heads => #{}}};
served(_Root, _Token, Cache, {error, Why}) ->
    _ = file:del_dir_r(Cache),
    {error, Reason} = refused(<<"the page cannot be served: ", Why/binary>>),
    {stop, {shutdown, {refused, Reason}}}.

handle_call(url, _From, #{url := Url} = State) ->
    {reply, Url, State};
handle_call(profiles, _From, State0) ->
    {Entries, State} = listed(State0),
    {reply, [offered(Entry, State) || Entry <- Entries], State};
handle_call({prepare, Name}, _From, State0) ->
    {Entries, State1} = listed(State0),
    case [Entry || #{name := N} = Entry <- Entries, N =:= Name] of
        [#{state := file} = Entry | _] ->
            State = prepared(Entry, State1),
            {reply, answer(Entry, State), State};
        [#{why := Why} | _] ->
            {reply, {failed, <<Name/binary, " is not shown: ", Why/binary>>}, State1};
        [] ->
            {reply, {failed, <<"there is no such profile">>}, State1}
    end;
handle_call({index, Name, Version}, _From, #{builds := Builds} = State) ->
    case Builds of
        #{Name := #{state := ready, version := Version, path := Path, size := Size} = Build} ->
            %% Any program may clean a cache; it is made again at the next request.
            case filelib:is_regular(Path) of
                true ->
                    Used = Builds#{Name := Build#{used := now_ms()}},
                    {reply, {ok, Path, Size}, State#{builds := Used}};
                false ->
                    {reply, error, State#{builds := maps:remove(Name, Builds)}}
            end;
        #{} ->
            {reply, error, State}
    end.

handle_cast({progress, Worker, Read}, #{builds := Builds} = State) ->
    {noreply, State#{builds := maps:map(fun(_, B) -> progress(B, Worker, Read) end, Builds)}};
handle_cast({built, Worker, Result}, State) ->
    {noreply, ended(Worker, Result, State)}.

handle_info({'EXIT', Httpd, Reason}, #{httpd := Httpd} = State) ->
    {stop, {httpd, Reason}, State};
handle_info({'EXIT', Worker, _Reason}, State) ->
    {noreply, ended(Worker, died, State)};
handle_info(_, State) ->
    {noreply, State}.

terminate(_Reason, #{httpd := Httpd, cache := Cache, builds := Builds}) ->
    _ = [exit(Worker, kill) || #{worker := Worker} <- maps:values(Builds)],
    _ = inets:stop(stand_alone, Httpd),
    _ = file:del_dir_r(Cache),
    ok.

%% The newest first, those without a sample last; a series before its files.
listed(#{root := Root, heads := Heads0} = State) ->
    {Entries, Heads} = flame_prof_view_series:add(flame_prof_view_files:list(Root), Heads0),
    Keyed = [{{HasSamples, Modified, length(Paths), Name}, Entry}
             || #{has_samples := HasSamples, modified := Modified, paths := Paths, name := Name} =
                 Entry <- Entries],
    {[Entry || {_, Entry} <- lists:reverse(lists:sort(Keyed))], State#{heads := Heads}}.

%% What is told of a profile: the version that would be served.

offered(#{name := Name, version := Now} = Entry, #{builds := Builds}) ->
    case Builds of
        #{Name := Build} ->
            case may_begin(Build, Now) of
                true -> Entry;
                false -> Entry#{version := maps:get(version, Build)}
            end;
        #{} ->
            Entry
    end.

answer(#{name := Name}, #{builds := Builds}) ->
    case Builds of
        #{Name := #{state := ready, version := Version, size := Size}} -> {ready, Version, Size};
        #{Name := #{state := failed, why := Why}} -> {failed, Why};
        #{Name := #{state := reading, read := Read, size := Size}} -> {reading, Read, Size};
        #{} -> {reading, 0, 0}
    end.

%% Builds: #{state := reading | ready | failed, version, path, size, used, began,
%% took}, and the worker while it reads.

prepared(#{name := Name, version := Version} = Entry, #{builds := Builds} = State) ->
    case Builds of
        #{Name := Build} ->
            case may_begin(Build, Version) of
                true -> begun(Entry, State);
                false -> State
            end;
        #{} ->
            begun(Entry, State)
    end.

may_begin(#{state := reading}, _Version) ->
    false;
may_begin(#{version := Version}, Version) ->
    false;
may_begin(#{began := Began, took := Took}, _Version) ->
    now_ms() - Began > Took * ?REST_PER_WORK.

begun(#{name := Name, version := Version, paths := Files, bytes := Size}, State) ->
    #{builds := Builds, cache := Cache} = State,
    case length([B || #{state := reading} = B <- maps:values(Builds)]) < ?BUILDS_AT_ONCE of
        true ->
            _ = forget(maps:get(Name, Builds, #{})),
            %% There already, unless it was cleaned away.
            _ = make_private(Cache),
            Path = filename:join(Cache, integer_to_binary(erlang:unique_integer([positive]))),
            Server = self(),
            Worker = spawn_link(fun() -> build(Server, Files, Path) end),
            Now = now_ms(),
            Build = #{state => reading, version => Version, path => Path, size => Size, read => 0,
                      worker => Worker, began => Now, used => Now, took => 0},
            State#{builds := Builds#{Name => Build}};
        false ->
            State
    end.

%% In the worker.
build(Server, Files, Path) ->
    Finished = [flame_prof_view_files:finished(File) || File <- Files],
    Before = maps:from_list(lists:zip(Finished,
        begins([filelib:file_size(File) || File <- Files], 0))),
    Progress = fun(File, Read, _) ->
        Begin = map_get(flame_prof_view_files:finished(File), Before),
        gen_server:cast(Server, {progress, self(), Begin + Read})
    end,
    Result =
        case read(Files, #{progress => Progress}) of
            {ok, Profile} -> flame_prof_profile:index(Profile, Path);
            {error, _} = Error -> Error
        end,
    gen_server:cast(Server, {built, self(), Result}).

%% What is finished while the files before it are read is found by its new name.
read(Files, Options) ->
    case flame_prof_profile:read(Files, Options) of
        {error, {file, #{file := Name}}} = Error ->
            Finished = flame_prof_view_files:finished(Name),
            case Finished =/= Name andalso filelib:is_regular(Finished) of
                true -> read([case File of Name -> Finished; _ -> File end || File <- Files],
                    Options);
                false -> Error
            end;
        Read ->
            Read
    end.

begins([], _At) -> [];
begins([Size | Sizes], At) -> [At | begins(Sizes, At + Size)].

progress(#{worker := Worker} = Build, Worker, Read) -> Build#{read := Read};
progress(Build, _Worker, _Read) -> Build.

%% A worker that has told its result is no build's worker any more when it exits.
ended(Worker, Result, #{builds := Builds} = State) ->
    without_oldest(State#{builds := maps:map(fun(_, Build) -> finished(Build, Worker, Result) end,
        Builds)}).

finished(#{worker := Worker} = Build0, Worker, Result) ->
    #{began := Began} = Build0,
    Build = maps:remove(worker, Build0#{took := now_ms() - Began}),
    case Result of
        {ok, #{bytes := Size}} -> Build#{state := ready, size := Size};
        {error, Error} -> Build#{state := failed, why => why(Error)};
        died -> Build#{state := failed, why => <<"it could not be read">>}
    end;
finished(Build, _Worker, _Result) ->
    Build.

%% Not where the file lies, only what is the matter.
why(Reason) -> unicode:characters_to_binary(flame_prof_error:without_file(Reason)).

without_oldest(#{builds := Builds} = State) ->
    Ready = lists:sort([{Used, Name} || {Name, #{state := ready,
        used := Used}} <- maps:to_list(Builds)]),
    Old = [Name || {_, Name} <- lists:sublist(Ready, max(0, length(Ready) - ?INDEXES_KEPT))],
    _ = [forget(maps:get(Name, Builds)) || Name <- Old],
    State#{builds := maps:without(Old, Builds)}.

forget(#{path := Path}) -> file:delete(Path);
forget(#{}) -> ok.

now_ms() ->
    erlang:monotonic_time(millisecond).

%% Serving

token() ->
    {ok, Device} = file:open("/dev/urandom", [read, raw, binary]),
    {ok, Bytes} = file:read(Device, ?TOKEN_BYTES),
    ok = file:close(Device),
    << <<(digit(N))>> || <<N:4>> <= Bytes >>.

digit(N) when N < 10 -> $0 + N;
digit(N) -> $a + N - 10.

%% Under the user's cache, with mode 0700: view-HOUSE-PID-RANDOM. Those of
%% nodes that died are removed. Where the user has no home, or none that can be written, as
%% a service's in a container: below $TMPDIR, in which nothing is cleaned, as it is shared.
make_cache(Token) ->
    House = house(),
    Name = lists:append(lists:join("-",
        ["view", House, os:getpid(), binary_to_list(binary:part(Token, 0, 8))])),
    case made_in_cache(user_cache(), House, Name) of
        {ok, _} = Made -> Made;
        {error, _} -> made(filename:join(os:getenv("TMPDIR", "/tmp"), "flame_prof-" ++ Name))
    end.

%% Without HOME it crashes.
user_cache() ->
    try
        filename:basedir(user_cache, "flame_prof")
    catch
        error:_ -> none
    end.

made_in_cache(none, _House, _Name) ->
    {error, enoent};
made_in_cache(Base, House, Name) ->
    case filelib:ensure_dir(filename:join(Base, "x")) of
        ok ->
            remove_abandoned(Base, House),
            made(filename:join(Base, Name));
        {error, _} = Error ->
            Error
    end.

made(Dir) ->
    case make_private(Dir) of
        ok -> {ok, Dir};
        {error, Reason} -> {error, flame_prof_error:file(Dir, Reason)}
    end.

make_private(Dir) ->
    case file:make_dir(Dir) of
        ok -> file:change_mode(Dir, 8#700);
        {error, _} = Error -> Error
    end.

%% The boot and the pid namespace of this node: HOUSE in the folder's name.
%% Containers and other machines may share the home, and a pid of theirs says
%% nothing here. A /proc of another namespace does not tell that a process has died.
house() ->
    Self = os:getpid(),
    case {file:read_file("/proc/sys/kernel/random/boot_id"), file:read_link("/proc/self/ns/pid"),
          file:read_link("/proc/self")} of
        {{ok, Boot}, {ok, Namespace}, {ok, Self}} ->
            lists:append(string:replace(string:trim(binary_to_list(Boot)), "-", "", all)) ++
                "." ++ [C || C <- Namespace, C >= $0, C =< $9];
        _ ->
            ?NO_HOUSE
    end.

remove_abandoned(Base, House) ->
    _ = [
        file:del_dir_r(Dir)
     || Dir <- filelib:wildcard(filename:join(Base, "view-*")),
        is_abandoned(string:split(filename:basename(Dir), "-", all), House, Dir)
    ],
    ok.

%% Of another house nothing is known but when an index was made last. A server that
%% lives longer without one makes its indexes anew.
is_abandoned(["view", House, Pid, _], House, _Dir) when House =/= ?NO_HOUSE ->
    not filelib:is_dir(filename:join("/proc", Pid));
is_abandoned(_, _, Dir) ->
    case file:read_file_info(Dir, [{time, posix}]) of
        {ok, #file_info{mtime = Modified}} -> os:system_time(second) - Modified > ?ABANDONED_S;
        {error, _} -> false
    end.

serve(Token, 0) ->
    serve_any(Token, ?PORT_TRIES);
serve(Token, Port) ->
    case free(Port) of
        {ok, Port} ->
            case inets:start(httpd, configuration(Token, Port), stand_alone) of
                {ok, Httpd} -> {ok, Httpd, Port};
                {error, _} -> {error, port_text(Port, "the HTTP server did not start")}
            end;
        {error, Reason} ->
            {error, port_text(Port, inet:format_error(Reason))}
    end.

port_text(Port, Why) ->
    unicode:characters_to_binary(io_lib:format("port ~b: ~ts", [Port, Why])).

serve_any(_Token, 0) ->
    {error, <<"no free port was found">>};
serve_any(Token, Tries) ->
    {ok, Port} = free(0),
    case inets:start(httpd, configuration(Token, Port), stand_alone) of
        {ok, Httpd} -> {ok, Httpd, Port};
        {error, _} -> serve_any(Token, Tries - 1)
    end.

%% httpd does not tell which port it got, and logs the page where it gets none; another
%% program may take this one first.
free(Wanted) ->
    case gen_tcp:listen(Wanted, [{ip, {127, 0, 0, 1}}, {reuseaddr, true}]) of
        {ok, Socket} ->
            {ok, Port} = inet:port(Socket),
            ok = gen_tcp:close(Socket),
            {ok, Port};
        {error, _} = Error ->
            Error
    end.

%% The roots are asked for and never used: flame_prof_view_http is all there is.
configuration(Token, Port) ->
    [
        {bind_address, {127, 0, 0, 1}},
        {ipfamily, inet},
        {port, Port},
        {server_name, "127.0.0.1"},
        {server_root, "/"},
        {document_root, "/"},
        {server_tokens, none},
        {modules, [flame_prof_view_http]},
        {max_clients, ?CLIENTS},
        {max_header_size, ?REQUEST_BYTES},
        {max_uri_size, ?REQUEST_BYTES},
        {max_body_size, ?BODY_BYTES},
        {flame_prof_view, flame_prof_view_http:context(self(), Token)}
    ].
