%% @private Reads a profile for flame_prof_view, writes its index, and keeps what a session still
%% writes: then only what is new is read, and written as a piece of the index. Behind each, the
%% doctor judges the profile, if it has rested for long enough.
%%
%% It ends a minute after the last request for more, and at once where its last file was finished
%% when it was first read: behind a file that is finished later, the session's next one may come.
-module(flame_prof_view_reader).
-behaviour(gen_server).

-include_lib("kernel/include/file.hrl").

-export([start_link/2, extend/4, stop/1]).
-export([init/1, handle_continue/2, handle_call/3, handle_cast/2, handle_info/2]).

-export_type([result/0]).

%% Told to the server by a cast {built, Pid, Result}, and what the doctor finds by {judged, Pid,
%% Json}. `changed': the profile is to be read anew.
-type result() ::
    {ok, #{
        bytes := non_neg_integer(),
        index => non_neg_integer(),
        is_kept := boolean(),
        %% CPU time until now.
        cpu_ms => non_neg_integer()
    }}
    | {error, flame_prof:reason()}
    | changed.

-record(reader, {
    server :: pid(),
    profile :: flame_prof_profile:profile() | none,
    %% The last one first.
    files = [] :: [known()],
    %% When the doctor may judge again.
    rests_until = none :: integer() | none,
    timer = none :: reference() | none
}).

%% The name that it has when it is finished.
-type known() :: #{name := binary(), inode := integer() | none}.

-define(IDLE_MS, 60000).
-define(JUDGED_APART_MS, 5000).
%% Times the doctor's work: of a session that a page follows it takes at most 1 % of a core.
-define(REST_PER_JUDGING, 100).

%% The server is the process that calls this.
-spec start_link([binary()], file:name_all()) -> pid().
start_link(Files, Path) ->
    {ok, Pid} = gen_server:start_link(?MODULE, {self(), Files, Path}, []),
    Pid.

%% What is new in these files as a piece, and where `Index' is a path, all as an index.
-spec extend(pid(), [binary()], Piece :: file:name_all(), Index :: file:name_all() | none) -> ok.
extend(Pid, Files, Piece, Index) ->
    gen_server:cast(Pid, {extend, Files, Piece, Index}).

-spec stop(pid()) -> ok.
stop(Pid) ->
    gen_server:cast(Pid, stop).

