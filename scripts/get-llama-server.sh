#!/usr/bin/env bash
# Fetches llama.cpp's llama-server with the libraries that it needs, on Debian, without root and without installing anything.
# The packages come through apt from a newer suite of the mirror that this machine already uses; apt checks the signatures. About 80 MB.
#   get-llama-server.sh FOLDER        for example: get-llama-server.sh .muster/llama
# Afterwards FOLDER/llama-server is a program that is started as usual. Nothing is fetched where it runs already.
set -euo pipefail

(($# == 1)) || { sed -n '2,5s/^# \{0,1\}//p' "$0" >&2; exit 2; }
mkdir -p "$1"
folder=$(cd "$1" && pwd)
if [[ -x $folder/llama-server ]] && "$folder/llama-server" --version >/dev/null 2>&1; then exit 0; fi
command -v apt-get >/dev/null || { echo "llama-server comes from Debian's packages, and this machine has no apt-get" >&2; exit 1; }
[[ $(dpkg --print-architecture) == amd64 ]] || { echo "llama-server is fetched for amd64 only" >&2; exit 1; }

work=$(mktemp -d "$folder/fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 143' TERM
trap 'exit 130' INT
mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/root"
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
[[ -r $keyring ]] || { echo "the archive keyring $keyring is missing" >&2; exit 1; }
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -m 1 -E '/debian/?$') ||
  { echo "apt on this machine names no Debian archive" >&2; exit 1; }

# A private apt state with no package installed, so that every library comes along: nothing of the system's lists, pins or caches is read or changed.
: >"$work/status"
options=(-q -y -o "Dir::Etc::SourceList=$work/sources.list" -o Dir::Etc::SourceParts=- -o Dir::Etc::Preferences=- -o Dir::Etc::PreferencesParts=-
  -o "Dir::State::Lists=$work/lists" -o "Dir::State::Status=$work/status" -o "Dir::Cache=$work/cache" -o APT::Sandbox::User= -o APT::Default-Release=
  -o APT::Install-Recommends=0 -o Debug::NoLocking=1 -o Acquire::Languages=none -o Acquire::Retries=2 -o Acquire::http::Timeout=30 -o Acquire::https::Timeout=30)

try_suite() {
  echo "deb [signed-by=$keyring] $mirror $1 main" >"$work/sources.list"
  apt-get "${options[@]}" --error-on=any update || return 1
  apt-get "${options[@]}" install --download-only llama.cpp-tools || return 1
  rm -rf "$work/root"
  mkdir -p "$work/root/usr/lib" "$work/root/usr/lib64" "$work/root/usr/bin" "$work/root/usr/sbin"
  local name package
  for name in bin sbin lib lib64; do ln -s "usr/$name" "$work/root/$name"; done
  for package in "$work"/cache/archives/*.deb; do
    dpkg-deb --fsys-tarfile "$package" | tar -x --keep-directory-symlink --no-same-owner -C "$work/root" || return 1
  done
  write_starter
  "$work/llama-server" --version >&2
}

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
  if try_suite "$suite" >&2; then
    rm -rf "$folder/root" "$folder/llama-server"
    mv "$work/root" "$folder/root"
    mv "$work/llama-server" "$folder/llama-server"
    exit 0
  fi
done
echo "no suite of $mirror has a llama-server that runs here (tried: forky sid)" >&2
exit 1
