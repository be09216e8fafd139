%% @private The names of a session's files, as c_src/store/log_name.c makes and reads them.
%%
%% ```
%% 2026-11-21@0154.07.shop@host.erl_perf.log.zst         finished
%% 2026-11-21@0154.07_001.shop@host.erl_perf.log.zst     the next of that second
%% 2026-11-21@0155.12.shop@host.erl_perf.log.zst.part    being written
%% 2026-11-21@0154.07.erl_perf.log                       of a node without a name
%% 2026-11-21@0154.07.shop@host.erl_alloc.log.zst        allocations of the same session
%% '''
-module(flame_prof_log_name).

-include("flame_prof_internal.hrl").

-export([parse/1, node/1, with_node/2]).

-export_type([parsed/0]).

-type parsed() :: #{
    key := binary(),
    %% <<>>: none.
    node := binary(),
    kind := samples | allocations,
    is_zst := boolean(),
    is_part := boolean()
}.

%% Less the zero byte.
-define(NODE_BYTES, (?FP_LOG_NODE_ROOM - 1)).
-define(KEY, "[0-9]{4}-[0-9]{2}-[0-9]{2}@[0-9]{4}\\.[0-9]{2}(?:_[0-9]{3})*").
-define(NODE, "[^\\x00-\\x20\\x7f/@]*@[^\\x00-\\x20\\x7f/]*").
-define(NAME, "^(" ?KEY ")(?:\\.(" ?NODE "))?\\.erl_(perf|alloc)\\.log(\\.zst)?(\\.part)?$").

%% @doc Of a file, without its folder. `error': the name has another form.
-spec parse(binary()) -> {ok, parsed()} | error.
parse(Name) ->
    case re:run(Name, ?NAME, [dollar_endonly, {capture, all_but_first, binary}]) of
        {match, [Key | More]} -> parsed(Key, More ++ [<<>>, <<>>, <<>>]);
        nomatch -> error
    end.

parsed(Key, [Node, Kind, Zst, Part | _]) when byte_size(Node) =< ?NODE_BYTES ->
    {ok, #{key => Key, node => Node, kind => kind(Kind), is_zst => Zst =/= <<>>,
        is_part => Part =/= <<>>}};
parsed(_, _) ->
    error.

kind(<<"perf">>) -> samples;
kind(<<"alloc">>) -> allocations.

%% @doc A node's name as it stands in a file's. `<<>>': the node has none.
-spec node(node()) -> binary().
node('nonode@nohost') ->
    <<>>;
node(Node) ->
    Name = re:replace(atom_to_binary(Node), "[\\x00-\\x20\\x7f/]", "_", [global,
        {return, binary}]),
    case byte_size(Name) =< ?NODE_BYTES of
        true -> Name;
        false -> <<(integer_to_binary(erlang:phash2(Node)))/binary, "@long">>
    end.

%% @doc The name of a file of this node. Files of nodes that had no name when they were
%% begun, and of earlier versions, have none in theirs.
-spec with_node(binary(), node()) -> binary().
with_node(Name, Node) ->
    case {parse(Name), ?MODULE:node(Node)} of
        {{ok, #{node := <<>>, key := Key}}, <<_, _/binary>> = Text} ->
            [<<>>, Rest] = binary:split(Name, Key),
            <<Key/binary, ".", Text/binary, Rest/binary>>;
        _ ->
            Name
    end.
