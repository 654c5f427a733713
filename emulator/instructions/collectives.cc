#include "emulator/instructions/collectives.h"

#include <fmt/format.h>

#include <array>

#include "emulator/counters.h"
#include "emulator/instructions/mma_values.h"
#include "emulator/instructions/sparse_operand.h"
#include "emulator/instructions/tensor_sums.h"
#include "kernel/instructions/mma_rows.h"

namespace tilewright::emulator {
namespace {

constexpr int kMatrixRows = 8;
constexpr int kRowBytes = 16;

void require_shared(const WarpRequest& r, const char* what) {
  if (r.array->storage->space == Space::Shared) return;
  fail(FaultKind::BadLaunch, r.line,
       fmt::format("{} {}, which is not in shared memory", what, r.array->name));
}

// The summand of two bits.
double product(std::string_view computes, double a, double b) {
  return computes == kCountsXor ? a + b - 2 * a * b : a * b;
}

struct Matrices {
  Matrix a, b, c;
};

Matrix gather_a(const Instruction& row, const std::vector<ThreadState*>& lanes) {
  Matrix a(row.m, row.kept());
  each_element(row.a(), lanes, [&](const WarpRequest& r, int e, MatrixPlace at) {
    a.at(at) = element_value(row, row.operand, r.a, e);
  });
  return a;
}

Matrices gather(const Instruction& row, Matrix a, const std::vector<ThreadState*>& lanes) {
  Matrices x{std::move(a), Matrix(row.k, row.n), Matrix(row.m, row.n)};
  each_element(row.b(), lanes, [&](const WarpRequest& r, int e, MatrixPlace at) {
    x.b.at(at) = element_value(row, row.b_operand(), r.b, e);
  });
  each_element(row.d(), lanes, [&](const WarpRequest& r, int e, MatrixPlace at) {
    x.c.at(at) = sum_value(row, r.c, e);
  });
  return x;
}

void multiply_bits(const Instruction& row, Matrices& x) {
  for (int i = 0; i < row.m; ++i) {
    for (int j = 0; j < row.n; ++j) {
      double& sum = x.c.at({i, j});
      for (int k = 0; k < row.k; ++k) sum += product(row.computes, x.a.at({i, k}), x.b.at({k, j}));
    }
  }
}

void multiply(const Instruction& row, const TensorSums& how, Matrices& x) {
  if (row.computes != kMultiplies) return multiply_bits(row, x);
  const SumsOfProducts products(row, how, x.a, x.b);
  for (int i = 0; i < row.m; ++i) {
    for (int j = 0; j < row.n; ++j) {
      double& sum = x.c.at({i, j});
      sum = products.add_to(sum, i, j);
    }
  }
}

void scatter(const Instruction& row, Matrices& x, const std::vector<ThreadState*>& lanes) {
  each_element(row.d(), lanes, [&](const WarpRequest& r, int e, MatrixPlace at) {
    set_sum(row, r.d, e, x.c.at(at));
  });
}

// Moves the rows of matrix `q`, each at the address that one lane gives, and counts the access.
template <class Move>
void each_row(const std::vector<ThreadState*>& lanes, int q, const char* what,
              EmulatorCounters& counters, const Move& move) {
  std::vector<LaneAccess> rows;
  for (size_t i = 0; i < kMatrixRows; ++i) {
    ThreadState& lane = *lanes[static_cast<size_t>(q) * kMatrixRows + i];
    const WarpRequest& r = lane.request;
    require_shared(r, what);
    try {
      move(lane, i);
    } catch (Fault& fault) {  // not of the lane that came last and runs
      fault.by = &lane;
      throw;
    }
    rows.push_back({r.array->begin + r.offset, kRowBytes});
  }
  count_shared(rows, counters);
}

}  // namespace

void shuffle(const std::vector<ThreadState*>& lanes, EmulatorCounters& counters) {
  std::array<uint64_t, kWarp> values{};
  for (size_t lane = 0; lane < lanes.size(); ++lane) {
    if (lanes[lane]) values[lane] = lanes[lane]->request.value;
  }
  for (size_t lane = 0; lane < lanes.size(); ++lane) {
    if (!lanes[lane]) continue;
    WarpRequest& request = lanes[lane]->request;
    auto source = static_cast<size_t>(request.source);
    if (source >= lanes.size() || !lanes[source]) {
      fail(FaultKind::DivergentCollective, request.line,
           fmt::format("lane {} takes the value of lane {}, which takes no part in the shuffle",
                       lane, source));
    }
    request.value = values[source];
  }
  ++counters.shuffles;
}

void load_matrices(const std::vector<ThreadState*>& lanes, Memory& memory,
                   EmulatorCounters& counters) {
  const WarpRequest& first = lanes[0]->request;
  int count = first.variant / 2;
  bool transposed = first.variant % 2 != 0;
  for (int q = 0; q < count; ++q) {
    std::array<std::array<uint16_t, kMatrixRows>, kMatrixRows> matrix;
    each_row(lanes, q, "ldmatrix reads", counters, [&](ThreadState& lane, size_t row) {
      const WarpRequest& r = lane.request;
      memory.load(lane, *r.array, r.offset, kRowBytes, matrix[row].data(), r.line);
    });
    each_element(
        ldmatrix_fragment(transposed), lanes, [&](const WarpRequest& r, int part, MatrixPlace at) {
          unsigned& word = static_cast<unsigned*>(r.d)[q];
          if (part == 0) word = 0;
          word |= unsigned{matrix[static_cast<size_t>(at.row)][static_cast<size_t>(at.column)]}
                  << (16 * part);
        });
  }
  ++counters.ldmatrix;
}

void store_matrices(const std::vector<ThreadState*>& lanes, Memory& memory,
                    EmulatorCounters& counters) {
  const WarpRequest& first = lanes[0]->request;
  int count = first.variant / 2;
  bool transposed = first.variant % 2 != 0;
  for (int q = 0; q < count; ++q) {
    std::array<std::array<uint16_t, kMatrixRows>, kMatrixRows> matrix;
    each_element(ldmatrix_fragment(transposed), lanes,
                 [&](const WarpRequest& r, int part, MatrixPlace at) {
                   matrix[static_cast<size_t>(at.row)][static_cast<size_t>(at.column)] =
                       static_cast<uint16_t>(r.a[q] >> (16 * part));
                 });
    each_row(lanes, q, "stmatrix writes", counters, [&](ThreadState& lane, size_t row) {
      const WarpRequest& r = lane.request;
      memory.store(lane, *r.array, r.offset, kRowBytes, matrix[row].data(), r.line);
    });
  }
  ++counters.stmatrix;
}

void multiply_matrices(const std::vector<ThreadState*>& lanes, int compute_capability,
                       EmulatorCounters& counters) {
  const WarpRequest& first = lanes[0]->request;
  const bool is_sparse = first.kind == WarpRequest::Kind::SparseMma;
  const Instruction& row = is_sparse
                               ? sparse_mma_rows()[static_cast<size_t>(first.variant / kSelectors)]
                               : mma_rows()[static_cast<size_t>(first.variant)];
  Matrix a = gather_a(row, lanes);
  if (is_sparse) a = spread_by_metadata(row, first.variant % kSelectors, lanes, a);
  Matrices x = gather(row, std::move(a), lanes);
  multiply(row, tensor_sums(row, compute_capability), x);
  scatter(row, x, lanes);
  ++counters.mma;
  counters.mma_operations += int64_t{2} * row.m * row.n * row.kept();
}

}  // namespace tilewright::emulator
