// The functions of sm_90's asynchronous operations for cuda_prelude.h: mbarriers, named barriers,
// register budgets, 1-D bulk copies and tensor copies (TMA).
#pragma once

#include <string>
#include <vector>

namespace tilewright {

/// A part of the prelude. It is included when the kernel, or a later part that is included, has one
/// of its names as a word.
struct PreludePiece {
  std::vector<std::string> names;
  std::string text;
};

/// The parts in an order that compiles, behind `tw_shared_address` and `TW_FN`.
std::vector<PreludePiece> async_prelude();

}  // namespace tilewright
