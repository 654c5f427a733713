// Expressions of whole models: elements of maps between their places, where values of a run say.
#include <fmt/format.h>

#include <functional>

#include "models/onnx/whole/index_expr.h"
#include "models/onnx/whole/whole.h"

namespace tilewright::onnx {
namespace {

// The two elements of an axis beside a place, as integers within it, and their shares.
struct Neighbours {
  std::string index, share;  // tensors [.., 2]
};

// Layers that make them: `place` is the text of a place over the axes of `sizes`, whose last one is that of the two
// neighbours. `zeros`: nothing is beyond the ends, in place of the last element.
Neighbours neighbours(const Mapping& m, const Node& node, const std::string& name,
                      const Sizes& sizes, int64_t size, bool zeros, bool nearest,
                      const std::function<std::string(IndexExpr&)>& place, Mapped* layers) {
  Neighbours made = {name + "/index", name + "/share"};
  auto low = [&](IndexExpr& e, const std::string& p) {
    return fmt::format("({}({}) + {})", nearest ? "round" : "floor", p, e.indices().back());
  };
  // Places that no integer holds are far outside.
  auto held = [&](IndexExpr& e) { return fmt::format("max(min({}, {}), -2)", place(e), size + 1); };
  IndexExpr index(m, node, made.index, sizes, ElemType::i32);
  index.accumulate(ElemType::f32);
  const std::string at = low(index, held(index));
  layers->push_back(
      index.finish(fmt::format("{} = max(min({}, {}), 0)", index.left(), at, size - 1)));
  IndexExpr share(m, node, made.share, sizes, ElemType::f32);
  const std::string p = held(share), own = low(share, p);
  std::string value = nearest ? fmt::format("(1 - {})", share.indices().back())
                              : fmt::format("(1 - abs({} - {}))", p, own);
  if (zeros) value = fmt::format("select({0} >= 0 && {0} < {1}, {2}, 0)", own, size, value);
  layers->push_back(share.finish(fmt::format("{} = {}", share.left(), value)));
  return made;
}

Mapped express_grid_sample(const Mapping& m, const Node& node) {
  const std::string &x = node.inputs.at(0), &grid = node.inputs.at(1), &name = node.outputs.at(0);
  const Sizes sizes = sizes_of_value(m, x), points = sizes_of_value(m, grid);
  const std::string mode = node.text("mode", "linear"), beyond = node.text("padding_mode", "zeros");
  const bool nearest = mode == "nearest";
  if (!nearest && mode != "linear" && mode != "bilinear") {
    throw NotMapped(fmt::format("its mode is {}", mode));
  }
  if (beyond != "zeros" && beyond != "border")
    throw NotMapped(fmt::format("its padding is {}", beyond));
  const size_t axes = sizes.size() - 2;
  if (axes < 1 || axes > 3 || points.size() != sizes.size()) throw NotMapped("it takes no images");
  const bool corners = node.integer("align_corners", 0) != 0, zeros = beyond == "zeros";
  Mapped layers;
  IndexExpr e(m, node);
  std::vector<std::pair<std::vector<std::string>, std::string>> parts = {{{"i0", "i1"}, ""}};
  for (size_t d = 0; d < axes; ++d) {
    const int64_t size = sizes[d + 2];
    Sizes two = points;
    two.back() = 2;
    auto place = [&](IndexExpr& of) {
      std::vector<std::string> at = of.indices();
      at.back() = std::to_string(axes - 1 - d);  // the last axis comes first
      const std::string g = of.at(grid, at);
      std::string p = corners ? fmt::format("(({} + 1) * {})", g, 0.5 * double(size - 1))
                              : fmt::format("(({} + 1) * {} - 0.5)", g, 0.5 * double(size));
      return zeros ? p : fmt::format("max(min({}, {}), 0)", p, size - 1);
    };
    const Neighbours n = neighbours(m, node, fmt::format("{}/{}", name, d), two, size, zeros,
                                    nearest, place, &layers);
    std::vector<std::pair<std::vector<std::string>, std::string>> longer;
    for (const auto& [indices, share] : parts) {
      for (const char* which : {"0", "1"}) {
        if (nearest && which[0] == '1') continue;
        std::vector<std::string> at = {"i0"};
        for (size_t a = 0; a < axes; ++a) at.push_back(e.indices().at(a + 2));
        at.emplace_back(which);
        longer.emplace_back(indices, share + " * " + e.made_at(n.share, two, ElemType::f32, at));
        longer.back().first.push_back(e.made_at(n.index, two, ElemType::i32, at));
      }
    }
    parts = std::move(longer);
  }
  std::string text;
  for (const auto& [indices, share] : parts) {
    text += (text.empty() ? "" : " + ") + e.at(x, indices) + share;
  }
  layers.push_back(e.finish(fmt::format("{} = {}", e.left(), text)));
  return layers;
}

// The mean of samples in each part of a region.
Mapped express_roi_align(const Mapping& m, const Node& node) {
  const std::string &x = node.inputs.at(0), &rois = node.inputs.at(1), &name = node.outputs.at(0);
  const Sizes sizes = sizes_of_value(m, x), regions = sizes_of_value(m, rois);
  const int64_t samples = node.integer("sampling_ratio", 0);
  if (node.text("mode", "avg") != "avg") throw NotMapped("it takes no means");
  if (samples < 1) throw NotMapped("the regions say how many samples it takes");
  const bool half =
      node.text("coordinate_transformation_mode",
                m.graph.opset(node) < 16 ? "output_half_pixel" : "half_pixel") == "half_pixel";
  const double scale = node.real("spatial_scale", 1);
  Mapped layers;
  IndexExpr e(m, node);
  const std::string r[] = {e.reduced(samples), e.reduced(samples)};
  std::vector<std::string> at[2], share[2];
  for (size_t d = 0; d < 2; ++d) {
    const int64_t size = sizes.at(d + 2), parts = e.sizes().at(d + 2);
    const Sizes two = {regions.at(0), parts * samples, 2};
    auto place = [&](IndexExpr& of) {
      const std::string begin = of.at(rois, {"i0", d == 0 ? "1" : "0"}),
                        end = of.at(rois, {"i0", d == 0 ? "3" : "2"});
      std::string length = fmt::format("({} - {}) * {}", end, begin, literal(scale));
      if (!half) length = fmt::format("max({}, 1)", length);
      const double step = 1.0 / static_cast<double>(parts * samples);
      const std::string p = fmt::format("({} * {} - {} + ({}) * (i1 + 0.5) * {})", begin,
                                        literal(scale), half ? "0.5" : "0", length, literal(step));
      // What is less than one element outside is at the end.
      return fmt::format("select({0} > -1 && {0} <= {1}, max(min({0}, {2}), 0), -2)", p, size,
                         size - 1);
    };
    const Neighbours n =
        neighbours(m, node, fmt::format("{}/{}", name, d), two, size, true, false, place, &layers);
    for (const char* which : {"0", "1"}) {
      const std::string sample = fmt::format("{} * {} + {}", e.indices()[d + 2], samples, r[d]);
      at[d].push_back(e.made_at(n.index, two, ElemType::i32, {"i0", sample, which}));
      share[d].push_back(e.made_at(n.share, two, ElemType::f32, {"i0", sample, which}));
    }
  }
  const std::string batch = e.at(node.inputs.at(2), {"i0"});
  std::string text;
  for (size_t a = 0; a < 2; ++a) {
    for (size_t b = 0; b < 2; ++b) {
      text += fmt::format("{}{} * {} * {}", text.empty() ? "" : " + ",
                          e.at(x, {batch, "i1", at[0][a], at[1][b]}), share[0][a], share[1][b]);
    }
  }
  layers.push_back(e.finish(fmt::format("{} += {}; {} = {} / {}", e.left("S"), text, e.left(),
                                        e.left("S"), samples * samples)));
  return layers;
}

// A convolution whose window's elements stand where offsets say, each times its mask.
Mapped express_deformed_convolution(const Mapping& m, const Node& node) {
  const std::string &x = node.inputs.at(0), &weight = node.inputs.at(1),
                    &offsets = node.inputs.at(2), &name = node.outputs.at(0);
  const Sizes sizes = sizes_of_value(m, x), kernel = sizes_of_value(m, weight),
              given = sizes_of_value(m, offsets);
  if (sizes.size() != 4 || kernel.size() != 4 || given.size() != 4)
    throw NotMapped("it takes no images");
  const int64_t groups = node.integer("group", 1), sets = node.integer("offset_group", 1);
  const int64_t places = kernel[2] * kernel[3];
  if (groups < 1 || sets < 1 || sizes[1] % sets != 0 || kernel[0] % groups != 0 ||
      kernel[1] * groups != sizes[1] || given[1] != 2 * sets * places) {
    throw NotMapped("its groups or its offsets do not fit its weight");
  }
  const Sizes ones(2, 1), strides = node.integers("strides").value_or(ones),
                          dilations = node.integers("dilations").value_or(ones),
                          pads = node.integers("pads").value_or(Sizes(4, 0));
  Mapped layers;
  Neighbours beside[2];
  // [batch, set, place in the window, row, column, neighbour]
  const Sizes samples = {given[0], sets, places, given[2], given[3]};
  Sizes two = samples;
  two.push_back(2);
  for (size_t d = 0; d < 2; ++d) {
    const auto place = [&](IndexExpr& e) {
      const std::string row =
          d == 0 ? fmt::format("i2 // {}", kernel[3]) : fmt::format("i2 % {}", kernel[3]);
      return fmt::format(
          "({} * {} - {} + {} * {} + {})", d == 0 ? "i3" : "i4", strides.at(d), pads.at(d), row,
          dilations.at(d),
          e.at(offsets, {"i0", fmt::format("i1 * {} + i2 * 2 + {}", 2 * places, d), "i3", "i4"}));
    };
    beside[d] = neighbours(m, node, fmt::format("{}/{}", name, d), two, sizes[d + 2], true, false,
                           place, &layers);
  }
  // [batch, channel, place in the window, row, column]
  const Sizes columns = {given[0], sizes[1], places, given[2], given[3]};
  IndexExpr v(m, node, name + "/columns", columns, m.elem(x));
  const std::string set = sets == 1 ? "0" : fmt::format("i1 // {}", sizes[1] / sets);
  std::string text;
  for (const char* a : {"0", "1"}) {
    for (const char* b : {"0", "1"}) {
      const std::vector<std::string> first = {"i0", set, "i2", "i3", "i4", a},
                                     second = {"i0", set, "i2", "i3", "i4", b};
      text +=
          fmt::format("{}{} * {} * {}", text.empty() ? "" : " + ",
                      v.at(x, {"i0", "i1", v.made_at(beside[0].index, two, ElemType::i32, first),
                               v.made_at(beside[1].index, two, ElemType::i32, second)}),
                      v.made_at(beside[0].share, two, ElemType::f32, first),
                      v.made_at(beside[1].share, two, ElemType::f32, second));
    }
  }
  if (node.has_input(4)) {
    const std::string place = sets == 1 ? "i2" : fmt::format("{} * {} + i2", set, places);
    text = fmt::format("({}) * {}", text, v.at(node.inputs[4], {"i0", place, "i3", "i4"}));
  }
  layers.push_back(v.finish(fmt::format("{} = {}", v.left(), text)));
  IndexExpr e(m, node);
  const std::string c = e.reduced(kernel[1]), p = e.reduced(places);
  const std::string channel =
      groups == 1 ? c : fmt::format("i1 // {} * {} + {}", kernel[0] / groups, kernel[1], c);
  const std::string w =
      e.made_at(weight, {kernel[0], kernel[1], places}, m.elem(weight), {"i1", c, p});
  const std::string product =
      fmt::format("{} * {}", w,
                  e.made_at(name + "/columns", columns, m.elem(x), {"i0", channel, p, "i2", "i3"}));
  if (m.graph.value(weight).constant) e.mark_weight(weight);
  if (!node.has_input(3)) {
    layers.push_back(e.finish(fmt::format("{} += {}", e.left(), product)));
    return layers;
  }
  const std::string bias = e.at(node.inputs[3], {"i1"});
  layers.push_back(
      e.finish(fmt::format("{0} += {1}; {2} = {0} + {3}", e.left("S"), product, e.left(), bias)));
  return layers;
}

// The first rows of each sequence backwards, as many as it is long.
Mapped express_reverse_sequence(const Mapping& m, const Node& node) {
  IndexExpr e(m, node);
  const size_t time = checked_axis(node.integer("time_axis", 0), e.sizes().size());
  const size_t batch = checked_axis(node.integer("batch_axis", 1), e.sizes().size());
  const std::string length = e.at(node.inputs.at(1), {e.indices()[batch]});
  const std::string own = e.at(node.inputs.at(0), e.indices());
  std::vector<std::string> at = e.indices();
  at[time] = fmt::format("{} - 1 - {}", length, e.indices()[time]);
  return {e.finish(fmt::format("{} = select({} < {}, {}, {})", e.left(), e.indices()[time], length,
                               e.at(node.inputs[0], at), own))};
}

}  // namespace

const MapFns& whole_sampling_mappings() {
  static const MapFns kMappings = {{"GridSample", express_grid_sample},
                                   {"RoiAlign", express_roi_align},
                                   {"DeformConv", express_deformed_convolution},
                                   {"ReverseSequence", express_reverse_sequence}};
  return kMappings;
}

}  // namespace tilewright::onnx
