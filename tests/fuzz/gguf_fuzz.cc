// GGUF files, and the quantized tensors in them.
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/read_tensors.h"
#include "tests/models/weights/files.h"

namespace tilewright::fuzz {

std::vector<std::string> seed_inputs() {
  using namespace tilewright::test;
  constexpr uint32_t kU32 = 4, kString = 8, kArray = 9;
  std::string names =
      raw(kString) + raw(uint64_t{2}) + GgufFile::string("a") + GgufFile::string("b");
  GgufFile plain, blocks;
  plain.set("general.alignment", kU32, raw(uint32_t{32}))
      .set("general.name", kString, GgufFile::string("m"))
      .set("tokens", kArray, names)
      .add("x", 0, {3, 2}, std::string(24, 'x'));
  // Per type: its number, and the elements and bytes of one block.
  struct Blocks {
    uint32_t type;
    uint64_t elements;
    size_t bytes;
  };
  for (Blocks b : {Blocks{2, 32, 18}, Blocks{3, 32, 20}, Blocks{8, 32, 34}, Blocks{12, 256, 144},
                   Blocks{14, 256, 210}}) {
    blocks.add("t" + std::to_string(b.type), b.type, {b.elements, 2},
               std::string(2 * b.bytes, 'q'));
  }
  return {plain.bytes(), blocks.bytes()};
}

}  // namespace tilewright::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tilewright::fuzz::read_tensors(tilewright::fuzz::text_of(data, size));
  return 0;
}
