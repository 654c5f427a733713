#include "schedule/primitives/blocks/inline.h"

#include <algorithm>
#include <functional>

#include <fmt/core.h>

#include "ir/predicates.h"
#include "ir/text/printer.h"
#include "schedule/masked_loads.h"
#include "schedule/primitive_json.h"
#include "schedule/primitives/pointwise.h"
#include "schedule/primitives/weight/unscale.h"

namespace tilewright {
namespace {

// Replaces the loads of a buffer by a function of their indices.
class LoadReplacer : public Mutator {
 public:
  using Value = std::function<Expr(const std::vector<Expr>& indices)>;
  LoadReplacer(const Buffer& buffer, Value value) : buffer_(buffer), value_(std::move(value)) {}

 protected:
  Expr mutate_load(const LoadNode& n, const Expr& e) override {
    if (n.buffer != buffer_) return Mutator::mutate_load(n, e);
    bool changed = false;
    return value_(mutate_all(n.indices, &changed));
  }
  // What was stored in a type that holds it without loss is cast once.
  Expr mutate_cast(const CastNode& n, const Expr& e) override {
    Expr result = Mutator::mutate_cast(n, e);
    auto* outer = result.as<CastNode>();
    auto* stored = outer ? outer->value.as<CastNode>() : nullptr;
    const bool passes = !result.same_as(e) && stored &&
                        holds_differences(stored->value.type().elem, {}, stored->type.elem);
    return passes ? cast(n.type, stored->value) : result;
  }

 private:
  const Buffer& buffer_;
  Value value_;
};

// The loads of `buffer` in the block's body and init.
std::vector<const LoadNode*> loads_of(const BlockNode& block, const Buffer& buffer) {
  std::vector<const LoadNode*> found;
  auto visit = [&](const Expr& e) {
    auto* load = e.as<LoadNode>();
    if (load && load->buffer == buffer) found.push_back(load);
  };
  for_each_expr(block.body, visit);
  if (block.init.defined()) for_each_expr(block.init, visit);
  return found;
}

std::vector<int> require_iterators(const Tree& tree, const Pointwise& of,
                                   const std::vector<Expr>& indices, const Buffer& buffer,
                                   const std::string& verb) {
  auto dims = iterators_of(*of.block, indices, buffer->shape);
  tree.require(dims.has_value(), RefusalKind::Unsupported,
               fmt::format("block '{}' {} '{}' at indices that are not its iterators, each once",
                           of.block->name, verb, buffer->name),
               {of.stmt()});
  return *dims;
}

// Refuses when the block reads elements of the producer's buffer that the producer leaves out, as the
// padding of a layout is: the inlined value would read its own operands beyond their ends.
void require_written(const Tree& tree, const Stmt& reader, const Pointwise& producer,
                     const std::vector<int>& dims) {
  const Buffer& buffer = producer.store->buffer;
  Analyzer known = known_in(tree, *reader.as<BlockNode>());
  MaskedLoads loads([&](const LoadNode& load, const Expr& mask) {
    if (load.buffer != buffer) return;
    known.push();
    for (const Expr& condition : conjuncts(mask)) known.assume(condition);
    for (size_t i = 0; i < dims.size(); ++i) {
      if (dims[i] < 0) continue;
      const size_t d = static_cast<size_t>(dims[i]);
      const Expr& extent = producer.block->iters[i].extent;
      const bool whole = is_int(known.simplify(buffer->shape[d] - extent), 0);
      tree.require(whole || known.prove(load.indices[d] < extent), RefusalKind::Unsupported,
                   fmt::format("block '{}' may read '{}' beyond the extent {} that block '{}' "
                               "writes along dimension {}; inline '{}' before its layout is padded",
                               reader.as<BlockNode>()->name, buffer->name, to_string(extent),
                               producer.block->name, d, producer.block->name),
                   {producer.stmt(), reader});
    }
    known.pop();
  });
  loads(reader.as<BlockNode>()->body);
  if (reader.as<BlockNode>()->init.defined()) loads(reader.as<BlockNode>()->init);
}

// What reverse_compute_inline needs of the two blocks and of their surroundings.
class Epilogue {
 public:
  Epilogue(const Tree& tree, const std::string& block)
      : tree_(tree), consumer_(Pointwise::find(tree, block)), producer_(find_producer()) {
    require_intermediate(tree_, buffer(), "its values are needed outside", {producer_.stmt()});
    require_only_writer(tree_, producer_.stmt(), producer_.store->buffer);
    require_only_writer(tree_, consumer_.stmt(), consumer_.store->buffer);
    check_readers();
    check_other_reads();
  }

  Program inlined() const {
    std::vector<int> dims = check_reads();
    VarMap at = iterators_at(*consumer_.block, dims, producer_.store->indices);
    LoadReplacer replacer(buffer(),
                          [&](const std::vector<Expr>&) { return producer_.store->value; });
    // The consumer's own expressions first: the producer's value must not be substituted in.
    Expr value = replacer(substitute(consumer_.store->value, at));
    std::vector<Expr> indices;
    for (const Expr& i : consumer_.store->indices) indices.push_back(substitute(i, at));
    const BlockNode& p = *producer_.block;
    Stmt merged =
        make_block(p.name, p.iters, make_store(consumer_.store->buffer, std::move(indices), value),
                   {}, p.predicate, p.allocs, p.annotations);
    Program program = replace_stmt(tree_.program(), consumer_.block, Stmt());
    program = replace_stmt(program, &p, simplify_body(tree_, *merged.as<BlockNode>()));
    return without_buffer(program, buffer());
  }

