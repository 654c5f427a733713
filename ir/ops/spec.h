// Operator specs: the text that describes a workload.
//
// A spec is inline text (`matmul:m=512,n=3072,k=768,w.dtype=u4`) or a JSON object; a file holds a
// list of objects, {"workloads": [...]}, or specs one a line. Keys nest by a dot or by an object. A
// size may be a range `16..4096` (a string in JSON): a dimension that is known only at launch.
// Operators and element types may go by the names that frameworks give them (aliases.h).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "base/error.h"
#include "ir/tensor_expr.h"

namespace tilewright {

// A size, or the range of a size that is known only at launch.
struct DimSize {
  int64_t min = 1;
  int64_t max = 1;
  bool is_dynamic() const { return min != max; }
  bool operator==(const DimSize&) const = default;
};

// Flags, counts, numbers, names (also element types and choices), sizes, and lists of them.
using SpecValue = std::variant<bool, int64_t, double, std::string, DimSize, std::vector<int64_t>,
                               std::vector<DimSize>, std::vector<std::string>>;

// A checked spec: the operator knows every key, each value has its key's type, and defaults are
// filled in.
struct Spec {
  std::string op;
  std::map<std::string, SpecValue> params;  // by dotted key
  std::string name;                         // the user's label; not part of the meaning
  std::string location;                     // "file:line:column", or the inline text itself

  bool has(const std::string& key) const { return params.count(key) > 0; }
  // Requires that `key` is present with a value of type T.
  template <class T>
  const T& get(const std::string& key) const {
    auto it = params.find(key);
    TW_ASSERT(it != params.end() && std::holds_alternative<T>(it->second), op + ": key " + key);
    return std::get<T>(it->second);
  }
};

// Reads a command-line argument: inline text, JSON text, the path of a file, or "-" for standard
// input. Throws SpecError that shows the place, the error and the known keys.
std::vector<Spec> parse_specs(const std::string& argument);
// Reads the text of a file; messages call it `file_name`.
std::vector<Spec> parse_spec_file_text(const std::string& text, const std::string& file_name);
// Exactly one spec, inline or as a JSON object.
Spec parse_spec(const std::string& text);

// JSON with sorted keys, with every default filled in and without the label. Two specs of the same
// workload have the same text, and the text parses back to itself.
std::string canonical_text(const Spec& spec);
// The inline form: required keys in the order of the operator's table, then the options that differ
// from their defaults. It parses back to the same canonical text.
std::string spec_to_inline(const Spec& spec);

// Builds the tensor expression of a spec.
Workload make_workload(const Spec& spec);
// The workload with the dynamic dimensions in `sizes` fixed at these sizes, for a comparison with
// programs of fixed sizes.
Workload at_sizes(const Workload& workload, const std::map<std::string, int64_t>& sizes);
// Reading a spec builds its workload, so this costs less than parse_spec() and make_workload() one after the other.
struct ParsedSpec {
  Spec spec;
  Workload workload;
};
ParsedSpec parse_spec_and_build(const std::string& text);
Workload parse_workload(const std::string& text);

}  // namespace tilewright
