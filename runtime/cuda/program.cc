#include "runtime/cuda/program.h"

#include <fmt/format.h>

#include <utility>

#include "runtime/error.h"

namespace tilewright::cuda {
namespace {

// NaN in every float type: what is read before it is written shows.
constexpr unsigned char kScratchPoison = 0xff;

}  // namespace

DeviceProgram::DeviceProgram(Device& device, std::string_view cubin,
                             const CudaDescription& description,
                             const std::vector<DeviceAddress>& params, std::vector<int64_t> dims)
    : device_(device),
      module_(device, cubin,
              description.source.launches.empty() ? "none" : description.source.launches[0].entry),
      dims_(std::move(dims)), buffers_(params) {
  const CudaSource& source = description.source;
  if (params.size() != source.params.size() || dims_.size() != source.dims.size()) {
    throw KernelError(
        fmt::format("a CUDA kernel of {} parameters and {} dimensions was given {} "
                    "and {}",
                    source.params.size(), source.dims.size(), params.size(), dims_.size()));
  }
  for (const CudaScratch& s : source.scratch) {
    int64_t bytes = bytes_for(s.elem, size_at(s.elements, source, dims_));
    scratch_.push_back(std::make_unique<DeviceArray>(device, bytes));
    device.fill(*scratch_.back(), kScratchPoison);
    buffers_.push_back(scratch_.back()->address());
  }
  for (const CudaLaunch& l : source.launches) prepare(l, source);
}

// The arguments are addresses of values that live in this object, which therefore never moves.
void DeviceProgram::prepare(const CudaLaunch& l, const CudaSource& source) {
  DeviceLaunch launch;
  launch.name = l.entry;
  launch.kernel = module_.kernel(l.entry);
  for (size_t x = 0; x < 3; ++x) {
    launch.grid[x] = static_cast<int>(size_at(l.grid[x], source, dims_));
  }
  launch.block = l.block;
  launch.shared_bytes = l.shared_bytes;
  launch.dependent = l.dependent;
  for (int b : l.buffers) launch.arguments.push_back(&buffers_.at(static_cast<size_t>(b)));
  if (!l.tensor_maps.empty()) require_tensor_maps(device_.driver(), l.entry);
  for (const TensorMap& map : l.tensor_maps) {
    encode_tensor_map(device_.driver(), tensor_map_at(map, source, dims_),
                      buffers_.at(static_cast<size_t>(map.buffer)), l.entry,
                      tensor_maps_.emplace_back());
    launch.arguments.push_back(&tensor_maps_.back());
  }
  for (int64_t& value : dims_) launch.arguments.push_back(&value);
  launches_.push_back(std::move(launch));
}

void DeviceProgram::launch() {
  for (const DeviceLaunch& l : launches_) device_.launch(l);
}

}  // namespace tilewright::cuda
