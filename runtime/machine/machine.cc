#include "runtime/machine/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/files.h"
#include "kernel/cpu_features.h"
#include "runtime/machine/cpu_claim.h"
#include "runtime/machine/cpus.h"
#include "runtime/machine/disturbance.h"
#include "runtime/machine/peak.h"

namespace tilewright {
namespace {

using nlohmann::json;

constexpr int kProbeVersion = 8;  // another one where the loops of runtime/machine/peak.cc change

json rates_to_json(const MachineRates& r) {
  return {{"threads", r.threads},       {"f32_flops", r.f32_flops}, {"read_bytes", r.read_bytes},
          {"l3_bytes", r.l3_bytes},     {"l2_bytes", r.l2_bytes},   {"i8_ops", r.i8_ops},
          {"bf16_flops", r.bf16_flops}, {"spread", r.spread}};
}

std::optional<MachineRates> rates_from_json(const json& j) {
  MachineRates r;
  r.threads = j.value("threads", 0);
  r.f32_flops = j.value("f32_flops", 0.0);
  r.read_bytes = j.value("read_bytes", 0.0);
  r.l3_bytes = j.value("l3_bytes", 0.0);
  r.l2_bytes = j.value("l2_bytes", 0.0);
  r.i8_ops = j.value("i8_ops", 0.0);
  r.bf16_flops = j.value("bf16_flops", 0.0);
  r.spread = j.value("spread", 0.0);
  bool good =
      r.threads > 0 && r.f32_flops > 0 && r.read_bytes > 0 && r.l3_bytes > 0 && r.l2_bytes > 0;
  return good ? std::optional(r) : std::nullopt;
}

// One and all threads disagree where all together did less than one, or more than each could.
bool agree(const MachineRates& one, const MachineRates& all) {
  constexpr double kNoise = 1.1;
  return all.f32_flops * kNoise >= one.f32_flops &&
         all.f32_flops <= kNoise * all.threads * one.f32_flops;
}

// The best of two rounds of each rate.
void add_round(const MachineRates& round, MachineRates* best) {
  if (best->f32_flops == 0) {
    *best = round;
    return;
  }
  const double slowest = std::min((1 - best->spread) * best->f32_flops, round.f32_flops);
  for (double MachineRates::*rate :
       {&MachineRates::f32_flops, &MachineRates::read_bytes, &MachineRates::l3_bytes,
        &MachineRates::l2_bytes, &MachineRates::i8_ops, &MachineRates::bf16_flops}) {
    best->*rate = std::max(best->*rate, round.*rate);
  }
  best->spread = 1 - slowest / best->f32_flops;
}

// Rounds until two were not disturbed and agree, or there were enough. Where the first two are both
// disturbed, more of them would only keep the caller waiting.
void measure_rounds(const MeasureRatesFn& measure, Machine* machine) {
  constexpr int kWanted = 2, kMost = 6;
  MachineRates one, all, one_spoiled, all_spoiled;
  std::string reason;
  int quiet = 0;
  for (int round = 0; round < kMost; ++round) {
    const MeasuredRates alone = measure(1);
    const MeasuredRates together = machine->cores > 1 ? measure(machine->cores) : alone;
    if (alone.disturbed.empty() && together.disturbed.empty()) {
      add_round(alone.rates, &one);
      add_round(together.rates, &all);
      ++quiet;
    } else {
      add_round(alone.rates, &one_spoiled);
      add_round(together.rates, &all_spoiled);
      reason = alone.disturbed.empty() ? together.disturbed : alone.disturbed;
    }
    if (quiet >= kWanted && agree(one, all)) break;
    if (quiet == 0 && round + 1 == kWanted) break;
  }
  machine->one = quiet > 0 ? one : one_spoiled;
  machine->all = quiet > 0 ? all : all_spoiled;
  if (!agree(machine->one, machine->all)) reason = "one and all threads disagree";
  const bool good = quiet >= kWanted && agree(one, all);
  machine->disturbed = good ? "" : reason;
}

std::string remembered_path(const Machine& machine) {
  std::optional<std::string> directory = cache_directory();
  if (!directory) return "";
  std::string key = fmt::format("{} probe {}", machine.identity(), kProbeVersion);
  return fmt::format("{}/machine-{:016x}.json", *directory, XXH3_64bits(key.data(), key.size()));
}

// How long rates are kept that something disturbed: commands one behind the other do not each wait for
// the same neighbour.
constexpr std::chrono::minutes kDisturbedFor(10);

bool is_older(const std::string& path, std::chrono::minutes age) {
  std::error_code error;
  const auto written = std::filesystem::last_write_time(path, error);
  return error || std::filesystem::file_time_type::clock::now() - written > age;
}

bool recall(const std::string& path, Machine* machine) {
  std::optional<std::string> text = path.empty() ? std::nullopt : read_file(path);
  if (!text) return false;
  json j = json::parse(*text, nullptr, false);
  if (!j.is_object() || j.value("identity", "") != machine->identity()) return false;
  try {
    std::optional<MachineRates> one = rates_from_json(j.at("one")),
                                all = rates_from_json(j.at("all"));
    if (!one || !all) return false;
    const std::string disturbed = j.value("disturbed", "");
    if (!disturbed.empty() && is_older(path, kDisturbedFor)) return false;
    machine->one = *one;
    machine->all = *all;
    machine->disturbed = disturbed;
    return true;
  } catch (const json::exception&) {
    return false;  // a damaged file: measured again
  }
}

json describe(const Machine& m) {
  return {{"identity", m.identity()},
          {"chip", m.chip},
          {"signature", m.signature},
          {"features", m.features},
          {"cpus", m.cpus},
          {"cores", m.cores},
          {"caches", {{"l1", m.caches.l1}, {"l2", m.caches.l2}, {"l3", m.caches.l3}}},
          {"one", rates_to_json(m.one)},
          {"all", rates_to_json(m.all)},
          {"disturbed", m.disturbed}};
}

}  // namespace

double MachineRates::operations(ElemType factors) const {
  double rate = 0;
  if (factors == ElemType::i8 || factors == ElemType::u8) rate = i8_ops;
  if (factors == ElemType::bf16) rate = bf16_flops;
  return rate > 0 ? rate : f32_flops;
}

std::string Machine::identity() const {
  return fmt::format("{} ({}) {} cpus {} cores, caches {} {} {}, {}", chip, signature, cpus, cores,
                     caches.l1, caches.l2, caches.l3, fmt::join(features, " "));
}

MachineRates Machine::rates(int threads) const {
  if (threads <= 1) return one;
  if (threads >= all.threads) return all;
  double share = static_cast<double>(threads - 1) / (all.threads - 1);
  MachineRates r;
  r.threads = threads;
  r.spread = std::max(one.spread, all.spread);
  r.f32_flops = one.f32_flops + share * (all.f32_flops - one.f32_flops);
  r.i8_ops = one.i8_ops + share * (all.i8_ops - one.i8_ops);
  r.bf16_flops = one.bf16_flops + share * (all.bf16_flops - one.bf16_flops);
  r.read_bytes = std::min(threads * one.read_bytes, all.read_bytes);
  r.l3_bytes = std::min(threads * one.l3_bytes, all.l3_bytes);
  r.l2_bytes = std::min(threads * one.l2_bytes, all.l2_bytes);
  return r;
}

std::string Machine::home_of(double bytes, int threads) const {
  if (bytes <= static_cast<double>(caches.l2_of(threads))) return "L2";
  return bytes <= static_cast<double>(caches.l3_of(threads)) ? "L3" : "memory";
}

double Machine::read_rate(double bytes, int threads) const {
  MachineRates r = rates(threads);
  std::string home = home_of(bytes, threads);
  return home == "L2" ? r.l2_bytes : home == "L3" ? r.l3_bytes : r.read_bytes;
}

double Machine::roofline_seconds(double flops, double bytes, int threads, ElemType factors) const {
  double peak = rates(threads).operations(factors), rate = read_rate(bytes, threads);
  double work = peak > 0 ? flops / peak : 0;
  double traffic = rate > 0 ? bytes / rate : 0;
  return std::max(work, traffic);
}

std::string Machine::to_json() const { return describe(*this).dump(); }

std::optional<Machine> Machine::from_json(const std::string& text) {
  const json j = json::parse(text, nullptr, false);
  if (!j.is_object()) return std::nullopt;
  try {
    Machine m;
    const auto one = rates_from_json(j.at("one")), all = rates_from_json(j.at("all"));
    if (!one || !all) return std::nullopt;
    m.chip = j.at("chip");
    m.cpus = j.at("cpus");
    m.cores = j.at("cores");
    m.caches.l1 = j.at("caches").at("l1");
    m.caches.l2 = j.at("caches").at("l2");
    m.caches.l3 = j.at("caches").at("l3");
    m.one = *one;
    m.all = *all;
    return m;
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

namespace {

MeasuredRates measure_rates_on(const HostArray& words, int threads) {
  ThreadPool pool(threads);
  // The caller takes part in the work: it keeps to a processor meanwhile.
  const CpuClaim caller = CpuClaim::take();
  caller.pin();
  const LoadMeter load;
  const CacheSizes& caches = cache_sizes();
  MachineRates rates;
  rates.threads = threads;
  rates.f32_flops = measure_peak_flops(pool);
  rates.i8_ops = measure_peak(pool, ElemType::i8);
  rates.bf16_flops = measure_peak(pool, ElemType::bf16);
  rates.read_bytes = measure_read_bandwidth(pool, words, words.bytes());
  // Half of a cache: the rest is for what else wants room in it.
  rates.l2_bytes = measure_read_bandwidth(pool, words, caches.l2_of(threads) / 2);
  // A virtual machine is told the host's last cache, which other guests share: only a few times the second
  // cache is sure to stay there.
  constexpr int64_t kSure = 8;
  const int64_t l2 = caches.l2_of(threads);
  const int64_t l3 = std::min(caches.l3_of(threads) / 2, kSure * l2);
  rates.l3_bytes = l3 > l2 ? measure_read_bandwidth(pool, words, l3) : rates.read_bytes;
  unpin_current_thread();
  return {rates, load.disturbed(threads)};
}

}  // namespace

MeasuredRates measure_rates(int threads) { return measure_rates_on(words_to_read(), threads); }

Machine describe_machine() {
  Machine m;
  m.chip = cpu_name();
  m.signature = cpu_signature();
  m.features.assign(cpu_features().begin(), cpu_features().end());
  m.cpus = static_cast<int>(available_cpus().size());
  m.cores = available_cores();
  m.caches = cache_sizes();
  return m;
}

Machine probe_machine(bool fresh, const MeasureRatesFn& measure) {
  Machine m = describe_machine();
  std::string path = remembered_path(m);
  if (!fresh && recall(path, &m)) return m;
  if (measure) {
    measure_rounds(measure, &m);
  } else {
    const HostArray words = words_to_read();
    measure_rounds([&](int threads) { return measure_rates_on(words, threads); }, &m);
  }
  if (!path.empty()) write_file_atomic(path, describe(m).dump(2) + "\n");
  return m;
}

}  // namespace tilewright
