%% @private One HTML file with a profile in it: flame_prof:report/2.
%%
%% The page is that of flame_prof:view/1, built by `make viewer' with its script
%% inside; the profile is a packed index (doc/viewer_index.md), compressed.
-module(flame_prof_report).

-export([write/2, write/3]).
-export([built/0, www/1]).

-export_type([written/0]).

-type written() :: #{
    bytes := non_neg_integer(),
    samples := non_neg_integer(),
    bad := non_neg_integer(),
    whole := boolean(),
    losses := [unicode:chardata()]
}.

-define(PLACE, <<"@DATA@">>).
-define(GZIP_BITS, 31).
-define(LEVEL, 9).
-define(PIECE, 1048576).

%% `bytes' are those of the HTML; `whole': all files are, down to their ends.
-spec write(flame_prof_samples:files(), file:name_all()) ->
    {ok, written()} | {error, flame_prof:reason()}.
write(Files, Given) ->
    write(Files, Given, #{}).

%% While it reads it calls `progress' of {@link flame_prof_profile:options()}.
-spec write(flame_prof_samples:files(), file:name_all(), #{progress => fun()}) ->
    {ok, written()} | {error, flame_prof:reason()}.
write(Files, Given, Reading) ->
    case {built(), flame_prof_samples:path(Given)} of
        {{error, _} = Error, _} -> Error;
        {ok, {ok, Out}} -> read(Files, Out, Given, Reading);
        {ok, {error, Reason}} -> {error, flame_prof_error:file(Given, Reason)}
    end.

%% A profile may be large, and the caller's next garbage collection far.
read(Files, Out, Given, Reading) ->
    case flame_prof_profile:read(Files, Reading) of
        {ok, Profile} ->
            try flame_prof_file_losses:refused(flame_prof_profile:info(Profile)) of
                ok -> written(Profile, flame_prof_samples:list(Files), Out, Given);
                {error, _} = Error -> Error
            after
                ok = flame_prof_profile:close(Profile)
            end;
        {error, _} = Error ->
            Error
    end.

%% What is left of an index that could not be made, its writer has removed.
written(Profile, Files, Out, Given) ->
    Packed = beside(Out, ".packed"),
    case flame_prof_profile:packed_index(Profile, Packed) of
        {ok, _} ->
            try
                page(Profile, Files, Packed, Out)
            after
                _ = file:delete(Packed)
            end;
        {error, {Class, Details}} ->
            {error, {Class, Details#{file => Given}}}
    end.

%% A name that is unique among the reports to the same place and the user's files.
beside(Out, Suffix) ->
    Unique = integer_to_list(erlang:unique_integer([positive])),
    iolist_to_binary([Out, ".", os:getpid(), "-", Unique, Suffix]).

page(Profile, Files, Packed, Out) ->
    {ok, Template} = file:read_file(www(<<"report.html">>)),
    [Before, After] = binary:split(Template, ?PLACE),
    #{samples := Samples, bad := Bad, files := Read} = Info = flame_prof_profile:info(Profile),
    Page = [Before, about(Files), data(Packed), After],
    case replace(Out, Page) of
        ok ->
            {ok, #{bytes => iolist_size(Page), samples => Samples, bad => Bad,
                whole => lists:all(fun flame_prof_file_losses:is_whole/1, Read),
                losses => flame_prof_file_losses:texts(Info)}};
        {error, Reason} ->
            {error, flame_prof_error:file(Out, Reason)}
    end.

about(Files) ->
    Names = [basename(File) || File <- Files],
    About = #{name => name(Names), modules => flame_prof_view_modules:known()},
    ["<script type=\"application/json\" id=\"profile-about\">",
        flame_prof_json:encode_for_page(About),
     "</script>\n"].

basename(File) ->
    {ok, Path} = flame_prof_samples:path(File),
    filename:basename(Path).

name([Name]) -> Name;
name([Name | More]) -> iolist_to_binary([Name, " and ", integer_to_list(length(More)), " more"]).

data(Packed) ->
    {ok, File} = file:open(Packed, [read, raw, binary]),
    Z = zlib:open(),
    try
        ok = zlib:deflateInit(Z, ?LEVEL, deflated, ?GZIP_BITS, 9, default),
        Gzip = iolist_to_binary(deflated(Z, File)),
        ["<script type=\"application/octet-stream\" id=\"profile-data\">", base64:encode(Gzip),
         "</script>"]
    after
        zlib:close(Z),
        ok = file:close(File)
    end.

deflated(Z, File) ->
    case file:read(File, ?PIECE) of
        {ok, Bytes} ->
            Some = zlib:deflate(Z, Bytes),
            [Some | deflated(Z, File)];
        eof ->
            zlib:deflate(Z, <<>>, finish)
    end.

%% Whole or not at all, and for its owner's eyes only.
replace(Out, Page) ->
    New = beside(Out, ".new"),
    case file:open(New, [write, exclusive, raw, binary]) of
        {ok, File} ->
            Written = [file:change_mode(New, 8#600), file:write(File, Page), file:close(File)],
            case [Error || {error, _} = Error <- Written] ++ [file:rename(New, Out)] of
                [ok] -> ok;
                [{error, _} = Error | _] -> _ = file:delete(New), Error
            end;
        {error, _} = Error ->
            Error
    end.

%% @private The pages are in priv/www, which a release may lack.
-spec built() -> ok | {error, flame_prof:reason()}.
built() ->
    Names = [<<"report.html">>, <<"index.html">>, <<"viewer.js">>, <<"viewer.css">>],
    case lists:all(fun(Name) -> filelib:is_regular(www(Name)) end, Names) of
        true -> ok;
        false -> {error, {view, #{reason => <<"this flame_prof was built without its viewer">>}}}
    end.

%% @private A file that `make viewer' has built.
-spec www(binary()) -> file:filename_all().
www(Name) ->
    Ebin = filename:dirname(code:which(?MODULE)),
    filename:join([filename:dirname(Ebin), "priv", "www", Name]).
