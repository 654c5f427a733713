#include "schedule/primitives/weight/compress_operand.h"

#include <gmock/gmock.h>

#include "ir/interpreter/interpreter.h"
#include "ir/ops/spec.h"
#include "ir/text/printer.h"
#include "schedule/tree.h"
#include "tests/schedule/rewrite_case.h"

namespace tilewright::test {
namespace {

using ::testing::HasSubstr;

// Random operands, where B has at most 2 nonzero rows of each 4 (not 0, or not at their zero
// points).
NdArrays operands(const Program& p, const Workload& w) {
  NdArrays arrays;
  uint64_t seed = 3;
  for (const Param& param : p.params) {
    if (param.role == ParamRole::Output) continue;
    arrays[param.buffer->name] =
        NdArray::random(param.buffer->elem, const_shape(param.buffer), seed++);
  }
  NdArray& b = arrays.at("B");
  const bool by_column = w.weight->k_dims[0] == 1;
  const int64_t columns = b.shape[by_column ? 0 : 1], rows = b.shape[by_column ? 1 : 0];
  auto zero = arrays.find("B.zero");
  for (int64_t k = 0; k < rows; ++k) {
    for (int64_t j = 0; j < columns; ++j) {
      if ((k + j * 3 + k / 4) % 4 < 2 - (j % 3 == 0)) continue;
      double worth_nothing = 0;
      if (zero != arrays.end()) {
        double& z = zero->second.data[static_cast<size_t>(k / w.weight->group * columns + j)];
        worth_nothing = z = std::abs(z);
      }
      b.data[static_cast<size_t>(by_column ? j * rows + k : k * columns + j)] = worth_nothing;
    }
  }
  return arrays;
}

void expect_same_product(const Program& before, const Module& after, const NdArrays& inputs) {
  NdArrays want = inputs, got = inputs;
  interpret(before, want);
  interpret(after, got);
  const NdArray &a = want.at("C"), &b = got.at("C");
  for (size_t i = 0; i < a.data.size(); ++i) ASSERT_NEAR(a.data[i], b.data[i], 1e-3) << i;
}

// A product padded to whole tiles, with its dequantized weight in a separate buffer.
struct Padded {
  explicit Padded(const std::string& spec)
      : w(make_workload(parse_spec(spec))), before(lower(w)), s(before) {
    s.pad_einsum({"C"}, {4, 8, 16});
    for (const Block& b : s.blocks()) {
      if (b.name == "B_value") s.compute_inline(b);
    }
    for (const Block& b : s.blocks()) {
      if (b.name.ends_with("_pad") && b.name[0] == 'B') operand = b.name;
    }
  }

