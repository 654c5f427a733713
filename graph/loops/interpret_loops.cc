#include <algorithm>
#include <cstring>

#include "graph/loops/loops.h"
#include "runtime/tensor/element.h"

namespace tilewright::graph {
namespace {

int64_t rounds_of(const Node& node, const std::map<std::string, Bytes>& operands,
                  ElemType count_type) {
  const auto given = operands.find(kRounds);
  if (given == operands.end()) return node.loop->rounds;
  const double most = load_element(count_type, given->second->data(), 0);
  return std::clamp<int64_t>(static_cast<int64_t>(most), 0, node.loop->rounds);
}

}  // namespace

std::vector<Bytes> interpret_loop(
    const Node& node, const std::map<std::string, Bytes>& operands,
    const std::vector<int64_t>& output_bytes,
    const std::function<std::vector<Bytes>(const Graph&, const std::map<std::string, Bytes>&)>&
        run) {
  const Loop& loop = *node.loop;
  const Graph& body = loop.body;
  // Counts of 1, 4 and 8 bytes are those that verify_loop admits.
  ElemType count_type = ElemType::i64;
  if (const auto count = operands.find(kRounds); count != operands.end()) {
    const size_t bytes = count->second->size();
    count_type = bytes == 1 ? ElemType::u8 : bytes == 4 ? ElemType::i32 : ElemType::i64;
  }
  const int64_t rounds = rounds_of(node, operands, count_type);
  std::map<std::string, Bytes> given;
  for (size_t i = 0; i < loop.inputs.size(); ++i) {
    const std::string& name = body.values[body.inputs[i]].name;
    if (loop.inputs[i].kind != Loop::In::Number) given[name] = operands.at(name);
  }
  std::vector<std::string> made;
  for (int64_t bytes : output_bytes) made.emplace_back(static_cast<size_t>(bytes), '\0');
  for (int64_t t = 0; t < rounds; ++t) {
    for (size_t i = 0; i < loop.inputs.size(); ++i) {
      const Value& v = body.values[body.inputs[i]];
      const Loop::In kind = loop.inputs[i].kind;
      if (kind == Loop::In::Number) {
        given[v.name] =
            std::make_shared<const std::string>(reinterpret_cast<const char*>(&t), sizeof t);
      } else if (kind == Loop::In::Rows || kind == Loop::In::RowsBack) {
        const int64_t row = kind == Loop::In::Rows ? t : rounds - 1 - t;
        const auto bytes = static_cast<size_t>(v.bytes());
        given[v.name] = std::make_shared<const std::string>(
            *operands.at(v.name), static_cast<size_t>(row) * bytes, bytes);
      }
    }
    const std::vector<Bytes> outputs = run(body, given);
    for (size_t o = 0; o < loop.outputs.size(); ++o) {
      if (!loop.outputs[o].rows) continue;
      const std::string& row = *outputs[loop.outputs[o].from];
      const int64_t at = loop.outputs[o].back ? rounds - 1 - t : t;
      std::memcpy(made[o].data() + static_cast<size_t>(at) * row.size(), row.data(), row.size());
    }
    for (size_t i = 0; i < loop.inputs.size(); ++i) {
      if (loop.inputs[i].kind != Loop::In::Carried) continue;
      given[body.values[body.inputs[i]].name] = outputs[loop.inputs[i].next];
    }
    if (loop.go_on && (*outputs[*loop.go_on])[0] == 0) break;
  }
  std::vector<Bytes> results;
  for (size_t o = 0; o < loop.outputs.size(); ++o) {
    if (!loop.outputs[o].rows) {
      const size_t input = carried_input(loop, loop.outputs[o].from);
      made[o] = *given.at(body.values[body.inputs[input]].name);
    }
    results.push_back(std::make_shared<const std::string>(std::move(made[o])));
  }
  return results;
}

void move_constants_in(const Graph& graph, Node* node, const std::vector<Bytes>& data) {
  const auto known = [&](size_t i) {
    if (node->loop->inputs[i].kind != Loop::In::Whole) return false;
    const std::string& name = node->loop->body.values[node->loop->body.inputs[i]].name;
    return data[node->operands.at(name)] != nullptr;
  };
  auto loop = std::make_shared<Loop>(*node->loop);
  std::vector<Loop::Input> inputs;
  std::vector<size_t> values;
  for (size_t i = 0; i < loop->inputs.size(); ++i) {
    Value& own = loop->body.values[loop->body.inputs[i]];
    if (!known(i)) {
      inputs.push_back(loop->inputs[i]);
      values.push_back(loop->body.inputs[i]);
      continue;
    }
    own.constant = true;
    own.data = data[node->operands.at(own.name)];
    node->operands.erase(own.name);
  }
  loop->inputs = std::move(inputs);
  loop->body.inputs = std::move(values);
  node->loop = std::move(loop);
}

}  // namespace tilewright::graph
