#include "cli/output/dispatch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tilewright::cli {
namespace {

using Json = nlohmann::ordered_json;
using Lines = std::vector<std::string>;
using database::DispatchPoint;
using database::DispatchRange;
using database::DispatchTable;

// Seconds of a record at a point; 0: it was not measured there.
double seconds_of(const DispatchPoint& point, const std::string& record) {
  const auto found = point.seconds.find(record);
  return found == point.seconds.end() ? 0 : found->second;
}

Json seconds_json(double seconds) { return seconds > 0 ? Json(seconds) : Json(nullptr); }

// With one dimension, the size alone.
Json size_json(const database::Sizes& sizes) {
  return sizes.size() == 1 ? Json(sizes.begin()->second) : Json(sizes);
}

// Whether the table was learnt from what a model says.
bool is_predicted(const database::DispatchResult& dispatch) {
  return std::any_of(dispatch.kernels.begin(), dispatch.kernels.end(),
                     [](const auto& kernel) { return kernel.second.record.offline; });
}

Json table_json(const DispatchTable& table, bool predicted) {
  const std::string prefix = predicted ? "predicted_" : "";
  Json ranges = Json::array(), points = Json::array();
  for (const DispatchRange& r : table.ranges) {
    ranges.push_back(
        {{"first", size_json(r.first)}, {"last", size_json(r.last)}, {"record", r.record}});
  }
  for (const DispatchPoint& p : table.points) {
    const DispatchRange* range = table.range_at(p.sizes);
    points.push_back(
        {{"size", size_json(p.sizes)},
         {"held_out", p.held_out},
         {prefix + "seconds", seconds_json(range ? seconds_of(p, range->record) : 0)},
         {prefix + "default_seconds", seconds_json(seconds_of(p, table.default_record))}});
  }
  Json j;
  if (table.dims.size() == 1) {
    j["dim"] = table.dims.front();
  } else {
    j["dims"] = table.dims;
  }
  j["one_order"] = table.one_order;
  j["predicted"] = predicted;
  j["ranges"] = ranges;
  j["points"] = points;
  return j;
}

// "8.1 to 42.0 times as fast as the untuned default at 5 sizes, 2 of them held out".
std::string evidence(const DispatchTable& table, const DispatchRange& range, bool predicted) {
  double least = 0, most = 0;
  int sizes = 0, held_out = 0;
  for (const DispatchPoint& p : table.points) {
    const double own = seconds_of(p, range.record), untuned = seconds_of(p, table.default_record);
    if (!range.holds(p.sizes) || own == 0 || untuned == 0) continue;
    const double gain = untuned / own;
    least = sizes == 0 ? gain : std::min(least, gain);
    most = std::max(most, gain);
    ++sizes;
    held_out += p.held_out ? 1 : 0;
  }
  if (sizes == 0) return "the untuned default was not measured there";
  return fmt::format(
      "{}{:.1f} to {:.1f} times as fast as the untuned default at {} sizes, {} of them "
      "held out",
      predicted ? "predicted, not measured: " : "", least, most, sizes, held_out);
}

// "m 17..64"; of several dimensions the sizes say their names themselves.
std::string named(const DispatchTable& table, const std::string& sizes) {
  return table.dims.size() == 1 ? table.dims.front() + " " + sizes : sizes;
}

Lines lines_of(const DispatchTable& table, bool predicted) {
  Lines lines;
  for (const DispatchRange& r : table.ranges) {
    lines.push_back(fmt::format("{}: kernel {}, {}", named(table, to_string(r)),
                                r.record.substr(0, 8), evidence(table, r, predicted)));
  }
  if (table.one_order) {
    lines.push_back(
        fmt::format("a row's bits do not depend on {}", fmt::join(table.dims, " and ")));
  }
  return lines;
}

}  // namespace

Json json_of(const database::DispatchResult& dispatch) {
  if (!dispatch.table) return nullptr;
  Json j = table_json(*dispatch.table, is_predicted(dispatch));
  for (Json& range : j["ranges"]) {
    const database::Record& record = dispatch.kernels.at(range["record"].get<std::string>()).record;
    range["sketch"] = record.sketch;
    range["config"] = Json::parse(record.config);
  }
  return j;
}

Json json_of(const DispatchOutcome& outcome) {
  if (!outcome.table) return outcome.note.empty() ? Json(nullptr) : Json{{"note", outcome.note}};
  Json j = table_json(*outcome.table, outcome.predicted);
  j["mended"] = Json::array();
  for (const database::Sizes& sizes : outcome.mended) j["mended"].push_back(size_json(sizes));
  return j;
}

std::string range_text(const std::optional<DispatchRange>& range) {
  return range ? to_string(*range) : std::string();
}

void add_range(Json& row, const std::optional<DispatchRange>& range) {
  if (!range) return;
  row["range"] = {{"first", size_json(range->first)}, {"last", size_json(range->last)}};
  row["record"] = range->record;
}

Lines dispatch_lines(const DispatchOutcome& outcome) {
  if (!outcome.note.empty()) return {"no dispatch table: " + outcome.note};
  if (!outcome.table) return {};
  Lines lines = lines_of(*outcome.table, outcome.predicted);
  for (const database::Sizes& sizes : outcome.mended) {
    lines.push_back(
        fmt::format("mended at {}, where the first choice was slower than the untuned default",
                    named(*outcome.table, database::to_string(sizes))));
  }
  return lines;
}

Lines dispatch_lines(const database::DispatchResult& dispatch) {
  return dispatch.table ? lines_of(*dispatch.table, is_predicted(dispatch)) : Lines();
}

}  // namespace tilewright::cli
