#!/bin/sh
# Builds and runs the C++ tests: native/test/run.sh [asan|tsan], or native/test/run.sh fuzz [seconds for each target],
# or native/test/run.sh kills [trials] [seed], which kills and freezes processes at random moments and offsets,
# or native/test/run.sh gpu, which measures on a GPU, and says so when there is none
set -eu
cd "$(dirname "$0")/.."
mode="${1:-plain}"
jobs="$(nproc 2> /dev/null || echo 2)"
# Continuous integration sets MUSTER_WERROR=ON.
set_up() { cmake -S . -B "$folder" -G "Unix Makefiles" -DMUSTER_WERROR="${MUSTER_WERROR:-OFF}" "$@" && cmake --build "$folder" --parallel "$jobs"; }
folder="test/build/$mode"  # not under build/, which cmake-js may clean at any time

if [ "$mode" = fuzz ]; then
  for compiler in clang++ clang++-19 clang++-18 clang++-17 clang++-16 clang++-15 clang++-14; do
    command -v "$compiler" > /dev/null && break
  done
  command -v "$compiler" > /dev/null || { echo "fuzzing needs clang and its runtime, e.g. apt-get install clang-14 libclang-rt-14-dev" >&2; exit 2; }
  set_up -DCMAKE_CXX_COMPILER="$compiler" -DMUSTER_FUZZ=ON -DMUSTER_SANITIZE="fuzzer-no-link,address,undefined"
  # What a stranger says makes nobody take much at once.
  limit_of() { case "$1" in frame | handshake) echo -malloc_limit_mb=1 ;; esac; }
  for target in frame handshake tables delta mesh; do
    mkdir -p "$folder/corpus/$target"  # what is found here is not committed; the seeds are
    "$folder/${target}_fuzz" "$folder/corpus/$target" "test/fuzz/seeds/$target" -max_total_time="${2:-20}" -max_len=4096 \
      -timeout=10 -rss_limit_mb=1024 $(limit_of "$target") -print_final_stats=1 -verbosity=0 -artifact_prefix="$folder/"
    echo "fuzz $target: nothing found in ${2:-20} s"
  done
  exit 0
fi

# NCCL of a Python wheel (nvidia-nccl-*), where nobody names one; the linker's own is tried before it.
nccl_of_wheels() {
  for root in "${VIRTUAL_ENV:-}" "${CONDA_PREFIX:-}" "$(python3 -c 'import sys; print(sys.prefix)' 2> /dev/null)" "${HOME:-}/.local" /usr/local /usr; do
    [ -n "$root" ] || continue
    for path in "$root"/lib/python3*/site-packages/nvidia/nccl/lib/libnccl.so.2 "$root"/lib/python3*/dist-packages/nvidia/nccl/lib/libnccl.so.2; do
      [ -e "$path" ] && echo "$path" && return
    done
  done
}

if [ "$mode" = gpu ]; then
  export MUSTER_NCCL_WHEEL="$(nccl_of_wheels)"
  folder="test/build/plain"
  cmake -S . -B "$folder" -G "Unix Makefiles" -DMUSTER_TESTS=ON -DMUSTER_SANITIZE="" >&2
  cmake --build "$folder" --parallel "$jobs" --target gpu_figures >&2
  exec "$folder/gpu_figures"
fi

if [ "$mode" = kills ]; then
  folder="test/build/plain"
  cmake -S . -B "$folder" -G "Unix Makefiles" -DMUSTER_TESTS=ON -DMUSTER_SANITIZE="" >&2
  cmake --build "$folder" --parallel "$jobs" --target kills_test >&2
  exec "$folder/kills_test" "${2:-1000}" "${3:-1}"
fi

case "$mode" in
  plain) sanitize="" ;;
  asan) sanitize="address,undefined" ;;
  tsan) sanitize="thread" ;;
  *) echo "usage: $0 [asan|tsan|gpu|fuzz [seconds]|kills [trials] [seed]]" >&2; exit 2 ;;
esac
set_up -DMUSTER_TESTS=ON -DMUSTER_SANITIZE="$sanitize"
code=0
ctest --test-dir "$folder" --output-on-failure || code=$?
# What a test says that it could not do is in no output of a success.
awk '/ Testing: /{ name = $NF } /not run: |skipped: /{ sub(/.*(not run|skipped): /, ""); print "skipped " name ": " $0 }' \
  "$folder/Testing/Temporary/LastTest.log" || true
exit "$code"