init({Server, Files, Path}) ->
    {ok, #reader{server = Server, profile = none}, {continue, {read, Files, Path}}}.

handle_continue({judge, IsKept}, Reader0) ->
    Reader = judged(Reader0),
    case IsKept of
        true -> {noreply, Reader, ?IDLE_MS};
        false -> closed(Reader)
    end;
%% The server does not wait for the memory, and lives on where there is none.
handle_continue({read, Files, Path}, Reader) ->
    case flame_prof_profile:new() of
        {ok, Profile} -> read_first(Files, Path, Reader#reader{profile = Profile});
        {error, _} = Error -> told(Error, Reader)
    end.

read_first(Files, Path, #reader{server = Server, profile = Profile} = Reader0) ->
    Progress = progress(Server, Files),
    {Result, Reader} =
        case read(Files, Progress, Reader0) of
            {ok, Read} -> {first(Profile, Path, is_growing(Files)), Read};
            {error, _} = Error -> {Error, Reader0}
        end,
    told(Result, Reader).

handle_call(_, _From, Reader) ->
    {reply, {error, unknown_call}, Reader, ?IDLE_MS}.

handle_cast({extend, Files, Piece, Index}, #reader{profile = Profile} = Reader0) ->
    {Result, Reader} =
        case added(Files, Reader0) of
            {ok, Read} -> {pieces(Profile, Piece, Index), Read};
            _ -> {changed, Reader0}
        end,
    told(Result, Reader);
handle_cast(stop, Reader) ->
    closed(Reader).

handle_info(timeout, #reader{timer = none} = Reader) ->
    closed(Reader);
%% Of a page that asks for no more, the last samples are judged all the same.
handle_info(timeout, Reader) ->
    closed(judged_now(Reader));
handle_info({timeout, Timer, judge}, #reader{timer = Timer} = Reader) ->
    {noreply, Reader#reader{timer = none}, {continue, {judge, true}}};
handle_info(_, Reader) ->
    {noreply, Reader, ?IDLE_MS}.

told(Result, #reader{server = Server} = Reader) ->
    gen_server:cast(Server, {built, self(), Result}),
    case Result of
        {ok, #{is_kept := IsKept}} -> {noreply, Reader, {continue, {judge, IsKept}}};
        _ -> closed(Reader)
    end.

%% Where it has not rested yet, later: the last that a session has written is judged, too.
judged(#reader{rests_until = Until, timer = none} = Reader) ->
    case Until =:= none orelse Until - erlang:monotonic_time(millisecond) of
        Rest when is_integer(Rest), Rest > 0 ->
            Reader#reader{timer = erlang:start_timer(Rest, self(), judge)};
        _ ->
            judged_now(Reader)
    end;
judged(Reader) ->
    Reader.

judged_now(#reader{profile = Profile, server = Server} = Reader) ->
    Began = erlang:monotonic_time(millisecond),
    gen_server:cast(Server, {judged, self(), flame_prof_doctor_page:judged(Profile)}),
    Ended = erlang:monotonic_time(millisecond),
    Rest = max(?JUDGED_APART_MS, ?REST_PER_JUDGING * (Ended - Began)),
    Reader#reader{rests_until = Ended + Rest}.

%% Here and not by the garbage collector, which would free the memory on a normal scheduler.
closed(#reader{profile = Profile} = Reader) ->
    _ = [flame_prof_profile:close(Profile) || Profile =/= none],
    {stop, normal, Reader}.

%% Files.

is_growing(Files) ->
    Last = lists:last(Files),
    flame_prof_view_files:finished(Last) =/= Last.

progress(Server, Files) ->
    Finished = [flame_prof_view_files:finished(File) || File <- Files],
    Before = maps:from_list(lists:zip(Finished,
        begins([filelib:file_size(File) || File <- Files], 0))),
    fun(File, Read) ->
        Begin = map_get(flame_prof_view_files:finished(File), Before),
        gen_server:cast(Server, {progress, self(), Begin + Read})
    end.

begins([], _At) -> [];
begins([Size | Sizes], At) -> [At | begins(Sizes, At + Size)].

read([], _Progress, Reader) ->
    {ok, Reader};
read([File | Files], Progress, #reader{files = Known} = Reader) ->
    case read_file(File, start, Progress, Reader) of
        {ok, Read} -> read(Files, Progress, Reader#reader{files = [Read | Known]});
        {error, Reason} -> {error, flame_prof_error:file(File, Reason)}
    end.

%% A file that is finished by then is found by its new name. An error behind the opening is one of
%% the samples that were read.
read_file(File, Start, Progress, #reader{profile = Profile} = Reader) ->
    Finished = flame_prof_view_files:finished(File),
    Kind = case Finished of File -> whole; _ -> part end,
    Known = #{name => Finished, inode => inode(File)},
    case flame_prof_profile:open(Profile, File, {Start, Kind}) of
        {ok, _} ->
            case flame_prof_profile:add(Profile, fun(Read) -> Progress(File, Read) end) of
                ok -> {ok, Known};
                {error, _} = Error -> Error
            end;
        {error, _} = Error ->
            case Kind =:= part andalso filelib:is_regular(Finished) of
                true -> read_file(Finished, Start, Progress, Reader);
                false -> Error
            end
    end.

inode(File) ->
    case file:read_file_info(File, [raw]) of
        {ok, #file_info{inode = Inode}} -> Inode;
        {error, _} -> none
    end.

%% The rest of the last file, and those behind it. The files that were read are the same ones.
added(Files, #reader{files = [#{name := Name, inode := Inode} | _] = Known} = Reader) ->
    {Again, New} = lists:split(min(length(Known), length(Files)), Files),
    Names = [flame_prof_view_files:finished(File) || File <- Again],
    Last = lists:last(Again),
    case Names =:= lists:reverse([N || #{name := N} <- Known]) andalso inode(Last) of
        false -> changed;
        Other when Other =/= Inode, Other =/= none -> changed;
        _ -> continued(Last, Name, New, Reader)
    end.

continued(Last, Name, New, #reader{files = [_ | Before]} = Reader) ->
    Quiet = fun(_, _) -> ok end,
    case read_file(Last, continue, Quiet, Reader) of
        {ok, #{name := Name} = Known} ->
            read(New, Quiet, Reader#reader{files = [Known | Before]});
        {error, _} = Error ->
            Error
    end.

%% Indexes.

first(Profile, Path, true) ->
    case flame_prof_profile:index_piece(Profile, Path) of
        {ok, #{bytes := Bytes, cpu_us := Us}} ->
            {ok, #{bytes => Bytes, is_kept => is_continuable(Profile), cpu_ms => Us div 1000}};
        {error, _} = Error ->
            Error
    end;
first(Profile, Path, false) ->
    case flame_prof_file_losses:refused(flame_prof_profile:info(Profile)) of
        ok -> indexed(flame_prof_profile:index(Profile, Path));
        {error, _} = Error -> Error
    end.

indexed({ok, #{bytes := Bytes}}) -> {ok, #{bytes => Bytes, is_kept => false}};
indexed({error, _} = Error) -> Error.

pieces(Profile, Piece, Index) ->
    case {flame_prof_profile:index_piece(Profile, Piece), is_continuable(Profile)} of
        {{ok, #{bytes := Bytes, cpu_us := Us}}, true} ->
            indexed(Profile, Index, #{bytes => Bytes, is_kept => true, cpu_ms => Us div 1000});
        _ ->
            changed
    end.

indexed(_Profile, none, Facts) ->
    {ok, Facts};
indexed(Profile, Index, Facts) ->
    case flame_prof_profile:index(Profile, Index) of
        {ok, #{bytes := All}} -> {ok, Facts#{index => All}};
        {error, _} -> changed
    end.

%% Behind damage it is not known where the next sample begins.
is_continuable(Profile) ->
    #{files := Files} = flame_prof_profile:info(Profile),
    #{damaged := Damaged, cut_off := IsCutOff, compression := Kind} = lists:last(Files),
    Damaged =:= 0 andalso not IsCutOff andalso Kind =/= gzip.
