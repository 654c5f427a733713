#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "ir/visitor.h"
#include "tests/tuner/fuzz/fuzz_formats.h"

namespace tilewright::test {
namespace {

using Json = nlohmann::ordered_json;

// Draws rewrites of one schedule.
class FormatRewriter {
 public:
  FormatRewriter(const Schedule& schedule, const Workload& workload, Draw& draw,
                 const Attempt& attempt)
      : schedule_(schedule), format_(*workload.weight), draw_(draw), attempt_(attempt) {
    for (const Param& param : schedule.program().params) {
      if (param.role == ParamRole::Weight) weights_.push_back(param.buffer->name);
    }
    for (const Block& block : schedule.blocks()) {
      blocks_.push_back(block.name);
      bool sums = false, reads = false;
      for (const IterVar& iter : schedule.node(block).iters) sums |= iter.kind == IterKind::Reduce;
      for_each_expr(schedule.node(block).body, [&](const Expr& e) {
        auto* load = e.as<LoadNode>();
        reads |= load && load->buffer->name == format_.weight;
      });
      if (sums) contraction_ = block.name;
      if (reads && !sums) value_ = block.name;
    }
  }

  void draw() {
    switch (draw_.below(6)) {
      case 0:
      case 1: return compress();
      case 2: return prepack();
      case 3: return place_value();
      case 4: return attempt("precompute", {{"block", draw_.of(blocks_)}});
      default: return convert();
    }
  }

 private:
  void attempt(const char* primitive, const Json& arguments) {
    attempt_({primitive, arguments.dump(), {}});
  }

  void compress() {
    if (!format_.sparse()) return prepack();
    if (!value_.empty()) attempt("compute_inline", {{"block", value_}});
    attempt("compress_nm", {{"block", contraction_},
                            {"buffer", format_.weight},
                            {"keep", format_.keep},
                            {"of", format_.of},
                            {"vector", format_.vector}});
  }

  // Packs a weight, its scales, or a buffer made of them, in another order and in tiles.
  void prepack() {
    if (weights_.empty()) return;
    const std::string& weight = draw_.of(weights_);
    std::string in, out, last;
    for (const Param& param : schedule_.program().params) {
      if (param.buffer->name != weight) continue;
      for (int d = 0; d < param.buffer->rank(); ++d) {
        std::string axis = fmt::format("a{}", d), sep = d > 0 ? ", " : "";
        in += sep + axis;
        bool cut = draw_.chance(50);
        int64_t by = draw_.between(2, 8);
        std::string outer = cut ? fmt::format("floordiv({}, {})", axis, by) : axis;
        out = out.empty() ? outer : draw_.chance(50) ? out + ", " + outer : outer + ", " + out;
        if (cut) last += fmt::format(", floormod({}, {})", axis, by);
      }
    }
    attempt("prepack", {{"buffer", weight}, {"map", fmt::format("({}) -> ({}{})", in, out, last)}});
  }

  void place_value() {
    if (value_.empty()) return prepack();
    std::vector<Loop> loops = schedule_.loops(Block{contraction_});
    if (loops.empty() || draw_.chance(30)) return attempt("compute_inline", {{"block", value_}});
    attempt("compute_at", {{"block", value_}, {"loop", draw_.of(loops).name}});
  }

  void convert() {
    static const std::vector<std::string> kTypes = {"u8", "i8", "i16", "i32"};
    static const std::vector<int64_t> kOffsets = {0, 8, 128, -128};
    std::vector<std::string> read;
    for_each_expr(schedule_.node(Block{contraction_}).body, [&](const Expr& e) {
      if (auto* load = e.as<LoadNode>()) read.push_back(load->buffer->name);
    });
    attempt("convert_operand", {{"block", contraction_},
                                {"buffer", draw_.of(read)},
                                {"type", draw_.of(kTypes)},
                                {"offset", draw_.of(kOffsets)}});
  }

  const Schedule& schedule_;
  const WeightFormat& format_;
  Draw& draw_;
  const Attempt& attempt_;
  std::vector<std::string> weights_, blocks_;
  std::string contraction_, value_;  // blocks; value_ is empty if there is none
};

}  // namespace

void random_format_rewrite(const Schedule& schedule, const Workload& workload, Draw& draw,
                           const Attempt& attempt) {
  FormatRewriter(schedule, workload, draw, attempt).draw();
}

}  // namespace tilewright::test
