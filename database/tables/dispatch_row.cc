#include "database/tables/dispatch_row.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "base/utf8.h"
#include "database/error.h"
#include "database/tables/convert.h"

namespace tilewright::database {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kBetweenDims = ' ';  // separator in the column `dim`

void require_table(bool condition, const std::string& message) {
  if (!condition) throw RecordError("the dispatch table " + message);
}

bool is_of(const Sizes& sizes, const std::vector<std::string>& dims) {
  return sizes.size() == dims.size() &&
         std::all_of(dims.begin(), dims.end(), [&](const auto& d) { return sizes.contains(d); });
}

void check_range(const DispatchTable& table, const DispatchRange& range) {
  require_table(is_of(range.first, table.dims) && is_of(range.last, table.dims),
                "has a range that does not say where it begins and ends in each of its dimensions");
  require_table(!range.record.empty(), "names no record for range " + to_string(range));
  for (const auto& [dim, first] : range.first) {
    require_table(first <= range.last.at(dim), "has the empty range " + to_string(range));
  }
}

void check_order(const DispatchTable& table) {
  const std::string& dim = table.dims.front();
  for (size_t i = 1; i < table.ranges.size(); ++i) {
    const int64_t next = table.ranges[i - 1].last.at(dim) + 1;
    require_table(table.ranges[i].first.at(dim) == next,
                  "has range " + to_string(table.ranges[i]) + " where one from " +
                      std::to_string(next) + " on was expected");
  }
}

bool overlap(const DispatchRange& a, const DispatchRange& b) {
  return std::all_of(a.first.begin(), a.first.end(), [&](const auto& first) {
    const std::string& dim = first.first;
    return first.second <= b.last.at(dim) && b.first.at(dim) <= a.last.at(dim);
  });
}

// The smallest box that holds all ranges.
DispatchRange hull_of(const DispatchTable& table) {
  DispatchRange hull = table.ranges.front();
  for (const DispatchRange& range : table.ranges) {
    for (auto& [dim, first] : hull.first) first = std::min(first, range.first.at(dim));
    for (auto& [dim, last] : hull.last) last = std::max(last, range.last.at(dim));
  }
  return hull;
}

// Adds the part of `box` outside `taken` to `outside`, cutting one dimension after another.
void cut(DispatchRange box, const DispatchRange& taken, std::vector<DispatchRange>& outside) {
  if (!overlap(box, taken)) return outside.push_back(std::move(box));
  for (const auto& [dim, first] : taken.first) {
    if (box.first.at(dim) < first) {
      outside.push_back(box);
      outside.back().last.at(dim) = first - 1;
      box.first.at(dim) = first;
    }
    const int64_t last = taken.last.at(dim);
    if (last < box.last.at(dim)) {
      outside.push_back(box);
      outside.back().first.at(dim) = last + 1;
      box.last.at(dim) = last;
    }
  }
}

// The part of the hull that no range holds.
std::vector<DispatchRange> gaps_in(const DispatchTable& table) {
  std::vector<DispatchRange> left = {hull_of(table)};
  for (const DispatchRange& range : table.ranges) {
    std::vector<DispatchRange> still;
    for (DispatchRange& box : left) cut(std::move(box), range, still);
    left = std::move(still);
  }
  return left;
}

void check_ranges(const DispatchTable& table) {
  require_table(!table.ranges.empty(), "has no ranges");
  for (const DispatchRange& range : table.ranges) check_range(table, range);
  if (table.dims.size() == 1) return check_order(table);
  for (size_t i = 0; i < table.ranges.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      require_table(!overlap(table.ranges[i], table.ranges[j]),
                    "has range " + to_string(table.ranges[i]) + ", which overlaps " +
                        to_string(table.ranges[j]));
    }
  }
  const std::vector<DispatchRange> gaps = gaps_in(table);
  require_table(gaps.empty(), "has no range for " + (gaps.empty() ? "" : to_string(gaps.front())));
}

// The sizes as a list, in the order of the table's dimensions.
std::vector<int64_t> in_order(const DispatchTable& table, const Sizes& sizes) {
  std::vector<int64_t> values;
  for (const std::string& dim : table.dims) values.push_back(sizes.at(dim));
  return values;
}

