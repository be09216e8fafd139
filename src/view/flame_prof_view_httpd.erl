%% @private The HTTP server of inets on 127.0.0.1 whose one module is flame_prof_view_http. It ends
%% with the process that starts it.
-module(flame_prof_view_httpd).

-export([serve/2]).

-define(PORT_TRIES, 10).

%% Connections at once, each of which holds an answer of 4 MiB at most.
-define(CLIENTS, 32).
-define(REQUEST_BYTES, 8192).
-define(BODY_BYTES, 1024).

%% @doc Port 0: any free one. Context is what flame_prof_view_http finds.
-spec serve(inet:port_number(), map()) ->
    {ok, pid(), inet:port_number()} | {error, Why :: binary()}.
serve(0, Context) ->
    serve_any(Context, ?PORT_TRIES);
serve(Port, Context) ->
    case free(Port) of
        {ok, Port} ->
            case inets:start(httpd, configuration(Port, Context), stand_alone) of
                {ok, Httpd} -> {ok, Httpd, Port};
                {error, _} -> {error, port_text(Port, "the HTTP server did not start")}
            end;
        {error, Reason} ->
            {error, port_text(Port, inet:format_error(Reason))}
    end.

port_text(Port, Why) ->
    unicode:characters_to_binary(io_lib:format("port ~b: ~ts", [Port, Why])).

serve_any(_Context, 0) ->
    {error, <<"no free port was found">>};
serve_any(Context, Tries) ->
    {ok, Port} = free(0),
    case inets:start(httpd, configuration(Port, Context), stand_alone) of
        {ok, Httpd} -> {ok, Httpd, Port};
        {error, _} -> serve_any(Context, Tries - 1)
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
configuration(Port, Context) ->
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
        {flame_prof_view, Context}
    ].
