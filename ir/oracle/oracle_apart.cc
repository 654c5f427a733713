// mark_apart(): which terms of a sum kernels may take apart into terms that cancel.
#include <algorithm>

#include "ir/oracle/oracle_code.h"

namespace tilewright::oracle {
namespace {

// The slots that a value depends on: by their quotients alone, or otherwise.
struct Dependence {
  uint64_t plain = 0, quotients = 0;
  int64_t divisor = 1;  // the smallest of the quotients
};

class Marker {
 public:
  Marker(StageCode& stage, const std::vector<bool>& is_weight)
      : s_(stage), is_weight_(is_weight), rank_(stage.extents.size()) {}

  void mark() {
    collect(s_.value);
    std::vector<int> differences, codes;
    int64_t scaled = 1;   // terms that share a scale
    bool varies = false;  // some factor differs from term to term
    for (int factor : factors_) {
      const ValueCode& n = s_.values[factor];
      if (has_parts(n) && run(n.b) > 1) {
        differences.push_back(factor);
        if (const int code = signed_code_in(n.a); code >= 0) codes.push_back(code);
      } else if (is_signed_code(factor)) {
        codes.push_back(factor);
      } else {
        varies = varies || run(factor) == 1;
        if (run(factor) > 1) scaled = std::max(scaled, run(factor));
      }
    }
    if (!varies || differences.size() > 1) return;
    if (differences.size() == 1) {
      s_.apart_terms = run(s_.values[differences[0]].b);
    } else if (!codes.empty()) {
      s_.apart_terms = scaled > 1 ? scaled : all_terms();
    }
    for (const std::vector<int>& list : {differences, codes}) {
      for (int i : list) s_.values[i].apart = true;
    }
  }

 private:
  // The factors of a product, through conversions between floats and masks.
  void collect(int i) {
    const ValueCode& n = s_.values[i];
    const bool widens = n.op == ValueCode::Op::Cast && is_float(n.from) && is_float(n.type);
    if (n.op == ValueCode::Op::Binary && n.binary == BinaryOp::Mul) {
      collect(n.a);
      collect(n.b);
    } else if (widens && s_.values[n.a].op != ValueCode::Op::Input) {
      collect(n.a);
    } else if (n.op == ValueCode::Op::Select && is_zero(n.c)) {
      collect(n.b);
    } else {
      factors_.push_back(i);
    }
  }

  // A difference, or a scaled code with an offset: its second part may be summed by itself.
  bool has_parts(const ValueCode& n) const {
    if (n.op != ValueCode::Op::Binary) return false;
    return n.binary == BinaryOp::Sub || (n.binary == BinaryOp::Add && is_scaled_code(n.a));
  }

  bool is_scaled_code(int i) const {
    const ValueCode& n = s_.values[i];
    if (n.op != ValueCode::Op::Binary || n.binary != BinaryOp::Mul) return is_code(i);
    return is_scaled_code(n.a) || is_scaled_code(n.b);
  }

  // The conversion of a code with a sign among the factors, or -1.
  int signed_code_in(int i) const {
    const ValueCode& n = s_.values[i];
    if (n.op != ValueCode::Op::Binary || n.binary != BinaryOp::Mul) {
      return is_signed_code(i) ? i : -1;
    }
    const int a = signed_code_in(n.a);
    return a >= 0 ? a : signed_code_in(n.b);
  }

  bool is_zero(int i) const {
    return s_.values[i].op == ValueCode::Op::Constant && s_.values[i].constant == 0;
  }

  // A stored integer of a weight, converted.
  bool is_code(int i) const {
    const ValueCode& n = s_.values[i];
    if (n.op != ValueCode::Op::Cast || !is_integer(n.from)) return false;
    const ValueCode& stored = s_.values[n.a];
    return stored.op == ValueCode::Op::Input && is_weight_[static_cast<size_t>(stored.source)];
  }

  // A code of a few bits with a sign, which an offset makes one without.
  bool is_signed_code(int i) const {
    const ElemType from = s_.values[i].from;
    return is_code(i) && info(from).kind == ElemKind::Int && bits_of(from) > 1 && bits_of(from) < 8;
  }

  int64_t all_terms() const {
    int64_t all = 1;
    for (int64_t extent : s_.reduce_extents) all *= extent;
    return all;
  }

  // How many neighbouring terms share the value: those along axes that it does not depend on, and
  // those of one quotient.
  int64_t run(int i) const {
    Dependence d;
    depend_value(i, d);
    int64_t shared = 1;
    bool divided = false;
    for (size_t axis = 0; axis < s_.reduce_extents.size(); ++axis) {
      const size_t slot = rank_ + axis;
      if (slot >= 64) return 1;
      const bool plain = (d.plain >> slot & 1) != 0, quotient = (d.quotients >> slot & 1) != 0;
      if (!plain && !quotient) shared *= s_.reduce_extents[axis];
      divided = divided || (quotient && !plain);
    }
    return std::min(all_terms(), divided ? shared * d.divisor : shared);
  }

  void depend_value(int i, Dependence& d) const {
    const ValueCode& n = s_.values[i];
    switch (n.op) {
      case ValueCode::Op::Constant: return;
      case ValueCode::Op::Input:
      case ValueCode::Op::Stage: return depend_index(n.a, d);
      case ValueCode::Op::Cast:
      case ValueCode::Op::Unary: return depend_value(n.a, d);
      case ValueCode::Op::Binary: depend_value(n.a, d); return depend_value(n.b, d);
      default: d.plain |= n.uses;
    }
  }

  void depend_index(int i, Dependence& d) const {
    const IndexCode& n = s_.indices[i];
    switch (n.op) {
      case IndexCode::Op::Add:
      case IndexCode::Op::Sub:
      case IndexCode::Op::Mul: depend_index(n.a, d); return depend_index(n.b, d);
      case IndexCode::Op::FloorDiv: {
        const IndexCode& by = s_.indices[n.b];
        if (by.uses != 0 || by.op != IndexCode::Op::Linear || by.constant < 2) break;
        d.divisor = d.quotients == 0 ? by.constant : std::min(d.divisor, by.constant);
        d.quotients |= s_.indices[n.a].uses;
        return;
      }
      default: break;
    }
    d.plain |= n.uses;
  }

  StageCode& s_;
  const std::vector<bool>& is_weight_;
  const size_t rank_;
  std::vector<int> factors_;
};

}  // namespace

void mark_apart(StageCode& stage, const std::vector<bool>& is_weight) {
  if (stage.reducer == Reducer::Sum && is_float(stage.type)) Marker(stage, is_weight).mark();
}

}  // namespace tilewright::oracle
