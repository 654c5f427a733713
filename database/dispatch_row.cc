#include "database/dispatch_row.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "database/convert.h"
#include "database/error.h"
#include "ir/utf8.h"

namespace tilewright::database {
namespace {

using Json = nlohmann::ordered_json;

void require(bool condition, const std::string& message) {
  if (!condition) throw RecordError("the dispatch table " + message);
}

void check_ranges(const DispatchTable& table) {
  require(!table.ranges.empty(), "has no ranges");
  for (size_t i = 0; i < table.ranges.size(); ++i) {
    const DispatchRange& range = table.ranges[i];
    const std::string name =
        "range " + std::to_string(range.first) + ".." + std::to_string(range.last);
    require(!range.record.empty(), "names no record for " + name);
    require(range.first <= range.last, "has the empty " + name);
    if (i == 0) continue;
    const int64_t next = table.ranges[i - 1].last + 1;
    require(range.first == next,
            "has " + name + " where one from " + std::to_string(next) + " on was expected");
  }
}

void check_points(const DispatchTable& table) {
  const int64_t first = table.ranges.front().first, last = table.ranges.back().last;
  for (size_t i = 0; i < table.points.size(); ++i) {
    const DispatchPoint& point = table.points[i];
    const std::string size = std::to_string(point.size);
    require(point.size >= first && point.size <= last,
            "was measured at " + size + ", which is outside " + std::to_string(first) + ".." +
                std::to_string(last));
    require(i == 0 || point.size > table.points[i - 1].size,
            "has its measured points out of order at " + size);
    for (const auto& [record, seconds] : point.seconds) {
      require(std::isfinite(seconds) && seconds > 0,
              "needs a finite time above 0 at " + size + ", got " + std::to_string(seconds));
    }
  }
}

void check_table(const DispatchTable& table) {
  require(!table.workload_hash.empty(), "names no workload");
  require(!table.target_hash.empty(), "names no target");
  require(!table.dim.empty() && is_utf8(table.dim), "needs the name of its dimension in UTF-8");
  require(is_utf8(table.tool_version), "has a tool version that is not UTF-8");
  require(table.threads >= 1, "needs at least 1 thread, got " + std::to_string(table.threads));
  check_ranges(table);
  check_points(table);
}

std::string ranges_text(const DispatchTable& table) {
  Json list = Json::array();
  for (const DispatchRange& range : table.ranges) {
    list.push_back({{"first", range.first}, {"last", range.last}, {"record", range.record}});
  }
  return list.dump();
}

std::string points_text(const DispatchTable& table) {
  Json list = Json::array();
  for (const DispatchPoint& point : table.points) {
    list.push_back(
        {{"size", point.size}, {"held_out", point.held_out}, {"seconds", point.seconds}});
  }
  return list.dump();
}

const std::string& text(const Row& row, size_t column) {
  return std::get<std::string>(row[column]);
}

int64_t integer(const Row& row, size_t column) { return std::get<int64_t>(row[column]); }

}  // namespace

Row dispatch_row(const DispatchTable& table) {
  check_table(table);
  return {table.workload_hash,    table.target_hash,
          int64_t{table.threads}, table.dim,
          ranges_text(table),     points_text(table),
          table.default_record,   int64_t{table.one_order},
          table.tool_version,     table.created != 0 ? table.created : now_microseconds()};
}

DispatchTable dispatch_from_row(const Row& row) {
  DispatchTable table;
  table.workload_hash = text(row, 0);
  table.target_hash = text(row, 1);
  table.threads = static_cast<int>(integer(row, 2));
  table.dim = text(row, 3);
  table.default_record = text(row, 6);
  table.one_order = integer(row, 7) != 0;
  table.tool_version = text(row, 8);
  table.created = integer(row, 9);
  try {
    for (const Json& range : Json::parse(text(row, 4))) {
      table.ranges.push_back({range.at("first").get<int64_t>(), range.at("last").get<int64_t>(),
                              range.at("record").get<std::string>()});
    }
    for (const Json& point : Json::parse(text(row, 5))) {
      table.points.push_back({point.at("size").get<int64_t>(), point.at("held_out").get<bool>(),
                              point.at("seconds").get<std::map<std::string, double>>()});
    }
  } catch (const Json::exception& error) {
    throw RecordError(std::string("the dispatch table cannot be read: ") + error.what());
  }
  check_table(table);
  return table;
}

}  // namespace tilewright::database
