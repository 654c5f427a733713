#include "codegen/cuda/cuda_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "codegen/cuda/instructions/cuda_instruction.h"
#include "codegen/cuda_lowering.h"
#include "ir/arith/simplify.h"

namespace tilewright {
namespace {

// Walks a kernel with what is known of the variables at each nest.
class InstructionFinder {
 public:
  InstructionFinder(CudaKernel& kernel, const Target& target) : kernel_(kernel), target_(target) {}

  void bind(const DimVar& d) { known_.bind(d.var, Interval{d.min, d.max}); }

  void find(const Stmt& s) {
    if (auto* n = s.as<ForNode>()) {
      in_loop(*n);
    } else if (auto* seq = s.as<SeqNode>()) {
      for (const Stmt& child : seq->stmts) find(child);
    } else if (auto* a = s.as<AllocateNode>()) {
      find(a->body);
    } else if (auto* l = s.as<LetNode>()) {
      KnowledgeScope scope(known_);
      known_.bind(l->var, known_.bounds(l->value));
      find(l->body);
    } else if (auto* branch = s.as<IfNode>()) {
      {
        KnowledgeScope scope(known_);
        known_.assume(branch->cond);
        find(branch->then_case);
      }
      if (branch->else_case.defined()) find(branch->else_case);
    }
  }

 private:
  void in_loop(const ForNode& n) {
    if (is_block_axis(n.for_kind) || is_thread_axis(n.for_kind)) {
      known_.bind_kept(n.var, n.min, n.extent);
      if (n.for_kind == ForKind::ThreadX) thread_ = n.var;
      return find(n.body);
    }
    if (auto nest = match(n)) {
      kernel_.instructions.emplace(&n, *std::move(nest));
      return;
    }
    KnowledgeScope scope(known_);
    known_.bind(n.var, n.min, n.extent);
    find(n.body);
  }

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

CudaKernel match_kernel(const Stmt& body, const std::vector<DimVar>& dims, const Target& target) {
  CudaKernel kernel{body, {}};
  InstructionFinder finder(kernel, target);
  for (const DimVar& d : dims) finder.bind(d);
  finder.find(body);
  return kernel;
}

}  // namespace tilewright
