#!/usr/bin/env bash
# Puts roceway into a folder of its own, with exactly the libraries of uv.lock: conf/deploy/install.sh [FOLDER] [EXTRA…]
#
#   conf/deploy/install.sh                        # /opt/roceway, as the units in conf/deploy expect it
#   conf/deploy/install.sh /opt/roceway mpi       # with mpi4py as well, for the probe's own all-reduce (needs Open MPI)
#
# Needs Python 3.11 or later with venv, a C compiler (the installed plugin is a small static program), and a package index.
# A second run brings the folder up to this source; a run that fails leaves the folder as it was.
set -euo pipefail
cd "$(dirname "$0")/../.."

folder=${1:-/opt/roceway}
shift || true
UV_VERSION=0.13.8
python=${PYTHON:-python3}
"$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
  { echo "install: $python is no Python >= 3.11 with venv (Debian, Ubuntu: apt-get install python3-venv; or set PYTHON=)" >&2; exit 3; }
command -v cc >/dev/null || { echo "install: no C compiler (Debian, Ubuntu: apt-get install gcc libc6-dev)" >&2; exit 3; }

new=$folder.new old=$folder.old
tools=$(mktemp -d)
trap 'rm -rf "$tools" "$new"' EXIT
rm -rf "$new" "$old"
"$python" -m venv "$tools"
"$tools/bin/python" -m pip install -q --disable-pip-version-check "uv==$UV_VERSION"
extras=()
for extra in "$@"; do extras+=(--extra "$extra"); done
# Byte-code is compiled now: what is started for every pod must not compile itself each time. uv would take roceway itself
# from its cache as long as pyproject.toml is the same.
UV_PROJECT_ENVIRONMENT=$new "$tools/bin/uv" sync -q --frozen --no-dev --no-editable --reinstall-package roceway \
  --compile-bytecode --python "$python" "${extras[@]}"
# Programs name their interpreter by its path, which is the final one from now on.
sed -i "1s|$new/|$folder/|" "$new"/bin/roceway-*
if [ -e "$folder" ]; then mv "$folder" "$old"; fi
mv "$new" "$folder"
rm -rf "$old"
echo "install: $("$folder/bin/roceway-cni" --version) in $folder/bin"
