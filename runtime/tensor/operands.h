// The operands of a workload, made from a seed: the arrays of a run and what an oracle reads.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ir/oracle/evaluate.h"
#include "ir/tensor_expr.h"
#include "runtime/tensor/array.h"
#include "runtime/tensor/weight_pattern.h"

namespace tilewright {

struct OperandInfo {
  std::string name;
  ElemType elem;
  std::vector<int64_t> shape;
  ParamRole role;
  // What test data stays within: the rows that there are for an operand that is read as a subscript,
  // scales and zero points of a sensible size.
  std::optional<ValueRange> range = std::nullopt;
  // Of an N:M sparse weight.
  std::optional<WeightPattern> pattern = std::nullopt;
  // What hard test data of it holds besides.
  HardValues hard = {};
};

// The values of one operand of a workload's test data.
class OperandValues {
 public:
  // `operands` are all of the workload: a sparse weight is worth nothing where it equals its zero
  // point.
  OperandValues(const OperandInfo& info, const std::vector<OperandInfo>& operands, uint64_t seed,
                ValueKind kind = ValueKind::Ordinary);

  double at(int64_t flat_index) const;
  // Fills the operand's array: the values of at().
  void fill(HostArray* array) const;

 private:
  // Whether the pattern lets the element be anything, and hard data does not leave its group empty.
  bool keeps(int64_t flat_index) const;

  SeededValues values_;
  ValueKind kind_;
  std::optional<WeightPattern> pattern_;
  std::optional<SeededValues> zero_;  // of the weight's zero points
};

// The inputs, then the output, with their shapes at these dynamic dimensions. Throws Error for a
// dimension that is missing, unknown, or out of its range.
std::vector<OperandInfo> operands_of(const Workload& workload,
                                     const std::map<std::string, int64_t>& dims);

// "m = 7, n = 64".
std::string sizes_text(const std::map<std::string, int64_t>& dims);

// The values of the dynamic dimensions in the workload's order; checks as operands_of().
std::vector<int64_t> dim_values(const Workload& workload,
                                const std::map<std::string, int64_t>& dims);

// What an oracle reads: the value of any single input element, with no array behind it.
std::map<std::string, ElementReader> seeded_readers(const std::vector<OperandInfo>& operands,
                                                    uint64_t seed,
                                                    ValueKind kind = ValueKind::Ordinary);

// Arrays of all operands of one workload. The inputs are filled from the seed once.
class OperandSet {
 public:
  OperandSet(std::vector<OperandInfo> operands, uint64_t seed, ValueKind kind = ValueKind::Ordinary,
             HostArray::Place place = HostArray::Place::AfterFence);
  // The same at other sizes of dynamic dimensions; it shares the arrays of the weights, which have
  // none.
  OperandSet(std::vector<OperandInfo> operands, const OperandSet& weights);
  OperandSet(std::vector<OperandInfo> operands, const OperandSet& weights, HostArray::Place place);
  OperandSet(OperandSet&&) = default;

  HostArray& at(const std::string& name);  // throws Error for an unknown name
  HostArray* find(const std::string& name);
  HostArray& output() { return *output_; }
  const std::vector<OperandInfo>& infos() const { return infos_; }
  int64_t bytes() const;  // of all arrays
  HostArray::Place place() const { return place_; }
  ValueKind kind() const { return kind_; }

  // The name of an input whose elements are no longer those of the seed, or nothing.
  std::optional<std::string> changed_input() const;
  // Of any operand.
  std::optional<HostArray::GuardFault> guard_fault() const;
  // Fills the inputs and mends the guards again, after a kernel that did not keep to its bounds.
  void restore();
  // Makes the inputs' pages read-only, or writable again.
  void protect_inputs(bool read_only);
  // The activations' and the output's arrays of this set with the weights' of another.
  OperandSet with_weights_of(const OperandSet& other) const;
  // Gives the inputs that are no weights the values that `other` has of them, of the same shapes.
  void copy_activations(const OperandSet& other);
  // Fills them from the seed again.
  void refill_activations();

 private:
  struct Operand {
    std::shared_ptr<HostArray> array;
    bool input;
    uint64_t hash = 0;
    bool lent = false;  // by another set, whose values they are
  };
  OperandSet(const OperandSet&) = default;
  void add(const OperandInfo& info);
  void fill(Operand* operand, const OperandInfo& info);

  std::vector<OperandInfo> infos_;
  uint64_t seed_;
  ValueKind kind_;
  HostArray::Place place_;
  std::vector<Operand> operands_;
  HostArray* output_ = nullptr;
};

}  // namespace tilewright
