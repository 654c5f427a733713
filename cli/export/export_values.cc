#include "cli/export/export_values.h"

#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/ceil_div.h"
#include "cli/export/export_kernel.h"
#include "codegen/c/c_types.h"
#include "runtime/tensor/element.h"

namespace tilewright::cli {
namespace {

// The finalizer of splitmix64, as in kMix.
uint64_t mix(uint64_t key, int64_t index) {
  uint64_t z = key + static_cast<uint64_t>(index) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

constexpr const char* kMix = R"(static uint64_t mix(uint64_t key, int64_t index) {
  uint64_t z = key + (uint64_t)index * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}
)";

}  // namespace

std::string export_values_prelude() { return kMix; }

CheckValues::CheckValues(const OperandInfo& info, const std::vector<OperandInfo>& operands)
    : info_(info), key_(XXH3_64bits(info.name.data(), info.name.size())) {
  if (!info.pattern) return;
  for (const OperandInfo& other : operands) {
    if (other.name == info.pattern->format().zero) {
      zero_ = std::make_shared<CheckValues>(other, operands);
    }
  }
}

uint64_t CheckValues::code(int k) const {
  const ElemType elem = info_.elem;
  if (info_.range && is_float(elem)) return encode_element(elem, info_.range->min + k * step());
  if (info_.range) {
    auto count = static_cast<int>(info_.range->max - info_.range->min) + 1;
    return encode_element(elem, info_.range->min + k % count);
  }
  if (is_float(elem) && bits_of(elem) >= 8) return encode_element(elem, (k - 8) / 8.0);
  return static_cast<uint64_t>(k) & ((uint64_t{1} << bits_of(elem)) - 1);
}

double CheckValues::at(int64_t index) const {
  if (info_.pattern) {
    Place place = place_of(index);
    if (!kept(place)) return zero_ ? zero_->at(info_.pattern->scale_index(index)) : 0;
  }
  uint64_t hash = mix(key_, index);
  auto sixteenth = static_cast<int>(hash >> 60);
  if (coded()) return decode_element(info_.elem, code(sixteenth));
  if (info_.range && wide_float()) return info_.range->min + sixteenth * step();
  if (info_.range) {
    auto rows = static_cast<uint64_t>(info_.range->max - info_.range->min) + 1;
    return info_.range->min + static_cast<double>(hash % rows);
  }
  if (wide_float()) return static_cast<double>(hash >> 40) * 0x1p-23 - 1;
  return info(info_.elem).kind == ElemKind::UInt ? sixteenth : sixteenth - 8;
}

// Codes are the elements' bits, whatever the compiler makes of their type.
std::string CheckValues::c_type() const {
  if (!coded()) return storage_type(info_.elem);
  return bits_of(info_.elem) == 16 ? "uint16_t" : "uint8_t";
}

std::string CheckValues::c_value() const {
  if (coded()) return "codes[hash >> 60]";
  if (info_.range && wide_float()) {
    return fmt::format("{:.17g} + (double)(hash >> 60) * {:.17g}", info_.range->min, step());
  }
  if (info_.range) {
    return fmt::format("{} + (int64_t)(hash % {}u)", static_cast<int64_t>(info_.range->min),
                       static_cast<int64_t>(info_.range->max - info_.range->min) + 1);
  }
  if (wide_float()) return "(double)(hash >> 40) * 0x1p-23 - 1";
  return info(info_.elem).kind == ElemKind::UInt ? "hash >> 60" : "(int)(hash >> 60) - 8";
}

int64_t CheckValues::extent(const std::vector<int>& dims) const {
  int64_t product = 1;
  for (int d : dims) product *= info_.shape[static_cast<size_t>(d)];
  return product;
}

