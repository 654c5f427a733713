// Initial values that are stored just before an accumulating loop start in the loop's registers.
// The loop writes the elements back, so it would overwrite the stores before it unread. Compilers
// keep these stores, since the loop lies between (GCC 12 does, for every vector).
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "codegen/lowering.h"
#include "ir/arith/simplify.h"
#include "ir/compare.h"
#include "ir/predicates.h"
#include "ir/visitor.h"

namespace tilewright {
namespace {

using Buffers = std::set<const BufferNode*>;

bool reads_any(const Stmt& s, const Buffers& buffers) {
  bool found = false;
  for_each_expr(s, [&](const Expr& x) {
    auto* load = x.as<LoadNode>();
    found |= load && buffers.count(load->buffer.get()) > 0;
  });
  return found;
}

bool same_or_undefined(const Expr& a, const Expr& b) {
  return a.defined() == b.defined() && (!a.defined() || equal(a, b));
}

// True for `buffer[index] = …` of the element (or vector) that `from` reads.
bool stores_to(const StoreNode& store, const LoadNode& from) {
  return store.buffer == from.buffer && equal(store.indices[0], from.indices[0]) &&
         same_or_undefined(store.predicate, from.predicate);
}

// The body of a promoted loop: registers are read from memory, the loop runs, memory is written.
class PromotedLoop {
 public:
  explicit PromotedLoop(const SeqNode& body) : body_(body) {
    while (loop_ < body.stmts.size() && !body.stmts[loop_].as<ForNode>()) ++loop_;
  }

  // The load that statement `i` makes into a register that the loop's end writes back; else null.
  const LoadNode* first_value(size_t i) const {
    auto* store = i < loop_ ? body_.stmts[i].as<StoreNode>() : nullptr;
    if (!store || store->buffer->scope != Scope::Register) return nullptr;
    auto* from = store->value.as<LoadNode>();
    return from && writes_back(*from) ? from : nullptr;
  }
  bool touches(const Buffer& buffer) const {
    for (size_t i = 0; i < loop_; ++i) {
      auto* from = first_value(i);
      if (from && from->buffer == buffer) return true;
    }
    return false;
  }
  // The statement that reads the element that `store` writes.
  size_t reader_of(const StoreNode& store) const {
    size_t i = 0;
    for (; i < loop_; ++i) {
      auto* from = first_value(i);
      if (from && stores_to(store, *from)) break;
    }
    return i;
  }
  size_t loop() const { return loop_; }
  // The buffers, except registers, that are written ahead of the loop.
  Buffers written_before() const {
    Buffers written;
    for (size_t i = 0; i < loop_; ++i) {
      auto* store = body_.stmts[i].as<StoreNode>();
      if (store && store->buffer->scope != Scope::Register) written.insert(store->buffer.get());
    }
    return written;
  }

 private:
  bool writes_back(const LoadNode& from) const {
    for (size_t i = loop_ + 1; i < body_.stmts.size(); ++i) {
      auto* store = body_.stmts[i].as<StoreNode>();
      if (store && stores_to(*store, from)) return true;
    }
    return false;
  }

