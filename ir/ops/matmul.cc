#include <optional>

#include "ir/ops/activation.h"
#include "ir/ops/builders.h"
#include "ir/ops/keys.h"
#include "ir/ops/weight.h"
#include "ir/ops/workload_builder.h"

namespace tilewright::ops {
namespace {

void normalize_matmul(Spec& spec) {
  normalize_types(spec);
  normalize_epilogue(spec);
  normalize_activation(spec);
  normalize_weight(spec);
}

Workload build_matmul(const Spec& spec) {
  WorkloadBuilder b(spec);
  const bool trans_a = b.flag("trans_a"), trans_b = b.flag("trans_b");
  const bool batched = spec.get<DimSize>("batch") != DimSize{1, 1};
  Expr batch = b.dim("batch"), m = b.dim("m"), n = b.dim("n"), k = b.dim("k");
  // Puts the batch axis before two others, where there is one.
  auto with_batch = [&](Expr first, Expr x, Expr y) {
    std::vector<Expr> list = {std::move(x), std::move(y)};
    if (batched) list.insert(list.begin(), std::move(first));
    return list;
  };
  Buffer A = b.input("A", b.dtype, trans_a ? with_batch(batch, k, m) : with_batch(batch, m, k));
  std::vector<WeightAxis> stored = {{"k", k, WeightAxis::Summed}, {"j", n, WeightAxis::Column}};
  if (trans_b) std::swap(stored[0], stored[1]);
  if (batched) stored.insert(stored.begin(), {"b", batch, WeightAxis::Own});
  WeightOperand B(b, "B", stored);
  std::vector<Axis> axes = {{"i", m}, {"j", n}};
  if (batched) axes.insert(axes.begin(), {"b", batch});
  // Reads A at the indices of a row (batch first) and at k.
  auto read = [&](const Point& row, const Point& r) {
    return load(
        A, trans_a ? with_batch(row[0], r[0], row.back()) : with_batch(row[0], row.back(), r[0]));
  };
  const std::vector<Axis> row_axes(axes.begin(), axes.end() - 1);
  std::optional<QuantizedRows> rows;
  Buffer codes;  // A by rows, where it is multiplied in another form than it is stored in
  if (spec.has("a.dtype")) {
    rows.emplace(b, "A", *parse_elem_type(spec.get<std::string>("a.dtype")), row_axes, Axis{"k", k},
                 read);
    codes = rows->codes();
  } else if (has_narrow_rows(spec)) {
    codes = narrow_rows_as_bytes(b, "A", row_axes, {"k", k}, read);
  }
  auto row_of = [](const Point& p) { return Point(p.begin(), p.end() - 1); };
  PointFn scale;
  if (rows) scale = [&](const Point& p) { return load(rows->scale(), row_of(p)); };
  const int channel = static_cast<int>(axes.size()) - 1;
  b.accumulate(
      "C", axes, {{"k", k}},
      [&](const Point& p, const Point& r) {
        const Expr& j = p.back();
        Point place = row_of(p);
        place.push_back(r[0]);
        Expr a = codes ? load(codes, place) : read(row_of(p), r);
        auto w = trans_b ? with_batch(p[0], j, r[0]) : with_batch(p[0], r[0], j);
        return cast(b.acc, a) * B.value(w);
      },
      channel, scale);
  return b.finish();
}

}  // namespace

std::vector<Operator> matmul_operators() {
  KeyDef batch{.name = "batch",
               .kind = KeyKind::Size,
               .doc = "independent products",
               .fallback = DimSize{1, 1}};
  return {{"matmul", "matrix product C = A B, with an epilogue",
           "A[batch,m,k] ([batch,k,m] with trans_a)  B[batch,k,n] ([batch,n,k] with trans_b), "
           "constant  bias[n]  D[batch,m,n]  ->  C[batch,m,n]; no batch axis when it is 1",
           "matmul:m=512,n=3072,k=768,epilogue=[bias,gelu]",
           join({{size_key("m", "rows of A and C"), size_key("n", "columns of B and C"),
                  size_key("k", "the reduction dimension"), batch,
                  flag_key("trans_a", "A is stored [k,m]"),
                  flag_key("trans_b", "B is stored [n,k]"), epilogue_key()},
                 type_keys_with_narrow_rows(),
                 activation_keys(),
                 weight_keys()}),
           normalize_matmul, build_matmul}};
}

}  // namespace tilewright::ops
