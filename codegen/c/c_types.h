// C types of the generated code, and the prelude of helpers that a kernel uses.
#pragma once

#include <set>
#include <string>

#include "ir/type.h"
#include "kernel/target.h"

namespace tilewright {

struct Intrinsic;

// The type that a value of `elem` is computed in: f32 for narrow floats, i32 for integers that
// share a byte. Both are rounded after each operation.
ElemType compute_elem(ElemType elem);
// Whether values of the type are computed in another one.
inline bool narrow(ElemType elem) { return compute_elem(elem) != elem; }
// The C type of a stored element: "float", "int8_t", …; uint8_t where several share a byte.
std::string storage_type(ElemType elem);

// Collects the types and helpers that a kernel uses, and writes only their declarations.
class Prelude {
 public:
  explicit Prelude(const Target& target) : target_(target) {}

  // "float" or "tw_f32x16": the C type of a value. Lanes of booleans are 32-bit masks.
  std::string value_type(Type type);
  // An unaligned, aliasing vector type of stored elements.
  std::string memory_type(ElemType elem, int lanes);
  // The name of a helper; its text is written in front of the kernel.
  std::string helper(const std::string& op, Type type);
  // The name of the function that computes CallOp::Dot on operands of these types by the target's
  // intrinsic. It takes a and b by address, or by value as vectors of stored elements. It takes a
  // by value only where each lane has its own terms of k in it.
  std::string dot(Type acc, Type a, Type b, bool a_by_value, bool b_by_value);
  // The name of the function that reduces the lanes of `count` vectors (CallOp::LaneSum, LaneMax).
  std::string reduce_lanes(bool is_sum, Type vector, int count);
  // The instruction that computes CallOp::Dot on tile registers (Intrinsic::tile_operation); the
  // section's macros load, store and multiply them.
  std::string tile_operation(Type acc, Type a, Type b);
  // Marks sections that were taken as needed after all.
  void need_sections(const std::set<std::pair<std::string, std::string>>& sections);
  // The sections that must stand around the intrinsics used since the last call.
  std::set<std::pair<std::string, std::string>> take_sections();
  // Features that the used code needs beyond those of the target.
  const std::set<std::string>& extensions() const { return extensions_; }
  // Whether code may use a feature; an extension is then recorded as used.
  bool may_use(const std::string& feature);
  // The text of what is used. Lane-wise comparison, select, extrema, rounding and elementary
  // functions are helpers: tw_<op>_<type>. See c_prelude.cc for their text, c_narrow.cc for that of
  // conversions.
  std::string text() const;
  // True on the first request for a part that several helpers share.
  bool first_use(const std::string& part) { return have_.insert(part).second; }
  const Target& target() const { return target_; }

 private:
  void need(Type type);
  const Intrinsic& use_dot(Type acc, Type a, Type b);

  const Target& target_;
  std::set<std::pair<int, int>> vectors_;         // (elem, lanes) of value types
  std::set<std::pair<int, int>> memory_vectors_;  // (elem, lanes) of memory types
  std::string helpers_;
  std::set<std::string> extensions_;
  std::set<std::pair<std::string, std::string>> sections_;
  std::set<std::string> have_;
};

}  // namespace tilewright
