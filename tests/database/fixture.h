// Facts and files for the database's tests.
#pragma once

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <string>

#include "database/store.h"
#include "database/tables/checksum.h"
#include "database/tables/table.h"

namespace tilewright::database::testing {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

// A temporary folder that is removed with the object.
class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (fs::temp_directory_path() / "tw_database_XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TempFolder() { fs::remove_all(path_); }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  fs::path operator/(const std::string& name) const { return path_ / name; }

 private:
  fs::path path_;
};

inline TargetIdentity sample_target(const std::string& chip = "Zen 4", int cores = 2) {
  return make_target(chip, "avx2 avx512f fma", cores, "l3=32M");
}

// A valid record. Records with different numbers differ in config and times.
inline Record sample_record(int number, int workload = 0) {
  Record record;
  record.workload_canonical = "matmul m=" + std::to_string(64 << workload) + " n=64 k=64 f32";
  record.workload_hash = content_hash(record.workload_canonical);
  record.op = "matmul";
  record.label = "qkv";
  record.target = sample_target();
  record.sketch = "cpu_matmul";
  record.sketch_version = 3;
  record.config = R"({"i": [4, )" + std::to_string(number) + R"(], "j": 16})";
  record.threads = 1;
  record.samples = {1e-3 * (number + 1), 1.25e-3 * (number + 1), 1.1e-3 * (number + 1) / 3};
  record.features = {0.1f * static_cast<float>(number), -2.5f, 1e-30f};
  record.feature_version = 7;
  record.trial = number;
  record.seed = 0xfedcba9876543210u + static_cast<uint64_t>(number);
  record.run_id = "run-a";
  record.created = 1'700'000'000'000'000 + number;
  record.tool_version = "0.1.0";
  record.compiler_version = "gcc 12.2.0";
  record.driver_version = "none";
  return record;
}

inline Record sample_failure(int number, Verdict verdict, const std::string& reason) {
  Record record = sample_record(number);
  record.verdict = verdict;
  record.reason = reason;
  record.samples.clear();
  return record;
}

inline Artifact sample_artifact(int number, size_t bytes = 2000) {
  Artifact artifact;
  for (size_t i = 0; i < bytes; ++i) {
    artifact.bytes.push_back(static_cast<std::byte>((i * 37 + static_cast<size_t>(number)) % 251));
  }
  artifact.description = R"({"symbol": "kernel)" + std::to_string(number) + "\"}";
  artifact.source = "void kernel() {} // Größe " + std::to_string(number);
  artifact.compiler = "gcc 12.2.0";
  artifact.flags = "-O3 -mavx512f";
  return artifact;
}

inline Model sample_model(int number) {
  return {.target_hash = sample_target().hash,
          .kind = "xgboost",
          .feature_version = number,
          .bytes = sample_artifact(number, 300).bytes,
          .trained_on = 120,
          .created = 1'700'000'000'000'000 + number};
}

// Stores a record with its own kernel and returns it as it should be read back.
inline Record store_with_artifact(Store& store, Record record) {
  record.artifact_hash = store.put_artifact(sample_artifact(record.trial));
  record.id = store.insert(record);
  return record;
}

inline BestQuery query_for(const Record& record) {
  return {.workload_hash = record.workload_hash, .target = record.target};
}

// The contents of a database as text that depends only on the content.
inline std::string content(const Store& store) {
  std::ostringstream out;
  store.export_jsonl(out);
  return out.str();
}

inline std::string content(const fs::path& path) {
  return content(Store::open(path, Mode::ReadOnly));
}

// A table over m=1..64 of workload 0 on one thread. The records' kernels have ranges of equal
// length, measured at the first size of each. The records are stored and have ids.
inline DispatchTable sample_dispatch(const std::vector<Record>& records, int64_t created = 1) {
  DispatchTable table;
  table.workload_hash = records.front().workload_hash;
  table.target_hash = records.front().target.hash;
  table.threads = records.front().threads;
  table.dims = {"m"};
  table.tool_version = "0.1.0";
  table.created = created;
  const int64_t length = 64 / static_cast<int64_t>(records.size());
  for (const Record& record : records) {
    const int64_t first = table.ranges.empty() ? 1 : table.ranges.back().last.at("m") + 1;
    const bool last = table.ranges.size() + 1 == records.size();
    table.ranges.push_back({{{"m", first}}, {{"m", last ? 64 : first + length - 1}}, record.id});
    table.points.push_back({{{"m", first}}, first % 2 == 0, {{record.id, 1e-6 * double(first)}}});
  }
  return table;
}

// Runs SQL directly on the file, as another program might.
inline void run_sql(const fs::path& path, const std::string& sql) {
  sqlite3* handle = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &handle), SQLITE_OK);
  char* message = nullptr;
  const int code = sqlite3_exec(handle, sql.c_str(), nullptr, nullptr, &message);
  const std::string text = message == nullptr ? "" : message;
  sqlite3_free(message);
  sqlite3_close(handle);
  ASSERT_EQ(code, SQLITE_OK) << text;
}

inline std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

inline void write_file(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

// The message of an action's DatabaseError, which must have this kind; without one the test fails.
inline std::string database_error(DatabaseError::Kind kind, const std::function<void()>& action) {
  try {
    action();
  } catch (const DatabaseError& error) {
    EXPECT_EQ(static_cast<int>(error.kind()), static_cast<int>(kind)) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no DatabaseError was thrown";
  return "";
}

inline std::string record_error(const std::function<void()>& action) {
  try {
    action();
  } catch (const RecordError& error) {
    return error.what();
  }
  ADD_FAILURE() << "no RecordError was thrown";
  return "";
}

}  // namespace tilewright::database::testing
