// Descriptions of kernels, as artifacts hold them.
#include "base/error.h"
#include "kernel/kernel_source.h"
#include "tests/fuzz/fuzz_target.h"

namespace tilewright::fuzz {

std::vector<std::string> seed_inputs() {
  KernelDescription plain;
  plain.main = {"kernel",
                {{"A", ElemType::f32, {4, 8}, ParamRole::Input},
                 {"B", ElemType::i4, {8, 16}, ParamRole::Weight},
                 {"C", ElemType::f32, {4, 16}, ParamRole::Output}},
                64,
                32};
  KernelDescription full = plain;
  full.packs = {{"pack", {{"B", ElemType::i4, {8, 16}, ParamRole::Weight}}, 0, 0}};
  full.main.params[0].shape[0] = KernelExtent::dimension(0);
  full.dims = {"m"};
  full.features = {"avx512vnni"};
  return {plain.to_json(), full.to_json()};
}

}  // namespace tilewright::fuzz

using namespace tilewright;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    auto read = KernelDescription::from_json(std::string(fuzz::text_of(data, size)));
    std::string written = read.to_json();
    fuzz::require(KernelDescription::from_json(written).to_json() == written,
                  "a description reads back as another one");
  } catch (const Error&) {
  }
  return 0;
}
