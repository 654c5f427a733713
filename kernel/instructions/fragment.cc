#include "kernel/instructions/fragment.h"

#include <map>
#include <mutex>
#include <utility>

namespace tilewright {

Fragment::Fragment(int rows, int columns, IndexMap place)
    : rows_(rows), columns_(columns), place_(std::move(place)) {
  const IndexMap inverse = place_.inverse({rows, columns});
  auto places = [&](size_t input, const Expr& count) {
    std::vector<MatrixPlace> result;
    for (int64_t i = 0; i < as_int(count).value(); ++i) {
      const std::vector<int64_t> at =
          inverse.at(input == 0 ? std::vector{i, int64_t{0}} : std::vector{int64_t{0}, i});
      result.push_back({static_cast<int>(at[0]), static_cast<int>(at[1])});
    }
    return result;
  };
  const std::vector<Expr> image = place_.image({rows, columns});
  of_lane_ = places(0, image[0]);
  of_element_ = places(1, image[1]);
}

IndexMap Fragment::tiles() const { return tilewright::repeat(place_, {rows_, columns_}); }

IndexMap Fragment::packed(int64_t rows, int64_t columns, const IndexMap& order) const {
  const IndexMap position = IndexMap::make(4, [&](const std::vector<Var>& x) {
    const Expr fragment = x[0] * (columns / columns_) + x[1];
    return std::vector<Expr>{(fragment * lanes() + x[2]) * elements() + order.apply({x[3]})[0]};
  });
  return tilewright::repeat(compose(position, tiles()), {rows, columns});
}

Fragment Fragment::transposed() const {
  return {columns_, rows_, {{place_.inputs[1], place_.inputs[0]}, place_.outputs}};
}

Fragment core_matrix(int unit) {
  return {
      kCoreRows, kCoreLanes * unit, IndexMap::make(2, [&](const std::vector<Var>& x) {
        return std::vector<Expr>{x[0] * kCoreLanes + floordiv(x[1], unit), floormod(x[1], unit)};
      })};
}

Fragment repeat(const Fragment& f, int along_rows, int along_columns) {
  const IndexMap numbers = IndexMap::make(4, [&](const std::vector<Var>& x) {
    return std::vector<Expr>{x[2], (x[1] * along_rows + x[0]) * f.elements() + x[3]};
  });
  return {f.rows() * along_rows, f.columns() * along_columns, compose(numbers, f.tiles())};
}

Fragment over_warps(const Fragment& f, int warps) {
  const IndexMap lanes = IndexMap::make(4, [&](const std::vector<Var>& x) {
    return std::vector<Expr>{x[0] * f.lanes() + x[2], x[3]};
  });
  return {f.rows() * warps, f.columns(), compose(lanes, f.tiles())};
}

IndexMap on_dimensions(const IndexMap& map, int rank, int row, int column) {
  return IndexMap::make(rank, [&](const std::vector<Var>& x) {
    std::vector<Expr> out(x.begin(), x.end() - 2);
    for (const Expr& e : map.apply({x[static_cast<size_t>(row)], x[static_cast<size_t>(column)]})) {
      out.push_back(e);
    }
    return out;
  });
}

const Fragment& fragment_of(const FragmentShape& shape) {
  static std::mutex mutex;
  static std::map<FragmentShape, Fragment> made;
  const std::scoped_lock lock(mutex);
  auto it = made.find(shape);
  if (it != made.end()) return it->second;
  const Fragment core = core_matrix(shape.unit);
  Fragment whole =
      repeat(core, shape.rows / shape.warps / core.rows(), shape.columns / core.columns());
  if (shape.warps > 1) whole = over_warps(whole, shape.warps);
  if (shape.transposed) whole = whole.transposed();
  return made.emplace(shape, std::move(whole)).first->second;
}

const Fragment& ldmatrix_fragment(bool transposed) {
  constexpr int kHalves = 2;  // elements of 16 bits in a register
  return fragment_of({kCoreRows, kCoreLanes * kHalves, kHalves, 1, transposed});
}

}  // namespace tilewright
