#include "serving/gpu.h"

#include <fmt/format.h>

#include "base/knobs.h"
#include "runtime/error.h"

namespace tilewright::serving {

Gpu::Gpu(int index)
    : index_(index), driver_(cuda::open_driver(knob_text(Knob::CudaDriver))),
      facts_(cuda::device_facts(index, knob_text(Knob::CudaDriver))) {
  driver_.check(driver_.device(&device_, index), fmt::format("finding GPU {}", index));
  driver_.check(driver_.context_retain(&context_, device_), "opening " + facts_.name);
}

Gpu::~Gpu() { driver_.context_release(device_); }

bool Gpu::runs(const Target& target) const {
  const int here = facts_.compute_capability, wanted = target.gpu.compute_capability;
  const bool exactly = target.name.back() == 'a';  // code for one architecture alone
  return exactly ? here == wanted : here / 10 == wanted / 10 && here >= wanted;
}

}  // namespace tilewright::serving
