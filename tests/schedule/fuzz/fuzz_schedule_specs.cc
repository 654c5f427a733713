#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

#include "tests/schedule/fuzz/fuzz_schedule.h"

namespace tilewright::test {
namespace {

// With this probability, the option "key=value" after a comma.
std::string maybe(Draw& draw, int percent, const std::string& option) {
  return draw.chance(percent) ? "," + option : "";
}

RandomSpec random_matmul(Draw& draw) {
  RandomSpec spec;
  bool dynamic = draw.chance(20);
  int64_t m = draw.between(1, 12);
  std::string rows = dynamic ? "1..16" : std::to_string(m);
  spec.text = fmt::format("matmul:m={},n={},k={}", rows, draw.between(1, 12), draw.between(1, 12));
  if (dynamic) spec.dims["m"] = m;
  spec.text += maybe(draw, 20, fmt::format("batch={}", draw.between(2, 3)));
  spec.text += maybe(draw, 25, "trans_a=true") + maybe(draw, 25, "trans_b=true");
  spec.text += maybe(draw, 10, "dtype=i8") + maybe(draw, 10, "dtype=bf16");
  if (spec.text.find("dtype=i8,dtype") != std::string::npos)
    spec.text.resize(spec.text.size() - 11);
  static const std::vector<std::string> kEpilogues = {"[bias]", "[bias,relu]", "[relu]", "[add]",
                                                      "[bias,add,relu]"};
  bool floats = spec.text.find("i8") == std::string::npos;
  if (floats && draw.chance(40)) spec.text += ",epilogue=" + draw.of(kEpilogues);
  return spec;
}

RandomSpec random_conv(Draw& draw) {
  RandomSpec spec;
  int64_t kind = draw.below(5), side = draw.between(3, 6), kernel = draw.between(1, 3);
  int64_t ci = draw.between(1, 4), co = draw.between(1, 4);
  const bool dynamic = draw.chance(25);  // the batch is dynamic
  auto batch = [&](int64_t n) { return dynamic ? "1..3" : std::to_string(n); };
  if (dynamic) spec.dims["n"] = draw.between(1, 3);
  switch (kind) {
    case 0:
      spec.text =
          fmt::format("conv1d:n={},l={},ci={},co={},kernel={}", batch(2), side + 3, ci, co, kernel);
      break;
    case 1:
      spec.text = fmt::format("conv2d:n={},h={},w={},ci={},co={},kernel={}", batch(1), side, side,
                              ci, co, kernel);
      break;
    case 2:
      spec.text = fmt::format("depthwise_conv2d:n={},h={},w={},c={},kernel={}", batch(1), side,
                              side + 1, co + 2, kernel);
      break;
    case 3:
      spec.text = fmt::format("conv2d_transpose:n={},h={},w=3,ci={},co={},kernel={}", batch(1),
                              side - 1, ci, co, kernel);
      break;
    default:
      spec.text =
          fmt::format("capsule_conv2d:n={},h=3,w=3,ci={},co=2,kernel=2,capsule=2", batch(1), ci);
  }
  spec.text += maybe(draw, 30, "stride=2");
  if (kernel > 1 || kind == 4) spec.text += maybe(draw, 50, "pad=1");
  if (kind == 1) spec.text += maybe(draw, 20, "layout=nchw");
  if (kind == 1 || kind == 2) spec.text += maybe(draw, 25, "epilogue=[bias,relu]");
  return spec;
}

RandomSpec random_rowwise(Draw& draw) {
  RandomSpec spec;
  int64_t m = draw.between(1, 6), n = draw.between(1, 20);
  const bool dynamic = draw.chance(25);
  const int64_t kind = draw.below(5);
  std::string rows = std::to_string(m);
  if (dynamic && kind < 3) {
    rows = "1..6";
    spec.dims["m"] = m;
  }
  switch (kind) {
    case 0:
      spec.text = fmt::format("softmax:m={},n={}", rows, n);
      spec.exact = false;
      return spec;
    case 1:
      spec.text = fmt::format("layer_norm:m={},n={}", rows, n);
      spec.exact = false;
      return spec;
    case 2: spec.text = fmt::format("rms_norm:m={},n={}", rows, n); return spec;
    case 3: spec.text = fmt::format("norm:b={},m={},n={}", m, draw.between(1, 5), n); return spec;
    default: break;
  }
  static const std::vector<std::string> kKinds = {"sum", "max", "min", "mean"};
  static const std::vector<std::string> kAxes = {"[0]", "[1]", "[2]", "[0,2]", "[1,2]"};
  spec.text = fmt::format("reduce:shape=[{},{},{}],axes={},kind={}", m, draw.between(1, 5), n,
                          draw.of(kAxes), draw.of(kKinds));
  return spec;
}

RandomSpec random_pointwise(Draw& draw) {
  RandomSpec spec;
  int64_t m = draw.between(1, 9), n = draw.between(1, 20);
  static const std::vector<std::string> kFunctions = {"relu", "add", "mul", "abs"};
  if (draw.chance(50)) {
    spec.text = fmt::format("elementwise:shape=[{},{}],fn={}", m, n, draw.of(kFunctions));
  } else {
    spec.text = fmt::format("gather:rows={},cols={},index={}", m, n, draw.between(1, 9));
  }
  return spec;
}

// Chains of statements over the indices i, j and k. Each reads the one before and another tensor:
// transposed, on a diagonal, at a constant, or several elements at once.
class ExprDraw {
 public:
  explicit ExprDraw(Draw& draw) : draw_(draw) {
    int64_t common = draw.between(2, 7);
    for (const char* index : {"i", "j", "k"}) {
      extents_[index] = draw.chance(50) ? common : draw.between(2, 7);
    }
  }

