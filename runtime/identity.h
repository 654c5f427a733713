// Which machine a kernel was tuned for: what whoever serves kernels must know to find them.
#pragma once

#include <string>

#include "codegen/target.h"

namespace tilewright {

// What tells machines apart, in the order of database::make_target(), which makes the identity
// under which kernels are kept. Kernels are shared only between machines whose facts are equal.
struct TargetFacts {
  std::string chip;      // chip_name()
  std::string features;  // ISA features that generated code may use, separated by spaces
  int cores = 1;
  std::string extra;  // the target's name and its cache sizes
};
// Of a CUDA target those of its data sheet: what is found for it serves wherever it was found.
TargetFacts target_facts(const Target& target);

// "AMD EPYC 9B14 (family 25 model 17)". Virtual machines name many chips alike: the family and
// model tell them apart. The architecture alone where the processor does not tell.
std::string chip_name();

}  // namespace tilewright
