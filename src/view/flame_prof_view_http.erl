%% @private Requests of the page: a module of inets' httpd, called in a process for
%% each connection.
%%
%% ```
%% GET /TOKEN/                              the page, and viewer.js, viewer.css, and
%%                                          latency.js, allocations.js
%% GET /TOKEN/api/first?name=N              the next three, of the newest profile if there is no
%%                                          name, and behind a line end the first and the last bytes
%%                                          of its index
%% GET /TOKEN/api/profiles                  what there is
%% GET /TOKEN/api/modules                   application of each module
%% GET /TOKEN/api/prepare?name=N            make its index, or how far that is
%% GET /TOKEN/api/append?name=N&version=V   pieces of the index behind this version: JSON, and where
%%                                          they are small, behind a line end their bytes
%% GET /TOKEN/api/index?name=N&version=V    bytes of it or of a piece, by Range
%% GET /TOKEN/api/findings?name=N           what the doctor finds in it: flame_prof_doctor_page
%% GET /TOKEN/api/latency?functions=F&seconds=S
%%                                          calls of these functions, measured while the page reads
%%                                          the answer: flame_prof_view_latency
%% '''
%%
%% Host and Origin are checked against other pages of the same browser (DNS
%% rebinding), the token against other users of the machine. Any port will do, as that
%% of the browser's end of an ssh tunnel. There is nothing but GET and HEAD.
-module(flame_prof_view_http).

-include_lib("inets/include/httpd.hrl").

-export([context/3]).
-export([do/1]).

-define(JSON, "application/json; charset=utf-8").
-define(RANGE_MOST, 4194304).
-define(BEGIN, 4000000).
-define(END, 128000).
-define(LOOPBACK, "^(127\\.0\\.0\\.1|localhost|\\[::1\\])(:[0-9]{1,5})?$").

-define(POLICY,
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'").

%% The values of do/1 in the server's configuration. `measured': the node whose calls are measured.
-spec context(pid(), binary(), node() | none) -> map().
context(Server, Token, Measured) ->
    #{
        server => Server,
        measured => Measured,
        token => Token,
        files => maps:from_list([{Name, {Type, file(Name)}} || {Name, Type} <- files()])
    }.

files() ->
    [
        {<<"index.html">>, "text/html; charset=utf-8"},
        {<<"viewer.js">>, "text/javascript; charset=utf-8"},
        {<<"latency.js">>, "text/javascript; charset=utf-8"},
        {<<"allocations.js">>, "text/javascript; charset=utf-8"},
        {<<"viewer.css">>, "text/css; charset=utf-8"}
    ].

file(Name) ->
    {ok, Bytes} = file:read_file(flame_prof_report:www(Name)),
    Bytes.

