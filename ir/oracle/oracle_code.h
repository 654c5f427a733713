// The oracle's compiled form of a stage: three small tables of nodes, for indices, conditions and
// values, which are evaluated by their number.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ir/tensor_expr.h"

namespace tilewright::oracle {

// A value and a bound of its error.
struct Approx {
  double v = 0;
  double e = 0;
  // Of a term of a sum: by how much the magnitudes of the terms that a kernel may make of it
  // (mark_apart()) exceed its own. For (q - z) * s these are q * s and z * s, for q * s + o both parts.
  double apart = 0;
};

struct IndexCode {
  enum class Op : uint8_t { Linear, Add, Sub, Mul, FloorDiv, FloorMod, Min, Max, Select, OfValue };
  Op op = Op::Linear;
  int64_t constant = 0;  // Linear: constant + sum of slot * coefficient
  std::vector<std::pair<int, int64_t>> terms = {};
  int a = -1, b = -1, c = -1;  // operands; Select: condition a; OfValue: value a
  uint64_t uses = 0;           // bit s: depends on slot s
};

struct CondCode {
  enum class Op : uint8_t { Constant, And, Or, Not, CompareIndices, CompareValues, OfValue };
  Op op = Op::Constant;
  BinaryOp comparison = BinaryOp::EQ;
  int a = -1, b = -1;
  bool value = false;
  uint64_t uses = 0;
};

struct ValueCode {
  enum class Op : uint8_t { Constant, OfIndex, OfCond, Cast, Unary, Binary, Select, Input, Stage };
  Op op = Op::Constant;
  UnaryOp unary = UnaryOp::Neg;
  BinaryOp binary = BinaryOp::Add;
  ElemType type = ElemType::f32, from = ElemType::f32;  // Cast: of the operand
  double roundoff = 0;                                  // of `type`
  double constant = 0;
  int a = -1, b = -1, c = -1;  // operands; Select: condition a; Input and Stage: flat index a
  int source = -1;             // Input: number of the input; Stage: number of the stage
  uint64_t uses = 0;
  bool apart = false;  // mark_apart(): a difference or sum, or a conversion of a code with a sign
};

struct StageCode {
  std::vector<int64_t> extents;         // of the output: slots 0 ..
  std::vector<int64_t> reduce_extents;  // of the reduction: the slots behind
  Reducer reducer = Reducer::None;
  ElemType type = ElemType::f32;
  double roundoff = 0;      // of the arithmetic in front of a closing cast
  int64_t terms = 1;        // of the longest reduction on the way to an element
  int64_t apart_terms = 0;  // neighbours over which terms that cancel are summed by themselves
  bool is_narrow = false;   // a sum of products that NarrowSums speaks of
  bool inlined = false;     // its readers hold its expression; it is never asked
  bool remembered = false;
  int value = -1;  // number of the value
  std::vector<IndexCode> indices;
  std::vector<CondCode> conds;
  std::vector<ValueCode> values;
};

struct Code {
  std::vector<StageCode> stages;
  std::vector<std::string> inputs;  // names, in the order of their numbers
  std::vector<int64_t> input_elements;
};

// Marks what kernels may sum apart. In a sum of a[k] * (q[k] - z) * s where neighbouring terms share
// z and s, they may form s * (sum of a[k] * q[k] - z * sum of a[k]): scales are applied to sums, and
// products are of stored codes. An offset that is added to scaled codes, a[k] * (q[k] * s + o), is
// likewise o * sum of a[k]. A code of a few bits with a sign may besides be read with the offset
// that makes it unsigned, which is then taken off as a zero point is. Both parts can be much larger
// than the sum, which has their rounding errors. Products of two differences are left alone, and so
// is a difference by itself: nothing is gained there, and nobody does it. `is_weight`: by input.
void mark_apart(StageCode& stage, const std::vector<bool>& is_weight);

// Stages that cost no more than their operands are inlined into their readers.
Code compile(const Workload& workload, const std::map<std::string, int64_t>& dims);

}  // namespace tilewright::oracle
