// What this machine is and what it can do at best: the roof under which kernels are judged.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ir/type.h"
#include "runtime/machine/caches.h"

namespace tilewright {

struct MachineRates {
  int threads = 1;
  double f32_flops = 0;   // a second
  double read_bytes = 0;  // a second, from memory
  double l3_bytes = 0;    // from the last cache; that of memory where there is none
  double l2_bytes = 0;    // from the cores' own caches
  // Operations a second on products of bytes and of bf16, by the fastest of the instructions that sum
  // them, tiles (AMX) among them; 0 where there is none.
  double i8_ops = 0, bf16_flops = 0;
  // How far the rounds of measuring were apart: the f32 rate of the slowest is by this share below
  // that of the fastest, which counts.
  double spread = 0;
  // On products of that type.
  double operations(ElemType factors) const;
};

// Rates as one round measured them.
struct MeasuredRates {
  MachineRates rates;
  std::string disturbed = {};  // what else had the processors; empty: nothing
};
using MeasureRatesFn = std::function<MeasuredRates(int threads)>;
MeasuredRates measure_rates(int threads);

struct Machine {
  std::string chip;       // "AMD EPYC 9B14"
  std::string signature;  // vendor, family, model, stepping
  std::vector<std::string> features;
  int cpus = 1;   // hardware threads that the process may use
  int cores = 1;  // physical cores among them
  CacheSizes caches;
  MachineRates one, all;       // on one thread, and on one of each core
  std::string disturbed = {};  // why the rates may be too low; empty: they are not

  // Everything but the rates, in one line: two machines of one identity have the same rates.
  std::string identity() const;
  // Between the two measured points: work scales with the cores, and so does the memory bandwidth
  // until it reaches that of all cores.
  MachineRates rates(int threads) const;
  // Where `bytes` that threads share evenly stay between two runs: "L2", "L3" or "memory".
  std::string home_of(double bytes, int threads) const;
  // Bytes a second from there.
  double read_rate(double bytes, int threads) const;
  // The least seconds that `flops` operations over `bytes` can take when they come from where they
  // stay (the cache-aware roofline of Ilic, Pratas and Sousa, IEEE CAL 2014). `factors` is the type
  // of what is multiplied.
  double roofline_seconds(double flops, double bytes, int threads,
                          ElemType factors = ElemType::f32) const;

  std::string to_json() const;
  // The machine that to_json() describes, with what a roofline needs: caches and rates. Nothing for
  // another text.
  static std::optional<Machine> from_json(const std::string& text);
};

// This machine, with rates that the cache directory remembers for its identity or that are measured
// now (a second): the best of several rounds, of which those that something disturbed are repeated.
// Rates that were disturbed to the end, or of which one and all threads disagree, are remembered for
// ten minutes only. `fresh` measures in any case.
// `measure` is measure_rates() where none is given, with the same memory in each round.
Machine probe_machine(bool fresh = false, const MeasureRatesFn& measure = {});
// This machine without rates: nothing is measured.
Machine describe_machine();

}  // namespace tilewright
