#include "schedule/trace.h"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "schedule/primitive.h"

namespace tilewright {
namespace {

using Json = nlohmann::ordered_json;

// JSON with a space after each comma.
std::string spaced(const Json& value) {
  if (!value.is_array()) return value.dump();
  std::string text = "[";
  for (const Json& item : value) {
    if (text.size() > 1) text += ", ";
    text += spaced(item);
  }
  return text + "]";
}

std::string line_of(const Step& step) {
  Json arguments = Json::parse(step.arguments);
  std::string text;
  for (const auto& [name, value] : arguments.items()) {
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", name, spaced(value));
  }
  std::string results = fmt::format("{}", fmt::join(step.results, ", "));
  return fmt::format("{}{}{}({})\n", results, results.empty() ? "" : " = ", step.primitive, text);
}

// Reads a step from JSON; throws Error that names it by `index`.
Step read_step(const Json& json, size_t index) {
  auto refuse = [&](const std::string& what) {
    throw Error(fmt::format("trace: step {}: {}", index, what));
  };
  if (!json.is_object()) refuse("expected an object, got " + json.dump());
  Step step;
  for (const auto& [key, value] : json.items()) {
    if (key == "primitive" && value.is_string()) {
      step.primitive = value.get<std::string>();
    } else if (key == "arguments" && value.is_object()) {
      step.arguments = value.dump();
    } else if (key == "results" && value.is_array()) {
      for (const Json& name : value) {
        if (!name.is_string()) refuse("'results' must be a list of strings, got " + value.dump());
        step.results.push_back(name.get<std::string>());
      }
    } else {
      refuse(
          fmt::format("'{}' must be one of primitive (a string), arguments (an object), results "
                      "(a list of strings), got {}",
                      key, value.dump()));
    }
  }
  if (!primitive_table().count(step.primitive)) {
    refuse(fmt::format("there is no primitive '{}'", step.primitive));
  }
  if (step.arguments.empty()) refuse("'arguments' is missing");
  return step;
}

}  // namespace

std::string Trace::str() const {
  std::string text;
  for (const Step& step : steps) text += line_of(step);
  return text;
}

std::string Trace::to_json() const {
  Json list = Json::array();
  for (const Step& step : steps) {
    list.push_back({{"primitive", step.primitive},
                    {"arguments", Json::parse(step.arguments)},
                    {"results", step.results}});
  }
  return list.dump();
}

Trace Trace::from_json(const std::string& text) {
  Json list = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!list.is_array()) throw Error("trace: expected a JSON list of steps");
  Trace trace;
  for (const Json& step : list) trace.steps.push_back(read_step(step, trace.steps.size()));
  return trace;
}

}  // namespace tilewright
