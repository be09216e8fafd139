%% @private The files of a node on their way to this one, while they grow.
-module(flame_prof_fetching).

-include_lib("kernel/include/file.hrl").

-export([new/3, fetch/2]).

-export_type([fetching/0]).

%% Per file, by its name when it is finished. `from': who has it.
-opaque fetching() :: #{
    node := node(),
    from := node() | here,
    output := file:filename(),
    done := #{binary() => begun() | complete}
}.
%% A file that this node has made and has open, and how many bytes of it are there; or another
%% name of the one that grows.
-type begun() :: {file:fd(), non_neg_integer()} | linked.

-define(FETCH_BYTES, 1048576).
-define(CALL_MS, 15000).
-define(AGENT, flame_prof_agent).

%% @doc Files go to this folder, with the node's name in theirs. `From' has them: the node, or this
%% one, whose name may change.
-spec new(node(), From :: node() | here, file:filename()) -> fetching().
new(Node, From, Output) ->
    #{node => Node, from => From, output => Output, done => #{}}.

%% @doc What has come to these files since the last time: a node that goes away
%% costs what came after that. Answers the files that are here.
-spec fetch([file:filename_all()], fetching()) ->
    {ok, [file:filename()], fetching()} | {error, flame_prof:reason(), fetching()}.
fetch([], #{node := Node, output := Output, done := Done} = Fetching) ->
    {ok, lists:sort([local(File, Node, Output) || File <- maps:keys(Done)]), Fetching};
fetch([File | Files], #{node := Node, from := From, output := Output, done := Done} = Fetching) ->
    {Finished, IsFinished} = finished_name(File),
    case maps:get(Finished, Done, none) of
        complete ->
            fetch(Files, Fetching);
        Begun ->
            case copy(From, File, local(Finished, Node, Output), Begun) of
                {ok, Whole} when IsFinished ->
                    _ = [file:close(Device) || {Device, _} <- [Whole]],
                    fetch(Files, Fetching#{done := Done#{Finished => complete}});
                {ok, Longer} ->
                    fetch(Files, Fetching#{done := Done#{Finished => Longer}});
                {error, Reason, none} ->
                    {error, Reason, Fetching};
                {error, Reason, Longer} ->
                    {error, Reason, Fetching#{done := Done#{Finished => Longer}}}
            end
    end.

%% A file in progress is X.part, and may have become X.
finished_name(File) ->
    case filename:extension(File) of
        <<".part">> -> {filename:rootname(File), false};
        _ -> {File, true}
    end.

local(File, Node, Output) ->
    Name = flame_prof_log_name:with_node(filename:basename(File), Node),
    filename:join(Output, unicode:characters_to_list(Name)).

%% A remote writer's files are on this disk: a second link takes no space.
copy(_Node, _File, _Path, linked) ->
    {ok, linked};
copy(here, File, Path, none) ->
    {Finished, _} = finished_name(File),
    case [linked || Name <- [File, Finished], file:make_link(Name, Path) =:= ok] of
        [linked | _] -> {ok, linked};
        [] -> copied(node(), File, Path, none)
    end;
copy(here, File, Path, Begun) ->
    copied(node(), File, Path, Begun);
copy(Node, File, Path, Begun) ->
    copied(Node, File, Path, Begun).

%% Where both see the same file, it need not travel: that is all the same to a node
%% that is busy.
copied(Node, File, Path, Begun) ->
    copy(reader(Node, File), Node, File, Path, Begun).

copy(Reader, Node, File, Path, Begun) ->
    case Reader(offset(Begun)) of
        {ok, {ok, Bytes}} ->
            case append(Path, Begun, Bytes) of
                {ok, Longer} -> copy(Reader, Node, File, Path, Longer);
                {error, Reason} -> {error, flame_prof_error:file(Path, Reason), Begun}
            end;
        {ok, eof} ->
            case append(Path, Begun, <<>>) of
                {ok, _} = Done -> Done;
                {error, Reason} -> {error, flame_prof_error:file(Path, Reason), Begun}
            end;
        {ok, {error, Reason}} ->
            {error, refusal(Node, File, Reason), Begun};
        {error, Error} ->
            {error, Error, Begun}
    end.

offset(none) -> 0;
offset({_, Offset}) -> Offset.

reader(Node, File) ->
    {Finished, _} = finished_name(File),
    case [{Name, Info} || Name <- [File, Finished], {ok, {ok, Info}} <- [there(Node, Name)]] of
        [{Name, #file_info{inode = Inode, major_device = Device}} | _] ->
            case file:read_file_info(Name, [raw]) of
                {ok, #file_info{inode = Inode, major_device = Device, access = Access}} when
                    Access =:= read; Access =:= read_write
                ->
                    fun(Offset) -> {ok, ?AGENT:read(Name, Offset, ?FETCH_BYTES)} end;
                _ ->
                    from(Node, Name)
            end;
        [] ->
            from(Node, Finished)
    end.

there(Node, File) ->
    flame_prof_remote:call(Node, file, read_file_info, [File, [raw]], ?CALL_MS).

from(Node, File) ->
    fun(Offset) -> flame_prof_remote:call(Node, ?AGENT, read, [File, Offset, ?FETCH_BYTES],
        ?CALL_MS) end.

%% A new file of mode 0600 before anything is written to it; never an existing file or link.
%% Kept open: its name may come to mean another file.
append(Path, none, Bytes) ->
    case file:open(Path, [write, exclusive, raw, binary]) of
        {ok, Device} ->
            ok = file:change_mode(Path, 8#600),
            append(Path, {Device, 0}, Bytes);
        {error, _} = Error ->
            Error
    end;
append(_Path, {Device, Offset}, Bytes) ->
    case file:pwrite(Device, Offset, Bytes) of
        ok -> {ok, {Device, Offset + byte_size(Bytes)}};
        {error, _} = Error -> Error
    end.

refusal(Node, File, Reason) ->
    Why = unicode:characters_to_binary([File, ": ", file:format_error(Reason)]),
    {attach, #{node => Node, reason => Why, cause => refused}}.
