// From raw values to checked specs.
#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <utility>

#include "ir/ops/aliases.h"
#include "ir/ops/keys.h"
#include "ir/ops/operator.h"
#include "ir/ops/raw_value.h"

namespace tilewright {
namespace {

using namespace ops;  // NOLINT(google-build-using-namespace): this file is the face of ops

constexpr size_t kMaxFileBytes = size_t{64} << 20;

std::vector<std::string> operator_names() {
  std::vector<std::string> names;
  for (const Operator& op : operators()) names.push_back(op.name);
  return names;
}

// A key of a spec, after nested objects were flattened to dotted names.
struct Entry {
  std::string key;
  size_t key_offset = 0;
  const RawValue* value = nullptr;
};

void flatten(const RawValue& object, const std::string& prefix, std::vector<Entry>& out) {
  for (const RawMember& m : object.members) {
    if (m.value.kind == RawValue::Kind::Object) {
      flatten(m.value, prefix + m.key + ".", out);
    } else {
      out.push_back({prefix + m.key, m.key_offset, &m.value});
    }
  }
}

std::string known_keys(const Operator& op) {
  std::vector<std::string> required, optional;
  for (const KeyDef& key : op.keys) {
    std::string text = key.is_map() ? key.name + ".*" : key.name;
    if (key.fallback) text += "=" + to_string(*key.fallback);
    (key.required ? required : optional).push_back(text);
  }
  optional.insert(optional.end(), {"name", "count"});
  return fmt::format("keys of {}: {}; optional: {}", op.name, fmt::join(required, ", "),
                     fmt::join(optional, ", "));
}

std::vector<std::string> key_names(const Operator& op) {
  std::vector<std::string> names = {"op", "name", "count"};
  for (const KeyDef& key : op.keys) names.push_back(key.name);
  return names;
}

// A key that every operator has besides its own: the number of times that a model uses the
// operator. It does not change what is computed.
const KeyDef& count_of_uses() {
  static const KeyDef kKey{.name = "count",
                           .kind = KeyKind::Count,
                           .doc = "number of times a model uses the operator",
                           .min = 1,
                           .max = int64_t{1} << 40};
  return kKey;
}

// Checks one object against its operator's table of keys.
class Binder {
 public:
  Binder(const Source& source, const RawValue& object) : source_(source), object_(object) {
    flatten(object, "", entries_);
    spec_.location = location(source, object.offset);
  }

  ParsedSpec bind() {
    check_duplicates();
    find_op();
    for (const Entry& e : entries_) {
      if (e.key != "op") bind_entry(e);
    }
    check_required();
    for (const KeyDef& key : op_->keys) {
      if (key.fallback) spec_.params.emplace(key.name, *key.fallback);
    }
    try {
      op_->normalize(spec_);
      Workload workload = build();
      return {std::move(spec_), std::move(workload)};
    } catch (const KeyError& e) {
      fail_key(e);
    }
  }

 private:
  // Refuses here what cannot be built, where the place is known: in the value as it was given, whose normal form may
  // have other offsets.
  Workload build() {
    try {
      return make_workload(spec_);
    } catch (const KeyError& error) {
      for (const Entry& e : entries_) {
        if (e.key != error.key) continue;
        spec_.params.erase(e.key);
        bind_entry(e);
      }
      make_workload(spec_);
      throw;
    }
  }

  void check_duplicates() const {
    std::set<std::string> seen;
    for (const Entry& e : entries_) {
      if (!seen.insert(e.key).second) {
        fail_at(source_, e.key_offset, fmt::format("the key '{}' is given twice", e.key));
      }
    }
  }

  void find_op() {
    const std::string note = fmt::format("operators: {}", fmt::join(operator_names(), ", "));
    const Entry* entry = nullptr;
    for (const Entry& e : entries_) {
      if (e.key == "op") entry = &e;
    }
    if (entry == nullptr) fail_at(source_, object_.offset, "a spec needs the key 'op'", note);
    const RawValue& value = *entry->value;
    bool text = value.kind == RawValue::Kind::String || value.kind == RawValue::Kind::Word;
    if (!text) {
      fail_at(source_, value.offset, "op: expected the name of an operator, got " + describe(value),
              note);
    }
    op_ = find_operator_by_alias(value.text);
    if (op_ == nullptr) {
      fail_at(source_, value.text_offset,
              fmt::format("unknown operator '{}'{}", value.text,
                          suggestion(value.text, operator_names())),
              note);
    }
    spec_.op = op_->name;
  }

