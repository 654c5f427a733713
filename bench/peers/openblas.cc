// The OpenBLAS peer: matrix products in f32. B lies as the caller stores it; OpenBLAS packs it in
// each call, because its interface has no other way.
#include <cblas.h>

#include <chrono>
#include <thread>

#include "bench/peers/problem.h"

namespace tilewright::peers {
namespace {

bool workers_gone = true;  // the next run wakes or starts threads

class Gemm : public Problem {
 public:
  Gemm(const PeerSpec& spec, int threads, const Operands& operands)
      : threads_(threads), batch_(spec.size("batch", 1)), m_(spec.size("m")), n_(spec.size("n")),
        k_(spec.size("k")), trans_a_(spec.flag("trans_a")), trans_b_(spec.flag("trans_b")),
        a_(static_cast<const float*>(operands.get("A", batch_ * m_ * k_ * 4))),
        b_(static_cast<const float*>(operands.get("B", batch_ * k_ * n_ * 4))),
        c_(static_cast<float*>(operands.get("C", batch_ * m_ * n_ * 4))) {}

  void run() override {
    openblas_set_num_threads(threads_);
    if (!workers_gone) return multiply();
    UnpinnedThread unpinned;
    multiply();
    workers_gone = false;
  }

 private:
  void multiply() {
    for (int64_t i = 0; i < batch_; ++i) {
      cblas_sgemm(CblasRowMajor, trans_a_ ? CblasTrans : CblasNoTrans,
                  trans_b_ ? CblasTrans : CblasNoTrans, m_, n_, k_, 1.0f, a_ + i * m_ * k_,
                  trans_a_ ? m_ : k_, b_ + i * k_ * n_, trans_b_ ? k_ : n_, 0.0f, c_ + i * m_ * n_,
                  n_);
    }
  }

  int threads_;
  int64_t batch_, m_, n_, k_;
  bool trans_a_, trans_b_;
  const float* a_;
  const float* b_;
  float* c_;
};

std::unique_ptr<Problem> prepare_problem(const PeerSpec& spec, int threads,
                                         const Operands& operands) {
  if (spec.op() != "matmul") throw Unsupported("no operator " + spec.op());
  spec.require_plain_weight();
  for (const char* key : {"dtype", "out", "acc"}) {
    if (spec.text(key, "f32") != "f32") {
      throw Unsupported("no matmul in " + spec.text(key, "f32"));
    }
  }
  if (!spec.names("epilogue").empty()) throw Unsupported("no epilogue");
  return std::make_unique<Gemm>(spec, threads, operands);
}

void* prepare(const char* spec_json, int threads, const TilewrightPeerOperand* operands, int count,
              char* reason, size_t reason_size) {
  return prepare_guarded(prepare_problem, spec_json, threads, operands, count, reason, reason_size);
}

// Waits until the workers, which look for work for 2^22 cycles (OPENBLAS_THREAD_TIMEOUT=22, set by
// the loader before it opens the plugin), have gone to sleep.
void quiesce() {
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  workers_gone = true;
}

}  // namespace
}  // namespace tilewright::peers

extern "C" __attribute__((visibility("default"))) const TilewrightPeer* tilewright_peer() {
  using namespace tilewright::peers;
  static const std::string version = [] {
    const std::string config = openblas_get_config();  // "OpenBLAS 0.3.21 NO_AFFINITY …"
    const size_t begin = config.find(' ') + 1;
    return config.substr(begin, config.find(' ', begin) - begin) + " (" + openblas_get_corename() +
           " kernels)";
  }();
  static const TilewrightPeer peer = {TILEWRIGHT_PEER_ABI, "openblas",  version.c_str(), prepare,
                                      implementation_of,   run_guarded, destroy_guarded, quiesce};
  return &peer;
}
