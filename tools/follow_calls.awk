# Follow the calls from one function through the machine code of a library, as
# `objdump -d --no-show-raw-insn` prints it, and print what tools/check_threads.sh does
# not list: "SYMBOL < FUNCTION < CALLER ...", and last "reached N".
#
# Variables: root, the first function; pointers, "FUNCTION: WHERE IT LEADS;..." for calls
# through pointers; allowed, the symbols of other libraries; numbers, the system calls.

# Without what compilers put behind the names of parts and copies.
function plain(n) {
    while (sub(/\.(isra|part|constprop|cold|lto_priv)(\.[0-9]+)*$/, "", n)) ;
    return n
}
function way(f,    text) {
    for (text = name[f]; f in from; f = from[f]) text = text " < " name[from[f]]
    return text
}
function reach(f, by) {
    if (f in seen) return
    seen[f] = 1; queue[++queued] = f
    if (by != "") from[f] = by
}
function reach_name(n, by,    f, found) {
    for (f in name) if (plain(name[f]) == n) { reach(f, by); found = 1 }
    if (!found) print "there is no function " n
}
BEGIN {
    n = split(pointers, line, ";")
    for (i = 1; i <= n; i++)
        if (split(line[i], part, ": ") == 2) leads[part[1]] = part[2]
}
/^[0-9a-f]+ <.*>:$/ {
    f = $1; sub(/^0+/, "", f)
    n = $2; gsub(/[<>:]/, "", n)
    name[f] = n
    next
}
!/^ *[0-9a-f]+:/ { next }
{
    at = $1; sub(/:$/, "", at); owner[at] = f
    code = $2; to = $3
    if (code ~ /^(notrack|bnd)$/) { code = $3; to = $4 }
}
# A symbol of another library through the GOT: called, or its address taken.
/# [0-9a-f]+ <[^>]*@/ {
    n = $0; sub(/.*</, "", n); sub(/@.*/, "", n)
    outside[f] = outside[f] " " n
    next
}
code ~ /^(call|j[a-z]+)$/ {
    if (to !~ /^\*/) edges[f] = edges[f] " " to
    # The jump table of a switch: base + offset, then the jump.
    else if (code != "jmp" || !(substr(to, 2) in sum) || NR - sum[substr(to, 2)] > 3)
        indirect[f]++
    if ($0 ~ /<syscall@plt>/) given[f] = given[f] " " (number == "" ? "unknown" : number)
    if (code == "call") number = ""
}
code == "lea" && /# [0-9a-f]+ </ {
    match($0, /# [0-9a-f]+ /)
    taken[f] = taken[f] " " substr($0, RSTART + 2, RLENGTH - 3)
}
code == "mov" && to ~ /^\$0x[0-9a-f]+,%edi$/ {
    number = to; sub(/^\$/, "", number); sub(/,.*/, "", number)
}
code == "syscall" || code == "sysenter" || code == "int" { bare[f] = 1 }
code == "add" && to ~ /^%r[a-z0-9]+,%r[a-z0-9]+$/ { sub(/.*,/, "", to); sum[to] = NR }
END {
    reach_name(root, "")
    for (i = 1; i <= queued; i++) {
        f = queue[i]
        if (name[f] ~ /@plt$/) {
            n = name[f]; sub(/(@.*)?@plt$/, "", n)
            if (!index(allowed, " " n " ")) print n " < " way(from[f])
            continue
        }
        n = split(outside[f], list, " ")
        for (j = 1; j <= n; j++)
            if (!index(allowed, " " list[j] " ")) print list[j] " < " way(f)
        n = split(given[f], list, " ")
        for (j = 1; j <= n; j++)
            if (!index(numbers, " " list[j] " ")) print "system call " list[j] " < " way(f)
        if (f in bare) print "a system call of its own < " way(f)
        if (f in indirect) {
            to = leads[plain(name[f])]
            if (to == "" || (to == "none" && indirect[f] > 1))
                print "a call through a pointer < " way(f)
            n = to == "none" ? 0 : split(to, list, " ")
            for (j = 1; j <= n; j++) reach_name(list[j], f)
        }
        n = split(edges[f], list, " ")
        for (j = 1; j <= n; j++)
            if (list[j] in owner) reach(owner[list[j]], f)
            else print "a call to " list[j] " < " way(f)
        n = split(taken[f], list, " ")
        for (j = 1; j <= n; j++) if (list[j] in name) reach(list[j], f)
    }
    print "reached " queued
}
