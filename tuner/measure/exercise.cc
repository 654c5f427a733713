#include "tuner/measure/exercise.h"

#include <algorithm>
#include <optional>

#include "codegen/cuda/cuda_cluster.h"
#include "codegen/cuda/cuda_tile_order.h"
#include "codegen/cuda_lowering.h"
#include "ir/arith/simplify.h"

namespace tilewright {
namespace {

constexpr int64_t kTurns = 2, kCurve = 2;

int64_t wanted(int64_t stages) { return 2 * stages + 1; }

std::optional<int64_t> number_at(const ForNode& loop, const char* key) {
  auto it = loop.annotations.find(key);
  auto* number = it == loop.annotations.end() ? nullptr : std::get_if<int64_t>(&it->second);
  return number ? std::optional(*number) : std::nullopt;
}

class ExerciseReader {
 public:
  explicit ExerciseReader(const Program& program) {
    for (const DimVar& d : program.dims) known_.bind(d.var, Interval{d.min, d.max});
    read(program.body);
  }

  Exercise result() const { return result_; }

 private:
  void read(const Stmt& s) {
    if (auto* n = s.as<SeqNode>()) {
      for (const Stmt& child : n->stmts) read(child);
    } else if (auto* n = s.as<IfNode>()) {
      read(n->then_case);
      if (n->else_case.defined()) read(n->else_case);
    } else if (auto* n = s.as<LetNode>()) {
      KnowledgeScope scope(known_);
      known_.bind(n->var, known_.bounds(n->value));
      read(n->body);
    } else if (auto* n = s.as<AllocateNode>()) {
      read(n->body);
    } else if (auto* n = s.as<BlockNode>()) {
      KnowledgeScope scope(known_);
      for (const IterVar& iter : n->iters) known_.bind(iter.var, 0, iter.extent);
      read(n->body);
    } else if (auto* n = s.as<ForNode>()) {
      note(*n);
      KnowledgeScope scope(known_);
      known_.bind(n->var, n->min, n->extent);
      read(n->body);
    }
  }

  void note(const ForNode& loop) {
    const int64_t extent = known_.bounds(loop.extent).max;
    if (auto blocks = number_at(loop, kPersistentKey); blocks && *blocks > 0) {
      result_.turns = std::max<int64_t>(1, extent / *blocks);
    }
    if (auto rows = number_at(loop, kHilbertRowsKey)) {
      result_.curve_rows = *rows;
      result_.curve_columns = number_at(loop, kHilbertColumnsKey).value_or(1);
    }
    const int64_t stages = number_at(loop, kPipelineStagesKey).value_or(1);
    if (stages < 2) return;
    auto share = [](int64_t iterations, int64_t of) {
      return static_cast<double>(iterations) / static_cast<double>(wanted(of));
    };
    const bool is_first = result_.stages == 0;
    if (is_first || share(extent, stages) < share(result_.iterations, result_.stages)) {
      result_.stages = stages;
      result_.iterations = extent;
    }
  }

  Analyzer known_;
  Exercise result_;
};

}  // namespace

double Exercise::missing() const {
  double all = 0;
  auto ask = [&](int64_t has, int64_t wants) {
    all += 1 - std::min(1.0, static_cast<double>(has) / static_cast<double>(wants));
  };
  if (stages > 0) ask(iterations, wanted(stages));
  if (turns > 0) ask(turns, kTurns);
  if (curve_rows > 0) {
    ask(curve_rows, kCurve);
    ask(curve_columns, kCurve);
  }
  return all;
}

std::map<std::string, int64_t> Exercise::by_name() const {
  return {{"ring_stages", stages},
          {"ring_iterations", iterations},
          {"tiles_per_block", turns},
          {"curve_rows", curve_rows},
          {"curve_columns", curve_columns}};
}

Exercise exercise_of(const Program& program) { return ExerciseReader(program).result(); }

}  // namespace tilewright
