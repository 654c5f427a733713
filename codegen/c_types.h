// C types of the generated code, and the prelude of helpers that a kernel uses.
#pragma once

#include <set>
#include <string>

#include "codegen/target.h"
#include "ir/type.h"

namespace tilewright {

// The type that a value of `elem` is computed in: narrow floats are computed as f32, and integers of
// which several share a byte as i32; both are rounded after each operation.
ElemType compute_elem(ElemType elem);
// "float", "int8_t", …: how an element is stored; uint8_t where several share a byte.
std::string storage_type(ElemType elem);

// Collects what the kernel uses, and writes the declarations for just that.
class Prelude {
 public:
  explicit Prelude(const Target& target) : target_(target) {}

  // "float" or "tw_f32x16": the C type of a value. Lanes of booleans are 32-bit masks.
  std::string value_type(Type type);
  // An unaligned, aliasing vector type of stored elements.
  std::string memory_type(ElemType elem, int lanes);
  // The name of a helper; its text is written in front of the kernel.
  std::string helper(const std::string& op, Type type);
  // The name of the function that is CallOp::Dot on operands of these types, by the target's
  // intrinsic for it. It takes the addresses of a and b, or them as vectors of stored elements (a
  // where each lane has its own terms in it).
  std::string dot(Type acc, Type a, Type b, bool a_by_value, bool b_by_value);
  // Says of taken sections that they are needed after all.
  void need_sections(const std::set<std::pair<std::string, std::string>>& sections);
  // What must stand around the intrinsics that were used since it was asked last.
  std::set<std::pair<std::string, std::string>> take_sections();
  // What the code that is used needs beyond the target's own features.
  const std::set<std::string>& extensions() const { return extensions_; }
  // Whether code may use a feature; one that is an extension is counted among those used then.
  bool may_use(const std::string& feature);
  // Lane-wise comparison, select, extrema, rounding and elementary functions are helpers:
  // tw_<op>_<type>. See c_prelude.cc for their text, c_narrow.cc for that of conversions.
  std::string text() const;
  // True the first time that it is asked for a part that several helpers share.
  bool first_use(const std::string& part) { return have_.insert(part).second; }
  const Target& target() const { return target_; }

 private:
  void need(Type type);

  const Target& target_;
  std::set<std::pair<int, int>> vectors_;         // (elem, lanes) of value types
  std::set<std::pair<int, int>> memory_vectors_;  // of memory types
  std::string helpers_;
  std::set<std::string> extensions_;
  std::set<std::pair<std::string, std::string>> sections_;
  std::set<std::string> have_;
};

}  // namespace tilewright
