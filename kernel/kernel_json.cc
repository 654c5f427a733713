#include "kernel/kernel_json.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace tilewright::kernel_json {

using nlohmann::json;

namespace {

constexpr std::array kRoles = {ParamRole::Input, ParamRole::Weight, ParamRole::Output};

ParamRole parse_role(const std::string& name, const std::string& where) {
  std::string known;
  for (ParamRole role : kRoles) {
    if (name_of(role) == name) return role;
    known += (known.empty() ? "" : ", ") + std::string(name_of(role));
  }
  fail(where, "unknown role '" + name + "'; known: " + known);
}

}  // namespace

[[noreturn]] void fail(const std::string& where, const std::string& what) {
  throw Error("kernel description: " + where + ": " + what);
}

const json& member(const json& object, const std::string& where, const char* key) {
  if (!object.is_object())
    fail(where, "expected an object, got " + std::string(object.type_name()));
  auto found = object.find(key);
  if (found == object.end()) fail(where, std::string("missing key '") + key + "'");
  return *found;
}

template <class T>
T field(const json& object, const std::string& where, const char* key) {
  const json& found = member(object, where, key);
  try {
    return found.get<T>();
  } catch (const json::exception&) {
    fail(where, std::string("key '") + key + "' has the wrong type: " + found.dump());
  }
}

template bool field(const json&, const std::string&, const char*);
template int field(const json&, const std::string&, const char*);
template int64_t field(const json&, const std::string&, const char*);
template std::string field(const json&, const std::string&, const char*);
template json field(const json&, const std::string&, const char*);
template std::vector<int> field(const json&, const std::string&, const char*);
template std::vector<int64_t> field(const json&, const std::string&, const char*);
template std::vector<std::string> field(const json&, const std::string&, const char*);
template std::map<std::string, int64_t> field(const json&, const std::string&, const char*);
template std::map<std::string, int> field(const json&, const std::string&, const char*);

int64_t size_field(const json& object, const std::string& where, const char* key) {
  int64_t value = field<int64_t>(object, where, key);
  if (value < 0) fail(where, std::string("key '") + key + "' is negative");
  return value;
}

ElemType elem_field(const json& object, const std::string& where) {
  std::string elem = field<std::string>(object, where, "elem");
  std::optional<ElemType> type = parse_elem_type(elem);
  if (!type) fail(where, "unknown element type '" + elem + "'; known: " + elem_type_names());
  return *type;
}

namespace {

constexpr int64_t kMostDims = 64;  // far more than an operator has

// A constant is a number, dynamic dimension d is -1 - d, and a formula is an object.
json of_extent(const KernelExtent& e) {
  if (e.is_constant()) return e.offset;
  if (int d = e.as_dimension(); d >= 0) return -1 - d;
  return {{"factors", e.factors}, {"offset", e.offset}, {"divisor", e.divisor}};
}

KernelExtent extent(const json& j, const std::string& where) {
  if (j.is_number_integer()) {
    auto number = j.get<int64_t>();
    if (number >= 0) return KernelExtent(number);
    if (number < -kMostDims) {
      fail(where, fmt::format("the number {} stands for no dimension: a kernel has at most {}, the "
                              "first of them -1",
                              number, kMostDims));
    }
    return KernelExtent::dimension(static_cast<size_t>(-1 - number));
  }
  KernelExtent e;
  e.factors = field<std::vector<int64_t>>(j, where, "factors");
  e.offset = field<int64_t>(j, where, "offset");
  e.divisor = field<int64_t>(j, where, "divisor");
  if (e.divisor < 1) fail(where, "key 'divisor' is not positive");
  return e;
}

}  // namespace

json of_param(const KernelParam& p) {
  json shape = json::array();
  for (const KernelExtent& e : p.shape) shape.push_back(of_extent(e));
  return {{"name", p.name},
          {"elem", to_string(p.elem)},
          {"shape", shape},
          {"role", std::string(name_of(p.role))}};
}

KernelParam param(const json& j, const std::string& where) {
  KernelParam p;
  p.name = field<std::string>(j, where, "name");
  p.elem = elem_field(j, where);
  const json& shape = member(j, where, "shape");
  if (!shape.is_array()) fail(where, "key 'shape' has the wrong type: " + shape.dump());
  for (const json& e : shape) p.shape.push_back(extent(e, where + ".shape"));
  p.role = parse_role(field<std::string>(j, where, "role"), where);
  return p;
}

json of_sizes(const SizeFacts& sizes) {
  json steps = json::array();
  for (const std::vector<SizeStep>& dim : sizes.steps) {
    steps.push_back(json::array());
    for (const SizeStep& s : dim) steps.back().push_back({s.step, s.first});
  }
  return {{"steps", steps}, {"accesses", sizes.accesses}, {"proved", sizes.proved}};
}

SizeFacts sizes(const json& j, size_t dims) {
  const std::string where = "sizes";
  SizeFacts s;
  s.accesses = static_cast<int>(std::min<int64_t>(size_field(j, where, "accesses"), INT32_MAX));
  s.proved = static_cast<int>(std::min<int64_t>(size_field(j, where, "proved"), s.accesses));
  const json steps = field<json>(j, where, "steps");
  if (!steps.is_array() || steps.size() != dims) {
    fail(where, "key 'steps' has no list for each of " + std::to_string(dims) +
                    " dynamic dimensions: " + steps.dump());
  }
  for (const json& list : steps) {
    s.steps.emplace_back();
    const bool fits = list.is_array() && list.size() <= SizeFacts::kMostSteps;
    if (!fits) fail(where, "expected a list of at most 8 steps, got " + list.dump());
    for (const json& pair : list) {
      const bool is_step = pair.is_array() && pair.size() == 2 && pair[0].is_number_unsigned() &&
                           pair[1].is_number_integer();
      if (!is_step) fail(where, "expected [step, first], got " + pair.dump());
      s.steps.back().push_back({pair[0].get<int64_t>(), pair[1].get<int64_t>()});
    }
  }
  return s;
}

}  // namespace tilewright::kernel_json
