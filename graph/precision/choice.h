// Which products of a graph take a precision, by what the program computes on given inputs.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/precision/precision.h"

namespace tilewright::graph {

// Inputs on which programs are compared, and the sizes of the dimensions that have ranges.
struct Sample {
  std::map<std::string, Bytes> inputs;
  std::map<std::string, int64_t> sizes;
};

// The least and the largest element of each value that is calculated, on all samples. Floats alone.
Ranges ranges_of(const Graph& graph, const std::vector<Sample>& samples,
                 const Oracle::ParallelFn& parallel = {});

// The largest difference as a share of the largest magnitude that was wanted; infinite where one of both alone
// is no number.
double share_off(ElemType elem, std::string_view got, std::string_view want);

// How far a node's output is off when it alone has narrow factors.
struct ProductError {
  std::string output, label;
  double error = 0;
};

// Which products stay f32, so that a program holds a tolerance.
struct Choice {
  Kept kept;
  std::vector<ProductError> errors;  // of all products that can change, the largest first
  int others = 0;                    // products that cannot, or gain nothing
  double error = 0;                  // of the outputs, with the products of `kept` in f32
  double error_of_all = 0;           // with none of them
  std::string output;                // the one that is off the most then
};

// Computes the program in both ways on the samples, without kernels. Where outputs are off by more than the
// tolerance, as few products as it takes stay f32, those that are off the most by themselves first.
Choice choose_products(const Graph& graph, const Precision& precision, const Ranges* ranges,
                       const std::vector<Sample>& samples, double tolerance,
                       const Oracle::ParallelFn& parallel = {});

}  // namespace tilewright::graph
