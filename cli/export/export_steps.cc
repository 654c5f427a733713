#include "cli/export/export_steps.h"

#include <fmt/format.h>

#include "base/ceil_div.h"
#include "graph/loops/loops.h"

namespace tilewright::cli {
namespace {

int64_t aligned(int64_t bytes) {
  return ceil_div(bytes, graph::kValueAlignment) * graph::kValueAlignment;
}

std::string copy(const std::string& to, const std::string& from, int64_t bytes) {
  return to == from ? "" : fmt::format("memcpy({}, {}, {});\n", to, from, bytes);
}

// Writes the steps of a graph, and of bodies inside it.
class Writer {
 public:
  Writer(const ExportedKernels& kernels, ExportedMemory& memory)
      : kernels_(kernels), memory_(memory) {}

  void add(const ExportedFrame& frame, int depth) {
    for (size_t n = 0; n < frame.graph.nodes.size(); ++n) {
      const graph::Node& node = frame.graph.nodes[n];
      if (node.is_workload()) add_call(frame, node, depth);
      if (node.is_loop()) add_loop(frame, n, depth);
    }
  }

  ExportedSteps steps;

 private:
  void line(int depth, const std::string& text) {
    if (!text.empty()) steps.runs += std::string(2 * static_cast<size_t>(depth), ' ') + text;
  }

  static std::string argument(const std::string& address) { return "(void*)(" + address + "), "; }

  void add_call(const ExportedFrame& frame, const graph::Node& node, int depth) {
    const ExportedKernel& k = kernels_.of(node);
    const KernelDescription& d = k.kernel.description;
    std::map<std::string, std::string>
        packed;  // addresses, by the names of the kernel's parameters
    for (const KernelFunction& pack : d.packs) {
      std::string arguments;
      for (size_t p = 0; p + 1 < pack.params.size(); ++p) {
        arguments += argument(memory_.of(frame, node.operands.at(pack.params[p].name)));
      }
      const std::string to = memory_.reserve(packed_bytes(k, pack));
      packed[pack.params.back().name] = to;
      steps.packs +=
          fmt::format("  status |= {}({}(void*)({}));\n", pack_name(k, pack), arguments, to);
    }
    std::string arguments;
    for (const KernelParam& p : d.main.params) {
      const bool written = p.role == ParamRole::Output;
      const auto made = packed.find(p.name);
      const auto value = [&] { return written ? node.output : node.operands.at(p.name); };
      arguments += argument(made != packed.end() ? made->second : memory_.of(frame, value()));
    }
    line(depth, fmt::format("if ((status = {}({}&own)) != 0) return status;  /* {} */\n",
                            export_name(*k.workload), arguments, in_comment(node.label)));
  }

  // The number of rounds, which a value of a run may lower.
  std::string rounds_of(const ExportedFrame& frame, const graph::Node& node) {
    const auto count = node.operands.find(graph::kRounds);
    const int64_t most = node.loop->rounds;
    if (count == node.operands.end()) return fmt::to_string(most);
    const int64_t bytes = frame.graph.values[count->second].bytes();
    const char* type = bytes == 1 ? "uint8_t" : bytes == 4 ? "int32_t" : "int64_t";
    const std::string said =
        fmt::format("*(const {}*)({})", type, memory_.of(frame, count->second));
    return fmt::format("{0} < 0 ? 0 : {0} > {1} ? {1} : {0}", said, most);
  }

  void add_loop(const ExportedFrame& frame, size_t n, int depth) {
    const graph::Node& node = frame.graph.nodes[n];
    const graph::Loop& loop = *node.loop;
    const graph::Graph& body = loop.body;
    const auto& [block, plan] = frame.plan.bodies.at(n);
    ExportedFrame own{body, plan, frame.base + block, {}};
    const auto given = [&](size_t input) {
      return memory_.of(frame, node.operands.at(body.values[body.inputs[input]].name));
    };
    const auto is = [&](size_t i, graph::Loop::In kind) { return loop.inputs[i].kind == kind; };
    using In = graph::Loop::In;
    for (size_t i = 0; i < loop.inputs.size(); ++i) {
      if (is(i, In::Whole)) own.whole[body.inputs[i]] = given(i);
    }
    const int id = loops_++;
    const auto row = [&](bool back) {
      return back ? fmt::format("(rounds_{0} - 1 - t_{0})", id) : fmt::format("t_{}", id);
    };
    const auto bytes = [&](size_t value) { return body.values[value].bytes(); };
    for (size_t i = 0; i < loop.inputs.size(); ++i) {
      const size_t value = body.inputs[i];
      if (is(i, In::Carried)) line(depth, copy(memory_.of(own, value), given(i), bytes(value)));
    }
    if (loop.go_on || node.operands.contains(graph::kRounds)) {
      for (size_t o = 0; o < loop.outputs.size(); ++o) {
        if (!loop.outputs[o].rows) continue;
        line(depth, fmt::format("memset({}, 0, {});\n", output(frame, node, o),
                                loop.rounds * bytes(body.outputs[loop.outputs[o].from])));
      }
    }
    line(depth, fmt::format("const int64_t rounds_{} = {};  /* {} */\n", id, rounds_of(frame, node),
                            in_comment(node.label)));
    line(depth, fmt::format("for (int64_t t_{0} = 0; t_{0} < rounds_{0}; ++t_{0}) {{\n", id));
    for (size_t i = 0; i < loop.inputs.size(); ++i) {
      const size_t value = body.inputs[i];
      const std::string to = memory_.of(own, value);
      if (is(i, In::Number)) line(depth + 1, copy(to, fmt::format("&t_{}", id), bytes(value)));
      if (!is(i, In::Rows) && !is(i, In::RowsBack)) continue;
      line(depth + 1,
           copy(to, fmt::format("{} + {} * {}", given(i), row(is(i, In::RowsBack)), bytes(value)),
                bytes(value)));
    }
    add(own, depth + 1);
    add_ends(frame, own, node, depth + 1, row);
    line(depth, "}\n");
    for (size_t o = 0; o < loop.outputs.size(); ++o) {
      if (loop.outputs[o].rows) continue;
      const size_t input = body.inputs[graph::carried_input(loop, loop.outputs[o].from)];
      line(depth, copy(output(frame, node, o), memory_.of(own, input), bytes(input)));
    }
  }

