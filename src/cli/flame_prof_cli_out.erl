%% @private What the command line says, and where: results to the standard
%% output, everything else to the standard error.
%%
%% The standard output is a port of the command. Erlang's own writer would outlive a
%% reader that has gone away (`| head'): with this the command ends, quietly, by the
%% throw of `reader_gone': what it has lent is given back first. Where both are the same
%% terminal, both go through it: only what one port writes comes in its order, and a
%% progress line is to be gone before what comes next.
-module(flame_prof_cli_out).

-export([open/0, put/1, put_bytes/1, written/0, say/1, progress/1, progress_done/0]).
-export([is_terminal/1, columns/0, rows/0, bold/1]).

-define(COLUMNS, 100).
-define(ROWS, 24).
-define(BYTES_AT_ONCE, 16384).
-define(LOOK_MS, 5).
%% The reason why a port has ended arrives a moment later.
-define(GONE_MS, 1000).

%% @doc By the process that is going to write.
-spec open() -> ok.
open() ->
    _ = process_flag(trap_exit, true),
    _ = put(?MODULE, open_port({fd, 1, 1}, [out, binary])),
    ok.

-spec put(unicode:chardata()) -> ok.
put(Text) ->
    put_bytes(encoded(Text)).

%% @doc As they are.
-spec put_bytes(binary()) -> ok.
put_bytes(Bytes) ->
    ok = progress_done(),
    write(get(?MODULE), Bytes).

write(Port, <<Part:?BYTES_AT_ONCE/binary, Rest/binary>>) when Rest =/= <<>> ->
    ok = write(Port, Part),
    write(Port, Rest);
write(Port, Bytes) ->
    try port_command(Port, Bytes) of
        true -> ok
    catch
        error:badarg -> throw(reader_gone)
    end.

%% @doc When all of it is where it was to go, or cannot get there. That its reader has
%% gone away is no error.
-spec written() -> ok | {error, file:posix()}.
written() ->
    Port = get(?MODULE),
    case erlang:port_info(Port, queue_size) of
        {queue_size, 0} -> ok;
        {queue_size, _} -> written(Port, ?LOOK_MS, fun written/0);
        undefined -> written(Port, ?GONE_MS, fun() -> ok end)
    end.

written(Port, Ms, Otherwise) ->
    receive
        {'EXIT', Port, Reason} when Reason =:= enospc; Reason =:= edquot; Reason =:= efbig ->
            {error, Reason};
        {'EXIT', Port, _} -> ok
    after Ms -> Otherwise()
    end.

%% @doc A line for the person.
-spec say(unicode:chardata()) -> ok.
say(Text) ->
    ok = progress_done(),
    complain(["flame_prof: ", Text, "\n"]).

complain(Text) ->
    case is_one_terminal() of
        true -> shown(encoded(Text));
        false -> _ = file:write(standard_error, encoded(Text)), ok
    end.

%% A closed terminal does not end the command: its files must be kept.
shown(Bytes) ->
    try port_command(get(?MODULE), Bytes) of
        true -> ok
    catch
        error:badarg -> ok
    end.

is_one_terminal() ->
    is_terminal(out) andalso is_terminal(err)
        andalso same(file:read_link("/proc/self/fd/1"), file:read_link("/proc/self/fd/2")).

same({ok, Path}, {ok, Path}) -> true;
same(_, _) -> false.

%% @doc A line that the next one replaces, on a terminal only.
-spec progress(unicode:chardata()) -> ok.
progress(Text) ->
    case is_terminal(err) of
        true ->
            _ = put({?MODULE, progress}, true),
            complain(["\r\e[K", flame_prof_text:fit(Text, max(20, columns() - 1))]);
        false ->
            ok
    end.

-spec progress_done() -> ok.
progress_done() ->
    case erase({?MODULE, progress}) of
        true -> complain("\r\e[K");
        undefined -> ok
    end.

%% @doc As the script has found out.
-spec is_terminal(in | out | err) -> boolean().
is_terminal(Which) ->
    lists:member(atom_to_list(Which), string:lexemes(os:getenv("FLAME_PROF_TERMINALS", ""), " ")).

-spec columns() -> pos_integer().
columns() -> geometry(io:columns(user), "COLUMNS", ?COLUMNS).

-spec rows() -> pos_integer().
rows() -> geometry(io:rows(user), "LINES", ?ROWS).

geometry({ok, Count}, _, _) when Count > 0 ->
    Count;
geometry(_, Variable, Default) ->
    try list_to_integer(os:getenv(Variable, "")) of
        Count when Count > 0 -> Count;
        _ -> Default
    catch
        error:badarg -> Default
    end.

%% @doc Where colours are wanted: https://no-color.org
-spec bold(unicode:chardata()) -> unicode:chardata().
bold(Text) ->
    case is_terminal(out) andalso os:getenv("NO_COLOR", "") =:= "" of
        true -> ["\e[1m", Text, "\e[0m"];
        false -> Text
    end.

encoded(Text) ->
    Unicode = unicode:characters_to_binary(Text),
    case is_utf8() of
        true -> Unicode;
        false -> << <<(plain(C))>> || <<C/utf8>> <= Unicode >>
    end.

plain(C) when C < 128 -> C;
plain(_) -> $?.

is_utf8() ->
    Values = [os:getenv(Name, "") || Name <- ["LC_ALL", "LC_CTYPE", "LANG"]],
    Set = [Value || Value <- Values, Value =/= ""],
    case Set of
        [Locale | _] -> re:run(Locale, "utf-?8", [caseless, {capture, none}]) =:= match;
        [] -> false
    end.
