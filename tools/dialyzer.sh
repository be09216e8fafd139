#!/bin/bash
# Dialyzer over our beams; the PLT of OTP is made once in _build. Not through
# rebar3, so that both look at the same beams, those of `make build`.
set -eu
otp=$(tools/otp_facts.sh | cut -d ' ' -f 1)
apps="erts kernel stdlib compiler crypto inets"
plt=_build/otp$otp-${apps// /-}.plt
if [ ! -f "$plt" ]; then
    echo "  making $plt, once; it takes a minute or two"
    mkdir -p _build
    dialyzer --build_plt --output_plt "$plt.new" \
        --apps $apps >/dev/null ||
        [ -s "$plt.new" ]
    mv -f "$plt.new" "$plt"
fi
dialyzer --plt "$plt" -Wunmatched_returns -Wunknown -Werror_handling \
    _build/default/lib/flame_prof/ebin
echo "  ok    dialyzer"
