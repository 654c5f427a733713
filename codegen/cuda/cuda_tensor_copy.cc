#include "codegen/cuda/cuda_tensor_copy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "codegen/cuda/cuda_bulk_copy.h"
#include "codegen/cuda/instructions/cuda_instruction.h"
#include "codegen/loop_nest.h"
#include "codegen/lowering.h"
#include "ir/compare.h"
#include "ir/predicates.h"
#include "ir/text/printer.h"
#include "ir/visitor.h"
#include "kernel/tensor_map.h"

namespace tilewright {
namespace {

class CopyMatcher {
 public:
  CopyMatcher(const ForNode& loop, Analyzer& known) : loop_(loop), known_(known), scope_(known) {}

  TensorCopy match() {
    take_loops();
    const Expr value = take_conditions(store_->value);
    auto* read = value.as<LoadNode>();
    const bool is_load = read && store_->buffer->scope == Scope::Shared;
    const bool is_store = read && read->buffer->scope == Scope::Shared;
    if (is_load == is_store || read->buffer->elem != store_->buffer->elem) {
      fail("it must copy elements as they are between global and shared memory");
    }
    copy_.is_store = is_store;
    copy_.operand = is_store ? store_->buffer : read->buffer;
    copy_.shared = is_store ? read->buffer : store_->buffer;
    if (copy_.operand->scope != Scope::Global) {
      fail(fmt::format("'{}' does not lie in global memory", copy_.operand->name));
    }
    std::vector<Expr> at = is_store ? store_->indices : read->indices;
    const std::vector<Expr>& start = is_store ? read->indices : store_->indices;
    for (Expr& e : at) e = known_.simplify(e);
    const Stretch bytes = is_load ? bytes_of(*read, start) : Stretch{};
    // A TMA tile of several rows may have to lie swizzled.
    if (is_row(bytes, at)) return in_bytes(bytes, at, start);
    try {
      return in_boxes(at, start);
    } catch (const NoMap& no) {
      if (bytes.elements > 0) return in_bytes(bytes, at, start);
      fail(no.reason + (is_load ? "; nor do bytes lie side by side: " + bytes.problem : ""));
    }
  }

 private:
  // Thrown for a copy that no tensor map describes.
  struct NoMap {
    std::string reason;
  };

  TensorCopy in_boxes(std::vector<Expr> at, const std::vector<Expr>& start) {
    copy_.box.dims = copy_.operand->shape;
    merge_dimensions(at);
    if (const ForNode* row = row_by_digits(at, start)) {
      take_windows(at, *row);
    } else {
      take_box(at);
    }
    take_start(start);
    require_conditions(at);
    require_map();
    return copy_;
  }

  Stretch bytes_of(const LoadNode& read, const std::vector<Expr>& start) {
    const Expr to = load(store_->buffer, start);
    Stretch found = find_stretch(loops_, read, *to.as<LoadNode>(), known_);
    if (conditions_.empty()) return found;
    return {0, {}, {}, "zeros where a condition does not hold are not copied"};
  }

  static bool is_row(const Stretch& bytes, const std::vector<Expr>& at) {
    return bytes.elements > 0 && bytes.repeats.empty() &&
           std::all_of(bytes.along.begin(), bytes.along.end(),
                       [&](const ForNode* loop) { return uses_var(at.back(), loop->var); });
  }

  TensorCopy in_bytes(const Stretch& bytes, const std::vector<Expr>& at,
                      const std::vector<Expr>& start) {
    along_ = bytes.along;
    TensorCopy copy;
    copy.operand = copy_.operand;
    copy.shared = copy_.shared;
    copy.stretch = bytes.elements;
    copy.repeats = bytes.repeats;
    for (const Expr& e : at) copy.box.at.push_back(first_of(e));
    for (const Expr& e : start) copy.start.push_back(first_of(e));
    return copy;
  }

  [[noreturn]] void fail(const std::string& reason) const {
    throw LoweringError(
        fmt::format("loop '{}' is to be a tensor copy, which no tensor map describes: {}",
                    loop_.var.name(), reason));
  }

