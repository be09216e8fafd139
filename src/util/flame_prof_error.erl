%% @doc The errors of flame_prof: `{error, {Class, Details}}', Details a map.
%% {@link flame_prof:format_error/1} makes a sentence of each.
%%
%% <dl>
%%   <dt>`bad_option': `option', `accepted', `value'</dt>
%%   <dd>An option, or its value, is not accepted. `option' is `{Outer, Key}' for a key of an
%%     option that is a map, and `options' where the options are not a map.</dd>
%%   <dt>`bad_env': `option', `accepted', `value'</dt>
%%   <dd>The same, of the application's environment (`sys.config').</dd>
%%   <dt>`badarg': `argument', `accepted', `value'</dt>
%%   <dd>An argument of a function is not accepted.</dd>
%%   <dt>`not_started'</dt>
%%   <dd>No session is running.</dd>
%%   <dt>`already_started': `pid'</dt>
%%   <dd>A session is running, or waits for its triggers.</dd>
%%   <dt>`stopping'</dt>
%%   <dd>The session is ending.</dd>
%%   <dt>`timeout': `ms', `request'</dt>
%%   <dd>The time is over. A `start' is undone; every other request goes on.</dd>
%%   <dt>`armed'</dt>
%%   <dd>No trigger has fired: there is nothing to write.</dd>
%%   <dt>`session_ended': `reason'</dt>
%%   <dd>The session ended before it answered.</dd>
%%   <dt>`invariant': `reason'</dt>
%%   <dd>The C library found a mistake of its own, and ended the session. `reason' has the place
%%     in its sources.</dd>
%%   <dt>`application': `application', `reason'</dt>
%%   <dd>The application did not start.</dd>
%%   <dt>`engine': `engine', `reason', `cause'</dt>
%%   <dd>The engine cannot run here. `cause' is for programs: what calibration found.</dd>
%%   <dt>`library': `reason'</dt>
%%   <dd>A C library did not load.</dd>
%%   <dt>`memory': `reason', `file'</dt>
%%   <dd>A limit of memory is reached, while `file' was read.</dd>
%%   <dt>`limit': `limit', `free', `needed', `reason'</dt>
%%   <dd>The node has too few free processes, atoms, file descriptors or bytes, and nothing was
%%     started. `limit' is `processes', `atoms', `descriptors', `memory' or `address_space'.</dd>
%%   <dt>`file': `file', `reason', `lost', `note'</dt>
%%   <dd>A file or directory cannot be read or written. `reason' is an atom of POSIX where the
%%     system has refused it, a text elsewhere; `lost' counts the samples that were not
%%     written; `note' is a text that says what else may help.</dd>
%%   <dt>`no_files'</dt>
%%   <dd>The list of files is empty.</dd>
%%   <dt>`closed'</dt>
%%   <dd>The profile is closed.</dd>
%%   <dt>`busy'</dt>
%%   <dd>Another process uses the profile.</dd>
%%   <dt>`view': `reason'</dt>
%%   <dd>The viewer cannot run.</dd>
%%   <dt>`attach': `node', `reason', `cause', `short'</dt>
%%   <dd>flame_prof cannot attach to the node, or not leave it. `cause' is `incompatible' where
%%     the node cannot run flame_prof, and `short' for a node that has too little left of
%%     something: `short' lists what, with `used', `limit' and `needed'.</dd>
%%   <dt>`process': `target'</dt>
%%   <dd>There is no such process.</dd>
%%   <dt>`moved': `target', `ms'</dt>
%%   <dd>The process ran during each look of that time: {@link flame_prof_xray} shows one that
%%     stands still.</dd>
%%   <dt>`trace_pattern': `pattern', `column', `reason'</dt>
%%   <dd>A pattern of {@link flame_prof_trace} is not accepted. `column' is optional.</dd>
%%   <dt>`node': `node', `reason'</dt>
%%   <dd>The node cannot be reached.</dd>
%%   <dt>`tracing': `reason'</dt>
%%   <dd>What is to be traced cannot be, or another tracing runs.</dd>
%% </dl>
%%
%% `reason' and `accepted' are texts. `value', `request', `cause', `lost', `note', and `file' of
%% `memory', are optional.
-module(flame_prof_error).

-export([format/1, without_file/1]).
-export([option/3, file/2, add_lost/2, of_library/2, of_exit/1, of_application/1]).
-export([exit_text/1, internal/1, place/1]).

-export_type([reason/0]).

-type reason() ::
    flame_prof_options:error()
    | {badarg, #{argument := atom(), accepted := binary(), value => term()}}
    | {already_started, #{pid := pid()}}
    | {timeout, #{ms := timeout(), request => start | stop | flush | info}}
    | {not_started | stopping | armed | no_files | closed | busy, #{}}
    | {session_ended | invariant | library | view, #{reason := binary()}}
    | {application, #{application := atom(), reason := binary()}}
    | {engine, #{engine := flame_prof_engine:name(), reason := binary(), cause => term()}}
    | {memory, #{reason := binary(), file => file:name_all()}}
    | {limit, #{
        limit := processes | atoms | descriptors | memory | address_space,
        free := integer(), needed := pos_integer(), reason := binary()
    }}
    | {file, #{
        file := file:name_all(), reason := atom() | binary(), lost => non_neg_integer(),
        note => binary()
    }}
    | {attach, #{node := node(), reason := binary(), cause => incompatible | refused | short,
        short => [flame_prof_preflight:shortage()]}}
    | {process, #{target := term()}}
    | {moved, #{target := term(), ms := pos_integer()}}
    | {node, #{node := atom() | string(), reason := binary()}}
    | {trace_pattern, #{pattern := binary(), column => pos_integer(), reason := binary()}}
    | {tracing, #{reason := unicode:chardata(), busy => true}}.
%% Every error of flame_prof.

%% The part of a value that is shown.
-define(DEPTH, 8).
-define(VALUE_CHARS, 60).

%% @private One sentence for a person.
-spec format(reason()) -> unicode:chardata().
format(Reason) ->
    %% A person may pass anything.
    try
        Sentence = sentence(Reason),
        true = is_binary(unicode:characters_to_binary(Sentence)),
        Sentence
    catch
        error:_ -> ["not an error of flame_prof: ", shown(Reason)]
    end.

sentence({bad_option, #{option := options} = Refused}) ->
    ["options", refused(Refused)];
sentence({bad_option, #{option := Option} = Refused}) ->
    ["option ", option(Option), refused(Refused)];
sentence({bad_env, #{option := Option} = Refused}) ->
    ["configuration of flame_prof (sys.config), ", option(Option), refused(Refused)];
sentence({badarg, #{argument := Argument} = Refused}) ->
    ["argument ", shown(Argument), refused(Refused)];
sentence({not_started, _}) ->
    "no session is running";
sentence({already_started, #{pid := Pid}}) ->
    io_lib:format("a session is already running, or waits for its triggers: ~p", [Pid]);
sentence({stopping, _}) ->
    "the session is ending";
sentence({timeout, #{ms := Ms, request := start}}) ->
    io_lib:format("the session did not start within ~p ms and was given up", [Ms]);
sentence({timeout, #{ms := Ms} = Timeout}) ->
    Request = maps:get(request, Timeout, 'the request'),
    io_lib:format("no answer within ~p ms; ~ts goes on in the background", [Ms, Request]);
sentence({armed, _}) ->
    "no trigger has fired: nothing is written yet";
sentence({session_ended, #{reason := Why}}) ->
    ["the session ended before it answered: ", Why];
sentence({invariant, #{reason := Why}}) ->
    ["a bug of flame_prof has ended the session: ", Why, "; please report it"];
sentence({application, #{application := Application, reason := Why}}) ->
    io_lib:format("the application ~ts did not start: ~ts", [Application, Why]);
sentence({engine, #{engine := Engine, reason := Why}}) ->
    io_lib:format("the ~ts engine cannot be used here: ~ts", [Engine, Why]);
sentence({library, #{reason := Why}}) ->
    ["the C library did not load: ", Why];
sentence({memory, #{file := File, reason := Why}}) ->
    [name(File), ": ", Why];
sentence({Limit, #{reason := Why}}) when Limit =:= memory; Limit =:= limit ->
    Why;
sentence({file, #{file := File, reason := Why} = Details}) ->
    [name(File), ": ", posix_text(Why), lost(Details), [["; ", N] || #{note := N} <- [Details]]];
sentence({no_files, _}) ->
    "no files were given";
sentence({closed, _}) ->
    "the profile is closed";
sentence({busy, _}) ->
    "another process uses the profile";
sentence({view, #{reason := Why}}) ->
    Why;
sentence({attach, #{node := Node, reason := Why}}) ->
    io_lib:format("~ts: ~ts", [Node, Why]);
sentence({tracing, #{reason := Why}}) ->
    Why;
sentence({moved, #{target := Pid, ms := Ms}}) ->
    ["the process ", shown(Pid), " ran during each look within ", integer_to_list(Ms),
        " ms: it is shown while it stands still, or by a copy of its heap that fits in max_memory; "
        "accepted is more of max_memory or time_limit"];
sentence({process, #{target := Target}}) ->
    ["there is no process ", shown(Target)];
sentence({trace_pattern, #{pattern := Text, column := Column, reason := Why}}) ->
    ["trace pattern, column ", integer_to_list(Column), ": ", Why, "\n  ", Text, "\n  ",
        lists:duplicate(Column - 1, $\s), "^"];
sentence({trace_pattern, #{pattern := Text, reason := Why}}) ->
    ["trace pattern ", Text, ": ", Why];
sentence({node, #{node := Node, reason := Why}}) ->
    io_lib:format("~ts: ~ts", [Node, Why]).

%% @private The sentence without the place of the file, for a page.
-spec without_file(reason()) -> unicode:chardata().
without_file({file, #{reason := Why}}) -> posix_text(Why);
without_file({memory, #{reason := Why}}) -> Why;
without_file(Reason) -> format(Reason).

option({Outer, Key}) when is_atom(Outer) -> [shown(Outer), ", ", option(Key)];
option(Key) -> shown(Key).

%% For an unknown key, `accepted' says so and lists the keys.
refused(#{accepted := <<"no such ", _/binary>> = Text}) -> [": ", Text];
refused(#{value := Value, accepted := Text}) ->
    [" => ", value(Value), " is not accepted; it takes ", Text];
refused(#{accepted := Text}) -> [" takes ", Text].

%% A text in quotes: "true", which the environment of the operating system has, is not true.
value(Text) when is_binary(Text), byte_size(Text) > 0 ->
    [$", flame_prof_text:fit(string:replace(name(Text), "\"", "\\\"", all), ?VALUE_CHARS), $"];
value(Term) ->
    shown(Term).

shown(Text) when is_binary(Text), byte_size(Text) > 0 ->
    flame_prof_text:fit(name(Text), ?VALUE_CHARS);
shown(Term) ->
    io_lib:format("~0tP", [Term, ?DEPTH], [{chars_limit, ?VALUE_CHARS}]).

name(File) when File =:= ""; File =:= <<>> -> "\"\"";
name(File) when is_binary(File) ->
    case unicode:characters_to_binary(File) of
        Text when is_binary(Text) -> Text;
        _ -> flame_prof_text:printable(File)
    end;
name(File) when is_atom(File) -> atom_to_binary(File);
name(File) ->
    try unicode:characters_to_binary(filename:flatten(File)) of
        Text when is_binary(Text), Text =/= <<>> -> Text;
        _ -> shown(File)
    catch
        error:_ -> shown(File)
    end.

posix_text(Reason) when is_atom(Reason) -> file:format_error(Reason);
posix_text(Text) -> Text.

lost(#{lost := Samples}) -> io_lib:format("; ~b samples were lost", [Samples]);
lost(#{}) -> "".

%% @private
-spec option(term(), term(), binary()) -> reason().
option(Option, Value, Accepted) ->
    {bad_option, #{option => Option, value => Value, accepted => Accepted}}.

%% @private The reason of a file error, by the module file or a C library.
-spec file(file:name_all(), atom() | {atom(), binary()} | unicode:chardata()) -> reason().
file(File, Reason) when is_atom(Reason) -> {file, #{file => File, reason => Reason}};
file(File, {full, Why}) -> {memory, #{file => File, reason => Why}};
file(File, {enomem, Why}) -> {memory, #{file => File, reason => Why}};
file(File, {_, Why}) -> file(File, Why);
file(File, Why) -> {file, #{file => File, reason => posix(unicode:characters_to_binary(Why))}}.

%% @private What a file did not take at the end of a session is lost.
-spec add_lost(reason(), non_neg_integer()) -> reason().
add_lost({file, Details}, Samples) -> {file, Details#{lost => Samples}};
add_lost(Reason, _Samples) -> Reason.

%% @private What a C library refuses, with the file or directory that it was told. Its text begins
%% with the file that it is about.
-spec of_library(atom() | {atom(), binary()}, file:name_all()) -> reason().
of_library(Error, Place) when is_atom(Error) ->
    of_library({Error, atom_to_binary(Error)}, Place);
of_library({io, Text}, Place) ->
    case binary:split(Text, <<": ">>) of
        [<<"/", _/binary>> = File, Why] -> file(File, Why);
        _ -> file(Place, Text)
    end;
of_library({Error, Why}, _Place) when Error =:= enomem; Error =:= full ->
    {memory, #{reason => Why}};
of_library({broken_invariant, Why}, _Place) ->
    {invariant, #{reason => Why}};
of_library({Error, Why}, _Place) ->
    {engine, #{engine => native, reason => Why, cause => Error}}.

%% The C libraries have the system's text and no number: `enoent' of "No such file or directory".
posix(Text) ->
    maps:get(string:lowercase(Text), #{
        <<"no such file or directory">> => enoent,
        <<"permission denied">> => eacces,
        <<"operation not permitted">> => eperm,
        <<"file exists">> => eexist,
        <<"not a directory">> => enotdir,
        <<"is a directory">> => eisdir,
        <<"no space left on device">> => enospc,
        <<"disk quota exceeded">> => edquot,
        <<"file too large">> => efbig,
        <<"read-only file system">> => erofs,
        <<"input/output error">> => eio,
        <<"too many open files">> => emfile
    }, Text).

%% @private Why a process ended that was to answer.
-spec of_exit(term()) -> reason().
of_exit(Reason) -> {session_ended, #{reason => exit_text(Reason)}}.

%% @private The reason that a process ended with, as a text without terms.
-spec exit_text(term()) -> binary().
exit_text(killed) -> <<"it was killed">>;
exit_text(Ended) when Ended =:= normal; Ended =:= noproc -> <<"it has ended">>;
exit_text(shutdown) -> <<"the application stops">>;
exit_text({shutdown, _}) -> <<"it stopped by itself; the log has the reason">>;
exit_text(noconnection) -> <<"the connection is lost">>;
exit_text({nodedown, Node}) -> <<"the connection to ", (atom_to_binary(Node))/binary, " is lost">>;
exit_text({system_limit, [_ | _]}) -> flame_prof_shortage:reached();
exit_text({_Reason, [{_, _, _, _} | _] = Stack}) -> internal(Stack);
%% As erpc has them.
exit_text({erpc, notsup}) -> <<"it runs OTP 22 or older">>;
exit_text({exception, system_limit, _Stack}) -> flame_prof_shortage:reached();
exit_text({exception, _Reason, Stack}) -> internal(Stack);
exit_text({Kind, Reason}) when Kind =:= exception; Kind =:= signal -> exit_text(Reason);
exit_text(_) -> <<"an internal error; the log has its report">>.

%% @private Where an exception was raised: its reason and the arguments may have terms of the
%% node. The place is the first of flame_prof, as what it called may be of OTP.
-spec internal([tuple()]) -> binary().
internal(Stack) ->
    Known = [Call || {M, F, A, L} = Call <- Stack, is_atom(M), is_atom(F), is_list(L),
        is_integer(A) orelse is_list(A)],
    case {[Call || Call <- Known, is_own(Call)], Known} of
        {[Own | _], _} -> <<"an internal error in ", (place(Own))/binary>>;
        {[], [First | _]} -> <<"an internal error in ", (place(First))/binary>>;
        {[], []} -> <<"an internal error">>
    end.

is_own({Module, _, _, _}) ->
    lists:prefix("flame_prof", atom_to_list(Module)).

%% @private One call of a stack trace, without its arguments.
-spec place(tuple()) -> binary().
place({Module, Function, Args, Location}) when is_list(Args) ->
    place({Module, Function, length(Args), Location});
place({Module, Function, Arity, Location}) ->
    Line = [io_lib:format(", line ~b", [N]) || {line, N} <- Location],
    Call = io_lib:format("~ts:~ts/~b", [Module, Function, Arity]),
    unicode:characters_to_binary([Call, Line]).

%% @private Why applications did not start.
-spec of_application({atom(), term()}) -> reason().
of_application({Application, Reason}) ->
    {application, #{application => Application, reason => application_text(Reason)}}.

application_text({[_ | _] = Text, [_ | _] = File}) ->
    try unicode:characters_to_binary([File, ": ", Text]) of
        Why when is_binary(Why) -> Why;
        _ -> application_text(unknown)
    catch
        error:badarg -> application_text(unknown)
    end;
application_text(_) ->
    <<"the log has the reason">>.
