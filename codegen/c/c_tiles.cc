#include "codegen/c/c_tiles.h"

#include "ir/compare.h"
#include "ir/dot_shape.h"
#include "ir/predicates.h"
#include "ir/visitor.h"

namespace tilewright {
namespace {

constexpr int64_t kTileBytes = 1024;

bool is_contiguous(const Expr& index) {
  auto* r = index.as<RampNode>();
  return r && is_int(r->stride, 1);
}

class TileUses {
 public:
  explicit TileUses(const Buffer& buffer) : buffer_(buffer) {}

  bool all_fit(const Stmt& body) {
    int64_t products = 0, reads = 0;
    for_each_expr(body, [&](const Expr& e) {
      products += as_tile_product(e) != nullptr;
      auto* load = e.as<LoadNode>();
      reads += load && load->buffer == buffer_;
    });
    bool ok = true;
    for_each_stmt(body, [&](const Stmt& s) {
      if (auto* store = s.as<StoreNode>()) ok &= fits(*store);
    });
    return ok && added_ > 0 && products == added_ && reads == added_ + stored_;
  }

 private:
  // Counts the uses of the buffer that tile registers have an instruction for.
  bool fits(const StoreNode& n) {
    auto* from = n.value.as<LoadNode>();
    if (n.buffer != buffer_) {
      const bool is_use = from && from->buffer == buffer_;
      if (is_use) ++stored_;
      return !is_use || (!n.predicate.defined() && n.buffer->scope != Scope::Register &&
                         n.buffer->elem == buffer_->elem && is_contiguous(n.indices[0]));
    }
    if (n.predicate.defined()) return false;
    if (from) {
      return from->buffer->scope != Scope::Register && from->buffer->elem == buffer_->elem &&
             !from->predicate.defined() && is_contiguous(from->indices[0]);
    }
    if (auto* same = n.value.as<BroadcastNode>()) return is_zero(same->value);
    auto* product = as_tile_product(n.value);
    auto* sum = product ? product->args[0].as<LoadNode>() : nullptr;
    if (!sum || sum->buffer != buffer_ || !equal(sum->indices[0], n.indices[0])) return false;
    ++added_;
    return true;
  }

  const Buffer& buffer_;
  int64_t added_ = 0;   // products
  int64_t stored_ = 0;  // results
};

}  // namespace

bool fit_tile_registers(const Buffer& buffer, const std::map<int64_t, int>& variables,
                        const Stmt& body) {
  if (variables.empty() || variables.size() > kTileAccumulators) return false;
  for (const auto& [base, lanes] : variables) {
    if (int64_t{lanes} * bits_of(buffer->elem) != 8 * kTileBytes) return false;
  }
  return TileUses(buffer).all_fit(body);
}

void TileOperands::reset(int first) {
  first_ = first;
  held_.fill("");
  used_.fill(0);
}

std::pair<int, bool> TileOperands::take(const std::string& text, int kept) {
  int oldest = -1;
  for (int i = first_; i < kTileRegisters; ++i) {
    const auto at = static_cast<size_t>(i);
    if (held_[at] == text) {
      used_[at] = ++uses_;
      return {i, true};
    }
    if (i != kept && (oldest < 0 || used_[at] < used_[static_cast<size_t>(oldest)])) oldest = i;
  }
  const auto at = static_cast<size_t>(oldest);
  held_[at] = text;
  used_[at] = ++uses_;
  return {oldest, false};
}

}  // namespace tilewright
