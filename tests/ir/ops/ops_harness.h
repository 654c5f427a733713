// Computes a spec's workload on random operands in three ways: plain loops in the test, the
// interpreter on the lowered program, and the oracle.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <string>

#include "ir/buffer.h"
#include "ir/interpreter/interpreter.h"
#include "ir/ops/spec.h"
#include "ir/oracle/evaluate.h"

namespace tilewright {

// Multi-dimensional access to an NdArray in tests.
struct View {
  NdArray& array;
  template <class... I>
  double& operator()(I... index) const {
    int64_t flat = 0;
    size_t d = 0;
    ((flat = flat * array.shape[d++] + static_cast<int64_t>(index)), ...);
    EXPECT_EQ(d, array.shape.size());
    return array.data.at(static_cast<size_t>(flat));
  }
};

class OpRun {
 public:
  explicit OpRun(const std::string& spec, std::map<std::string, int64_t> dims = {})
      : workload_(make_workload(parse_spec(spec))), dims_(std::move(dims)) {
    uint64_t seed = 11;
    for (const Param& p : workload_.inputs) {
      arrays_[p.buffer->name] = NdArray::random(p.buffer->elem, shape_of(p.buffer), seed++);
    }
    expected_ = NdArray::zeros(workload_.output()->elem, shape_of(workload_.output()));
  }

  View in(const std::string& name) { return {arrays_.at(name)}; }
  View expected() { return {expected_}; }
  const Workload& workload() const { return workload_; }
  const NdArrays& arrays() const { return arrays_; }

  Oracle oracle() {
    std::map<std::string, ElementReader> readers;
    for (auto& [name, array] : arrays_) {
      readers[name] = [&a = array](int64_t i) { return a.data.at(static_cast<size_t>(i)); };
    }
    return Oracle(workload_, readers, dims_);
  }

  // Compares the oracle with the expected values, which were computed in f64 (to `tolerance`
  // relative to the largest). Compares the interpreter with the oracle, within the oracle's error
  // bounds.
  void check(double tolerance = 1e-6) {
    double scale = 1;
    for (double v : expected_.data) scale = std::max(scale, std::abs(v));
    NdArrays arrays = arrays_;
    interpret(lower(workload_), arrays, dims_);
    const NdArray& interpreted = arrays.at(workload_.output()->name);
    ASSERT_EQ(interpreted.shape, expected_.shape);
    Oracle o = oracle();
    for (size_t i = 0; i < expected_.data.size(); ++i) {
      Oracle::Value value = o.at(static_cast<int64_t>(i));
      ASSERT_NEAR(value.value, expected_.data[i], tolerance * scale) << "element " << i;
      ASSERT_NEAR(interpreted.data[i], value.value, value.error) << "element " << i;
      ASSERT_GE(value.magnitude, std::abs(value.value) * (1 - 1e-12));
    }
    check_whole(o);
  }

  // Whole outputs equal single elements, up to the order of f64 sums.
  void check_whole(Oracle& o) {
    std::vector<int> seen(expected_.data.size(), 0);
    o.for_all([&](int64_t first, std::span<const Oracle::Value> values) {
      for (size_t i = 0; i < values.size(); ++i) {
        const Oracle::Value single = o.at(first + static_cast<int64_t>(i)), whole = values[i];
        ++seen.at(static_cast<size_t>(first) + i);
        const double scale = 1e-9 * (single.magnitude + 1);
        ASSERT_NEAR(whole.value, single.value, std::max(scale, single.error)) << "element " << i;
        ASSERT_NEAR(whole.error, single.error, 1e-6 * single.error) << "element " << i;
        ASSERT_NEAR(whole.magnitude, single.magnitude, 1e-6 * single.magnitude);
      }
    });
    for (int times : seen) ASSERT_EQ(times, 1);
  }

 private:
  std::vector<int64_t> shape_of(const Buffer& b) const {
    std::vector<int64_t> shape;
    for (const Expr& e : b->shape) {
      auto constant = as_int(e);
      shape.push_back(constant ? *constant : dims_.at(e.as<VarNode>()->name));
    }
    return shape;
  }

  Workload workload_;
  std::map<std::string, int64_t> dims_;
  NdArrays arrays_;
  NdArray expected_;
};

}  // namespace tilewright
