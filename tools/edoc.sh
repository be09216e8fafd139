#!/bin/bash
# The documentation as HTML, in _build/doc: README.html and doc/index.html are the guides,
# index.html is made of the modules' comments. It lists the public modules; the pages of the others
# are there because types of theirs are linked. Any warning of edoc fails, and so does a link to a
# page or a place that is not there.
set -eu
command -v cmark-gfm >/dev/null || tools/deps.sh test
rm -rf _build/doc
mkdir -p _build/doc
said=$(erl -noinput -eval '
    Files = filelib:wildcard("src/*.erl") ++ filelib:wildcard("src/*/*.erl"),
    Options = [{dir, "_build/doc"}, {includes, ["include", "src"]}, {preprocess, true}],
    try
        ok = edoc:files(Files, [{private, true} | Options]),
        ok = edoc:files(Files, Options),
        halt(0)
    catch
        _:_ -> halt(1)
    end.' 2>&1) || {
    echo "$said" >&2
    exit 1
}
if [ -n "$said" ]; then
    echo "$said" >&2
    exit 1
fi

# edoc links OTP's behaviours to pages of this folder, and OTP's types to an address that is gone.
otp='https://www.erlang.org/docs/25/man'
behaviours='application|gen_event|gen_server|gen_statem|supervisor'
sed -i -E "s,http://www\.erlang\.org/edoc/doc/[a-z_]+/doc,$otp,g
    s, href=\"($behaviours)\.html\", href=\"$otp/\1.html\",g" _build/doc/*.html

# A page of doc/ in the place that it has in the checkout, with the places that its headings have on
# GitHub.
guide() { # page.md
    local html=_build/doc/${1%.md}.html title
    title=$(sed -n '1s/^# //p' "$1")
    mkdir -p "$(dirname "$html")"
    {
        printf "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
        printf "<title>%s</title>\n" "$title"
        echo '<style>body { max-width: 50em; margin: 2em auto; font-family: sans-serif }'
        echo 'pre { overflow: auto; background: #f4f4f4; padding: 0.7em } img { max-width: 100% }'
        echo 'td, th { padding: 0.2em 0.7em; border-bottom: 1px solid #ccc }</style>'
        cmark-gfm --unsafe -e table -e autolink "$1"
    } | perl -pe 's,(<a href="(?!https?:)[^"]*)\.md(#[^"]*)?",$1.html@{[$2 // ""]}",g;
        s{<h([1-6])>(.*?)</h\1>}{
            my ($level, $text) = ($1, $2);
            my $place = lc $text;
            $place =~ s/<[^>]*>|&[a-z]+;|[^\w\s-]//g;
            $place =~ s/ /-/g;
            "<h$level id=\"$place\">$text</h$level>"
        }ge' >"$html"
}
for page in *.md $(find doc -name '*.md'); do guide "$page"; done
# What they link of the checkout: pictures, programs, sources.
ln -s ../../{LICENSE,NOTICE,c_src,examples,include,src,test,tools,viewer,bench} _build/doc/
(cd doc && find . -type f ! -name '*.md') | while read -r file; do
    mkdir -p "_build/doc/doc/$(dirname "$file")" && cp "doc/$file" "_build/doc/doc/$file"
done

# PAGE HREF, for each link within the documentation that leads nowhere. (edoc writes a
# `docgen-href', too, which no browser follows.)
dead_links() {
    local page target anchor
    find . -name '*.html' -exec grep -Ho ' href="[^":]*"' {} + |
        sed 's/^\.\///; s/: href="/ /; s/"$//' | sort -u |
        while read -r page target; do
            anchor=${target#*#}
            [ "$anchor" = "$target" ] && anchor=
            target=${target%%#*}
            target=$(dirname "$page")/${target:-$(basename "$page")}
            target=${target#./}
            if ! [ -e "$target" ]; then
                echo "$page $target"
            elif [ -n "$anchor" ] && ! grep -qF "name=\"$anchor\"" "$target" &&
                ! grep -qF "id=\"$anchor\"" "$target"; then
                echo "$page $target#$anchor"
            fi
        done
}
dead=$(cd _build/doc && dead_links)
if [ -n "$dead" ]; then
    echo "links that lead nowhere:" "$dead" >&2
    exit 1
fi

# ex_doc takes the pages that rebar.config lists, and a link to any other one is dead there.
left_out=$(git ls-files --cached --others --exclude-standard 'doc/*.md' | while read -r page; do
    grep -qF "<<\"$page\">>" rebar.config || echo "$page"
done)
if [ -n "$left_out" ]; then
    echo "pages that rebar.config does not give to ex_doc:" $left_out >&2
    exit 1
fi

# A check that finds nothing has to find what is known to be dead.
canary=$(mktemp -d)
trap 'rm -rf "$canary"' EXIT
cat >"$canary/a.html" <<'EOF'
<a name="here"></a><a id="there"></a><a docgen-href="not_a_link" href="b.html">b</a>
<a href="#here"></a> <a href="a.html#there"></a> <a href="#nowhere"></a>
<a href="no_page.html"></a> <a href="b.html#nowhere"></a> <a href="https://example.org/"></a>
EOF
echo '<a href="a.html#here"></a>' >"$canary/b.html"
found=$(cd "$canary" && dead_links | tr '\n' ';')
if [ "$found" != "a.html a.html#nowhere;a.html b.html#nowhere;a.html no_page.html;" ]; then
    echo "the check of links is wrong; it found: $found" >&2
    exit 1
fi
echo "  ok    documentation, in _build/doc: README.html, doc/index.html, index.html"