  void take_loops() {
    auto [loops, at] = loop_nest(loop_);
    for (const ForNode* loop : loops) {
      if (!as_int(loop->extent)) {
        fail(fmt::format("loop '{}' has no constant extent", loop->var.name()));
      }
      known_.bind(loop->var, loop->min, loop->extent);
    }
    loops_ = std::move(loops);
    while (auto* branch = at.as<IfNode>()) {
      if (branch->else_case.defined()) break;
      take_conjuncts(branch->cond);
      at = branch->then_case;
    }
    store_ = at.as<StoreNode>();
    if (!store_ || store_->predicate.defined()) fail("it must be loops around one store");
  }

  // The value without the selects that are zero where conditions fail; collects these conditions.
  Expr take_conditions(const Expr& value) {
    auto* n = value.as<SelectNode>();
    if (!n || !is_zero(n->on_false)) return value;
    take_conjuncts(n->cond);
    return take_conditions(n->on_true);
  }

  void take_conjuncts(const Expr& cond) {
    for (const Expr& e : conjuncts(cond)) conditions_.push_back(e);
  }

  // The loop whose digits the index counts.
  const ForNode* loop_by_digits(const Expr& index) const {
    for (const ForNode* loop : loops_) {
      if (runs_by_digits(index, loop->var)) return loop;
    }
    return nullptr;
  }

  // The loop whose digits some index counts. Where there are several, it is the one over rows: the
  // numbers of spans may have digits, too.
  const ForNode* row_by_digits(const std::vector<Expr>& at, const std::vector<Expr>& start) const {
    const ForNode* found = nullptr;
    for (const ForNode* loop : loops_) {
      const bool counts = std::any_of(at.begin(), at.end(), [&](const Expr& index) {
        return runs_by_digits(index, loop->var);
      });
      const bool is_row = start.size() > 1 && uses_var(start[start.size() - 2], loop->var);
      if (counts && (is_row || !found)) found = loop;
    }
    return found;
  }

  // Merges neighbouring dimensions, which lie dense in memory. Where their indices are the digits
  // of one number, that number is the index of one dimension.
  void merge_dimensions(std::vector<Expr>& at) {
    for (size_t last = at.size(); last-- > 1;) {
      if (!loop_by_digits(at[last])) continue;
      Expr one = at[last], elements = 1;
      for (size_t first = last; first > 0 && is_within(at[first], copy_.box.dims[first]);) {
        elements = elements * copy_.box.dims[first--];
        one = known_.simplify(at[first] * elements + one);
        const auto begin = at.begin() + static_cast<std::ptrdiff_t>(first),
                   end = at.begin() + static_cast<std::ptrdiff_t>(last) + 1;
        if (loop_by_digits(one)) continue;
        const auto dims = copy_.box.dims.begin() + static_cast<std::ptrdiff_t>(first);
        *begin = one;
        *dims = known_.simplify(*dims * elements);
        copy_.box.dims.erase(dims + 1, dims + 1 + (end - begin - 1));
        at.erase(begin + 1, end);
        last = first;
        break;
      }
    }
  }

  bool is_within(const Expr& index, const Expr& extent) {
    const Interval range = known_.bounds(index);
    auto most = as_int(extent);
    return most && range.min >= 0 && range.max < *most;
  }

  [[noreturn]] static void no_map(std::string reason) { throw NoMap{std::move(reason)}; }

  // The growth of an index per iteration of a loop.
  int64_t step_of(const Expr& index, const ForNode* loop) {
    const auto step = step_along(index, *loop, known_);
    if (!step) {
      no_map(fmt::format("'{}' does not run in equal steps along '{}'", copy_.operand->name,
                         loop->var.name()));
    }
    return *step;
  }

