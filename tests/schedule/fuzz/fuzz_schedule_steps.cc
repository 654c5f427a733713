#include <algorithm>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "ir/visitor.h"
#include "schedule/tree.h"
#include "tests/schedule/fuzz/fuzz_schedule.h"

namespace tilewright::test {
namespace {

using Json = nlohmann::ordered_json;

Step make_step(const char* primitive, const Json& arguments) {
  return {primitive, arguments.dump(), {}};
}

// Draws rewrites of one schedule. Half of the draws make little sense, to provoke refusals.
class Rewriter {
 public:
  Rewriter(const Schedule& schedule, Draw& draw, const Attempt& attempt)
      : schedule_(schedule), draw_(draw), attempt_(attempt) {
    for_each_stmt(schedule.program().body, [&](const Stmt& s) {
      if (auto* loop = s.as<ForNode>()) loops_.push_back(loop->var.name());
      if (auto* block = s.as<BlockNode>()) {
        for (const Buffer& buffer : block->allocs) buffers_.push_back(buffer->name);
      }
    });
    for (const Param& param : schedule.program().params) buffers_.push_back(param.buffer->name);
    for (const Block& block : schedule.blocks()) blocks_.push_back(block.name);
  }

  void draw() {
    if (loops_.empty()) return;
    switch (draw_.below(22)) {
      case 0:
      case 1: return split();
      case 2: return fuse();
      case 3:
      case 4: return reorder();
      case 5: return merge();
      case 6: return tile();
      case 7: return kind("parallel");
      case 8: return kind("vectorize");
      case 9: return kind("unroll");
      case 10: return bind();
      case 11: return decompose();
      case 12: return rfactor();
      case 13: return pad();
      case 14: return move("compute_at");
      case 15: return move("reverse_compute_at");
      case 16: return inlining();
      case 17: return cache();
      case 18: return cache_and_move();
      case 19: return layout();
      case 20: return block_layout();
      default: return prepack();
    }
  }

 private:
  void attempt(const char* primitive, const Json& arguments) {
    attempt_(make_step(primitive, arguments));
  }
  std::vector<std::string> loops_of(const std::string& block) const {
    std::vector<std::string> names;
    for (const Loop& loop : schedule_.loops({block})) names.push_back(loop.name);
    return names;
  }
  // A loop around the block, or any loop.
  std::string loop_of(const std::string& block) {
    std::vector<std::string> around = loops_of(block);
    return around.empty() || draw_.chance(10) ? draw_.of(loops_) : draw_.of(around);
  }
  template <class T>
  void shuffle(std::vector<T>& list) {
    for (size_t i = list.size(); i > 1; --i) {
      std::swap(list[i - 1], list[static_cast<size_t>(draw_.below(static_cast<int64_t>(i)))]);
    }
  }

  std::vector<int64_t> random_factors(size_t count) {
    static const std::vector<int64_t> kFactors = {1, 2, 2, 3, 4, 4, 5, 8};
    std::vector<int64_t> factors;
    for (size_t i = 0; i < count; ++i) factors.push_back(draw_.of(kFactors));
    if (draw_.chance(80)) factors[static_cast<size_t>(draw_.chance(75) ? 0 : count - 1)] = -1;
    return factors;
  }

  void split() {
    auto count = static_cast<size_t>(draw_.between(1, 3));
    attempt("split", {{"loop", draw_.of(loops_)}, {"factors", random_factors(count)}});
  }

  void fuse() {
    std::vector<std::string> chain = loops_of(draw_.of(blocks_));
    if (chain.size() < 2) return;
    auto first = static_cast<size_t>(draw_.below(static_cast<int64_t>(chain.size()) - 1));
    auto count = static_cast<size_t>(draw_.between(2, static_cast<int64_t>(chain.size() - first)));
    auto from = chain.begin() + static_cast<std::ptrdiff_t>(first);
    attempt("fuse",
            {{"loops", std::vector<std::string>(from, from + static_cast<std::ptrdiff_t>(count))}});
  }

  void reorder() {
    std::vector<std::string> chain = loops_of(draw_.of(blocks_));
    shuffle(chain);
    if (chain.size() > 2 && draw_.chance(40)) chain.resize(chain.size() - 1);
    if (!chain.empty()) attempt("reorder", {{"loops", chain}});
  }

  void merge() {
    std::vector<std::vector<std::string>> pairs;
    for_each_stmt(schedule_.program().body, [&](const Stmt& s) {
      auto* seq = s.as<SeqNode>();
      for (size_t i = 0; seq && i + 1 < seq->stmts.size(); ++i) {
        auto *a = seq->stmts[i].as<ForNode>(), *b = seq->stmts[i + 1].as<ForNode>();
        if (a && b) pairs.push_back({a->var.name(), b->var.name()});
      }
    });
    if (!pairs.empty()) attempt("merge", {{"loops", draw_.of(pairs)}});
  }

  // Splits each loop of a block and orders the parts: outer ones first, then inner ones.
  void tile() {
    std::string block = draw_.of(blocks_);
    std::vector<std::string> outer, inner;
    for (const std::string& loop : loops_of(block)) {
      bool accepted =
          attempt_(make_step("split", {{"loop", loop}, {"factors", {-1, draw_.between(1, 5)}}}));
      const std::vector<Step>& done = schedule_.trace().steps;
      if (accepted) {
        outer.push_back(done.back().results[0]);
        inner.push_back(done.back().results[1]);
      } else {
        outer.push_back(loop);
      }
    }
    if (draw_.chance(50)) shuffle(inner);
    outer.insert(outer.end(), inner.begin(), inner.end());
    if (!outer.empty()) attempt("reorder", {{"loops", outer}});
  }

