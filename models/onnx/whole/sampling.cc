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
                                   {"ReverseSequence", express_reverse_sequence}};
  return kMappings;
}

}  // namespace tilewright::onnx
