#include "serving/models/port.h"

#include <fmt/format.h>

#include <cstring>

#include "serving/operand.h"
#include "serving/status.h"

namespace tilewright::serving {

std::vector<int64_t> Port::shape_at(const Sizes& run) const {
  std::vector<int64_t> own;
  for (const graph::Size& size : sizes) own.push_back(size.at(run.data()));
  return own;
}

int64_t Port::bytes_at(const Sizes& run) const {
  int64_t count = 1;
  for (const graph::Size& size : sizes) count *= size.at(run.data());
  return bytes_for(elem, count);
}

Port port_of(const graph::Graph& graph, size_t value) {
  const graph::Value& v = graph.values[value];
  Port port{v.name, v.elem, {}, {}, {}, {}, value, std::nullopt};
  for (int64_t number : v.shape) {
    port.sizes.push_back(graph::size_of(graph, number));
    const DimSize range = graph::range_of(graph, port.sizes.back());
    port.shape.push_back(range.max);
    const bool by_value = graph::depends_on_values(graph, port.sizes.back());
    port.least.push_back(by_value ? 0 : range.min);
    port.texts.push_back(graph::to_string(graph, port.sizes.back()) + (by_value ? " at most" : ""));
  }
  return port;
}

void check_kind(const Port& port, const DLTensor* t, const char* what, const Place& place) {
  auto refuse = [&](const std::string& why) {
    throw ServingError(TW_ERROR_TENSOR, fmt::format("{} '{}': {}", what, port.name, why));
  };
  if (t == nullptr || t->data == nullptr) refuse("no tensor");
  const DLDataType type = dl_type(port.elem);
  const bool truth = port.elem == ElemType::u8 && t->dtype.code == kDLBool;
  if (t->device.device_type != kDLCPU && !place.holds(t->device)) {
    refuse(place.device == kDLCPU
               ? "it is not in the memory of the host"
               : fmt::format("it lies on {}; expected the memory of the host or {}",
                             to_string(t->device), to_string({place.device, place.id})));
  }
  if (!truth && (t->dtype.code != type.code || t->dtype.bits != type.bits || t->dtype.lanes != 1)) {
    refuse(fmt::format("its elements are {}; expected {}", dl_type_name(t->dtype),
                       to_string(port.elem)));
  }
  if (t->ndim != static_cast<int32_t>(port.sizes.size())) {
    refuse(fmt::format("it has {} axes; expected {}", t->ndim, port.sizes.size()));
  }
}

void check_shape(const Port& port, const DLTensor& t, const Sizes& sizes, const char* what) {
  auto refuse = [&](size_t axis, const std::string& why) {
    throw ServingError(TW_ERROR_TENSOR,
                       fmt::format("{} '{}': axis {} {}", what, port.name, axis, why));
  };
  int64_t dense = 1;
  for (size_t d = port.sizes.size(); d-- > 0;) {
    const int64_t size = port.sizes[d].at(sizes.data());
    if (t.shape[d] != size) {
      refuse(d, port.sizes[d].fixed() ? fmt::format("has {}; expected {}", t.shape[d], size)
                                      : fmt::format("has {}; expected {}, which is {}", t.shape[d],
                                                    size, port.texts[d]));
    }
    if (t.strides != nullptr && size != 1 && t.strides[d] != dense) refuse(d, "is not compact");
    dense *= size;
  }
  if (!port.last) return;
  int32_t first = 0;
  std::memcpy(&first, first_element(t), sizeof first);
  if (first >= 0 && first <= *port.last) return;
  throw ServingError(TW_ERROR_TENSOR, fmt::format("{} '{}': it is {}; expected 0 to {}", what,
                                                  port.name, first, *port.last));
}

void check_count(size_t count, const std::vector<Port>& ports, const char* what) {
  if (count == ports.size()) return;
  throw ServingError(TW_ERROR_ARGUMENT,
                     fmt::format("{} {}s; the model has {}", count, what, ports.size()));
}

}  // namespace tilewright::serving