  RandomSpec spec() {
    tensors_ = {{"A", {"i", "k"}}, {"B", {"k", "j"}}, {"D", {"j"}}};
    std::string text;
    for (int64_t s = 0, count = draw_.between(2, 4); s < count; ++s) {
      text += (s > 0 ? "; " : "") + statement(fmt::format("T{}", s));
    }
    std::string dims;
    for (const auto& [name, extent] : extents_) {
      if (!used_.count(name)) continue;
      dims += fmt::format("{}\"{}\": {}", dims.empty() ? "" : ", ", name, extent);
    }
    RandomSpec spec;
    spec.text = fmt::format(R"({{"op": "expr", "expr": "{}", "dims": {{{}}}}})", text, dims);
    return spec;
  }

 private:
  struct Tensor {
    std::string name;
    std::vector<std::string> indices;
  };

  std::string statement(const std::string& target) {
    std::vector<std::string> left = {"i", "j", "k"};
    std::swap(left[0], left[static_cast<size_t>(draw_.below(3))]);
    std::string reduced = left[2];
    left.resize(static_cast<size_t>(draw_.between(1, 2)));
    std::vector<std::string> names = left;
    bool reduces = draw_.chance(60);
    if (reduces) names.push_back(reduced);
    right_.clear();
    std::string a = read(tensors_.size() > 3 ? tensors_.back() : tensors_[0], names);
    // Only an input is a factor, so that values stay small enough to be exact.
    bool product = draw_.chance(30);
    std::string b = read(tensors_[static_cast<size_t>(
                             draw_.below(product ? 3 : static_cast<int64_t>(tensors_.size())))],
                         names);
    static const std::vector<std::string> kForms = {"{} + {}", "{} - {}", "max({}, {})"};
    std::string value =
        fmt::format(fmt::runtime(product ? std::string("{} * {}") : draw_.of(kForms)), a, b);
    used_.insert(left.begin(), left.end());
    used_.insert(right_.begin(), right_.end());
    tensors_.push_back({target, left});
    std::string indices = fmt::format("{}", fmt::join(left, ","));
    bool sums = right_.count(reduced) > 0;
    const char* assignment = !sums ? "=" : draw_.chance(70) ? "+=" : "max=";
    return fmt::format("{}[{}] {} {}", target, indices, assignment, value);
  }

  // The tensor, read at indices of matching extents among `names`.
  std::string read(const Tensor& tensor, const std::vector<std::string>& names) {
    std::vector<std::string> at;
    for (const std::string& own : tensor.indices) {
      std::vector<std::string> fitting;
      for (const std::string& name : names) {
        if (extents_.at(name) == extents_.at(own)) fitting.push_back(name);
      }
      if (fitting.empty() || draw_.chance(5)) {
        at.push_back("0");
        continue;
      }
      at.push_back(draw_.of(fitting));
      right_.insert(at.back());
      if (draw_.chance(10)) at.back() += "//2";
    }
    return fmt::format("{}[{}]", tensor.name, fmt::join(at, ","));
  }

  Draw& draw_;
  std::map<std::string, int64_t> extents_;
  std::vector<Tensor> tensors_;
  std::set<std::string> used_, right_;
};

}  // namespace

RandomSpec random_spec(Draw& draw) {
  int64_t kind = draw.below(100);
  if (kind < 35) return random_matmul(draw);
  if (kind < 55) return random_conv(draw);
  if (kind < 75) return random_rowwise(draw);
  if (kind < 92) return ExprDraw(draw).spec();
  return random_pointwise(draw);
}

}  // namespace tilewright::test
