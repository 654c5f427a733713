#include "tuner/measure/exercise.h"

#include <algorithm>
#include <optional>

#include "base/ceil_div.h"
#include "codegen/cuda/cuda_cluster.h"
#include "codegen/cuda/cuda_tensor_copy.h"
#include "codegen/cuda/cuda_tile_order.h"
#include "codegen/cuda_lowering.h"
#include "ir/arith/simplify.h"

namespace tilewright {
namespace {

constexpr int64_t kTurns = 2, kCurve = 2;

int64_t wanted(int64_t stages) { return 2 * stages + 1; }

// Up to 1, where there are fewer than wanted.
double lacking(int64_t has, int64_t wants) {
  return 1 - std::min(1.0, static_cast<double>(has) / static_cast<double>(wants));
}

// The part of a ring's exercise that is missing, up to 2. A remainder of each tile that all tiles of a block make up
// for is worth less than two tiles.
double lacking_of_ring(int64_t stages, int64_t iterations, int64_t remainder) {
  constexpr double kOfTiles = 0.25;
  const double whole_turns = iterations % stages == 0 ? 1 : remainder == 0 ? kOfTiles : 0;
  return lacking(iterations, wanted(stages)) + whole_turns;
}

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

  Exercise result() const {
    Exercise result = result_;
    if (result.stages > 0) result.remainder = remainder_at_end();
    if (result.turns > 0) result.turns = std::max<int64_t>(1, result.turns / teams_);
    return result;
  }

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
      most_turns_ = std::max(most_turns_, ceil_div(extent, *blocks));
    }
    if (const auto order = tile_order(loop); order && order->rows > 0) {
      result_.curve_rows = order->rows;
      result_.curve_columns = order->columns;
    }
    const auto copies = loop.annotations.find(kCopiesKey);
    if (copies != loop.annotations.end()) {
      if (auto* way = std::get_if<std::string>(&copies->second)) {
        teams_ = std::max(teams_, teams_of_consumers(*way));
      }
    }
    const int64_t stages = number_at(loop, kPipelineStagesKey).value_or(1);
    if (stages < 2) return;
    const double lacks = lacking_of_ring(stages, extent, extent % stages);
    if (result_.stages > 0 && lacks <= lacks_) return;
    lacks_ = lacks;
    result_.stages = stages;
    result_.iterations = extent;
  }

  // Stages are counted on from tile to tile.
  int64_t remainder_at_end() const {
    const int64_t of_tile = result_.iterations % result_.stages;
    if (of_tile == 0 || result_.turns == 0) return of_tile;
    return std::max(result_.turns * result_.iterations % result_.stages,
                    most_turns_ * result_.iterations % result_.stages);
  }

  Analyzer known_;
  Exercise result_;
  double lacks_ = 0;        // the ring of the result
  int64_t teams_ = 1;       // of consumers, which take turns
  int64_t most_turns_ = 0;  // tiles of a block of a persistent grid, at most
};

}  // namespace

double Exercise::missing() const {
  double all = stages > 0 ? lacking_of_ring(stages, iterations, remainder) : 0;
  if (turns > 0) all += lacking(turns, kTurns);
  if (curve_rows > 0) all += lacking(curve_rows, kCurve) + lacking(curve_columns, kCurve);
  return all;
}

int64_t Exercise::next_iterations() const {
  const int64_t next = std::max(wanted(stages), iterations + 1);
  return next % stages == 0 ? next + 1 : next;
}

std::map<std::string, int64_t> Exercise::by_name() const {
  return {{"ring_stages", stages},       {"ring_iterations", iterations},
          {"ring_remainder", remainder}, {"tiles_per_block", turns},
          {"curve_rows", curve_rows},    {"curve_columns", curve_columns}};
}

Exercise exercise_of(const Program& program) { return ExerciseReader(program).result(); }

}  // namespace tilewright
