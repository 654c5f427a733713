// Operators that choose, repeat or regroup elements, and recurrent layers.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/onnx/einsum.h"
#include "models/onnx/step.h"

namespace tilewright::onnx {
namespace {

// The sizes that numbers with a fraction scale an input's to, rounded down.
std::optional<Shape> scaled(Step& s, const Shape& from, const std::vector<size_t>& axes,
                            const std::vector<double>& scales) {
  if (scales.size() != axes.size()) return std::nullopt;
  Shape out = from;
  for (size_t i = 0; i < axes.size(); ++i) {
    Extent& size = out[axes[i]];
    if (!(scales[i] > 0) || scales[i] > 1e6) return std::nullopt;
    if (scales[i] == std::floor(scales[i])) {
      const auto times = s.extents.times(size, static_cast<int64_t>(scales[i]));
      if (!times) return std::nullopt;
      size = *times;
    } else if (size.fixed()) {
      // ONNX multiplies in f32.
      const float product = static_cast<float>(size.number()) * static_cast<float>(scales[i]);
      size = static_cast<int64_t>(std::floor(product));
    } else {
      return std::nullopt;
    }
  }
  return out;
}

std::optional<std::vector<double>> reals_of(const Value& value) {
  if (value.tensor == nullptr || !value.tensor->readable() || value.tensor->count > kMaxContents) {
    return std::nullopt;
  }
  std::vector<double> list;
  for (int64_t i = 0; i < value.tensor->count; ++i) list.push_back(value.tensor->at(i));
  return list;
}

// Makes sizes of one scale of those that are asked for, where the node wants that: the least or the largest. False
// where one is not a number.
bool keep_aspect(const Step& s, const Shape& from, const std::vector<size_t>& axes, Shape* out) {
  const std::string policy = s.node.text("keep_aspect_ratio_policy", "stretch");
  if (policy == "stretch" || axes.empty()) return true;
  std::optional<double> scale;
  for (size_t axis : axes) {
    if (!from[axis].fixed() || !(*out)[axis].fixed() || from[axis].number() < 1) return false;
    const double own = double((*out)[axis].number()) / double(from[axis].number());
    if (!scale) scale = own;
    scale = policy == "not_larger" ? std::min(*scale, own) : std::max(*scale, own);
  }
  for (size_t axis : axes) {
    (*out)[axis] = static_cast<int64_t>(std::floor(*scale * double(from[axis].number()) + 0.5));
  }
  return true;
}

// Inputs X, roi, scales, sizes; of version 10 and of Upsample X, scales.
void resize(Step& s) {
  if (!s.shape(0)) return;
  const Shape& from = *s.shape(0);
  const bool old = s.node.op == "Upsample" || s.opset < 11;
  const bool crops = s.node.text("coordinate_transformation_mode", "") == "tf_crop_and_resize";
  if (crops && !s.node.has_input(3)) return;
  std::vector<size_t> axes;
  if (const auto some = s.node.integers("axes")) {
    for (int64_t a : *some) {
      const auto axis = axis_of(a, from.size());
      if (!axis) return;
      axes.push_back(*axis);
    }
  } else {
    for (size_t d = 0; d < from.size(); ++d) axes.push_back(d);
  }
  if (!old && s.node.has_input(3)) {
    const auto& sizes = s.input(3).contents;
    if (!sizes || sizes->size() != axes.size()) return;
    Shape out = from;
    for (size_t i = 0; i < axes.size(); ++i) out[axes[i]] = (*sizes)[i];
    if (!keep_aspect(s, from, axes, &out)) return;
    return s.set(0, s.type(), out);
  }
  std::optional<std::vector<double>> scales = reals_of(s.input(old ? 1 : 2));
  if (const Attribute* a = s.node.find("scales")) scales = a->floats;
  if (scales) s.set(0, s.type(), scaled(s, from, axes, *scales));
}

void gather_elements(Step& s) { s.set(0, s.type(), s.shape(1)); }

// Indices [.., r] choose slices of what follows the first r axes behind the batch.
void gather_nd(Step& s) {
  if (!s.shape(0) || !s.shape(1) || s.shape(1)->empty() || !s.shape(1)->back().fixed()) return;
  const int64_t chosen = s.shape(1)->back().number() + s.node.integer("batch_dims", 0);
  if (chosen < 0 || chosen > static_cast<int64_t>(s.shape(0)->size())) return;
  Shape out(s.shape(1)->begin(), s.shape(1)->end() - 1);
  out.insert(out.end(), s.shape(0)->begin() + chosen, s.shape(0)->end());
  s.set(0, s.type(), out);
}

// A number of elements of an axis that a run calculates: no more than the axis has at least.
std::optional<Extent> calculated_count(Step& s, const Extent& size) {
  const auto range = s.extents.range(size);
  const auto count = s.element(1, 0);
  if (!range || !count) return std::nullopt;
  const auto k = s.size(*count, range->min);
  const auto most = k ? s.extents.range(*k) : std::nullopt;
  return most && most->max <= range->min ? k : std::nullopt;
}

void top_k(Step& s) {
  if (!s.shape(0)) return;
  const auto axis = axis_of(s.node.integer("axis", -1), s.shape(0)->size());
  const auto& given = s.input(1).contents;
  std::optional<Extent> k;
  if (given && given->size() == 1) k = (*given)[0];
  if (s.node.find("k") != nullptr) k = s.node.integer("k", 0);
  if (axis && !k) k = calculated_count(s, (*s.shape(0))[*axis]);
  if (!axis || !k) return;
  Shape out = *s.shape(0);
  out[*axis] = *k;
  s.set(0, s.type(), out);
  s.set(1, DataType::Int64, out);
}

void one_hot(Step& s) {
  const auto& depth = s.input(1).contents;
  if (!s.shape(0) || !depth || depth->size() != 1) return;
  const auto axis = axis_of(s.node.integer("axis", -1), s.shape(0)->size() + 1);
  if (!axis) return;
  Shape out = *s.shape(0);
  out.insert(out.begin() + static_cast<int64_t>(*axis), (*depth)[0]);
  s.set(0, s.type(2), out);
}

// Channels become blocks of pixels, or the other way round.
void regroup_depth(Step& s) {
  const int64_t block = s.node.integer("blocksize", 0);
  if (!s.shape(0) || s.shape(0)->size() != 4 || block < 1 || block > 1 << 20) return;
  const bool to_space = s.node.op == "DepthToSpace";
  Shape out = *s.shape(0);
  const auto channels =
      to_space ? s.extents.quotient(out[1], block * block) : s.extents.times(out[1], block * block);
  if (!channels) return;
  out[1] = *channels;
  for (size_t d : {2, 3}) {
    const auto size = to_space ? s.extents.times(out[d], block) : s.extents.quotient(out[d], block);
    if (!size) return;
    out[d] = *size;
  }
  s.set(0, s.type(), out);
}

// X [rows, batch, k] (with layout 1 [batch, rows, k]); all states, the last one, and of an LSTM its cell.
void recurrent(Step& s) {
  if (!s.shape(0) || s.shape(0)->size() != 3) return;
  int64_t hidden = s.node.integer("hidden_size", 0);
  if (hidden < 1 && s.shape(2) && s.shape(2)->size() == 3 && s.shape(2)->back().fixed()) {
    hidden = s.shape(2)->back().number();  // of the recurrent weight
  }
  if (hidden < 1) return;
  const int64_t directions = s.node.text("direction", "forward") == "bidirectional" ? 2 : 1;
  const bool batch_first = s.node.integer("layout", 0) != 0;
  const Shape& x = *s.shape(0);
  const Extent rows = x[batch_first ? 1 : 0], batch = x[batch_first ? 0 : 1];
  const Shape state =
      batch_first ? Shape{batch, directions, hidden} : Shape{directions, batch, hidden};
  s.set(0, s.type(),
        batch_first ? Shape{batch, rows, directions, hidden}
                    : Shape{rows, directions, batch, hidden});
  s.set(1, s.type(), state);
  if (s.node.op == "LSTM") s.set(2, s.type(), state);
}

void eye_like(Step& s) {
  const auto given = static_cast<DataType>(s.node.integer("dtype", 0));
  s.set(0, given == DataType::Undefined ? s.type() : given, s.shape(0));
}

// A place of as many numbers as the maps have axes, for each of their elements.
void affine_grid(Step& s) {
  const auto& sizes = s.input(1).contents;
  if (!sizes || sizes->size() < 4) return;
  Shape out = *sizes;
  out.erase(out.begin() + 1);
  out.push_back(static_cast<int64_t>(sizes->size()) - 2);
  s.set(0, s.type(), out);
}

void center(Step& s) {
  const auto& sizes = s.input(1).contents;
  if (!s.shape(0) || !sizes) return;
  Shape out = *s.shape(0);
  const auto axes = s.node.integers("axes");
  for (size_t i = 0; i < sizes->size(); ++i) {
    const auto axis = axis_of(axes && i < axes->size() ? (*axes)[i] : int64_t(i), out.size());
    if (!axis) return;
    out[*axis] = (*sizes)[i];
  }
  s.set(0, s.type(), out);
}

// [batch, channels * places in a block, blocks]
void col2im(Step& s) {
  const auto &sizes = s.input(1).contents, &block = s.input(2).contents;
  if (!s.shape(0) || s.shape(0)->size() != 3 || !sizes || !block) return;
  const auto places = s.extents.product(*block);
  const auto channels = places ? s.extents.quotient((*s.shape(0))[1], *places) : std::nullopt;
  if (!channels) return;
  Shape out = *sizes;
  out.insert(out.begin(), {(*s.shape(0))[0], *channels});
  s.set(0, s.type(), out);
}

void grid_sample(Step& s) {
  if (!s.shape(0) || !s.shape(1) || s.shape(1)->size() != s.shape(0)->size()) return;
  Shape out = *s.shape(1);
  out.pop_back();
  out.insert(out.begin() + 1, (*s.shape(0))[1]);
  s.set(0, s.type(), out);
}

void deformed_convolution(Step& s) {
  if (!s.shape(0) || !s.shape(1) || !s.shape(2) || s.shape(1)->empty()) return;
  Shape out = *s.shape(2);
  if (out.size() != s.shape(0)->size() || out.size() < 3) return;
  out[1] = (*s.shape(1))[0];
  s.set(0, s.type(), out);
}

void roi_align(Step& s) {
  if (!s.shape(0) || !s.shape(1) || s.shape(0)->size() != 4 || s.shape(1)->size() != 2) return;
  s.set(0, s.type(),
        Shape{(*s.shape(1))[0], (*s.shape(0))[1], s.node.integer("output_height", 1),
              s.node.integer("output_width", 1)});
}

void einsum(Step& s) {
  std::vector<size_t> ranks;
  for (size_t i = 0; i < s.node.inputs.size(); ++i) {
    if (!s.shape(i)) return s.set(0, s.type(), std::nullopt);
    ranks.push_back(s.shape(i)->size());
  }
  const auto sums = parse_einsum(s.node.text("equation", ""), ranks);
  if (!sums) return;
  Shape out;
  for (int index : sums->output) {
    Extent size = 1;
    for (size_t i = 0; i < ranks.size(); ++i) {
      for (size_t d = 0; d < ranks[i]; ++d) {
        const Extent& own = (*s.shape(i))[d];
        if (sums->inputs[i][d] == index && own != Extent(1)) size = own;
      }
    }
    out.push_back(size);
  }
  s.set(0, s.type(), out);
}

// How many frequencies of so many samples are given.
int64_t frequencies(const Step& s, int64_t length, int64_t fallback) {
  return s.node.integer("onesided", fallback) != 0 ? length / 2 + 1 : length;
}

void dft(Step& s) {
  if (!s.shape(0) || s.shape(0)->size() < 2) return;
  int64_t given = s.opset >= 20 ? -2 : s.node.integer("axis", 1);
  const auto by_input = s.numbers(2), lengths = s.numbers(1);
  if (s.node.has_input(2) && s.opset >= 20) {
    if (!by_input || by_input->size() != 1) return;
    given = (*by_input)[0];
  }
  const auto axis = axis_of(given, s.shape(0)->size());
  if (!axis || (s.node.has_input(1) && (!lengths || lengths->size() != 1))) return;
  Shape out = *s.shape(0);
  if (lengths) out[*axis] = (*lengths)[0];
  if (!out[*axis].fixed()) return;
  const bool to_real = s.node.integer("inverse", 0) != 0 && s.node.integer("onesided", 0) != 0;
  if (to_real && !lengths) return;
  if (!to_real) out[*axis] = frequencies(s, out[*axis].number(), 0);
  out.back() = to_real ? 1 : 2;
  s.set(0, s.type(), out);
}

void stft(Step& s) {
  if (!s.shape(0) || s.shape(0)->size() < 2 || !(*s.shape(0))[1].fixed()) return;
  const auto step = s.numbers(1);
  auto length = s.numbers(3);
  if (!length && s.shape(2) && s.shape(2)->size() == 1 && (*s.shape(2))[0].fixed()) {
    length = {(*s.shape(2))[0].number()};
  }
  if (!step || step->size() != 1 || !length || length->size() != 1 || (*step)[0] < 1) return;
  const int64_t rest = (*s.shape(0))[1].number() - (*length)[0];
  if (rest < 0) return;
  s.set(0, s.type(),
        Shape{(*s.shape(0))[0], rest / (*step)[0] + 1, frequencies(s, (*length)[0], 1), 2});
}

// A value of a body, with an axis of rounds where these are given.
void set_result(Step& s, size_t output, const std::string& value, std::optional<Extent> rounds,
                bool rows, int64_t given = 0) {
  const Value& made = s.value(value);
  std::optional<Shape> shape = made.shape;
  const auto axis = axis_of(given, shape ? shape->size() + 1 : 1);
  if (rows && (!rounds || !axis)) shape.reset();
  if (rows && shape) shape->insert(shape->begin() + static_cast<int64_t>(*axis), *rounds);
  s.set(output, made.type, shape);
}

void loop(Step& s) {
  const auto& most = s.input(0).contents;
  std::optional<Extent> rounds;
  if (most && most->size() == 1) rounds = (*most)[0];
  const size_t carried = s.node.held.empty() || s.node.held[0].inputs.size() < 2
                             ? 0
                             : s.node.held[0].inputs.size() - 2;
  for (size_t o = 0; o < s.node.outputs.size() && !s.node.held.empty(); ++o) {
    if (o + 1 >= s.node.held[0].outputs.size()) return;
    set_result(s, o, s.node.held[0].outputs[o + 1], rounds, o >= carried);
  }
}

void scan(Step& s) {
  const auto scanned = static_cast<size_t>(s.node.integer("num_scan_inputs", 0));
  if (s.opset < 9) return;  // those scan batches
  if (s.node.held.empty() || scanned < 1 || s.node.held[0].inputs.size() < scanned) return;
  const size_t states = s.node.held[0].inputs.size() - scanned;
  std::optional<Extent> rounds;
  if (s.shape(states)) {
    const auto axis = axis_of(scan_axis(s.node, "scan_input_axes", 0), s.shape(states)->size());
    if (axis) rounds = (*s.shape(states))[*axis];
  }
  for (size_t o = 0; o < s.node.outputs.size() && o < s.node.held[0].outputs.size(); ++o) {
    const bool rows = o >= states;
    set_result(s, o, s.node.held[0].outputs[o], rounds, rows,
               rows ? scan_axis(s.node, "scan_output_axes", o - states) : 0);
  }
}

// A size from 0 to `most`, which values of the run say.
std::optional<Extent> found_size(Step& s, size_t axis, const std::optional<Extent>& most) {
  const auto range = most ? s.extents.range(*most) : std::nullopt;
  if (!range || s.node.outputs.empty() || s.node.outputs[0].empty()) return std::nullopt;
  return s.extents.declare(fmt::format("{}.{}", s.node.outputs[0], axis),
                           {1, std::max<int64_t>(range->max, 2)}, true);
}

// The lesser of two sizes where both are numbers, else the first.
Extent lesser(const Extent& a, const Extent& b) {
  return a.fixed() && b.fixed() && b.number() < a.number() ? b : a;
}

void nonzero(Step& s) {
  if (!s.shape(0)) return;
  const auto rank = static_cast<int64_t>(s.shape(0)->size());
  const auto numbers = s.numbers(0);
  if (numbers && rank == 1) {
    Shape places;
    for (size_t i = 0; i < numbers->size(); ++i) {
      if ((*numbers)[i] != 0) places.emplace_back(static_cast<int64_t>(i));
    }
    return s.set(0, DataType::Int64, Shape{1, static_cast<int64_t>(places.size())}, places);
  }
  const auto found = found_size(s, 1, s.extents.product(*s.shape(0)));
  if (found) s.set(0, DataType::Int64, Shape{rank, *found});
}

// The shape of the input with another size along the node's axis; the size alone where it has none.
void set_along_axis(Step& s, const std::optional<Extent>& condition) {
  if (!s.shape(0)) return;
  Shape out = {1};
  size_t axis = 0;
  std::optional<Extent> rows = s.extents.product(*s.shape(0));
  if (s.node.find("axis") != nullptr) {
    const auto own = axis_of(s.node.integer("axis", 0), s.shape(0)->size());
    if (!own) return;
    out = *s.shape(0);
    axis = *own;
    rows = out[axis];
  }
  const auto found = found_size(s, axis, rows && condition ? lesser(*rows, *condition) : rows);
  if (!found) return;
  out[axis] = *found;
  s.set(0, s.type(), out);
  if (s.node.op != "Unique") return;
  s.set(1, DataType::Int64, Shape{*found});
  s.set(2, DataType::Int64, Shape{*rows});
  s.set(3, DataType::Int64, Shape{*found});
}

void unique(Step& s) { set_along_axis(s, std::nullopt); }

void compress(Step& s) {
  if (s.shape(1) && s.shape(1)->size() == 1) set_along_axis(s, (*s.shape(1))[0]);
}

// At most as many boxes of each batch and class as an input says.
void suppression(Step& s) {
  if (!s.shape(0) || !s.shape(1) || s.shape(0)->size() != 3 || s.shape(1)->size() != 3) return;
  Shape lists = {(*s.shape(1))[0], (*s.shape(1))[1], (*s.shape(0))[1]};
  const auto given = s.numbers(2);
  if (given && given->size() == 1) {
    const auto boxes = s.extents.range(lists[2]);
    if (boxes && (*given)[0] < boxes->max) lists[2] = std::max<int64_t>((*given)[0], 0);
  }
  const auto found = found_size(s, 0, s.extents.product(lists));
  if (found) s.set(0, DataType::Int64, Shape{*found, 3});
}

}  // namespace

const Rules& choice_rules() {
  static const Rules kRules = {{"Resize", resize},
                               {"Upsample", resize},
                               {"GatherElements", gather_elements},
                               {"GatherND", gather_nd},
                               {"TopK", top_k},
                               {"OneHot", one_hot},
                               {"DepthToSpace", regroup_depth},
                               {"SpaceToDepth", regroup_depth},
                               {"Loop", loop},
                               {"Scan", scan},
                               {"EyeLike", eye_like},
                               {"AffineGrid", affine_grid},
                               {"CenterCropPad", center},
                               {"Col2Im", col2im},
                               {"GridSample", grid_sample},
                               {"RoiAlign", roi_align},
                               {"DeformConv", deformed_convolution},
                               {"Einsum", einsum},
                               {"DFT", dft},
                               {"STFT", stft},
                               {"NonZero", nonzero},
                               {"Unique", unique},
                               {"Compress", compress},
                               {"NonMaxSuppression", suppression},
                               {"LSTM", recurrent},
                               {"GRU", recurrent},
                               {"RNN", recurrent}};
  return kRules;
}

}  // namespace tilewright::onnx
