%% @private One HTML file with a profile in it: flame_prof:report/2.
%%
%% The page is that of flame_prof:view/1, built by `make viewer'; the profile is a packed index
%% (doc/dev/viewer_index.md). Script, style and profile are gzip in UTF-8 text: the first script of
%% the page, viewer/src/app/boot.js, adds the other script and the style.
-module(flame_prof_report).

-export([write/2, write/3]).
-export([built/0, www/1]).

-export_type([written/0]).

-type written() :: #{
    bytes := non_neg_integer(),
    samples := non_neg_integer(),
    observations := non_neg_integer(),
    coarse_us := non_neg_integer(),
    bad := non_neg_integer(),
    whole := boolean(),
    losses := [unicode:chardata()]
}.

-define(PLACE, <<"@DATA@">>).
-define(GZIP_BITS, 31).
-define(LEVEL, 9).
%% zlib begins a new code more often with less memory: columns differ.
-define(MEMORY, 6).
-define(PIECE, 1048576).
%% Bytes of the data in a report of up to five minutes, and of a longer one. With the first limit a
%% report of three minutes has 3 MB with its page.
-define(SHORT_US, 300000000).
-define(SHORT_BYTES, 2900000).
-define(LONG_BYTES, 19500000).
%% More rows take the page seconds.
-define(ROWS_MOST, 500000).
%% Of merged samples; each is a multiple of the one before.
-define(INTERVALS_US, [100000, 1000000, 5000000, 20000000, 60000000, 600000000, 3600000000]).

%% `bytes' are those of the HTML; `whole': all files are, down to their ends. `samples' are those in
%% the files, and `observations' what these stand for, as the page counts. `coarse_us': samples of
%% a process with one stack were merged in intervals of this length; 0: none were.
-spec write(flame_prof_samples:files(), file:name_all()) ->
    {ok, written()} | {error, flame_prof:reason()}.
