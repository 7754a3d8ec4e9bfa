# Functions of `.ci/run`, which are tested beside the other scripts.

# The python3 that the tests find PyTorch with.
has_torch() {
  python3 -c 'import torch' 2>/dev/null || /usr/bin/python3 -c 'import torch' 2>/dev/null
}

# Installs what some tests need where it is missing and can be installed: iproute2 and nftables for several hosts, Chromium for pages, PyTorch for its
# trainer, Gloo for groups that it carries. Where it can not, that is said, those tests are skipped, and the run goes on.
install_tools() {
  local missing=()
  command -v ip >/dev/null || missing+=(iproute2)
  command -v nft >/dev/null || missing+=(nftables)
  command -v chromium >/dev/null || missing+=(chromium)
  has_torch || missing+=(python3-torch)
  dpkg -s libgloo-dev >/dev/null 2>&1 || missing+=(libgloo-dev)
  if ((${#missing[@]} == 0)); then return; fi
  if (($(id -u) != 0)) || ! command -v apt-get >/dev/null; then
    echo "not installed: ${missing[*]}, which needs root and apt-get; tests that need them are skipped"
    return
  fi
  echo "installing ${missing[*]} for tests that need them"
  if ! { timeout 180 apt-get update --quiet && DEBIAN_FRONTEND=noninteractive timeout 300 apt-get install --quiet --yes --no-install-recommends "${missing[@]}"; }; then
    echo "not installed: ${missing[*]}, because apt-get failed; tests that need them are skipped"
  fi
}

# llama.cpp's server, for the tests of inference servers: about 80 MB from Debian, signatures checked. Where it does not come within a minute, that is said
# and those tests are skipped.
fetch_llama_server() {
  if [[ -x .muster/llama/llama-server ]]; then return; fi
  echo "fetching llama-server for tests that need it"
  timeout 60 scripts/get-llama-server.sh .muster/llama >.muster/ci/llama.log 2>&1 ||
    echo "no llama-server ($(tail -n 1 .muster/ci/llama.log)); tests that need it are skipped"
}

# A current PyTorch with transformers, for tests of what the one that Debian installs is too old for: about 300 MB, fetched while the rest is set up.
# Where it does not come within four minutes, that is said and those tests are skipped.
begin_torch() {
  if [[ -x .muster/torch/python3 ]]; then return; fi
  echo "fetching a current PyTorch for tests that need it"
  timeout 240 scripts/get-torch.sh .muster/torch >.muster/ci/torch.log 2>&1 &
  fetching=$!
}
await_torch() {
  [[ -z ${fetching:-} ]] || wait "$fetching" || echo "no current PyTorch ($(tail -n 1 .muster/ci/torch.log)); tests that need it are skipped"
}

passed=0 failed=0 logs=()

# count LOG COMMAND…: runs a command whose last line is "N passed, N failed" and adds its counts; one that ends without it counts as a failure. Its
# lines "skipped: …" and "failed: …" are gathered, and where it failed without such a line one is added.
count() {
  local log=$1
  shift
  "$@" 2>&1 | tee "$log"
  tally "$log" "${PIPESTATUS[0]}" "$*"
}

# tally LOG CODE COMMAND: adds the counts of a command that has ended.
tally() {
  local log=$1 code=$2 command=$3 line p f
  line=$(grep -E '^[0-9]+ passed, [0-9]+ failed$' "$log" | tail -n 1)
  read -r p f < <(sed -E 's/^([0-9]+) passed, ([0-9]+) failed$/\1 \2/' <<<"${line:-0 passed, 0 failed}")
  if ((code != 0 && f == 0)); then f=1; fi
  if ((f > 0)) && ! grep -q '^failed: ' "$log"; then echo "failed: $command: it ended with code $code; $log says why" >>"$log"; fi
  passed=$((passed + p)) failed=$((failed + f)) logs+=("$log")
}

asides=.muster/ci/asides beside=

# beside FUNCTION: runs an exported function of `aside` commands in the background, with what all else leaves of the processors, and ends it with this
# script. Linux may share processors out by session first (autogroup), so it is a session of its own, with the lowest priority among those, too.
beside() {
  : >"$asides"
  export asides
  export -f aside "$1"
  setsid nice -n 19 bash -c '{ echo 19 >/proc/self/autogroup; } 2>/dev/null; "$1"' beside "$1" &
  beside=$!
  trap 'kill -- "-$beside" 2>/dev/null' EXIT
}

# aside LOG COMMAND…: as `count`, later.
aside() {
  local log=$1
  shift
  "$@" >"$log" 2>&1
  printf '%s\t%s\t%s\n' "$log" "$?" "$*" >>"$asides"
}

# Waits for what runs beside, shows it and counts it.
count_beside() {
  local code log of command
  wait "$beside"
  code=$?
  trap - EXIT
  while IFS=$'\t' read -r log of command; do
    cat "$log"
    tally "$log" "$of" "$command"
  done <"$asides"
  if ((code == 0)); then return; fi
  echo "failed: what runs beside the tests ended with code $code, before its end" | tee "$asides.log"
  failed=$((failed + 1)) logs+=("$asides.log")
}

# One line for each thing that was skipped, with the reason, and how many they are; one for each that failed; last "N passed, N failed". Succeeds only
# when nothing failed.
conclude() {
  local skipped failures
  skipped=$(grep -h '^skipped: ' "${logs[@]}")
  failures=$(grep -h '^failed: ' "${logs[@]}")
  if [[ -n $skipped ]]; then printf '\n%s\n%s skipped\n' "$skipped" "$(wc -l <<<"$skipped")"; fi
  if [[ -n $failures ]]; then printf '\n%s\n' "$failures"; fi
  echo
  echo "$passed passed, $failed failed"
  ((failed == 0 && passed > 0))
}
