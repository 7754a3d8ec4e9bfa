#!/usr/bin/env bash
# Runs a command in a fresh clone of this checkout's HEAD, on what looks like a fresh machine: an empty home, an empty
# environment (except how to reach the network), and a PATH without pnpm, nats-server or anything else of this project.
#   fresh-clone.sh [--keep] COMMAND [ARGS...]        for example: fresh-clone.sh npm test
set -euo pipefail

keep=false
[[ ${1:-} == --keep ]] && { keep=true; shift; }
(($# > 0)) || { sed -n '2,4s/^# \{0,1\}//p' "$0" >&2; exit 2; }
root=$(cd "$(dirname "$0")/.." && pwd)
place=$(mktemp -d)
if $keep; then echo "fresh clone kept in $place" >&2; else trap 'rm -rf "$place"' EXIT; fi

mkdir "$place/home" "$place/bin"
hidden=" pnpm pnpx corepack yarn nats-server "
for folder in "$(dirname "$(readlink -f "$(command -v node)")")" /usr/local/bin /usr/bin /bin /usr/sbin /sbin; do
  for file in "$folder"/*; do
    name=${file##*/}
    [[ $hidden == *" $name "* || -e $place/bin/$name ]] || ln -s "$file" "$place/bin/$name" 2>/dev/null || true
  done
done

kept=()
for name in HTTP_PROXY HTTPS_PROXY NO_PROXY http_proxy https_proxy no_proxy NODE_EXTRA_CA_CERTS SSL_CERT_FILE npm_config_registry; do
  [[ -z ${!name:-} ]] || kept+=("$name=${!name}")
done

git clone --quiet --no-hardlinks "$root" "$place/clone"
cd "$place/clone"
env -i "${kept[@]}" HOME="$place/home" PATH="$place/bin" LANG=C.UTF-8 "$@"
