#!/bin/bash
# Dialyzer over our beams; the PLT of OTP is made once in _build. Not through
# rebar3, so that both look at the same beams, those of `make build`.
set -eu
otp=$(tools/otp_facts.sh | cut -d ' ' -f 1)
plt=_build/otp$otp.plt
if [ ! -f "$plt" ]; then
    echo "  making $plt, once; it takes a minute or two"
    mkdir -p _build
    dialyzer --build_plt --output_plt "$plt.new" \
        --apps erts kernel stdlib compiler crypto inets >/dev/null ||
        [ -s "$plt.new" ]
    mv -f "$plt.new" "$plt"
fi
dialyzer --plt "$plt" -Wunmatched_returns -Wunknown -Werror_handling \
    _build/default/lib/flame_prof/ebin
echo "  ok    dialyzer"
