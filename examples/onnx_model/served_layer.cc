#include "examples/onnx_model/served_layer.h"

#include <algorithm>

#include "database/record.h"
#include "ir/ops/spec.h"
#include "runtime/machine/identity.h"
#include "runtime/tensor/operands.h"

namespace db = tilewright::database;
using tilewright::Error;
using tilewright::HostArray;
using tilewright::KernelParam;
using tilewright::OperandInfo;

namespace {

db::BestResult find(const db::Store& store, const std::string& workload_hash) {
  tilewright::TargetFacts facts = tilewright::target_facts(tilewright::Target::parse("native"));
  db::BestQuery query;
  query.workload_hash = workload_hash;
  query.target = db::make_target(facts.chip, facts.features, facts.cores, facts.extra);
  return store.best(query);
}

int64_t workspace_needed(const tilewright::Kernel& kernel, int threads) {
  int64_t bytes = tilewright::workspace_bytes(kernel.description().main, threads);
  for (const auto& pack : kernel.description().packs) {
    bytes = std::max(bytes, tilewright::workspace_bytes(pack, threads));
  }
  return bytes;
}

}  // namespace

ServedLayer::ServedLayer(const tilewright::onnx::Layer& layer, const db::Store& store,
                         const std::string& store_path,
                         const std::map<std::string, Array>& constants)
    : layer_(layer), workload_(tilewright::parse_workload(layer.spec)),
      spec_(tilewright::spec_to_inline(tilewright::parse_spec(layer.spec))) {
  db::BestResult best = find(store, workload_.hash());
  if (!best.record || !best.artifact) {
    throw Error(store_path + " has no kernel for " + spec_ + ": " + best.miss +
                "; this makes it: tune-cli tune '" + spec_ + "' --db " + store_path);
  }
  std::string_view object(reinterpret_cast<const char*>(best.artifact->bytes.data()),
                          best.artifact->bytes.size());
  kernel_ = std::make_unique<tilewright::Kernel>(
      object, tilewright::KernelDescription::from_json(best.artifact->description));
  pool_ = std::make_unique<tilewright::ThreadPool>(best.record->threads);
  workspace_ = tilewright::Workspace(workspace_needed(*kernel_, pool_->threads()));
  make_operands(constants);
  pack();
}

void ServedLayer::make_operands(const std::map<std::string, Array>& constants) {
  for (const OperandInfo& info : tilewright::operands_of(workload_, {})) {
    operands_.emplace(info.name, HostArray(info.name, info.elem, info.shape));
    if (info.role == tilewright::ParamRole::Output) continue;
    auto value = layer_.operands.find(info.name);
    if (value == layer_.operands.end()) throw Error(spec_ + ": what is " + info.name + "?");
    if (constants.count(value->second) > 0) {
      fill(info.name, constants);
    } else {
      calculated_.push_back(info.name);
    }
  }
}

// Elements of values lie as the operand wants them, but for packed codes and what belongs to them:
// the model has them by columns.
void ServedLayer::fill(const std::string& operand, const std::map<std::string, Array>& values) {
  HostArray& to = operands_.at(operand);
  const tilewright::onnx::Node& node = *layer_.nodes[0];
  if (operand == "B.zero") throw Error(spec_ + ": zero points of their own are not here");
  if (node.op == "MatMulNBits" && (operand == "B" || operand == "B.scale")) {
    std::vector<Array> inputs(1);  // but for the activations
    for (size_t i = 1; i < node.inputs.size(); ++i) {
      inputs.push_back(node.has_input(i) ? values.at(node.inputs[i]) : Array());
    }
    const int64_t rows = to.shape()[0], columns = to.shape()[1];
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        to.set(i * columns + j, operand == "B"
                                    ? nbits_code(node, inputs, j, i)
                                    : inputs[2].values[static_cast<size_t>(j * rows + i)]);
      }
    }
    return;
  }
  const Array& from = values.at(layer_.operands.at(operand));
  for (int64_t i = 0; i < to.count(); ++i) to.set(i, from.values.at(static_cast<size_t>(i)));
}

void ServedLayer::pack() {
  const auto& packs = kernel_->description().packs;
  for (size_t i = 0; i < packs.size(); ++i) {
    const KernelParam& to = packs[i].params.back();
    operands_.emplace(to.name, HostArray(to.name, to.elem, tilewright::concrete_shape(to, {})));
    std::vector<void*> args;
    for (const KernelParam& p : packs[i].params) args.push_back(operands_.at(p.name).data());
    kernel_->pack(i, args.data(), context());
  }
}

std::vector<double> ServedLayer::run(const std::map<std::string, Array>& values) {
  for (const std::string& operand : calculated_) fill(operand, values);
  std::vector<void*> args;
  for (const KernelParam& p : kernel_->description().main.params) {
    args.push_back(operands_.at(p.name).data());
  }
  kernel_->launch(args.data(), nullptr, context());
  const HostArray& out = operands_.at(workload_.output()->name);
  std::vector<double> result;
  for (int64_t i = 0; i < out.count(); ++i) result.push_back(out.get(i));
  return result;
}
