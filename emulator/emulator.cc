#include "emulator/emulator.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>

#include "emulator/emulation_text.h"
#include "emulator/memory/tensor_copy.h"
#include "emulator/scheduler.h"
#include "runtime/compile/compile.h"
#include "runtime/error.h"
#include "runtime/load/loader.h"

namespace tilewright {
namespace {

using namespace emulator;

constexpr int64_t kBufferAlignment = 256;
constexpr int kMostThreads = 1024;
constexpr int kMostBlocks = 8;  // of a cluster, that every device takes

struct CloseObject {
  void operator()(void* handle) const { dlclose(handle); }
};
using Object = std::unique_ptr<void, CloseObject>;

std::vector<std::string> entries_of(const std::vector<EmulatedLaunch>& launches) {
  std::vector<std::string> entries;
  for (const EmulatedLaunch& launch : launches) {
    if (std::find(entries.begin(), entries.end(), launch.entry) == entries.end()) {
      entries.push_back(launch.entry);
    }
  }
  return entries;
}

// Devices from this one on convert 8-bit floats by instructions.
constexpr int kConvertsFp8 = 89;

Object compile_and_load(const std::string& text, const std::vector<EmulatedLaunch>& launches,
                        int compute_capability) {
  KernelSource source;
  source.language = SourceLanguage::Cxx;
  source.code = emulated_unit(text, entries_of(launches));
  // A kernel runs once: -O1 would take longer to compile than it saves, and libraries of C++, which this
  // process has, a sixth of the time to link. Registers that nothing has set hold a pattern and not what
  // the last kernel left there. Hidden names do not meet those of other emulated kernels, nor keep the
  // object from being unloaded.
  source.flags = {"-Og", "-nostdlib", "-ftrivial-auto-var-init=pattern", "-fvisibility=hidden"};
  if (compute_capability >= kConvertsFp8) source.flags.emplace_back("-DTW_FP8_CVT");
  return Object(load_shared_object(compile(source).object, ObjectKind::Emulation));
}

template <class T>
T& symbol(const Object& object, const std::string& name) {
  void* address = dlsym(object.get(), name.c_str());
  TW_ASSERT(address != nullptr, "the emulated unit defines " + name);
  return *static_cast<T*>(address);
}

EmulatorFault bad_launch(const EmulatedLaunch& launch, std::string problem) {
  EmulatorFault fault;
  fault.kind = FaultKind::BadLaunch;
  fault.kernel = launch.entry;
  fault.problem = std::move(problem);
  return fault;
}

// By tw_emu_param::pointer.
constexpr const char* kArgumentKinds[] = {"number", "buffer", "tensor map"};

int kind_of(const EmulatedLaunch::Argument& argument) {
  if (std::holds_alternative<EmulatedLaunch::Buffer>(argument)) return 1;
  return std::holds_alternative<EmulatedLaunch::Tensor>(argument) ? TW_EMU_TENSOR_MAP : 0;
}

// Why the launch fits no device, or its arguments not the kernel.
std::string launch_problem(const EmulatedLaunch& launch, const tw_emu_entry& entry,
                           size_t buffers) {
  int64_t threads = int64_t{1} * launch.block[0] * launch.block[1] * launch.block[2];
  for (int extent : launch.grid) {
    if (extent < 1)
      return fmt::format("is launched on a grid of ({})", fmt::join(launch.grid, ", "));
  }
  if (*std::min_element(launch.block.begin(), launch.block.end()) < 1 || threads > kMostThreads) {
    return fmt::format("is launched in blocks of ({}) threads; they have 1 to {}",
                       fmt::join(launch.block, ", "), kMostThreads);
  }
  if (launch.arguments.size() != static_cast<size_t>(entry.count)) {
    return fmt::format("takes {} arguments, got {}", entry.count, launch.arguments.size());
  }
  for (int i = 0; i < entry.count; ++i) {
    const EmulatedLaunch::Argument& argument = launch.arguments[static_cast<size_t>(i)];
    const int wanted = entry.params[i].pointer, got = kind_of(argument);
    if (wanted != got) {
      return fmt::format("takes a {} as argument {}, got a {}", kArgumentKinds[wanted], i,
                         kArgumentKinds[got]);
    }
    auto* tensor = std::get_if<EmulatedLaunch::Tensor>(&argument);
    auto* buffer = std::get_if<EmulatedLaunch::Buffer>(&argument);
    const int index = tensor ? tensor->index : buffer ? buffer->index : 0;
    if (got != 0 && (index < 0 || static_cast<size_t>(index) >= buffers)) {
      return fmt::format("gets buffer {} as argument {}, of {} buffers", index, i, buffers);
    }
    if (!tensor) continue;
    // Buffers lie where every alignment is met.
    if (std::string problem = tensor_map_problem(tensor->map, 0); !problem.empty()) {
      return fmt::format("gets a tensor map as argument {} that no device takes: {}", i, problem);
    }
  }
  return "";
}

// Why blocks cannot run in clusters of this shape: what the emulator runs lies along x alone.
std::string cluster_problem(const EmulatedLaunch& launch, const std::array<int, 3>& cluster) {
  if (cluster[0] < 1 || cluster[0] > kMostBlocks || cluster[1] != 1 || cluster[2] != 1) {
    return fmt::format("has clusters of ({}) blocks; they are (1, 1, 1) to ({}, 1, 1)",
                       fmt::join(cluster, ", "), kMostBlocks);
  }
  if (launch.grid[0] % cluster[0] != 0) {
    return fmt::format("is launched on a grid of ({}), which is not made of whole clusters of {}",
                       fmt::join(launch.grid, ", "), cluster[0]);
  }
  return "";
}

// Global memory: the buffers one after another, with a state for every byte.
std::vector<Storage> storages_of(const std::vector<EmulatedBuffer>& buffers) {
  std::vector<Storage> storages(buffers.size());
  int64_t address = 0;
  for (size_t i = 0; i < buffers.size(); ++i) {
    ByteState state;
    state.initialized = buffers[i].initialized;
    storages[i].data = static_cast<unsigned char*>(buffers[i].data);
    storages[i].bytes = buffers[i].bytes;
    storages[i].address = address;
    storages[i].states.assign(static_cast<size_t>(buffers[i].bytes), state);
    address += (buffers[i].bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
  }
  return storages;
}

// The memory that the arguments of a launch point to.
struct Pointees {
  std::vector<tw_emu_array> arrays;
  std::vector<tw_emu_tensor_map> maps;
};

std::vector<tw_emu_argument> arguments_of(const EmulatedLaunch& launch, const tw_emu_entry& entry,
                                          const std::vector<EmulatedBuffer>& buffers,
                                          std::vector<Storage>& storages, Pointees& pointees) {
  for (Storage& storage : storages) storage.written = false;
  std::vector<tw_emu_array>& arrays = pointees.arrays;
  arrays.resize(launch.arguments.size());
  pointees.maps.resize(launch.arguments.size());
  std::vector<tw_emu_argument> arguments(launch.arguments.size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    tw_emu_argument& argument = arguments[i];
    const tw_emu_param& param = entry.params[i];
    if (auto* integer = std::get_if<int64_t>(&launch.arguments[i])) {
      argument = {nullptr, *integer, static_cast<double>(*integer), nullptr};
    } else if (auto* number = std::get_if<double>(&launch.arguments[i])) {
      argument = {nullptr, static_cast<int64_t>(*number), *number, nullptr};
    } else if (auto* tensor = std::get_if<EmulatedLaunch::Tensor>(&launch.arguments[i])) {
      auto index = static_cast<size_t>(tensor->index);
      arrays[i] = {buffers[index].name, &storages[index], 0, buffers[index].bytes,
                   tensor->map.element_bytes()};
      pointees.maps[i] = {&arrays[i], tensor->map};
      argument = {nullptr, 0, 0, &pointees.maps[i]};
      storages[index].written = true;  // copies go both ways by a map
    } else {
      auto index = static_cast<size_t>(std::get<EmulatedLaunch::Buffer>(launch.arguments[i]).index);
      arrays[i] = {buffers[index].name, &storages[index], 0, buffers[index].bytes, param.bytes};
      argument = {&arrays[i], 0, 0, nullptr};
      storages[index].written |= param.writable != 0;
    }
  }
  return arguments;
}

std::string line_of(const std::string& text, int line) {
  size_t at = 0;
  for (int i = 1; i < line && at != std::string::npos; ++i) {
    at = text.find('\n', at);
    if (at != std::string::npos) ++at;
  }
  if (line < 1 || at == std::string::npos) return "";
  std::string found = text.substr(at, text.find('\n', at) - at);
  found.erase(0, found.find_first_not_of(' '));
  return found;
}

}  // namespace

std::string_view fault_name(FaultKind kind) {
  switch (kind) {
    case FaultKind::OutOfBounds: return "out-of-bounds";
    case FaultKind::Misaligned: return "misaligned";
    case FaultKind::UninitializedRead: return "uninitialized-read";
    case FaultKind::CopyInFlight: return "copy-in-flight";
    case FaultKind::Race: return "race";
    case FaultKind::DivergentBarrier: return "divergent-barrier";
    case FaultKind::DivergentCollective: return "divergent-collective";
    case FaultKind::BadLaunch: return "bad-launch";
    case FaultKind::BadMetadata: return "bad-metadata";
    case FaultKind::BadDescriptor: return "bad-descriptor";
    case FaultKind::EarlyAccess: return "early-access";
    case FaultKind::WgmmaInFlight: return "wgmma-in-flight";
    case FaultKind::BadBarrier: return "bad-barrier";
    case FaultKind::ExitedBlock: return "exited-block";
    case FaultKind::BadCopy: return "bad-copy";
    case FaultKind::BadRegisters: return "bad-registers";
    case FaultKind::Deadlock: return "deadlock";
    case FaultKind::MissingFence: return "missing-fence";
    case FaultKind::StepLimit: return "step-limit";
  }
  return "";
}

std::string EmulatorFault::to_string() const {
  std::string text = fmt::format("{}: kernel '{}', block ({}), thread ({}): {}", fault_name(kind),
                                 kernel, fmt::join(block, ", "), fmt::join(thread, ", "), problem);
  if (other_thread) {
    text += fmt::format("\n  the other: block ({}), thread ({})", fmt::join(other_block, ", "),
                        fmt::join(*other_thread, ", "));
  }
  if (line > 0) text += fmt::format("\n  line {}: {}", line, source_line);
  return text;
}

EmulatorResult emulate(const std::string& text, const std::vector<EmulatedLaunch>& launches,
                       const std::vector<EmulatedBuffer>& buffers, const EmulatorOptions& options) {
  EmulatorResult result;
  if (launches.empty()) return result;
  Object object = compile_and_load(text, launches, options.compute_capability);
  auto& state = symbol<tw_emu_state>(object, "tw_emu");
  std::vector<Storage> storages = storages_of(buffers);
  Memory memory;
  int64_t steps = 0;
  uint32_t epoch = 0;
  for (const EmulatedLaunch& launch : launches) {
    const auto& entry = symbol<const tw_emu_entry>(object, "tw_emu_entry_" + launch.entry);
    const std::array<int, 3> cluster = cluster_of(text, launch.entry);
    std::string problem = launch_problem(launch, entry, buffers.size());
    if (problem.empty()) problem = cluster_problem(launch, cluster);
    if (!problem.empty()) {
      result.fault = bad_launch(launch, problem);
      return result;
    }
    Pointees pointees;
    std::vector<tw_emu_argument> arguments =
        arguments_of(launch, entry, buffers, storages, pointees);
    Scheduler scheduler(memory, state, options, result.counters, steps);
    result.fault = scheduler.run(launch, cluster[0], entry, arguments, epoch);
    if (result.fault) {
      result.fault->source_line = line_of(text, result.fault->line);
      return result;
    }
  }
  return result;
}

std::map<std::string, int64_t> EmulatorCounters::by_name() const {
  return {{"shared_loads", shared_loads},
          {"shared_stores", shared_stores},
          {"global_loads", global_loads},
          {"global_stores", global_stores},
          {"async_copies", async_copies},
          {"ldmatrix", ldmatrix},
          {"stmatrix", stmatrix},
          {"mma", mma},
          {"wgmma", wgmma},
          {"shuffles", shuffles},
          {"block_barriers", block_barriers},
          {"barrier_waits", barrier_waits},
          {"bulk_copies", bulk_copies},
          {"bulk_bytes", bulk_bytes},
          {"mma_operations", mma_operations},
          {"shared_passes", shared_passes},
          {"shared_passes_ideal", shared_passes_ideal},
          {"load_sectors", load_sectors},
          {"store_sectors", store_sectors},
          {"load_bytes", load_bytes},
          {"store_bytes", store_bytes},
          {"bank_conflicts", bank_conflicts()}};
}

}  // namespace tilewright
