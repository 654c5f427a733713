// The C of three small kernels, word for word: what a change of the passes or the printer does to it
// is there to be read.
#include <gtest/gtest.h>

#include "codegen/codegen.h"
#include "ir/ops/spec.h"
#include "schedule/schedule.h"
#include "tests/codegen/support.h"
#include "tests/golden.h"

namespace tilewright {
namespace {

// The functions behind the prelude and the helpers: from the line that first names the kernel's.
std::string functions_of(const Schedule& s) {
  KernelSource source = generate_c(s.module(), Target::parse("avx512"));
  size_t name = source.code.find(source.description.main.symbol);
  return source.code.substr(source.code.rfind('\n', name) + 1);
}

// Tiles of 4 rows by a vector, which hang over the edge, summed in registers.
TEST(GeneratedC, OfATiledMatmul) {
  Schedule s = test::matmul_in_tiles("matmul:m=10,n=40,k=12", 4);
  s.parallel({"i_0"});
  EXPECT_GOLDEN(functions_of(s));
}

// No work is done for the padding.
TEST(GeneratedC, OfAPaddedConvolution) {
  Schedule s(lower(make_workload(parse_spec("conv2d:n=1,h=6,w=6,ci=2,co=16,kernel=3,pad=1"))));
  s.compute_inline(s.block("X_pad"));
  Block y = s.block("Y");
  std::vector<Loop> loops = s.loops(y);
  ASSERT_EQ(loops.size(), 7u);  // n, h, w, co, and the reduction over kh, kw, ci
  s.reorder({loops[0], loops[1], loops[2], loops[4], loops[5], loops[6], loops[3]});
  s.decompose_reduction(y, loops[4]);
  s.vectorize(loops[3]);
  EXPECT_GOLDEN(functions_of(s));
}

// A chain of reductions over the rows, unscheduled.
TEST(GeneratedC, OfASoftmax) {
  Schedule s(lower(make_workload(parse_spec("softmax:m=3,n=20"))));
  EXPECT_GOLDEN(functions_of(s));
}

}  // namespace
}  // namespace tilewright
