// A runtime for tests: tables whose entries work on plain structs. An entry that it lacks ends the test.
#pragma once

#include <array>
#include <cstdlib>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "provider/runtime.h"

extern "C" {
tilewright::provider::ort::Status* CreateEpFactories(const char*,
                                                     const tilewright::provider::ort::ApiBase*,
                                                     const tilewright::provider::ort::Logger*,
                                                     tilewright::provider::ort::Factory**, size_t,
                                                     size_t*) noexcept;
tilewright::provider::ort::Status* ReleaseEpFactory(tilewright::provider::ort::Factory*) noexcept;
}

namespace tilewright::provider::testing {

struct FakeValue {
  int32_t elem = ort::kF32;
  std::vector<int64_t> shape;
  std::vector<char> data;
};

struct FakeInfo {
  std::string name;
  int32_t elem = ort::kF32;  // 0: no tensor
  std::vector<int64_t> sizes;
  std::vector<const char*> names;  // of sizes of -1
  bool is_output = false;
  const FakeValue* constant = nullptr;
};

struct FakeNode {
  std::string name, op, domain;
  std::vector<const FakeInfo*> inputs, outputs;
  size_t graphs = 0;
};

// The objects behind the runtime's pointers, and what was called on them.
struct FakeGraph {
  FakeInfo* value(const std::string& name, std::vector<int64_t> sizes) {
    values.push_back({name, ort::kF32, std::move(sizes), {}});
    values.back().names.resize(values.back().sizes.size(), "");
    return &values.back();
  }
  const FakeNode* node(const std::string& op, std::vector<const FakeInfo*> inputs,
                       std::vector<const FakeInfo*> outputs) {
    nodes.push_back(
        {"node" + std::to_string(nodes.size()), op, "", std::move(inputs), std::move(outputs)});
    return &nodes.back();
  }
  std::deque<FakeInfo> values;
  std::deque<FakeNode> nodes;
};

struct FakeContext {
  std::vector<const FakeValue*> inputs;
  std::vector<FakeValue> outputs;  // their shapes and data are set by the run
};

using FakePairs = std::map<std::string, std::string>;  // of a session's configuration

class StandIn {
 public:
  StandIn();
  StandIn(const StandIn&) = delete;
  StandIn& operator=(const StandIn&) = delete;

  const Runtime& runtime() const { return runtime_; }
  const ort::ApiBase* base() const { return &base_; }
  // Replaces an entry, as by one that fails.
  template <class E>
  void set(typename E::Function function) {
    entries_.at(E::number) = reinterpret_cast<ort::AnyFunction>(function);
  }

  std::vector<std::string> log;
  std::vector<const FakeNode*> claimed;
  int loops = 0;                    // calls of ParallelFor
  uint32_t newest = ort::kVersion;  // API version
  const char* release = "1.24.0";

  static StandIn* current;

 private:
  std::array<ort::AnyFunction, ort::kApiEntries> entries_{};
  std::array<ort::AnyFunction, ort::kEpApiEntries> ep_entries_{};
  ort::ApiBase base_{};
  Runtime runtime_;
};

ort::Status* failure(const std::string& message);
// The text of a status, which ends; "" for success.
std::string message_of(ort::Status* status);

inline const ort::Graph* as_graph(const FakeGraph& graph) {
  return reinterpret_cast<const ort::Graph*>(&graph);
}
inline const ort::Node* as_node(const FakeNode* node) {
  return reinterpret_cast<const ort::Node*>(node);
}
inline ort::KernelContext* as_context(FakeContext& context) {
  return reinterpret_cast<ort::KernelContext*>(&context);
}
inline const ort::SessionOptions* as_options(const FakePairs& pairs) {
  return reinterpret_cast<const ort::SessionOptions*>(&pairs);
}

}  // namespace tilewright::provider::testing
