// Integer sets: intervals of index values, and boxes of them as buffer regions.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "ir/stmt.h"

namespace tilewright {

// [min, max], both included. The extreme values of int64_t stand for "no bound".
struct Interval {
  static constexpr int64_t kNegInf = INT64_MIN;
  static constexpr int64_t kPosInf = INT64_MAX;
  int64_t min = kNegInf;
  int64_t max = kPosInf;

  static Interval point(int64_t v) { return {v, v}; }
  static Interval everything() { return {}; }
  bool is_point() const { return min == max; }
  bool is_bounded() const { return min != kNegInf && max != kPosInf; }
  bool operator==(const Interval&) const = default;
};

// Saturating arithmetic on intervals. The result is an interval that holds every value, and the
// smallest one except for floormod by a range. A divisor of 0 has no result and adds none.
Interval add(Interval a, Interval b);
Interval sub(Interval a, Interval b);
Interval mul(Interval a, Interval b);
Interval floordiv(Interval a, Interval b);
Interval floormod(Interval a, Interval b);
Interval min(Interval a, Interval b);
Interval max(Interval a, Interval b);
Interval unite(Interval a, Interval b);
// The intersection; `a` where the two are disjoint (then no value is left, and any result is
// correct).
Interval intersect(Interval a, Interval b);

// A symbolic range [min, min + extent) for one dimension.
struct Range {
  Expr min, extent;
};
using Region = std::vector<Range>;

// One buffer and the box of it that a statement touches.
struct BufferRegion {
  Buffer buffer;
  Region region;
};

// The box that covers `indices` while each variable of `vars` runs over its range, in terms of the
// variables that are not in `vars`. Affine indices give tight boxes. An index that is not affine (a
// gather, say) gives the dimension's full extent `shape[d]`.
Region cover(const std::vector<Expr>& indices, const std::vector<Expr>& shape,
             const std::map<const ExprNode*, Range>& vars);

// The boxes that a statement reads and writes, in terms of its free variables. Loops and block
// iterators inside are covered, and buffers allocated inside are left out. A block's own iterators
// are replaced by their bindings. Accesses of the same buffer are united into one box. A call that
// copies (call_table.h) reads or writes an unknown number of elements: the whole buffer.
struct Accesses {
  std::vector<BufferRegion> reads, writes;
};
Accesses accesses(const Stmt& s);

}  // namespace tilewright