  void kind(const char* primitive) { attempt(primitive, {{"loop", draw_.of(loops_)}}); }

  void bind() {
    static const std::vector<std::string> kAxes = {"block_x", "block_y", "thread_x", "thread_y"};
    attempt("bind", {{"loop", draw_.of(loops_)}, {"axis", draw_.of(kAxes)}});
  }

  void decompose() {
    std::string block = draw_.of(blocks_);
    attempt("decompose_reduction", {{"block", block}, {"loop", loop_of(block)}});
  }

  void rfactor() {
    std::string block = draw_.of(blocks_);
    attempt("rfactor",
            {{"block", block}, {"loop", loop_of(block)}, {"factor_axis", draw_.between(-1, 2)}});
  }

  void pad() {
    std::string block = draw_.of(blocks_);
    std::vector<int64_t> multiples;
    for (size_t i = 0; i < schedule_.node(Block{block}).iters.size(); ++i) {
      multiples.push_back(draw_.between(1, 4));
    }
    attempt("pad_einsum", {{"block", block}, {"multiples", multiples}});
  }

  void move(const char* primitive) {
    std::string block = draw_.of(blocks_);
    bool down = std::string(primitive) == "compute_at";
    std::vector<Block> targets = down ? schedule_.consumers({block}) : schedule_.producers({block});
    if (targets.empty()) return;
    attempt(primitive, {{"block", block}, {"loop", loop_of(draw_.of(targets).name)}});
  }

  void inlining() {
    const char* primitive = draw_.chance(60) ? "compute_inline" : "reverse_compute_inline";
    attempt(primitive, {{"block", draw_.of(blocks_)}});
  }

  // Copies a buffer that a random block reads or writes; returns the block and the copy.
  std::pair<std::string, std::string> copy(bool read) {
    static const std::vector<std::string> kScopes = {"local", "register", "shared", "global"};
    std::string block = draw_.of(blocks_);
    const BlockNode& node = schedule_.node(Block{block});
    std::vector<Buffer> used = read ? buffers_read(node) : buffers_written(node);
    if (used.empty()) return {};
    bool accepted = attempt_(make_step(
        read ? "cache_read" : "cache_write",
        {{"block", block}, {"buffer", draw_.of(used)->name}, {"scope", draw_.of(kScopes)}}));
    if (!accepted) return {};
    return {block, schedule_.trace().steps.back().results.at(0)};
  }

  void cache() { copy(draw_.chance(50)); }

  void cache_and_move() {
    bool read = draw_.chance(50);
    auto [block, made] = copy(read);
    if (made.empty()) return;
    attempt(read ? "compute_at" : "reverse_compute_at",
            {{"block", made}, {"loop", loop_of(block)}});
  }

  // A map that permutes the axes and splits one of them, with the inner part at the end.
  std::string random_map(size_t rank) {
    std::vector<std::string> axes, outputs;
    for (size_t i = 0; i < rank; ++i) axes.push_back(fmt::format("a{}", i));
    outputs = axes;
    if (rank > 0 && draw_.chance(60)) {
      auto cut = static_cast<size_t>(draw_.below(static_cast<int64_t>(rank)));
      int64_t by = draw_.between(2, 5);
      outputs[cut] = fmt::format("floordiv({}, {})", axes[cut], by);
      outputs.push_back(fmt::format("floormod({}, {})", axes[cut], by));
    }
    if (draw_.chance(60)) shuffle(outputs);
    std::string in, out;
    for (const std::string& axis : axes) in += (in.empty() ? "" : ", ") + axis;
    for (const std::string& axis : outputs) out += (out.empty() ? "" : ", ") + axis;
    return fmt::format("({}) -> ({})", in, out);
  }

  size_t rank_of(const std::string& buffer) const {
    return static_cast<size_t>(Tree("fuzz", schedule_.program()).buffer(buffer)->rank());
  }

  void layout() {
    std::string buffer = draw_.of(buffers_);
    attempt("transform_layout", {{"buffer", buffer}, {"map", random_map(rank_of(buffer))}});
  }

  void block_layout() {
    std::string block = draw_.of(blocks_);
    size_t rank = schedule_.node(Block{block}).iters.size();
    attempt("transform_block_layout", {{"block", block}, {"map", random_map(rank)}});
  }

  void prepack() {
    std::string buffer = draw_.of(buffers_);
    for (const Param& param : schedule_.program().params) {
      if (param.role == ParamRole::Weight) buffer = param.buffer->name;
    }
    attempt("prepack", {{"buffer", buffer}, {"map", random_map(rank_of(buffer))}});
  }

  const Schedule& schedule_;
  Draw& draw_;
  const Attempt& attempt_;
  std::vector<std::string> loops_, blocks_, buffers_;
};

}  // namespace

void random_rewrite(const Schedule& schedule, Draw& draw, const Attempt& attempt) {
  Rewriter(schedule, draw, attempt).draw();
}

}  // namespace tilewright::test
