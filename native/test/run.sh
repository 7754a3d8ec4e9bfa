#!/bin/sh
# Builds and runs the C++ tests: native/test/run.sh [asan|tsan]
set -eu
cd "$(dirname "$0")/.."
case "${1:-plain}" in
  plain) sanitize="" ;;
  asan) sanitize="address,undefined" ;;
  tsan) sanitize="thread" ;;
  *) echo "usage: $0 [asan|tsan]" >&2; exit 2 ;;
esac
folder="test/build/${1:-plain}"  # not under build/, which cmake-js may clean at any time
cmake -S . -B "$folder" -G "Unix Makefiles" -DMUSTER_TESTS=ON -DMUSTER_SANITIZE="$sanitize"
cmake --build "$folder" --parallel 2
ctest --test-dir "$folder" --output-on-failure