  const SeqNode& body_;
  size_t loop_ = 0;
};

// The offset of a store within the elements of `whole`, if it gives neighbours among them one
// constant and is shorter.
std::optional<int64_t> part_of(const StoreNode& store, const LoadNode& whole) {
  auto* all = whole.indices[0].as<RampNode>();
  auto* some = store.indices[0].as<RampNode>();
  auto* value = store.value.as<BroadcastNode>();
  if (store.buffer != whole.buffer || store.predicate.defined() || whole.predicate.defined() ||
      !all || !some || !value || !is_int(all->stride, 1) || !is_int(some->stride, 1)) {
    return std::nullopt;
  }
  const bool constant = value->value.as<FloatImmNode>() || value->value.as<IntImmNode>();
  auto offset = as_int(simplify(some->base - all->base));
  const int64_t lanes = some->type.lanes, most = all->type.lanes;
  const bool inside = offset && *offset >= 0 && lanes < most && *offset + lanes <= most;
  return constant && inside ? offset : std::nullopt;
}

// Joins stores at the end of `stmts` that start `whole` part by part, where they give all of it one
// constant: a register may be longer than the vectors that memory is filled with.
void join_parts(const LoadNode& whole, std::vector<Stmt>& stmts) {
  std::map<int64_t, size_t> parts;  // by offset
  Expr value;
  for (size_t i = stmts.size(); i-- > 0;) {
    auto* store = stmts[i].as<StoreNode>();
    if (!store || reads_any(stmts[i], {whole.buffer.get()})) break;
    auto offset = part_of(*store, whole);
    if (!offset) continue;
    const Expr& element = store->value.as<BroadcastNode>()->value;
    if (!value.defined()) value = element;
    if (!equal(value, element) || !parts.emplace(*offset, i).second) return;
  }
  int64_t end = 0;
  size_t last = 0;
  for (const auto& [offset, at] : parts) {
    if (offset != end) return;
    end += stmts[at].as<StoreNode>()->value.type().lanes;
    last = std::max(last, at);
  }
  const int lanes = whole.type.lanes;
  if (parts.empty() || end != lanes) return;
  for (const auto& [offset, at] : parts) stmts[at] = {};
  stmts[last] = make_store(whole.buffer, whole.indices, broadcast(value, lanes));
  std::erase_if(stmts, [](const Stmt& s) { return !s.defined(); });
}

class Starter : public Mutator {
 protected:
  Stmt mutate_seq(const SeqNode& n, const Stmt& s) override {
    Stmt mutated = Mutator::mutate_seq(n, s);
    auto* seq = mutated.as<SeqNode>();
    if (!seq) return mutated;
    std::vector<Stmt> result;
    for (const Stmt& child : seq->stmts) {
      Stmt started = start(child, result);
      result.push_back(started);
    }
    return make_seq(std::move(result));
  }

 private:
  // Starts the promoted loop below its registers' allocations; removes its initial values from
  // `before`.
  Stmt start(const Stmt& s, std::vector<Stmt>& before) {
    if (auto* allocate = s.as<AllocateNode>()) {
      Stmt body = start(allocate->body, before);
      return body.same_as(allocate->body) ? s : make_allocate(allocate->buffer, body);
    }
    auto* body = s.as<SeqNode>();
    return body ? start_loop(*body, s, before) : s;
  }

  Stmt start_loop(const SeqNode& body, const Stmt& s, std::vector<Stmt>& before) {
    PromotedLoop promoted(body);
    if (promoted.loop() == body.stmts.size()) return s;
    std::vector<Stmt> stmts = body.stmts;
    bool changed = false;
    for (size_t i = 0; i < promoted.loop(); ++i) {
      if (const LoadNode* from = promoted.first_value(i)) join_parts(*from, before);
    }
    // Goes backwards through stores only, whose values are the same further down: they read nothing
    // that is written in between.
    Buffers written = promoted.written_before();
    for (size_t i = before.size(); i-- > 0;) {
      auto* store = before[i].as<StoreNode>();
      if (!store) break;
      written.insert(store->buffer.get());
      if (reads_any(before[i], written)) break;
      size_t reader = promoted.reader_of(*store);
      if (reader == promoted.loop()) {
        // This store may overlap with elements that the loop reads, so the stores before it have to
        // stay.
        if (promoted.touches(store->buffer)) break;
        continue;
      }
      auto* into = body.stmts[reader].as<StoreNode>();
      if (!stmts[reader].same_as(body.stmts[reader]))
        continue;  // written twice: the last one counts
      stmts[reader] = make_store(into->buffer, into->indices, store->value, into->predicate);
      before.erase(before.begin() + static_cast<std::ptrdiff_t>(i));
      changed = true;
    }
    return changed ? make_seq(std::move(stmts)) : s;
  }
};

}  // namespace

Program start_accumulators(const Program& program) {
  Program result = program;
  result.body = Starter()(program.body);
  return result;
}

}  // namespace tilewright
