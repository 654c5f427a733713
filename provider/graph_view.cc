#include "provider/graph_view.h"

#include <algorithm>

namespace tilewright::provider {
namespace {

// The pointers that a pair of entries gives: how many, and which.
template <class Count, class Items, class Item, class Owner>
std::vector<const Item*> list_all(const Runtime& runtime, const Owner* owner) {
  std::vector<const Item*> items(runtime.get<Count, size_t>(owner));
  if (!items.empty()) runtime.checked<Items>(owner, items.data(), items.size());
  return items;
}

std::string text_of(const char* given) { return given == nullptr ? "" : given; }

}  // namespace

GraphView::GraphView(const Runtime& runtime, const ort::Graph* graph)
    : runtime_(runtime), graph_(graph) {
  for (const ort::Node* node :
       list_all<ort::GetNumNodes, ort::GetNodes, ort::Node>(runtime, graph)) {
    NodeView view{node, text_of(runtime.get<ort::NodeName, const char*>(node)),
                  text_of(runtime.get<ort::NodeOperator, const char*>(node)),
                  text_of(runtime.get<ort::NodeDomain, const char*>(node))};
    if (view.domain == "ai.onnx") view.domain.clear();
    view.inputs =
        names(list_all<ort::NodeNumInputs, ort::NodeInputs, ort::ValueInfo>(runtime, node));
    view.outputs =
        names(list_all<ort::NodeNumOutputs, ort::NodeOutputs, ort::ValueInfo>(runtime, node));
    view.implicit_inputs =
        names(list_all<ort::NodeNumImplicitInputs, ort::NodeImplicitInputs, ort::ValueInfo>(runtime,
                                                                                            node));
    view.holds_graphs = runtime.get<ort::NodeNumSubgraphs, size_t>(node) > 0;
    nodes_.push_back(std::move(view));
  }
}

std::vector<std::string> GraphView::names(const std::vector<const ort::ValueInfo*>& infos) {
  std::vector<std::string> found;
  for (const ort::ValueInfo* info : infos) {
    std::string name =
        info == nullptr ? "" : text_of(runtime_.get<ort::GetValueInfoName, const char*>(info));
    if (!name.empty()) infos_.emplace(name, info);
    found.push_back(std::move(name));
  }
  return found;
}

int64_t GraphView::ir_version() const {
  return runtime_.get<ort::GetOnnxIrVersion, int64_t>(graph_);
}

std::map<std::string, int64_t> GraphView::operator_sets() const {
  const auto count = runtime_.get<ort::GetNumOperatorSets, size_t>(graph_);
  std::vector<const char*> domains(count);
  std::vector<int64_t> versions(count);
  runtime_.checked<ort::GetOperatorSets>(graph_, domains.data(), versions.data(), count);
  std::map<std::string, int64_t> sets;
  for (size_t i = 0; i < count; ++i) {
    const std::string domain = text_of(domains[i]);
    sets[domain == "ai.onnx" ? "" : domain] = versions[i];
  }
  return sets;
}

bool GraphView::is_output(const std::string& value) const {
  return runtime_.get<ort::IsGraphOutput, bool>(info(value));
}

bool GraphView::is_constant(const std::string& value) const {
  return runtime_.get<ort::IsConstantInitializer, bool>(info(value));
}

ValueType GraphView::type(const std::string& value) const {
  ValueType type;
  const auto* info_type =
      runtime_.get<ort::GetValueInfoTypeInfo, const ort::TypeInfo*>(info(value));
  if (info_type == nullptr ||
      runtime_.get<ort::GetOnnxTypeFromTypeInfo, ort::Kind>(info_type) != ort::kTensor) {
    return type;
  }
  const auto* tensor =
      runtime_.get<ort::CastTypeInfoToTensorInfo, const ort::TensorInfo*>(info_type);
  if (tensor == nullptr) return type;
  type.elem = runtime_.get<ort::GetTensorElementType, ort::Element>(tensor);
  type.has_shape = true;
  const auto count = runtime_.get<ort::GetDimensionsCount, size_t>(tensor);
  type.sizes.resize(count);
  std::vector<const char*> names(count);
  runtime_.checked<ort::GetDimensions>(tensor, type.sizes.data(), count);
  runtime_.checked<ort::GetSymbolicDimensions>(tensor, names.data(), count);
  for (const char* name : names) type.names.push_back(text_of(name));
  return type;
}

TensorView GraphView::constant(const std::string& value) const {
  const auto* tensor = runtime_.get<ort::GetInitializerValue, const ort::Value*>(info(value));
  if (tensor == nullptr) throw ProviderError("'" + value + "' has no data");
  return view_of(runtime_, tensor);
}

TensorView view_of(const Runtime& runtime, const ort::Value* value) {
  TensorView view;
  ort::Element elem{};
  const int64_t* sizes = nullptr;
  size_t count = 0;
  runtime.checked<ort::GetTensorShape>(value, &elem, &sizes, &count);
  view.elem = elem;
  view.shape.assign(sizes, sizes + count);
  view.bytes = runtime.get<ort::GetTensorSizeInBytes, size_t>(value);
  view.data = runtime.get<ort::GetTensorData, const void*>(value);
  return view;
}

std::vector<AttributeView> attributes_of(const Runtime& runtime, const ort::Node* node) {
  std::vector<AttributeView> views;
  for (const auto* attribute :
       list_all<ort::NodeNumAttributes, ort::NodeAttributes, ort::Attribute>(runtime, node)) {
    AttributeView view;
    view.name = text_of(runtime.get<ort::AttributeName, const char*>(attribute));
    view.type = runtime.get<ort::AttributeKind, ort::AttributeType>(attribute);
    if (view.type == ort::kSubgraph) continue;
    if (view.type == ort::kTensorValue) {
      OwnedValue value(runtime);
      runtime.checked<ort::AttributeTensor>(attribute, value.out());
      view.tensor = view_of(runtime, value.get());
      view.data.assign(static_cast<const char*>(view.tensor.data), view.tensor.bytes);
      view.tensor.data = nullptr;
    } else {
      size_t bytes = 0;
      // Without room it fails where there is something to read, and says how much that is.
      ort::Status* small =
          runtime.plain<ort::ReadAttribute>(attribute, view.type, nullptr, size_t{0}, &bytes);
      if (small != nullptr) runtime.plain<ort::ReleaseStatus>(small);
      view.data.resize(bytes);
      if (bytes > 0)
        runtime.checked<ort::ReadAttribute>(attribute, view.type, view.data.data(), bytes, &bytes);
    }
    views.push_back(std::move(view));
  }
  std::ranges::sort(views, {}, &AttributeView::name);
  return views;
}

std::string text_attribute(const Runtime& runtime, const ort::Node* node, const std::string& name) {
  for (AttributeView& view : attributes_of(runtime, node)) {
    if (view.name == name && view.type == ort::kString) return std::move(view.data);
  }
  return "";
}

}  // namespace tilewright::provider
