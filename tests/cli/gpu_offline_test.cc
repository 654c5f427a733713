// Kernels for GPUs that are not here: chosen by the model, checked in the emulator, and never taken
// for measured ones.
#include <gmock/gmock.h>

#include <map>

#include "database/store.h"
#include "kernel/cuda_source.h"
#include "runtime/cuda/nvrtc.h"
#include "tests/cli/support.h"

namespace tilewright::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kMatmul = "matmul:m=512,n=256,k=128,dtype=f16";
const std::string kTarget = "--target cuda:sm_80 ";

class GpuOffline : public Cli {
 protected:
  void SetUp() override {
    Cli::SetUp();
    if (!cuda::nvrtc_problem().empty()) GTEST_SKIP() << "NVRTC: " << cuda::nvrtc_problem();
  }
  Ran tune(const std::string& options) {
    return run("tune --offline --json " + kTarget + kMatmul + " " + options, kNoGpu);
  }
  void expect_records_hold_machine_code();
  void expect_best_and_explain_tell_of_predictions();
  void expect_show_prints_all_steps();
  void expect_a_report_keeps_predictions_apart();
  void expect_the_database_is_checked_and_moved();
};

void GpuOffline::expect_records_hold_machine_code() {
  using namespace database;
  Store store = Store::open(dir_ / "tilewright.db", Mode::ReadOnly);
  RecordList records = store.records();
  ASSERT_FALSE(records.records.empty());
  std::map<std::string, int> kinds;
  for (const Record& r : records.records) {
    EXPECT_TRUE(r.offline);
    EXPECT_TRUE(r.samples.empty());
    EXPECT_EQ(r.target.chip, "A100 SXM4 80GB");
    Artifact a = store.artifact(r.artifact_hash).value.value();
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(a.bytes.data()) + 1, 3), "ELF");
    Json d = Json::parse(a.description);
    EXPECT_EQ(d["launches"].size(), d["facts"].size());
    const std::string kind(cuda_kind(a.source));
    ++kinds[kind];
    EXPECT_EQ(d["facts"][0]["instructions"].contains("HMMA"), kind == "mma") << a.source;
    EXPECT_GT(d["facts"][0]["registers"], 0);
    EXPECT_EQ(a.flags, "--gpu-architecture=sm_80");
  }
  EXPECT_GT(kinds["mma"], 0);
}

TEST_F(GpuOffline, EqualSeedsChooseAlike) {
  const std::string alone = "--trials 8 --seed 3 --no-warm-start";
  Json first = tune(alone).json()["results"][0]["best"]["config"];
  EXPECT_EQ(tune(alone).json()["results"][0]["best"]["config"], first);
}

// A neighbour's winners are among the first that the model looks at, and serve where few others do.
TEST_F(GpuOffline, ANeighbourStartsFromTheWinners) {
  const std::string neighbour = "tune --offline --json --trials 8 --seed 5 " + kTarget +
                                "matmul:m=768,n=256,k=128,dtype=f16 ";
  auto best = [](const Ran& ran) {
    EXPECT_EQ(ran.code, 0) << ran.err;
    return ran.json()["results"][0]["best"];
  };
  const Json alone = best(run(neighbour + "--db alone.db", kNoGpu));
  const Json winner = best(run("tune --offline --json --trials 60 " + kTarget + kMatmul, kNoGpu));
  const Json again = best(run(neighbour, kNoGpu));
  EXPECT_EQ(again["config"]["C_acc.tile"], winner["config"]["C_acc.tile"]);
  EXPECT_LT(again["predicted_seconds"], alone["predicted_seconds"]);
  EXPECT_EQ(best(run(neighbour + "--no-warm-start", kNoGpu))["config"], alone["config"]);
}

void GpuOffline::expect_best_and_explain_tell_of_predictions() {
  Json best = run("best --json " + kTarget).json()["results"][0];
  EXPECT_EQ(best["predicted"], true);
  EXPECT_TRUE(best["seconds"].is_null());
  EXPECT_GT(best["predicted_seconds"], 0);
  EXPECT_THAT(run("best " + kTarget).out, HasSubstr("predicted, not measured"));
  Json explained = run("explain --json " + kTarget + kMatmul).json()["results"][0];
  EXPECT_TRUE(explained["seconds"].is_null());
  const Json& kernel = explained["model"]["kernels"][0];
  EXPECT_GT(kernel["blocks_per_sm"], 0);
  EXPECT_GT(kernel["alone"]["tensor cores"], 0);
  EXPECT_EQ(explained["facts"][0]["registers"], kernel["registers"]);
  const Json& emulated = explained["emulated"];
  EXPECT_THAT(emulated["instance"], HasSubstr("matmul:m="));
  EXPECT_GT(emulated["counters"]["mma"], 0);
  EXPECT_TRUE(emulated["counters"].contains("bank_conflicts"));
  Ran words = run("explain " + kTarget + kMatmul);
  EXPECT_THAT(words.out, HasSubstr("bank conflicts"));
  EXPECT_THAT(words.out, HasSubstr("loads: "));
  EXPECT_THAT(words.out, HasSubstr("not measured; the data sheet's roofline"));
  EXPECT_THAT(words.out, HasSubstr("the model: "));
  EXPECT_THAT(words.out, Not(HasSubstr("of this machine's roofline")));
}

