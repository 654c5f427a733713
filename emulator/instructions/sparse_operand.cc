#include "emulator/instructions/sparse_operand.h"

#include <fmt/format.h>

#include <optional>

namespace tilewright::emulator {
namespace {

// Where each kept element of A stood among its neighbours, by the words of the lanes that the
// selector names.
Matrix gather_places(const Instruction& row, int selector, const std::vector<ThreadState*>& lanes) {
  Matrix places(row.m, row.kept());
  const uint32_t mask = (1u << row.index_bits) - 1;
  const Fragment& metadata = row.metadata();
  const int begin = selector * row.kept();
  for (int lane = 0; lane < row.lanes; ++lane) {
    const WarpRequest& r = lanes[static_cast<size_t>(lane)]->request;
    const auto word = static_cast<uint32_t>(r.value);
    for (int i = 0; i < row.indices_in_word(); ++i) {
      const MatrixPlace in_warp = metadata.at(lane % kWarp, i);
      const MatrixPlace at = {in_warp.row + lane / kWarp * metadata.rows(), in_warp.column - begin};
      if (at.column < 0 || at.column >= row.kept()) continue;
      const uint32_t bits = word >> (i * row.index_bits) & mask;
      std::optional<int> place = row.place_of_index(bits);
      if (!place) {
        fail(FaultKind::BadMetadata, r.line,
             fmt::format("lane {} gives {:#x} as the sparse metadata of element [{}, {}] of A",
                         lane, bits, at.row, at.column));
      }
      places.at(at) = *place;
    }
  }
  return places;
}

// A with all its terms.
Matrix spread(const Instruction& row, Matrix& stored, Matrix& places, int line) {
  Matrix a(row.m, row.k);
  for (int i = 0; i < row.m; ++i) {
    for (int r = 0; r < row.kept(); ++r) {
      const auto place = static_cast<int>(places.at({i, r}));
      if (r % row.keep > 0 && places.at({i, r - 1}) >= place) {
        fail(FaultKind::BadMetadata, line,
             fmt::format("the elements [{0}, {1}] and [{0}, {2}] of A stand at {3} and {4} of {5}; "
                         "they must ascend",
                         i, r - 1, r, places.at({i, r - 1}), place, row.of));
      }
      a.at({i, r / row.keep * row.of + place}) = stored.at({i, r});
    }
  }
  return a;
}

}  // namespace

Matrix spread_by_metadata(const Instruction& row, int selector,
                          const std::vector<ThreadState*>& lanes, Matrix& stored) {
  Matrix places = gather_places(row, selector, lanes);
  return spread(row, stored, places, lanes[0]->request.line);
}

}  // namespace tilewright::emulator