  // Finds which loop runs along which dimension.
  void take_box(const std::vector<Expr>& at) {
    along_.assign(at.size(), nullptr);
    for (const ForNode* loop : loops_) {
      std::vector<size_t> moved;
      bool is_unit = true;
      for (size_t d = 0; d < at.size(); ++d) {
        const int64_t step = step_of(at[d], loop);
        if (step == 0) continue;
        moved.push_back(d);
        is_unit &= step == 1;
      }
      if (moved.size() == 1 && is_unit && !along_[moved[0]]) {
        along_[moved[0]] = loop;
      } else {
        copy_.repeats.push_back(loop);
      }
    }
    for (size_t d = 0; d < at.size(); ++d) {
      copy_.box.box.push_back(along_[d] ? *as_int(along_[d]->extent) : 1);
      copy_.box.at.push_back(first_of(at[d]));
    }
  }

  // The number of pixels, where zeros stand behind them.
  std::optional<int64_t> pixels_of(const ForNode& row) {
    for (const Expr& cond : conditions_) {
      auto* n = cond.as<BinaryNode>();
      if (!n || n->op != BinaryOp::LT) continue;
      if (auto count = as_int(known_.simplify(row.var - n->a + n->b))) return count;
    }
    return std::nullopt;
  }

  // Takes an im2col copy: a pixel has the place of the width, and one loop runs along its channels.
  void take_windows(const std::vector<Expr>& at, const ForNode& row) {
    constexpr size_t kLeastRank = 3;
    if (copy_.is_store) fail("windows are not stored");
    if (at.size() < kLeastRank) {
      fail(fmt::format("'{}' runs in digits along '{}', but is no stack of images with channels",
                       copy_.operand->name, row.var.name()));
    }
    pixels_ = pixels_of(row);
    row_ = &row;
    const std::vector<Expr> images(at.begin(), at.end() - 1);
    copy_.walk = pixel_walk(images, copy_.box.dims, row, pixels_, known_,
                            [&](const std::string& reason) { fail(reason); });
    along_.assign(at.size(), nullptr);
    along_[at.size() - 2] = &row;
    for (const ForNode* loop : loops_) {
      if (loop == &row) continue;
      // The others run over spans of channels, or elements of the filter.
      bool is_channel = uses_var(at.back(), loop->var) && !along_.back() &&
                        !uses_var(known_.simplify(at.back() - loop->var), loop->var);
      for (const Expr& index : images) is_channel &= !uses_var(index, loop->var);
      if (is_channel) {
        along_.back() = loop;
      } else {
        copy_.repeats.push_back(loop);
      }
    }
    if (uses_var(at.back(), row.var)) {
      fail(fmt::format("the channels of '{}' depend on the pixel", copy_.operand->name));
    }
    take_pixels(at);
  }

  void take_pixels(const std::vector<Expr>& at) {
    TensorBox& box = copy_.box;
    box.at = copy_.walk->place(0);
    box.at.push_back(first_of(at.back()));
    box.box.assign(at.size(), 1);
    box.box[at.size() - 2] = *as_int(row_->extent);
    if (along_.back()) box.box.back() = *as_int(along_.back()->extent);
    BoxPixels& pixels = box.pixels.emplace();
    pixels.offsets = copy_.walk->offsets;
    for (size_t x = 0; x < copy_.walk->digits.size(); ++x) {
      const PixelDigit& d = copy_.walk->digits[x];
      auto extent = as_int(box.dims[x + 1]);
      if (!extent) fail(fmt::format("images of '{}' have dynamic sizes", copy_.operand->name));
      pixels.lower.push_back(d.lower);
      pixels.upper.push_back(d.lower + d.step * (d.extent - 1) - (*extent - 1));
      pixels.steps.push_back(d.step);
    }
  }

  // The index at the first iteration of the loops along dimensions.
  Expr first_of(const Expr& index) {
    VarMap first;
    for (const ForNode* loop : along_) {
      if (loop) first[loop->var.get()] = loop->min;
    }
    return known_.simplify(substitute(index, first));
  }