  std::string output(const ExportedFrame& frame, const graph::Node& node, size_t o) {
    return memory_.of(frame, o == 0 ? node.output : node.more[o - 1]);
  }

  // The end of a round: its rows, and the values that the next one is given.
  template <class Row>
  void add_ends(const ExportedFrame& frame, const ExportedFrame& own, const graph::Node& node,
                int depth, const Row& row) {
    const graph::Loop& loop = *node.loop;
    const graph::Graph& body = loop.body;
    for (size_t o = 0; o < loop.outputs.size(); ++o) {
      const graph::Loop::Output& out = loop.outputs[o];
      if (!out.rows) continue;
      const size_t made = body.outputs[out.from];
      const int64_t bytes = body.values[made].bytes();
      const std::string to =
          fmt::format("{} + {} * {}", output(frame, node, o), row(out.back), bytes);
      line(depth, copy(to, memory_.of(own, made), bytes));
    }
    // A value for the next round may lie in an input itself, which another copy overwrites first.
    std::string copies;
    for (size_t i = 0; i < loop.inputs.size(); ++i) {
      if (loop.inputs[i].kind != graph::Loop::In::Carried) continue;
      const size_t value = body.inputs[i], made = body.outputs[loop.inputs[i].next];
      const int64_t bytes = body.values[value].bytes();
      std::string from = memory_.of(own, made);
      const std::string to = memory_.of(own, value), pad(2 * static_cast<size_t>(depth), ' ');
      if (from == to) continue;
      if (is_carried(own, made)) {
        const std::string stage = memory_.reserve(bytes);
        line(depth, copy(stage, from, bytes));
        from = stage;
      }
      copies += pad + copy(to, from, bytes);
    }
    if (loop.go_on) {
      const std::string go_on = memory_.of(own, body.outputs[*loop.go_on]);
      line(depth, fmt::format("const int ends = *(const uint8_t*)({}) == 0;\n", go_on));
    }
    steps.runs += copies;
    if (loop.go_on) line(depth, "if (ends) break;\n");
  }

  // Whether a value of the body stands in the place of one of its inputs.
  static bool is_carried(const ExportedFrame& own, size_t value) {
    const size_t root = own.plan.places[value].root;
    for (size_t input : own.graph.inputs) {
      if (own.plan.places[input].root == root) return true;
    }
    return false;
  }

  const ExportedKernels& kernels_;
  ExportedMemory& memory_;
  int loops_ = 0;
};

}  // namespace

ExportedMemory::ExportedMemory(const ExportedModel& model, int64_t bytes)
    : model_(model), bytes_(aligned(bytes)) {}

std::string ExportedMemory::of(const ExportedFrame& frame, size_t value) {
  const auto [root, first] = frame.plan.places[value];
  const int64_t offset = frame.plan.offsets[root];
  if (offset >= 0) return fmt::format("values + {}", frame.base + offset + first);
  if (const auto outer = frame.whole.find(root); outer != frame.whole.end()) {
    return first == 0 ? outer->second : fmt::format("{} + {}", outer->second, first);
  }
  const auto [at, fresh] =
      at_.emplace(std::pair(&frame.graph, root), static_cast<int64_t>(constants_.size()));
  if (fresh) {
    constants_ += model_.data(frame.graph.values[root]);
    constants_.resize(static_cast<size_t>(aligned(static_cast<int64_t>(constants_.size()))));
  }
  return fmt::format("{}_constants + {}", model_.name, at->second + first);
}

std::string ExportedMemory::reserve(int64_t bytes) {
  const int64_t at = bytes_;
  bytes_ += aligned(bytes);
  return fmt::format("values + {}", at);
}

ExportedKernels::ExportedKernels(const ExportedModel& model) {
  graph::for_each_node(model.graph, [&](const graph::Graph&, const graph::Node& node, double) {
    if (!node.is_workload() || by_spec_.contains(node.spec)) return;
    workloads_.push_back(parse_workload(node.spec));
    // Another model of the same program may have another kernel of this workload.
    std::string& label = workloads_.back().label;
    label = fmt::format("{}_{}", model.name, label.empty() ? workloads_.back().op : label);
    const std::string name = export_name(workloads_.back());
    auto known = by_name_.find(name);
    if (known == by_name_.end()) {
      known = by_name_.emplace(name, model.kernel(workloads_.back())).first;
      known->second.workload = &workloads_.back();
    }
    by_spec_[node.spec] = &known->second;
  });
}

ExportedSteps export_steps(const ExportedFrame& frame, const ExportedKernels& kernels,
                           ExportedMemory& memory) {
  Writer writer(kernels, memory);
  writer.add(frame, 1);
  return std::move(writer.steps);
}

}  // namespace tilewright::cli
