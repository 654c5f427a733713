// Serves one matmul: finds its best kernel in a database, packs the weight, launches, and holds the
// result against plain loops. No compiler is started.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tilewright/database/error.h"
#include "tilewright/database/store.h"
#include "tilewright/ir/ops/spec.h"
#include "tilewright/runtime/load/kernel.h"
#include "tilewright/runtime/machine/identity.h"
#include "tilewright/runtime/thread_pool.h"
#include "tilewright/version.h"

namespace db = tilewright::database;

constexpr int kM = 64, kN = 48, kK = 32;
const char* const kSpec = "matmul:m=64,n=48,k=32";

// Kernels want memory that is aligned to 64 bytes.
struct Free {
  void operator()(float* p) const { std::free(p); }
};
using Floats = std::unique_ptr<float[], Free>;

Floats floats_for(const tilewright::KernelParam& param) {
  int64_t count = 1;
  for (int64_t extent : tilewright::concrete_shape(param, {})) count *= extent;
  size_t bytes = (count * sizeof(float) + 63) / 64 * 64;
  return Floats(static_cast<float*>(std::aligned_alloc(64, bytes)));
}

// The best kernel for this machine, or nothing and a reason.
db::BestResult find(const db::Store& store, const std::string& workload_hash) {
  tilewright::Target target = tilewright::Target::parse("native");
  tilewright::TargetFacts facts = tilewright::target_facts(target);
  db::BestQuery query;
  query.workload_hash = workload_hash;
  query.target = db::make_target(facts.chip, facts.features, facts.cores, facts.extra);
  return store.best(query);
}

// A kernel that is loaded, with its weight packed: what a process keeps between requests.
class Served {
 public:
  Served(const db::BestResult& best, const std::map<std::string, const float*>& weights)
      : kernel_(std::string_view(reinterpret_cast<const char*>(best.artifact->bytes.data()),
                                 best.artifact->bytes.size()),
                tilewright::KernelDescription::from_json(best.artifact->description)),
        pool_(best.record->threads), workspace_(workspace_needed()) {
    const auto& packs = kernel_.description().packs;
    for (size_t i = 0; i < packs.size(); ++i) {
      // The last parameter is the weight as the kernel reads it, those before it what it is made of.
      const tilewright::KernelParam& to = packs[i].params.back();
      Floats packed = floats_for(to);
      std::vector<void*> args;
      for (size_t p = 0; p + 1 < packs[i].params.size(); ++p) {
        args.push_back(const_cast<float*>(weights.at(packs[i].params[p].name)));
      }
      args.push_back(packed.get());
      kernel_.pack(i, args.data(), context());
      packed_[to.name] = std::move(packed);
    }
  }

  void launch(const std::map<std::string, float*>& operands) {
    std::vector<void*> args;
    for (const tilewright::KernelParam& p : kernel_.description().main.params) {
      auto packed = packed_.find(p.name);
      args.push_back(packed != packed_.end() ? packed->second.get() : operands.at(p.name));
    }
    kernel_.launch(args.data(), nullptr, context());
  }

 private:
  int64_t workspace_needed() const {
    int64_t bytes = tilewright::workspace_bytes(kernel_.description().main, pool_.threads());
    for (const auto& pack : kernel_.description().packs) {
      bytes = std::max(bytes, tilewright::workspace_bytes(pack, pool_.threads()));
    }
    return bytes;
  }
  tw_context context() { return pool_.context(workspace_.data()); }

  tilewright::Kernel kernel_;
  tilewright::ThreadPool pool_;  // or the application's own: see kernel/kernel_abi.h
  tilewright::Workspace workspace_;
  std::map<std::string, Floats> packed_;
};

int serve(const std::string& path) {
  db::Store store = db::Store::open(path, db::Mode::ReadOnly);
  db::BestResult best = find(store, tilewright::parse_workload(kSpec).hash());
  if (!best.record || !best.artifact) {
    throw tilewright::Error(path + " has no kernel for " + kSpec + ": " + best.miss);
  }
  alignas(64) static float a[kM * kK], b[kK * kN], c[kM * kN];
  for (int i = 0; i < kM * kK; ++i) a[i] = static_cast<float>(i % 7) - 3;
  for (int i = 0; i < kK * kN; ++i) b[i] = static_cast<float>(i % 5) * 0.25f;
  Served served(best, {{"B", b}});
  served.launch({{"A", a}, {"B", b}, {"C", c}});

  double error = 0;
  for (int i = 0; i < kM; ++i) {
    for (int j = 0; j < kN; ++j) {
      double sum = 0;
      for (int k = 0; k < kK; ++k) sum += static_cast<double>(a[i * kK + k]) * b[k * kN + j];
      error = std::max(error, std::abs(sum - c[i * kN + j]));
    }
  }
  std::cout << "tilewright " << tilewright::build_revision() << ": " << kSpec << " with sketch "
            << best.record->sketch << ": C[1, 2] = " << c[kN + 2] << ", largest error " << error
            << "\n";
  return error < 1e-4 ? 0 : 1;
}

int main(int argc, char** argv) {
  std::string path = argc > 1 ? argv[1] : "kernels.db";
  try {
    return serve(path);
  } catch (const tilewright::Error& error) {
    std::cerr << "example: " << error.what() << "\nThis makes what is needed: tune-cli tune "
              << kSpec << " --db " << path << "\n";
    return 1;
  }
}
