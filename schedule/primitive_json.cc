#include "schedule/primitive_json.h"

#include <set>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "schedule/error.h"

namespace tilewright {

using Json = nlohmann::ordered_json;

struct FieldWriter::Impl {
  Json object = Json::object();
};

FieldWriter::FieldWriter() : impl_(std::make_unique<Impl>()) {}
FieldWriter::~FieldWriter() = default;

void FieldWriter::operator()(const char* name, const std::string& value) {
  impl_->object[name] = value;
}
void FieldWriter::operator()(const char* name, int64_t value) { impl_->object[name] = value; }
void FieldWriter::operator()(const char* name, bool value) { impl_->object[name] = value; }
void FieldWriter::operator()(const char* name, const std::vector<std::string>& value) {
  impl_->object[name] = value;
}
void FieldWriter::operator()(const char* name, const std::vector<int64_t>& value) {
  impl_->object[name] = value;
}
void FieldWriter::operator()(const char* name, Scope value) {
  impl_->object[name] = name_of(value);
}
void FieldWriter::operator()(const char* name, ForKind value) {
  impl_->object[name] = name_of(value);
}
void FieldWriter::operator()(const char* name, const Annotation& value) {
  std::visit([&](const auto& v) { impl_->object[name] = v; }, value);
}
void FieldWriter::operator()(const char* name, const IndexMap& value) {
  impl_->object[name] = value.str();
}
std::string FieldWriter::json() const { return impl_->object.dump(); }

struct FieldReader::Impl {
  std::string primitive;
  Json object;
  std::set<std::string> known;

  [[noreturn]] void refuse(const std::string& name, const char* expected,
                           const std::string& got) const {
    throw ScheduleError(
        RefusalKind::BadArgument, primitive,
        fmt::format("argument '{}' of {}: expected {}, got {}", name, primitive, expected, got));
  }

  const Json& field(const char* name, const char* expected) {
    known.insert(name);
    auto it = object.find(name);
    if (it == object.end()) refuse(name, expected, "nothing");
    return *it;
  }

  std::string text(const char* name, const char* expected) {
    const Json& value = field(name, expected);
    if (!value.is_string()) refuse(name, expected, value.dump());
    return value.get<std::string>();
  }

  template <class Item>
  std::vector<Item> list(const char* name, const char* expected, bool (*fits)(const Json&)) {
    const Json& value = field(name, expected);
    if (!value.is_array()) refuse(name, expected, value.dump());
    std::vector<Item> items;
    for (const Json& item : value) {
      if (!fits(item)) refuse(name, expected, value.dump());
      items.push_back(item.get<Item>());
    }
    return items;
  }
};

FieldReader::FieldReader(std::string_view primitive, const std::string& json)
    : impl_(std::make_unique<Impl>()) {
  impl_->primitive = primitive;
  impl_->object = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!impl_->object.is_object()) {
    throw ScheduleError(RefusalKind::BadArgument, impl_->primitive,
                        fmt::format("the arguments must be a JSON object, got {}", json));
  }
}
FieldReader::~FieldReader() = default;

void FieldReader::operator()(const char* name, std::string& value) {
  value = impl_->text(name, "a string");
}
void FieldReader::operator()(const char* name, int64_t& value) {
  const Json& field = impl_->field(name, "an integer");
  if (!field.is_number_integer()) impl_->refuse(name, "an integer", field.dump());
  value = field.get<int64_t>();
}
void FieldReader::operator()(const char* name, int& value) {
  int64_t wide = 0;
  (*this)(name, wide);
  value = static_cast<int>(wide);
  if (value != wide) impl_->refuse(name, "an integer of 32 bits", std::to_string(wide));
}
void FieldReader::operator()(const char* name, bool& value) {
  const Json& field = impl_->field(name, "true or false");
  if (!field.is_boolean()) impl_->refuse(name, "true or false", field.dump());
  value = field.get<bool>();
}
void FieldReader::operator()(const char* name, std::vector<std::string>& value) {
  value = impl_->list<std::string>(name, "a list of strings",
                                   [](const Json& item) { return item.is_string(); });
}
void FieldReader::operator()(const char* name, std::vector<int64_t>& value) {
  value = impl_->list<int64_t>(name, "a list of integers",
                               [](const Json& item) { return item.is_number_integer(); });
}
void FieldReader::operator()(const char* name, Scope& value) {
  std::string text = impl_->text(name, "a memory scope");
  auto scope = parse_scope(text);
  if (!scope) impl_->refuse(name, "a memory scope", fmt::format("\"{}\"", text));
  value = *scope;
}
void FieldReader::operator()(const char* name, ForKind& value) {
  std::string text = impl_->text(name, "a kind of loop");
  auto kind = parse_for_kind(text);
  if (!kind) impl_->refuse(name, "a kind of loop", fmt::format("\"{}\"", text));
  value = *kind;
}
void FieldReader::operator()(const char* name, Annotation& value) {
  const Json& field = impl_->field(name, "an integer or a string");
  if (field.is_number_integer()) {
    value = field.get<int64_t>();
  } else if (field.is_string()) {
    value = field.get<std::string>();
  } else {
    impl_->refuse(name, "an integer or a string", field.dump());
  }
}
void FieldReader::operator()(const char* name, IndexMap& value) {
  std::string text = impl_->text(name, "an index map");
  try {
    value = IndexMap::parse(text);
  } catch (const IrError& e) {
    impl_->refuse(name, "an index map", fmt::format("\"{}\" ({})", text, e.what()));
  }
}
void FieldReader::finish() {
  for (const auto& [name, value] : impl_->object.items()) {
    if (!impl_->known.count(name)) impl_->refuse(name, "no such argument", value.dump());
  }
}

}  // namespace tilewright