void GpuOffline::expect_show_prints_all_steps() {
  Ran shown = run("show --json --config --program --source --asm " + kTarget + kMatmul);
  ASSERT_EQ(shown.code, 0) << shown.err;
  Json row = shown.json()["results"][0];
  EXPECT_THAT(row["config"], HasSubstr("\"predicted\":true"));
  EXPECT_THAT(row["program"], HasSubstr("block_x"));
  EXPECT_THAT(row["source"], HasSubstr("tw_mma_m16n8k16_f32_f16("));
  EXPECT_THAT(row["asm"], HasSubstr("mma.sync.aligned.m16n8k16"));
  Ran without = run("show --asm " + kTarget + kMatmul, "TILEWRIGHT_CUDA=off");
  EXPECT_EQ(without.code, 4);
  EXPECT_THAT(without.err, HasSubstr("--asm of target 'cuda:sm_80': NVRTC is switched off"));
}

void GpuOffline::expect_a_report_keeps_predictions_apart() {
  Ran reported = run("report --json -o r.html " + kTarget + kMatmul);
  ASSERT_EQ(reported.code, 0) << reported.err;
  Json row = reported.json()["results"][0];
  EXPECT_TRUE(row["best"].is_null());
  EXPECT_GT(row["predicted"][0]["predicted_seconds"], 0);
  std::string page = read(dir_ / "r.html");
  EXPECT_THAT(page, HasSubstr("<h3>Predicted, not measured</h3>"));
  EXPECT_THAT(page, Not(HasSubstr("Fastest configs")));
}

void GpuOffline::expect_the_database_is_checked_and_moved() {
  EXPECT_EQ(run("db check").code, 0);
  ASSERT_EQ(run("db export lines.jsonl").code, 0);
  ASSERT_EQ(run("db import lines.jsonl --db other.db").code, 0);
  Json moved = run("best --json --db other.db " + kTarget).json()["results"][0];
  EXPECT_EQ(moved["config"], run("best --json " + kTarget).json()["results"][0]["config"]);
}

// One search serves all commands, for it takes most of the time.
TEST_F(GpuOffline, EveryCommandTellsOfAKernelAsPredicted) {
  Ran tuned = tune("--trials 24");
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  Json result = tuned.json()["results"][0];
  EXPECT_EQ(result["target"], "cuda:sm_80");
  EXPECT_EQ(result["predicted"], true);
  EXPECT_TRUE(result["best"]["seconds"].is_null());
  EXPECT_TRUE(result["best"]["gflops"].is_null());
  EXPECT_GT(result["best"]["predicted_seconds"], 0);
  EXPECT_EQ(result["invalid"]["wrong"], 0);
  expect_records_hold_machine_code();
  expect_best_and_explain_tell_of_predictions();
  expect_show_prints_all_steps();
  expect_a_report_keeps_predictions_apart();
  expect_the_database_is_checked_and_moved();
}

// A feature of the chip that fails leaves kernels without it.
TEST_F(GpuOffline, KernelsOfSeveralKindsAreKept) {
  const Ran tuned =
      run("tune --offline --json --trials 80 --target cuda:sm_90a "
          "matmul:m=1024,n=1024,k=512,dtype=f16,trans_b=true,out=f16",
          kNoGpu);
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  const auto store = database::Store::open(dir_ / "tilewright.db", database::Mode::ReadOnly);
  std::map<std::string, int> kinds;
  for (const database::Record& r : store.records().records) {
    ++kinds[std::string(cuda_kind(store.artifact(r).value.value().source))];
  }
  EXPECT_EQ(tuned.json()["results"][0]["valid"], 3);
  EXPECT_EQ(kinds["clusters"], 1);
  EXPECT_EQ(kinds["wgmma"], 1);
  EXPECT_EQ(kinds["mma"], 1);
}

