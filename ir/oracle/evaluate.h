// Evaluates single elements of a workload in f64: the oracle that every candidate is held to.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/interpreter/interpreter.h"
#include "ir/tensor_expr.h"

namespace tilewright {

// Reads one element of an input. Called with the flat row-major index.
using ElementReader = std::function<double(int64_t)>;

// Reads elements [first, first + out.size()) of an input, quicker than one by one.
using BlockReader = std::function<void(int64_t first, std::span<double> out)>;

// What is granted to sums of products in which one factor is an 8-bit float and the other comes from an
// element of 8 bits or fewer: that the terms, so many at a time in their order (0: all), are added with
// so many fraction bits of the largest of them or of their sum, toward zero, 32 of them in a step. What
// is added of those sums is f32. Nothing for 0 bits.
struct NarrowSums {
  int fraction_bits = 0;
  int64_t terms = 0;
};

// Evaluates elements of the stages on demand, from the tensor expression alone (no schedule, no
// loop nest), in f64 with no rounding in between, except that a Cast to an integer or a narrower
// stored type rounds as the expression says; integer arithmetic wraps like its type. Elements of
// intermediate stages that are dear are remembered. Not safe for use from several threads.
class Oracle {
 public:
  // `inputs` by buffer name. The workload must outlive the oracle. Throws Error for an input or a
  // dynamic dimension that is missing, and for a dimension outside its range.
  Oracle(const Workload& workload, std::map<std::string, ElementReader> inputs,
         std::map<std::string, int64_t> dims = {}, NarrowSums narrow = {});
  ~Oracle();

  // Lets for_all() read an input by blocks.
  void read_blocks(const std::string& input, BlockReader reader);

  struct Value {
    double value;
    // Sum of the magnitudes that were added up to reach `value`: a kernel that adds in another
    // order may differ by at most about `terms * eps(acc) * magnitude`.
    double magnitude;
    int64_t terms;
    // How far a right kernel may lie from `value`: the rounding errors of every operation in its
    // own type, carried to the output to first order. A sum of n terms is granted
    // min(n, 4 sqrt(n)) roundings of its magnitude, since roundings are independent; a kernel that
    // leaves out a term of ordinary size lies outside. Zero points, offsets of weights, and offsets
    // that make codes unsigned, may be applied to sums in the place of terms (mark_apart() in oracle_code.h): these
    // sums are granted their roundings, too. 0 for integers.
    double error;
  };
  // The output element at the flat row-major index; throws InternalError beyond the output.
  Value at(int64_t flat_index);

  // Takes elements [first, first + values.size()) of the output.
  using TakeFn = std::function<void(int64_t first, std::span<const Value> values)>;
  // Runs body(0) to body(count - 1), from several threads where it likes.
  using ParallelFn = std::function<void(int64_t count, const std::function<void(int64_t)>& body)>;
  // Evaluates every element: the values of at() up to the order in which f64 sums are added up. Each
  // stage is computed once and kept; sums of products run along an output axis, in vectors. `take`
  // is called for stretches that do not overlap, from the threads of `parallel`.
  void for_all(const TakeFn& take, const ParallelFn& parallel = {});

  // An estimate of what for_all() needs.
  struct WholeCost {
    double seconds;  // of one thread
    double bytes;    // of inputs and stages as f64
  };
  WholeCost whole_cost() const;

  // Weighted sums of neighbours along an axis of the output. A sum of products needs one product for
  // each of them, with the weighted sum of a factor's elements, where its elements need one each
  // (Freivalds, Probabilistic machines can use less running time, IFIP 1977). One wrong element moves
  // its sum; several in one sum may cancel, as the weights happen to be.
  //
  // Row r, the r-th of the output's other axes in row-major order, has element j of the axis at
  // r / stride * extent * stride + r % stride + j * stride.
  struct Sums {
    int64_t extent = 1, stride = 1;  // of the axis
    int64_t width = 1;               // elements of a sum; the last one of a row may have fewer
    // By place on the axis: 4 to 7, or -4 to -7, by the seed; 0 for elements that are infinite or
    // not numbers in every row.
    std::vector<int> weights = {};
    // By rows, and sums along the axis. Not a number: not known.
    std::vector<double> values = {};
    // The roots of the sums of squares of the elements' weighted errors (Value::error, without the
    // rounding to the output's type); 0 for integers.
    std::vector<float> errors = {};

    int64_t per_row() const { return (extent + width - 1) / width; }
  };
  static constexpr int64_t kMostWidth = 128;
  // What sums() of this width needs. Nothing where the output is not a sum of products, as it is or
  // rounded to another float type, of an input and something that depends on the axis alone. `width`
  // is a power of two up to kMostWidth.
  std::optional<WholeCost> sums_cost(int64_t width) const;
  // Requires that sums_cost() gives something. Errors are those of sums whose roundings are
  // independent of each other.
  Sums sums(int64_t width, uint64_t seed, const ParallelFn& parallel = {});

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The largest relative error of one rounding to `elem` (half a unit in the last place of 1), 0 for
// integers.
double unit_roundoff(ElemType elem);

}  // namespace tilewright
