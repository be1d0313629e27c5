#!/usr/bin/env bash
# The folders depend on each other in one direction only (doc/architecture.md): each #include of our
# files must be in the table below, and the engine's library may need only the symbols of a list.
# usage: boxes.sh BUILD_DIR
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${1:?build directory}
bad=0

# Prints the prefixes of the files of other folders that a folder's files may include.
allowed() {
    case $1 in
    proto) echo "" ;;
    vipd/engine) echo "proto" ;;
    vipd/path | vipd/registry) echo "proto vipd/engine" ;;
    vipd/link) echo "proto" ;;
    vipd/nic) echo "proto vipd/engine vipd/path vipd/registry vipd/link" ;;
    vipd/client | vipd/ctl | vipd) echo "proto vipd" ;;
    libvipl) echo "proto libvipl" ;;
    libvipl/loan) echo "proto libvipl vipd/engine vipd/path" ;;
    tools/vipctl | tools/exporter) echo "proto tools" ;;
    tools/vipperf) echo "tools" ;;
    job) echo "" ;;
    am) echo "job" ;;
    am/compat) echo "" ;;
    tools/amrun) echo "tools job" ;;
    splitc/sc1 | splitc/driver) echo "" ;;
    splitc/lib) echo "job splitc/include" ;;
    examples) echo "" ;;
    ofi) echo "job" ;;
    esac
}

check_box() {
    local box=$1 may file included prefix ok
    may="$box $(allowed "$box")"
    while read -r file included; do
        case $included in
        */*) ;;
        *) [ -e "$box/$included" ] && continue
            case $box:$included in
            libvipl:vipl*.h | splitc/lib:vipl*.h | tools/vipperf:vipl*.h | examples:vipl*.h) continue ;;
            esac
            echo "$file includes \"$included\": write the path from the root"
            bad=1
            continue ;;
        esac
        ok=no
        for prefix in $may; do
            [ "${included#"$prefix"/}" != "$included" ] && ok=yes
        done
        if [ $ok = no ]; then
            echo "$file includes \"$included\": the arrows of doc/architecture.md forbid it"
            bad=1
        fi
    done < <(find "$box" -maxdepth 1 -name '*.[ch]' -exec awk -F'"' \
        '/^[[:space:]]*#[[:space:]]*include[[:space:]]*"/ { print FILENAME, $2 }' {} +)
}

for box in proto vipd/engine vipd/path vipd/registry vipd/link vipd/nic vipd/client vipd/ctl vipd libvipl libvipl/loan \
    tools/vipctl tools/exporter tools/vipperf tools/amrun job am am/compat splitc/sc1 splitc/driver splitc/lib examples \
    ofi; do
    check_box "$box"
done

# Only host.c may use the event loop.
for file in $(grep -rlE '#[[:space:]]*include[[:space:]]*<ev\.h>' vipd proto libvipl tools); do
    if [ "$file" != vipd/host.c ]; then
        echo "$file includes <ev.h>: only vipd/host.c may"
        bad=1
    fi
done

# The engine and vipd/path are pure: no file descriptor, clock, allocator.
defined=
for name in engine path; do
    library="$build/vipd/libvip_$name.a"
    [ -e "$library" ] || { echo "$library is missing"; exit 1; }
    defined+=$(nm --defined-only "$library" | awk 'NF==3 {print $3}')$'\n'
    needed=$(nm --undefined-only "$library" | awk 'NF==2 {print $2}' | sort -u |
        grep -vxE 'mem(cpy|move|set|cmp)|bcmp|vip_.*|__(a|ub|t)san_.*|__stack_chk_fail|_GLOBAL_OFFSET_TABLE_' |
        grep -vxF "${defined%$'\n'}")
    if [ -n "$needed" ]; then
        echo "vipd/$name needs" $needed
        bad=1
    fi
done

# The MPI provider includes only the public headers, and exports only its entry point.
provider="$build/ofi/libvipl-fi.so"
if [ -e "$provider" ]; then
    exported=$(nm -D --defined-only "$provider" | awk '{print $3}' |
        grep -vE '^(_init|_fini|__bss_start|_edata|_end|__(a|t|ub)san.*|__odr_asan.*)$')
    if [ "$exported" != fi_prov_ini ]; then
        echo "libvipl-fi.so exports more than fi_prov_ini: $exported"
        bad=1
    fi
    foreign=$(nm -D --undefined-only "$provider" | awk 'NF==2 && $2 ~ /^vipl?_/ {print $2}')
    if [ -n "$foreign" ]; then
        echo "libvipl-fi.so needs what is not of vipl.h: $foreign"
        bad=1
    fi
fi

[ $bad -eq 0 ] && echo "boxes: every include and the engine's symbols are as the map says"
exit $bad