// NVRTC behind a library that dies of every text of a cluster.
const char* const kFaultyNvrtc = R"(
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
typedef int (*any)(void*, void*, void*, void*, void*, void*);
static any real(const char* name) {
  static void* library;
  if (!library) library = dlopen(NVRTC, RTLD_NOW);
  return (any)dlsym(library, name);
}
#define FORWARD(name) \
  int name(void* a, void* b, void* c, void* d, void* e, void* f) { return real(#name)(a, b, c, d, e, f); }
FORWARD(nvrtcVersion)
FORWARD(nvrtcGetNumSupportedArchs)
FORWARD(nvrtcGetSupportedArchs)
FORWARD(nvrtcCompileProgram)
FORWARD(nvrtcGetCUBINSize)
FORWARD(nvrtcGetCUBIN)
FORWARD(nvrtcGetPTXSize)
FORWARD(nvrtcGetPTX)
FORWARD(nvrtcGetProgramLogSize)
FORWARD(nvrtcGetProgramLog)
FORWARD(nvrtcDestroyProgram)
const char* nvrtcGetErrorString(int status) {
  return ((const char* (*)(int))real("nvrtcGetErrorString"))(status);
}
int nvrtcCreateProgram(void* a, const char* text, void* c, void* d, void* e, void* f) {
  if (strstr(text, "__cluster_dims__(2")) abort();
  return real("nvrtcCreateProgram")(a, (void*)text, c, d, e, f);
}
)";

// The file from which this process has NVRTC.
fs::path loaded_nvrtc() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const size_t path = line.find('/');
    if (path != std::string::npos && line.find("libnvrtc.so", path) != std::string::npos) {
      return line.substr(path);
    }
  }
  return "";
}

TEST_F(GpuOffline, ACompilerThatDiesCostsItsCandidatesAlone) {
  const fs::path real = loaded_nvrtc();
  ASSERT_FALSE(real.empty());
  for (const auto& entry : fs::directory_iterator(real.parent_path())) {
    if (entry.path().filename().string().starts_with("libnvrtc-builtins")) {
      fs::create_symlink(entry.path(), dir_ / entry.path().filename());
    }
  }
  write("faulty.c", "#define NVRTC \"" + real.string() + "\"\n" + kFaultyNvrtc);
  ASSERT_EQ(shell("cc -shared -fPIC -o libnvrtc.so.13 faulty.c -ldl").code, 0);
  const std::string spec = "matmul:m=1024,n=1024,k=512,dtype=f16,trans_b=true,out=f16";
  const Ran tuned = run("tune --offline --json --trials 40 --target cuda:sm_90a " + spec,
                        kNoGpu + " TILEWRIGHT_CUDA='" + dir_.string() + "'");
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  const Json result = tuned.json()["results"][0];
  EXPECT_GT(result["invalid"]["compile"], 0);
  EXPECT_GT(result["valid"], 0);
  const auto store = database::Store::open(dir_ / "tilewright.db", database::Mode::ReadOnly);
  for (const database::Record& r : store.records().records) {
    EXPECT_NE(cuda_kind(store.artifact(r).value.value().source), "clusters");
  }
}

TEST_F(GpuOffline, WithoutACompilerItSaysWhatIsMissing) {
  Ran tuned = run("tune --offline " + kTarget + kMatmul, "TILEWRIGHT_CUDA=off");
  EXPECT_EQ(tuned.code, 4);
  EXPECT_THAT(tuned.err, HasSubstr("NVRTC is switched off (TILEWRIGHT_CUDA=off)"));
}

class NoGpu : public Cli {};

TEST_F(NoGpu, WhatRunsKernelsRefusesAndSaysWhatCanBeDone) {
  for (const char* command : {"tune", "replay"}) {
    Ran ran = run(std::string(command) + " " + kTarget + kMatmul, kNoGpu);
    EXPECT_EQ(ran.code, 4) << command << ran.err;
    EXPECT_THAT(ran.err, HasSubstr("kernels of target 'cuda:sm_80' do not run here: no GPU: the "
                                   "CUDA driver does not load (/no/such/libcuda.so"))
        << command;
    EXPECT_THAT(ran.err,
                HasSubstr("tune --offline and compile --offline choose them without a GPU"))
        << command;
  }
  EXPECT_FALSE(fs::exists(dir_ / "tilewright.db")) << "refused up front";
}

TEST_F(NoGpu, TargetsSayThatThereIsNoDevice) {
  const Json targets = run("targets --json", kNoGpu).json()["targets"];
  int gpus = 0;
  for (const Json& t : targets) {
    if (!t.contains("gpu")) continue;
    ++gpus;
    EXPECT_TRUE(t["device"].is_null());
    EXPECT_EQ(t["runs_here"], false);
  }
  EXPECT_GT(gpus, 0);
  const std::string listed = run("targets", kNoGpu).out;
  EXPECT_THAT(listed, HasSubstr("no device here; by the data sheet of A100"));
  EXPECT_THAT(listed, HasSubstr("cuda:h100    no device here; by the data sheet of H100 SXM"));
}

}  // namespace
}  // namespace tilewright::cli
