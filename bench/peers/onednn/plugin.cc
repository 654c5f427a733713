// The oneDNN peer: one source for every oneDNN that is found, with its native threads or SYCL's.
#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <map>

#include "bench/peers/onednn/primitives.h"
#include "bench/peers/onednn/threads.h"

#ifndef TILEWRIGHT_PEER_NAME
#error "TILEWRIGHT_PEER_NAME names the peer"
#endif

namespace tilewright::peers {
namespace {

bool workers_gone = true;  // the next run starts threads

// oneDNN with SYCL finds the CPU through the OpenCL driver that lies beside it. SYCL opens the
// driver's loader by its bare name, which then is the one that is open.
void point_to_driver() {
  Dl_info where{};
  if (dladdr(reinterpret_cast<const void*>(&dnnl_version), &where) == 0) return;
  const auto folder = std::filesystem::path(where.dli_fname).parent_path();
  const auto driver = folder / "libintelocl.so";
  if (!std::filesystem::exists(driver)) return;
  dlopen((folder / "libOpenCL.so.1").c_str(), RTLD_NOW | RTLD_LOCAL);
  setenv("OCL_ICD_FILENAMES", driver.c_str(), 0);
  setenv("ONEAPI_DEVICE_SELECTOR", "opencl:cpu", 0);
}

class OneDnnProblem : public PrimitiveProblem {
 public:
  using PrimitiveProblem::PrimitiveProblem;
  void run() override {
    if (!workers_gone) return PrimitiveProblem::run();
    UnpinnedThread unpinned;
    PrimitiveProblem::run();
    workers_gone = false;
  }
};

std::unique_ptr<Problem> prepare_problem(const PeerSpec& spec, int threads,
                                         const Operands& operands) {
  using Make = void (*)(const PeerSpec&, const Operands&, PrimitiveProblem&);
  static const std::map<std::string, Make> kOperators = {{"matmul", make_matmul},
                                                         {"conv1d", make_convolution},
                                                         {"conv2d", make_convolution},
                                                         {"conv3d", make_convolution},
                                                         {"depthwise_conv2d", make_convolution},
                                                         {"conv2d_transpose", make_convolution},
                                                         {"softmax", make_rowwise},
                                                         {"layer_norm", make_rowwise},
                                                         {"rms_norm", make_rowwise},
                                                         {"norm", make_rowwise},
                                                         {"reduce", make_rowwise},
                                                         {"elementwise", make_elementwise}};
  const auto make = kOperators.find(spec.op());
  if (make == kOperators.end()) throw Unsupported("no operator " + spec.op());
  UnpinnedThread unpinned;
  std::unique_ptr<OneDnnProblem> problem;
  with_threads(threads, [&] {
    problem = std::make_unique<OneDnnProblem>(threads, dnnl::stream(cpu_engine()));
    make->second(spec, operands, *problem);
  });
  return problem;
}

void* prepare(const char* spec_json, int threads, const TilewrightPeerOperand* operands, int count,
              char* reason, size_t reason_size) {
  return prepare_guarded(prepare_problem, spec_json, threads, operands, count, reason, reason_size);
}

void quiesce() {
  stop_spinning();
  workers_gone = true;
}

std::string version_text() {
  const dnnl_version_t* version = dnnl_version();
  std::string runtime = threading_name();
#if DNNL_CPU_RUNTIME != DNNL_CPU_THREADING_RUNTIME
  runtime = "SYCL, " + runtime;
#endif
  return std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
         std::to_string(version->patch) + " (" + runtime + ")";
}

}  // namespace
}  // namespace tilewright::peers

extern "C" __attribute__((visibility("default"))) const TilewrightPeer* tilewright_peer() {
  using namespace tilewright::peers;
  static const std::string version = [] {
    point_to_driver();
    dnnl_set_verbose(0);  // its notes go to standard output
    return version_text();
  }();
  static const TilewrightPeer peer = {
      TILEWRIGHT_PEER_ABI, TILEWRIGHT_PEER_NAME, version.c_str(), prepare,
      implementation_of,   run_guarded,          destroy_guarded, quiesce};
  return &peer;
}
