// Schedule primitives, and the table of all of them.
#pragma once

#include <concepts>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ir/stmt.h"

namespace tilewright {

// The result of a primitive: the new module and the names of the loops or blocks that it made.
struct Applied {
  Module module;
  std::vector<std::string> results;
};

// A primitive is a regular struct. Its arguments are its fields, `visit_fields` names each of them
// for the JSON and text forms, and `apply` checks all preconditions before it changes anything.
//
//   struct Fuse {
//     static constexpr std::string_view kName = "fuse";
//     std::vector<std::string> loops;
//     template <class F> void visit_fields(F&& f) { f("loops", loops); }
//     Applied apply(const Module& module) const;
//   };
template <class T>
concept Primitive = std::default_initializable<T> && requires(T t, const T c, const Module& m) {
  { T::kName } -> std::convertible_to<std::string_view>;
  t.visit_fields([](const char*, auto&) {});
  { c.apply(m) } -> std::same_as<Applied>;
};

// The registry's record of a primitive: its name, and how to read its arguments and apply it.
using ApplyFn = std::function<Applied(const Module&, const std::string& arguments_json)>;
struct PrimitiveEntry {
  std::string_view name;
  ApplyFn apply;
};

// The registry maps a name to a function that reads the arguments' JSON and applies the primitive.
// Each family lists its own in schedule/primitives/; schedule/primitive.cc lists the families.
const std::map<std::string, ApplyFn, std::less<>>& primitive_table();

}  // namespace tilewright
