// A region in the format of ONNX files: a message is a row of fields, each with its number.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <map>
#include <set>
#include <string_view>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "provider/options.h"
#include "provider/region.h"

namespace tilewright::provider {
namespace {

// Numbers of fields, by message.
enum ModelField { kIrVersion = 1, kProducer = 2, kGraph = 7, kOperatorSet = 8 };
enum GraphField {
  kNode = 1,
  kGraphName = 2,
  kInitializer = 5,
  kInput = 11,
  kOutput = 12,
  kValueInfo = 13
};
enum NodeField {
  kNodeInput = 1,
  kNodeOutput = 2,
  kNodeName = 3,
  kOp = 4,
  kAttribute = 5,
  kDomain = 7
};
enum AttributeField {
  kAttributeName = 1,
  kF = 2,
  kI = 3,
  kS = 4,
  kT = 5,
  kFloatsField = 7,
  kIntsField = 8,
  kStringsField = 9,
  kKind = 20
};
enum TensorField { kDims = 1, kDataType = 2, kTensorName = 8, kRawData = 9 };

void add_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}
void add_key(std::string& out, int field, int wire) {
  add_varint(out, static_cast<uint64_t>(field) << 3 | wire);
}
void add_number(std::string& out, int field, int64_t value) {
  add_key(out, field, 0);
  add_varint(out, static_cast<uint64_t>(value));
}
void add_length(std::string& out, int field, size_t bytes) {
  add_key(out, field, 2);
  add_varint(out, bytes);
}
void add_bytes(std::string& out, int field, std::string_view bytes) {
  add_length(out, field, bytes.size());
  out += bytes;
}
void add_float(std::string& out, int field, const char* bytes) {
  add_key(out, field, 5);
  out.append(bytes, sizeof(float));
}

// All of a tensor but its data, which follows as the last field.
std::string tensor_head(const std::string& name, const TensorView& tensor) {
  std::string head;
  for (const int64_t size : tensor.shape) add_number(head, kDims, size);
  add_number(head, kDataType, tensor.elem);
  if (!name.empty()) add_bytes(head, kTensorName, name);
  add_length(head, kRawData, tensor.bytes);
  return head;
}

int64_t read_int(const char* bytes) {
  int64_t value = 0;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

std::string attribute_message(const AttributeView& view) {
  std::string out;
  add_bytes(out, kAttributeName, view.name);
  const auto kind = [&](int64_t number) { add_number(out, kKind, number); };
  switch (view.type) {
    case ort::kInt:
      add_number(out, kI, read_int(view.data.data()));
      kind(2);
      break;
    case ort::kInts:
      for (size_t i = 0; i < view.data.size(); i += sizeof(int64_t)) {
        add_number(out, kIntsField, read_int(view.data.data() + i));
      }
      kind(7);
      break;
    case ort::kFloat:
      add_float(out, kF, view.data.data());
      kind(1);
      break;
    case ort::kFloats:
      for (size_t i = 0; i < view.data.size(); i += sizeof(float))
        add_float(out, kFloatsField, view.data.data() + i);
      kind(6);
      break;
    case ort::kString:
      add_bytes(out, kS, view.data);
      kind(3);
      break;
    case ort::kStrings:
      for (size_t i = 0; i < view.data.size();) {
        const std::string_view text(view.data.c_str() + i);
        add_bytes(out, kStringsField, text);
        i += text.size() + 1;
      }
      kind(8);
      break;
    case ort::kTensorValue:
      add_bytes(out, kT, tensor_head("", view.tensor) + view.data);
      kind(4);
      break;
    default:
      throw ProviderError("the attribute '" + view.name + "' is of a type that is not known here");
  }
  return out;
}

std::string node_message(const std::string& op, const std::string& domain, const std::string& name,
                         const std::vector<std::string>& inputs,
                         const std::vector<std::string>& outputs,
                         const std::vector<AttributeView>& attributes) {
  std::string out;
  for (const std::string& input : inputs) add_bytes(out, kNodeInput, input);
  for (const std::string& output : outputs) add_bytes(out, kNodeOutput, output);
  if (!name.empty()) add_bytes(out, kNodeName, name);
  add_bytes(out, kOp, op);
  for (const AttributeView& attribute : attributes)
    add_bytes(out, kAttribute, attribute_message(attribute));
  if (!domain.empty()) add_bytes(out, kDomain, domain);
  return out;
}

// ValueInfoProto { name, TypeProto { TypeProto.Tensor { elem_type, TensorShapeProto { dim… } } } }
std::string value_message(const std::string& name, const ValueType& type) {
  std::string shape;
  for (size_t d = 0; d < type.sizes.size(); ++d) {
    std::string dim;
    if (type.sizes[d] >= 0)
      add_number(dim, 1, type.sizes[d]);
    else if (!type.names[d].empty())
      add_bytes(dim, 2, type.names[d]);
    add_bytes(shape, 1, dim);
  }
  std::string tensor, wrapped, out;
  add_number(tensor, 1, type.elem);
  if (type.has_shape) add_bytes(tensor, 2, shape);
  add_bytes(wrapped, 1, tensor);
  add_bytes(out, 1, name);
  add_bytes(out, 2, wrapped);
  return out;
}

std::string borders(const GraphView& graph, const Region& region) {
  std::string out;
  for (const std::string& input : region.inputs)
    add_bytes(out, kInput, value_message(input, graph.type(input)));
  for (const std::string& output : region.outputs) {
    add_bytes(out, kOutput, value_message(output, graph.type(output)));
  }
  return out;
}

std::string model_head(int64_t ir_version, const std::map<std::string, int64_t>& sets) {
  std::string out;
  add_number(out, kIrVersion, ir_version);
  add_bytes(out, kProducer, "tilewright");
  for (const auto& [domain, version] : sets) {
    std::string set;
    if (!domain.empty()) add_bytes(set, 1, domain);
    add_number(set, 2, version);
    add_bytes(out, kOperatorSet, set);
  }
  return out;
}

std::string context_message(const Context& context) {
  const auto word = [](const std::string& name, std::string value) {
    return AttributeView{name, ort::kString, std::move(value), {}};
  };
  const auto number = [](const std::string& name, int64_t value) {
    return AttributeView{
        name, ort::kInt, std::string(reinterpret_cast<const char*>(&value), sizeof value), {}};
  };
  return node_message(kContextOp, kContextDomain, "tilewright", context.region->inputs,
                      context.region->outputs,
                      {number("embed_mode", 0), word("ep_cache_context", context.path),
                       number("main_context", 1), word("source", kProviderName)});
}

// A statement of a region: a node, or a context in the place of several.
struct Item {
  const NodeView* node = nullptr;
  const Context* context = nullptr;
  const std::vector<std::string>& inputs() const {
    return context == nullptr ? node->inputs : context->region->inputs;
  }
};

// In an order in which each follows what it reads: a context may have to wait for nodes behind its first one.
std::vector<Item> items_of(const Region& region, const std::vector<Context>& contexts) {
  std::map<const NodeView*, const Context*> places;
  for (const Context& context : contexts) {
    for (const NodeView* node : context.region->nodes) places[node] = &context;
  }
  std::vector<Item> waiting, items;
  std::set<const Context*> seen;
  std::set<std::string> unmade;
  for (const NodeView* node : region.nodes) {
    unmade.insert(node->outputs.begin(), node->outputs.end());
    const auto place = places.find(node);
    if (place == places.end())
      waiting.push_back({node, nullptr});
    else if (seen.insert(place->second).second)
      waiting.push_back({nullptr, place->second});
  }
  unmade.erase("");
  const auto add = [&](const Item& item) {
    const auto open = [&](const std::string& input) { return unmade.contains(input); };
    if (std::ranges::any_of(item.inputs(), open)) return false;
    items.push_back(item);
    const auto made = [&](const NodeView* node) {
      for (const std::string& output : node->outputs) unmade.erase(output);
    };
    if (item.context == nullptr)
      made(item.node);
    else
      std::ranges::for_each(item.context->region->nodes, made);
    return true;
  };
  while (std::erase_if(waiting, add) > 0) {
  }
  if (!waiting.empty()) throw ProviderError("parts of the graph read from each other");
  return items;
}

}  // namespace

void Rope::add(std::string text) {
  bytes_ += text.size();
  pieces_.push_back({std::move(text)});
}

void Rope::add(const void* data, size_t bytes) {
  if (bytes == 0) return;
  bytes_ += bytes;
  pieces_.push_back({{}, data, bytes});
}

void Rope::add(Rope other) {
  bytes_ += other.bytes_;
  for (Piece& piece : other.pieces_) pieces_.push_back(std::move(piece));
}

std::string Rope::text() const {
  std::string out;
  out.reserve(bytes_);
  each([&](const void* data, size_t bytes) { out.append(static_cast<const char*>(data), bytes); });
  return out;
}

Rope onnx_of(const GraphView& graph, const Region& region, const std::vector<Context>& contexts) {
  std::string nodes;
  std::map<std::string, int64_t> sets;
  const std::map<std::string, int64_t> all_sets = graph.operator_sets();
  const auto add_set = [&](const std::string& domain) {
    const auto set = all_sets.find(domain);
    sets[domain] = set == all_sets.end() ? 1 : set->second;
  };
  std::set<std::string> read;
  for (const Item& item : items_of(region, contexts)) {
    if (item.context != nullptr) {
      add_bytes(nodes, kNode, context_message(*item.context));
      sets[kContextDomain] = 1;
      add_set("");
      continue;
    }
    const NodeView* node = item.node;
    read.insert(node->inputs.begin(), node->inputs.end());
    add_bytes(nodes, kNode,
              node_message(node->op, node->domain, node->name, node->inputs, node->outputs,
                           attributes_of(graph.runtime(), node->node)));
    add_set(node->domain);
  }
  add_bytes(nodes, kGraphName, "region");
  nodes += borders(graph, region);
  // The runtime infers no types of what a context gives.
  for (const Context& context : contexts) {
    for (const std::string& output : context.region->outputs) {
      if (std::ranges::find(region.outputs, output) != region.outputs.end()) continue;
      add_bytes(nodes, kValueInfo, value_message(output, graph.type(output)));
    }
  }

  Rope inner;  // the graph
  inner.add(std::move(nodes));
  for (const std::string& name : region.constants) {
    if (!read.contains(name)) continue;
    const TensorView tensor = graph.constant(name);
    std::string head = tensor_head(name, tensor);
    std::string lead;
    add_length(lead, kInitializer, head.size() + tensor.bytes);
    inner.add(lead + head);
    inner.add(tensor.data, tensor.bytes);
  }
  // Earlier versions want every initializer among the inputs.
  std::string head = model_head(std::max<int64_t>(4, graph.ir_version()), sets);
  add_length(head, kGraph, inner.bytes());
  Rope model;
  model.add(std::move(head));
  model.add(std::move(inner));
  return model;
}

std::string digest_of(const Rope& onnx) {
  XXH3_state_t state;
  XXH3_128bits_reset(&state);
  onnx.each([&](const void* data, size_t bytes) { XXH3_128bits_update(&state, data, bytes); });
  const XXH128_hash_t hash = XXH3_128bits_digest(&state);
  std::array<char, 33> text{};
  std::snprintf(text.data(), text.size(), "%016llx%016llx",
                static_cast<unsigned long long>(hash.high64),
                static_cast<unsigned long long>(hash.low64));
  return text.data();
}

}  // namespace tilewright::provider
