%% @private Reaching other nodes from a command: the command's node is hidden, does not
%% listen, and does not register with epmd.
-module(flame_prof_remote).

-export([connect/2, full/1, call/5, all/5]).

-define(PROBE_MS, 5000).

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
        ok = distributed(Domain, hd(Full)),
        Finding = finding(Full, Options),
        {ok, [connected(Name, Domain, Cookie, Finding) || Name <- Full]}
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

domain(Names) ->
    case lists:usort([lists:member($., host(Name)) || Name <- Names]) of
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
        _ -> throw({error, flame_prof_error:file(File, <<"no cookie is in it">>)})
    end;
cookie_of(File, {error, Reason}) ->
    throw({error, flame_prof_error:file(File, ["the cookie cannot be read: ",
        file:format_error(Reason), "; --cookie-file names the file of the node's user"])}).

%% The host is that of the other node: it is not checked, as this node does not listen.
distributed(Domain, Like) ->
    Own = io_lib:format("flame_prof_~ts_~b@~ts",
        [os:getpid(), erlang:phash2(make_ref()), host(Like)]),
    Name = list_to_atom(lists:flatten(Own)),
    case net_kernel:start(Name, #{name_domain => Domain, dist_listen => false, hidden => true}) of
        {ok, _} -> ok;
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
    case net_kernel:connect_node(Node) of
        true -> Node;
        _ -> not_connected(Name, Domain, listens(flame_prof_epmd:port_of(alive(Name), host(Name))))
    end.

is_registered(port, _Name) ->
    ok;
is_registered(epmd, Name) ->
    Host = host(Name),
    case erl_epmd:names(Host) of
        {ok, Registered} ->
            Known = [Alive || {Alive, _} <- Registered],
            lists:member(alive(Name), Known) orelse
                unreachable(Name, "no node ~ts runs on ~ts; there are: ~ts", [
                    alive(Name), Host, lists:join(", ", Known ++ ["none" || Known =:= []])
                ]),
            ok;
        {error, address} ->
            unreachable(Name, "no epmd answers on ~ts~ts; a node without epmd is found by --port",
                [Host, unknown(Host)]);
        {error, Reason} ->
            unreachable(Name, "the host ~ts cannot be found: ~ts",
                [Host, inet:format_error(Reason)])
    end.

unknown(Host) ->
    case inet:getaddr(Host, inet) of
        {ok, _} -> "";
        {error, _} -> ", whose name is not known here"
    end.

%% Only once the connection has failed: the node may log one that says nothing.
listens({ok, Host, Port}) ->
    case gen_tcp:connect(Host, Port, [], ?PROBE_MS) of
        {ok, Socket} -> gen_tcp:close(Socket);
        {error, Reason} -> {error, Host, Port, Reason}
    end;
listens(error) ->
    ok.

-spec not_connected(string(), longnames | shortnames, term()) -> no_return().
not_connected(Name, _Domain, {error, Host, Port, Reason}) ->
    unreachable(Name, "no connection to port ~b of ~ts: ~ts",
        [Port, Host, inet:format_error(Reason)]);
not_connected(Name, Domain, ok) ->
    unreachable(Name, "it refused the connection: its cookie is another one (--cookie, "
        "--cookie-file), ~ts, or it wants TLS (--tls)", [other_name(Domain)]).

other_name(shortnames) -> "it has a long name, which is to be given in full";
other_name(longnames) -> "it calls itself by another name".

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

answer(_Node, _Mfa, {ok, Answer}) ->
    {ok, Answer};
answer(Node, _Mfa, {error, {erpc, noconnection}}) ->
    unreachable_error(Node, "the connection is gone", []);
answer(Node, _Mfa, {error, {erpc, timeout}}) ->
    unreachable_error(Node, "no answer in time (--timeout)", []);
answer(Node, {Module, Function, Arity}, {error, {exception, undef,
    [{Module, Function, _, _} | _]}}) ->
    refused(Node, lacks(Module, Function, Arity));
%% Without the reason, which may be any term of that node.
answer(Node, {Module, Function, Arity}, {_, Error}) ->
    refused(Node, text("~ts:~ts/~b failed there: ~ts", [Module, Function, Arity,
        flame_prof_error:exit_text(Error)])).

refused(Node, Why) ->
    {error, {attach, #{node => Node, reason => Why, cause => refused}}}.

lacks(flame_prof, F, A) when F =:= start, A =:= 1; F =:= stop; F =:= info; F =:= flush ->
    <<"no flame_prof is on its code path; `flame_prof attach' brings its own">>;
lacks(Module, F, A) ->
    text("it has no ~ts:~ts/~b: it has no flame_prof, or another version", [Module, F, A]).