  // Requires a box to fill shared memory in the order of the operand's dimensions.
  void take_start(const std::vector<Expr>& start) {
    int64_t dense = 1;
    for (size_t d = along_.size(); d-- > 0;) {
      if (!along_[d]) continue;
      if (step_of(flat_index(copy_.shared, start), along_[d]) != dense) {
        no_map(
            fmt::format("in '{}' a box must lie dense and in the order of the dimensions of '{}', "
                        "as it does not along '{}'",
                        copy_.shared->name, copy_.operand->name, along_[d]->var.name()));
      }
      dense *= copy_.box.box[d];
    }
    take_places(start);
    for (const Expr& e : start) copy_.start.push_back(first_of(e));
  }

  void take_places(const std::vector<Expr>& start) {
    copy_.places.assign(along_.size(), -1);
    for (size_t d = 0; d < along_.size(); ++d) {
      std::vector<size_t> moved;
      for (size_t x = 0; along_[d] && x < start.size(); ++x) {
        if (uses_var(start[x], along_[d]->var)) moved.push_back(x);
      }
      if (moved.size() == 1 && step_of(start[moved[0]], along_[d]) == 1) {
        copy_.places[d] = static_cast<int>(moved[0]);
      }
    }
  }

  // Whether the condition says that an index is within its dimension.
  bool is_bound(const Expr& cond, const Expr& index, const Expr& extent) {
    auto* n = cond.as<BinaryNode>();
    if (!n) return false;
    auto is_same = [&](const Expr& distance) {
      return is_int(known_.simplify(n->a - n->b - distance), 0);
    };
    const Expr known = known_.simplify(cond);
    if (n->op == BinaryOp::LT && is_same(index - extent)) return true;
    if (n->op == BinaryOp::GE && is_same(index)) return true;
    return equal(known_.simplify(index < extent), known) ||
           equal(known_.simplify(index >= Expr(0)), known);
  }

  // Each condition must say that an index is within its dimension, or that there is such a pixel.
  void require_conditions(const std::vector<Expr>& at) {
    for (const Expr& cond : conditions_) {
      bool is_known = pixels_ && is_bound(cond, row_->var, Expr(*pixels_));
      for (size_t d = 0; d < at.size(); ++d) is_known |= is_bound(cond, at[d], copy_.box.dims[d]);
      is_known = is_known || takes_all_or_none(cond);
      if (!is_known) {
        no_map(fmt::format("it depends on '{}', which is no bound of '{}'", to_string(cond),
                           copy_.operand->name));
      }
    }
  }

  // Whether the condition of an im2col copy is the same for all that the copy brings. It says that
  // these k indices are those of some element of the filter, as not all of a last tile are. Where
  // it fails, the copy reads from an image behind the last one: zeros.
  bool takes_all_or_none(const Expr& cond) {
    if (!row_ || uses_var(cond, row_->var)) return false;
    if (along_.back() && uses_var(cond, along_.back()->var)) return false;
    copy_.walk->image = copy_.walk->image + select(cond, Expr(0), copy_.box.dims[0]);
    copy_.box.at[0] = copy_.walk->place(0)[0];
    return true;
  }

  // Finds what the driver would refuse, whatever the dynamic dimensions.
  void require_map() {
    TensorMapValues map;
    map.elem = copy_.operand->elem;
    map.rank = static_cast<int>(copy_.box.dims.size());
    if (map.rank > kMaxTensorRank) {
      no_map(fmt::format("'{}' has {} dimensions; there may be {}", copy_.operand->name, map.rank,
                         kMaxTensorRank));
    }
    int64_t stride = map.element_bytes();
    constexpr int64_t kStrideBytes = 16;  // all strides are multiples of this
    for (size_t d = 0; d < copy_.box.dims.size(); ++d) {
      const size_t from = copy_.box.dims.size() - 1 - d;  // innermost first
      map.dims[d] = known_.bounds(copy_.box.dims[from]).max;
      map.box[d] = copy_.box.box[from];
      map.strides[d] = stride;
      // A multiple stays one, however often a launch takes it.
      const bool is_known = as_int(copy_.box.dims[from]) || stride % kStrideBytes == 0;
      if (!is_known && from > 0) {
        no_map(fmt::format("rows of '{}' have a dynamic length", copy_.operand->name));
      }
      stride *= map.dims[d];
    }
    if (copy_.box.pixels) require_pixels(map);
    const std::string problem = tensor_map_problem(map, 0);
    if (!problem.empty()) no_map(fmt::format("of '{}' {}", copy_.operand->name, problem));
  }

