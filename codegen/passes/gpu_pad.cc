// Padding of rows in shared memory against bank conflicts.
#include "codegen/cuda_lowering.h"
#include "ir/visitor.h"

namespace tilewright {
namespace {

constexpr int64_t kBankBytes = 32 * 4;
constexpr int64_t kPadBytes = 16;  // keeps 16-byte accesses aligned

Buffer padded(const Buffer& b) {
  auto row = b->rank() >= 2 ? as_int(b->shape.back()) : std::nullopt;
  int bits = bits_of(b->elem);
  if (!row || bits < 8 || *row * bits / 8 % kBankBytes != 0) return b;
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
