#include "ir/ops/builders.h"
#include "ir/ops/keys.h"
#include "ir/ops/workload_builder.h"

namespace tilewright::ops {
namespace {

// An index outside the table reads its first or last row, so no index can read past the table.
Workload build_gather(const Spec& spec) {
  WorkloadBuilder b(spec);
  Expr rows = b.dim("rows"), cols = b.dim("cols"), count = b.dim("index");
  Buffer X = b.input("X", b.dtype, {rows, cols});
  Buffer I = b.input("I", ElemType::i32, {count});
  b.compute("Y", b.dtype, {{"i", count}, {"j", cols}}, [&](const Point& p) {
    Expr row = cast(ElemType::index, load(I, {p[0]}));
    return load(X, {max(min(row, minus(rows, 1)), Expr(0)), p[1]});
  });
  return b.finish();
}

}  // namespace

std::vector<Operator> gather_operators() {
  return {{"gather",
           "rows of a table by index",
           "X[rows,cols]  I[index] of i32, clamped to the rows  ->  Y[index,cols]",
           "gather:rows=30000,cols=768,index=128",
           {size_key("rows", "rows of the table"), size_key("cols", "elements of a row"),
            size_key("index", "number of rows to gather"), dtype_key()},
           [](Spec&) {},
           build_gather}};
}

}  // namespace tilewright::ops
