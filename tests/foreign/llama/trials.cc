// The verdict of trials in place, by made-up times. Ends with 1 and a line where one is wrong.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "ggml_backend/trial.h"

using tilewright::ggml::Product;
using tilewright::ggml::Settings;
using tilewright::ggml::Trials;
using tilewright::ggml::Turn;

namespace {

const Product kProduct{GGML_TYPE_Q4_1, 64, 256, 1};

void expect(bool is_true, const char* what) {
  if (is_true) return;
  std::printf("wrong: %s\n", what);
  std::exit(1);
}

// Runs the trial to its end; `start` as Trials::timed() has it.
bool is_lost_after(double kernel, double cpu, double start) {
  const Settings settings;
  Trials trials(settings, nullptr);
  expect(trials.next(kProduct, 1) == Turn::Compare, "a product is compared first");
  trials.compared(kProduct, 1, 0.01);
  for (int i = 0; i < 40; ++i) {
    const Turn turn = trials.next(kProduct, 1);
    trials.timed(kProduct, 1, turn, &kProduct, turn == Turn::Kernel ? kernel : cpu, start);
  }
  const bool is_lost = trials.is_lost(kProduct, 1);
  expect(trials.next(kProduct, 1) == (is_lost ? Turn::Cpu : Turn::Kernel), "the verdict holds");
  expect(!trials.is_lost(kProduct, 64), "other numbers of rows have a trial of their own");
  return is_lost;
}

// A model of many layers, whose weights are packed in the first pass: each turn of that pass is as fast as `hot`.
bool is_lost_after_a_first_pass(int64_t m, double hot, double kernel, double cpu) {
  const Settings settings;
  Trials trials(settings, nullptr);
  trials.next(kProduct, m);
  trials.compared(kProduct, m, 0.01);
  const std::vector<int> layers(30);
  for (int pass = 0; pass < 3; ++pass) {
    for (const int& layer : layers) {
      const Turn turn = trials.next(kProduct, m);
      const double own = pass == 0 ? hot : kernel;
      trials.timed(kProduct, m, turn, &layer, turn == Turn::Kernel ? own : cpu, 0);
    }
  }
  return trials.is_lost(kProduct, m);
}

}  // namespace

int main() {
  expect(is_lost_after_a_first_pass(1, 1e-5, 2e-4, 1e-4), "a weight's first turn does not count");
  expect(!is_lost_after_a_first_pass(1, 1e-3, 1e-4, 2e-4), "a weight's first turn does not count");
  expect(!is_lost_after_a_first_pass(64, 1e-5, 2e-4, 1e-4), "with many rows each turn counts");
  expect(!is_lost_after(1e-4, 2e-4, 0), "a faster kernel wins");
  expect(is_lost_after(2e-4, 1e-4, 0), "a slower kernel is dropped");
  expect(is_lost_after(1e-4, 1.05e-4, 1e-5), "the start of one more graph counts");
  const Settings settings;
  Trials trials(settings, nullptr);
  trials.next(kProduct, 1);
  trials.compared(kProduct, 1, 0.2);
  expect(trials.is_lost(kProduct, 1), "a kernel that differs is dropped");
  Settings untried;
  untried.trial = false;
  Trials all(untried, nullptr);
  expect(all.next(kProduct, 1) == Turn::Kernel, "trial=0 uses kernels untried");
  all.failed(kProduct, 1, "a reason");
  expect(all.next(kProduct, 1) == Turn::Cpu, "a kernel that failed is not asked again");
  return 0;
}
