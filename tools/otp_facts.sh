#!/bin/sh
# Print "<OTP release> <directory of erl_nif.h>" of the VM that is first on the
# PATH; nothing at all when there is no Erlang.
command -v erl >/dev/null || exit 0
erl -noinput -boot start_clean -eval '
    Root = code:root_dir(),
    Places = [filename:join([Root, "usr", "include"]),
              filename:join([Root, "erts-" ++ erlang:system_info(version), "include"])],
    Found = [P || P <- Places, filelib:is_regular(filename:join(P, "erl_nif.h"))],
    io:format("~ts ~ts~n", [erlang:system_info(otp_release), hd(Found ++ Places)]),
    halt().'
