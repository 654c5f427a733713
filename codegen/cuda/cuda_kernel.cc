#include "codegen/cuda/cuda_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "codegen/cuda/instructions/cuda_instruction.h"
#include "codegen/cuda_lowering.h"
#include "ir/arith/simplify.h"
#include "ir/call_table.h"
#include "ir/visitor.h"

namespace tilewright {
namespace {

// Walks a kernel with what is known of the variables at each nest. Passes build statements of shared
// nodes; a nest that stands at several places becomes as many, since others hold at each.
class InstructionFinder : public Mutator {
 public:
  InstructionFinder(CudaKernel& kernel, const Target& target) : kernel_(kernel), target_(target) {}

  void bind(const DimVar& d) { known_.bind(d.var, Interval{d.min, d.max}); }

 protected:
  using Mutator::mutate;
  Expr mutate(const Expr& e) override { return e; }  // there are no nests

  Stmt mutate_for(const ForNode& n, const Stmt& s) override {
    if (is_block_axis(n.for_kind) || is_thread_axis(n.for_kind)) {
      known_.bind_kept(n.var, n.min, n.extent);
      if (n.for_kind == ForKind::ThreadX) thread_ = n.var;
      return Mutator::mutate_for(n, s);
    }
    if (auto nest = match(n)) {
      const bool is_found = kernel_.instructions.count(&n) != 0;
      Stmt own = is_found ? make_for(n.var, n.min, n.extent, n.for_kind, n.body, n.annotations) : s;
      kernel_.instructions.emplace(own.as<ForNode>(), *std::move(nest));
      return own;
    }
    KnowledgeScope scope(known_);
    known_.bind(n.var, n.min, n.extent);
    return Mutator::mutate_for(n, s);
  }

  Stmt mutate_let(const LetNode& n, const Stmt& s) override {
    KnowledgeScope scope(known_);
    known_.bind(n.var, known_.bounds(n.value));
    return Mutator::mutate_let(n, s);
  }

  Stmt mutate_if(const IfNode& n, const Stmt& s) override {
    Stmt then_case;
    {
      KnowledgeScope scope(known_);
      known_.assume(n.cond);
      then_case = mutate(n.then_case);
    }
    const Stmt else_case = mutate(n.else_case);
    const bool is_same = then_case.same_as(n.then_case) && else_case.same_as(n.else_case);
    return is_same ? s : make_if(n.cond, then_case, else_case);
  }

 private:
  std::optional<InstructionNest> match(const ForNode& n) {
    if (auto* row = wgmma_mark(n)) {
      require(n, fmt::format("wgmma '{}'", row->name),
              row->runs_on(target_.gpu.compute_capability));
      return match_wgmma(n, thread_, known_);
    }
    if (!mma_mark(n).empty()) return match_mma(n, known_);
    if (is_marked(n, kShuffle)) return match_shuffle(n);
    if (is_marked(n, kDp4a)) return match_dot(n, known_);
    if (is_marked(n, kStmatrix)) {
      require(n, kStmatrix, has_stmatrix(target_.gpu));
      return match_stmatrix(n, thread_, known_);
    }
    return std::nullopt;
  }

  void require(const ForNode& n, const std::string& mark, bool has_it) {
    if (has_it) return;
    throw LoweringError(fmt::format("loop '{}' is marked as {}, which {} does not have",
                                    n.var.name(), mark, target_.name));
  }

  CudaKernel& kernel_;
  const Target& target_;
  Analyzer known_;
  Expr thread_;  // along x; undefined outside of threads
};

void find_uses(CudaKernel& kernel) {
  kernel.stored = stored_by(kernel.body);
  std::set<const ExprNode*> named;
  for_each_expr(kernel.body, [&](const Expr& e) {
    auto* c = e.as<CallNode>();
    for (size_t a = 0; c && a < c->args.size(); ++a) {
      const CallAccess access = access_of(c->op, a);
      kernel.loads_boxes |= access == CallAccess::Write;
      kernel.stores_boxes |= access == CallAccess::MapWrite;
      if (access == CallAccess::MapRead || access == CallAccess::MapWrite)
        named.insert(c->args[a].get());
    }
    auto* n = e.as<LoadNode>();
    if (n && named.count(n) == 0) kernel.read.insert(n->buffer.get());
  });
}

}  // namespace

const InstructionNest* CudaKernel::instruction(const ForNode& loop) const {
  auto it = instructions.find(&loop);
  return it == instructions.end() ? nullptr : &it->second;
}

bool CudaKernel::has_wgmma() const {
  return std::any_of(instructions.begin(), instructions.end(), [](const auto& found) {
    return std::holds_alternative<WgmmaNest>(found.second);
  });
}

bool CudaKernel::stores_wgmma_operands() const {
  return std::any_of(instructions.begin(), instructions.end(), [&](const auto& found) {
    auto* nest = std::get_if<WgmmaNest>(&found.second);
    auto is_stored = [&](const Buffer& b) {
      return b->scope == Scope::Shared && stored.count(b.get()) != 0;
    };
    return nest && (is_stored(nest->a.buffer) || is_stored(nest->b.buffer));
  });
}

CudaKernel match_kernel(const Stmt& body, const std::vector<DimVar>& dims, const Target& target) {
  CudaKernel kernel{body};
  InstructionFinder finder(kernel, target);
  for (const DimVar& d : dims) finder.bind(d);
  kernel.body = finder(body);
  find_uses(kernel);
  return kernel;
}

}  // namespace tilewright
