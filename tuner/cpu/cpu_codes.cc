// Costs of decoding vectors of codes of a few bits.
#include <optional>

#include "tuner/cpu/cpu_code.h"

namespace tilewright {

// Vectors of values of codes that a load brings, as codegen/c/c_packed.cc prints them.
void CpuCodeCounter::visit_codes(const LoadNode& n, const Type& to) {
  const ElemType elem = n.type.elem;
  const Type lanes(ElemType::f32, to.lanes);
  auto* r = n.indices.back().as<RampNode>();
  const bool words = r == nullptr || !is_int(r->stride, 1);
  const bool pairs = !words && bits_of(elem) == 4 && target_.has("avx512f");
  arithmetic(&CpuPasses::vector, lanes, pairs ? 2 : 1);  // each code to the low end of its lane
  if (pairs) arithmetic(&CpuPasses::shuffle, lanes);
  if (target_.has("avx512f")) return arithmetic(&CpuPasses::shuffle, lanes);  // a table of values
  if (is_float(elem)) return arithmetic(&CpuPasses::shuffle, lanes, 3);       // two tables
  arithmetic(&CpuPasses::vector, lanes, info(elem).kind == ElemKind::UInt ? 1 : 2);
  arithmetic(&CpuPasses::multiply, lanes);
}

// Vectors of bytes of codes: a shift unless the codes are the lowest of their words, a mask, and the sign. A sum that
// makes signed codes unsigned takes the place of the sign, and one instruction masks, too, where there is one for any
// logic of three operands.
void CpuCodeCounter::visit_byte_codes(const LoadNode& n, const Type& to) {
  auto* r = n.indices.back().as<RampNode>();
  const auto stride = r ? as_int(r->stride) : std::nullopt;
  const bool lowest =
      stride && *stride > 1 && (table_.of(r->base).constant % *stride + *stride) % *stride == 0;
  const bool any_logic = target_.has("avx512f");
  if (stride == 1) arithmetic(&CpuPasses::shuffle, to, 2);
  double count = lowest ? 0 : 1;
  if (info(n.type.elem).kind == ElemKind::UInt) {
    count += 1;
  } else if (info(to.elem).kind == ElemKind::UInt) {
    count += any_logic ? 0 : 1;
  } else {
    count += any_logic ? 2 : 3;
  }
  arithmetic(&CpuPasses::vector, to, count);
}

}  // namespace tilewright
