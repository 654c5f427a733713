#include "codegen/cuda/cuda_async_op.h"

#include <utility>

#include "base/error.h"
#include "codegen/lowering.h"

namespace tilewright {
namespace {

// The operand of a tensor map is named by its first element.
Expr name_of_operand(const Buffer& operand) {
  return load(operand, std::vector<Expr>(operand->shape.size(), Expr(0)));
}

// Appends the tile: first elements, extents and box per dimension. Those of im2col follow per
// dimension of an image: offsets, lower and upper ends, and steps.
void append(std::vector<Expr>& args, const TensorBox& box) {
  args.insert(args.end(), box.at.begin(), box.at.end());
  args.insert(args.end(), box.dims.begin(), box.dims.end());
  for (int64_t extent : box.box) args.emplace_back(extent);
  if (!box.pixels) return;
  const BoxPixels& pixels = *box.pixels;
  args.insert(args.end(), pixels.offsets.begin(), pixels.offsets.end());
  for (const auto* numbers : {&pixels.lower, &pixels.upper, &pixels.steps}) {
    for (int64_t n : *numbers) args.emplace_back(n);
  }
}

int64_t constant_of_copy(const Expr& e) {
  if (const auto value = as_int(e)) return *value;
  throw LoweringError("a copy by TMA has tiles and blocks of constant numbers");
}

// Takes apart what append() has put behind the operands of a row.
class TileReader {
 public:
  explicit TileReader(const CallNode& call)
      : at_(call.args.begin() + static_cast<std::ptrdiff_t>(row_of(call.op).count())),
        end_(call.args.end()) {}

  TensorBox read(bool has_pixels) {
    constexpr std::ptrdiff_t kPerDimension = 3, kPerPixel = 4;
    // The number and the channels of an image have no pixels.
    const auto rank = has_pixels ? (end_ - at_ + 2 * kPerPixel) / (kPerDimension + kPerPixel)
                                 : (end_ - at_) / kPerDimension;
    if (has_pixels && rank < 2) {
      throw LoweringError("a load of an image by TMA has two dimensions or more");
    }
    TensorBox box{exprs(rank), exprs(rank), numbers(rank)};
    if (!has_pixels) return box;
    const auto image = rank - 2;
    box.pixels = BoxPixels{exprs(image), numbers(image), numbers(image), numbers(image)};
    return box;
  }

 private:
  std::vector<Expr> exprs(std::ptrdiff_t count) {
    const auto first = at_;
    at_ += count;
    return {first, at_};
  }
  std::vector<int64_t> numbers(std::ptrdiff_t count) {
    std::vector<int64_t> list;
    for (const Expr& e : exprs(count)) list.push_back(constant_of_copy(e));
    return list;
  }

  std::vector<Expr>::const_iterator at_, end_;
};

}  // namespace

int64_t TensorBox::elements() const {
  int64_t count = 1;
  for (int64_t extent : box) count *= extent;
  return count;
}

std::optional<TensorTransfer> tensor_transfer(const Expr& e) {
  auto* c = e.as<CallNode>();
  if (!c) return std::nullopt;
  const bool is_im2col = c->op == CallOp::TensorLoadIm2col;
  TensorTransfer copy;
  copy.is_store = c->op == CallOp::TensorStore;
  if (c->op != CallOp::TensorLoad && !is_im2col && !copy.is_store) return std::nullopt;
  copy.shared = operand_of(*c, copy.is_store ? "from" : "to");
  copy.operand = operand_of(*c, "operand").as<LoadNode>()->buffer;
  copy.box = TileReader(*c).read(is_im2col);
  if (copy.is_store) return copy;
  copy.mbarrier = operand_of(*c, "mbarrier");
  copy.blocks = constant_of_copy(operand_of(*c, "blocks"));
  return copy;
}

Stmt call_statement(CallOp op, std::vector<Expr> args) {
  TW_ASSERT(row_of(op).is_statement, "a call with a value is no statement");
  return make_evaluate(call(ElemType::boolean, op, std::move(args)));
}

Stmt arrive(const Expr& mbarrier, int64_t bytes) {
  if (bytes == 0) return call_statement(CallOp::MbarrierArrive, {mbarrier});
  return call_statement(CallOp::MbarrierArriveExpect, {mbarrier, Expr(bytes)});
}

Stmt load_box(const Expr& to, const Buffer& operand, const Expr& mbarrier, const TensorBox& box,
              int64_t blocks) {
  std::vector<Expr> args = {to, name_of_operand(operand), mbarrier, Expr(blocks)};
  append(args, box);
  return call_statement(box.pixels ? CallOp::TensorLoadIm2col : CallOp::TensorLoad,
                        std::move(args));
}

Stmt store_box(const Expr& from, const Buffer& operand, const TensorBox& box) {
  std::vector<Expr> args = {from, name_of_operand(operand)};
  append(args, box);
  return call_statement(CallOp::TensorStore, std::move(args));
}

}  // namespace tilewright
