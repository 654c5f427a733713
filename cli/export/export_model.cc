#include "cli/export/export_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "cli/command.h"
#include "cli/export/export_check.h"
#include "cli/export/export_steps.h"
#include "codegen/c/c_types.h"
#include "graph/plan.h"
#include "tilewright/version.h"

namespace tilewright::cli {
namespace {

// An input or an output.
struct Port {
  std::string name;  // in C
  size_t value = 0;
  bool is_input = true;
};

// Names that would be the same have a number behind.
std::vector<Port> ports_of(const graph::Graph& graph) {
  std::vector<Port> ports;
  std::set<std::string> taken = {"model", "context", "own", "values", "status"};
  for (const auto* values : {&graph.inputs, &graph.outputs}) {
    for (size_t value : *values) {
      const std::string name = c_name(graph.values[value].name);
      std::string own = name;
      for (int next = 2; !taken.insert(own).second; ++next) own = fmt::format("{}_{}", name, next);
      ports.push_back({own, value, values == &graph.inputs});
    }
  }
  return ports;
}

// "const float* x, float* y, ".
std::string parameters(const graph::Graph& graph, const std::vector<Port>& ports) {
  std::string text;
  for (const Port& port : ports) {
    const ElemType elem = graph.values[port.value].elem;
    text += fmt::format("{}{}* {}, ", port.is_input ? "const " : "",
                        elem == ElemType::f16 ? "uint16_t" : storage_type(elem), port.name);
  }
  return text;
}

std::string model_header(const ExportedModel& model, const std::vector<Port>& ports) {
  std::string arrays;
  for (const Port& port : ports) {
    arrays += fmt::format(" *   {:<12} {}{}\n", port.name,
                          graph::type_text(model.graph.values[port.value]),
                          port.is_input ? "" : ", written");
  }
  return fmt::format(
      R"(/* The model "{4}". Made by Tilewright {5}; needs nothing but libc and libm. Build it with `make`. */
#ifndef {1}_H_
#define {1}_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

{2}
/* The model's packed weights and memory for one run. */
typedef struct {0} {0};

/* For runs on up to `threads` threads. Null when memory runs out. */
{0}* {0}_open(int32_t threads);
void {0}_close({0}* model);

/* Runs the model on row-major arrays:
{3} * A null context runs on the calling thread; the context's workspace is not used. One run of a model at a
 * time. Allocates nothing. Returns 0, or -1 for a context of more threads than the model was opened for. */
int {0}_run({0}* model, {6}const tw_context* context);

#ifdef __cplusplus
}}
#endif
#endif
)",
      model.name, macro_name(model.name), context_declaration(), arrays,
      in_comment(model.graph.name), TILEWRIGHT_VERSION, parameters(model.graph, ports));
}

std::string model_source(const ExportedModel& model, const std::vector<Port>& ports,
                         const ExportedFrame& frame, const ExportedKernels& kernels,
                         ExportedMemory& memory) {
  std::string includes = fmt::format("#include \"{}.h\"\n\n", model.name), workspaces, in, out;
  for (const auto& [name, kernel] : kernels.by_name()) {
    includes += fmt::format("#include \"{}.h\"\n", name);
    workspaces += fmt::format("      {}_workspace_bytes,\n", name);
  }
  for (const Port& port : ports) {
    const int64_t bytes = model.graph.values[port.value].bytes();
    const std::string own = memory.of(frame, port.value);
    in += port.is_input ? fmt::format("  memcpy({}, {}, {});\n", own, port.name, bytes) : "";
    out += port.is_input ? "" : fmt::format("  memcpy({}, {}, {});\n", port.name, own, bytes);
  }
  const ExportedSteps steps = export_steps(frame, kernels, memory);
  return fmt::format(
      R"(/* See {0}.h. */
{1}
#include <stdlib.h>
#include <string.h>

/* The constants, as they are in the file beside this one. */
__asm__(
    ".pushsection .rodata\n"
    ".balign 64\n"
    "{0}_constants:\n"
    ".incbin \"{0}.constants\"\n"
    ".popsection\n");
extern const unsigned char {0}_constants[] __attribute__((visibility("hidden")));

/* In front of the values, the packed weights and the workspace. */
struct {0} {{
  int32_t threads;
}};

static const size_t kHead = 64, kKept = {2};

{0}* {0}_open(int32_t threads) {{
  static size_t (*const workspaces[])(int) = {{
{3}  }};
  if (threads < 1) return 0;
  size_t most = 0;
  for (size_t i = 0; i < sizeof workspaces / sizeof workspaces[0]; ++i) {{
    size_t bytes = workspaces[i](threads);
    if (bytes > most) most = bytes;
  }}
  {0}* model = aligned_alloc(64, (kHead + kKept + most + 63) / 64 * 64);
  if (!model) return 0;
  model->threads = threads;
  unsigned char* values = (unsigned char*)model + kHead;
  int status = 0;
{4}  (void)values;
  if (status == 0) return model;
  free(model);
  return 0;
}}

void {0}_close({0}* model) {{ free(model); }}
{9}
int {0}_run({0}* model, {5}const tw_context* context) {{
  unsigned char* values = (unsigned char*)model + kHead;
  tw_context own = {{1, serial_for, 0, 0}};
  int status;
  if (context) own = *context;
  if (own.threads > model->threads) return -1;
  own.workspace = values + kKept;
{6}{7}{8}  return 0;
}}
)",
      model.name, includes, memory.bytes(), workspaces, steps.packs, parameters(model.graph, ports),
      in, steps.runs, out, serial_loop());
}

