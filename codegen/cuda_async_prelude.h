// The functions of sm_90's asynchronous side for cuda_prelude.h: mbarriers, named barriers, register
// budgets, bulk and tensor copies.
#pragma once

#include <string>
#include <vector>

namespace tilewright {

/// A part of the prelude: it goes in when the kernel, or a later part that goes in, has one of its
/// names as a word.
struct PreludePiece {
  std::vector<std::string> names;
  std::string text;
};

/// In an order that compiles, behind `tw_shared_address` and `TW_FN`.
std::vector<PreludePiece> async_prelude();

}  // namespace tilewright
