%% @private Reaching other nodes from a command: the command's node is hidden, does not
%% listen, and does not register with epmd.
-module(flame_prof_remote).

-export([connect/2, full/1, call/5, at_once/5, all/5, in_time/3, read_file/2, lacks/3]).

-define(PROBE_MS, 5000).
%% A node that is very busy may need longer for a handshake than it lets it take.
-define(HANDSHAKES, 2).
%% Commands that are connected to a node at the same time.
-define(NUMBERS, 16).
%% Files of /proc take less than a millisecond.
-define(FILE_MS, 3000).
%% The file name of what an agent lends.
-define(FROM, "flame_prof_attached").
%% After all that the caller has waited already.
-define(HELD_UP_MS, 1000).

%% @doc All of them or none. Names without a host are of this host. `cookie' or
%% `cookie_file'; else `~/.erlang.cookie'. `port' is where they listen, without epmd.
-spec connect([string()], map()) -> {ok, [node()]} | {error, flame_prof:reason()}.
connect(Names, Options) ->
    Full = lists:usort([full(Name) || Name <- Names]),
    try
        ok = well_formed(Full),
        Domain = domain(Full),
        Cookie = cookie(Options),
        ok = is_readable(Options),
        Finding = finding(Full, Options),
        Connect = fun(Name) -> connected(Name, Domain, Cookie, Finding) end,
        {ok, connected(numbers(Options), Full, Connect)}
    catch
        throw:{error, _} = Error -> Error
    end.

%% @doc A name without a host is of this host.
-spec full(string()) -> string().
full(Name) ->
    case lists:member($@, Name) of
        true -> Name;
        false -> Name ++ "@" ++ hd(string:split(net_adm:localhost(), "."))
    end.

well_formed(Names) ->
    case [N || N <- Names, re:run(N, "^[^@\\s]{1,200}@[^@\\s]{1,50}$",
        [unicode, {capture, none}]) =:= nomatch] of
        [] -> ok;
        [Bad | _] -> bad(node, Bad, <<"a name such as shop@myhost">>)
    end.

host(Name) -> lists:nth(2, string:split(Name, "@")).
alive(Name) -> hd(string:split(Name, "@")).

%% An IPv6 address is a long name.
domain(Names) ->
    IsLong = fun(Host) -> lists:member($., Host) orelse lists:member($:, Host) end,
    case lists:usort([IsLong(host(Name)) || Name <- Names]) of
        [true] -> longnames;
        [false] -> shortnames;
        _ -> bad(node, lists:flatten(lists:join(" ", Names)),
            <<"nodes with short names, or nodes with long names">>)
    end.

cookie(#{cookie := Text}) when length(Text) < 256 ->
    list_to_atom(Text);
cookie(#{cookie := Text}) ->
    bad(cookie, Text, <<"at most 255 characters">>);
cookie(#{cookie_file := File}) ->
    cookie_of(File, file:read_file(File));
cookie(_) ->
    File = filename:join(os:getenv("HOME", "/"), ".erlang.cookie"),
    cookie_of(File, file:read_file(File)).

cookie_of(File, {ok, Text}) ->
    case string:lexemes(Text, " \t\r\n") of
        [Cookie | _] when byte_size(Cookie) < 256 -> binary_to_atom(Cookie);
        _ -> throw({error, flame_prof_error:file(File, <<"it contains no cookie">>)})
    end;
cookie_of(File, {error, Reason}) ->
    throw({error, flame_prof_error:file(File, ["the cookie cannot be read: ",
        file:format_error(Reason), "; --cookie-file names the file of the node's user"])}).

%% Takes the first number that no other node in these nodes' connections has. Each new name is an
%% atom in the other node for ever. Its host is the host of the first node: no node checks it, as
%% this node does not listen.
connected([], [Name | _], _Connect) ->
    unreachable(Name, "~b commands of flame_prof are connected to it already", [?NUMBERS]);
connected([Number | Numbers], [First | _] = Names, Connect) ->
    Started = distributed(Number, domain(Names), First),
    try [Connect(Name) || Name <- Names]
    catch
        throw:{taken, _} when Started =:= started ->
            ok = net_kernel:stop(),
            connected(Numbers, Names, Connect);
        throw:{taken, Name} ->
            unreachable(Name, "another command of flame_prof is connected to it as ~ts",
                [node()])
    end.

%% All numbers if flame_prof_dist reports a taken name. Other protocols take one number: the first
%% one depends on this machine, and commands of this machine lock theirs. The lock is a socket
%% without a file, and ends with the command.
numbers(Options) ->
    All = lists:seq(1, ?NUMBERS),
    case {init:get_argument(proto_dist), Options} of
        %% Its name is also for nodes that it connects to later: few other commands have it.
        {{ok, [["flame_prof"]]}, #{command := mcp}} -> lists:reverse(All);
        {{ok, [["flame_prof"]]}, _} -> All;
        _ ->
            {ok, Host} = inet:gethostname(),
            {After, Before} = lists:split(erlang:phash2(Host, ?NUMBERS), All),
            [lock_first(Before ++ After, hd(Before))]
    end.

%% One name only: a lock stays until the command ends.
lock_first([Number | Numbers], Otherwise) ->
    case is_locked(Number) of
        true -> Number;
        false -> lock_first(Numbers, Otherwise)
    end;
lock_first([], Otherwise) ->
    Otherwise.

is_locked(Number) ->
    Name = <<0, "flame_prof_", (integer_to_binary(Number))/binary>>,
    net_kernel:get_state() =/= #{started => no} orelse
        element(1, gen_udp:open(0, [local, {ifaddr, {local, Name}}])) =:= ok.

distributed(Number, Domain, Like) ->
    Name = list_to_atom(lists:flatten(io_lib:format("flame_prof_~b@~ts", [Number, host(Like)]))),
    case net_kernel:start(Name, #{name_domain => Domain, dist_listen => false, hidden => true}) of
        {ok, _} -> started;
        {error, {already_started, _}} -> same_domain(Domain, Like, net_kernel:longnames());
        {error, _} -> unreachable(Like, "Erlang's distribution does not start here~ts", [tls()])
    end.

%% The server for assistants may be asked for nodes of both kinds.
same_domain(longnames, Like, false) ->
    unreachable(Like, "it has a long name, and this process has a short one already: another one "
        "is needed for it", []);
same_domain(shortnames, Like, true) ->
    unreachable(Like, "it has a short name, and this process has a long one already: another one "
        "is needed for it", []);
same_domain(_, _, _) ->
    ok.

%% Of TLS it does not say what is wrong with its options.
tls() ->
    case init:get_argument(proto_dist) of
        {ok, [["flame_prof"]]} -> "";
        {ok, _} -> ": it does not accept the options of --tls or --dist-opt";
        error -> ""
    end.

%% The distribution does not say why it does not start.
is_readable(#{tls := File}) ->
    case file:read_file(File) of
        {ok, _} -> ok;
        {error, Reason} -> throw({error, flame_prof_error:file(File, Reason)})
    end;
is_readable(_) ->
    ok.

%% One port is one node's.
finding([_], #{port := {Host, Port}}) ->
    ok = flame_prof_epmd:use(Host, Port),
    port;
finding([_, _ | _] = Names, #{port := _}) ->
    bad(port, lists:flatten(lists:join(" ", Names)), <<"one node">>);
finding(_, _) ->
    epmd.

connected(Name, Domain, Cookie, Finding) ->
    Node = list_to_atom(Name),
    true = erlang:set_cookie(Node, Cookie),
    ok = is_registered(Finding, Name),
    case handshake(Node, ?HANDSHAKES) of
        ok ->
            Node;
        taken ->
            throw({taken, Name});
        Failed ->
            Listens = listens(flame_prof_epmd:port_of(alive(Name), host(Name))),
            not_connected(Name, Domain, Failed, Listens)
    end.

%% A refusal comes at once. One that is not done in the time of the distribution says nothing of
%% cookies: it is tried once more.
handshake(Node, Left) ->
    Begun = erlang:monotonic_time(millisecond),
    case net_kernel:connect_node(Node) of
        true ->
            ok;
        _ ->
            Ms = erlang:monotonic_time(millisecond) - Begun,
            case {flame_prof_dist:is_taken(), Ms >= setup_ms()} of
                {true, _} -> taken;
                {false, true} when Left > 1 -> handshake(Node, Left - 1);
                {false, true} -> late;
                {false, false} -> refused
            end
    end.

%% A little less than the distribution takes.
setup_ms() ->
    Seconds = application:get_env(kernel, net_setuptime, 7),
    round(0.9 * 1000 * max(1, min(120, Seconds))).

is_registered(port, _Name) ->
    ok;
is_registered(epmd, Name) ->
    Host = host(Name),
    case flame_prof_epmd:registered(Host) of
        {ok, Registered} ->
            Known = [Alive || {Alive, _} <- Registered],
            lists:member(alive(Name), Known) orelse
                unreachable(Name, "no node ~ts runs on ~ts; there are: ~ts", [
                    alive(Name), Host, lists:join(", ", Known ++ ["none" || Known =:= []])
                ]),
            ok;
        {error, address} ->
            unreachable(Name, "no epmd answers on ~ts~ts; for a node without epmd give --port",
                [Host, unknown(Host)]);
        {error, Reason} ->
            unreachable(Name, "the host ~ts cannot be found: ~ts",
                [Host, inet:format_error(Reason)])
    end.

unknown(Host) ->
    case flame_prof_epmd:address(Host) of
        {ok, _} -> "";
        {error, _} -> ", whose name is not known here"
    end.

%% Only once the connection has failed: the node may log one that says nothing.
listens({ok, Host, Port}) ->
    case reached(flame_prof_epmd:address(Host), Port) of
        {ok, Socket} -> gen_tcp:close(Socket);
        {error, Reason} -> {error, Host, Port, Reason}
    end;
listens(error) ->
    ok.

reached({ok, Address}, Port) when tuple_size(Address) =:= 8 ->
    gen_tcp:connect(Address, Port, [inet6], ?PROBE_MS);
reached({ok, Address}, Port) ->
    gen_tcp:connect(Address, Port, [], ?PROBE_MS);
reached({error, _} = Error, _Port) ->
    Error.

-spec not_connected(string(), longnames | shortnames, late | refused, term()) -> no_return().
not_connected(Name, _Domain, _, {error, Host, Port, Reason}) ->
    unreachable(Name, "no connection to port ~b of ~ts: ~ts",
        [Port, Host, inet:format_error(Reason)]);
not_connected(Name, _Domain, late, ok) ->
    unreachable(Name, "it accepts connections, but did not answer in ~b s: it is stopped or "
        "overloaded, or has no free file descriptor or process",
        [round(?HANDSHAKES * setup_ms() / 900)]);
not_connected(Name, Domain, refused, ok) ->
    unreachable(Name, "it refused the connection: it has another cookie (--cookie, "
        "--cookie-file), ~ts, needs TLS (--tls), or has no free process (erl +P)",
        [other_name(Domain)]).

other_name(shortnames) -> "has a long name, which must be given in full";
other_name(longnames) -> "has another name".

-spec bad(atom(), string(), binary()) -> no_return().
bad(Argument, Value, Accepted) ->
    throw({error, {badarg, #{argument => Argument, value => Value, accepted => Accepted}}}).

-spec unreachable(string(), string(), [term()]) -> no_return().
unreachable(Name, Format, Args) ->
    throw(unreachable_error(Name, Format, Args)).

unreachable_error(Node, Format, Args) ->
    {error, {node, #{node => Node, reason => text(Format, Args)}}}.

text(Format, Args) ->
    unicode:characters_to_binary(io_lib:format(Format, Args)).

%% What is lent goes to a file of the node, and where files hang, that hangs too: what waits for the
%% schedulers of I/O is the last of the run queues.
held_up(Node) ->
    case asked(Node, erlang, statistics, [run_queue_lengths_all], ?HELD_UP_MS) of
        {ok, [_ | _] = Lengths} -> held_up_by(lists:last(Lengths));
        {error, {erpc, timeout}} -> "; it answers nothing now: it is stopped, or too busy";
        _ -> ""
    end.

held_up_by(0) ->
    "";
held_up_by(Waiting) ->
    text("; ~b call~ts wait for its dirty I/O schedulers, which read and write files",
        [Waiting, flame_prof_text:plural(Waiting)]).

%% @doc What a function of that node answers.
-spec call(node(), module(), atom(), [term()], timeout()) ->
    {ok, term()} | {error, flame_prof:reason()}.
call(Node, Module, Function, Args, Timeout) ->
    [{Node, Answer}] = all([Node], Module, Function, Args, Timeout),
    Answer.

%% @doc Of several, asked at the same time.
-spec all([node()], module(), atom(), [term()], timeout()) ->
    [{node(), {ok, term()} | {error, flame_prof:reason()}}].
all(Nodes, Module, Function, Args, Timeout) ->
    lists:zip(Nodes, [
        answer(Node, {Module, Function, length(Args)}, Answer)
     || {Node, Answer} <- lists:zip(Nodes, erpc:multicall(Nodes, Module, Function, Args, Timeout))
    ]).

%% @doc The same by a process of high priority: where a node has a thousand processes to run, each
%% turn is seconds. For what takes little of a CPU. Where no answer comes in time, its process is
%% ended there; one that the node has not begun by then runs all the same, and nobody hears of it.
-spec at_once(node(), module(), atom(), [term()], timeout()) ->
    {ok, term()} | {error, flame_prof:reason()}.
at_once(Node, Module, Function, Args, Timeout) ->
    answer(Node, {Module, Function, length(Args)}, asked(Node, Module, Function, Args, Timeout)).

%% The function of erpc is what its own requests run, in nodes of any release. No limit that the
%% node sets for all heaps (erl +hmax) ends a request: a list of its code path is longer than some.
asked(Node, Module, Function, Args, Timeout) ->
    Ref = make_ref(),
    Request = spawn_request(Node, erpc, execute_call, [Ref, Module, Function, Args],
        [monitor, {priority, high}, {max_heap_size, 0}]),
    receive
        {spawn_reply, Request, error, Why} -> {error, {erpc, Why}};
        {spawn_reply, Request, ok, Pid} -> awaited(Request, Pid, Ref, Timeout)
    after Timeout ->
        case spawn_request_abandon(Request) of
            true -> {error, {erpc, timeout}};
            false -> begun_late(Request, Ref)
        end
    end.

%% The reply came at the last moment.
begun_late(Request, Ref) ->
    receive
        {spawn_reply, Request, error, Why} -> {error, {erpc, Why}};
        {spawn_reply, Request, ok, Pid} -> awaited(Request, Pid, Ref, 0)
    after 0 ->
        {error, {erpc, timeout}}
    end.

awaited(Request, Pid, Ref, Timeout) ->
    receive
        {'DOWN', Request, process, Pid, Reason} -> ended(Ref, Reason)
    after Timeout ->
        true = demonitor(Request, [flush]),
        true = exit(Pid, kill),
        {error, {erpc, timeout}}
    end.

%% @doc A file of the node, not by its server of files: `late' means that all of its dirty I/O
%% schedulers are taken.
-spec read_file(node(), file:filename()) ->
    {ok, {ok, binary()} | {error, term()}} | late | {error, flame_prof:reason()}.