write(Files, Given) ->
    write(Files, Given, #{}).

%% While it reads it calls `progress' of {@link flame_prof_profile:options()}. `diagnosis': what the
%% doctor has found already, with all that it saw; else the samples are judged.
-spec write(flame_prof_samples:files(), file:name_all(),
    #{progress => fun(), diagnosis => flame_prof_doctor:diagnosis()}) ->
    {ok, written()} | {error, flame_prof:reason()}.
write(Files, Given, Options) ->
    case {built(), flame_prof_samples:path(Given)} of
        {{error, _} = Error, _} -> Error;
        {ok, {ok, Out}} -> read(Files, Out, Given, Options);
        {ok, {error, Reason}} -> {error, flame_prof_error:file(Given, Reason)}
    end.

%% The profile is closed at once: it may be large, and the caller's next garbage collection far.
read(Files, Out, Given, Options) ->
    Reading = maps:remove(diagnosis, Options),
    flame_prof_file_losses:read(Files, Reading, fun(Profile) ->
        Findings = findings(Profile, Options),
        written(Profile, Findings, flame_prof_samples:list(Files), Out, Given)
    end).

%% Before samples are merged.
findings(Profile, #{diagnosis := Diagnosis}) -> flame_prof_doctor_page:told(Diagnosis, Profile);
findings(Profile, #{}) -> flame_prof_doctor_page:judged(Profile).

written(Profile, Findings, Files, Out, Given) ->
    Info = flame_prof_profile:info(Profile),
    Packed = beside(Out, ".packed"),
    try fitting(Profile, Packed, most(Info), 0, ?INTERVALS_US) of
        {ok, Data, CoarseUs} ->
            page(Info, [about(Files, modules(Packed), Findings), Data], CoarseUs, Out);
        {error, {Class, Details}} -> {error, {Class, Details#{file => Given}}}
    after
        _ = file:delete(Packed)
    end.

%% The finest one that fits.
fitting(Profile, Packed, Most, CoarseUs, Coarser) ->
    #{samples := Rows} = flame_prof_profile:info(Profile),
    case Coarser =/= [] andalso Rows > ?ROWS_MOST of
        true -> thinner(Profile, Packed, Most, Coarser);
        false ->
            case flame_prof_profile:packed_index(Profile, Packed) of
                {ok, _} ->
                    Data = part(<<"profile-data">>, compressed(Packed)),
                    case iolist_size(Data) =< Most orelse Coarser =:= [] of
                        true -> {ok, Data, CoarseUs};
                        false -> thinner(Profile, Packed, Most, Coarser)
                    end;
                {error, _} = Error ->
                    Error
            end
    end.

thinner(Profile, Packed, Most, [CoarseUs | Coarser]) ->
    case flame_prof_profile:thin(Profile, CoarseUs) of
        ok -> fitting(Profile, Packed, Most, CoarseUs, Coarser);
        {error, _} = Error -> Error
    end.

most(#{first_us := First, last_us := Last}) when Last - First =< ?SHORT_US -> ?SHORT_BYTES;
most(_) -> ?LONG_BYTES.

%% A name that is unique among the reports to the same place and the user's files.
beside(Out, Suffix) ->
    Unique = integer_to_list(erlang:unique_integer([positive])),
    iolist_to_binary([Out, ".", os:getpid(), "-", Unique, Suffix]).

page(Info, Data, CoarseUs, Out) ->
    #{samples := Samples, bad := Bad, files := Read} = Info,
    {ok, Template} = file:read_file(www(<<"report.html">>)),
    [Before, After] = binary:split(Template, ?PLACE),
    Page = [Before, page_part(<<"page-style">>, <<"viewer.css">>),
        page_part(<<"page-script">>, <<"viewer.js">>), Data, After],
    case replace(Out, Page) of
        ok ->
            {ok, #{bytes => iolist_size(Page), samples => Samples, bad => Bad,
                observations => lists:sum([N || #{observations := N} <- Read]),
                coarse_us => CoarseUs,
                whole => lists:all(fun flame_prof_file_losses:is_whole/1, Read),
                losses => flame_prof_file_losses:texts(Info)}};
        {error, Reason} ->
            {error, flame_prof_error:file(Out, Reason)}
    end.

%% Those that the profile's texts name: the machine's others are no part of it.
modules(Packed) ->
    {ok, Index} = file:read_file(Packed),
    <<_:8/binary, Size:32/little, _:32, Header:Size/binary, Data/binary>> = Index,
    {match, [Bytes]} = re:run(Header, "\"data_bytes\":([0-9]+)",
        [{capture, [1], binary}]),
    Texts = binary:part(Data, 0, binary_to_integer(Bytes)),
    maps:filter(fun(Module, _) ->
        binary:match(Texts, [<<Module/binary, ":">>, <<Module/binary, "%3A">>]) =/= nomatch
    end, flame_prof_view_modules:known()).

about(Files, Modules, Findings) ->
    Names = [basename(File) || File <- Files],
    About = #{name => name(Names), modules => Modules},
    Json = flame_prof_json:encode_for_page(About),
    Object = binary:part(Json, 0, byte_size(Json) - 1),
    part(<<"profile-about">>, zlib:gzip([Object, <<",\"findings\":">>, Findings, $}])).

basename(File) ->
    {ok, Path} = flame_prof_samples:path(File),
    filename:basename(Path).

name([Name]) -> Name;
name([Name | More]) -> iolist_to_binary([Name, " and ", integer_to_list(length(More)), " more"]).

page_part(Id, Name) ->
    {ok, Text} = file:read_file(www(Name)),
    part(Id, zlib:gzip(Text)).

part(Id, Gzip) ->
    [<<"<script type=\"application/octet-stream\" id=\"">>, Id, <<"\">">>,
        text(iolist_to_binary(Gzip)), <<"</script>\n">>].

text(Bytes) ->
    Padding = (7 - bit_size(Bytes) rem 7) rem 7,
    dense(<<Bytes/binary, 0:Padding>>, <<>>).

%% Seven bits a character, an eighth more than the bytes. HTML changes three characters: one beyond
%% ASCII, of two bytes, stands for one of these and the seven bits behind it.
dense(<<Bits:7, Rest/bits>>, Text) when Bits =/= 0, Bits =/= $\r, Bits =/= $< ->
    dense(Rest, <<Text/binary, Bits>>);
dense(<<Bits:7, Next:7, Rest/bits>>, Text) ->
    dense(Rest, <<Text/binary, (128 + 128 * changed(Bits) + Next)/utf8>>);
dense(<<Bits:7>>, Text) ->
    <<Text/binary, (512 + changed(Bits))/utf8>>;
dense(<<>>, Text) ->
    Text.

changed(0) -> 0;
changed($\r) -> 1;
changed($<) -> 2.

compressed(Packed) ->
    {ok, File} = file:open(Packed, [read, raw, binary]),
    Z = zlib:open(),
    try
        ok = zlib:deflateInit(Z, ?LEVEL, deflated, ?GZIP_BITS, ?MEMORY, default),
        deflated(Z, File)
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
    Names = [<<"report.html">>, <<"index.html">>, <<"viewer.js">>, <<"viewer.css">>,
        <<"latency.js">>, <<"allocations.js">>],
    case lists:all(fun(Name) -> filelib:is_regular(www(Name)) end, Names) of
        true -> ok;
        false -> {error, {view, #{reason => <<"this flame_prof was built without its viewer">>}}}
    end.

%% @private A file that `make viewer' has built.
-spec www(binary()) -> file:filename_all().
www(Name) ->
    Ebin = filename:dirname(code:which(?MODULE)),
    filename:join([filename:dirname(Ebin), "priv", "www", Name]).
