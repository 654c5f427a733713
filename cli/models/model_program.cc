#include "cli/models/model_program.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <map>

#include "cli/models/onnx_file.h"
#include "cli/models/program_file.h"
#include "graph/decoder/import_decoder.h"
#include "graph/import_onnx.h"
#include "graph/interpret.h"
#include "graph/program.h"
#include "graph/sizes.h"
#include "models/onnx/external.h"
#include "models/weights/gguf.h"
#include "models/weights/mapped_file.h"
#include "models/weights/tensor_file.h"
#include "runtime/check/reference.h"
#include "runtime/error.h"
#include "runtime/thread_pool.h"

namespace tilewright::cli {
namespace {

// The sizes of a decoder, a number each.
std::map<std::string, DimSize> fixed_dims(const ProgramArguments& a) {
  std::map<std::string, DimSize> dims = read_dims(a.dims);
  for (const auto& [name, size] : dims) {
    if (!size.is_dynamic()) continue;
    throw UsageError(
        fmt::format("--dim {}={}..{}: a decoder is compiled for one size; expected a "
                    "number, such as --dim {}={}",
                    name, size.min, size.max, name, size.max));
  }
  return dims;
}

graph::Graph read_decoder(const ProgramArguments& a) {
  graph::DecoderSizes sizes;
  const std::map<std::string, int64_t*> known = {{"context", &sizes.context},
                                                 {"tokens", &sizes.tokens}};
  for (const auto& [name, size] : fixed_dims(a)) {
    auto place = known.find(name);
    if (place == known.end()) {
      throw UsageError(
          fmt::format("--dim {}={}: a decoder has the sizes tokens and context", name, size.max));
    }
    *place->second = size.max;
  }
  if (a.narrowing.precision != "f32") {
    throw UsageError(fmt::format("--precision {}: the weights of a GGUF file keep their types",
                                 a.narrowing.precision));
  }
  graph::Graph graph = graph::import_decoder(weights::TensorFile::open(a.model), sizes);
  graph::verify(graph);
  return graph;
}

graph::Graph imported(std::string_view bytes, const ProgramArguments& a,
                      const onnx::StandIns& stand_ins) {
  onnx::Model model = read_onnx(bytes, a.model);
  for (const auto& [name, value] : read_constants(a.constants))
    onnx::fix_input(&model, name, value);
  const onnx::ExternalData constants(model);
  graph::Graph graph = graph::import_onnx(model, read_dims(a.dims), stand_ins,
                                          Target::parse(a.common.target).is_cuda());
  graph::verify(graph);
  return graph;
}

// The model as it says, with what depends on constants alone computed.
graph::Graph read_graph(const ProgramArguments& a, const onnx::StandIns& stand_ins) {
  const weights::MappedFile file(a.model);
  if (file.bytes().starts_with(weights::kGgufMagic)) return read_decoder(a);
  const bool is_program = graph::is_program(file.bytes(), a.model);
  if (is_program && !a.constants.empty()) {
    throw UsageError("--const: a program says its constants itself; expected const in its text");
  }
  graph::Graph graph = is_program ? read_program_file(a.model, a.dims, stand_ins)
                                  : imported(file.bytes(), a, stand_ins);
  ThreadPool pool(thread_count(a.common));
  graph::fold_constants(&graph, parallel_on(pool));
  return graph;
}

}  // namespace

void add_program(CLI::App& command, ProgramArguments& a) {
  command.add_option("model", a.model, "ONNX file, GGUF file of a decoder, or text of a program")
      ->required();
  command
      .add_option("--dim", a.dims,
                  "Size of a dimension that the model names, or the range of a size that each run "
                  "gives; of a decoder tokens and context")
      ->type_name("NAME=SIZE|NAME=MIN..MAX")
      ->take_all();
  command
      .add_option("--const", a.constants,
                  "Number that an input always is, so that it is none of the file's")
      ->type_name("INPUT=NUMBER")
      ->take_all();
  add_narrowing(command, a.narrowing);
  command.add_flag("--no-fusion", a.no_fusion, "Keep functions of elements as nodes of their own");
}

graph::Graph optimized(graph::Graph graph, const ProgramArguments& a, const Narrowing& narrowing,
                       const graph::Seconds& seconds) {
  narrowing.apply(&graph);
  const bool is_gpu = Target::parse(a.common.target).is_cuda();
  if (!a.no_fusion) {
    graph::optimize(&graph, is_gpu ? graph::Processor::Gpu : graph::Processor::Cpu, seconds);
  }
  graph::verify(graph);
  return graph;
}

ModelProgram read_model_program(const ProgramArguments& a) {
  graph::Graph model = read_graph(a, onnx::kStandIns);
  Narrowing narrowing(model, a.narrowing, a.common);
  graph::Graph graph = optimized(model, a, narrowing);
  if (!graph.dims.empty()) {
    graph::require_same(graph, optimized(read_graph(a, onnx::kOtherStandIns), a, narrowing));
  }
  return {std::move(model), std::move(narrowing), std::move(graph)};
}

}  // namespace tilewright::cli
