// Spec files in JSON.
#include "ir/ops/spec.h"
#include "tests/fuzz/fuzz_target.h"

namespace tilewright::fuzz {

std::vector<std::string> seed_inputs() {
  return {
      R"({"op": "matmul", "m": {"min": 1, "max": 16}, "n": 5, "k": 9, "name": "qkv"})",
      R"({"op": "matmul", "m": 4, "n": 8, "k": 64, "dtype": "bf16",
              "w": {"dtype": "i4", "scale": "f16", "group": 32}, "epilogue": ["bias", "relu"]})",
      R"([{"op": "softmax", "m": 6, "n": 7}, {"op": "reduce", "shape": [4, 2], "axes": [1]}])",
      R"({"workloads": [{"op": "conv2d", "n": 1, "h": 6, "w": 6, "ci": 2, "co": 2,
              "kernel": [3, 1], "stride": 2, "pad": 1, "count": 2}]})",
      R"({"op": "expr", "expr": "T[i,j] += A[i,k] * B[k,j]", "dims": {"i": 4, "j": 5, "k": 6}})"};
}

}  // namespace tilewright::fuzz

using namespace tilewright;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    for (const Spec& spec :
         parse_spec_file_text(std::string(fuzz::text_of(data, size)), "fuzz.json")) {
      fuzz::require(make_workload(spec).canonical == canonical_text(spec),
                    "a workload has another text than its spec");
    }
  } catch (const SpecError&) {
  }
  return 0;
}
