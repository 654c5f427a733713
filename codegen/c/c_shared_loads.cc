// Vectors in memory that neighbouring stores share, loaded once.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <tuple>

#include "codegen/c/c_expr.h"
#include "ir/dot_shape.h"
#include "ir/predicates.h"
#include "ir/visitor.h"

namespace tilewright {
namespace {

// From the fourth use on GCC keeps a vector in a register by itself.
constexpr size_t kMostUses = 3;
constexpr size_t kTemporaries = 2;  // registers

// Appends the loads that the value of a store reads in any case, and combines without a conversion.
void find_operands(const Expr& e, std::vector<const LoadNode*>& found) {
  if (auto* n = e.as<LoadNode>()) {
    if (!is_float(n->type.elem) || bits_of(n->type.elem) >= 32) found.push_back(n);
  } else if (auto* n = e.as<BinaryNode>()) {
    find_operands(n->a, found);
    find_operands(n->b, found);
  } else if (auto* n = e.as<CallNode>(); n && n->op == CallOp::Dot) {
    const auto shape = DotShape::of(n->type, n->args[1].type(), n->args[2].type());
    if (!shape || shape->is_tile()) return;
    find_operands(n->args[0], found);
    // The instruction converts factors itself.
    for (size_t factor : {1, 2}) {
      const auto* load = n->args[factor].as<LoadNode>();
      if (load != nullptr && (factor == 2 || shape->each)) found.push_back(load);
    }
  }
}

// A load that several stores use: the numbers of the first and the last one, and of its uses.
struct Shared {
  const LoadNode* load;
  size_t first, last, uses = 0;
  bool used_once_by_each = true;
};

}  // namespace

// Whether a vector register holds what is loaded, in stored form.
bool CExpr::fills_register(const LoadNode& n) const {
  const auto* r = n.indices[0].as<RampNode>();
  const int bits = bits_of(n.type.elem) * n.type.lanes;
  constexpr int kLeastBits = 128;
  return r != nullptr && is_int(r->stride, 1) && !n.predicate.defined() && n.type.lanes > 1 &&
         bits_of(n.type.elem) >= 8 && bits >= kLeastBits && bits <= prelude_.target().vector_bits &&
         std::has_single_bit(static_cast<unsigned>(bits)) &&
         buffers.at(n.buffer.get()).variables.empty() && !reads_memory(r->base);
}

CExpr::LoadKey CExpr::key_of(const LoadNode& n) {
  return {n.buffer.get(), print(n.indices[0].as<RampNode>()->base), n.type.lanes};
}

std::vector<std::vector<std::string>> CExpr::open_loads(const std::vector<const StoreNode*>& stores,
                                                        const ForNode* loop) {
  std::vector<std::vector<std::string>> before(stores.size());
  if (stores.size() < 2 || !prelude_.target().has("avx2")) return before;
  std::map<LoadKey, size_t> all;  // loads, wherever they stand
  std::map<LoadKey, size_t> place;
  std::vector<Shared> shared;
  std::set<const BufferNode*> written;
  std::set<std::pair<const BufferNode*, std::string>> accumulators;
  for (size_t i = 0; i < stores.size(); ++i) {
    const StoreNode& n = *stores[i];
    written.insert(n.buffer.get());
    if (!buffers.at(n.buffer.get()).variables.empty()) {
      accumulators.insert({n.buffer.get(), element(n.buffer, n.indices[0])});
    }
    const auto count = [&](const Expr& e) {
      if (auto* load = e.as<LoadNode>(); load && fills_register(*load)) ++all[key_of(*load)];
    };
    for_each_expr(n.value, count);
    for (const Expr& index : n.indices) for_each_expr(index, count);
    if (n.predicate.defined()) for_each_expr(n.predicate, count);
    if (n.predicate.defined()) continue;
    std::vector<const LoadNode*> operands;
    find_operands(n.value, operands);
    for (const LoadNode* load : operands) {
      if (!fills_register(*load)) continue;
      auto [it, is_new] = place.try_emplace(key_of(*load), shared.size());
      if (is_new) shared.push_back({load, i, i});
      Shared& s = shared[it->second];
      s.used_once_by_each &= s.uses == 0 || s.last < i;
      s.last = i;
      ++s.uses;
    }
  }
  std::vector<Shared> held;
  for (const Shared& s : shared) {
    const LoadKey key = key_of(*s.load);
    const bool few = s.uses > 1 && s.uses <= kMostUses && s.uses == all.at(key);
    // A load that the loop does not change stands before it.
    const bool varies = loop == nullptr || uses_var(s.load->indices[0], loop->var);
    if (!few || !s.used_once_by_each || !varies || written.contains(s.load->buffer.get())) continue;
    const auto live = static_cast<size_t>(
        std::ranges::count_if(held, [&](const Shared& h) { return h.last >= s.first; }));
    const auto registers = static_cast<size_t>(prelude_.target().vector_registers);
    if (accumulators.size() + live + 1 + kTemporaries > registers) continue;
    held.push_back(s);
    const std::string text = stored_text(*s.load),
                      name = fresh(buffers.at(s.load->buffer.get()).name + "_v");
    const std::string type = prelude_.memory_type(s.load->type.elem, s.load->type.lanes);
    before[s.first].push_back(
        fmt::format(R"({0} {1} = {2}; __asm__("" : "+v"({1}));)", type, name, text));
    held_.emplace(key, name);
  }
  return before;
}

std::string CExpr::held(const LoadNode& n) {
  if (held_.empty() || !fills_register(n)) return "";
  auto it = held_.find(key_of(n));
  return it == held_.end() ? "" : it->second;
}

}  // namespace tilewright