  Workload w;
  Program before;
  Schedule s;
  std::string operand;
};

TEST(CompressOperand, MeansTheSame) {
  for (const char* spec :
       {"matmul:m=3,n=6,k=12,w.sparse=2:4", "matmul:m=3,n=6,k=20,w.sparse=1:4,trans_b=true",
        "matmul:m=3,n=6,k=24,w.dtype=i4,w.group=8,w.sparse=2:4",
        "matmul:m=3,n=6,k=24,w.dtype=u4,w.group=12,w.zero=u4,w.sparse=2:4"}) {
    SCOPED_TRACE(spec);
    Padded p(spec);
    std::vector<std::string> made = p.s.compress_operand({"C"}, p.operand, "B", 2, 4, 1);
    EXPECT_EQ(made, (std::vector<std::string>{"B_values", "B_rows"}));
    EXPECT_TRUE(replays(p.before, p.s));
    expect_same_product(p.before, p.s.module(), operands(p.before, p.w));
  }
}

// Metadata has whole tiles. Zeros are kept where a group has too few other elements, so rows
// ascend.
TEST(CompressOperand, RowsAscendWithinAGroup) {
  Padded p("matmul:m=3,n=6,k=12,w.sparse=2:4");
  p.s.compress_operand({"C"}, p.operand, "B", 2, 4, 1);
  const Program& pack = p.s.module().packs[1];
  EXPECT_EQ(const_shape(pack.params.back().buffer), (std::vector<int64_t>{8, 8}));
  EXPECT_EQ(pack.params.back().buffer->elem, ElemType::u2);
  NdArrays arrays = operands(p.before, p.w);
  interpret(pack, arrays);
  const NdArray& rows = arrays.at("B_rows");
  for (int64_t r = 0; r < 8; r += 2) {
    for (int64_t j = 0; j < 8; ++j) {
      EXPECT_LT(rows.data[static_cast<size_t>(r * 8 + j)],
                rows.data[static_cast<size_t>((r + 1) * 8 + j)])
          << r << ", " << j;
    }
  }
}

TEST(CompressOperand, ColumnsMayShareTheirRows) {
  Padded p("matmul:m=3,n=36,k=32,w.sparse=2:8,w.vector=16");
  p.s.compress_operand({"C"}, p.operand, "B", 2, 8, 16);
  EXPECT_EQ(const_shape(p.s.module().packs[1].params.back().buffer), (std::vector<int64_t>{8, 3}));
  NdArrays inputs = operands(p.before, p.w);
  NdArray& b = inputs.at("B");
  for (int64_t k = 0; k < 32; ++k) {
    for (int64_t j = 0; j < 36; ++j) {
      b.data[static_cast<size_t>(k * 36 + j)] = (k + j / 16) % 4 == 1 ? j + k + 1 : 0;
    }
  }
  EXPECT_TRUE(replays(p.before, p.s));
  expect_same_product(p.before, p.s.module(), inputs);
  EXPECT_THAT(to_string(p.s.program()), HasSubstr("floordiv(vj, 16)]), 8)"));
}

TEST(CompressOperand, ScalesOfAGroupNeedNoRow) {
  Padded p("matmul:m=3,n=6,k=24,w.dtype=i4,w.group=8,w.sparse=2:4");
  p.s.compress_operand({"C"}, p.operand, "B", 2, 4, 1);
  EXPECT_THAT(to_string(p.s.program()), HasSubstr("B.scale[floordiv(v0_1, 4), v1_1]"));
}

TEST(CompressOperand, IsRefusedWithTheReason) {
  auto refusal = [](const std::string& spec, const std::function<void(Padded&)>& change) {
    Padded p(spec);
    try {
      change(p);
    } catch (const ScheduleError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  const std::string plain = "matmul:m=3,n=6,k=12,w.sparse=2:4";
  auto compress = [](Padded& p, int64_t keep, int64_t of) {
    p.s.compress_operand({"C"}, p.operand, "B", keep, of, 1);
  };
  EXPECT_THAT(refusal(plain, [&](Padded& p) { compress(p, 5, 4); }),
              HasSubstr("expected a pattern of 1 <= keep <= of <= 64, got 5:4"));
  EXPECT_THAT(
      refusal(plain, [](Padded& p) { p.s.compress_operand({"C"}, p.operand, "D", 2, 4, 1); }),
      HasSubstr("no weight 'D'"));
  EXPECT_THAT(refusal(plain, [](Padded& p) { p.s.compress_operand({"C"}, "A_pad", "B", 2, 4, 1); }),
              HasSubstr("block 'B_pad' reads 'B' too; only block 'A_pad' may"));
  EXPECT_THAT(refusal(plain, [&](Padded& p) { compress(p, 3, 5); }),
              HasSubstr("have 16 and 12 elements along k, which are no whole groups of 5"));
  EXPECT_THAT(refusal(plain, [](Padded& p) { p.s.compress_operand({"C"}, "A", "B", 2, 4, 1); }),
              HasSubstr("the block reads no copy of the weight"));
  EXPECT_THAT(refusal(plain,
                      [&](Padded& p) {
                        p.s.split(p.s.loops({"C"})[2], {-1, 4});
                        compress(p, 2, 4);
                      }),
              HasSubstr("is not a loop of its own any more"));
  EXPECT_THAT(refusal(plain,
                      [&](Padded& p) {
                        p.s.prepack("B", IndexMap::parse("(k, j) -> (j, k)"));
                        p.s.compress_operand({"C"}, p.operand, "B_packed", 2, 4, 1);
                      }),
              HasSubstr("'B_packed' is laid out already"));
  EXPECT_THAT(refusal("matmul:m=3,n=6,k=24,w.dtype=i4,w.group=6,w.sparse=2:4",
                      [&](Padded& p) { compress(p, 2, 4); }),
              HasSubstr("depends on more than the group of 4"));
}

}  // namespace
}  // namespace tilewright::test
