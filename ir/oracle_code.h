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
};

struct StageCode {
  std::vector<int64_t> extents;         // of the output: slots 0 ..
  std::vector<int64_t> reduce_extents;  // of the reduction: the slots behind
  Reducer reducer = Reducer::None;
  ElemType type = ElemType::f32;
  double roundoff = 0;     // of the arithmetic in front of a closing cast
  int64_t terms = 1;       // of the longest reduction on the way to an element
  bool is_narrow = false;  // a sum of products that NarrowSums speaks of
  bool inlined = false;    // its readers hold its expression; it is never asked
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

// OnDemand: stages that cost no more than their operands are inlined into their readers.
// Whole: none is, since every stage is computed once for all its readers.
enum class Stages : uint8_t { OnDemand, Whole };

Code compile(const Workload& workload, const std::map<std::string, int64_t>& dims, Stages stages);

}  // namespace tilewright::oracle
