// Prints expressions, statements and programs as text that parses back to an equal program
// (ir/text/parser.h). When variables share a name, all but the first get a number appended; buffers
// likewise. A variable and a buffer may share a name. A name that is no identifier (words joined by
// dots, as in B.scale) stands in backquotes.
//
//   program matmul(A: f32[4, 8] input, B: f32[8, 16] weight, C: f32[4, 16] output)
//       dims(m: 1..64) {
//     block root() {
//       alloc T: f32[4, 16] register
//       for i in 0..4 parallel @{note: 3} {
//         for j in 0..16 {
//           for k in 0..8 {
//             block C(vi: spatial 4 = i, vj: spatial 16 = j, vk: reduce 8 = k) where (i < 4) {
//               init {
//                 C[vi, vj] = 0.0f32
//               }
//               C[vi, vj] = (C[vi, vj] + (A[vi, vk] * B[vk, vj]))
//             }
//           }
//         }
//       }
//     }
//   }
//
// Expressions:
//
//  - Index constants `3`, other integers `3i32`, booleans `true false`.
//  - Floats `0.5f32` (the shortest digits that read back the same) and `inf<f32>`, `nan<f32>`.
//  - `cast<f32>(x)`, `min(a, b)`, `max(a, b)`, `floordiv(a, b)`, `floormod(a, b)`,
//    `select(c, a, b)`, `ramp(base, stride, 16)`, `broadcast(x, 16)`, `exp(x)` and the like.
//  - A binary operation, always in parentheses.
//  - `A[i, j] if p` inside parentheses, a predicated load.
//
// `let x: index = e {` and `allocate T: f32[4] local {` open a body. `A[i] <-async x` is an
// asynchronous store. ` if p` behind a store, on its line, is its predicate. Loops with a min other
// than 0 print `for i in 2..2+6`; both ends are expressions.
#pragma once

#include <string>
#include <vector>

#include "ir/stmt.h"

namespace tilewright {

struct PrintOptions {
  // These statements' lines are underlined with ^^^^ and get the note below (for error messages).
  std::vector<const StmtNode*> mark;
  std::string note;
};

std::string to_string(const Expr& e);
std::string to_string(const Stmt& s, const PrintOptions& options = {});
std::string to_string(const Program& p, const PrintOptions& options = {});
std::string to_string(const Module& m, const PrintOptions& options = {});

}  // namespace tilewright
