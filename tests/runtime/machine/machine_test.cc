#include "runtime/machine/machine.h"

#include "kernel/cpu_features.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files.h"
#include "runtime/machine/peak.h"
#include "tests/runtime/support.h"

namespace tilewright {
namespace {

Machine sample() {
  Machine m;
  m.chip = "chip";
  m.caches = {32 << 10, 1 << 20, 32 << 20, 32 << 20};
  m.one = {1, 100e9, 20e9, 30e9, 60e9};
  m.all = {5, 400e9, 50e9, 120e9, 300e9};
  return m;
}

TEST(Machine, RatesBetweenTheMeasuredPoints) {
  Machine m = sample();
  EXPECT_EQ(m.rates(1).f32_flops, 100e9);
  EXPECT_EQ(m.rates(5).f32_flops, 400e9);
  EXPECT_EQ(m.rates(50).f32_flops, 400e9);
  EXPECT_EQ(m.rates(3).f32_flops, 250e9);
  EXPECT_EQ(m.rates(2).read_bytes, 40e9);
  EXPECT_EQ(m.rates(3).read_bytes, 50e9);
}

TEST(Machine, RooflineIsTheSlowerOfWorkAndTraffic) {
  Machine m = sample();
  EXPECT_DOUBLE_EQ(m.roofline_seconds(100e9, 1e9, 1), 1.0);
  EXPECT_DOUBLE_EQ(m.roofline_seconds(1e9, 40e9, 1), 2.0);
  EXPECT_DOUBLE_EQ(m.roofline_seconds(400e9, 0, 5), 1.0);
}

// Instructions that sum products of narrow types have a peak of their own, where there are any.
TEST(Machine, TheRoofOfNarrowFactorsIsThatOfTheirInstructions) {
  Machine m = sample();
  EXPECT_DOUBLE_EQ(m.roofline_seconds(100e9, 0, 1, ElemType::i8), 1.0);
  m.one.i8_ops = 400e9;
  m.one.bf16_flops = 200e9;
  m.all.i8_ops = 1600e9;
  EXPECT_DOUBLE_EQ(m.roofline_seconds(100e9, 0, 1, ElemType::u8), 0.25);
  EXPECT_DOUBLE_EQ(m.roofline_seconds(100e9, 0, 1, ElemType::bf16), 0.5);
  EXPECT_DOUBLE_EQ(m.roofline_seconds(100e9, 0, 1, ElemType::f16), 1.0);
  EXPECT_DOUBLE_EQ(m.rates(3).i8_ops, 1000e9);
}

TEST(Machine, WhatFitsACacheIsReadFromThere) {
  Machine m = sample();
  EXPECT_EQ(m.home_of(1 << 20, 1), "L2");
  EXPECT_EQ(m.home_of((1 << 20) + 1, 1), "L3");
  EXPECT_EQ(m.home_of((1 << 20) + 1, 2), "L2") << "two cores have two caches";
  EXPECT_EQ(m.home_of(33 << 20, 2), "memory");
  EXPECT_DOUBLE_EQ(m.roofline_seconds(0, 600e3, 1), 600e3 / 60e9);
  EXPECT_DOUBLE_EQ(m.roofline_seconds(0, 30e6, 1), 30e6 / 30e9);
  EXPECT_EQ(m.read_rate(30e6, 2), 60e9);
}

// Rates of a machine whose processors each do so many operations a second.
MeasuredRates rates_of(int threads, double flops, const std::string& disturbed = "") {
  MachineRates rates;
  rates.threads = threads;
  rates.f32_flops = flops * threads;
  rates.read_bytes = rates.l3_bytes = rates.l2_bytes = 1e9;
  return {rates, disturbed};
}

TEST(Machine, TheBestOfItsRoundsCountsAndTheirSpreadIsKept) {
  test::TempDir dir;
  test::ScopedEnv cache("TILEWRIGHT_CACHE", dir.path());
  int rounds = 0;
  const Machine m = probe_machine(false, [&](int threads) {
    if (threads == 1) ++rounds;
    return rates_of(threads, rounds == 1 ? 80e9 : 100e9);
  });
  EXPECT_EQ(rounds, 2);
  EXPECT_EQ(m.one.f32_flops, 100e9);
  EXPECT_DOUBLE_EQ(m.one.spread, 0.2);
  EXPECT_EQ(m.disturbed, "");
  const MeasureRatesFn never = [](int) -> MeasuredRates { throw Error("it is remembered"); };
  EXPECT_EQ(probe_machine(false, never).to_json(), m.to_json());
}

TEST(Machine, DisturbedRoundsAreRepeatedAndDoNotCount) {
  test::TempDir dir;
  test::ScopedEnv cache("TILEWRIGHT_CACHE", dir.path());
  int rounds = 0;
  const Machine m = probe_machine(false, [&](int threads) {
    if (threads == 1) ++rounds;
    return rounds <= 1 ? rates_of(threads, 50e9, "a neighbour") : rates_of(threads, 100e9);
  });
  EXPECT_EQ(rounds, 3);
  EXPECT_EQ(m.one.f32_flops, 100e9);
  EXPECT_EQ(m.one.spread, 0);
  EXPECT_EQ(m.disturbed, "");
}

TEST(Machine, DisturbedRatesAreRememberedForTenMinutes) {
  test::TempDir dir;
  test::ScopedEnv cache("TILEWRIGHT_CACHE", dir.path());
  int rounds = 0;
  const Machine m = probe_machine(false, [&](int threads) {
    if (threads == 1) ++rounds;
    return rates_of(threads, 50e9, "a neighbour");
  });
  EXPECT_EQ(rounds, 2);
  EXPECT_EQ(m.disturbed, "a neighbour");
  EXPECT_EQ(m.one.f32_flops, 50e9) << "the best that is known";
  const MeasureRatesFn never = [](int) -> MeasuredRates { throw Error("it is remembered"); };
  EXPECT_EQ(probe_machine(false, never).to_json(), m.to_json());

  for (const auto& file : std::filesystem::directory_iterator(dir.path())) {
    std::filesystem::last_write_time(
        file, std::filesystem::file_time_type::clock::now() - std::chrono::minutes(11));
  }
  const Machine later = probe_machine(false, [](int threads) { return rates_of(threads, 100e9); });
  EXPECT_EQ(later.disturbed, "");
  EXPECT_EQ(later.one.f32_flops, 100e9);
}

TEST(Machine, OneAndAllThreadsMustAgree) {
  if (describe_machine().cores < 2) GTEST_SKIP() << "one core";
  test::TempDir dir;
  test::ScopedEnv cache("TILEWRIGHT_CACHE", dir.path());
  int rounds = 0;
  const auto one_is_slow_at_first = [&](int threads) {
    if (threads == 1) ++rounds;
    return rates_of(threads, threads == 1 && rounds < 4 ? 40e9 : 100e9);
  };
  EXPECT_EQ(probe_machine(false, one_is_slow_at_first).disturbed, "");
  EXPECT_EQ(rounds, 4) << "the first two were at odds";
  const Machine at_odds = probe_machine(
      true, [](int threads) { return rates_of(threads, threads == 1 ? 40e9 : 100e9); });
  EXPECT_EQ(at_odds.disturbed, "one and all threads disagree");
}

TEST(Machine, ProbeMeasuresWhatThisProcessorHas) {
  const MachineRates first = measure_rates(1).rates;
  EXPECT_GT(first.f32_flops, 0);
  EXPECT_EQ(first.i8_ops > 0, cpu_features().count("avx2") != 0);
  EXPECT_EQ(first.bf16_flops > 0,
            cpu_features().count("avx512bf16") + cpu_features().count("amx-bf16") != 0);
  EXPECT_GT(first.read_bytes, 0);
  EXPECT_GT(first.l3_bytes, 0);
  EXPECT_GT(first.l2_bytes, 0);
  EXPECT_EQ(first.threads, 1);
}

TEST(Machine, ProbeIsRememberedForItsIdentity) {
  test::TempDir dir;
  test::ScopedEnv cache("TILEWRIGHT_CACHE", dir.path());
  const auto measure = [](int threads) { return rates_of(threads, 100e9); };
  Machine first = probe_machine(false, measure);
  EXPECT_EQ(first.one.threads, 1);
  EXPECT_EQ(first.all.threads, first.cores);
  Machine second = probe_machine();
  EXPECT_EQ(second.to_json(), first.to_json());
}

TEST(Machine, DamagedOrForeignMemoryIsMeasuredAgain) {
  test::TempDir dir;
  test::ScopedEnv cache("TILEWRIGHT_CACHE", dir.path());
  const auto measure = [](int threads) { return rates_of(threads, 100e9); };
  Machine first = probe_machine(false, measure);
  std::string path;
  for (const auto& e : std::filesystem::directory_iterator(dir.path())) path = e.path();
  nlohmann::json remembered = nlohmann::json::parse(*read_file(path));
  for (const std::string& bad : {std::string("{"), std::string("[]"), std::string("{\"one\":3}")}) {
    ASSERT_TRUE(write_file_atomic(path, bad));
    EXPECT_GT(probe_machine(false, measure).one.f32_flops, 0);
    EXPECT_EQ(nlohmann::json::parse(*read_file(path))["identity"], remembered["identity"]);
  }
  remembered["identity"] = "another machine";
  remembered["one"]["f32_flops"] = 1.0;
  ASSERT_TRUE(write_file_atomic(path, remembered.dump()));
  EXPECT_GT(probe_machine(false, measure).one.f32_flops, 1.0);
}

TEST(Machine, DescriptionNeedsNoMeasurement) {
  Machine m = describe_machine();
  EXPECT_FALSE(m.chip.empty());
  EXPECT_GE(m.cpus, m.cores);
  EXPECT_GT(m.caches.l1, 0);
  EXPECT_GE(m.caches.last, m.caches.l2);
  EXPECT_EQ(m.one.f32_flops, 0);
  EXPECT_THAT(m.identity(), testing::HasSubstr(m.signature));
}

// Each sum goes to the fixed point of x = 0.999 x + 0.001, which is 1: their total is their number.
TEST(Peak, LoopComputesWhatItCounts) {
  float total = run_peak_loop(100000);
  EXPECT_NEAR(total, std::round(total), 0.1);
  EXPECT_GE(total, 8);
  EXPECT_EQ(peak_loop_operations(10), 10 * peak_loop_operations(1));
}

// An element of a sum of products of ones is the number of the products: a tile has 256 elements, and
// each product is two operations.
TEST(Peak, TilesComputeWhatTheyCount) {
  for (ElemType factors : {ElemType::bf16, ElemType::i8}) {
    const auto run = run_tile_loop(factors, 1000);
    const char* feature = factors == ElemType::bf16 ? "amx-bf16" : "amx-int8";
    ASSERT_EQ(run.has_value(), cpu_features().count(feature) != 0);
    if (run) {
      EXPECT_EQ(run->first * 2 * 256, static_cast<float>(run->second));
    }
  }
}

}  // namespace
}  // namespace tilewright
