// The GPU of kernel tests that work for any.
#pragma once

#include "kernel/target.h"

namespace tilewright {

inline const Target& a100() {
  static const Target target = Target::parse("cuda:sm_80");
  return target;
}

}  // namespace tilewright