%% httpd's callback.
do(#mod{config_db = Config, socket = Socket} = Request) ->
    %% httpd sends an answer in two parts: the second would wait for the delayed acknowledgement.
    _ = inet:setopts(Socket, [{nodelay, true}]),
    Context = httpd_util:lookup(Config, flame_prof_view),
    Answer =
        try
            answer(Request, Context)
        catch
            _:_ -> failure(500, <<"the request could not be answered">>)
        end,
    case Answer of
        {stream, Lines} ->
            ok = flame_prof_view_latency:stream(Socket, headers(), Lines),
            %% The message to httpd's process about a closed connection: the process ends, too.
            self() ! {tcp_closed, Socket},
            {proceed, [{response, {already_sent, 200, 0}}]};
        {Code, Type, Extra, Body} ->
            Headers = [{code, Code}, {content_type, Type}, {content_length, size_of(Body)} |
                Extra ++ [{"Cache-Control", "no-store"} | headers()]],
            {proceed, [{response, {response, Headers, sent(Request#mod.method, Body)}}]}
    end.

size_of(Body) -> integer_to_list(iolist_size(Body)).

sent("HEAD", _Body) -> nobody;
sent(_, Body) -> [Body].

headers() ->
    [
        {"Content-Security-Policy", ?POLICY},
        {"Cross-Origin-Opener-Policy", "same-origin"},
        {"Cross-Origin-Resource-Policy", "same-origin"},
        {"Referrer-Policy", "no-referrer"},
        {"X-Content-Type-Options", "nosniff"},
        {"X-Frame-Options", "DENY"}
    ].

%% The sender is checked before the request.
answer(#mod{method = Method} = Request, Context) ->
    case {is_here(Request), Method} of
        {false, _} ->
            failure(403, <<"this page is for a browser on this machine, or at the end of "
                "`ssh -L', by the address 127.0.0.1 or localhost">>);
        {true, _} when Method =/= "GET", Method =/= "HEAD" ->
            failure(405, <<"GET and HEAD only">>);
        {true, _} ->
            allowed(Request, Context)
    end.

is_here(#mod{parsed_header = Headers}) ->
    case [Value || {"host", Value} <- Headers] of
        [Host] ->
            re:run(Host, ?LOOPBACK, [dollar_endonly, {capture, none}]) =:= match andalso
                is_one_of("origin", Headers, ["http://" ++ Host], true) andalso
                is_one_of("sec-fetch-site", Headers, ["same-origin", "none"], true);
        _ ->
            false
    end.

is_one_of(Name, Headers, Accepted, IfMissing) ->
    case [Value || {Key, Value} <- Headers, Key =:= Name] of
        [] -> IfMissing;
        [Value] -> lists:member(Value, Accepted);
        _ -> false
    end.

allowed(#mod{request_uri = Uri} = Request, #{token := Token} = Context) ->
    {Path, Query} = split(list_to_binary(Uri)),
    case binary:split(Path, <<"/">>, [global]) of
        [<<>>, Given | Rest] ->
            case is_equal(Given, Token) of
                true -> resource(Rest, Query, Request, Context);
                false -> failure(403, <<"the link is incomplete, or of an earlier session">>)
            end;
        _ ->
            failure(403, <<"the link is incomplete, or of an earlier session">>)
    end.

split(Uri) ->
    case binary:split(Uri, <<"?">>) of
        [Path, Query] -> {Path, Query};
        [Path] -> {Path, <<>>}
    end.

%% Takes as long for any token of this size.
is_equal(Given, Token) when byte_size(Given) =:= byte_size(Token) ->
    Pairs = lists:zip(binary_to_list(Given), binary_to_list(Token)),
    lists:foldl(fun({A, B}, Differ) -> Differ bor (A bxor B) end, 0, Pairs) =:= 0;
is_equal(_, _) ->
    false.

resource([], _Query, _Request, #{token := Token}) ->
    {301, "text/plain", [{"Location", lists:append(["/", binary_to_list(Token), "/"])}], <<>>};
resource([<<>>], _Query, _Request, Context) ->
    page(<<"index.html">>, Context);
resource([<<"api">>, What], Query, Request, Context) ->
    api(What, parameters(Query), Request, Context);
resource([Name], _Query, _Request, Context) ->
    page(Name, Context);
resource(_, _, _, _) ->
    not_found().

page(Name, #{files := Files}) ->
    case Files of
        #{Name := {Type, Bytes}} -> {200, Type, [], Bytes};
        #{} -> not_found()
    end.

parameters(Query) ->
    case uri_string:dissect_query(Query) of
        Pairs when is_list(Pairs) -> maps:from_list(Pairs);
        {error, _, _} -> #{}
    end.

api(<<"profiles">>, _, _, Context) ->
    json(200, profiles(Context));
api(<<"modules">>, _, _, _) ->
    json(200, flame_prof_view_modules:known());
api(<<"prepare">>, #{<<"name">> := Name}, _, #{server := Server}) when is_binary(Name) ->
    json(200, prepared(flame_prof_view:prepare(Server, Name)));
api(<<"first">>, Given, _, #{server := Server} = Context) ->
    #{profiles := Profiles} = List = profiles(Context),
    Names = [Name || #{<<"name">> := Name} <- [Given], is_binary(Name)] ++
        [Name || #{name := Name} <- Profiles],
    Answer = List#{modules => flame_prof_view_modules:known()},
    case Names of
        [] -> json(200, Answer);
        [Name | _] -> first(Name, flame_prof_view:prepare(Server, Name), Answer, Server)
    end;
api(<<"append">>, #{<<"name">> := Name, <<"version">> := Version}, _, #{server := Server}) when
    is_binary(Name), is_binary(Version)
->
    case flame_prof_view:append(Server, Name, Version) of
        {ready, Pieces} ->
            Shown = [#{version => V, size => Size} || {V, Size} <- Pieces],
            {Code, Type, Extra, Line} = json(200, #{state => <<"ready">>, pieces => Shown}),
            case appended(Server, Name, Pieces) of
                [] -> {Code, Type, Extra, Line};
                Bytes -> {Code, "application/octet-stream", Extra, [Line, $\n, Bytes]}
            end;
        fresh ->
            json(200, #{state => <<"fresh">>})
    end;
api(<<"findings">>, #{<<"name">> := Name}, _, #{server := Server}) when is_binary(Name) ->
    case flame_prof_view:findings(Server, Name) of
        {judged, Json} -> {200, ?JSON, [], Json};
        judging -> json(200, #{state => <<"judging">>});
        none -> json(200, #{state => <<"none">>})
    end;
%% Not for HEAD: it would measure for nobody.
api(<<"latency">>, #{<<"functions">> := Functions} = Given, #mod{method = "GET"},
    #{measured := Node}) when is_binary(Functions), Node =/= none
->
    Texts = binary:split(Functions, <<"\n">>, [global]),
    Seconds = maps:get(<<"seconds">>, Given, <<"60">>),
    case flame_prof_view_latency:start(name_of(Node), Texts, Seconds) of
        {ok, Lines} -> {stream, Lines};
        {error, Why} -> json(200, #{ended => <<"refused">>, why => Why})
    end;
api(<<"index">>, #{<<"name">> := Name, <<"version">> := Version}, Request, #{server := Server}) when
    is_binary(Name), is_binary(Version)
->
    case flame_prof_view:index(Server, Name, Version) of
        {ok, Path, Size} -> bytes(Path, Size, range(Request, Size));
        error -> no_index()
    end;
api(_, _, _, _) ->
    not_found().

profiles(#{server := Server, measured := Node}) ->
    Profiles = [shown(Entry) || Entry <- flame_prof_view:profiles(Server)],
    Measured = case Node of none -> undefined; _ -> name_of(Node) end,
    #{profiles => Profiles, now_us => os:system_time(microsecond), measured => Measured}.

prepared({ready, Version, Size}) -> #{state => <<"ready">>, version => Version, size => Size};
prepared({reading, Read, Size}) -> #{state => <<"reading">>, read => Read, size => Size};
prepared({failed, Why}) -> #{state => <<"failed">>, why => Why}.

%% An index has its header, tables and columns at its begin, then metrics, at its end those of the
%% node.
first(Name, Prepared, Answer0, Server) ->
    Answer = Answer0#{name => Name, prepared => prepared(Prepared)},
    case ends_of(Name, Prepared, Server) of
        [{ok, Begin}, {ok, End}] ->
            {_, _, _, Line} = json(200, Answer#{'begin' => byte_size(Begin)}),
            {200, "application/octet-stream", [], [Line, $\n, Begin, End]};
        _ ->
            json(200, Answer)
    end.

ends_of(Name, {ready, Version, Size}, Server) ->
    case flame_prof_view:index(Server, Name, Version) of
        {ok, Path, Size} ->
            Begin = min(Size, ?BEGIN),
            End = min(Size - Begin, ?END),
            [read(Path, 0, Begin), read(Path, Size - End, End)];
        _ ->
            []
    end;
ends_of(_Name, _Prepared, _Server) ->
    [].

%% A node can get its name while the page is there.
name_of(here) -> node();
name_of(Node) -> Node.

%% A request costs as much as a piece of some 1,000 samples: one instead of two. A piece that is
%% gone by then is requested alone, and not found.
appended(_Server, _Name, []) ->
    [];
appended(Server, Name, Pieces) ->
    case lists:sum([Size || {_, Size} <- Pieces]) =< ?RANGE_MOST of
        true -> all_of([whole(flame_prof_view:index(Server, Name, V)) || {V, _} <- Pieces]);
        false -> []
    end.

whole({ok, Path, Size}) -> read(Path, 0, Size);
whole(error) -> error.

all_of(Read) ->
    case lists:member(error, Read) of
        true -> [];
        false -> [Bytes || {ok, Bytes} <- Read]
    end.

shown(#{state := State, paths := Paths, kind := Kind} = Entry) ->
    Shown = maps:with([name, why, bytes, modified, version, other], Entry),
    Shown#{
        state => atom_to_binary(State),
        kind => atom_to_binary(Kind),
        files => length(Paths),
        live => lists:any(fun flame_prof_view_files:is_unfinished/1, Paths)
    }.

range(#mod{parsed_header = Headers}, Size) ->
    Given = proplists:get_value("range", Headers, ""),
    case re:run(Given, "^bytes=([0-9]{1,15})-([0-9]{1,15})$", [{capture, all_but_first, list}]) of
        {match, [From, To]} -> checked(list_to_integer(From), list_to_integer(To), Size);
        nomatch -> error
    end.

checked(From, To, Size) when From =< To, To < Size, To - From < ?RANGE_MOST -> {From, To};
checked(_, _, _) -> error.

bytes(_Path, Size, error) ->
    {Code, Type, _, Body} = failure(416, <<"a Range within the index, of 4 MiB at most">>),
    {Code, Type, [{"Content-Range", "bytes */" ++ integer_to_list(Size)}], Body};
bytes(Path, Size, {From, To}) ->
    case read(Path, From, To - From + 1) of
        {ok, Bytes} ->
            Range = io_lib:format("bytes ~b-~b/~b", [From, To, Size]),
            {206, "application/octet-stream", [{"Content-Range", lists:flatten(Range)}], Bytes};
        error ->
            no_index()
    end.

%% The file may have been removed since it was listed.
read(_Path, _From, 0) ->
    {ok, <<>>};
read(Path, From, Size) ->
    case file:open(Path, [read, raw, binary]) of
        {ok, File} ->
            try file:pread(File, From, Size) of
                {ok, Bytes} when byte_size(Bytes) =:= Size -> {ok, Bytes};
                _ -> error
            after
                ok = file:close(File)
            end;
        {error, _} ->
            error
    end.

no_index() ->
    failure(410, <<"there is no such index any more">>).

not_found() ->
    failure(404, <<"there is nothing of this name">>).

failure(Code, Why) ->
    json(Code, #{why => Why}).

json(Code, Term) ->
    {Code, ?JSON, [], flame_prof_json:encode_for_page(Term)}.
