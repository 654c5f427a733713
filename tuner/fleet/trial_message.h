// The jobs of a fleet's workers and their answers, as JSON.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tuner/measure/measurer.h"

namespace tilewright {

// Facts that all jobs of a crew share.
struct JobContext {
  std::string workload;  // canonical text
  MeasureOptions options;
  // Until when a candidate may start, from when the worker gets the job.
  double seconds_left = std::numeric_limits<double>::infinity();
};

// Job "trial": a worker makes the candidate of a config, compiles, checks and times it.
struct TrialJob {
  JobContext context;
  std::string sketch;
  int sketch_version = 0;
  std::string config, fingerprint;  // of the program that the config has to give there, too
  bool is_default = false;
  double best_seconds = 0;
  std::vector<SizePoint> points = {};
};

struct TrialAnswer {
  Measurement measurement;  // without source; with the object only where it may win
  bool left_out = false;    // the time was over
  SecondsSpent spent;
};

// Job "compare", and with `sizes` job "compare_at": kernels that were tried, timed in turns.
struct CompareJob {
  struct Kernel {
    std::string sha256;  // of the object, which the worker asks for where it has not made it
    std::string description, cuda;
    double median = 0;
  };
  JobContext context;
  std::vector<Kernel> kernels;
  SizeList sizes = {};
  int rounds = 0;
};

struct CompareAnswer {
  Comparison comparison = {};
  std::optional<SizeComparison> at_sizes = {};
  SecondsSpent spent;
};

std::string sha256_of(const std::string& bytes);

std::string to_json(const JobContext& context);
std::string to_json(const TrialJob& job);
std::string to_json(const CompareJob& job);
std::string to_json(const TrialAnswer& answer);
std::string to_json(const CompareAnswer& answer);
// Jobs come from the coordinator: they throw JSON exceptions or FleetError for another text.
TrialJob trial_job_from(const nlohmann::json& j);
CompareJob compare_job_from(const nlohmann::json& j);
// Answers come from anywhere. Both throw the same for one that makes no sense: a missing or mistyped
// field, a time that is no time, samples and median that contradict each other, an object that is not
// what its hash says, or another number of results than the job has.
TrialAnswer trial_answer_from(const nlohmann::json& j, const TrialJob& job);
CompareAnswer compare_answer_from(const nlohmann::json& j, const CompareJob& job);

}  // namespace tilewright
