#!/usr/bin/env bash
# Fetches a nats-server of at least a wanted version on Debian and Ubuntu, without root and without installing anything.
# The package comes through apt from a newer suite of the mirror that this machine already uses; apt checks the
# distribution's signature. Suites are tried from the most to the least settled.
#   get-nats-server.sh TARGET VERSION        for example: get-nats-server.sh .muster/bin/nats-server 2.11
set -euo pipefail

(($# == 2)) || { sed -n '2,5s/^# \{0,1\}//p' "$0" >&2; exit 2; }
target=$1 wanted=$2
distribution=$(. /etc/os-release && echo "${ID:-unknown}")
codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
[[ $distribution == ubuntu ]] || distribution=debian # derivatives of Debian use its archive or fail below

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 143' TERM
trap 'exit 130' INT
mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$(dirname "$target")"

# Mirror and keyring of the distribution's own archive, as this machine is configured.
case $distribution in
  ubuntu) suites="$codename resolute devel" component=universe keyring=/usr/share/keyrings/ubuntu-archive-keyring.gpg ;;
  debian) suites="$codename forky sid" component=main keyring=/usr/share/keyrings/debian-archive-keyring.gpg ;;
esac
read -r mirror signed_by < <(
  apt-get indextargets --format '$(COMPONENT) $(RELEASE) $(REPO_URI) $(SIGNED_BY)' 'Created-By: Packages' |
    awk -v component="$component" -v names=" $codename stable oldstable testing unstable sid devel " \
      '$1 == component && index(names, " " $2 " ") { print $3, $4; exit }'
) || { echo "apt on this machine names no $distribution archive" >&2; exit 1; }
[[ -r ${signed_by:-} ]] && keyring=$signed_by
[[ -r $keyring ]] || { echo "the archive keyring $keyring is missing" >&2; exit 1; }

# A private apt state: nothing of the system's lists, pins or caches is read or changed.
options=(-q -o "Dir::Etc::SourceList=$work/sources.list" -o Dir::Etc::SourceParts=- -o Dir::Etc::Preferences=- -o Dir::Etc::PreferencesParts=-
  -o "Dir::State::Lists=$work/lists" -o "Dir::Cache=$work/cache" -o APT::Sandbox::User= -o APT::Default-Release=
  -o APT::Get::List-Cleanup=0 -o Acquire::Languages=none -o Acquire::Retries=2 -o Acquire::http::Timeout=30 -o Acquire::https::Timeout=30)

is_enough() { dpkg --compare-versions "$1" ge "$wanted"; }

try_suite() {
  echo "deb [signed-by=$keyring] $mirror $1 $component" >"$work/sources.list"
  apt-get "${options[@]}" --error-on=any update || return 1
  local candidate
  candidate=$(apt-cache "${options[@]}" show nats-server 2>/dev/null | awk '$1 == "Version:" { print $2; exit }')
  is_enough "${candidate:-0}" || { echo "$1 has nats-server ${candidate:-none}, wanted $wanted"; return 1; }
  (cd "$work" && rm -rf root nats-server_*.deb && apt-get "${options[@]}" download nats-server && dpkg -x nats-server_*.deb root) || return 1
  local binary
  binary=$(find "$work/root" -type f -name nats-server -perm -u+x -print -quit)
  "$binary" --version || return 1 # built for a newer system than this one?
  install -m 0755 "$binary" "$target.new.$$" && mv -f "$target.new.$$" "$target"
}

for suite in $suites; do
  if try_suite "$suite" >&2; then exit 0; fi
done
echo "no suite of $mirror has a nats-server $wanted or newer that runs here (tried: $suites)" >&2
exit 1