  // Besides, im2col offsets are numbers of few bits.
  void require_pixels(TensorMapValues& map) {
    const BoxPixels& pixels = *copy_.box.pixels;
    PixelBox& to = map.pixels.emplace();
    std::copy(pixels.lower.rbegin(), pixels.lower.rend(), to.lower.begin());
    std::copy(pixels.upper.rbegin(), pixels.upper.rend(), to.upper.begin());
    std::copy(pixels.steps.rbegin(), pixels.steps.rend(), to.steps.begin());
    for (const Expr& offset : pixels.offsets) {
      const Interval range = known_.bounds(offset);
      if (range.min >= 0 && range.max <= most_pixel_offset(map)) continue;
      fail(fmt::format("an offset in '{}' is not known to be 0 to {}", copy_.operand->name,
                       most_pixel_offset(map)));
    }
  }

  const ForNode& loop_;
  Analyzer& known_;
  KnowledgeScope scope_;
  std::vector<const ForNode*> loops_;
  const StoreNode* store_ = nullptr;
  std::vector<Expr> conditions_;
  std::vector<const ForNode*> along_;  // for boxes: one per dimension of the operand
  const ForNode* row_ = nullptr;       // for im2col: the loop over pixels
  std::optional<int64_t> pixels_;      // and their number
  TensorCopy copy_;
};

}  // namespace

bool is_tensor_copy(const ForNode& loop) { return is_marked(loop, kTma); }

int64_t TensorCopy::bytes_each() const {
  return bytes_for(operand->elem, stretch > 0 ? stretch : box.elements());
}

int64_t TensorCopy::bytes() const {
  int64_t copies = 1;
  for (const ForNode* loop : repeats) copies *= *as_int(loop->extent);
  return bytes_each() * copies;
}

Stmt TensorCopy::repeated(Stmt copy) const {
  for (size_t i = repeats.size(); i-- > 0;) {
    copy = make_for(repeats[i]->var, repeats[i]->min, repeats[i]->extent, ForKind::Unrolled, copy);
  }
  return copy;
}

TensorCopy TensorCopy::part(const Expr& rank, int64_t parts) const {
  constexpr int64_t kPatternBytes = 1024;  // after which the widest swizzle repeats
  const auto outermost =
      std::find_if(box.box.begin(), box.box.end(), [](int64_t n) { return n > 1; });
  const auto d = static_cast<size_t>(outermost - box.box.begin());
  const bool is_cut = outermost != box.box.end() && *outermost % parts == 0 && places[d] >= 0 &&
                      bytes_for(operand->elem, box.elements() / parts) % kPatternBytes == 0;
  if (!is_cut) {
    throw LoweringError(fmt::format(
        "boxes of '{}' of {} elements are to be copied by {} blocks, a part each; parts must be "
        "multiples of {} bytes along one dimension",
        operand->name, fmt::join(box.box, " x "), parts, kPatternBytes));
  }
  TensorCopy result = *this;
  const Expr shift = rank * Expr(*outermost / parts);
  const auto place = static_cast<size_t>(places[d]);
  result.box.box[d] /= parts;
  if (walk) {
    const std::vector<Expr> place = walk->place(shift);
    std::copy(place.begin(), place.end(), result.box.at.begin());
  } else {
    result.box.at[d] = simplify(box.at[d] + shift);
  }
  result.start[place] = simplify(start[place] + shift);
  return result;
}

TensorCopy match_tensor_copy(const ForNode& loop, Analyzer& known) {
  return CopyMatcher(loop, known).match();
}

}  // namespace tilewright
