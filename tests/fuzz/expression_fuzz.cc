// Statements of the `expr` operator.
#include <nlohmann/json.hpp>

#include "ir/ops/spec.h"
#include "ir/verify.h"
#include "tests/fuzz/fuzz_target.h"

namespace tilewright::fuzz {

std::vector<std::string> seed_inputs() {
  return {"T[i,j] += A[i,k] * B[k,j]",
          "T0[i] max= A[i,k]; T1[i,k] = exp(A[i,k] - T0[i]); T2[i] += T1[i,k]; "
          "Y[i,k] = T1[i,k] / T2[i]",
          "Y[i,j] = select(A[i,j] > 0.0, A[i,j], B[i//2,j])", "Y[i] = max(A[i,0], -B[i]) + 1.5e-3"};
}

}  // namespace tilewright::fuzz

using namespace tilewright;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  nlohmann::json spec = {{"op", "expr"},
                         {"expr", std::string(fuzz::text_of(data, size))},
                         {"dims", {{"i", 4}, {"j", 5}, {"k", 6}}}};
  std::string text = spec.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  try {
    Program program = lower(parse_workload(text));
    fuzz::require(verify(program).empty(), "an expression became an illegal program");
  } catch (const SpecError&) {
  }
  return 0;
}