void check_points(const DispatchTable& table) {
  const DispatchRange hull = hull_of(table);
  for (size_t i = 0; i < table.points.size(); ++i) {
    const DispatchPoint& point = table.points[i];
    const std::string size = to_string(point.sizes);
    require_table(
        is_of(point.sizes, table.dims),
        "was measured at " + size + ", which does not say a size of each of its dimensions");
    require_table(hull.holds(point.sizes),
                  "was measured at " + size + ", which is outside " + to_string(hull));
    require_table(
        i == 0 || in_order(table, point.sizes) > in_order(table, table.points[i - 1].sizes),
        "has its measured points out of order at " + size);
    for (const auto& [record, seconds] : point.seconds) {
      require_table(std::isfinite(seconds) && seconds > 0,
                    "needs a finite time above 0 at " + size + ", got " + std::to_string(seconds));
    }
  }
}

void check_table(const DispatchTable& table) {
  require_table(!table.workload_hash.empty(), "names no workload");
  require_table(!table.target_hash.empty(), "names no target");
  require_table(!table.dims.empty(), "needs the name of a dimension");
  for (const std::string& dim : table.dims) {
    require_table(!dim.empty() && dim.find(kBetweenDims) == std::string::npos && is_utf8(dim),
                  "needs the names of its dimensions in UTF-8, without spaces");
  }
  require_table(std::set(table.dims.begin(), table.dims.end()).size() == table.dims.size(),
                "names a dimension twice");
  require_table(is_utf8(table.tool_version), "has a tool version that is not UTF-8");
  require_table(table.threads >= 1,
                "needs at least 1 thread, got " + std::to_string(table.threads));
  check_ranges(table);
  check_points(table);
}

// A number for one dimension, an object for several.
Json json_of(const DispatchTable& table, const Sizes& sizes) {
  if (table.dims.size() == 1) return sizes.at(table.dims.front());
  Json j = Json::object();
  for (const std::string& dim : table.dims) j[dim] = sizes.at(dim);
  return j;
}

Sizes sizes_from(const DispatchTable& table, const Json& json) {
  if (table.dims.size() == 1) return {{table.dims.front(), json.get<int64_t>()}};
  return json.get<Sizes>();
}

std::string dims_text(const DispatchTable& table) {
  std::string text;
  for (const std::string& dim : table.dims) {
    if (!text.empty()) text += kBetweenDims;
    text += dim;
  }
  return text;
}

std::vector<std::string> dims_from(const std::string& text) {
  std::vector<std::string> dims;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(kBetweenDims, begin), text.size());
    dims.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return dims;
}

std::string ranges_text(const DispatchTable& table) {
  Json list = Json::array();
  for (const DispatchRange& range : table.ranges) {
    list.push_back({{"first", json_of(table, range.first)},
                    {"last", json_of(table, range.last)},
                    {"record", range.record}});
  }
  return list.dump();
}

std::string points_text(const DispatchTable& table) {
  Json list = Json::array();
  for (const DispatchPoint& point : table.points) {
    list.push_back({{"size", json_of(table, point.sizes)},
                    {"held_out", point.held_out},
                    {"seconds", point.seconds}});
  }
  return list.dump();
}

int64_t integer(const Row& row, size_t column) { return std::get<int64_t>(row[column]); }

}  // namespace

Row dispatch_row(const DispatchTable& table) {
  check_table(table);
  return {table.workload_hash,    table.target_hash,
          int64_t{table.threads}, dims_text(table),
          ranges_text(table),     points_text(table),
          table.default_record,   int64_t{table.one_order},
          table.tool_version,     table.created != 0 ? table.created : now_microseconds()};
}

DispatchTable dispatch_from_row(const Row& row) {
  DispatchTable table;
  table.workload_hash = text_cell(row, 0);
  table.target_hash = text_cell(row, 1);
  table.threads = static_cast<int>(integer(row, 2));
  table.dims = dims_from(text_cell(row, 3));
  table.default_record = text_cell(row, 6);
  table.one_order = integer(row, 7) != 0;
  table.tool_version = text_cell(row, 8);
  table.created = integer(row, 9);
  try {
    for (const Json& range : Json::parse(text_cell(row, 4))) {
      table.ranges.push_back({sizes_from(table, range.at("first")),
                              sizes_from(table, range.at("last")),
                              range.at("record").get<std::string>()});
    }
    for (const Json& point : Json::parse(text_cell(row, 5))) {
      table.points.push_back({sizes_from(table, point.at("size")), point.at("held_out").get<bool>(),
                              point.at("seconds").get<std::map<std::string, double>>()});
    }
  } catch (const Json::exception& error) {
    throw RecordError(std::string("the dispatch table cannot be read: ") + error.what());
  }
  check_table(table);
  return table;
}

}  // namespace tilewright::database
