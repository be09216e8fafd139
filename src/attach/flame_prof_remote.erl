%% @private Reaching other nodes from a command: a node of our own that listens
%% for nobody, is hidden, and tells epmd nothing.
-module(flame_prof_remote).

-export([connect/2, call/5, all/5]).

-export_type([error/0]).

-type error() :: {unreachable | refused, unicode:chardata()}.

%% @doc All of them or none. Names without a host are of this host. `cookie' or
%% `cookie_file'; else `~/.erlang.cookie'.
-spec connect([string()], map()) -> {ok, [node()]} | {error, error()}.
connect(Names, Options) ->
    Full = lists:usort([full(Name) || Name <- Names]),
    try
        ok = well_formed(Full),
        Domain = domain(Full),
        Cookie = cookie(Options),
        ok = distributed(Domain, hd(Full)),
        {ok, [connected(Name, Domain, Cookie) || Name <- Full]}
    catch
        throw:{error, _} = Error -> Error
    end.

full(Name) ->
    case lists:member($@, Name) of
        true -> Name;
        false -> Name ++ "@" ++ hd(string:split(net_adm:localhost(), "."))
    end.

well_formed(Names) ->
    case [N || N <- Names, re:run(N, "^[^@\\s]{1,200}@[^@\\s]{1,50}$",
        [unicode, {capture, none}]) =:= nomatch] of
        [] -> ok;
        [Bad | _] -> refuse(refused, "~tp is no name of a node; it is like name@host", [Bad])
    end.

host(Name) -> lists:nth(2, string:split(Name, "@")).
alive(Name) -> hd(string:split(Name, "@")).

domain(Names) ->
    case lists:usort([lists:member($., host(Name)) || Name <- Names]) of
        [true] -> longnames;
        [false] -> shortnames;
        _ -> refuse(refused, "nodes with short and with long names cannot be reached at once", [])
    end.

cookie(#{cookie := Text}) when length(Text) < 256 ->
    list_to_atom(Text);
cookie(#{cookie := _}) ->
    refuse(refused, "--cookie: no cookie has more than 255 characters", []);
cookie(#{cookie_file := File}) ->
    cookie_of(File, file:read_file(File));
cookie(_) ->
    File = filename:join(os:getenv("HOME", "/"), ".erlang.cookie"),
    cookie_of(File, file:read_file(File)).

cookie_of(File, {ok, Text}) ->
    case string:lexemes(Text, " \t\r\n") of
        [Cookie | _] when byte_size(Cookie) < 256 -> binary_to_atom(Cookie);
        _ -> refuse(refused, "~ts: no cookie is in it", [File])
    end;
cookie_of(File, {error, Reason}) ->
    refuse(
        refused,
        "the cookie cannot be read: ~ts: ~ts; --cookie-file names the file of the node's user",
        [File, file:format_error(Reason)]
    ).

%% The host is that of the other node: it is not checked, as we listen to nobody.
distributed(Domain, Like) ->
    Own = io_lib:format("flame_prof_~ts_~b@~ts",
        [os:getpid(), erlang:phash2(make_ref()), host(Like)]),
    Name = list_to_atom(lists:flatten(Own)),
    case net_kernel:start(Name, #{name_domain => Domain, dist_listen => false, hidden => true}) of
        {ok, _} -> ok;
        {error, {already_started, _}} -> ok;
        {error, Reason} -> refuse(unreachable, "no distribution here: ~0tP", [Reason, 12])
    end.

connected(Name, Domain, Cookie) ->
    Node = list_to_atom(Name),
    true = erlang:set_cookie(Node, Cookie),
    ok = is_registered(Name, Domain),
    case net_kernel:connect_node(Node) of
        true -> Node;
        _ -> refuse(unreachable, "~ts did not let us in: ~ts", [Name, causes(Domain)])
    end.

is_registered(Name, Domain) ->
    Host = host(Name),
    case erl_epmd:names(Host) of
        {ok, Registered} ->
            Known = [Alive || {Alive, _} <- Registered],
            lists:member(alive(Name), Known) orelse
                refuse(unreachable, "no node ~ts runs on ~ts; there are: ~ts", [
                    alive(Name), Host, lists:join(", ", Known ++ ["none" || Known =:= []])
                ]),
            ok;
        {error, address} ->
            refuse(unreachable, "no node with a name runs on ~ts: no epmd answers there~ts", [
                Host, unknown(Host, Domain)
            ]);
        {error, Reason} ->
            refuse(unreachable, "the host ~ts cannot be found: ~ts",
                [Host, inet:format_error(Reason)])
    end.

unknown(Host, _) ->
    case inet:getaddr(Host, inet) of
        {ok, _} -> "";
        {error, _} -> ", and the host's name is not known here"
    end.

causes(shortnames) ->
    ["is the cookie right (--cookie, --cookie-file)? Has it a long name (-name), to be given in ",
        "full? Does it want TLS (-proto_dist inet_tls), which this command does not speak?"];
causes(longnames) ->
    ["is the cookie right (--cookie, --cookie-file)? Is that the whole name that it calls itself? ",
        "Has it a short name (-sname), to be given without dots? Does it want TLS?"].

-spec refuse(atom(), string(), [term()]) -> no_return().
refuse(Kind, Format, Args) ->
    throw({error, {Kind, io_lib:format(Format, Args)}}).

%% @doc What a function of that node answers.
-spec call(node(), module(), atom(), [term()], timeout()) -> {ok, term()} | {error, error()}.
call(Node, Module, Function, Args, Timeout) ->
    [{Node, Answer}] = all([Node], Module, Function, Args, Timeout),
    Answer.

%% @doc Of several, asked at the same time.
-spec all([node()], module(), atom(), [term()], timeout()) ->
    [{node(), {ok, term()} | {error, error()}}].
all(Nodes, Module, Function, Args, Timeout) ->
    lists:zip(Nodes, [
        answer(Node, {Module, Function, length(Args)}, Answer)
     || {Node, Answer} <- lists:zip(Nodes, erpc:multicall(Nodes, Module, Function, Args, Timeout))
    ]).

answer(_Node, _Mfa, {ok, Answer}) ->
    {ok, Answer};
answer(Node, _Mfa, {error, {erpc, noconnection}}) ->
    {error, {unreachable, io_lib:format("the connection to ~ts is gone", [Node])}};
answer(Node, _Mfa, {error, {erpc, timeout}}) ->
    {error, {unreachable, io_lib:format("~ts did not answer in time (--timeout)", [Node])}};
answer(Node, {Module, Function, Arity}, {error, {exception, undef,
    [{Module, Function, _, _} | _]}}) ->
    {error, {refused, lacks(Node, Module, Function, Arity)}};
answer(Node, _Mfa, Error) ->
    {error, {refused, io_lib:format("~ts: ~0tP", [Node, Error, 20])}}.

lacks(Node, flame_prof, F, A) when F =:= start, A =:= 1; F =:= stop; F =:= info; F =:= flush ->
    io_lib:format("~ts has no flame_prof on its code path; `flame_prof attach' brings its own",
        [Node]);
lacks(Node, Module, F, A) ->
    io_lib:format("~ts has no ~ts:~ts/~b: it has no flame_prof, or another version",
        [Node, Module, F, A]).
