// The output of CUDA code generation for whoever compiles, launches or emulates it: the text of
// kernels, and their launches in order.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ir/stmt.h"
#include "kernel/kernel_source.h"
#include "kernel/tensor_map.h"

namespace tilewright {

// An intermediate in global memory, written by one kernel and read by a later one. The caller
// allocates it, aligned to 256 bytes; it needs no initial value.
struct CudaScratch {
  std::string name;
  ElemType elem;
  Expr elements;  // a constant, or an expression of the dimensions
};

// One kernel launch. Its arguments are pointers to the buffers that it names, then its tensor maps.
// The value of every dynamic dimension of the program follows as a `long long`, in their order.
struct CudaLaunch {
  std::string entry;         // the name of an extern "C" kernel
  std::vector<int> buffers;  // positions among the parameters; scratch counts on after them
  std::array<Expr, 3> grid;  // x, y, z: constants, or expressions of the dimensions
  std::array<int, 3> block;  // x, y, z
  int64_t shared_bytes = 0;  // dynamic shared memory
  std::vector<TensorMap> tensor_maps = {};
  // It may start before the launch ahead of it has ended; its threads wait for that themselves
  // (CUDA programming guide, "Programmatic Dependent Launch"). A driver that starts it later is
  // right, too.
  bool dependent = false;
};

// A program as CUDA. The text is that of the kernels alone: the prelude goes before it on a device,
// the emulation header on a host. Launches run in order, each after the one before has ended,
// except those that wait for it themselves.
struct CudaSource {
  std::string text;
  std::string target;               // "cuda:sm_80"
  std::vector<KernelParam> params;  // the program's parameters; buffers are aligned to 256 bytes
  std::vector<CudaScratch> scratch;
  std::vector<DimVar> dims;
  std::vector<CudaLaunch> launches;
  // Lays out weights at load time, on a CPU: C whose main function does nothing. A pack function
  // fills the parameter that has its buffer's name. No code where nothing is laid out.
  KernelSource packing = {};
  SizeFacts sizes = {};
};

// The value of a launch's size, or of scratch memory's, at these values of the program's dynamic
// dimensions, in their order. Throws Error where it is no number there.
int64_t size_at(const Expr& size, const CudaSource& source, const std::vector<int64_t>& dims);
// The same for the numbers of a tensor map.
TensorMapValues tensor_map_at(const TensorMap& map, const CudaSource& source,
                              const std::vector<int64_t>& dims);

// Features of a device on which kernels stand or fall together, by their text: "clusters" of blocks,
// "wgmma", "mma" of warps, or "threads" alone.
std::string_view cuda_kind(std::string_view text);

}  // namespace tilewright
