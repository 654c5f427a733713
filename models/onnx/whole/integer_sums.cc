#include "models/onnx/whole/integer_sums.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "models/onnx/window.h"

namespace tilewright::onnx {
namespace {

// The terms that a sum of plain products lacks: "" for those that are 0.
struct Correction {
  std::string a_zero, b_zero;  // elements
  std::string b_sum, a_sum;    // sums of the codes that they multiply
  int64_t count = 0;

  std::string text() const {
    std::string all;
    if (!a_zero.empty()) all += fmt::format(" - {} * {}", a_zero, b_sum);
    if (!b_zero.empty()) all += fmt::format(" - {} * {}", b_zero, a_sum);
    if (!a_zero.empty() && !b_zero.empty()) {
      all += fmt::format(" + {} * {} * {}", count, a_zero, b_zero);
    }
    return all;
  }
};

IndexExpr sums_of(const Mapping& m, const Node& node, const std::string& output,
                  const Sizes& sizes) {
  IndexExpr e(m, node, output, sizes, ElemType::i32);
  e.accumulate(ElemType::f32);
  return e;
}

// S is the sum of the terms; the output is S, corrected where there is more. `before` are statements in front.
Draft finished(IndexExpr& e, const std::string& term, const std::string& more,
               const std::string& before = "") {
  if (more.empty()) return e.finish(fmt::format("{}{} += {}", before, e.left(), term));
  e.give_type("S", ElemType::i32);
  return e.finish(
      fmt::format("{0}{1} += {2}; {3} = {1}{4}", before, e.left("S"), term, e.left(), more));
}

// The sums of a value along its last axis, or along the one in front of it, as a layer.
Draft matrix_sums(const Mapping& m, const Node& node, const std::string& value, bool last,
                  const std::string& output) {
  const Sizes own = sizes_of_value(m, value);
  Sizes left = own;
  left.erase(last ? left.end() - 1 : left.end() - 2);
  IndexExpr e(m, node, output, left, ElemType::i32);
  e.accumulate(ElemType::f32);
  std::vector<std::string> at(e.indices().begin(),
                              e.indices().begin() + static_cast<int64_t>(left.size()));
  at.insert(last ? at.end() : at.end() - 1, e.reduced(last ? own.back() : own[own.size() - 2]));
  return e.finish(fmt::format("{} += {}", e.left(), e.made_at(value, own, m.elem(value), at)));
}

// An element of such sums, at this row or column of a product whose batches are broadcast.
std::string matrix_sum_at(IndexExpr& e, const Mapping& m, const std::string& value, bool last,
                          const std::string& index, const std::string& sums) {
  Sizes left = sizes_of_value(m, value);
  left.erase(last ? left.end() - 1 : left.end() - 2);
  const size_t rank = e.sizes().size();
  std::vector<std::string> at;
  for (size_t d = 0; d + 1 < left.size(); ++d) {
    at.push_back(left[d] == 1 ? "0" : e.indices()[rank - left.size() - 1 + d]);
  }
  at.push_back(index);
  return e.made_at(sums, left, ElemType::i32, at);
}

// A convolution of codes.
struct Windows {
  Sizes x, w;  // sizes
  Window window;
  int64_t groups = 1;
};

Windows windows_of(const Mapping& m, const Node& node, const std::string& x, const std::string& w) {
  Windows all{sizes_of_value(m, x), sizes_of_value(m, w), {}, node.integer("group", 1)};
  if (all.x.size() < 3 || all.x.size() != all.w.size()) throw NotMapped("its operands are no maps");
  const Shape sizes(m.shape(x).begin() + 2, m.shape(x).end());
  const auto window = window_of(node, sizes, Sizes(all.w.begin() + 2, all.w.end()));
  if (!window || all.groups < 1 || all.w[0] % all.groups != 0 ||
      all.w[1] * all.groups != all.x[1]) {
    throw NotMapped("its window or its groups are not such as were expected");
  }
  all.window = *window;
  return all;
}

// The statement that pads a map, and the name of what it makes; both "" where the map needs no padding.
struct Padded {
  std::string statement, name;
};

// "P[i0, r0, r1, r2] = select(r1 >= 1 && ..., X[i0, r0, r1 - 1, r2 - 1], 128)".
Padded padded(IndexExpr& e, const Mapping& m, const Codes& x, const Windows& all) {
  const bool pads = std::ranges::any_of(all.window.before, [](int64_t p) { return p > 0; }) ||
                    std::ranges::any_of(all.window.after, [](int64_t p) { return p > 0; });
  if (!pads) return {};
  const auto zero = x.zero.empty() ? std::optional<double>(0) : m.graph.value(x.zero).scalar();
  if (!zero) throw NotMapped("it pads, and its zero point is calculated");
  std::vector<std::string> left = {"i0", e.reduced(all.x[1])}, at = left;
  std::string test;
  for (size_t d = 0; d < all.window.rank(); ++d) {
    const int64_t before = all.window.before[d], size = all.x[d + 2];
    const std::string p = e.reduced(size + before + all.window.after[d]);
    left.push_back(p);
    at.push_back(before == 0 ? p : fmt::format("{} - {}", p, before));
    if (before > 0) test += fmt::format("{}{} >= {}", test.empty() ? "" : " && ", p, before);
    if (all.window.after[d] == 0) continue;
    test += fmt::format("{}{} < {}", test.empty() ? "" : " && ", p, size + before);
  }
  e.give_type("P", m.elem(x.value));
  return {fmt::format("P[{}] = select({}, {}, {}); ", fmt::join(left, ", "), test,
                      e.made_at(x.value, all.x, m.elem(x.value), at), literal(*zero)),
          "P"};
}

// An element under the window, in the channel `channel`; `places` are the window's own indices.
std::string element_under(IndexExpr& e, const Mapping& m, const Codes& x, const Windows& all,
                          const Padded& p, const std::string& channel,
                          const std::vector<std::string>& places) {
  std::vector<std::string> at = {"i0", channel};
  for (size_t d = 0; d < all.window.rank(); ++d) {
    const std::string& i = e.indices().at(d + 2);
    const int64_t stride = all.window.stride[d], dilation = all.window.dilation[d];
    at.push_back(
        fmt::format("{} + {}", stride == 1 ? i : fmt::format("{} * {}", i, stride),
                    dilation == 1 ? places[d] : fmt::format("{} * {}", places[d], dilation)));
  }
  if (p.name.empty()) return e.made_at(x.value, all.x, m.elem(x.value), at);
  return fmt::format("{}[{}]", p.name, fmt::join(at, ", "));
}

// The channel of the map that meets channel `from` of a weight, for the result's channel or its group `group`.
std::string channel_of(const Windows& all, const std::string& group, const std::string& from) {
  if (all.groups == 1) return from;
  const std::string first = all.w[1] == 1 ? group : fmt::format("{} * {}", group, all.w[1]);
  return fmt::format("{} + {}", first, from);
}

std::string group_of_channel(const Windows& all) {
  const int64_t each = all.w[0] / all.groups;
  return each == 1 ? "i1" : fmt::format("i1 // {}", each);
}

// The sums of all codes under the window, for each group.
Draft window_sums(const Mapping& m, const Node& node, const Codes& x, const Windows& all,
                  const Sizes& result, const std::string& output) {
  Sizes sizes = result;
  sizes[1] = all.groups;
  IndexExpr e(m, node, output, sizes, ElemType::i32);
  e.accumulate(ElemType::f32);
  const std::string from = e.reduced(all.w[1]);
  std::vector<std::string> places;
  for (size_t d = 0; d < all.window.rank(); ++d) places.push_back(e.reduced(all.w[d + 2]));
  const Padded p = padded(e, m, x, all);
  const std::string element = element_under(e, m, x, all, p, channel_of(all, "i1", from), places);
  return e.finish(fmt::format("{}{} += {}", p.statement, e.left(), element));
}

Draft weight_sums(const Mapping& m, const Node& node, const std::string& w, const Sizes& sizes,
                  const std::string& output) {
  IndexExpr e(m, node, output, {sizes[0]}, ElemType::i32);
  e.accumulate(ElemType::f32);
  std::vector<std::string> at = {"i0"};
  for (size_t d = 1; d < sizes.size(); ++d) at.push_back(e.reduced(sizes[d]));
  return e.finish(fmt::format("{} += {}", e.left(), e.made_at(w, sizes, m.elem(w), at)));
}

}  // namespace

Mapped integer_product(const Mapping& m, const Node& node, const Codes& a, const Codes& b,
                       const std::string& output, const Sizes& sizes) {
  const std::string rows = output + "/rows", columns = output + "/columns";
  Mapped drafts;
  IndexExpr e =
      sums_of(m, node, output, sizes.empty() ? sizes_of_value(m, node.outputs.at(0)) : sizes);
  if (m.graph.value(b.value).constant) e.mark_weight(b.value);
  const Factors f = factors_of(e, m, a.value, b.value, b.turned);
  Correction c;
  c.count = sizes_of_value(m, a.value).back();
  if (!a.zero.empty()) {
    drafts.push_back(matrix_sums(m, node, b.value, b.turned, columns));
    c.a_zero = parameter_at(e, m, a.zero, f.row);
    c.b_sum = matrix_sum_at(e, m, b.value, b.turned, f.column, columns);
  }
  if (!b.zero.empty()) {
    drafts.push_back(matrix_sums(m, node, a.value, true, rows));
    c.b_zero = parameter_at(e, m, b.zero, f.column);
    c.a_sum = matrix_sum_at(e, m, a.value, true, f.row, rows);
  }
  drafts.push_back(finished(e, fmt::format("{} * {}", f.a, f.b), c.text()));
  return drafts;
}

Mapped integer_convolution(const Mapping& m, const Node& node, const Codes& x, const Codes& w,
                           const std::string& bias, const std::string& output) {
  const Windows all = windows_of(m, node, x.value, w.value);
  const Sizes result = sizes_of_value(m, node.outputs.at(0));
  const std::string channels = output + "/channels", windows = output + "/windows";
  Mapped drafts;
  IndexExpr e = sums_of(m, node, output, result);
  if (m.graph.value(w.value).constant) e.mark_weight(w.value);
  std::vector<std::string> weight = {"i1", e.reduced(all.w[1])}, places;
  for (size_t d = 0; d < all.window.rank(); ++d) places.push_back(e.reduced(all.w[d + 2]));
  weight.insert(weight.end(), places.begin(), places.end());
  const Padded p = padded(e, m, x, all);
  const std::string group = group_of_channel(all);
  const std::string element =
      element_under(e, m, x, all, p, channel_of(all, group, weight[1]), places);
  const std::string term =
      fmt::format("{} * {}", element, e.made_at(w.value, all.w, m.elem(w.value), weight));
  Correction c;
  c.count = all.w[1];
  for (size_t d = 0; d < all.window.rank(); ++d) c.count *= all.w[d + 2];
  if (!x.zero.empty()) {
    drafts.push_back(weight_sums(m, node, w.value, all.w, channels));
    c.a_zero = parameter_at(e, m, x.zero, "0");
    c.b_sum = e.made_at(channels, {all.w[0]}, ElemType::i32, {"i1"});
  }
  if (!w.zero.empty()) {
    drafts.push_back(window_sums(m, node, x, all, result, windows));
    Sizes sizes = result;
    sizes[1] = all.groups;
    std::vector<std::string> at = e.indices();
    at[1] = all.groups == 1 ? "0" : group;
    c.b_zero = parameter_at(e, m, w.zero, "i1");
    c.a_sum = e.made_at(windows, sizes, ElemType::i32, at);
  }
  std::string more = c.text();
  if (!bias.empty()) more += " + " + e.at(bias, {"i1"});
  drafts.push_back(finished(e, term, more, p.statement));
  return drafts;
}

}  // namespace tilewright::onnx
