// Safetensors files, and the quantized layers in them.
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/read_tensors.h"
#include "tests/models/weights/layer_files.h"

namespace tilewright::fuzz {

std::vector<std::string> seed_inputs() {
  using namespace tilewright::test;
  return {SafetensorsFile()
              .add("x", "F32", {2, 3}, std::string(24, 'x'))
              .add("y", "BF16", {4}, std::string(8, 'y'))
              .bytes(),
          gptq_file(layer_numbers(32, 8, 16, 4, true), true).bytes(),
          awq_file(layer_numbers(16, 8, 8, 4)).bytes(),
          compressed_tensors_file(layer_numbers(32, 8, 16, 4), false, true).bytes()};
}

}  // namespace tilewright::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tilewright::fuzz::read_tensors(tilewright::fuzz::text_of(data, size));
  return 0;
}
