// Marks of loop nests that are instructions of a GPU.
#pragma once

#include <string>
#include <string_view>

#include "ir/stmt.h"
#include "kernel/instructions/instruction.h"

namespace tilewright {

/// The annotation of the outermost loop of a nest that is one instruction, or a group of equal ones:
/// the name of a row of find_instruction(), or one of the names below. cuda_kernel.h finds all nests
/// of a lowered kernel once.
inline constexpr const char* kInstructionKey = "instruction";

/// A sum of four products of bytes in registers of a thread (cuda_dot.h).
inline constexpr const char* kDp4a = "dp4a";
/// Matrices of 8 x 8 elements that a warp stores to shared memory (cuda_stmatrix.h).
inline constexpr const char* kStmatrix = "stmatrix";
/// A reduction over the lanes of a warp or of a team (cuda_shuffle.h).
inline constexpr const char* kShuffle = "shuffle";
/// Copies of tiles between global and shared memory (codegen/cuda/cuda_tensor_copy.h).
inline constexpr const char* kTma = "tma";

/// The name that a loop is marked with; empty where it is not marked.
std::string instruction_of(const ForNode& loop);
inline bool is_marked(const ForNode& loop, std::string_view name) {
  return instruction_of(loop) == name;
}
/// The name of the matrix instruction that a loop is marked with, which may be none of ours; empty
/// where it has another mark or none.
std::string mma_mark(const ForNode& loop);
/// The row of the asynchronous matrix instruction (wgmma) that a loop is marked with; null where it
/// is no such mark.
const Instruction* wgmma_mark(const ForNode& loop);

}  // namespace tilewright
