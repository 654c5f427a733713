#include "codegen/intrinsics/intrinsics.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "base/error.h"
#include "codegen/intrinsics/intrinsic_rows.h"

namespace tilewright {
namespace {

std::vector<Intrinsic> make_table() {
  std::vector<Intrinsic> table;
  for (std::vector<Intrinsic> rows : {x86_rows(), amx_rows(), aarch64_rows()}) {
    std::move(rows.begin(), rows.end(), std::back_inserter(table));
  }
  return table;
}

}  // namespace

const TensorSemantics& Intrinsic::semantics() const {
  static const std::map<std::string_view, TensorSemantics> parsed = [] {
    std::map<std::string_view, TensorSemantics> map;
    for (const Intrinsic& row : intrinsics()) {
      bool added = map.emplace(row.name, TensorSemantics::parse(std::string(row.computes))).second;
      TW_ASSERT(added, "two intrinsics of one name: " + std::string(row.name));
    }
    return map;
  }();
  return parsed.at(name);
}

bool Intrinsic::takes_each() const {
  const std::vector<Buffer> operands = semantics().operands();
  return semantics().extents.size() == 2 && operands.size() == 3 && operands[1]->rank() == 2;
}

const std::vector<Intrinsic>& intrinsics() {
  static const std::vector<Intrinsic> table = make_table();
  return table;
}

const Intrinsic* find_intrinsic(std::string_view name) {
  for (const Intrinsic& row : intrinsics()) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

std::vector<const Intrinsic*> intrinsics_of(const Target& target) {
  std::vector<const Intrinsic*> list;
  for (const Intrinsic& row : intrinsics()) {
    bool has_all = std::all_of(row.features.begin(), row.features.end(), [&](const auto& f) {
      return target.has(f) || target.extensions.count(f) != 0;
    });
    if (has_all) list.push_back(&row);
  }
  return list;
}

bool Intrinsic::takes_second(ElemType elem) const {
  if (most_of_b == 0) return true;
  const int bits = bits_of(elem);
  bool is_unsigned = info(elem).kind == ElemKind::UInt;
  return bits < 32 && (int64_t{1} << (is_unsigned ? bits : bits - 1)) - is_unsigned <= most_of_b;
}

const Intrinsic* find_dot(const Target& target, Type acc, Type a, Type b) {
  for (const Intrinsic* row : intrinsics_of(target)) {
    std::vector<Type> types;
    for (const Buffer& operand : row->semantics().operands()) {
      types.emplace_back(operand->elem, static_cast<int>(*num_elements(operand)));
    }
    if (types == std::vector<Type>{acc, a, b}) return row;
  }
  return nullptr;
}

}  // namespace tilewright
