// One product by a kernel of the database, on ggml's threads.
#pragma once

#include <cstdint>
#include <memory>

#include "ggml_backend/kernels.h"

namespace tilewright::ggml {

// Memory of one backend for its launches, aligned as kernels want it.
class Scratch {
 public:
  float* at_least(size_t bytes);

 private:
  struct Free {
    void operator()(float* memory) const;
  };
  std::unique_ptr<float, Free> memory_;
  size_t bytes_ = 0;
};

struct LaunchMemory {
  Scratch input, output, workspace;
};

// Writes rows [m, k] times the weight to `out` [m, n]. m is 1, or the kernel is one for several rows: more than
// `most` are multiplied piece by piece. Throws tw::Error.
void launch_product(const FoundKernel& kernel, const PackedWeight& weight, const Product& product,
                    const float* rows, float* out, int64_t m, int64_t most, LaunchMemory& memory);

}  // namespace tilewright::ggml
