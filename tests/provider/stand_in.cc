#include "tests/provider/stand_in.h"

#include <cstdio>

namespace tilewright::provider::testing {

StandIn* StandIn::current = nullptr;

namespace {

void missing() {
  std::fputs("the stand-in lacks an entry that the provider calls\n", stderr);
  std::abort();
}

template <class Object, class Pointer>
Object& at(Pointer* pointer) {
  return *const_cast<Object*>(reinterpret_cast<const Object*>(pointer));
}

struct ConfigArrays {
  std::vector<const char*> keys, values;
};

size_t width(int32_t elem) {
  return elem == ort::kI64 || elem == ort::kF64 ? 8 : elem == ort::kF32 ? 4 : 1;
}

ort::Status* give_infos(const std::vector<const FakeInfo*>& infos, const ort::ValueInfo** out) {
  for (const FakeInfo* info : infos) *out++ = reinterpret_cast<const ort::ValueInfo*>(info);
  return nullptr;
}

}  // namespace

ort::Status* failure(const std::string& message) {
  return reinterpret_cast<ort::Status*>(new std::string(message));
}

std::string message_of(ort::Status* status) {
  if (status == nullptr) return "";
  const auto* text = reinterpret_cast<std::string*>(status);
  std::string message = *text;
  delete text;
  return message;
}

StandIn::StandIn() {
  current = this;
  entries_.fill(&missing);
  ep_entries_.fill(&missing);
  base_.api = [](uint32_t version) -> const ort::Api* {
    return version > current->newest ? nullptr
                                     : reinterpret_cast<const ort::Api*>(current->entries_.data());
  };
  base_.version = [] { return current->release; };
  runtime_ = Runtime(reinterpret_cast<const ort::Api*>(entries_.data()), release);

  set<ort::CreateStatus>([](ort::Code, const char* message) { return failure(message); });
  set<ort::GetErrorMessage>(
      [](const ort::Status* status) { return at<std::string>(status).c_str(); });
  set<ort::ReleaseStatus>([](ort::Status* status) { delete &at<std::string>(status); });
  set<ort::LogMessage>([](const ort::Logger*, ort::Severity severity, const char* line, const char*,
                          int, const char*) -> ort::Status* {
    if (severity >= ort::kWarning) current->log.emplace_back(line);
    return nullptr;
  });
  set<ort::GetConfigEntries>(
      [](const ort::SessionOptions* options, ort::Pairs** out) -> ort::Status* {
        auto* arrays = new ConfigArrays;
        for (const auto& [key, value] : at<FakePairs>(options)) {
          arrays->keys.push_back(key.c_str());
          arrays->values.push_back(value.c_str());
        }
        *out = reinterpret_cast<ort::Pairs*>(arrays);
        return nullptr;
      });
  set<ort::GetPairs>([](const ort::Pairs* pairs, const char* const** keys,
                        const char* const** values, size_t* count) {
    const auto& arrays = at<ConfigArrays>(pairs);
    *keys = arrays.keys.data();
    *values = arrays.values.data();
    *count = arrays.keys.size();
  });
  set<ort::ReleasePairs>([](ort::Pairs* pairs) { delete &at<ConfigArrays>(pairs); });

  set<ort::GetParentNode>([](const ort::Graph*, const ort::Node** out) -> ort::Status* {
    *out = nullptr;
    return nullptr;
  });
  set<ort::GetNumNodes>([](const ort::Graph* graph, size_t* out) -> ort::Status* {
    *out = at<FakeGraph>(graph).nodes.size();
    return nullptr;
  });
  set<ort::GetNodes>([](const ort::Graph* graph, const ort::Node** out, size_t) -> ort::Status* {
    for (const FakeNode& node : at<FakeGraph>(graph).nodes) *out++ = as_node(&node);
    return nullptr;
  });
  set<ort::GetOnnxIrVersion>([](const ort::Graph*, int64_t* out) -> ort::Status* {
    *out = 8;
    return nullptr;
  });
  set<ort::GetNumOperatorSets>([](const ort::Graph*, size_t* out) -> ort::Status* {
    *out = 1;
    return nullptr;
  });
  set<ort::GetOperatorSets>(
      [](const ort::Graph*, const char** domains, int64_t* versions, size_t) -> ort::Status* {
        domains[0] = "";
        versions[0] = 17;
        return nullptr;
      });
  set<ort::NodeName>([](const ort::Node* node, const char** out) -> ort::Status* {
    *out = at<FakeNode>(node).name.c_str();
    return nullptr;
  });
  set<ort::NodeOperator>([](const ort::Node* node, const char** out) -> ort::Status* {
    *out = at<FakeNode>(node).op.c_str();
    return nullptr;
  });
  set<ort::NodeDomain>([](const ort::Node* node, const char** out) -> ort::Status* {
    *out = at<FakeNode>(node).domain.c_str();
    return nullptr;
  });
  set<ort::NodeNumInputs>([](const ort::Node* node, size_t* out) -> ort::Status* {
    *out = at<FakeNode>(node).inputs.size();
    return nullptr;
  });
  set<ort::NodeInputs>([](const ort::Node* node, const ort::ValueInfo** out, size_t) {
    return give_infos(at<FakeNode>(node).inputs, out);
  });
  set<ort::NodeNumOutputs>([](const ort::Node* node, size_t* out) -> ort::Status* {
    *out = at<FakeNode>(node).outputs.size();
    return nullptr;
  });
  set<ort::NodeOutputs>([](const ort::Node* node, const ort::ValueInfo** out, size_t) {
    return give_infos(at<FakeNode>(node).outputs, out);
  });
  const auto none = [](const ort::Node*, size_t* out) -> ort::Status* {
    *out = 0;
    return nullptr;
  };
  set<ort::NodeNumImplicitInputs>(none);
  set<ort::NodeNumAttributes>(none);
  set<ort::NodeNumSubgraphs>([](const ort::Node* node, size_t* out) -> ort::Status* {
    *out = at<FakeNode>(node).graphs;
    return nullptr;
  });

  set<ort::GetValueInfoName>([](const ort::ValueInfo* info, const char** out) -> ort::Status* {
    *out = at<FakeInfo>(info).name.c_str();
    return nullptr;
  });
  // A type is the value that has it.
  set<ort::GetValueInfoTypeInfo>(
      [](const ort::ValueInfo* info, const ort::TypeInfo** out) -> ort::Status* {
        *out = reinterpret_cast<const ort::TypeInfo*>(info);
        return nullptr;
      });
  set<ort::GetOnnxTypeFromTypeInfo>([](const ort::TypeInfo* type, ort::Kind* out) -> ort::Status* {
    *out = static_cast<ort::Kind>(at<FakeInfo>(type).elem == 0 ? 2 : 1);
    return nullptr;
  });
  set<ort::CastTypeInfoToTensorInfo>(
      [](const ort::TypeInfo* type, const ort::TensorInfo** out) -> ort::Status* {
        *out = reinterpret_cast<const ort::TensorInfo*>(type);
        return nullptr;
      });
  set<ort::GetTensorElementType>(
      [](const ort::TensorInfo* type, ort::Element* out) -> ort::Status* {
        *out = static_cast<ort::Element>(at<FakeInfo>(type).elem);
        return nullptr;
      });
  set<ort::GetDimensionsCount>([](const ort::TensorInfo* type, size_t* out) -> ort::Status* {
    *out = at<FakeInfo>(type).sizes.size();
    return nullptr;
  });
  set<ort::GetDimensions>([](const ort::TensorInfo* type, int64_t* out, size_t) -> ort::Status* {
    for (const int64_t size : at<FakeInfo>(type).sizes) *out++ = size;
    return nullptr;
  });
  set<ort::GetSymbolicDimensions>(
      [](const ort::TensorInfo* type, const char** out, size_t) -> ort::Status* {
        for (const char* name : at<FakeInfo>(type).names) *out++ = name;
        return nullptr;
      });
  set<ort::IsGraphOutput>([](const ort::ValueInfo* info, bool* out) -> ort::Status* {
    *out = at<FakeInfo>(info).is_output;
    return nullptr;
  });
  set<ort::IsConstantInitializer>([](const ort::ValueInfo* info, bool* out) -> ort::Status* {
    *out = at<FakeInfo>(info).constant != nullptr;
    return nullptr;
  });
  set<ort::GetInitializerValue>(
      [](const ort::ValueInfo* info, const ort::Value** out) -> ort::Status* {
        *out = reinterpret_cast<const ort::Value*>(at<FakeInfo>(info).constant);
        return nullptr;
      });

  set<ort::GetTensorShape>([](const ort::Value* value, ort::Element* elem, const int64_t** sizes,
                              size_t* rank) -> ort::Status* {
    const auto& fake = at<FakeValue>(value);
    *elem = static_cast<ort::Element>(fake.elem);
    *sizes = fake.shape.data();
    *rank = fake.shape.size();
    return nullptr;
  });
  set<ort::GetTensorSizeInBytes>([](const ort::Value* value, size_t* out) -> ort::Status* {
    *out = at<FakeValue>(value).data.size();
    return nullptr;
  });
  set<ort::GetTensorData>([](const ort::Value* value, const void** out) -> ort::Status* {
    *out = at<FakeValue>(value).data.data();
    return nullptr;
  });
  set<ort::GetTensorMutableData>([](ort::Value* value, void** out) -> ort::Status* {
    *out = at<FakeValue>(value).data.data();
    return nullptr;
  });
  set<ort::KernelContextGetInput>(
      [](const ort::KernelContext* context, size_t i, const ort::Value** out) -> ort::Status* {
        *out = reinterpret_cast<const ort::Value*>(at<FakeContext>(context).inputs.at(i));
        return nullptr;
      });
  set<ort::KernelContextGetOutput>([](ort::KernelContext* context, size_t i, const int64_t* sizes,
                                      size_t rank, ort::Value** out) -> ort::Status* {
    FakeValue& value = at<FakeContext>(context).outputs.at(i);
    value.shape.assign(sizes, sizes + rank);
    size_t bytes = width(value.elem);
    for (const int64_t size : value.shape) bytes *= static_cast<size_t>(size);
    value.data.resize(bytes);
    *out = reinterpret_cast<ort::Value*>(&value);
    return nullptr;
  });
  set<ort::ParallelFor>([](const ort::KernelContext*, void (*fn)(void*, size_t), size_t total,
                           size_t, void* user) -> ort::Status* {
    ++current->loops;
    for (size_t i = total; i-- > 0;) fn(user, i);  // in any order
    return nullptr;
  });

  set<ort::HardwareDeviceType>(
      [](const ort::HardwareDevice* device) { return at<ort::Hardware>(device); });
  set<ort::GetEpApi>(
      [] { return reinterpret_cast<const ort::EpApi*>(current->ep_entries_.data()); });
  const ort::AddNodesToFuse::Function add = [](ort::Support*, const ort::Node* const* nodes,
                                               size_t count,
                                               const ort::FusionOptions*) -> ort::Status* {
    for (size_t i = 0; i < count; ++i) current->claimed.push_back(&at<FakeNode>(nodes[i]));
    return nullptr;
  };
  ep_entries_[ort::AddNodesToFuse::number] = reinterpret_cast<ort::AnyFunction>(add);
  const ort::CreateEpDevice::Function create = [](ort::Factory*, const ort::HardwareDevice* device,
                                                  const ort::Pairs*, const ort::Pairs*,
                                                  ort::EpDevice** out) -> ort::Status* {
    *out = reinterpret_cast<ort::EpDevice*>(const_cast<ort::HardwareDevice*>(device));
    return nullptr;
  };
  ep_entries_[ort::CreateEpDevice::number] = reinterpret_cast<ort::AnyFunction>(create);
}

}  // namespace tilewright::provider::testing
