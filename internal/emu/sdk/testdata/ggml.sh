#!/usr/bin/env bash
# Builds ggml's back end for CANN, unchanged, against the SDK. Runs a small model with it, which must
# agree with ggml's CPU back end, and ggml's own tests of operators. Needs cmake and a folder with
# ggml's sources (github.com/ggml-org/ggml):
#
#   internal/emu/sdk/testdata/ggml.sh FOLDER [OPERATOR...]
#
# Without operators all are tested, which takes an hour on two cores. What is built stays in
# build/ggml. GGML_CMAKE adds options of cmake, such as -DUSE_ACL_GRAPH=ON.
set -euo pipefail
source=$(realpath "${1:?name the folder of the sources}")
shift
cd "$(dirname "$0")/../../../.."
[ -e build/sdk/lib64/libcann_emu.so ] || make -s sdk
# shellcheck disable=SC1091
source build/sdk/set_env.sh
read -ra options <<< "${GGML_CMAKE:-}"
cmake -S "$source" -B build/ggml -DCMAKE_BUILD_TYPE=Release -DGGML_CANN=ON -DGGML_BUILD_EXAMPLES=OFF -DGGML_BUILD_TESTS=ON "${options[@]}"
cmake --build build/ggml --target test-backend-ops -j "$(nproc)"
program=$(find build/ggml -name test-backend-ops -type f)
export CANN_EMU_DEVICES=${CANN_EMU_DEVICES:-1}
g++ -std=c++17 -O1 -Wall -Wextra -I"$source/include" internal/emu/sdk/testdata/ggml_model.cpp -o build/ggml/model \
	-Lbuild/ggml/src -lggml -lggml-base -Wl,-rpath,"$PWD/build/ggml/src:$PWD/build/ggml/src/ggml-cann"
build/ggml/model
[ $# -gt 0 ] || exec "$program" test -b CANN0
failed=0
for operator in "$@"; do
	"$program" test -b CANN0 -o "$operator" || failed=1
done
exit $failed
