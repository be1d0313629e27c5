#!/usr/bin/env bash
# Strangers call the endpoints of a job. The calls must be rejected, and the job must end well. Then
# strangers call another job without a pause; it must end well, too. As root: as another user.
# usage: two_vipd.sh BUILD loop strangers.sh BUILD_DIR JOB STRANGER
set -u
build=$1
program=$2
chmod 711 "$VIP_WORK"
cp "$3" "$VIP_WORK/stranger" && chmod 755 "$VIP_WORK/stranger" || exit 1
stranger=()
if [ "$(id -u)" = 0 ]; then
    stranger=(setpriv --reuid=2002 --regid=2002 --clear-groups)
else
    echo "strangers: not root, so the stranger is the same user"
fi
bad=0

# begin_job: start a job, and put the discriminators of its processes into `numbers`
begin_job() {
    rm -f "$VIP_WORK/go"
    "$build/tools/amrun" -n 3 "$program" "$VIP_WORK/go" >"$VIP_WORK/out" 2>&1 </dev/null &
    job=$!
    for _ in $(seq 600); do
        mapfile -t numbers < <("$build/tools/vipctl" show listen --raw | awk '$3 == "listener" {print $4}')
        [ ${#numbers[@]} -eq 3 ] && return
        kill -0 $job 2>/dev/null || break
        sleep 0.05
    done
    echo "strangers: no job of three listens: ${numbers[*]}"
    bad=1
}

# end_job WHAT: make the file for which the job waits, then wait for the end of the job
end_job() {
    touch "$VIP_WORK/go"
    wait $job
    local status=$?
    cat "$VIP_WORK/out"
    [ $status -eq 0 ] || { echo "strangers: $1: the job ended with status $status"; bad=1; }
}

begin_job
"${stranger[@]}" "$VIP_WORK/stranger" "${numbers[@]}" || bad=1
end_job "called now and then"

begin_job
floods=()
for number in "${numbers[@]}"; do
    "${stranger[@]}" "$VIP_WORK/stranger" --flood "$number" >"$VIP_WORK/flood.$number" 2>&1 &
    floods+=($!)
done
for i in "${!floods[@]}"; do
    until grep -q calls "$VIP_WORK/flood.${numbers[i]}"; do
        kill -0 "${floods[i]}" || { cat "$VIP_WORK/flood.${numbers[i]}"; exit 1; }
        sleep 0.05
    done
done
end_job "called without a pause"
kill "${floods[@]}" || bad=1
wait "${floods[@]}"
exit $bad
