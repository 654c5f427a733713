#include "tuner/backend.h"

namespace tilewright {

const Backend& Backend::of(const Target& target) {
  return target.is_cuda() ? cuda_backend() : cpu_backend();
}

}  // namespace tilewright