 private:
  const Buffer& buffer() const { return producer_.store->buffer; }

  // The first producer whose buffer is read at the consumer's iterators, if it can be extended.
  Pointwise find_producer() const {
    std::vector<Stmt> producers = producers_of(scope_of(consumer_.path), *consumer_.block);
    tree_.require(!producers.empty(), RefusalKind::BadStructure,
                  fmt::format("block '{}' reads no intermediate buffer", consumer_.block->name),
                  {consumer_.stmt()});
    // The last one: the values of the others are then stored before it.
    const Stmt& producer = producers.back();
    const BlockNode& node = *producer.as<BlockNode>();
    tree_.require(!node.init.defined(), RefusalKind::Unsupported,
                  fmt::format("producer '{}' is a reduction; move block '{}' with "
                              "reverse_compute_at instead",
                              node.name, consumer_.block->name),
                  {producer});
    return Pointwise::of(tree_, producer);
  }

  void check_readers() const {
    for (const Stmt& reader : consumers_of(scope_of(producer_.path), *producer_.block)) {
      tree_.require(
          reader.same_as(consumer_.stmt()), RefusalKind::Dependence,
          fmt::format("block '{}' also reads '{}'", reader.as<BlockNode>()->name, buffer()->name),
          {reader, consumer_.stmt()});
    }
  }

  // Everything else that the consumer reads must be there when the producer runs.
  void check_other_reads() const {
    for (const Stmt& other : producers_of(scope_of(consumer_.path), *consumer_.block)) {
      if (other.same_as(producer_.stmt())) continue;
      for (const Stmt& s : producer_.path) {
        tree_.require(
            !s.as<ForNode>() || path_to(s, other.get()).empty(), RefusalKind::Dependence,
            fmt::format("block '{}', which block '{}' also reads, shares loop '{}' with "
                        "producer '{}'",
                        other.as<BlockNode>()->name, consumer_.block->name,
                        s.as<ForNode>() ? s.as<ForNode>()->var.name() : "", producer_.block->name),
            {s, other});
      }
    }
  }

  // The dimension of the producer's buffer that each iterator of the consumer reads.
  std::vector<int> check_reads() const {
    std::vector<int> dims;
    for (const LoadNode* load : loads_of(*consumer_.block, buffer())) {
      std::vector<int> found =
          require_iterators(tree_, consumer_, load->indices, buffer(), "reads");
      tree_.require(dims.empty() || dims == found, RefusalKind::Unsupported,
                    fmt::format("block '{}' reads '{}' at different indices", consumer_.block->name,
                                buffer()->name),
                    {consumer_.stmt()});
      dims = found;
    }
    for (size_t i = 0; i < dims.size(); ++i) {
      if (dims[i] < 0) continue;
      const IterVar& iter = consumer_.block->iters[i];
      const Expr& extent = buffer()->shape[static_cast<size_t>(dims[i])];
      tree_.require(is_int(simplify(iter.extent - extent), 0), RefusalKind::Unsupported,
                    fmt::format("block '{}' does not iterate over all of dimension {} of '{}'",
                                consumer_.block->name, dims[i], buffer()->name),
                    {consumer_.stmt()});
    }
    return dims;
  }

  const Tree& tree_;
  Pointwise consumer_;
  Pointwise producer_;
};

}  // namespace

Applied ComputeInline::apply(const Module& module) const {
  Tree tree(kName, module.main);
  Pointwise producer = Pointwise::find(tree, block);
  const Buffer& buffer = producer.store->buffer;
  require_intermediate(tree, buffer, "its values are needed outside", {producer.stmt()});
  require_only_writer(tree, producer.stmt(), buffer);
  std::vector<int> dims =
      require_iterators(tree, producer, producer.store->indices, buffer, "writes");
  LoadReplacer replacer(buffer, [&](const std::vector<Expr>& indices) {
    return substitute(producer.store->value, iterators_at(*producer.block, dims, indices));
  });
  Program program = module.main;
  std::vector<Stmt> consumers = consumers_of(scope_of(producer.path), *producer.block);
  tree.require(!consumers.empty(), RefusalKind::BadStructure,
               fmt::format("no block reads '{}', which block '{}' writes", buffer->name, block),
               {producer.stmt()});
  for (const Stmt& consumer : consumers) {
    const BlockNode& node = *consumer.as<BlockNode>();
    for (const LoadNode* load : loads_of(node, buffer)) {
      tree.require(!load->predicate.defined(), RefusalKind::Unsupported,
                   fmt::format("block '{}' reads '{}' under a predicate", node.name, buffer->name),
                   {consumer});
    }
    require_written(tree, consumer, producer, dims);
    Stmt replaced = replacer(consumer);
    program = replace_stmt(program, &node, simplify_body(tree, *replaced.as<BlockNode>()));
  }
  program = replace_stmt(program, producer.block, Stmt());
  Module result = module;
  result.main = without_buffer(program, buffer);
  return {std::move(result), {}};
}

Applied ReverseComputeInline::apply(const Module& module) const {
  Tree tree(kName, module.main);
  Module result = module;
  result.main = Epilogue(tree, block).inlined();
  return {std::move(result), {}};
}

std::vector<PrimitiveEntry> inline_primitives() {
  return {primitive_entry<ComputeInline>(), primitive_entry<ReverseComputeInline>()};
}

}  // namespace tilewright
