// Padding and swizzling of rows in shared memory against bank conflicts.
#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <optional>
#include <set>

#include "codegen/cuda_lowering.h"
#include "codegen/statements.h"
#include "ir/call_table.h"
#include "ir/visitor.h"

namespace tilewright {
namespace {

constexpr int64_t kRowBytes = 32;  // from this length on neighbouring rows meet in few banks
constexpr int64_t kPadBytes = 16;  // keeps 16-byte accesses aligned

// The length of a row that is a multiple of kRowBytes, where there are several rows. Elements that
// share bytes count where rows of k stand one above another. Codes of a weight, which lanes find
// side by side, do not.
std::optional<int64_t> meeting_row(const Buffer& b) {
  if (b->rank() == 0) return std::nullopt;
  auto row = as_int(b->shape.back());
  int bits = bits_of(b->elem);
  bool is_one = std::all_of(b->shape.begin(), b->shape.end() - 1,
                            [](const Expr& extent) { return is_int(extent, 1); });
  if (bits < 8) is_one = b->rank() < 2 || is_int(b->shape[b->shape.size() - 2], 1);
  if (!row || is_one || *row * bits / 8 % kRowBytes != 0) return std::nullopt;
  return row;
}

Buffer padded(const Buffer& b, int64_t row) {
  std::vector<Expr> shape = b->shape;
  shape.back() = Expr(row + kPadBytes * 8 / bits_of(b->elem));
  return with_shape(b, shape);
}

Buffer swizzled(const Buffer& b, int64_t row) {
  return make_buffer(b->name, b->elem, b->shape, b->scope, row);
}

bool asks_for_swizzles(const Stmt& kernel) {
  auto* loop = kernel.as<ForNode>();
  if (!loop) return false;
  auto it = loop->annotations.find(kSharedRowsKey);
  auto* how = it == loop->annotations.end() ? nullptr : std::get_if<std::string>(&it->second);
  if (how && *how != kSwizzled) {
    throw LoweringError(fmt::format("'{}' of loop '{}' is '{}'; it may be '{}'", kSharedRowsKey,
                                    loop->var.name(), *how, kSwizzled));
  }
  return how != nullptr;
}

// Arrays that 1-D bulk copies fill, whose layout is that in memory.
std::set<const BufferNode*> filled_by_bytes(const Stmt& kernel) {
  std::set<const BufferNode*> filled;
  for_each_expr(kernel, [&](const Expr& e) {
    if (auto* copy = as_call(e, CallOp::BulkLoad)) {
      filled.insert(operand_of(*copy, "to").as<LoadNode>()->buffer.get());
    }
  });
  return filled;
}

Stmt with_rows_apart(const Stmt& kernel) {
  const bool swizzles = asks_for_swizzles(kernel);
  const std::set<const BufferNode*> dense = filled_by_bytes(kernel);
  BufferMap apart;
  for_each_stmt(kernel, [&](const Stmt& s) {
    auto* n = s.as<AllocateNode>();
    if (!n || n->buffer->scope != Scope::Shared || dense.count(n->buffer.get()) != 0) return;
    std::optional<int64_t> row = meeting_row(n->buffer);
    if (!row) return;
    const bool whole = bits_of(n->buffer->elem) >= 8;  // swizzles move whole elements of the array
    const bool is_power = std::has_single_bit(static_cast<uint64_t>(*row));
    apart[n->buffer.get()] =
        swizzles && whole && is_power ? swizzled(n->buffer, *row) : padded(n->buffer, *row);
  });
  return replace_buffers(kernel, apart);
}

}  // namespace

Program pad_shared_rows(const Program& program) {
  return with_body(program, map_kernels(program.body, with_rows_apart));
}

}  // namespace tilewright
