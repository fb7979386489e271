# What tools/quickstart, tools/check and .ci/run share: installs what is missing, finds CUDA's headers and
# NVRTC, configures and builds. Sourced, not run. Every step is quick when there is nothing to do.
#
# JFA_IGNORE_TOOLKIT=1 pretends that no CUDA toolkit is installed: NVRTC and headers come from PyPI's wheels.
# shellcheck shell=bash

set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

# nvrtc.h and NVRTC; cuda.h; nvtx3/nvToolsExt.h
wheels=(nvidia-cuda-nvrtc==13.0.88 nvidia-cuda-runtime==13.0.96 nvidia-nvtx==13.0.85)
wheel_dir=$root/.local/cuda
oldest_cuda=12090  # as cuda.h counts: 12.9, the first with the sm_100f family targets

say() { printf '\n== %s\n' "$*" >&2; }
fail() { printf 'error: %s\n' "$*" >&2; exit 1; }

lists_updated=0  # apt's, in this run
# install_packages name...: the Debian packages among them that are missing.
install_packages() {
  local name missing=() as_root=()
  command -v dpkg-query >/dev/null || fail "no dpkg on this system; install by hand: $*"
  for name in "$@"; do
    [[ $(dpkg-query -W -f '${Status}' "$name" 2>/dev/null) == 'install ok installed' ]] || missing+=("$name")
  done
  [[ ${#missing[@]} -gt 0 ]] || return 0
  say "Installing ${missing[*]}"
  if [[ $(id -u) -ne 0 ]]; then
    command -v sudo >/dev/null || fail "not root and no sudo; install by hand: ${missing[*]}"
    as_root=(sudo)
  fi
  [[ $lists_updated -eq 1 ]] || "${as_root[@]}" apt-get update -qq
  lists_updated=1
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${missing[@]}" </dev/null
}

# toolkit_at folder: whether a CUDA toolkit that is new enough lies there.
toolkit_at() {
  local version
  [[ -r $1/include/cuda.h && -r $1/include/nvrtc.h && -r $1/include/nvtx3/nvToolsExt.h ]] || return 1
  version=$(sed -n 's/^#define CUDA_VERSION \([0-9]*\)$/\1/p' "$1/include/cuda.h")
  [[ ${version:-0} -ge $oldest_cuda ]] || return 1
  compgen -G "$1/lib64/libnvrtc.so*" >/dev/null || compgen -G "$1/lib/libnvrtc.so*" >/dev/null
}

install_wheels() {
  local wanted="${wheels[*]}" partial=$wheel_dir.partial
  if [[ $(cat "$wheel_dir/installed" 2>/dev/null) == "$wanted" ]]; then return; fi
  install_packages python3-pip
  say "Fetching NVRTC and the CUDA headers from PyPI into ${wheel_dir#"$root"/}"
  rm -rf "$partial"
  python3 -m pip install --quiet --disable-pip-version-check --no-deps --root-user-action=ignore \
    --target "$partial" "${wheels[@]}"
  printf '%s' "$wanted" >"$partial/installed"
  rm -rf "$wheel_dir"
  mv "$partial" "$wheel_dir"  # whole or not at all
}

# Sets cuda_dir, which has include/ and the libraries, and build_dir.
find_cuda() {
  local candidate
  if [[ ${JFA_IGNORE_TOOLKIT:-0} == 0 ]]; then
    for candidate in "${CUDA_PATH:-}" "${CUDA_HOME:-}" /usr/local/cuda /usr/local/cuda-*; do
      if [[ -n $candidate ]] && toolkit_at "$candidate"; then
        cuda_dir=$candidate
        build_dir=$root/build/release
        return
      fi
    done
  fi
  install_wheels
  cuda_dir=$wheel_dir/nvidia/cu13
  build_dir=$root/build/release-wheels
  export JFA_NVRTC=$cuda_dir/lib
}

# Files are compiled in batches, which takes half the time of one by one: standard headers and our own are read once
# for many. After a change a batch is compiled again; the presets, for who changes things often, compile one by one.
# Precompiled headers gain nothing on top.
unity=(-D CMAKE_UNITY_BUILD=ON -D CMAKE_UNITY_BUILD_BATCH_SIZE=16 -D CMAKE_DISABLE_PRECOMPILE_HEADERS=ON)

# configure [cmake argument...]
configure() {
  local launcher=() fresh=()
  [[ -e $build_dir/build.ninja ]] || fresh=(--fresh)  # an interrupted first time leaves a half-filled cache
  if command -v ccache >/dev/null; then launcher=(-D CMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
  say "Configuring ${build_dir#"$root"/} with CUDA's headers from $cuda_dir"
  cmake "${fresh[@]}" --preset release -B "$build_dir" -D JFA_CUDA_INCLUDE_DIR="$cuda_dir/include" \
    "${launcher[@]}" "${unity[@]}" "$@" --log-level=WARNING >&2
}

# build [target...]
build() {
  local targets=()
  if [[ $# -gt 0 ]]; then targets=(--target "$@"); fi
  say "Building"
  cmake --build "$build_dir" "${targets[@]}" >&2
}

# run_tests build-folder [ctest argument...]: ctest's last lines say how many ran.
run_tests() {
  ctest --test-dir "$1" --output-on-failure --no-tests=error -j "$(nproc)" --output-junit "$1/tests.xml" "${@:2}"
}

# setup [cmake argument...]
setup() {
  install_packages g++ cmake ninja-build pkg-config libfmt-dev nlohmann-json3-dev libcli11-dev libssl-dev libzstd-dev \
    doctest-dev
  find_cuda
  configure "$@"
}

# run_jfa argument...: says and runs the built command.
run_jfa() {
  say "jfa $*"
  "$build_dir/tools/jfa" "$@"
}

# run_samples: the main job. Attention of both bundled samples, checked against an fp64 reference.
run_samples() {
  run_jfa run samples/sentences.safetensors --check
  run_jfa run samples/pma.safetensors --broadcast-q --check
}
