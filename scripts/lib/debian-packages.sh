# Functions that fetch programs of a newer Debian suite, with all that they need, into a folder: without root and without installing anything.
# The packages come through apt from the mirror that this machine already uses; apt checks the signatures.

# open_packages WHAT FOLDER: makes `$work`, a folder in FOLDER that goes with this script. Says why WHAT can not be fetched here.
open_packages() {
  local what=$1 folder=$2
  command -v apt-get >/dev/null || { echo "$what comes from Debian's packages, and this machine has no apt-get" >&2; exit 1; }
  [[ $(dpkg --print-architecture) == amd64 ]] || { echo "$what is fetched for amd64 only" >&2; exit 1; }
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
}

# unpack_packages SUITE PACKAGE…: fetches packages of a suite with all that they depend on, and unpacks them into $work/root. No script of theirs runs.
unpack_packages() {
  local suite=$1 name
  shift
  echo "deb [signed-by=$keyring] $mirror $suite main" >"$work/sources.list"
  apt-get "${options[@]}" --error-on=any update || return 1
  apt-get "${options[@]}" install --download-only "$@" || return 1
  rm -rf "$work/root"
  mkdir -p "$work/root/usr/lib" "$work/root/usr/lib64" "$work/root/usr/bin" "$work/root/usr/sbin"
  for name in bin sbin lib lib64; do ln -s "usr/$name" "$work/root/$name"; done
  find "$work/cache/archives" -maxdepth 1 -name '*.deb' -print0 | xargs -0 -P 2 -I {} \
    sh -c 'dpkg-deb --fsys-tarfile "$1" | tar -x --keep-directory-symlink --no-same-owner -C "$2"' _ {} "$work/root"
}

# keep_packages FOLDER PROGRAM: what was unpacked, and the program that starts it, take the place of those of before.
keep_packages() {
  rm -rf "$1/root" "${1:?}/$2"
  mv "$work/root" "$1/root"
  mv "$work/$2" "$1/$2"
}
