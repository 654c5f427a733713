#include "runtime/cuda/device_operands.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "runtime/check/weight_packing.h"
#include "runtime/error.h"
#include "runtime/machine/timer.h"
#include "runtime/tensor/tensor_view.h"

namespace tilewright::cuda {
namespace {

constexpr int64_t kGuardBytes = 4096;  // before and behind each array
constexpr unsigned char kGuard = 0xa5;

int64_t rounded(int64_t bytes) { return (bytes + 255) / 256 * 256; }

std::unique_ptr<unsigned char[]> buffer(int64_t bytes) {
  return std::make_unique_for_overwrite<unsigned char[]>(static_cast<size_t>(bytes));
}

}  // namespace

GuardedArray::GuardedArray(Device& device, int64_t bytes)
    : array_(device, rounded(bytes) + 2 * kGuardBytes), bytes_(bytes) {}

DeviceAddress GuardedArray::address() const { return array_.address() + kGuardBytes; }

void GuardedArray::upload(const void* from) {
  auto image = buffer(array_.bytes());
  unsigned char *begin = image.get() + kGuardBytes, *end = begin + bytes_;
  std::fill(image.get(), begin, kGuard);
  std::memcpy(begin, from, static_cast<size_t>(bytes_));
  std::fill(end, image.get() + array_.bytes(), kGuard);
  array_.upload(image.get());
}

bool GuardedArray::download(void* to) const {
  auto image = buffer(array_.bytes());
  array_.download(image.get());
  const unsigned char *begin = image.get() + kGuardBytes, *end = begin + bytes_;
  std::memcpy(to, begin, static_cast<size_t>(bytes_));
  auto is_guard = [](unsigned char c) { return c == kGuard; };
  return std::all_of(static_cast<const unsigned char*>(image.get()), begin, is_guard) &&
         std::all_of(end, static_cast<const unsigned char*>(image.get()) + array_.bytes(),
                     is_guard);
}

DeviceOperands::DeviceOperands(Device& device, OperandSet& host)
    : device_(device), host_(host), packed_(std::make_shared<PackedWeights>()) {
  for (const OperandInfo& info : host.infos()) add(info);
}

DeviceOperands::DeviceOperands(Device& device, OperandSet& host, const DeviceOperands& weights)
    : device_(device), host_(host), packed_(weights.packed_) {
  for (const OperandInfo& info : host.infos()) {
    const bool shared = host.find(info.name) == weights.host_.find(info.name);
    if (shared) {
      arrays_[info.name] = weights.arrays_.at(info.name);
    } else {
      // A weight that differs has other packed forms.
      if (info.role == ParamRole::Weight) packed_ = std::make_shared<PackedWeights>();
      add(info);
    }
  }
}

void DeviceOperands::add(const OperandInfo& info) {
  HostArray& array = host_.at(info.name);
  auto& on_device = arrays_[info.name];
  on_device = std::make_shared<GuardedArray>(device_, array.bytes());
  if (info.role != ParamRole::Output) on_device->upload(array.data());
}

double DeviceOperands::pack(const CudaDescription& program, ThreadPool& pool) {
  const std::string& packing = program.source.packing.code;
  if (packing == packed_->packing) return 0;
  double begin = steady_seconds();
  packed_->packing.clear();
  packed_->arrays.clear();  // before the new ones take their memory
  packed_->on_host.clear();
  packed_->on_host = pack_weights(program, host_, pool);
  for (const auto& [name, bytes] : packed_->on_host) {
    auto& on_device = packed_->arrays[name];
    on_device = std::make_unique<GuardedArray>(device_, bytes.bytes());
    on_device->upload(bytes.data());
  }
  packed_->packing = packing;
  return steady_seconds() - begin;
}

DeviceAddress DeviceOperands::address(const std::string& operand) const {
  return arrays_.at(operand)->address();
}

std::vector<DeviceAddress> DeviceOperands::addresses(const CudaSource& program,
                                                     const std::vector<int64_t>& dims) const {
  std::vector<DeviceAddress> list;
  for (const KernelParam& p : program.params) {
    if (auto packed = packed_->arrays.find(p.name); packed != packed_->arrays.end()) {
      list.push_back(packed->second->address());
      continue;
    }
    const HostArray* array = host_.find(p.name);
    if (array == nullptr) {
      throw KernelError(fmt::format(
          "kernel parameter '{}' is no operand of the workload, and nothing packs it", p.name));
    }
    std::vector<int64_t> shape = concrete_shape(p, dims);
    if (array->elem() != p.elem || array->shape() != shape) {
      throw KernelError(fmt::format("kernel parameter '{}' is {}{}, the workload's operand is {}{}",
                                    p.name, to_string(p.elem), describe_shape(shape),
                                    to_string(array->elem()), describe_shape(array->shape())));
    }
    list.push_back(arrays_.at(p.name)->address());
  }
  return list;
}

void DeviceOperands::run_once(const std::function<void()>& launch, HostArray::Poison poison) {
  HostArray& output = host_.output();
  GuardedArray& on_device = *arrays_.at(output.name());
  output.poison(poison);
  on_device.upload(output.data());
  launch();
  device_.wait("running the kernel");
  wrote_beside_ = !on_device.download(output.data());
}

std::optional<std::string> DeviceOperands::restore_inputs() {
  std::optional<std::string> changed;
  auto restore = [&](const std::string& name, GuardedArray& on_device, const void* right) {
    auto now = buffer(on_device.bytes());
    bool whole = on_device.download(now.get());
    const auto bytes = static_cast<size_t>(on_device.bytes());
    if (whole && std::memcmp(now.get(), right, bytes) == 0) return;
    on_device.upload(right);
    changed = name;
  };
  for (const OperandInfo& info : host_.infos()) {
    if (info.role == ParamRole::Output) continue;
    restore(info.name, *arrays_.at(info.name), host_.at(info.name).data());
  }
  for (const auto& [name, bytes] : packed_->on_host) {
    restore(name, *packed_->arrays.at(name), bytes.data());
  }
  return changed;
}

}  // namespace tilewright::cuda
