#include <cmath>
#include <nlohmann/json.hpp>

#include "base/base64.h"
#include "base/error.h"
#include "runtime/worker/jobs.h"

namespace tilewright {
namespace {

using nlohmann::json;

std::string dump(const json& j) { return j.dump(-1, ' ', false, json::error_handler_t::replace); }

// Runs `read` on the parsed text; its complaints name `what`.
template <class F>
auto parse(const char* what, const std::string& text, F&& read) {
  try {
    return read(json::parse(text));
  } catch (const json::exception& e) {
    throw Error(std::string(what) + ": " + e.what());
  }
}

std::string bytes_of(const json& j, const char* key) {
  std::optional<std::string> bytes = from_base64(j.at(key).get<std::string>());
  if (!bytes) throw Error(std::string("key '") + key + "' is no base64");
  return std::move(*bytes);
}

json timing_options_to_json(const TimingOptions& t) {
  json j = {{"cold", t.cache == CacheState::Cold}, {"relative_ci", t.relative_ci},
            {"min_samples", t.min_samples},        {"min_seconds", t.min_seconds},
            {"max_samples", t.max_samples},        {"max_seconds", t.max_seconds},
            {"sample_seconds", t.sample_seconds},  {"warmup_seconds", t.warmup_seconds}};
  if (std::isfinite(t.cutoff_seconds)) j["cutoff_seconds"] = t.cutoff_seconds;
  if (std::isfinite(t.lone_run_seconds)) j["lone_run_seconds"] = t.lone_run_seconds;
  if (t.attempts > 1) j["attempts"] = t.attempts;
  return j;
}

TimingOptions timing_options_from_json(const json& j) {
  TimingOptions t;
  t.cache = j.at("cold").get<bool>() ? CacheState::Cold : CacheState::Warm;
  j.at("relative_ci").get_to(t.relative_ci);
  j.at("min_samples").get_to(t.min_samples);
  j.at("min_seconds").get_to(t.min_seconds);
  j.at("max_samples").get_to(t.max_samples);
  j.at("max_seconds").get_to(t.max_seconds);
  j.at("sample_seconds").get_to(t.sample_seconds);
  j.at("warmup_seconds").get_to(t.warmup_seconds);
  if (j.contains("cutoff_seconds")) j.at("cutoff_seconds").get_to(t.cutoff_seconds);
  if (j.contains("lone_run_seconds")) j.at("lone_run_seconds").get_to(t.lone_run_seconds);
  if (j.contains("attempts")) j.at("attempts").get_to(t.attempts);
  return t;
}

// The summary is made anew from the samples.
json timing_to_json(const Timing& t) {
  return {{"samples", t.samples},
          {"repeats", t.repeats},
          {"stopped_early", t.stopped_early},
          {"wall_median", t.wall_median},
          {"disturbed", t.disturbed},
          {"cold", t.cache == CacheState::Cold}};
}

Timing timing_from_json(const json& j) {
  Timing t;
  j.at("samples").get_to(t.samples);
  j.at("repeats").get_to(t.repeats);
  j.at("stopped_early").get_to(t.stopped_early);
  j.at("wall_median").get_to(t.wall_median);
  j.at("disturbed").get_to(t.disturbed);
  t.cache = j.at("cold").get<bool>() ? CacheState::Cold : CacheState::Warm;
  if (!t.samples.empty()) summarize(&t);
  return t;
}

}  // namespace

namespace {

json source_to_json(const KernelSource& source) {
  return {{"code", source.code},
          {"flags", source.flags},
          {"description", json::parse(source.description.to_json())}};
}

KernelSource source_from_json(const json& j) {
  KernelSource source;
  j.at("code").get_to(source.code);
  j.at("flags").get_to(source.flags);
  source.description = KernelDescription::from_json(j.at("description").dump());
  return source;
}

}  // namespace

std::string to_json(const BuildJob& job) {
  json j = {{"code", job.source.code},
            {"flags", job.source.flags},
            {"use_cache", job.use_cache},
            {"timeout_seconds", job.timeout_seconds},
            {"cuda_architecture", job.cuda_architecture}};
  if (job.cuda_architecture.empty()) {
    j["description"] = json::parse(job.source.description.to_json());
  }
  if (!job.packing.code.empty()) j["packing"] = source_to_json(job.packing);
  return dump(j);
}

BuildJob build_job_from_json(const std::string& text) {
  return parse("build job", text, [](const json& j) {
    BuildJob job;
    j.at("code").get_to(job.source.code);
    j.at("flags").get_to(job.source.flags);
    j.at("cuda_architecture").get_to(job.cuda_architecture);
    if (job.cuda_architecture.empty()) {
      job.source.description = KernelDescription::from_json(j.at("description").dump());
    }
    if (j.contains("packing")) job.packing = source_from_json(j.at("packing"));
    j.at("use_cache").get_to(job.use_cache);
    j.at("timeout_seconds").get_to(job.timeout_seconds);
    return job;
  });
}

std::string to_json(const BuildResult& r) {
  return dump({{"error", r.error},
               {"object_path", r.object_path},
               {"object", to_base64(r.object)},
               {"hash", r.hash},
               {"packing_object", to_base64(r.packing_object)},
               {"compiler", r.compiler},
               {"cached", r.cached},
               {"seconds", r.seconds}});
}

BuildResult build_result_from_json(const std::string& text) {
  return parse("build result", text, [](const json& j) {
    BuildResult r;
    j.at("error").get_to(r.error);
    j.at("object_path").get_to(r.object_path);
    r.object = bytes_of(j, "object");
    j.at("hash").get_to(r.hash);
    r.packing_object = bytes_of(j, "packing_object");
    j.at("compiler").get_to(r.compiler);
    j.at("cached").get_to(r.cached);
    j.at("seconds").get_to(r.seconds);
    return r;
  });
}

namespace {

json points_to_json(const std::vector<SizePoint>& points) {
  json list = json::array();
  for (const SizePoint& p : points) {
    list.push_back({{"dims", p.dims}});
    if (std::isfinite(p.cutoff_seconds)) list.back()["cutoff_seconds"] = p.cutoff_seconds;
  }
  return list;
}

std::vector<SizePoint> points_from_json(const json& list) {
  std::vector<SizePoint> points;
  for (const json& j : list) {
    SizePoint& p = points.emplace_back();
    j.at("dims").get_to(p.dims);
    if (j.contains("cutoff_seconds")) j.at("cutoff_seconds").get_to(p.cutoff_seconds);
  }
  return points;
}

}  // namespace

std::string to_json(const MeasureJob& job) {
  json j = {{"object_path", job.object_path},
            {"object", to_base64(job.object)},
            {"cuda", job.cuda},
            {"workload", job.workload},
            {"dims", job.dims},
            {"seed", job.seed},
            {"threads", job.threads},
            {"samples", job.samples},
            {"check", job.check},
            {"time", job.time},
            {"roof_seconds", job.roof_seconds},
            {"rounds", job.rounds},
            {"timing", timing_options_to_json(job.timing)}};
  if (std::isfinite(job.keep_seconds)) j["keep_seconds"] = job.keep_seconds;
  if (job.spread.bytes > 0) {
    j["spread"] = {{"names", job.spread.names}, {"bytes", job.spread.bytes}};
  }
  if (job.cuda.empty()) j["description"] = json::parse(job.description.to_json());
  if (!job.points.empty()) {
    j["points"] = points_to_json(job.points);
    j["point_timing"] = timing_options_to_json(job.point_timing);
    j["compare_rows"] = job.compare_rows;
  }
  return dump(j);
}

MeasureJob measure_job_from_json(const std::string& text) {
  return parse("measure job", text, [](const json& j) {
    MeasureJob job;
    j.at("object_path").get_to(job.object_path);
    job.object = bytes_of(j, "object");
    j.at("cuda").get_to(job.cuda);
    if (job.cuda.empty()) {
      job.description = KernelDescription::from_json(j.at("description").dump());
    }
    j.at("workload").get_to(job.workload);
    j.at("dims").get_to(job.dims);
    j.at("seed").get_to(job.seed);
    j.at("threads").get_to(job.threads);
    j.at("samples").get_to(job.samples);
    j.at("check").get_to(job.check);
    j.at("time").get_to(job.time);
    j.at("roof_seconds").get_to(job.roof_seconds);
    if (j.contains("keep_seconds")) j.at("keep_seconds").get_to(job.keep_seconds);
    if (j.contains("spread")) {
      j.at("spread").at("names").get_to(job.spread.names);
      j.at("spread").at("bytes").get_to(job.spread.bytes);
    }
    j.at("rounds").get_to(job.rounds);
    job.timing = timing_options_from_json(j.at("timing"));
    if (j.contains("points")) {
      job.points = points_from_json(j.at("points"));
      job.point_timing = timing_options_from_json(j.at("point_timing"));
      j.at("compare_rows").get_to(job.compare_rows);
    }
    return job;
  });
}

namespace {

json peers_to_json(const std::map<std::string, PeerResult>& peers) {
  json j = json::object();
  for (const auto& [name, p] : peers) {
    j[name] = {{"seconds", p.seconds},
               {"problem", p.problem},
               {"note", p.note},
               {"version", p.version},
               {"checked", p.checked}};
  }
  return j;
}

std::map<std::string, PeerResult> peers_from_json(const json& j) {
  std::map<std::string, PeerResult> peers;
  for (const auto& [name, p] : j.items()) {
    peers[name] = {p.at("seconds").get<double>(), p.at("problem").get<std::string>(),
                   p.at("note").get<std::string>(), p.at("version").get<std::string>(),
                   p.at("checked").get<bool>()};
  }
  return peers;
}

}  // namespace

std::string to_json(const MeasureResult& r) {
  return dump({{"verdict", std::string(name_of(r.verdict))},
               {"message", r.message},
               {"note", r.note},
               {"wrong_index", r.wrong_index},
               {"max_rel_error", r.max_rel_error},
               {"compared", r.compared},
               {"in_full", r.in_full},
               {"pack_seconds", r.pack_seconds},
               {"check_seconds", r.check_seconds},
               {"timing_seconds", r.timing_seconds},
               {"peers", peers_to_json(r.peers)},
               {"at_points", r.at_points},
               {"rows_identity", r.rows_identity},
               {"timing", timing_to_json(r.timing)}});
}

MeasureResult measure_result_from_json(const std::string& text) {
  return parse("measure result", text, [](const json& j) {
    MeasureResult r;
    std::string verdict = j.at("verdict").get<std::string>();
    std::optional<Verdict> parsed = parse_verdict(verdict);
    if (!parsed) throw Error("measure result: unknown verdict '" + verdict + "'");
    r.verdict = *parsed;
    j.at("message").get_to(r.message);
    j.at("note").get_to(r.note);
    j.at("wrong_index").get_to(r.wrong_index);
    j.at("max_rel_error").get_to(r.max_rel_error);
    j.at("compared").get_to(r.compared);
    j.at("in_full").get_to(r.in_full);
    j.at("pack_seconds").get_to(r.pack_seconds);
    j.at("check_seconds").get_to(r.check_seconds);
    j.at("timing_seconds").get_to(r.timing_seconds);
    r.peers = peers_from_json(j.at("peers"));
    r.timing = timing_from_json(j.at("timing"));
    j.at("at_points").get_to(r.at_points);
    j.at("rows_identity").get_to(r.rows_identity);
    return r;
  });
}

}  // namespace tilewright
