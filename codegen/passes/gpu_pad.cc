// Padding of rows in shared memory against bank conflicts.
#include <algorithm>

#include "codegen/cuda_lowering.h"
#include "ir/visitor.h"

namespace tilewright {
namespace {

constexpr int64_t kRowBytes = 32;  // from here on neighbouring rows meet in few banks
constexpr int64_t kPadBytes = 16;  // keeps 16-byte accesses aligned

Buffer padded(const Buffer& b) {
  if (b->rank() == 0) return b;
  auto row = as_int(b->shape.back());
  int bits = bits_of(b->elem);
  bool is_one = std::all_of(b->shape.begin(), b->shape.end() - 1,
                            [](const Expr& extent) { return is_int(extent, 1); });
  if (!row || is_one || bits < 8 || *row * bits / 8 % kRowBytes != 0) return b;
  std::vector<Expr> shape = b->shape;
  shape.back() = Expr(*row + kPadBytes * 8 / bits);
  return make_buffer(b->name, b->elem, shape, b->scope);
}

}  // namespace

Program pad_shared_rows(const Program& program) {
  BufferMap wider;
  for_each_stmt(program.body, [&](const Stmt& s) {
    auto* n = s.as<AllocateNode>();
    if (!n || n->buffer->scope != Scope::Shared) return;
    Buffer b = padded(n->buffer);
    if (b != n->buffer) wider[n->buffer.get()] = b;
  });
  Program result = program;
  result.body = replace_buffers(program.body, wider);
  return result;
}

}  // namespace tilewright
