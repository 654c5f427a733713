#include "ir/ops/builders.h"
#include "ir/ops/keys.h"
#include "ir/ops/weight.h"
#include "ir/ops/workload_builder.h"

namespace tilewright::ops {
namespace {

void normalize_grouped_matmul(Spec& spec) {
  normalize_types(spec);
  normalize_epilogue(spec);
  normalize_weight(spec);
}

// A group number out of range reads the first or the last group, so none can read past the weights.
Workload build_grouped_matmul(const Spec& spec) {
  WorkloadBuilder b(spec);
  const bool trans_b = b.flag("trans_b");
  Expr groups = b.count("groups"), blocks = b.dim("blocks"), rows = b.count("rows");
  Expr n = b.dim("n"), k = b.dim("k");
  Buffer A = b.input("A", b.dtype, {blocks, rows, k});
  Buffer G = b.input("G", ElemType::i32, {blocks});
  std::vector<WeightAxis> stored = {
      {"g", groups, WeightAxis::Own}, {"k", k, WeightAxis::Summed}, {"j", n, WeightAxis::Column}};
  if (trans_b) std::swap(stored[1], stored[2]);
  WeightOperand B(b, "B", stored);
  b.accumulate(
      "C", {{"b", blocks}, {"i", rows}, {"j", n}}, {{"k", k}},
      [&](const Point& p, const Point& r) {
        Expr group = cast(ElemType::index, load(G, {p[0]}));
        group = max(min(group, minus(groups, 1)), Expr(0));
        const Point w = trans_b ? Point{group, p[2], r[0]} : Point{group, r[0], p[2]};
        return cast(b.acc, load(A, {p[0], p[1], r[0]})) * B.value(w);
      },
      2);
  return b.finish();
}

}  // namespace

std::vector<Operator> grouped_matmul_operators() {
  KeyDef groups{
      .name = "groups", .kind = KeyKind::Count, .doc = "weights to choose from", .min = 1};
  groups.required = true;
  return {{"grouped_matmul",
           "products of blocks of rows, each with the weight of its group (a mixture of experts)",
           "A[blocks,rows,k]  G[blocks] of i32, each block's group, clamped to the groups  "
           "B[groups,k,n] ([groups,n,k] with trans_b), constant  bias[n]  D[blocks,rows,n]  ->  "
           "C[blocks,rows,n]",
           "grouped_matmul:groups=8,blocks=12,rows=16,n=256,k=128",
           join({{groups, size_key("blocks", "blocks of rows of one group each"),
                  count_key("rows", "rows of a block", 16, 1), size_key("n", "columns of B and C"),
                  size_key("k", "the reduction dimension"),
                  flag_key("trans_b", "B is stored [groups,n,k]"), epilogue_key()},
                 type_keys(),
                 weight_keys()}),
           normalize_grouped_matmul, build_grouped_matmul}};
}

}  // namespace tilewright::ops
