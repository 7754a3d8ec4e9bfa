#!/usr/bin/env bash
# Fetches llama.cpp's llama-server with the libraries that it needs, on Debian, without root and without installing anything.
# The packages come through apt from a newer suite of the mirror that this machine already uses; apt checks the signatures. About 80 MB.
#   get-llama-server.sh FOLDER        for example: get-llama-server.sh .muster/llama
# Afterwards FOLDER/llama-server is a program that is started as usual. Nothing is fetched where it runs already.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib/debian-packages.sh"

(($# == 1)) || { sed -n '2,5s/^# \{0,1\}//p' "$0" >&2; exit 2; }
mkdir -p "$1"
folder=$(cd "$1" && pwd)
if [[ -x $folder/llama-server ]] && "$folder/llama-server" --version >/dev/null 2>&1; then exit 0; fi
open_packages llama-server "$folder"

# The program is started by the loader of its own suite, which is then what it takes for itself: computing backends are linked beside that.
write_starter() {
  local lib=$work/root/usr/lib/x86_64-linux-gnu backend
  for backend in "$lib"/ggml/backends*/libggml-cpu-*.so; do [[ ! -e $backend ]] || ln -sf "${backend#"$lib"/}" "$lib/"; done
  cat >"$work/llama-server" <<'STARTER'
#!/usr/bin/env bash
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
lib=$here/root/usr/lib/x86_64-linux-gnu
exec "$here/root/usr/lib64/ld-linux-x86-64.so.2" --library-path "$lib:$lib/llama:$lib/blas:$lib/lapack" "$here/root/usr/bin/llama-server" "$@"
STARTER
  chmod +x "$work/llama-server"
}

for suite in forky sid; do
  if { unpack_packages "$suite" llama.cpp-tools && write_starter && "$work/llama-server" --version; } >&2; then
    keep_packages "$folder" llama-server
    exit 0
  fi
done
echo "no suite of $mirror has a llama-server that runs here (tried: forky sid)" >&2
exit 1
