#include "tuner/fleet/trial_message.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <span>

#include "base/base64.h"
#include "base/utf8.h"
#include "database/trust/trust.h"
#include "tuner/fleet/place.h"

namespace tilewright {
namespace {

using nlohmann::json;

constexpr size_t kLongestReason = 16 << 10, kMostSamples = 100'000, kMostRoundsTold = 1000;
constexpr size_t kLargestObject = size_t{32} << 20;

std::string dumped(const json& j) { return j.dump(-1, ' ', false, json::error_handler_t::replace); }

// JSON has no infinity.
json finite_or_null(double x) { return std::isfinite(x) ? json(x) : json(nullptr); }
double infinity_or(const json& j) {
  return j.is_null() ? std::numeric_limits<double>::infinity() : j.get<double>();
}

json points_json(const std::vector<SizePoint>& points) {
  json list = json::array();
  for (const SizePoint& p : points) {
    list.push_back({{"dims", p.dims}, {"cutoff", finite_or_null(p.cutoff_seconds)}});
  }
  return list;
}

json context_json(const JobContext& c) {
  const MeasureOptions& o = c.options;
  json spread = json::object();
  for (const auto& [hash, operands] : o.spread) {
    spread[hash] = {{"names", operands.names}, {"bytes", operands.bytes}};
  }
  return {{"workload", c.workload},
          {"threads", o.threads},
          {"seed", o.seed},
          {"timeout", o.timeout_seconds},
          {"default_timeout", o.default_timeout_seconds},
          {"compile", o.compile_seconds},
          {"cold", o.cold},
          {"memory", o.memory_limit},
          {"spread", spread},
          {"seconds_left", finite_or_null(c.seconds_left)}};
}

JobContext context_from(const json& j) {
  JobContext c;
  j.at("workload").get_to(c.workload);
  j.at("threads").get_to(c.options.threads);
  j.at("seed").get_to(c.options.seed);
  j.at("timeout").get_to(c.options.timeout_seconds);
  j.at("default_timeout").get_to(c.options.default_timeout_seconds);
  j.at("compile").get_to(c.options.compile_seconds);
  j.at("cold").get_to(c.options.cold);
  j.at("memory").get_to(c.options.memory_limit);
  for (const auto& [hash, operands] : j.at("spread").items()) {
    operands.at("names").get_to(c.options.spread[hash].names);
    operands.at("bytes").get_to(c.options.spread[hash].bytes);
  }
  c.options.builders = 1;  // a worker has one candidate at a time
  c.seconds_left = infinity_or(j.at("seconds_left"));
  return c;
}

json spent_json(const SecondsSpent& s) {
  json j = json::object();
  for (const auto& [name, part] : kSpentParts) j[name] = s.*part;
  return j;
}

double seconds_from(const json& j, const char* key) {
  if (!j.at(key).is_number()) throw FleetError(fmt::format("'{}' is no number", key));
  const double seconds = j.at(key);
  if (!std::isfinite(seconds) || seconds < 0 || seconds > 1e6) {
    throw FleetError(fmt::format("'{}' is {}, which is no time", key, seconds));
  }
  return seconds;
}

SecondsSpent spent_from(const json& j) {
  SecondsSpent spent;
  for (const auto& [name, part] : kSpentParts) spent.*part = seconds_from(j, name);
  return spent;
}

// Each is finite and not negative; 0 stands for one that was not measured.
std::vector<double> times_from(const json& j, const char* key, size_t most) {
  const json& list = j.at(key);
  if (!list.is_array() || list.size() > most) {
    throw FleetError(fmt::format("'{}' is no list of at most {} times", key, most));
  }
  std::vector<double> times;
  for (const json& entry : list) times.push_back(seconds_from({{key, entry}}, key));
  return times;
}

std::string text_from(const json& j, const char* key, size_t most) {
  if (!j.at(key).is_string()) throw FleetError(fmt::format("'{}' is no text", key));
  std::string text = to_utf8(j.at(key).get<std::string>());
  if (text.size() > most) throw FleetError(fmt::format("'{}' is longer than {} bytes", key, most));
  return text;
}

// The bytes, if they are those of the hash and the length.
std::string object_from(const json& j) {
  if (j.at("bytes").get<uint64_t>() > kLargestObject) throw FleetError("an object of that size");
  const auto bytes = from_base64(j.at("data").get_ref<const std::string&>());
  if (!bytes || bytes->size() != j.at("bytes") || sha256_of(*bytes) != j.at("sha256")) {
    throw FleetError("an object that is not what its length and hash say");
  }
  return *bytes;
}

void check_times(const Measurement& m, const TrialJob& job) {
  const bool valid = m.verdict == TrialVerdict::Valid;
  if (!valid) {
    if (m.median != 0 || !m.object.empty()) throw FleetError("a failure with a time or an object");
    return;
  }
  const auto [least, most] = std::ranges::minmax_element(m.samples);
  if (m.samples.empty() || *least <= 0) throw FleetError("a valid trial without samples");
  if (m.median < *least || m.median > *most) {
    throw FleetError(
        fmt::format("a median of {} s beside samples from {} to {} s", m.median, *least, *most));
  }
  if (m.at_points.size() != job.points.size()) {
    throw FleetError(
        fmt::format("times at {} sizes, the job has {}", m.at_points.size(), job.points.size()));
  }
}

}  // namespace

std::string sha256_of(const std::string& bytes) {
  return database::sha256(std::as_bytes(std::span(bytes)));
}

std::string to_json(const JobContext& context) { return dumped(context_json(context)); }

std::string to_json(const TrialJob& job) {
  return dumped({{"context", context_json(job.context)},
                 {"sketch", job.sketch},
                 {"version", job.sketch_version},
                 {"config", job.config},
                 {"fingerprint", job.fingerprint},
                 {"default", job.is_default},
                 {"best", job.best_seconds},
                 {"points", points_json(job.points)}});
}

TrialJob trial_job_from(const json& j) {
  TrialJob job;
  job.context = context_from(j.at("context"));
  j.at("sketch").get_to(job.sketch);
  j.at("version").get_to(job.sketch_version);
  j.at("config").get_to(job.config);
  j.at("fingerprint").get_to(job.fingerprint);
  j.at("default").get_to(job.is_default);
  j.at("best").get_to(job.best_seconds);
  for (const json& point : j.at("points")) {
    job.points.push_back({point.at("dims"), infinity_or(point.at("cutoff"))});
  }
  return job;
}

std::string to_json(const CompareJob& job) {
  json kernels = json::array();
  for (const CompareJob::Kernel& k : job.kernels) {
    kernels.push_back({{"sha256", k.sha256},
                       {"description", k.description},
                       {"cuda", k.cuda},
                       {"median", k.median}});
  }
  return dumped({{"context", context_json(job.context)},
                 {"kernels", kernels},
                 {"sizes", job.sizes},
                 {"rounds", job.rounds}});
}

CompareJob compare_job_from(const json& j) {
  CompareJob job;
  job.context = context_from(j.at("context"));
  for (const json& kernel : j.at("kernels")) {
    job.kernels.push_back(
        {kernel.at("sha256"), kernel.at("description"), kernel.at("cuda"), kernel.at("median")});
  }
  j.at("sizes").get_to(job.sizes);
  j.at("rounds").get_to(job.rounds);
  return job;
}

std::string to_json(const TrialAnswer& answer) {
  const Measurement& m = answer.measurement;
  json j = {{"verdict", database::verdict_name(m.verdict)},
            {"reason", to_utf8(m.reason.substr(0, kLongestReason / 4))},
            {"samples", m.samples},
            {"median", m.median},
            {"at_points", m.at_points},
            {"max_rel_error", m.max_rel_error},
            {"in_full", m.in_full},
            {"compiler", m.compiler},
            {"left_out", answer.left_out},
            {"spent", spent_json(answer.spent)}};
  if (!m.object.empty()) {
    j["object"] = {{"sha256", sha256_of(m.object)},
                   {"bytes", m.object.size()},
                   {"data", to_base64(m.object)},
                   {"cuda", m.cuda}};
  }
  return dumped(j);
}

TrialAnswer trial_answer_from(const json& j, const TrialJob& job) {
  TrialAnswer answer;
  Measurement& m = answer.measurement;
  const auto verdict = database::verdict_from_name(text_from(j, "verdict", 20));
  if (!verdict) throw FleetError("an unknown verdict");
  m.verdict = *verdict;
  m.reason = text_from(j, "reason", kLongestReason);
  m.samples = times_from(j, "samples", kMostSamples);
  m.median = seconds_from(j, "median");
  m.at_points = times_from(j, "at_points", job.points.size());
  m.max_rel_error = j.at("max_rel_error").is_null() ? 0 : j.at("max_rel_error").get<double>();
  m.in_full = j.at("in_full");
  m.compiler = text_from(j, "compiler", 1000);
  answer.left_out = j.at("left_out");
  answer.spent = spent_from(j.at("spent"));
  if (j.contains("object")) {
    m.object = object_from(j["object"]);
    m.cuda = j["object"].at("cuda");
  }
  if (answer.left_out && m.verdict != TrialVerdict::Illegal) {
    throw FleetError("a trial that was left out and has a verdict");
  }
  if (!answer.left_out && m.verdict == TrialVerdict::Illegal && m.reason.empty()) {
    throw FleetError("an illegal trial without a reason");
  }
  check_times(m, job);
  return answer;
}

std::string to_json(const CompareAnswer& answer) {
  json j = {{"spent", spent_json(answer.spent)}};
  if (answer.at_sizes) {
    j["seconds"] = answer.at_sizes->seconds;
    j["rows"] = answer.at_sizes->rows;
  } else {
    j["medians"] = answer.comparison.medians;
    j["rounds"] = answer.comparison.rounds;
    j["disturbed"] = answer.comparison.disturbed;
    j["tied"] = answer.comparison.tied;
    j["behind"] = answer.comparison.behind;
  }
  return dumped(j);
}

CompareAnswer compare_answer_from(const json& j, const CompareJob& job) {
  CompareAnswer answer;
  answer.spent = spent_from(j.at("spent"));
  const size_t kernels = job.kernels.size();
  const auto list_of = [&](const char* key) -> const json& {
    if (!j.at(key).is_array() || j.at(key).size() != kernels) {
      throw FleetError(fmt::format("'{}' is no list of {} entries", key, kernels));
    }
    return j.at(key);
  };
  if (!job.sizes.empty()) {
    SizeComparison& found = answer.at_sizes.emplace();
    for (const json& entry : list_of("seconds")) {
      found.seconds.push_back(times_from({{"seconds", entry}}, "seconds", job.sizes.size()));
      if (found.seconds.back().size() != job.sizes.size()) throw FleetError("too few times");
    }
    for (const json& entry : list_of("rows")) {
      found.rows.push_back(text_from({{"rows", entry}}, "rows", kLongestReason));
    }
    return answer;
  }
  list_of("medians");
  answer.comparison.medians = times_from(j, "medians", kernels);
  for (const json& entry : list_of("rounds")) {
    answer.comparison.rounds.push_back(times_from({{"rounds", entry}}, "rounds", kMostRoundsTold));
  }
  answer.comparison.disturbed = text_from(j, "disturbed", kLongestReason);
  for (const json& entry : list_of("tied")) answer.comparison.tied.push_back(entry.get<bool>());
  for (const json& entry : list_of("behind")) {
    answer.comparison.behind.push_back(entry.get<double>());
    if (!(answer.comparison.behind.back() >= -1)) throw FleetError("'behind' is no share");
  }
  for (size_t k = 0; k < kernels; ++k) {
    if (answer.comparison.tied[k] && answer.comparison.medians[k] <= 0) {
      throw FleetError("a kernel without a time cannot be among the fastest");
    }
  }
  return answer;
}

}  // namespace tilewright