  void bind_entry(const Entry& e) {
    if (e.key == "name") {
      bool text = e.value->kind == RawValue::Kind::String || e.value->kind == RawValue::Kind::Word;
      if (!text) {
        fail_at(source_, e.value->offset, "name: expected text, got " + describe(*e.value));
      }
      spec_.name = e.value->text;
      return;
    }
    const KeyDef* key = e.key == "count" ? &count_of_uses() : op_->find_key(e.key);
    if (key == nullptr) {
      const std::vector<std::string> names = key_names(*op_);
      const auto alias = key_by_alias(e.key, names);
      fail_at(source_, e.key_offset,
              fmt::format(
                  "unknown key '{}' of {}{}", e.key, op_->name,
                  alias ? fmt::format("; did you mean '{}'?", *alias) : suggestion(e.key, names)),
              known_keys(*op_));
    }
    try {
      spec_.params.emplace(e.key, convert(*key, e.key, *e.value));
    } catch (const KeyError& error) {
      fail_key(error);
    }
  }

  void check_required() const {
    std::vector<std::string> missing;
    for (const KeyDef& key : op_->keys) {
      if (!key.required) continue;
      auto it = spec_.params.lower_bound(key.is_map() ? key.name + "." : key.name);
      bool present =
          it != spec_.params.end() &&
          (key.is_map() ? it->first.rfind(key.name + ".", 0) == 0 : it->first == key.name);
      if (!present) missing.push_back(key.name);
    }
    if (missing.empty()) return;
    fail_at(source_, object_.offset,
            fmt::format("{} needs the key{} {}", op_->name, missing.size() > 1 ? "s" : "",
                        fmt::join(missing, ", ")),
            known_keys(*op_));
  }

  // Points at the key of `error` where the text has it. A default is not in the text; then the
  // message points at the spec itself.
  [[noreturn]] void fail_key(const KeyError& error) const {
    size_t offset = object_.offset;
    for (const Entry& e : entries_) {
      if (e.key == error.key) offset = e.value->offset_of(error.value_offset);
    }
    fail_at(source_, offset, error.what(), known_keys(*op_));
  }

