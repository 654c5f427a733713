#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "ir/ops/dim_name.h"
#include "ir/ops/keys.h"
#include "ir/ops/operator.h"
#include "ir/ops/source.h"

namespace tilewright {
namespace {

using Json = nlohmann::json;  // objects keep their keys sorted

Json to_json(const DimSize& d) {
  return d.is_dynamic() ? Json(fmt::format("{}..{}", d.min, d.max)) : Json(d.min);
}

struct JsonValue {
  Json operator()(const DimSize& v) const { return to_json(v); }
  Json operator()(const std::vector<DimSize>& v) const {
    Json list = Json::array();
    for (const DimSize& d : v) list.push_back(to_json(d));
    return list;
  }
  template <class T>
  Json operator()(const T& v) const {
    return v;
  }
};

// Extents and lists of numbers share a C++ type; the key tells which one this is.
Json to_json(const KeyDef& key, const SpecValue& value) {
  const auto* extents = std::get_if<std::vector<int64_t>>(&value);
  if (key.kind == KeyKind::Extents && extents->size() == 1) return (*extents)[0];
  return std::visit(JsonValue(), value);
}

std::string quoted_if_needed(const std::string& text) {
  bool plain = text.find_first_of(", \t\"()[]=") == std::string::npos;
  return plain ? text : "\"" + text + "\"";
}

std::string inline_value(const KeyDef& key, const SpecValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return quoted_if_needed(*text);
  const auto* numbers = std::get_if<std::vector<int64_t>>(&value);
  if (numbers != nullptr && key.kind == KeyKind::Ints) {
    return fmt::format("[{}]", fmt::join(*numbers, ","));
  }
  return to_string(value);
}

// `size`, or the value that `sizes` gives a dynamic dimension of that name.
DimSize fixed(const DimSize& size, const std::string& name,
              const std::map<std::string, int64_t>& sizes) {
  auto found = sizes.find(name);
  if (!size.is_dynamic() || found == sizes.end()) return size;
  return {found->second, found->second};
}

// True when a spec with these keys alone means the same as the whole spec.
bool means_the_same(const Operator& op, const Spec& spec, Spec given) {
  for (const KeyDef& key : op.keys) {
    if (key.fallback) given.params.emplace(key.name, *key.fallback);
  }
  try {
    op.normalize(given);
  } catch (const ops::KeyError&) {
    return false;
  }
  return given.params == spec.params;
}

const Operator& table_row(const Spec& spec) {
  const Operator* op = find_operator(spec.op);
  TW_ASSERT(op != nullptr, "a spec of no operator: " + spec.op);
  return *op;
}

}  // namespace

std::string canonical_text(const Spec& spec) {
  const Operator& op = table_row(spec);
  Json root = {{"op", spec.op}};
  for (const auto& [key, value] : spec.params) {
    if (key == "count") continue;
    Json json = to_json(*op.find_key(key), value);
    size_t dot = key.find('.');
    std::string group = key.substr(0, dot);
    // `w` is a size of convolutions, so the weight's keys stay dotted there.
    bool nests = dot != std::string::npos && !spec.has(group);
    (nests ? root[group][key.substr(dot + 1)] : root[key]) = std::move(json);
  }
  return root.dump();
}

std::string spec_to_inline(const Spec& spec) {
  const Operator& op = table_row(spec);
  std::vector<std::string> required, optional;
  Spec given = spec;
  for (const KeyDef& key : op.keys) {
    for (const auto& [dotted, value] : spec.params) {
      if (op.find_key(dotted) != &key) continue;
      Spec without = given;
      without.params.erase(dotted);
      if (!key.required && means_the_same(op, spec, without)) {
        given = std::move(without);
        continue;
      }
      (key.required ? required : optional).push_back(dotted + "=" + inline_value(key, value));
    }
  }
  required.insert(required.end(), optional.begin(), optional.end());
  return fmt::format("{}:{}", spec.op, fmt::join(required, ","));
}

Workload make_workload(const Spec& spec) {
  const Operator& op = table_row(spec);
  Workload workload = op.build(spec);
  workload.op = spec.op;
  workload.canonical = canonical_text(spec);
  workload.label = spec.name;
  return workload;
}

std::string dim_name(const std::string& key, size_t axis) {
  constexpr std::string_view kIndex = "dims.", kShape = "shapes.";
  if (key.starts_with(kIndex)) return key.substr(kIndex.size());
  if (key.starts_with(kShape)) return fmt::format("{}_{}", key.substr(kShape.size()), axis);
  return key == "shape" ? fmt::format("d{}", axis) : key;
}

Workload at_sizes(const Workload& workload, const std::map<std::string, int64_t>& sizes) {
  Spec spec = parse_spec(workload.canonical);
  for (auto& [key, value] : spec.params) {
    if (auto* size = std::get_if<DimSize>(&value)) {
      *size = fixed(*size, dim_name(key), sizes);
    } else if (auto* shape = std::get_if<std::vector<DimSize>>(&value)) {
      for (size_t d = 0; d < shape->size(); ++d) {
        (*shape)[d] = fixed((*shape)[d], dim_name(key, d), sizes);
      }
    }
  }
  spec.name = workload.label;
  return make_workload(spec);
}

}  // namespace tilewright
