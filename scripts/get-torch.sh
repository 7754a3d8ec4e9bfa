#!/usr/bin/env bash
# Fetches a current Python with PyTorch (on the CPU) and transformers, on Debian, without root and without installing anything.
# The packages come through apt from a newer suite of the mirror that this machine already uses; apt checks the signatures. About 300 MB, 1.6 GB unpacked.
#   get-torch.sh FOLDER        for example: get-torch.sh .muster/torch
# Afterwards FOLDER/python3 is a Python that is started as usual. Nothing is fetched where it runs already.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib/debian-packages.sh"

(($# == 1)) || { sed -n '2,5s/^# \{0,1\}//p' "$0" >&2; exit 2; }
mkdir -p "$1"
folder=$(cd "$1" && pwd)
proof='import sys, torch, transformers; print("python", sys.version.split()[0], "torch", torch.__version__, "transformers", transformers.__version__)'
if [[ -x $folder/python3 ]] && "$folder/python3" -c "$proof" >/dev/null 2>&1; then exit 0; fi
open_packages PyTorch "$folder"

# The program is started by the loader of its own suite, with the libraries of that suite alone.
write_starter() {
  cat >"$work/python3" <<'STARTER'
#!/usr/bin/env bash
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
usr=$here/root/usr lib=$here/root/usr/lib/x86_64-linux-gnu
export PYTHONHOME=$usr
exec "$usr/lib64/ld-linux-x86-64.so.2" --argv0 "$here/python3" --library-path "$lib:$lib/openblas-pthread:$lib/blas:$lib/lapack:$usr/lib" "$usr/bin/python3" "$@"
STARTER
  chmod +x "$work/python3"
}

for suite in forky sid; do
  if { unpack_packages "$suite" python3-torch python3-transformers libopenblas0-pthread && write_starter && "$work/python3" -c "$proof"; } >&2; then
    keep_packages "$folder" python3
    exit 0
  fi
done
echo "no suite of $mirror has PyTorch and transformers that run here (tried: forky sid)" >&2
exit 1
