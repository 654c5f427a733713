// Which machine a kernel was tuned for: what whoever serves kernels must know to find them.
#pragma once

#include <string>

#include "kernel/target.h"

namespace tilewright {

// What decides for which machine a kernel was tuned, in the order of database::make_target(), which
// makes the identity under which kernels are kept; database/target.h says which of them may serve
// another machine. How many processors this process may use, and how large the cache is that it
// shares with others, are not among them: both depend on how a machine is cut into smaller ones.
struct TargetFacts {
  std::string chip;      // chip_name()
  std::string features;  // ISA features that generated code may use, separated by spaces
  int cores = 0;         // multiprocessors of a GPU; 0 for a CPU
  std::string extra;     // the target's name, and the sizes of a core's caches
};
// Of a CUDA target those of its data sheet: what is found for it serves wherever it was found.
TargetFacts target_facts(const Target& target);

// "AMD EPYC 9B14 (family 25 model 17)". Virtual machines name many chips alike: the family and
// model tell them apart. The architecture alone where the processor does not tell.
std::string chip_name();

}  // namespace tilewright
