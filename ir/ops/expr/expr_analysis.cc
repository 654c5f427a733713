#include "ir/ops/expr/expr_analysis.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ir/ops/expr/expr_bounds.h"
#include "ir/ops/operator.h"
#include "ir/ops/source.h"

namespace tilewright::ops {
namespace {

constexpr size_t kMaxStatements = 64;
constexpr size_t kMaxRank = 8;

class ExprAnalyzer {
 public:
  explicit ExprAnalyzer(const Spec& spec) : spec_(spec), bounds_(result_.dims) {}

  ExprAnalysis run() {
    for (const auto& [key, value] : spec_.params) {
      if (key.rfind("dims.", 0) == 0) result_.dims[key.substr(5)] = std::get<DimSize>(value);
    }
    result_.statements = parse_statements(spec_.get<std::string>("expr"));
    if (result_.statements.size() > kMaxStatements) {
      throw KeyError("expr", fmt::format("at most {} statements, got {}", kMaxStatements,
                                         result_.statements.size()));
    }
    for (const Statement& s : result_.statements) targets_.insert(s.target);
    for (size_t i = 0; i < result_.statements.size(); ++i) statement(static_cast<int>(i));
    check_use();
    return std::move(result_);
  }

 private:
  void statement(int number);
  void target(const Statement& s);
  void visit(const Syntax& s, bool as_index);
  void visit_read(const Syntax& s, bool as_index);
  void visit_index_name(const Syntax& s);
  void check_index(const Syntax& index);
  void infer(TensorInfo& tensor, size_t d, const Syntax& index);
  void check_inside(const TensorInfo& tensor, size_t d, const Syntax& index);
  bool is_dynamic(const Syntax& s) const;
  void check_use() const;
  TensorInfo& tensor(const Syntax& read);
  std::vector<std::string> index_names() const {
    std::vector<std::string> names;
    for (const auto& [name, size] : result_.dims) names.push_back(name);
    return names;
  }