std::string model_makefile(const ExportedModel& model, const ExportedKernels& kernels) {
  std::string objects, rules;
  for (const auto& [name, kernel] : kernels.by_name()) {
    objects += " " + name + ".o";
    rules += fmt::format("\n{0}.o: {0}.c {0}.h\n\t$(CC) $(CFLAGS) {1} -c -o $@ $<\n", name,
                         fmt::join(kernel.kernel.flags, " "));
  }
  return fmt::format(
      "# Builds the model as lib{0}.so and lib{0}.a; {0}.h says how they are called.\n"
      "CFLAGS = -O3 -fPIC -fno-math-errno -fno-trapping-math\n"
      "OBJECTS = {0}.o{1}\n\n"
      "all: lib{0}.so lib{0}.a\n\n"
      "lib{0}.so: $(OBJECTS)\n\t$(CC) -shared -o $@ $(OBJECTS) -lm\n\n"
      "lib{0}.a: $(OBJECTS)\n\t$(AR) rcs $@ $(OBJECTS)\n\n"
      "{0}.o: {0}.c {0}.h {0}.constants\n\t$(CC) $(CFLAGS) -c -o $@ $<\n{2}\n"
      "clean:\n\trm -f lib{0}.so lib{0}.a $(OBJECTS)\n\n.PHONY: all clean\n",
      model.name, objects, rules);
}

}  // namespace

std::vector<std::pair<std::string, std::string>> export_model(const ExportedModel& model) {
  const auto plain = std::ranges::find_if(model.graph.nodes, &graph::Node::is_plain);
  if (plain != model.graph.nodes.end()) {
    throw UsageError(fmt::format(
        "'{}' is a plain node, which says a size by values ({}); models with such nodes "
        "are not exported, and the C library runs them",
        plain->label, plain->plain));
  }
  if (!model.graph.dims.empty()) {
    const graph::Dim& dim = model.graph.dims[0];
    throw UsageError(
        fmt::format("the model takes {}={}..{}; models with ranges of sizes are not exported: "
                    "compile it for one size, such as --dim {}={}",
                    dim.name, dim.range.min, dim.range.max, dim.name, dim.range.max));
  }
  if (!model.graph.states.empty()) {
    throw UsageError(
        fmt::format("the model keeps '{}' from run to run; models with states are not "
                    "exported, and the C library runs them",
                    model.graph.values[model.graph.states[0]].name));
  }
  const std::vector<Port> ports = ports_of(model.graph);
  const ExportedKernels kernels(model);
  const graph::Plan plan = graph::plan_memory(model.graph);
  const ExportedFrame frame{model.graph, plan, 0, {}};
  ExportedMemory memory(model, plan.bytes);
  std::vector<std::pair<std::string, std::string>> files;
  for (const auto& [name, kernel] : kernels.by_name()) {
    files.emplace_back(name + ".h", export_header(kernel));
    files.emplace_back(name + ".c", export_source(kernel));
    files.emplace_back(name + "_check.c", export_check(kernel));
  }
  files.emplace_back(model.name + ".h", model_header(model, ports));
  files.emplace_back(model.name + ".c", model_source(model, ports, frame, kernels, memory));
  files.emplace_back(model.name + ".constants", memory.constants());
  files.emplace_back("Makefile", model_makefile(model, kernels));
  return files;
}

}  // namespace tilewright::cli
