#include "tuner/rules/gpu/product/gpu_gemv_words.h"

#include <algorithm>

#include "kernel/prelude/cuda_prelude.h"
#include "schedule/primitives/weight/unscale.h"
#include "tuner/rules/analysis.h"
#include "tuner/rules/gpu/gpu.h"
#include "tuner/rules/gpu/gpu_packable.h"
#include "tuner/rules/gpu/gpu_packed_layout.h"

namespace tilewright {
namespace {

bool is_byte(ElemType elem) { return elem == ElemType::i8 || elem == ElemType::u8; }

struct Elements {
  ElemType made, worth;  // types of unpacked codes; codes minus zero points
};

// The register types that hold every code minus every zero point exactly. Beside bytes: bytes.
// Otherwise f16, unpacked two at a time, or f32, in which fractional zero points are subtracted
// from f16 codes. f16 codes also become dequantized values in f32 where there are offsets.
std::optional<Elements> elements_for(ElemType codes, std::optional<ElemType> zeros, ElemType few,
                                     ElemType sums, bool scaled, bool with_offset) {
  auto holds = [&](ElemType to, std::optional<ElemType> less) {
    return holds_differences(codes, less, to) && (codes == to || has_code_registers(codes, to));
  };
  if (with_offset) {
    const bool fits = sums == ElemType::f32 && holds(ElemType::f16, {});
    return fits ? std::optional(Elements{ElemType::f16, ElemType::f32}) : std::nullopt;
  }
  const bool in_integers = is_byte(few) && (scaled || sums == ElemType::i32);
  if (in_integers && holds(ElemType::i8, zeros)) return Elements{ElemType::i8, ElemType::i8};
  if (sums != ElemType::f32) return std::nullopt;
  if (holds(ElemType::f16, zeros)) return Elements{ElemType::f16, ElemType::f16};
  const bool fractions = zeros && is_float(*zeros);
  if (fractions && holds(ElemType::f16, {})) return Elements{ElemType::f16, ElemType::f32};
  const bool by_table = codes == ElemType::nf4 && !zeros;
  return by_table ? std::optional(Elements{ElemType::f32, ElemType::f32}) : std::nullopt;
}

}  // namespace

std::optional<GemvWeight> gemv_weight(RuleContext& c, const Block& block, const GpuRoles& roles) {
  const std::optional<WeightFormat>& format = c.input.workload.weight;
  std::optional<Block> value = weight_value_of(c.s, block, c.input.workload);
  if (!value || format->k_dims.size() != 1) return std::nullopt;
  const BlockNode& n = c.s.node(block);
  const bool fits = c.s.output(*value)->name == roles.b && c.s.consumers(*value).size() == 1 &&
                    plain_iterator(n, indices_of(n, roles.a).back()) == roles.k;
  auto codes = gpu_param_elem(c.s, format->weight);
  if (!fits || !codes) return std::nullopt;
  const bool scaled = !format->scale.empty(), with_offset = !format->offset.empty();
  auto elements = elements_for(*codes, gpu_param_elem(c.s, format->zero), read_elem(n, roles.a),
                               store_of(n).buffer->elem, scaled, with_offset);
  if (!elements) return std::nullopt;
  const int64_t k = *as_int(n.iters[static_cast<size_t>(roles.k)].extent);
  const bool shared = scaled || !format->zero.empty();
  GemvWeight w{*value, *codes, elements->made, elements->worth};
  w.scaled = scaled && !with_offset;
  w.in_place = with_offset;
  w.group = shared && format->group < k ? format->group : 0;
  w.format = *format;
  return w;
}

GemvWords::GemvWords(RuleContext& c, const Block& block, GpuRoles roles, GemvWeight weight,
                     const Turn& turn)
    : c_(c), roles_(std::move(roles)), w_(std::move(weight)), vector_(turn.vector) {
  padded_ = *as_int(c_.s.node(block).iters[static_cast<size_t>(roles_.k)].extent) % turn.terms != 0;
  gpu_stage_operands(c_, block, roles_, turn.few, 1, turn.terms, Scope::Register);
  c_.s.set_scope(roles_.a, Scope::Register);
  pack();
}

Block GemvWords::few() const { return gpu_writer(c_.s, roles_.a); }

void GemvWords::pack() {
  c_.s.compute_inline(w_.value);
  elements_ = gpu_writer(c_.s, roles_.b);
  if (!w_.in_place) c_.s.unscale(elements_, w_.elements);
  const int rank = find_param(c_.s, w_.format.weight)->buffer->rank();
  c_.s.prepack(w_.format.weight, word_map(w_.codes, w_.made, vector_, rank, w_.format.column_dim,
                                          w_.format.k_dims[0]));
  auto packed = [&](const std::string& name) {
    if (name.empty()) return name;
    const auto last = static_cast<size_t>(rank) - 1;
    c_.s.prepack(name, moved_index(last + 1, last, last - 1));
    return name + "_packed";
  };
  scale_ = packed(w_.format.scale);
  zero_ = packed(w_.format.zero);
  offset_ = packed(w_.format.offset);
  for (const std::string& name : inputs_of(c_.s.node(elements_))) {
    if (name == scale_ || name == zero_ || name == offset_) continue;
    if (w_.made != w_.elements && w_.made == ElemType::f16) make_codes(name, rank + 1);
    codes_ = c_.s.cache_read(made_.value_or(elements_), name, Scope::Register);
  }
}

// The codes alone as elements, in the order of k.
void GemvWords::make_codes(const std::string& packed, int rank) {
  made_ = c_.s.widen_operand(packed, w_.made, 0);
  const std::string made = c_.s.output(*made_)->name;
  c_.s.set_scope(made, Scope::Register);
  c_.s.transform_layout(made, word_order_map(w_.codes, w_.made, vector_, rank));
}

std::vector<Loop> GemvWords::behind(const Block& block, const Loop& loop) const {
  std::vector<Loop> loops = c_.s.loops(block);
  return {std::next(std::find(loops.begin(), loops.end(), loop)), loops.end()};
}

void GemvWords::place(const Block& sums, const Loops& loops) {
  c_.s.compute_at(elements_, loops.columns);
  if (made_) {
    for (const Loop& l : behind(elements_, loops.columns)) c_.s.unroll(l);
    c_.s.compute_at(*made_, loops.columns);
  }
  c_.s.compute_at(codes_, loops.turns);
  gpu_copy_in_vectors(c_, behind(codes_, loops.turns), vector_);
  for (const std::string& name : {w_.in_place ? scale_ : "", zero_, offset_}) {
    if (!name.empty()) copy_shared_by_group(elements_, name, loops.columns);
  }
  unpack(loops.columns);
  if (w_.scaled) scale(sums, loops);
}

// Reads a group's value once for all elements of a column that a thread makes. With padding the
// read stays under its bounds condition.
void GemvWords::copy_shared_by_group(const Block& reader, const std::string& buffer,
                                     const Loop& columns) {
  if (padded_) return;
  Block copy = c_.s.cache_read(reader, buffer, Scope::Register);
  c_.s.compute_at(copy, columns);
}

// Unpacks the codes of a packed 32-bit register into the registers that they make.
void GemvWords::unpack(const Loop& columns) {
  std::vector<Loop> own = behind(made_.value_or(elements_), columns);
  // One column and one matrix at a time: the only loop of more than one iteration is over k.
  auto runs = [&](const Loop& l) { return as_int(c_.s.node(l).extent) == vector_; };
  const auto at = std::find_if(own.begin(), own.end(), runs);
  const Loop along_k = *at;
  own.erase(at);
  const int64_t packed = 32 / bits_of(w_.made), in_word = w_.in_word();
  std::vector<Loop> k;
  if (made_) {  // positions in packed registers, split in the other order
    k = c_.s.split(along_k, {vector_ / in_word, packed, in_word / packed});
    std::swap(k[1], k[2]);
  } else {
    k = c_.s.split(along_k, {vector_ / in_word, in_word / packed, packed});
  }
  own.insert(own.end(), k.begin(), k.end());
  c_.s.reorder(own);
  c_.s.unroll(k[0]);
  c_.s.unroll(k[1]);
  if (packed > 1) c_.s.vectorize(k[2]);
}

void GemvWords::scale(const Block& sums, const Loops& loops) {
  const bool whole = w_.group == 0;
  std::vector<Block> made = c_.s.factor_scale(sums, whole ? loops.turns : loops.terms,
                                              w_.dots() ? ElemType::i32 : ElemType::f32);
  c_.s.set_scope(c_.s.output(made[0])->name, Scope::Register);
  if (!whole) return copy_shared_by_group(sums, scale_, loops.columns);
  for (const Block& b : {made[1], sums}) {
    for (const Loop& l : behind(b, loops.thread)) c_.s.unroll(l);
  }
}

}  // namespace tilewright
