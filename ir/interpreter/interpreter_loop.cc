#include <fmt/core.h>

#include <algorithm>

#include "ir/interpreter/interpreter_stmt.h"

namespace tilewright::interp {
namespace {

bool is_thread_axis(ForKind kind) {
  return kind == ForKind::ThreadX || kind == ForKind::ThreadY || kind == ForKind::ThreadZ ||
         kind == ForKind::Warp;
}

class ForCode : public StmtCode {
 public:
  ForCode(const ForNode& node, int slot, ExprPtr min, ExprPtr extent, StmtPtr body)
      : StmtCode(body->has_barrier()), node_(node), slot_(static_cast<size_t>(slot)),
        min_(std::move(min)), extent_(std::move(extent)), body_(std::move(body)) {}

  void run(Frame& f) const override {
    if (is_thread_axis(node_.for_kind)) {
      if (has_barrier()) {
        Steps all = steps(f);
        while (all.next()) {
        }
        return;
      }
      return run_threads(f);
    }
    auto [begin, end] = range(f);
    for (int64_t i = begin; i < end; ++i) {
      f.vars[slot_] = static_cast<double>(i);
      body_->run(f);
    }
  }

  Steps steps(Frame& f) const override {
    auto [begin, end] = range(f);
    if (!is_thread_axis(node_.for_kind)) {
      for (int64_t i = begin; i < end; ++i) {
        f.vars[slot_] = static_cast<double>(i);
        Steps body = body_->steps(f);
        while (body.next()) co_yield Steps::Barrier{};
      }
      co_return;
    }
    Threads threads(*this, f, begin, end);
    while (threads.to_barrier()) co_yield Steps::Barrier{};
    threads.join(f);
  }

 private:
  // The iterations of a thread loop as threads, with a frame and a coroutine per thread.
  class Threads {
   public:
    Threads(const ForCode& loop, const Frame& f, int64_t begin, int64_t end)
        : loop_(loop), frames_(static_cast<size_t>(std::max<int64_t>(end - begin, 0)), f) {
      for (size_t t = 0; t < frames_.size(); ++t) {
        frames_[t].vars[loop.slot_] = static_cast<double>(begin + static_cast<int64_t>(t));
        frames_[t].async = {};
        steps_.push_back(loop.body_->steps(frames_[t]));
      }
    }
    // Runs every thread to its next barrier; false when all have ended.
    bool to_barrier() {
      size_t waiting = 0;
      for (Steps& thread : steps_) waiting += thread.next();
      if (waiting == 0 || waiting == steps_.size()) return waiting > 0;
      frames_[0].state->at = &loop_.node_;
      throw Fault{fmt::format("{} of {} threads reach a barrier that the others do not", waiting,
                              steps_.size()),
                  frames_[0].vars};
    }
    void join(Frame& f) {
      size_t base = f.async.groups();
      for (Frame& thread : frames_) f.async.absorb(std::move(thread.async), base);
    }

   private:
    const ForCode& loop_;
    std::vector<Frame> frames_;
    std::vector<Steps> steps_;
  };

  std::pair<int64_t, int64_t> range(Frame& f) const {
    f.state->at = &node_;
    int64_t begin = min_->integer(f);
    return {begin, begin + extent_->integer(f)};
  }

  // Threads that never wait for each other run one after the other, each with its own queue.
  void run_threads(Frame& f) const {
    auto [begin, end] = range(f);
    AsyncQueue outer = std::move(f.async);
    size_t base = outer.groups();
    for (int64_t i = begin; i < end; ++i) {
      f.async = {};
      f.vars[slot_] = static_cast<double>(i);
      body_->run(f);
      outer.absorb(std::move(f.async), base);
    }
    f.async = std::move(outer);
  }

  const ForNode& node_;
  size_t slot_;
  ExprPtr min_, extent_;
  StmtPtr body_;
};

}  // namespace

StmtPtr make_loop(const ForNode& n, int slot, ExprPtr min, ExprPtr extent, StmtPtr body) {
  return std::make_unique<ForCode>(n, slot, std::move(min), std::move(extent), std::move(body));
}

}  // namespace tilewright::interp
