// Programs in the printer's text form.
#include "base/error.h"
#include "ir/arith/simplify.h"
#include "ir/ops/spec.h"
#include "ir/text/parser.h"
#include "ir/text/printer.h"
#include "ir/verify.h"
#include "tests/fuzz/fuzz_target.h"

namespace tilewright::fuzz {

std::vector<std::string> seed_inputs() {
  std::vector<std::string> texts;
  for (const char* spec : {"matmul:m=1..16,n=5,k=9,epilogue=[bias,relu]", "softmax:m=6,n=7",
                           "matmul:m=2,n=4,k=8,w.dtype=i4,w.scale=f16,w.zero=u4,w.group=4",
                           "gather:rows=3,cols=4,index=5"}) {
    texts.push_back(to_string(lower(parse_workload(spec))));
  }
  return texts;
}

}  // namespace tilewright::fuzz

using namespace tilewright;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Module module;
  try {
    module = parse_module(fuzz::text_of(data, size));
  } catch (const IrError&) {
    return 0;
  }
  std::string printed = to_string(module);
  fuzz::require(to_string(parse_module(printed)) == printed,
                "the text of a program reads back as another one");
  verify(module.main);
  simplify(module.main);
  return 0;
}
