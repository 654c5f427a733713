// Index maps of layouts.
#include "base/error.h"
#include "ir/arith/index_map.h"
#include "tests/fuzz/fuzz_target.h"

namespace tilewright::fuzz {

std::vector<std::string> seed_inputs() {
  return {"(a0) -> (floordiv(a0, 4), floormod(a0, 4))",
          "(i, j) -> (floordiv(j, 16), i, floormod(j, 16))", "(a, b, c) -> (a * 12 + b * 4 + c)",
          "(a0, a1) -> (a1, floordiv(a0 * 6 + a1, 3), floormod(a0 * 6 + a1, 3))"};
}

}  // namespace tilewright::fuzz

using namespace tilewright;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    IndexMap map = IndexMap::parse(std::string(fuzz::text_of(data, size)));
    fuzz::require(IndexMap::parse(map.str()).str() == map.str(),
                  "the text of a map reads back as another one");
    std::vector<Expr> shape;
    int64_t extent = 5;
    while (shape.size() < map.inputs.size()) shape.emplace_back(++extent);
    map.image(shape);
    map.inverse(shape);
  } catch (const IrError&) {
  }
  return 0;
}
