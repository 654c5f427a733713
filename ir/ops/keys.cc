#include "ir/ops/keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "ir/bits.h"

namespace tilewright::ops {
namespace {

// Made on first use: a library that holds this file does nothing when it is loaded.
const std::vector<std::string>& float_names() {
  static const std::vector<std::string> names = {"f64", "f32", "f16", "bf16"};
  return names;
}

ElemType elem_of(const Spec& spec, const std::string& key) {
  return *parse_elem_type(spec.get<std::string>(key));
}

// The explicit value of a `w` key, or nothing.
const std::string* text_of(const Spec& spec, const std::string& key) {
  return spec.has(key) ? &spec.get<std::string>(key) : nullptr;
}

void default_to(Spec& spec, const std::string& key, SpecValue value) {
  spec.params.emplace(key, std::move(value));
}

// Drops `w.offset` when there is none. Throws KeyError for an offset of a weight that has none: it
// is added to scaled integers.
void normalize_offset(Spec& spec, ElemType type) {
  const std::string* offset = text_of(spec, "w.offset");
  if (!offset) return;
  if (*offset == "none") {
    spec.params.erase("w.offset");
    return;
  }
  if (!is_integer(type)) {
    throw KeyError("w.offset",
                   fmt::format("{} codes have no offset; expected none", to_string(type)));
  }
  if (spec.get<std::string>("w.scale") == "none") {
    throw KeyError("w.offset", "is added to scaled codes; give w.scale, such as w.scale=f32");
  }
  if (spec.get<std::string>("w.zero") != "none") {
    throw KeyError("w.offset", "takes the place of a zero point; leave out w.zero");
  }
}

// True when `type` represents the value of every code of `codes`.
bool holds_every_code(ElemType type, ElemType codes) {
  for (uint64_t code = 0; code < uint64_t{1} << bits_of(codes); ++code) {
    const double value = from_bits(codes, code);
    if (std::isfinite(value) && round_to(type, value) != value) return false;
  }
  return true;
}

// Drops `w.values` when it changes no value: the type that it rounds to holds every code's value.
void normalize_values(Spec& spec, ElemType type) {
  const std::string* values = text_of(spec, "w.values");
  if (!values) return;
  const bool rounds = *values != "none" && !holds_every_code(elem_of(spec, "w.values"), type);
  if (!rounds) spec.params.erase("w.values");
}

// An integer product stays exact, so it takes no fractions: throws for floats, scales and f16 zero
// points.
void check_integer_product(const Spec& spec, ElemType type) {
  const std::string acc = spec.get<std::string>("acc");
  if (is_float(elem_of(spec, "acc"))) return;
  auto refuse = [&](const char* key, const std::string& what) {
    throw KeyError(key, fmt::format("{} cannot accumulate in {}; give acc=f32", what, acc));
  };
  if (!is_integer(type)) refuse("w.dtype", to_string(type) + " weights");
  if (spec.get<std::string>("w.scale") != "none") refuse("w.scale", "scaled weights");
  if (spec.get<std::string>("w.zero") == "f16") refuse("w.zero", "f16 zero points");
  if (spec.has("w.offset") && spec.get<std::string>("w.offset") != "none") {
    refuse("w.offset", "offsets");
  }
}

// Fills in and checks the group, scale and zero point of a low-bit weight. Throws where these are
// given without `w.dtype`.
void normalize_quantization(Spec& spec) {
  if (!spec.has("w.dtype")) {
    for (const char* key : {"w.values", "w.group", "w.scale", "w.zero", "w.offset"}) {
      if (spec.has(key)) {
        throw KeyError(key, "belongs to a low-bit weight; give w.dtype, such as w.dtype=i4");
      }
    }
    return;
  }
  const ElemType type = elem_of(spec, "w.dtype");
  const bool floats = is_float(elem_of(spec, "acc"));
  const bool grouped = spec.has("w.group");
  default_to(spec, "w.group", int64_t{-1});
  default_to(spec, "w.scale", std::string(floats ? "f32" : "none"));
  default_to(spec, "w.zero", std::string("none"));
  if (spec.get<int64_t>("w.group") == 0) {
    throw KeyError("w.group",
                   "expected a number of elements, or -1 for one group per column, got 0");
  }
  normalize_values(spec, type);
  check_zero(spec, "w.zero", type);
  check_integer_product(spec, type);
  normalize_offset(spec, type);
  bool shared =
      spec.get<std::string>("w.scale") != "none" || spec.get<std::string>("w.zero") != "none";
  if (grouped && !shared && spec.get<int64_t>("w.group") != -1) {
    throw KeyError("w.group", floats ? "there are neither scales nor zero points to share"
                                     : "there are neither scales nor zero points to share; scales "
                                       "need a float accumulator: acc=f32,w.scale=f32");
  }
}

}  // namespace

ElemType elem_under(const Spec& spec, const char* key) {
  return *parse_elem_type(spec.get<std::string>(key));
}

void check_zero(const Spec& spec, const std::string& key, ElemType type) {
  const std::string& zero = spec.get<std::string>(key);
  if (zero == "none") return;
  if (!is_integer(type)) {
    throw KeyError(key, fmt::format("{} codes have no zero point; expected none", to_string(type)));
  }
  if (zero != "f16" && bits_of(*parse_elem_type(zero)) < bits_of(type)) {
    throw KeyError(key, fmt::format("{} cannot hold every value of {}", zero, to_string(type)));
  }
}

KeyDef size_key(std::string name, std::string doc) {
  return {.name = std::move(name), .kind = KeyKind::Size, .doc = std::move(doc), .required = true};
}

KeyDef count_key(std::string name, std::string doc, int64_t fallback, int64_t min) {
  return {.name = std::move(name),
          .kind = KeyKind::Count,
          .doc = std::move(doc),
          .fallback = fallback,
          .min = min};
}

KeyDef extents_key(std::string name, std::string doc, int64_t fallback, int64_t min) {
  return {.name = std::move(name),
          .kind = KeyKind::Extents,
          .doc = std::move(doc),
          .fallback = std::vector<int64_t>{fallback},
          .min = min};
}

KeyDef flag_key(std::string name, std::string doc) {
  return {.name = std::move(name), .kind = KeyKind::Flag, .doc = std::move(doc), .fallback = false};
}

KeyDef optional_key(std::string name, KeyKind kind, std::string doc) {
  return {.name = std::move(name), .kind = kind, .doc = std::move(doc)};
}

KeyDef derived_count(std::string name, std::string doc, int64_t min) {
  KeyDef key = optional_key(std::move(name), KeyKind::Count, std::move(doc));
  key.min = min;
  return key;
}

KeyDef choice_key(std::string name, std::string doc, std::vector<std::string> choices,
                  std::string fallback) {
  return {.name = std::move(name),
          .kind = KeyKind::Choice,
          .doc = std::move(doc),
          .fallback = std::move(fallback),
          .choices = std::move(choices)};
}

const std::vector<std::string>& operand_types(bool floats_only) {
  static const std::vector<std::string> kAll = {"f64",    "f32", "f16", "bf16", "f8e4m3",
                                                "f8e5m2", "i8",  "i16", "i32",  "i64",
                                                "u8",     "u16", "u32", "u64"};
  return floats_only ? float_names() : kAll;
}

KeyDef dtype_key(bool floats_only) {
  return choice_key("dtype", "element type of the inputs", operand_types(floats_only), "f32");
}

std::vector<KeyDef> type_keys(bool floats_only) {
  std::vector<std::string> accumulators = float_names();
  if (!floats_only) accumulators.insert(accumulators.end(), {"i32", "i64"});
  return {dtype_key(floats_only),
          {.name = "acc",
           .kind = KeyKind::Choice,
           .doc = "type that results accumulate in (f32 for floats, f64 for f64, i32 for integers)",
           .choices = accumulators},
          {.name = "out",
           .kind = KeyKind::Choice,
           .doc = "element type of the output (dtype for floats, acc for integers)",
           .choices = operand_types(floats_only)}};
}

KeyDef epilogue_key() {
  return {.name = "epilogue",
          .kind = KeyKind::Names,
          .doc = "epilogue, in order: bias adds bias[channel], add adds the tensor D",
          .fallback = std::vector<std::string>{},
          .choices = {"bias", "relu", "gelu", "silu", "add"}};
}

std::vector<KeyDef> weight_keys() {
  auto choice = [](std::string name, std::string doc, std::vector<std::string> choices) {
    return KeyDef{.name = std::move(name),
                  .kind = KeyKind::Choice,
                  .doc = std::move(doc),
                  .choices = std::move(choices)};
  };
  KeyDef group{.name = "w.group",
               .kind = KeyKind::Count,
               .doc = "elements along k that share a scale; -1: one group per column (-1)",
               .min = -1};
  KeyDef sparse{.name = "w.sparse",
                .kind = KeyKind::Sparsity,
                .doc = "N:M along k: N of each M elements are kept (none)"};
  KeyDef vector{.name = "w.vector",
                .kind = KeyKind::Count,
                .doc = "columns that share one N:M pattern (1)",
                .min = 1,
                .max = 1024};
  return {
      choice("w.dtype", "stored type of the constant operand (dtype, unscaled)",
             {"i8", "u8", "i4", "u4", "i2", "u2", "i1", "u1", "f8e4m3", "f8e5m2", "nf4", "f4e2m1"}),
      choice("w.values",
             "type to which dequantized codes are rounded before scaling (none: not rounded)",
             {"none", "f16", "bf16"}),
      group,
      choice("w.scale", "type of the scales (f32; none where integers accumulate)",
             {"f32", "f16", "bf16", "e8m0", "f8e4m3", "none"}),
      choice("w.zero", "zero points: none, stored like the weight, or f16 (none)",
             {"none", "u8", "u4", "u2", "u1", "f16"}),
      choice("w.offset", "type of the offsets, which are added to scaled codes (none)",
             {"none", "f32", "f16", "bf16"}),
      sparse,
      vector};
}

std::vector<KeyDef> join(std::vector<std::vector<KeyDef>> lists) {
  std::vector<KeyDef> all;
  for (auto& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

namespace {

// True when the spec explicitly asks for scales and for a float output; the weight's default scale
// does not count.
bool scales_to_float(const Spec& spec) {
  bool scaled = spec.has("w.scale") && spec.get<std::string>("w.scale") != "none";
  return scaled && spec.has("out") && is_float(elem_of(spec, "out"));
}

}  // namespace

void normalize_types(Spec& spec) {
  ElemType dtype = elem_of(spec, "dtype");
  std::string acc = !is_float(dtype) ? "i32" : dtype == ElemType::f64 ? "f64" : "f32";
  if (dtype == ElemType::i64 || dtype == ElemType::u64) acc = "i64";
  if (acc == "i32" && scales_to_float(spec)) acc = "f32";
  default_to(spec, "acc", acc);
  default_to(spec, "out", is_float(dtype) ? to_string(dtype) : spec.get<std::string>("acc"));
  if (is_float(dtype) && !is_float(elem_of(spec, "acc"))) {
    throw KeyError("acc", fmt::format("{} inputs cannot accumulate in {}", to_string(dtype),
                                      spec.get<std::string>("acc")));
  }
}

void normalize_epilogue(Spec& spec) {
  bool floats = is_float(elem_of(spec, "acc")) || is_float(elem_of(spec, "out"));
  std::set<std::string> seen;
  for (const std::string& step : spec.get<std::vector<std::string>>("epilogue")) {
    if (!seen.insert(step).second) {
      throw KeyError("epilogue", fmt::format("'{}' is given twice", step));
    }
    if (!floats && (step == "gelu" || step == "silu")) {
      throw KeyError("epilogue", fmt::format("'{}' needs a float accumulator or output", step));
    }
  }
}

void normalize_weight(Spec& spec) {
  normalize_quantization(spec);
  const std::string* sparse = text_of(spec, "w.sparse");
  bool is_sparse = sparse != nullptr && *sparse != "none";
  if (!is_sparse && spec.has("w.vector") && spec.get<int64_t>("w.vector") != 1) {
    throw KeyError("w.vector", "belongs to a sparse weight; give w.sparse, such as w.sparse=2:4");
  }
  if (!is_sparse && !spec.has("w.dtype")) {
    spec.params.erase("w.sparse");
    spec.params.erase("w.vector");
    return;
  }
  default_to(spec, "w.sparse", std::string("none"));
  default_to(spec, "w.vector", int64_t{1});
  if (is_sparse && spec.has("w.dtype") && elem_of(spec, "w.dtype") == ElemType::i1) {
    throw KeyError("w.sparse", "the codes of i1 stand for -1 and 1: none is zero");
  }
  if (is_sparse && spec.has("w.dtype") && spec.get<std::string>("w.zero") == "f16") {
    throw KeyError("w.zero",
                   "an element that is left out equals its zero point, so a sparse weight has zero "
                   "points that are stored like it; expected none or u4-like");
  }
  if (is_sparse && spec.has("w.offset")) {
    throw KeyError("w.offset",
                   "an element that is left out is 0, so a sparse weight has no offset");
  }
}

bool has_weight_format(const Spec& spec) { return spec.has("w.sparse"); }

}  // namespace tilewright::ops
