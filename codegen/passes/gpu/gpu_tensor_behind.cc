#include "codegen/passes/gpu/gpu_tensor_behind.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/cuda/instructions/cuda_instruction.h"
#include "codegen/cuda/instructions/cuda_wgmma_flight.h"
#include "codegen/cuda_lowering.h"
#include "codegen/lowering.h"
#include "codegen/statements.h"
#include "ir/visitor.h"

namespace tilewright {
namespace {

enum class Product : uint8_t { None, Own, Behind };

Product product_in(const Stmt& s) {
  Product found = Product::None;
  for_each_stmt(s, [&](const Stmt& x) {
    auto* loop = x.as<ForNode>();
    if (loop && wgmma_mark(*loop)) found = is_wgmma_behind(*loop) ? Product::Behind : Product::Own;
  });
  return found;
}

[[noreturn]] void fail_behind(const ForNode& loop, const std::string& reason) {
  throw LoweringError(
      fmt::format("a product in loop '{}' is to stand behind those of the next "
                  "iteration ('{}'): {}",
                  loop.var.name(), kWgmmaBehindKey, reason));
}

}  // namespace

Stmt BehindIteration::iteration(const std::function<Stmt(const Stmt&)>& at,
                                const Stmt& late_before) const {
  // The same buffer is allocated in several places; each of them gets a buffer of its own.
  BufferMap fresh;
  for (const Buffer& b : own) fresh[b.get()] = with_shape(b, b->shape);
  std::vector<Stmt> stmts;
  for (const Stmt& s : ahead) stmts.push_back(at(s));
  if (late_before.defined()) stmts.push_back(late_before);
  for (const Stmt& s : rest) stmts.push_back(at(s));
  Stmt body = replace_buffers(make_seq(std::move(stmts)), fresh);
  for (size_t b = own.size(); b-- > 0;) body = make_allocate(fresh.at(own[b].get()), body);
  return body;
}

std::optional<BehindIteration> take_behind(const ForNode& loop, const std::vector<Stmt>& uses,
                                           const std::vector<Buffer>& own) {
  BehindIteration parts;
  size_t late = uses.size(), ahead = 0;
  for (size_t i = 0; i < uses.size(); ++i) {
    const Product product = product_in(uses[i]);
    if (product == Product::Own) ahead = i + 1;
    if (product != Product::Behind) continue;
    if (late < uses.size()) fail_behind(loop, "there may be one such product");
    late = i;
  }
  if (late == uses.size()) return std::nullopt;
  parts.late = uses[late];
  if (ahead == 0 || ahead > late) {
    fail_behind(loop, "another product has to come before it, and none behind it");
  }
  if (leaves_wgmma_pending(loop)) {
    fail_behind(loop, fmt::format("the loop must not be annotated '{}'", kWgmmaPendingKey));
  }
  parts.ahead.assign(uses.begin(), uses.begin() + static_cast<std::ptrdiff_t>(ahead));
  // Statements between here and the products of the next iteration then run before the late
  // product.
  std::vector<Stmt> passed(uses.begin() + static_cast<std::ptrdiff_t>(late) + 1, uses.end());
  passed.insert(passed.end(), parts.ahead.begin(), parts.ahead.end());
  for (const Stmt& s : passed) {
    if (depends(s, parts.late)) fail_behind(loop, "a statement before them uses its registers");
  }
  const BufferSet read = read_by(parts.late), sums = stored_by(parts.late);
  BufferSet needed = sums;  // by the group, until its wait
  for (const Buffer& b : own) {
    if (!is_private(b) && read.count(b.get()) != 0) {
      fail_behind(
          loop,
          fmt::format("it reads '{}', which is made anew by then and not in registers", b->name));
    }
    const bool is_kept = is_private(b) && (read.count(b.get()) != 0);
    if (is_kept && sums.count(b.get()) == 0) needed.insert(b.get());
    (is_kept ? parts.kept : parts.own).push_back(b);
  }
  std::vector<Stmt> last;
  for (size_t i = ahead; i < uses.size(); ++i) {
    if (i == late) continue;
    bool waits = meet(stored_by(uses[i]), needed) || meet(read_by(uses[i]), needed);
    for (const Stmt& s : last) waits |= depends(s, uses[i]);
    (waits ? last : parts.rest).push_back(uses[i]);
  }
  parts.rest.insert(parts.rest.end(), last.begin(), last.end());
  return parts;
}

}  // namespace tilewright
