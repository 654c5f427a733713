#include "database/tables/convert.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/utf8.h"
#include "database/tables/checksum.h"
#include "database/target.h"

namespace tilewright::database {
namespace {

template <class Bits, class Number>
Blob to_blob(const std::vector<Number>& values) {
  Blob blob;
  blob.reserve(values.size() * sizeof(Bits));
  for (const Number value : values) {
    const Bits bits = std::bit_cast<Bits>(value);
    for (size_t byte = 0; byte < sizeof(Bits); ++byte) {
      blob.push_back(static_cast<std::byte>(bits >> (8 * byte)));
    }
  }
  return blob;
}

template <class Bits, class Number>
std::vector<Number> from_blob(const Blob& blob) {
  std::vector<Number> values(blob.size() / sizeof(Bits));
  for (size_t i = 0; i < values.size(); ++i) {
    Bits bits = 0;
    for (size_t byte = 0; byte < sizeof(Bits); ++byte) {
      bits |= static_cast<Bits>(blob[i * sizeof(Bits) + byte]) << (8 * byte);
    }
    values[i] = std::bit_cast<Number>(bits);
  }
  return values;
}

void require(bool condition, const std::string& message) {
  if (!condition) throw RecordError(message);
}

void require_text(const char* what, const std::string& text) {
  require(is_utf8(text), std::string(what) + " is not valid UTF-8");
}

void require_name(const char* what, const std::string& text) {
  require(!text.empty(), std::string(what) + " is empty");
  require_text(what, text);
}

void require_json_object(const char* what, const std::string& text) {
  require_text(what, text);
  require(nlohmann::json::parse(text, nullptr, false).is_object(),
          std::string(what) + " must be a JSON object, got '" + text.substr(0, 80) + "'");
}

void require_seconds(const char* what, double seconds) {
  require(
      std::isfinite(seconds) && seconds >= 0,
      std::string(what) + " must be a finite time of at least 0, got " + std::to_string(seconds));
}

std::string points_text(const std::vector<SizedTime>& points) {
  if (points.empty()) return "";
  nlohmann::json list = nlohmann::json::array();
  for (const SizedTime& p : points) list.push_back({{"sizes", p.sizes}, {"seconds", p.seconds}});
  return list.dump();
}

std::vector<SizedTime> points_from(const std::string& text) {
  std::vector<SizedTime> points;
  if (text.empty()) return points;
  try {
    for (const nlohmann::json& p : nlohmann::json::parse(text)) {
      points.push_back({p.at("sizes").get<Sizes>(), p.at("seconds").get<double>()});
    }
  } catch (const nlohmann::json::exception& error) {
    throw RecordError(std::string("the record's times at sizes cannot be read: ") + error.what());
  }
  return points;
}

void check_record(const Record& record) {
  require_name("the record's workload hash", record.workload_hash);
  require_name("the record's workload", record.workload_canonical);
  require_name("the record's operator", record.op);
  require_text("the record's label", record.label);
  require_name("the record's target hash", record.target.hash);
  require_name("the record's sketch", record.sketch);
  require_json_object("the record's config", record.config);
  require(record.threads >= 1,
          "the record's threads must be at least 1, got " + std::to_string(record.threads));
  for (size_t i = 0; i < record.samples.size(); ++i) {
    const std::string what = "sample " + std::to_string(i) + " of the record";
    require_seconds(what.c_str(), record.samples[i]);
  }
  require_seconds("the record's best time", record.best_seconds);
  require_seconds("the record's median time", record.median_seconds);
  for (const SizedTime& point : record.points) {
    require_seconds("the record's time at a size", point.seconds);
    for (const auto& [dim, size] : point.sizes) require_name("the record's dimension", dim);
  }
  require(record.verdict != Verdict::Valid || record.offline || !record.samples.empty(),
          "a valid record needs samples, unless it is marked as offline");
  require(record.verdict == Verdict::Valid || !record.reason.empty(),
          "a failed record needs a reason");
  require_text("the record's run id", record.run_id);
  require_text("the record's tool version", record.tool_version);
  require_text("the record's compiler version", record.compiler_version);
  require_text("the record's driver version", record.driver_version);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double best_seconds(const Record& record) {
  if (record.best_seconds > 0 || record.samples.empty()) return record.best_seconds;
  return *std::min_element(record.samples.begin(), record.samples.end());
}

double median_seconds(const Record& record) {
  if (record.median_seconds > 0 || record.samples.empty()) return record.median_seconds;
  return median(record.samples);
}

// Sets a row's first cell to the content hash of all other cells.
void set_content_key(const char* table, Row& row) {
  row[0] = std::string();
  row[0] = canonical_row(table_named(table), kSchemaVersion, row).hash();
}

// Takes the cells of a healthy row one by one, in the order of the table's columns.
class Cells {
 public:
  explicit Cells(const Row& row) : row_(row) {}

  const std::string& text() { return std::get<std::string>(row_[next_++]); }
  const Blob& blob() { return std::get<Blob>(row_[next_++]); }
  double real() { return std::get<double>(row_[next_++]); }
  int64_t integer() { return std::get<int64_t>(row_[next_++]); }
  int small() { return static_cast<int>(integer()); }
  bool flag() { return integer() != 0; }

 private:
  const Row& row_;
  size_t next_ = 0;
};

template <class Value>
Value known(const std::optional<Value>& value, const char* what, const std::string& name) {
  require(value.has_value(), std::string("unknown ") + what + " '" + name + "'");
  return *value;
}

}  // namespace

Row record_row(const Record& record) {
  check_record(record);
  Row row = {std::string(),
             record.workload_hash,
             record.target.hash,
             record.label,
             record.sketch,
             int64_t{record.sketch_version},
             record.config,
             std::string(verdict_name(record.verdict)),
             to_utf8(record.reason),
             int64_t{record.threads},
             doubles_to_blob(record.samples),
             best_seconds(record) + 0.0,
             median_seconds(record) + 0.0,
             to_blob<uint32_t>(record.features),
             int64_t{record.feature_version},
             int64_t{record.trial},
             static_cast<int64_t>(record.seed),
             record.run_id,
             record.created != 0 ? record.created : now_microseconds(),
             record.tool_version,
             record.compiler_version,
             record.driver_version,
             int64_t{record.is_default},
             int64_t{record.offline},
             record.artifact_hash,
             int64_t{record.confirmed},
             points_text(record.points)};
  set_content_key("records", row);
  return row;
}

Record record_from_row(const Row& row) {
  Cells cells(row);
  Record record;
  record.id = cells.text();
  record.workload_hash = cells.text();
  record.target.hash = cells.text();
  record.label = cells.text();
  record.sketch = cells.text();
  record.sketch_version = cells.small();
  record.config = cells.text();
  const std::string verdict = cells.text();
  record.verdict = known(verdict_from_name(verdict), "verdict", verdict);
  record.reason = cells.text();
  record.threads = cells.small();
  record.samples = doubles_from_blob(cells.blob());
  record.best_seconds = cells.real();
  record.median_seconds = cells.real();
  record.features = from_blob<uint32_t, float>(cells.blob());
  record.feature_version = cells.small();
  record.trial = cells.small();
  record.seed = static_cast<uint64_t>(cells.integer());
  record.run_id = cells.text();
  record.created = cells.integer();
  record.tool_version = cells.text();
  record.compiler_version = cells.text();
  record.driver_version = cells.text();
  record.is_default = cells.flag();
  record.offline = cells.flag();
  record.artifact_hash = cells.text();
  record.confirmed = cells.flag();
  record.points = points_from(cells.text());
  return record;
}

Row artifact_row(const Artifact& artifact) {
  require(!artifact.bytes.empty(), "the artifact has no bytes");
  require_json_object("the artifact's description", artifact.description);
  require_text("the artifact's compiler", artifact.compiler);
  require_text("the artifact's flags", artifact.flags);
  Row row = {std::string(),     artifact.bytes, artifact.description, to_utf8(artifact.source),
             artifact.compiler, artifact.flags};
  set_content_key("artifacts", row);
  return row;
}

Artifact artifact_from_row(const Row& row) {
  Cells cells(row);
  Artifact artifact;
  artifact.hash = cells.text();
  artifact.bytes = cells.blob();
  artifact.description = cells.text();
  artifact.source = cells.text();
  artifact.compiler = cells.text();
  artifact.flags = cells.text();
  return artifact;
}

Row model_row(const Model& model) {
  require_name("the model's target hash", model.target_hash);
  require_name("the model's kind", model.kind);
  require(!model.bytes.empty(), "the model has no bytes");
  return {
      model.target_hash, model.kind,       int64_t{model.feature_version},
      model.bytes,       model.trained_on, model.created != 0 ? model.created : now_microseconds()};
}

Model model_from_row(const Row& row) {
  Cells cells(row);
  Model model;
  model.target_hash = cells.text();
  model.kind = cells.text();
  model.feature_version = cells.small();
  model.bytes = cells.blob();
  model.trained_on = cells.integer();
  model.created = cells.integer();
  return model;
}

Row run_row(const TuningRun& run) {
  require_json_object("the run's arguments", run.args);
  require_text("the run's target hash", run.target_hash);
  require_text("the run's tool version", run.tool_version);
  return {run.id,           static_cast<int64_t>(run.seed),         run.args,    run.target_hash,
          run.tool_version, std::string(run_state_name(run.state)), run.started, run.updated};
}

TuningRun run_from_row(const Row& row) {
  Cells cells(row);
  TuningRun run;
  run.id = cells.text();
  run.seed = static_cast<uint64_t>(cells.integer());
  run.args = cells.text();
  run.target_hash = cells.text();
  run.tool_version = cells.text();
  const std::string state = cells.text();
  run.state = known(run_state_from_name(state), "run state", state);
  run.started = cells.integer();
  run.updated = cells.integer();
  return run;
}

Row workload_row(const Record& record) {
  return {record.workload_hash, record.workload_canonical, record.op};
}

Row target_row(const TargetIdentity& target) {
  require_text("the target's chip", target.chip);
  require_text("the target's features", target.features);
  require_text("the target's text", target.canonical);
  return {target.hash, target.chip, target.features, int64_t{target.cores}, target.canonical};
}

TargetIdentity target_from_row(const Row& row) {
  Cells cells(row);
  TargetIdentity target;
  target.hash = cells.text();
  target.chip = cells.text();
  target.features = cells.text();
  target.cores = cells.small();
  target.canonical = cells.text();
  return identity_today(std::move(target));
}

Blob doubles_to_blob(const std::vector<double>& values) { return to_blob<uint64_t>(values); }

std::vector<double> doubles_from_blob(const Blob& blob) {
  return from_blob<uint64_t, double>(blob);
}

int64_t now_microseconds() {
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(since_epoch).count();
}

}  // namespace tilewright::database
