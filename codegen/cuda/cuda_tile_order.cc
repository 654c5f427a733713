#include "codegen/cuda/cuda_tile_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "codegen/lowering.h"
#include "ir/arith/simplify.h"

namespace tilewright {
namespace {

constexpr int kMostLevels = 4;

// Names for parts of an expression, in the order in which they are made.
class Names {
 public:
  Expr operator()(const char* name, const Expr& value) {
    Expr simple = simplify(value);
    if (as_int(simple) || simple.as<VarNode>()) return simple;
    made_.emplace_back(Var(name), simple);
    return made_.back().first;
  }
  Stmt around(Stmt body) const {
    for (size_t i = made_.size(); i-- > 0;) {
      body = make_let(made_[i].first, made_[i].second, body);
    }
    return body;
  }

 private:
  std::vector<std::pair<Var, Expr>> made_;
};

struct Point {
  Expr row, column;
};

Expr bit_of(const Expr& e) { return floormod(e, Expr(2)); }

// Runs forth along one line of `length`, back along the next.
Point forth_and_back(const Expr& at, int64_t length, Names& name) {
  const Expr line = name("line", floordiv(at, Expr(length)));
  const Expr along = name("along", floormod(at, Expr(length)));
  const Expr back = eq(bit_of(line), Expr(1));
  return {select(back, Expr(length - 1) - along, along), line};
}

// The point of a Hilbert curve through a square of 2^levels, from its first column to its last one,
// along the first row's side. A quarter of the square is the same curve mirrored at a diagonal, at
// both, or not at all. Two bits tell what the first digits in base 4 have done to the rest of it.
Point on_curve(const Expr& at, int levels, Names& name) {
  Expr swapped = 0, turned = 0, row = 0, column = 0;
  for (int l = levels; l-- > 0;) {
    const int64_t side = int64_t{1} << l;
    const Expr digit = name("digit", floormod(floordiv(at, Expr(side * side)), Expr(4)));
    // The quarters in their order: (0, 0), (1, 0), (1, 1), (0, 1).
    const Expr gray = bit_of(floordiv(digit + Expr(1), Expr(2)));
    const Expr x = name("x", bit_of(floordiv(digit, Expr(2)) + turned));
    const Expr y = name("y", bit_of(gray + turned));
    const Expr is_swapped = eq(swapped, Expr(1));
    column = name("column", column + select(is_swapped, y, x) * Expr(side));
    row = name("row", row + select(is_swapped, x, y) * Expr(side));
    if (l == 0) break;
    swapped = name("swapped", bit_of(swapped + Expr(1) + gray));
    turned = name("turned", bit_of(turned + floordiv(digit, Expr(3))));
  }
  return {row, column};
}

// The number at the start of the text, which it is taken from; 0 where there is none from 1 on.
int64_t take_number(std::string_view& text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return error == std::errc() ? std::max<int64_t>(number, 0) : 0;
}

bool take(std::string_view& text, std::string_view start) {
  if (!text.starts_with(start)) return false;
  text.remove_prefix(start.size());
  return true;
}

constexpr std::string_view kHilbert = "hilbert ", kLongestLast = "longest_last ", kDone = "done";

// The order of that text; one that says nothing where the text is no order.
TileOrder parse_order(std::string_view text) {
  TileOrder order;
  if (take(text, kHilbert)) {
    order.rows = take_number(text);
    order.columns = take(text, "x") ? take_number(text) : 0;
    if (order.rows == 0 || order.columns == 0 || !text.empty()) return {};
  } else if (take(text, kLongestLast)) {
    order.longest_last = take_number(text);
    if (!text.empty()) return {};
  } else {
    order.is_done = text == kDone;
  }
  return order;
}

}  // namespace

HilbertOrder::HilbertOrder(int64_t rows, int64_t columns) : rows_(rows), columns_(columns) {
  while (levels_ < kMostLevels && int64_t{2} << levels_ <= std::min(rows, columns)) ++levels_;
}

Stmt HilbertOrder::around(const Var& tile, const Expr& turn, int64_t cluster,
                          const Stmt& body) const {
  const int64_t side = int64_t{1} << levels_, bands = rows_ / side, squares = columns_ / side;
  const int64_t low = rows_ % side, whole = bands * side * columns_;
  Names name;
  const Expr unit = name("unit", floordiv(turn, Expr(cluster)));
  const Expr at = name("at", floormod(unit, Expr(rows_ * columns_)));
  const Expr band = name("band", floordiv(at, Expr(side * columns_)));
  const Expr in_band = name("in_band", at - band * Expr(side * columns_));
  const int64_t in_squares = squares * side * side;
  const Expr square = name("square", floordiv(in_band, Expr(side * side)));
  const Point curve =
      on_curve(name("in_square", floormod(in_band, Expr(side * side))), levels_, name);
  Point p = {curve.row, square * Expr(side) + curve.column};
  if (squares * side < columns_) {
    const Point strip = forth_and_back(name("in_strip", in_band - Expr(in_squares)), side, name);
    const Expr is_square = in_band < Expr(in_squares);
    p = {select(is_square, p.row, strip.row),
         select(is_square, p.column, strip.column + Expr(squares * side))};
  }
  if (low > 0) {
    const Point below = forth_and_back(in_band, low, name);
    const Expr is_above = at < Expr(whole);
    p = {select(is_above, p.row, below.row), select(is_above, p.column, below.column)};
  }
  const Expr forth = name("tile_column", p.column);
  const Expr column = select(eq(bit_of(band), Expr(1)), Expr(columns_ - 1) - forth, forth);
  const Expr row = band * Expr(side) + p.row;
  const Expr first = unit - at;  // where this one of several results begins
  const Expr index = name("tile_index", first + row * Expr(columns_) + column);
  const Expr value = index * Expr(cluster) + floormod(turn, Expr(cluster));
  return name.around(make_let(tile, simplify(value), body));
}

Stmt LongestFirst::around(const Var& tile, const Expr& turn, const Expr& all,
                          const Stmt& body) const {
  const Expr sweeps = simplify(floordiv(all, Expr(tiles_)));
  const Expr in_sweep = Expr(tiles_ - 1) - floordiv(turn, sweeps);
  return make_let(tile, simplify(floormod(turn, sweeps) * Expr(tiles_) + in_sweep), body);
}

std::string TileOrder::text() const {
  if (rows > 0) return fmt::format("{}{}x{}", kHilbert, rows, columns);
  return longest_last > 0 ? fmt::format("{}{}", kLongestLast, longest_last) : std::string(kDone);
}

std::optional<TileOrder> tile_order(const ForNode& loop) {
  auto note = loop.annotations.find(kTileOrderKey);
  if (note == loop.annotations.end()) return std::nullopt;
  auto* text = std::get_if<std::string>(&note->second);
  const TileOrder order = text ? parse_order(*text) : TileOrder{};
  const auto all = as_int(loop.extent);
  const bool divides = order.longest_last > 0 && all && *all % order.longest_last == 0;
  if (order.rows > 0 || order.is_done || divides) return order;
  throw LoweringError(fmt::format(
      "'{}' of loop '{}' over blocks is '{}'; it may be 'hilbert 4x8' with any rows x columns, or "
      "'longest_last 8' with any number whose multiple is the loop's extent",
      kTileOrderKey, loop.var.name(), text ? *text : "a number"));
}

}  // namespace tilewright