  const Spec& spec_;
  ExprAnalysis result_;
  IndexBounds bounds_;
  std::set<std::string> targets_, used_dims_, read_;
  std::set<std::string> left_;  // indices of the current statement's left side
  int current_ = 0;
};

void ExprAnalyzer::target(const Statement& s) {
  Syntax place{Syntax::Kind::Name, s.target, {}, s.offset};
  if (result_.dims.count(s.target)) fail(place, fmt::format("'{}' is an index", s.target));
  if (read_.count(s.target)) {
    fail(place, fmt::format("'{}' is read before this statement writes it", s.target));
  }
  if (result_.find(s.target) != nullptr) {
    fail(place, fmt::format("'{}' is written twice", s.target));
  }
  if (s.indices.size() > kMaxRank) {
    fail(place, fmt::format("at most {} indices, got {}", kMaxRank, s.indices.size()));
  }
  left_.clear();
  for (const Syntax& index : s.indices) {
    visit_index_name(index);
    if (!left_.insert(index.text).second) {
      fail(index, fmt::format("the index '{}' stands twice on the left", index.text));
    }
  }
}

void ExprAnalyzer::statement(int number) {
  const Statement& s = result_.statements[number];
  current_ = number;
  target(s);
  result_.reduce_indices.emplace_back();
  visit(s.value, false);
  result_.tensors.push_back({s.target, s.indices.size(), number});
}

void ExprAnalyzer::visit_index_name(const Syntax& s) {
  if (!result_.dims.count(s.text)) {
    fail(s, fmt::format("'{}' is no index{}; dims gives {}", s.text,
                        suggestion(s.text, index_names()), fmt::join(index_names(), ", ")));
  }
  used_dims_.insert(s.text);
}

void ExprAnalyzer::visit(const Syntax& s, bool as_index) {
  if (s.kind == Syntax::Kind::Name) {
    visit_index_name(s);
    if (left_.count(s.text)) return;
    auto& reduced = result_.reduce_indices[current_];
    if (result_.statements[current_].assignment == "=") {
      fail(s,
           fmt::format("the index '{}' is not on the left of '='; use +=, max= or min= to reduce "
                       "over it",
                       s.text));
    }
    if (!std::count(reduced.begin(), reduced.end(), s.text)) reduced.push_back(s.text);
  } else if (s.kind == Syntax::Kind::Read) {
    visit_read(s, as_index);
  } else if (s.kind == Syntax::Kind::Call && s.text == "select") {
    if (as_index) fail(s, "an index is made of indices, whole numbers, + - * // % and reads");
    visit(s.args[0], false);
    bounds_.push(s.args[0], true);
    visit(s.args[1], false);
    bounds_.pop();
    bounds_.push(s.args[0], false);
    visit(s.args[2], false);
    bounds_.pop();
  } else {
    for (const Syntax& arg : s.args) visit(arg, as_index);
  }
}

// An index may multiply only by whole numbers, and divide only by positive whole numbers.
void ExprAnalyzer::check_index(const Syntax& s) {
  switch (s.kind) {
    case Syntax::Kind::Name:
    case Syntax::Kind::Read: return;
    case Syntax::Kind::Number:
      if (!is_index_arithmetic(s)) fail(s, fmt::format("'{}' is not a whole number", s.text));
      return;
    case Syntax::Kind::Negate: return check_index(s.args[0]);
    case Syntax::Kind::Binary: break;
    default: fail(s, "an index is made of indices, whole numbers, + - * // % and reads");
  }
  check_index(s.args[0]);
  check_index(s.args[1]);
  auto a = linear_form(s.args[0]), b = linear_form(s.args[1]);
  bool left_constant = a && a->terms.empty(), right_constant = b && b->terms.empty();
  if (s.text == "/") fail(s, "an index cannot be a fraction; '//' divides indices");
  if (s.text == "*" && !left_constant && !right_constant) {
    fail(s, "an index must be affine: one side of '*' must be a whole number");
  }
  if ((s.text == "//" || s.text == "%") && !(right_constant && b->constant > 0)) {
    fail(s, fmt::format("'{}' needs a positive whole number on its right", s.text));
  }
}

TensorInfo& ExprAnalyzer::tensor(const Syntax& read) {
  if (result_.dims.count(read.text)) fail(read, fmt::format("'{}' is an index", read.text));
  read_.insert(read.text);
  if (result_.statements[current_].target == read.text) {
    fail(read, fmt::format("'{}' reads itself", read.text));
  }
  for (TensorInfo& t : result_.tensors) {
    if (t.name == read.text) return t;
  }
  if (targets_.count(read.text)) {
    fail(read, fmt::format("'{}' is read before the statement that writes it", read.text));
  }
  if (read.args.size() > kMaxRank) {
    fail(read, fmt::format("at most {} indices, got {}", kMaxRank, read.args.size()));
  }
  result_.tensors.push_back({read.text, read.args.size()});
  result_.tensors.back().inferred.resize(read.args.size());
  return result_.tensors.back();
}

void ExprAnalyzer::visit_read(const Syntax& s, bool as_index) {
  // Visits the indices first: tensors that they read enter `tensors` before `tensor` returns a
  // place.
  for (const Syntax& index : s.args) {
    check_index(index);
    visit(index, true);
  }
  TensorInfo& t = tensor(s);
  if (t.rank != s.args.size()) {
    fail(s, fmt::format("'{}' has {} dimension{}, got {} indices", s.text, t.rank,
                        t.rank == 1 ? "" : "s", s.args.size()));
  }
  t.used_as_index |= as_index;
  for (size_t d = 0; d < s.args.size(); ++d) {
    if (t.written_by < 0) {
      infer(t, d, s.args[d]);
    } else {
      check_inside(t, d, s.args[d]);
    }
  }
}

bool ExprAnalyzer::is_dynamic(const Syntax& s) const {
  if (s.kind == Syntax::Kind::Name) return result_.dims.at(s.text).is_dynamic();
  return std::any_of(s.args.begin(), s.args.end(), [&](const Syntax& a) { return is_dynamic(a); });
}

// The extent of an input reaches one past the largest index that any read makes.
void ExprAnalyzer::infer(TensorInfo& tensor, size_t d, const Syntax& index) {
  Interval range = bounds_.bounds(index);
  const std::string shape_key = "shapes." + tensor.name;
  if (range.is_bounded() && range.min < 0) {
    fail(index, fmt::format("this index of '{}' goes down to {}; guard the read by select, as in "
                            "select(i >= 1, A[i - 1], 0)",
                            tensor.name, range.min));
  }
  if (spec_.has(shape_key)) {
    const auto& shape = spec_.get<std::vector<DimSize>>(shape_key);
    if (shape.size() != tensor.rank) {
      throw KeyError(shape_key, fmt::format("'{}' has {} dimensions, got {} sizes", tensor.name,
                                            tensor.rank, shape.size()));
    }
    // The size is that of an index which stands there by itself and has sizes within the range.
    const bool follows = shape[d].is_dynamic() && index.kind == Syntax::Kind::Name &&
                         result_.dims.at(index.text).min >= shape[d].min &&
                         result_.dims.at(index.text).max <= shape[d].max;
    if (!follows) {
      if (range.is_bounded() && range.max >= shape[d].min) {
        fail(index, fmt::format("this index of '{}' goes up to {}, beyond its size of {}",
                                tensor.name, range.max, to_string(SpecValue(shape[d]))));
      }
      if (tensor.inferred[d] && tensor.inferred[d]->dynamic) return;  // another read tells it
      tensor.inferred[d] = InferredExtent{shape[d].max, std::nullopt};
      if (shape[d].is_dynamic()) tensor.inferred[d]->own = shape[d];
      return;
    }
  }
  if (!range.is_bounded()) {
    fail(index, fmt::format("the size of '{}' does not follow from this index; give shapes.{}",
                            tensor.name, tensor.name));
  }
  InferredExtent extent{std::max<int64_t>(range.max + 1, 1), std::nullopt};
  if (is_dynamic(index)) {
    if (!linear_form(index)) {
      fail(index, fmt::format("the size of '{}' does not follow from this index of a dynamic "
                              "dimension",
                              tensor.name));
    }
    extent.dynamic = index;
  }
  auto& known = tensor.inferred[d];
  if (!known || known->own) {
    known = extent;
  } else if (!known->dynamic && !extent.dynamic) {
    known->extent = std::max(known->extent, extent.extent);
  } else {
    auto spelling = [](const InferredExtent& e) {
      return e.dynamic ? spell({Statement{"", {}, "", *e.dynamic, 0}}) : std::string();
    };
    if (spelling(*known) != spelling(extent)) {
      fail(index, fmt::format("reads of '{}' disagree on its size, which is dynamic", tensor.name));
    }
  }
}

// Reads of another statement's result must stay within what it wrote.
void ExprAnalyzer::check_inside(const TensorInfo& tensor, size_t d, const Syntax& index) {
  const Syntax& written = result_.statements[tensor.written_by].indices[d];
  const DimSize size = result_.dims.at(written.text);
  if (index.kind == Syntax::Kind::Name && index.text == written.text) return;
  Interval range = bounds_.bounds(index);
  bool inside = range.is_bounded() && range.min >= 0 && range.max < size.min;
  if (inside) return;
  std::string reach =
      range.is_bounded() ? fmt::format("ranges over {}..{}", range.min, range.max) : "is not known";
  fail(index, fmt::format("this index of '{}' {}, outside its {} elements", tensor.name, reach,
                          to_string(SpecValue(size))));
}

void ExprAnalyzer::check_use() const {
  for (const auto& [name, size] : result_.dims) {
    if (!used_dims_.count(name)) {
      throw KeyError("dims." + name, fmt::format("'{}' is no index of the expression", name));
    }
  }
  for (size_t i = 0; i + 1 < result_.statements.size(); ++i) {
    const Statement& s = result_.statements[i];
    if (!read_.count(s.target)) {
      throw KeyError(
          "expr", fmt::format("'{}' is never read; the last statement writes the output", s.target),
          s.offset);
    }
  }
}

}  // namespace

const TensorInfo* ExprAnalysis::find(const std::string& name) const {
  for (const TensorInfo& t : tensors) {
    if (t.name == name) return &t;
  }
  return nullptr;
}

ExprAnalysis analyze_expr(const Spec& spec) { return ExprAnalyzer(spec).run(); }

}  // namespace tilewright::ops