read_file(Node, File) ->
    case in_time(Node, [{fun prim_file:read_file/1, [File]}], ?FILE_MS) of
        {ok, [Answer]} -> {ok, Answer};
        Other -> Other
    end.

%% @doc Several functions of OTP in one request; `late' without an answer in time.
-spec in_time(node(), [{fun((...) -> term()), [term()]}], timeout()) ->
    {ok, [term()]} | late | {error, flame_prof:reason()}.
in_time(Node, Calls, Timeout) ->
    {Funs, Args} = lists:unzip(Calls),
    case asked(Node, lists, zipwith, [fun erlang:apply/2, Funs, Args], Timeout) of
        {error, {erpc, timeout}} -> late;
        Answer -> answer(Node, {lists, zipwith, 3}, Answer)
    end.

%% @doc Has the node no such module, neither loaded nor as a file? One that an agent lent is there
%% only as long as the agent lives. Where its files hang, only what is loaded counts: the node's
%% loader would be kept in them too.
-spec lacks(node(), module(), timeout()) -> {ok, boolean()} | {error, flame_prof:reason()}.
lacks(Node, Module, Timeout) ->
    Looks = [[fun erlang:module_loaded/1, fun erlang:whereis/1], [[Module], [flame_prof_agent]]],
    case at_once(Node, lists, zipwith, [fun erlang:apply/2 | Looks], Timeout) of
        {ok, [true, undefined]} -> {ok, is_left(Node, Module)};
        {ok, [true, _]} -> {ok, false};
        {ok, [false, _]} ->
            lacks_file(read_file(Node, "/proc/self/comm"), Node, Module, Timeout);
        {error, _} = Error -> Error
    end.

%% The code server may wait for files.
is_left(Node, Module) ->
    at_once(Node, code, is_loaded, [Module], ?FILE_MS) =:= {ok, {file, ?FROM}}.

lacks_file({ok, _}, Node, Module, Timeout) ->
    case at_once(Node, code, which, [Module], Timeout) of
        {ok, Where} -> {ok, Where =:= non_existing};
        {error, _} = Error -> Error
    end;
lacks_file(late, _Node, _Module, _Timeout) ->
    {ok, true};
lacks_file({error, _} = Error, _Node, _Module, _Timeout) ->
    Error.

%% As erpc says it.
ended(Ref, {Ref, return, Value}) -> {ok, Value};
ended(Ref, {Ref, error, Reason, Stack}) -> {error, {exception, Reason, Stack}};
ended(Ref, {Ref, Class, Reason}) -> {Class, Reason};
ended(_, noconnection) -> {error, {erpc, noconnection}};
ended(_, Reason) -> {exit, {signal, Reason}}.

answer(_Node, _Mfa, {ok, Answer}) ->
    {ok, Answer};
answer(Node, _Mfa, {error, {erpc, noconnection}}) ->
    unreachable_error(Node, "the connection is gone", []);
answer(Node, _Mfa, {error, {erpc, system_limit}}) ->
    {error, flame_prof_preflight:no_process(Node)};
answer(Node, _Mfa, {error, {erpc, timeout}}) ->
    unreachable_error(Node, "no answer in time (--timeout)~ts", [held_up(Node)]);
answer(Node, {Module, Function, Arity}, {error, {exception, undef,
    [{Module, Function, _, _} | _]}}) ->
    refused(Node, has_none(Module, Function, Arity));
answer(Node, {Module, Function, Arity}, {error, {exception, system_limit, _}}) ->
    refused(Node, text("~ts:~ts/~b failed there: the node is at a limit of its VM (processes, "
        "ports, "
        "atoms or tables)", [Module, Function, Arity]));
%% Without the reason, which may be any term of that node.
answer(Node, {Module, Function, Arity}, {_, Error}) ->
    refused(Node, text("~ts:~ts/~b failed there: ~ts", [Module, Function, Arity,
        flame_prof_error:exit_text(Error)])).

refused(Node, Why) ->
    {error, {attach, #{node => Node, reason => Why, cause => refused}}}.

has_none(flame_prof, F, A) when F =:= start, A =:= 1; F =:= stop; F =:= info; F =:= flush ->
    <<"no flame_prof is on its code path; `flame_prof attach' brings its own">>;
has_none(flame_prof_agent, start, 1) ->
    <<"the first module was not loaded there: it has few free processes, or another flame_prof "
        "attaches at this moment">>;
has_none(Module, F, A) ->
    text("it has no ~ts:~ts/~b: it has no flame_prof, or another version", [Module, F, A]).
