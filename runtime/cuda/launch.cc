#include "runtime/cuda/launch.h"

namespace tilewright::cuda {
namespace {

// CUlaunchAttribute and CUlaunchConfig, as the CUDA driver API gives them.
struct Attribute {
  int id;
  alignas(8) unsigned char value[64];
};
struct Config {
  unsigned grid[3], block[3];
  unsigned shared_bytes;
  Handle stream;
  const Attribute* attributes;
  unsigned attribute_count;
};
static_assert(sizeof(Attribute) == 72 && sizeof(Config) == 56, "a limit of the driver");

constexpr int kProgrammaticSerialization = 6;  // CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_…

}  // namespace

int launch_kernel(const DriverFunctions& driver, Handle function, const LaunchShape& shape,
                  void** arguments) {
  const auto& [grid, block, shared_bytes, stream, dependent] = shape;
  if (!dependent || driver.launch_with == nullptr) {
    return driver.launch(function, grid[0], grid[1], grid[2], block[0], block[1], block[2],
                         shared_bytes, stream, arguments, nullptr);
  }
  Attribute overlap = {.id = kProgrammaticSerialization, .value = {}};
  overlap.value[0] = 1;  // an int, on a little-endian host
  const Config config = {{grid[0], grid[1], grid[2]},
                         {block[0], block[1], block[2]},
                         shared_bytes,
                         stream,
                         &overlap,
                         1};
  return driver.launch_with(&config, function, arguments, nullptr);
}

}  // namespace tilewright::cuda
