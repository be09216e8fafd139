%% @private A server of profiles to a browser on this machine: flame_prof:view/2.
%%
%% One for each directory or file that is shown, a child of the application's supervisor,
%% whose list of children has all of them.
%% It owns an HTTP server of inets on 127.0.0.1, which ends with it, and a private
%% directory for the indexes that it makes: doc/dev/viewer_index.md. A person with the link may
%% look, and changes no file; while a page follows a profile that a session of this node writes, the
%% session writes what it has each second. flame_prof_view_http answers requests and asks this
%% process for what they are about.
%%
%% A profile is read when it is asked for, by a flame_prof_view_reader. While a session writes it
%% and a page follows, that process reads what is new and adds a piece to the index. A file that
%% has changed otherwise is read again. Between two of either
%% there is a rest of twenty times the first one's time, of a piece its CPU time; but an index of
%% too many pieces is made anew at once.
-module(flame_prof_view).
-behaviour(gen_server).

-export([start/1, start/2, format/1, stop/0, stop/1]).
-export([start_link/3, profiles/1, prepare/2, append/3, index/3, findings/2]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

-export_type([options/0, started/0, prepared/0, appended/0, findings/0]).

-type options() :: #{
    port => inet:port_number() | flame_prof_options:left_out(),
    measured => node() | none | flame_prof_options:left_out()
}.
%% `measured': the node whose calls the page measures on request (this one); `none' offers nothing.
%% A second call with the same options has the same page.
-type started() :: #{pid := pid(), url := binary()}.

-type prepared() ::
    {ready, Version :: binary(), Size :: non_neg_integer()}
    | {reading, Read :: non_neg_integer(), Size :: non_neg_integer()}
    | {failed, Why :: binary()}.

%% JSON of flame_prof_doctor_page; `judging': not yet. `none': of no index.
-type findings() :: {judged, binary()} | judging | none.

