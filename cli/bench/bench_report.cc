#include "cli/bench/bench_report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/gpu.h"
#include "cli/output/dispatch.h"
#include "cli/output/progress.h"
#include "cli/output/table.h"
#include "ir/ops/spec.h"
#include "tuner/backend.h"
#include "tuner/measure/roofline.h"

namespace tilewright::cli {
namespace {

using Json = nlohmann::ordered_json;

Json row_json(const BenchRow& row, const Target& target, int threads) {
  Json j = {{"spec", spec_to_inline(parse_spec(row.workload->canonical))},
            {"name", row.workload->label},
            {"threads", threads}};
  if (!row.sizes.empty()) j["dims"] = row.sizes;
  add_range(j, row.range);
  if (!row.miss.empty()) {
    j["miss"] = row.miss;
    return j;
  }
  for (const auto& [kind, found] : row.kinds) {
    j["kinds"][kind] =
        found.fault.empty() ? Json{{"seconds", found.seconds}} : Json{{"fault", found.fault}};
  }
  if (!row.fault.empty()) {
    j["fault"] = row.fault;
    return j;
  }
  if (!row.near.empty()) j["near"] = row.near;
  if (!row.passed_over.empty()) j["passed_over"] = row.passed_over;
  j["seconds"] = row.seconds;
  j["gflops"] = row.sized.flops / row.seconds * 1e-9;
  const RooflineShare share = roofline_share(row.sized, as_measured(target), threads, row.seconds);
  j["roofline_fraction"] = share.fraction;
  if (!share.cause.empty()) j["roofline_cause"] = share.cause;
  j["default_seconds"] = row.default_seconds > 0 ? Json(row.default_seconds) : Json(nullptr);
  if (Backend::of(target).only_predicts()) j["predicted"] = row.predicted;
  Json peers = Json::object(), ratio = Json::object();
  for (const auto& [name, peer] : row.peers) {
    peers[name] = {{"seconds", peer.seconds}};
    if (!peer.note.empty()) peers[name]["note"] = peer.note;
    peers[name]["counts"] = peer.counts();
    if (peer.reference) peers[name]["reference"] = true;
    if (peer.difference) peers[name]["difference"] = *peer.difference;
    if (row.disturbed.empty()) ratio[name] = peer.seconds / row.seconds;
  }
  j["disturbed"] = !row.disturbed.empty();
  if (!row.disturbed.empty()) j["disturbance"] = row.disturbed;
  j["peers"] = peers;
  j["ratio"] = ratio;
  j["absent"] = row.absent;
  return j;
}

// The implementations that a peer ran, with their numbers of rows, most first.
std::vector<std::pair<int, std::string>> notes_of(const BenchReport& report,
                                                  const std::string& peer) {
  std::map<std::string, int> rows;
  for (const BenchRow& row : report.rows) {
    auto it = row.peers.find(peer);
    if (it != row.peers.end() && !it->second.note.empty()) ++rows[it->second.note];
  }
  std::vector<std::pair<int, std::string>> notes;
  for (const auto& [note, count] : rows) notes.emplace_back(count, note);
  std::stable_sort(notes.begin(), notes.end(), [](auto& a, auto& b) { return a.first > b.first; });
  return notes;
}

// The geometric mean of a peer's ratios.
struct Mean {
  double logs = 0;
  int count = 0;

  std::string text() const { return count ? fmt::format("{:.2f}x", std::exp(logs / count)) : "-"; }
};

void add_row(Table& table, const BenchReport& report, const BenchRow& row, const Target& target,
             int threads, std::map<std::string, Mean>& means) {
  std::string name = spec_to_inline(parse_spec(row.sized.canonical));
  if (!row.workload->label.empty()) name.insert(0, row.workload->label + " ");
  if (!row.miss.empty() || !row.fault.empty()) {
    std::vector<std::string> cells(5 + report.peers.size(), "-");
    cells[0] = name;
    table.row(std::move(cells));
    table.note(row.fault.empty() ? "miss: " + row.miss : "wrong: " + row.fault);
    return;
  }
  std::string gain =
      row.default_seconds > 0 ? fmt::format("{:.1f}x", row.default_seconds / row.seconds) : "-";
  if (!row.disturbed.empty()) gain = "disturbed";
  const RooflineShare share = roofline_share(row.sized, as_measured(target), threads, row.seconds);
  std::vector<std::string> cells = {name, readable_seconds(row.seconds),
                                    fmt::format("{:.1f}", row.sized.flops / row.seconds * 1e-9),
                                    fmt::format("{:.0f}%", 100 * share.fraction), gain};
  for (const auto& [peer, version] : report.peers) {
    auto it = row.peers.find(peer);
    if (it == row.peers.end()) {
      cells.emplace_back("-");
    } else if (!it->second.counts()) {
      cells.emplace_back(it->second.reference ? "reference" : "differs");
    } else if (!row.disturbed.empty()) {
      cells.emplace_back("disturbed");
    } else {
      const double ratio = it->second.seconds / row.seconds;
      means[peer].logs += std::log(ratio);
      ++means[peer].count;
      cells.push_back(fmt::format("{:.2f}x", ratio));
    }
  }
  table.row(std::move(cells));
  if (!share.cause.empty()) table.note("above the roofline: " + share.cause);
  if (!row.disturbed.empty()) table.note("disturbed: " + row.disturbed);
  if (!row.near.empty()) table.note("near: " + row.near);
  if (!row.passed_over.empty()) table.note("default: " + row.passed_over);
  for (const auto& [kind, found] : row.kinds) {
    table.note(found.fault.empty() ? fmt::format("{}: {}", kind, readable_seconds(found.seconds))
                                   : fmt::format("{}: wrong: {}", kind, found.fault));
  }
  if (row.range) {
    table.note(fmt::format("kernel {} of range {}", row.range->record.substr(0, 8),
                           range_text(row.range)));
  }
}

}  // namespace

bool BenchReport::any_wrong() const {
  return std::any_of(rows.begin(), rows.end(), [](const BenchRow& r) { return !r.fault.empty(); });
}

Json json_of(const BenchReport& report, const Target& target, int threads) {
  Json list = Json::array(), versions = Json::object();
  for (const BenchRow& row : report.rows) list.push_back(row_json(row, target, threads));
  for (const auto& [name, version] : report.peers) versions[name] = version;
  return {{"results", list}, {"peers", versions}};
}

void print_table(const BenchReport& report, const Target& target, int threads) {
  std::vector<std::string> heads = {"workload", "time", "GFLOP/s", "roof", "default"};
  for (const auto& [name, version] : report.peers) heads.push_back(name);
  Table table(heads);
  std::map<std::string, Mean> means;
  for (const BenchRow& row : report.rows) add_row(table, report, row, target, threads, means);
  std::vector<std::string> last = {"geometric mean", "", "", "", ""};
  for (const auto& [name, version] : report.peers) last.push_back(means[name].text());
  if (!report.peers.empty()) table.row(last);
  fmt::print("{}", table.text(terminal_width(STDOUT_FILENO)));
  if (!report.peers.empty()) fmt::print("default, baselines: above 1 Tilewright is faster\n");
  for (const auto& [name, version] : report.peers) {
    fmt::print("{}: {}\n", name, version);
    for (const auto& [rows, note] : notes_of(report, name)) {
      fmt::print("  {} ({} workload{})\n", note, rows, rows == 1 ? "" : "s");
    }
  }
}

}  // namespace tilewright::cli