CheckValues::Place CheckValues::place_of(int64_t index) const {
  const WeightFormat& f = info_.pattern->format();
  std::vector<int64_t> at(info_.shape.size());
  for (size_t d = at.size(); d-- > 0; index /= info_.shape[d]) at[d] = index % info_.shape[d];
  Place place{0, 0, at[static_cast<size_t>(f.column_dim)]};
  for (int d : f.own_dims) place.own = place.own * info_.shape[d] + at[d];
  for (int d : f.k_dims) place.k = place.k * info_.shape[d] + at[d];
  return place;
}

// Neighbouring rows, wrapped around the end of the group, from one that a hash of its place decides.
bool CheckValues::kept(const Place& p) const {
  const WeightFormat& f = info_.pattern->format();
  int64_t groups = ceil_div(extent(f.k_dims), f.of);
  int64_t blocks = ceil_div(info_.shape[f.column_dim], f.vector);
  int64_t group = (p.own * groups + p.k / f.of) * blocks + p.column / f.vector;
  auto first = static_cast<int64_t>((mix(key_, group) >> 32) % static_cast<uint64_t>(f.of));
  return (p.k + first) % f.of < f.keep;
}

// The same as statements: returns what stands where no row is kept.
std::string CheckValues::c_pattern() const {
  const WeightFormat& f = info_.pattern->format();
  std::string text = "  int64_t rest = i, own = 0, k = 0;\n";
  for (size_t d = info_.shape.size(); d-- > 0;) {
    text += fmt::format("  const int64_t at{0} = rest % {1};\n  rest /= {1};\n", d, info_.shape[d]);
  }
  for (int d : f.own_dims) text += fmt::format("  own = own * {} + at{};\n", info_.shape[d], d);
  for (int d : f.k_dims) text += fmt::format("  k = k * {} + at{};\n", info_.shape[d], d);
  const int64_t k = extent(f.k_dims), columns = info_.shape[f.column_dim];
  std::string nothing = std::to_string(encode_element(info_.elem, 0));
  if (zero_) {
    nothing = fmt::format("value_{}((own * {} + k / {}) * {} + at{})", c_name(f.zero),
                          ceil_div(k, f.group), f.group, columns, f.column_dim);
  }
  return text + fmt::format(
                    "  const int64_t group = (own * {0} + k / {1}) * {2} + at{3} / {4};\n"
                    "  if ((k + (int64_t)((mix({5}u, group) >> 32) % {1})) % {1} >= {6}) return "
                    "({7}){8};\n",
                    ceil_div(k, f.of), f.of, ceil_div(columns, f.vector), f.column_dim, f.vector,
                    key_, f.keep, c_type(), nothing);
}

std::string CheckValues::c_functions() const {
  std::string name = c_name(info_.name), codes;
  for (int k = 0; coded() && k < 16; ++k) codes += fmt::format("{}{}", k ? ", " : "", code(k));
  if (coded()) codes = fmt::format("  static const {} codes[16] = {{{}}};\n", c_type(), codes);
  std::string text = fmt::format(
      "static {0} value_{1}(int64_t i) {{\n{2}{3}  const uint64_t hash = mix({4}u, i);\n"
      "  return ({0})({5});\n}}\n",
      c_type(), name, codes, info_.pattern ? c_pattern() : "", key_, c_value());
  const int bits = bits_of(info_.elem);
  std::string store = fmt::format("((({}*)data)[i] = value_{}(i))", c_type(), name);
  if (bits < 8) {  // the first element in the lowest bits
    store = fmt::format(
        "(((uint8_t*)data)[i * {0} / 8] |= (uint8_t)((value_{1}(i) & {2}) << (i * {0} % 8)))", bits,
        name, (1 << bits) - 1);
  }
  return text + fmt::format(
                    "static void fill_{}(void* data, int64_t count) {{\n{}"
                    "  for (int64_t i = 0; i < count; ++i) {};\n}}\n",
                    name,
                    bits < 8 ? fmt::format("  memset(data, 0, (count * {} + 7) / 8);\n", bits) : "",
                    store);
}

}  // namespace tilewright::cli