  const Source& source_;
  const RawValue& object_;
  const Operator* op_ = nullptr;
  std::vector<Entry> entries_;
  Spec spec_;
};

// Accepts a spec, a list of specs, or {"workloads": list}.
std::vector<Spec> bind_document(const Source& source, const RawValue& document) {
  const RawValue* list = &document;
  if (document.kind == RawValue::Kind::Object) {
    const RawMember* workloads = nullptr;
    for (const RawMember& m : document.members) {
      if (m.key == "workloads") workloads = &m;
    }
    if (workloads == nullptr) return {Binder(source, document).bind().spec};
    list = &workloads->value;
    if (document.members.size() > 1) {
      const RawMember& first = document.members[0];
      const RawMember& other = &first == workloads ? document.members[1] : first;
      fail_at(source, other.key_offset,
              fmt::format("unknown key '{}' beside 'workloads'", other.key));
    }
  }
  if (list->kind != RawValue::Kind::List) {
    fail_at(source, list->offset,
            "expected a spec, a list of specs or {\"workloads\": [...]}, got " + describe(*list));
  }
  std::vector<Spec> specs;
  for (const RawValue& item : list->items) {
    if (item.kind != RawValue::Kind::Object) {
      fail_at(source, item.offset, "expected a spec as an object, got " + describe(item));
    }
    specs.push_back(Binder(source, item).bind().spec);
  }
  if (specs.empty()) fail_at(source, list->offset, "the list holds no spec");
  return specs;
}

bool looks_like_json(const std::string& text) {
  size_t first = text.find_first_not_of(" \t\r\n", text.starts_with("\xEF\xBB\xBF") ? 3 : 0);
  return first != std::string::npos && (text[first] == '{' || text[first] == '[');
}

// Specs one a line, inline or as JSON objects; '#' begins a comment line.
std::vector<Spec> bind_lines(const std::string& file, const std::string& text) {
  std::vector<Spec> specs;
  size_t number = 0;
  for (size_t begin = text.starts_with("\xEF\xBB\xBF") ? 3 : 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const Source line{file, text.substr(begin, end - begin), ++number};
    begin = end + 1;
    const size_t first = line.text.find_first_not_of(" \t\r");
    if (first == std::string::npos || line.text[first] == '#') continue;
    const RawValue raw = looks_like_json(line.text) ? read_json(line) : read_inline(line);
    if (raw.kind != RawValue::Kind::Object) fail_at(line, raw.offset, "expected one spec per line");
    specs.push_back(Binder(line, raw).bind().spec);
  }
  if (specs.empty())
    throw SpecError(file + ": no spec; expected JSON, or inline specs, one per line");
  return specs;
}

// Why the file holds no text, with what would read it; empty when it does.
std::string binary_problem(const std::string& text, const std::string& file) {
  if (text.starts_with("SQLite format 3")) {
    return "a database, no file of specs; 'tune-cli best --db " + file + "' lists what it holds";
  }
  if (text.find('\0') == std::string::npos && !file.ends_with(".onnx")) return "";
  if (text.starts_with("GGUF") || file.ends_with(".safetensors")) {
    return "a file of weights, not of specs; 'tune-cli weights " + file + "' lists its layers";
  }
  if (file.ends_with(".onnx")) {
    const std::string stem = file.substr(0, file.size() - std::string_view(".onnx").size());
    return "a model, no file of specs; 'tune-cli compile " + file + " -o " + stem +
           ".tw' makes a model file of it, 'tune-cli extract " + file +
           " -o specs.json' writes its workloads";
  }
  return "binary data; expected specs as JSON, or inline specs, one per line";
}

std::string require_size(std::string text, const std::string& name) {
  if (text.size() > kMaxFileBytes) {
    throw SpecError(fmt::format("{}: longer than {} MiB", name, kMaxFileBytes >> 20));
  }
  return text;
}

// Reads through C's streams: <iostream> would run code whenever a library that holds this file is
// loaded.
std::string read_standard_input() {
  std::string text;
  char chunk[1 << 14];
  while (size_t read = std::fread(chunk, 1, sizeof chunk, stdin)) {
    text.append(chunk, read);
    if (text.size() > kMaxFileBytes) break;
  }
  if (std::ferror(stdin) != 0) throw SpecError("<stdin>: cannot be read");
  return require_size(std::move(text), "<stdin>");
}

std::vector<Spec> parse_file(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    throw SpecError(fmt::format("{}: a directory; expected a file of specs", path));
  }
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    throw SpecError(fmt::format(
        "{}: the file cannot be opened: {}; expected a file of specs, or a spec such as "
        "matmul:m=512,n=768,k=768",
        path, std::strerror(errno)));
  }
  std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  if (in.bad()) throw SpecError(fmt::format("{}: cannot be read", path));
  return parse_spec_file_text(require_size(std::move(text), path), path);
}

}  // namespace

std::vector<Spec> parse_spec_file_text(const std::string& text, const std::string& file_name) {
  if (std::string problem = binary_problem(text, file_name); !problem.empty()) {
    throw SpecError(file_name + ": " + problem);
  }
  if (!looks_like_json(text)) return bind_lines(file_name, text);
  Source source{file_name, text};
  return bind_document(source, read_json(source));
}

std::vector<Spec> parse_specs(const std::string& argument) {
  if (argument == "-") return parse_spec_file_text(read_standard_input(), "<stdin>");
  if (looks_like_json(argument)) {
    Source source{"", argument};
    return bind_document(source, read_json(source));
  }
  std::error_code error;
  bool exists = std::filesystem::exists(argument, error);
  bool path_like =
      argument.find(':') == std::string::npos &&
      (argument.find('/') != std::string::npos || std::filesystem::path(argument).has_extension());
  if (exists || path_like) return parse_file(argument);
  Source source{"", argument};
  return {Binder(source, read_inline(source)).bind().spec};
}

ParsedSpec parse_spec_and_build(const std::string& text) {
  Source source{"", text};
  RawValue raw = looks_like_json(text) ? read_json(source) : read_inline(source);
  if (raw.kind != RawValue::Kind::Object) fail_at(source, raw.offset, "expected one spec");
  return Binder(source, raw).bind();
}

Spec parse_spec(const std::string& text) { return parse_spec_and_build(text).spec; }

Workload parse_workload(const std::string& text) { return parse_spec_and_build(text).workload; }

}  // namespace tilewright
