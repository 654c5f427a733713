#include "cli/report/report_baselines.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace tilewright::cli {
namespace {

using Json = nlohmann::ordered_json;

// A positive number, or 0 for null and for what is not there.
double stored_seconds(const Json& row, const char* key) {
  auto it = row.find(key);
  return it != row.end() && it->is_number() ? std::max(0.0, it->get<double>()) : 0;
}

std::string stored_text(const Json& row, const char* key) {
  auto it = row.find(key);
  return it != row.end() && it->is_string() ? it->get<std::string>() : "";
}

ReportBench bench_from(const Json& row) {
  ReportBench bench;
  bench.seconds = stored_seconds(row, "seconds");
  bench.default_seconds = stored_seconds(row, "default_seconds");
  bench.disturbed = stored_text(row, "disturbance");
  const Json peers = row.value("peers", Json::object());
  for (const auto& [name, peer] : peers.items()) {
    if (!peer.is_object() || stored_seconds(peer, "seconds") == 0) continue;
    const Json counts = peer.value("counts", Json(true));
    bench.baselines.push_back({name, stored_seconds(peer, "seconds"), stored_text(peer, "note"),
                               !counts.is_boolean() || counts.get<bool>()});
  }
  return bench;
}

void add_file(const std::string& file, ReportBenches& benches) {
  std::ifstream in(file);
  if (!in) throw UsageError(fmt::format("--bench: cannot read '{}'", file));
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const Json document = Json::parse(text, nullptr, false);
  const bool is_bench = document.is_object() && document.contains("peers") &&
                        document["peers"].is_object() && document.contains("results") &&
                        document["results"].is_array();
  if (!is_bench) {
    throw UsageError(fmt::format(
        "--bench: '{}' is no document of bench; 'tune-cli bench --json SPEC > FILE' writes one",
        file));
  }
  for (const auto& peer : document["peers"].items()) {
    const std::string& name = peer.key();
    const std::string words =
        peer.value().is_string() ? peer.value().get<std::string>() : std::string();
    const bool known = std::any_of(benches.versions.begin(), benches.versions.end(),
                                   [&](const auto& other) { return other.first == name; });
    if (!known) benches.versions.emplace_back(name, words);
  }
  for (const Json& row : document["results"]) {
    if (!row.is_object() || row.contains("dims") || stored_seconds(row, "seconds") == 0) continue;
    const Json threads = row.value("threads", Json());
    if (!threads.is_number_integer()) continue;
    benches.rows[{stored_text(row, "spec"), threads.get<int>()}] = bench_from(row);
  }
}

}  // namespace

ReportBenches read_benches(const std::vector<std::string>& files) {
  ReportBenches benches;
  for (const std::string& file : files) add_file(file, benches);
  return benches;
}

}  // namespace tilewright::cli
