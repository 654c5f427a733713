// The JSON form of a primitive's arguments, derived from its visit_fields.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ir/arith/index_map.h"
#include "ir/buffer.h"
#include "ir/stmt.h"
#include "schedule/primitive.h"

namespace tilewright {

// Collects fields in order into a JSON object. Enumerations and index maps are written as text.
class FieldWriter {
 public:
  FieldWriter();
  ~FieldWriter();
  void operator()(const char* name, const std::string& value);
  void operator()(const char* name, int64_t value);
  void operator()(const char* name, int value) { (*this)(name, int64_t{value}); }
  void operator()(const char* name, bool value);
  void operator()(const char* name, const std::vector<std::string>& value);
  void operator()(const char* name, const std::vector<int64_t>& value);
  void operator()(const char* name, Scope value);
  void operator()(const char* name, ForKind value);
  void operator()(const char* name, const Annotation& value);
  void operator()(const char* name, const IndexMap& value);
  std::string json() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Reads fields back. Throws ScheduleError{BadArgument}, "argument 'factors' of split: expected …,
// got …", for a field that is missing or of another type. finish() throws it for an unknown field.
class FieldReader {
 public:
  FieldReader(std::string_view primitive, const std::string& json);
  ~FieldReader();
  void operator()(const char* name, std::string& value);
  void operator()(const char* name, int64_t& value);
  void operator()(const char* name, int& value);
  void operator()(const char* name, bool& value);
  void operator()(const char* name, std::vector<std::string>& value);
  void operator()(const char* name, std::vector<int64_t>& value);
  void operator()(const char* name, Scope& value);
  void operator()(const char* name, ForKind& value);
  void operator()(const char* name, Annotation& value);
  void operator()(const char* name, IndexMap& value);
  void finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The arguments of a primitive as a JSON object.
template <Primitive P>
std::string arguments_of(P primitive) {
  FieldWriter writer;
  primitive.visit_fields(writer);
  return writer.json();
}

// The registry's entry for P.
template <Primitive P>
PrimitiveEntry primitive_entry() {
  return {P::kName, [](const Module& module, const std::string& arguments_json) {
            P primitive;
            FieldReader reader(P::kName, arguments_json);
            primitive.visit_fields(reader);
            reader.finish();
            return primitive.apply(module);
          }};
}

}  // namespace tilewright
