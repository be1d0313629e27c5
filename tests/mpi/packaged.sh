#!/usr/bin/env bash
# Unmodified programs of Debian packages on Open MPI over VIA. Each must end, and its own check of
# its results must pass. Run by long.sh, which has started two vipd (VIPD_RUNTIME_DIR_A and _B).
# usage: packaged.sh BUILD_DIR RANKS
set -u
MPI_DIR=$(cd "$(dirname "$0")" && pwd)
export FI_PROVIDER_PATH=$1/ofi
ranks=$2
# shellcheck source=/dev/null
. "$MPI_DIR/lib.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

hpcc_passes() {
    local rows=1
    [ "$ranks" -lt 4 ] || rows=2
    sed -e "s/^2  *Ps/$rows Ps/" -e "s/^2  *Qs/$((ranks / rows)) Qs/" \
        /usr/share/doc/hpcc/examples/_hpccinf.txt >hpccinf.txt
    rm -f hpccoutf.txt
    ompi "$ranks" hpcc || return
    # HPL and PTRANS check their residuals, RandomAccess counts its errors, FFT checks its largest error.
    ! grep -E 'FAILED|Errors=[1-9]|ErrorsFraction=0*[.]?0*[1-9]' hpccoutf.txt && grep -q 'PASSED' hpccoutf.txt &&
        grep -q '^Success=1' hpccoutf.txt
}

melt() {
    cat <<'LAMMPS'
units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 10 0 10 0 10
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 3.0 87287 loop geom
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify every 20 delay 0 check no
fix 1 all nve
thermo 20
run 100
LAMMPS
}

# Prints the lines with step, temperature and energies, without the lines with times.
thermo() { awk '/^Step/ {on=1} /^Loop/ {on=0} on' "$1"; }

lammps_agrees() {
    melt >in.melt
    OMP_NUM_THREADS=1 mpirun.openmpi --oversubscribe --bind-to none --mca btl self -n 1 \
        lmp -in in.melt -log serial.log || return
    OMP_NUM_THREADS=1 ompi "$ranks" lmp -in in.melt -log parallel.log || return
    [ "$(thermo serial.log | wc -l)" -ge 6 ] && diff <(thermo serial.log) <(thermo parallel.log)
}

netpipe_passes() {
    ompi 2 NPopenmpi -i -u 300000 -o np.out || return
    rm -f np.out
    ompi 2 NPopenmpi -u 1100000 -o np.out && [ "$(wc -l <np.out)" -ge 60 ]
}

# The inputs have grids of up to 4 processes; the programs skip grids with more than the ranks.
scalapack_passes() {
    local program=$1
    cp /usr/lib/x86_64-linux-gnu/scalapack/openmpi-tests/*.dat .
    ompi "$ranks" "/usr/lib/x86_64-linux-gnu/scalapack/openmpi-tests/$program" >"$program.log" || return
    cat "$program.log"
    grep -q 'PASSED' "$program.log" && ! grep -q 'FAILED' "$program.log" &&
        grep -qE '^ *0 tests completed and failed residual checks' "$program.log"
}

python_passes() {
    cat >objects.py <<'PYTHON'
from mpi4py import MPI

world = MPI.COMM_WORLD
me, n = world.Get_rank(), world.Get_size()
assert world.allreduce(me) == n * (n - 1) // 2
for size in (1, 1000, 40000, 1000000):
    got = world.sendrecv({"from": me, "data": bytes([me]) * size}, (me + 1) % n, source=(me - 1) % n)
    assert got == {"from": (me - 1) % n, "data": bytes([(me - 1) % n]) * size}
assert world.allgather([me] * 5) == [[i] * 5 for i in range(n)]
assert world.bcast("words" if me == 0 else None) == "words"
buf = bytearray(3000000)
if me == 0:
    buf[:] = b"x" * len(buf)
world.Bcast(buf)
assert buf == b"x" * len(buf)
PYTHON
    ompi "$ranks" /usr/bin/python3 objects.py
}

run "hpcc, $ranks ranks" hpcc_passes
run "LAMMPS, $ranks ranks: energies as of the serial run" lammps_agrees
[ "$ranks" -gt 2 ] || run "NetPIPE" netpipe_passes
run "ScaLAPACK xdqr, $ranks ranks" scalapack_passes xdqr
run "ScaLAPACK xdinv, $ranks ranks" scalapack_passes xdinv
run "mpi4py, $ranks ranks" python_passes
exit $bad
