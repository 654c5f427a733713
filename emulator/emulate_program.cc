#include "emulator/emulate_program.h"

#include <fmt/format.h>

#include <vector>

#include "kernel/target.h"
#include "runtime/check/weight_packing.h"
#include "runtime/error.h"

namespace tilewright {
namespace {

EmulatedLaunch launch_of(const CudaLaunch& l, const CudaSource& source,
                         const std::vector<int64_t>& dims) {
  EmulatedLaunch launch;
  launch.entry = l.entry;
  for (size_t x = 0; x < 3; ++x) {
    launch.grid[x] = static_cast<int>(size_at(l.grid[x], source, dims));
  }
  launch.block = l.block;
  launch.shared_bytes = l.shared_bytes;
  launch.dependent = l.dependent;
  for (int b : l.buffers) launch.arguments.emplace_back(EmulatedLaunch::Buffer{b});
  for (const TensorMap& map : l.tensor_maps) {
    launch.arguments.emplace_back(
        EmulatedLaunch::Tensor{map.buffer, tensor_map_at(map, source, dims)});
  }
  for (int64_t value : dims) launch.arguments.emplace_back(value);
  return launch;
}

}  // namespace

EmulatorResult emulate_program(const CudaDescription& program, OperandSet& operands,
                               const std::vector<int64_t>& dims, const EmulatorOptions& options) {
  const CudaSource& source = program.source;
  ThreadPool alone(1);
  std::map<std::string, Workspace> packed = pack_weights(program, operands, alone);
  std::vector<EmulatedBuffer> buffers;
  for (const KernelParam& p : source.params) {
    if (auto it = packed.find(p.name); it != packed.end()) {
      buffers.push_back({p.name, it->second.data(), it->second.bytes(), true});
      continue;
    }
    HostArray* array = operands.find(p.name);
    if (array == nullptr) {
      throw KernelError(fmt::format(
          "kernel parameter '{}' is no operand of the workload, and nothing packs it", p.name));
    }
    buffers.push_back({p.name, array->data(), array->bytes(), p.role != ParamRole::Output});
  }
  return emulate_program(program, std::move(buffers), dims, options);
}

EmulatorResult emulate_program(const CudaDescription& program, std::vector<EmulatedBuffer> params,
                               const std::vector<int64_t>& dims, const EmulatorOptions& options) {
  const CudaSource& source = program.source;
  std::vector<EmulatedBuffer> buffers = std::move(params);
  std::vector<std::vector<char>> scratch;
  scratch.reserve(source.scratch.size());
  for (const CudaScratch& s : source.scratch) {
    int64_t bytes = bytes_for(s.elem, size_at(s.elements, source, dims));
    scratch.emplace_back(static_cast<size_t>(bytes));
    buffers.push_back({s.name, scratch.back().data(), bytes, false});
  }
  std::vector<EmulatedLaunch> launches;
  for (const CudaLaunch& l : source.launches) launches.push_back(launch_of(l, source, dims));
  EmulatorOptions of_target = options;
  of_target.compute_capability = Target::parse(source.target).gpu.compute_capability;
  return emulate(source.text, launches, buffers, of_target);
}

}  // namespace tilewright
