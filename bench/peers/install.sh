#!/bin/sh
# Installs the peers that `muster bench` compares with, as Debian packages them: Open MPI, and torch.distributed with gloo;
# and Gloo itself, with which the data plane compares in the same processes once it is built anew (npm run setup).
set -eu
if [ "$(id -u)" -ne 0 ]; then
  echo "run this as root: sudo sh bench/peers/install.sh" >&2
  exit 1
fi
apt-get update
apt-get install --yes --no-install-recommends gcc libc6-dev openmpi-bin libopenmpi-dev libgloo-dev python3-torch iproute2
