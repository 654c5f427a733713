#include "graph/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <utility>

#include "graph/loops/loops.h"
#include "ir/ops/spec.h"
#include "models/weights/mapped_file.h"
#include "models/weights/tensor_file.h"
#include "runtime/error.h"
#include "runtime/tensor/npy.h"
#include "runtime/tensor/operands.h"

namespace tilewright::graph {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostTensors = 6;  // tensors that a refusal names

// Constants out of the files of one program.
class ConstantFiles {
 public:
  explicit ConstantFiles(const std::string& program)
      : program_(program), folder_(fs::path(program).parent_path()) {}

  Bytes data_of(const Value& v) {
    const std::string path = path_of(v);
    return path.ends_with(".npy") ? out_of_npy(v, path) : out_of_tensors(v, path);
  }

 private:
  [[noreturn]] void fail(const Value& v, const std::string& why) const {
    throw GraphError(fmt::format("{}: constant '{}': {}", program_, v.name, why));
  }

  // A program that somebody sent reads nothing outside of its folder.
  std::string path_of(const Value& v) const {
    const fs::path file = v.file;
    const bool inside = !file.is_absolute() && std::ranges::none_of(file, [](const fs::path& part) {
      return part == "..";
    });
    if (!inside) {
      fail(v,
           fmt::format("'{}' lies outside of the program's folder; expected a file in it", v.file));
    }
    return (folder_ / file).string();
  }

  static bool holds(ElemType elem, ElemType stored) {
    return elem == stored || (elem == ElemType::u8 && stored == ElemType::boolean);
  }

  Bytes out_of_npy(const Value& v, const std::string& path) const {
    NpyArray array = read_npy(path);
    const bool packed = bits_of(v.elem) < 8 && array.elem == ElemType::u8;
    const bool fits = packed ? static_cast<int64_t>(array.bytes.size()) == v.bytes()
                             : holds(v.elem, array.elem) && array.shape == v.shape;
    if (!fits) refuse_type(v, path, to_string(array.elem), array.shape);
    return std::make_shared<const std::string>(std::move(array.bytes));
  }

  Bytes out_of_tensors(const Value& v, const std::string& path) {
    auto known = files_.find(path);
    if (known == files_.end()) {
      known = files_.emplace(path, weights::TensorFile::open(path)).first;
    }
    const weights::TensorFile& file = known->second;
    const weights::StoredTensor* tensor = file.find(v.tensor);
    if (tensor == nullptr) {
      fail(v, fmt::format("'{}' has no tensor '{}'; it has {}", v.file, v.tensor, names_in(file)));
    }
    const bool packed = bits_of(v.elem) < 8 && tensor->type->elem == ElemType::u8 &&
                        tensor->bytes == static_cast<uint64_t>(v.bytes());
    const bool fits = packed || (tensor->type->elem && holds(v.elem, *tensor->type->elem) &&
                                 tensor->shape == v.shape);
    if (!fits) refuse_type(v, path, std::string(tensor->type->name), tensor->shape);
    return std::make_shared<const std::string>(file.data(*tensor));
  }

  [[noreturn]] void refuse_type(const Value& v, const std::string& path, const std::string& type,
                                const std::vector<int64_t>& shape) const {
    const std::string packed =
        bits_of(v.elem) < 8 ? fmt::format(", or {} bytes of U8", v.bytes()) : "";
    fail(v, fmt::format("{} has {} of shape {}; expected {}{}", path, type, describe_shape(shape),
                        type_text(v), packed));
  }

  static std::string names_in(const weights::TensorFile& file) {
    std::string names;
    for (size_t i = 0; i < std::min(kMostTensors, file.tensors().size()); ++i) {
      names += (i == 0 ? "" : ", ") + file.tensors()[i].name;
    }
    return file.tensors().size() > kMostTensors ? names + ", …" : names.empty() ? "none" : names;
  }

  std::string program_;
  fs::path folder_;
  std::map<std::string, weights::TensorFile> files_;
};

// The data of the constants of a graph and of the bodies of its loops.
void read_constants(Graph* graph, ConstantFiles* files) {
  for (Value& v : graph->values) {
    if (!v.constant || v.data != nullptr) continue;
    if (v.file.empty()) {
      throw GraphError(
          fmt::format("constant '{}' has no data here, only the name {}; expected from \"FILE\"",
                      v.name, v.hash));
    }
    v.data = files->data_of(v);
    v.file.clear();
    v.tensor.clear();
  }
  change_bodies(graph, [&](Loop* loop) { read_constants(&loop->body, files); });
}

// Specs in the inline form, as all other graphs have them.
void write_specs_inline(Graph* graph) {
  change_bodies(graph, [](Loop* loop) { write_specs_inline(&loop->body); });
  for (Node& node : graph->nodes) {
    if (!node.is_workload()) continue;
    try {
      node.spec = spec_to_inline(parse_spec(node.spec));
    } catch (const SpecError& e) {
      throw GraphError(fmt::format("'{}': {}", node.label, e.what()));
    }
  }
}

}  // namespace

bool is_program(std::string_view bytes, const std::string& path) {
  return path.ends_with(".tg") || bytes.starts_with("graph \"");
}

Graph read_program(const std::string& path) {
  const weights::MappedFile file(path);
  ConstantFiles files(path);
  try {
    Graph graph = parse_graph(file.bytes());
    read_constants(&graph, &files);
    if (graph.outputs.empty()) throw GraphError("it has no output; expected output \"NAME\"");
    write_specs_inline(&graph);
    verify(graph);
    return graph;
  } catch (const GraphError& e) {
    const std::string what = e.what();
    throw GraphError(what.starts_with(path) ? what : path + ": " + what);
  }
}

}  // namespace tilewright::graph
