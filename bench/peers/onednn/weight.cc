// Weights of a few bits, which oneDNN widens while it multiplies ("weights decompression" in its
// developer guide: integers with scales and zero points of groups along k, from version 3.5 on).
#include <functional>
#include <numeric>

#include "bench/peers/onednn/primitives.h"

namespace tilewright::peers {

bool stores_weight(const PeerSpec& spec) { return spec.has("w.dtype"); }

#if DNNL_VERSION_MAJOR > 3 || DNNL_VERSION_MINOR >= 5

namespace {

Type stored_type(const std::string& name) {
  if (name == "u4") return Type::u4;
  if (name == "i4") return Type::s4;
  if (name == "u8" || name == "i8") return type_named(name);
  throw Unsupported("no weight stored as " + name);
}

}  // namespace

std::vector<WeightForm> weight_forms(const PeerSpec& spec) {
  using Tag = dnnl::memory::format_tag;
  std::vector<WeightForm> forms;
  std::vector<std::string> scales = {spec.text("w.scale", "f32")};
  if (scales[0] == "f16" || scales[0] == "bf16") scales.emplace_back("f32");
  for (const std::string& scale : scales) {
    for (Tag layout : {Tag::any, Tag::ab, Tag::ba}) forms.push_back({layout, scale});
  }
  return forms;
}

StoredWeight stored_weight(const PeerSpec& spec, const WeightForm& form,
                           dnnl::primitive_attr& attributes) {
  const Type type = stored_type(spec.text("w.dtype", ""));
  const std::string scale = spec.text("w.scale", "f32"), zero = spec.text("w.zero", "none");
  if (spec.text("w.sparse", "none") != "none") throw Unsupported("no sparse weight");
  if (spec.size("batch", 1) != 1 || spec.flag("trans_b"))
    throw Unsupported("no stored weight in a batch or transposed");
  if (spec.text("w.offset", "none") != "none") throw Unsupported("no offsets");
  if (scale == "none" || zero == "f16") throw Unsupported("no such scales or zero points");
  const int64_t k = spec.size("k"), n = spec.size("n");
  int64_t group = spec.size("w.group", -1);
  if (group < 0) group = k;
  if (k % group != 0) throw Unsupported("no group that does not divide k");
  constexpr int kRows = 1 << 0, kColumns = 1 << 1;
  const Dims groups = {group, 1}, per_group = {k / group, n};
  StoredWeight weight{type, {}, type == Type::u4 || type == Type::s4};
  auto add = [&](int argument, const char* name, Type given, Type wanted) {
    weight.parameters.push_back(
        {argument | DNNL_ARG_WEIGHTS, name, dense(per_group, given), dense(per_group, wanted)});
  };
  const Type scale_type = type_named(form.scale);
  attributes.set_scales(DNNL_ARG_WEIGHTS, kRows | kColumns, groups, scale_type);
  add(DNNL_ARG_ATTR_SCALES, "B.scale", type_named(scale), scale_type);
  if (zero != "none") {
    const Type zero_type = stored_type(zero);
    attributes.set_zero_points(DNNL_ARG_WEIGHTS, kRows | kColumns, groups, zero_type);
    add(DNNL_ARG_ATTR_ZERO_POINTS, "B.zero", zero_type, zero_type);
  }
  const bool floats = spec.text("dtype", "f32") == "bf16";
  attributes.set_fpmath_mode(floats ? dnnl::fpmath_mode::bf16 : dnnl::fpmath_mode::strict, true);
  return weight;
}

void PrimitiveProblem::add_nibbles(int argument, Type type, const dnnl::memory::desc& wanted,
                                   const Operands& operands, const std::string& name) {
  const auto dims = wanted.get_dims();
  const int64_t count = std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
  const auto* stored = static_cast<const unsigned char*>(operands.get(name, (count + 1) / 2));
  dnnl::memory values(dense(dims, Type::f32), cpu_engine());
  auto* out = static_cast<float*>(values.get_data_handle());
  for (int64_t i = 0; i < count; ++i) {
    const int code = stored[i / 2] >> (i % 2 * 4) & 15;
    out[i] = static_cast<float>(type == Type::s4 && code > 7 ? code - 16 : code);
  }
  dnnl::memory packed(wanted, cpu_engine());
  dnnl::reorder(values, packed).execute(stream_, values, packed);
  stream_.wait();
  arguments_[argument] = packed;
}

#else

void PrimitiveProblem::add_nibbles(int, Type, const dnnl::memory::desc&, const Operands&,
                                   const std::string& name) {
  throw Unsupported("no elements of 4 bits in operand " + name);
}

std::vector<WeightForm> weight_forms(const PeerSpec&) { return {{}}; }

StoredWeight stored_weight(const PeerSpec& spec, const WeightForm&, dnnl::primitive_attr&) {
  spec.require_plain_weight();
  return {};
}

#endif

}  // namespace tilewright::peers
