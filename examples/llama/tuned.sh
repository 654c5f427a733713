#!/bin/bash
# Runs a program of llama.cpp with kernels for its products: the first time without, to learn which are missing; then
# tunes these; then with them.
#
#   usage: TILEWRIGHT_DB=kernels.db examples/llama/tuned.sh THREADS TIME PROGRAM ARGUMENT...
#   e.g.   examples/llama/tuned.sh 2 10m llama-cli -m model.gguf -t 2 -n 64 -p "The capital of France is"
#
# libggml-tilewright.so comes from scripts/llama/build. The program has to load the ggml that it was built for.
set -euo pipefail
if [ $# -lt 3 ]; then
  sed -n '2,8s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
threads=$1 time=$2
shift 2
build=$(cd "$(dirname "$0")/../.." && pwd)/build/release
export TILEWRIGHT_DB=${TILEWRIGHT_DB:-$PWD/kernels.db}
export GGML_BACKEND_PATH=${GGML_BACKEND_PATH:-$build/libggml-tilewright.so}
tune_cli=${TUNE_CLI:-$build/tune-cli}

missing=$(mktemp)
trap 'rm -f "$missing"' EXIT
TILEWRIGHT_GGML=threads=$threads,specs=$missing "$@" > /dev/null
if [ -s "$missing" ]; then
  "$tune_cli" tune "$missing" --threads "$threads" --time "$time" --resume --db "$TILEWRIGHT_DB"
fi
TILEWRIGHT_GGML=threads=$threads "$@"