%% Pieces of the index, in their order; `fresh': the index is to be prepared again.
-type appended() ::
    {ready, [{Version :: binary(), Size :: non_neg_integer()}]} | fresh.

-define(TOKEN_BYTES, 24).
-define(BUILDS_AT_ONCE, 2).
-define(INDEXES_KEPT, 4).
-define(REST_PER_WORK, 20).
-define(EXTEND_MS, 500).
%% With more pieces than these, and than it had at first, an index is made anew.
-define(PIECES, 64).
-define(CALL_MS, 30000).
-define(SHUTDOWN_MS, 10000).

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
        {{ok, #{port := Port, measured := Measured}}, _, {ok, Root}} ->
            start_child(Root, Port, Measured)
    end.

start_child(Root, Port, Measured) ->
    case flame_prof_sup:ensure_started() of
        ok -> started(flame_prof_sup:start_child(spec(Root, Port, Measured)));
        {error, _} = Error -> Error
    end.

rows() ->
    [#{key => port, type => {own, fun port/1, "a whole number from 0 to 65535; 0 is any free port"},
        default => 0},
        #{key => measured, type => {own, fun measured/1, "a node, or none"}, default => here}].

measured(Node) when is_atom(Node) -> {ok, Node};
measured(_) -> error.

port(Port) when is_integer(Port), Port >= 0, Port =< 65535 -> {ok, Port};
port(_) -> error.

refused(Why) ->
    {error, {view, #{reason => Why}}}.

spec(Root, Port, Measured) ->
    #{
        id => {?MODULE, Root, Port, Measured},
        start => {?MODULE, start_link, [Root, Port, Measured]},
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
    lists:foreach(fun stop/1, [Pid || {{?MODULE, _, _, _}, Pid, _, _} <- children(), is_pid(Pid)]).

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

-spec start_link(flame_prof_view_files:root(), inet:port_number(), node() | none) ->
    {ok, pid()} | {error, term()}.
start_link(Root, Port, Measured) ->
    case gen_server:start_link(?MODULE, {Root, Port, Measured}, []) of
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

%% The pieces behind this version, when the file's end has been read.
-spec append(pid(), binary(), binary()) -> appended().
append(Pid, Name, Version) ->
    gen_server:call(Pid, {append, Name, Version}, ?CALL_MS).

%% The place of an index or a piece that prepare/2 or append/3 has returned.
-spec index(pid(), binary(), binary()) -> {ok, file:name_all(), non_neg_integer()} | error.
index(Pid, Name, Version) ->
    gen_server:call(Pid, {index, Name, Version}, ?CALL_MS).

%% The doctor's findings in an indexed profile. While that grows, it is judged again.
-spec findings(pid(), binary()) -> findings().
findings(Pid, Name) ->
    gen_server:call(Pid, {findings, Name}, ?CALL_MS).

%% gen_server

init({Root, Wanted, Measured}) ->
    process_flag(trap_exit, true),
    Token = token(),
    case flame_prof_view_cache:make(Token) of
        {ok, Cache} -> served(Root, Token, Cache, flame_prof_view_httpd:serve(Wanted,
            flame_prof_view_http:context(self(), Token, Measured)));
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
    case index_of(maps:get(Name, Builds, #{}), Version) of
        {Path, Size} ->
            %% Any program may clean a cache; it is made again at the next request.
            case filelib:is_regular(Path) of
                true -> {reply, {ok, Path, Size}, used(Name, State)};
                false -> {reply, error, dropped(Name, State)}
            end;
        none ->
            {reply, error, State}
    end;
handle_call({findings, Name}, _From, #{builds := Builds} = State) ->
    case Builds of
        #{Name := #{findings := Json}} -> {reply, {judged, Json}, State};
        #{Name := #{judge := _}} -> {reply, judging, State};
        #{} -> {reply, none, State}
    end;
handle_call({append, Name, Version}, From, State0) ->
    {Entries, #{builds := Builds} = State} = listed(State0),
    Build = maps:get(Name, Builds, #{}),
    case {[Entry || #{name := N} = Entry <- Entries, N =:= Name], index_of(Build, Version)} of
        {[#{state := file} = Entry], {_, _}} ->
            append(Entry, {From, Version}, Build, used(Name, State));
        _ ->
            {reply, fresh, State}
    end.

handle_cast({progress, Worker, Read}, #{builds := Builds} = State) ->
    {noreply, State#{builds := maps:map(fun(_, B) -> progress(B, Worker, Read) end, Builds)}};
handle_cast({judged, Reader, Json}, #{builds := Builds} = State) ->
    {noreply, State#{builds := maps:map(fun(_, B) -> judged(B, Reader, Json) end, Builds)}};
handle_cast({built, Worker, Result}, State) ->
    {noreply, ended(Worker, Result, State)}.

handle_info({'EXIT', Httpd, Reason}, #{httpd := Httpd} = State) ->
    {stop, {httpd, Reason}, State};
handle_info({'EXIT', Worker, _Reason}, State0) ->
    #{builds := Builds} = State = ended(Worker, died, State0),
    {noreply, State#{builds := maps:map(fun(_, B) -> without_judge(B, Worker) end, Builds)}};
handle_info(_, State) ->
    {noreply, State}.

terminate(_Reason, #{httpd := Httpd, cache := Cache, builds := Builds}) ->
    _ = [exit(Pid, kill) || Build <- maps:values(Builds),
        Pid <- maps:values(maps:with([worker, reader], Build))],
    _ = inets:stop(stand_alone, Httpd),
    _ = file:del_dir_r(Cache),
    ok.

%% The newest first, behind them those of allocations, those without a sample last; a series before
%% its files.
listed(#{root := Root, heads := Heads0} = State) ->
    {Entries, Heads} = flame_prof_view_series:add(flame_prof_view_files:list(Root), Heads0),
    Keyed = [{{HasSamples, Kind =:= samples, Modified, length(Paths), Name}, Entry}
        || #{has_samples := HasSamples, kind := Kind, modified := Modified, paths := Paths,
                name := Name} = Entry <- Entries],
    Sorted = [Entry || {_, Entry} <- lists:reverse(lists:sort(Keyed))],
    {flame_prof_view_series:paired(Sorted), State#{heads := Heads}}.

%% The description of a profile: of the version that would be served.

offered(#{name := Name, version := Now} = Entry, #{builds := Builds}) ->
    case Builds of
        #{Name := Build} ->
            case may_begin(Build, Now) orelse may_extend(Build, Now) of
                true -> Entry;
                false -> Entry#{version := newest(Build)}
            end;
        #{} ->
            Entry
    end.

answer(#{name := Name}, #{builds := Builds}) ->
    case Builds of
        #{Name := #{state := ready, base := Version, size := Size}} -> {ready, Version, Size};
        #{Name := #{state := failed, why := Why}} -> {failed, Why};
        #{Name := #{state := reading, read := Read, size := Size}} -> {reading, Read, Size};
        #{} -> {reading, 0, 0}
    end.

%% Builds: #{state := reading | ready | failed, base, path, size, used, files, whole, piece}: `base'
%% is the version of the file that the index at `path' is of; `whole' and `piece' are when the last
%% index and the last piece of one were begun, and how long that took: {BeganMs, Ms}, of a piece
%% its CPU time; and
%%
%%   worker   the reader that is at work
%%   reader   the reader that waits for more to come
%%   pieces   [{Version, Path, Size}], the newest first
%%   coming   the version of the piece, and perhaps the index, that the worker makes; `lost': an
%%            earlier file of the index is gone
%%   cpu_ms   CPU time of the reader so far
%%   waiting  [{From, Version}]: who waits for that piece
%%   judge    the reader that judges
%%   findings what it has found: JSON

prepared(#{name := Name, version := Version} = Entry, #{builds := Builds} = State) ->
    case Builds of
        #{Name := #{reader := _} = Build} ->
            case is_long(Build) orelse may_begin(Build, Version) of
                true -> extended(Entry, filename(State), Build#{state := reading}, State);
                false -> State
            end;
        #{Name := Build} ->
            case may_begin(Build, Version) of
                true -> begun(Entry, State);
                false -> State
            end;
        #{} ->
            begun(Entry, State)
    end.

newest(#{pieces := [{Version, _, _} | _]}) -> Version;
newest(#{base := Version}) -> Version.

may_begin(#{worker := _}, _Version) ->
    false;
may_begin(#{whole := Work} = Build, Version) ->
    newest(Build) =/= Version andalso has_rested(Work).

may_extend(#{reader := _, piece := Work} = Build, Version) ->
    newest(Build) =/= Version andalso has_rested(Work);
may_extend(_Build, _Version) ->
    false.

has_rested({Began, Took}) ->
    now_ms() - Began > max(?EXTEND_MS, Took * ?REST_PER_WORK).

is_long(#{pieces := Pieces, size := Size}) ->
    length(Pieces) > ?PIECES andalso lists:sum([Bytes || {_, _, Bytes} <- Pieces]) > Size.

begun(#{name := Name, version := Version, paths := Files, bytes := Size} = Entry, State0) ->
    #{builds := Builds} = State = forgotten(Name, State0),
    Prefixes = [Build || {Build, #{reader := _, files := Known}} <- maps:to_list(Builds),
        lists:prefix(Known, finished(Files))],
    Reading = [Build || #{state := reading} = Build <- maps:values(Builds)],
    case {Builds, Prefixes} of
        {#{Name := _}, _} ->
            State;
        %% The second file of a session makes a series of them: the first one is read already.
        {_, [Other | _]} ->
            Build = (map_get(Other, Builds))#{state := reading},
            extended(Entry, filename(State), Build, without(Other, State));
        _ when length(Reading) < ?BUILDS_AT_ONCE ->
            Path = filename(State),
            Now = now_ms(),
            Reader = flame_prof_view_reader:start_link(Files, Path),
            Build = #{state => reading, base => Version, path => Path, size => Size, read => 0,
                      worker => Reader, judge => Reader, whole => {Now, 0}, piece => {Now, 0},
                      used => Now, files => finished(Files), pieces => [], waiting => []},
            State#{builds := Builds#{Name => Build}};
        _ ->
            State
    end.

finished(Files) -> [flame_prof_view_files:finished(File) || File <- Files].

filename(#{cache := Cache}) ->
    %% There already, unless it was cleaned away. In a directory of others nothing is written.
    case flame_prof_view_cache:make_private(Cache) of
        ok -> ok;
        {error, Reason} -> error({cache, Cache, Reason})
    end,
    filename:join(Cache, integer_to_binary(erlang:unique_integer([positive]))).

%% A piece of what is new, and of a profile of many pieces an index of all.
append(#{version := Version, paths := Paths} = Entry, {From, Seen}, Build, State) ->
    ok = follow(lists:last(Paths)),
    case Build of
        #{reader := _} ->
            case {is_long(Build), may_extend(Build, Version)} of
                {true, _} ->
                    {reply, fresh, State};
                {false, true} ->
                    {noreply, extended(Entry, none, Build#{waiting := [{From, Seen}]}, State)};
                {false, false} ->
                    {reply, pieces(Build, Seen), State}
            end;
        #{worker := _, state := ready, waiting := Waiting} ->
            #{builds := Builds} = State,
            #{name := Name} = Entry,
            Waits = Build#{waiting := [{From, Seen} | Waiting]},
            {noreply, State#{builds := Builds#{Name := Waits}}};
        #{} ->
            case may_begin(Build, Version) of
                true -> {reply, fresh, State};
                false -> {reply, pieces(Build, Seen), State}
            end
    end.

%% A session of this node that writes the file has its samples there soon.
follow(Path) ->
    case flame_prof_view_files:finished(Path) of
        Path -> ok;
        _ -> flame_prof_session:follow(Path)
    end.

extended(#{name := Name, version := Version, paths := Files}, Index, Build0, State) ->
    #{builds := Builds} = State,
    {Reader, Build} = maps:take(reader, Build0),
    Piece = filename(State),
    ok = flame_prof_view_reader:extend(Reader, Files, Piece, Index),
    Work = case Index of none -> piece; _ -> whole end,
    Coming = Build#{worker => Reader, coming => {Version, Piece, Index}, files := finished(Files),
        Work := {now_ms(), 0}},
    State#{builds := Builds#{Name => Coming}}.

%% Those behind a version.
pieces(#{pieces := Pieces} = Build, Seen) ->
    case Build of
        #{state := ready} ->
            Newer = lists:takewhile(fun({Version, _, _}) -> Version =/= Seen end, Pieces),
            {ready, [{Version, Size} || {Version, _, Size} <- lists:reverse(Newer)]};
        #{} ->
            fresh
    end.

index_of(#{state := ready, base := Version, path := Path, size := Size}, Version) ->
    {Path, Size};
index_of(#{state := ready, pieces := Pieces}, Version) ->
    case lists:keyfind(Version, 1, Pieces) of
        {Version, Path, Size} -> {Path, Size};
        false -> none
    end;
index_of(_, _Version) ->
    none.

used(Name, #{builds := Builds} = State) ->
    State#{builds := maps:update_with(Name, fun(B) -> B#{used := now_ms()} end, Builds)}.

progress(#{worker := Worker} = Build, Worker, Read) -> Build#{read := Read};
progress(Build, _Worker, _Read) -> Build.

judged(#{judge := Reader} = Build, Reader, Json) -> Build#{findings => Json};
judged(Build, _Reader, _Json) -> Build.

without_judge(#{judge := Reader} = Build, Reader) -> maps:remove(judge, Build);
without_judge(Build, _Reader) -> Build.

%% A reader that has sent its result is no worker of a build any more when it exits.
ended(Reader, Result, #{builds := Builds} = State) ->
    Ended = maps:map(fun(_, Build) -> finished(Build, Reader, Result) end, Builds),
    Kept = maps:filter(fun(_, Build) -> Build =/= lost end, Ended),
    without_oldest(State#{builds := without_readers(Kept)}).

finished(#{worker := Worker} = Build0, Worker, Result) ->
    #{waiting := Waiting} = Build0,
    Coming = maps:get(coming, Build0, none),
    Build1 = maps:without([worker, coming], (timed(Coming, Result, Build0))#{waiting := []}),
    Build = built(Coming, Result, Worker, Build1),
    _ = [gen_server:reply(From, pieces(Build, Seen)) || Build =/= lost, {From, Seen} <- Waiting],
    _ = [gen_server:reply(From, fresh) || Build =:= lost, {From, _} <- Waiting],
    Build;
finished(#{reader := Reader} = Build, Reader, died) ->
    maps:remove(reader, Build);
finished(Build, _Reader, _Result) ->
    Build.

%% Pieces come often: on a loaded machine a small one may wait longer than it works.
timed({_, _, none}, {ok, #{cpu_ms := CpuMs}}, #{piece := {Began, _}, cpu_ms := Before} = Build) ->
    Build#{piece := {Began, CpuMs - Before}, cpu_ms := CpuMs};
timed(_, {ok, #{cpu_ms := CpuMs}}, #{whole := {Began, _}} = Build) ->
    Build#{whole := {Began, now_ms() - Began}, cpu_ms => CpuMs};
timed(_, _, #{whole := {Began, _}} = Build) ->
    Build#{whole := {Began, now_ms() - Began}}.

built(none, {ok, #{bytes := Size, is_kept := IsKept}}, Reader, Build) ->
    Ready = Build#{state := ready, size := Size},
    case IsKept of
        true -> Ready#{reader => Reader};
        false -> Ready
    end;
built(none, {error, Error}, _Reader, Build) ->
    Build#{state := failed, why => why(Error)};
built(none, _, _Reader, Build) ->
    Build#{state := failed, why => <<"it could not be read">>};
built({lost, _, _} = Coming, _, Reader, Build) ->
    lost(Coming, Reader, Build);
built({Version, Piece, none}, {ok, #{bytes := Size}}, Reader, #{pieces := Pieces} = Build) ->
    Build#{state := ready, reader => Reader, pieces := [{Version, Piece, Size} | Pieces]};
built({Version, Piece, Index}, {ok, #{index := Size}}, Reader, Build) ->
    _ = forget(Build),
    _ = file:delete(Piece),
    Build#{state := ready, reader => Reader, base := Version, path := Index, size := Size,
        pieces := []};
built(Coming, _, Reader, Build) ->
    lost(Coming, Reader, Build).

lost({_, Piece, Index}, Reader, Build) ->
    ok = flame_prof_view_reader:stop(Reader),
    _ = [file:delete(File) || File <- [Piece, Index], File =/= none],
    ok = forget(Build),
    lost.

%% Not where the file lies, only what is the matter.
why(Reason) -> unicode:characters_to_binary(flame_prof_error:without_file(Reason)).

%% Each keeps a profile in memory: of those that wait, the one that was used last stays.
without_readers(Builds) ->
    Used = [{Ms, Name} || {Name, #{reader := _, used := Ms}} <- maps:to_list(Builds)],
    case lists:sort(Used) of
        [] -> Builds;
        Waiting -> lists:foldl(fun without_reader/2, Builds, lists:droplast(Waiting))
    end.

without_reader({_Used, Name}, Builds) ->
    #{Name := #{reader := Reader} = Build} = Builds,
    ok = flame_prof_view_reader:stop(Reader),
    Builds#{Name := maps:remove(reader, Build)}.

without_oldest(#{builds := Builds} = State) ->
    Ready = lists:sort([{Used, Name} || {Name, #{state := ready,
        used := Used}} <- maps:to_list(Builds)]),
    Old = [Name || {_, Name} <- lists:sublist(Ready, max(0, length(Ready) - ?INDEXES_KEPT)),
        not is_map_key(worker, map_get(Name, Builds))],
    lists:foldl(fun forgotten/2, State, Old).

%% Not what a reader works at.
forgotten(Name, #{builds := Builds} = State) ->
    case Builds of
        #{Name := #{worker := _}} -> State;
        #{Name := Build} -> ok = forget(Build), without(Name, State);
        #{} -> State
    end.

%% What a reader works at is gone when it has ended its piece.
dropped(Name, #{builds := Builds} = State) ->
    case Builds of
        #{Name := #{coming := {_, Piece, Index}, waiting := Waiting} = Build} ->
            _ = [gen_server:reply(From, fresh) || {From, _} <- Waiting],
            Lost = Build#{state := reading, coming := {lost, Piece, Index}, waiting := []},
            State#{builds := Builds#{Name := Lost}};
        #{} ->
            forgotten(Name, State)
    end.

without(Name, #{builds := Builds} = State) ->
    State#{builds := maps:remove(Name, Builds)}.

forget(#{path := Path, pieces := Pieces} = Build) ->
    _ = [flame_prof_view_reader:stop(Reader) || #{reader := Reader} <- [Build]],
    _ = [file:delete(File) || File <- [Path | [Piece || {_, Piece, _} <- Pieces]]],
    ok.

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
