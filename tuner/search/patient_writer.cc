#include "tuner/search/patient_writer.h"

#include <fmt/core.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <thread>

#include "runtime/machine/timer.h"

namespace tilewright {

using database::DatabaseError;

void PatientWriter::put(Write write) {
  waiting_.push_back(std::move(write));
  if (steady_seconds() >= next_try_) store_all();
}

void PatientWriter::flush() {
  while (!store_all()) std::this_thread::sleep_for(std::chrono::milliseconds(50));
}

bool PatientWriter::store_all() {
  try {
    while (!waiting_.empty()) {
      database::Transaction together = store_.begin();
      waiting_.front()(store_);
      together.commit();
      waiting_.pop_front();
    }
  } catch (const DatabaseError& e) {
    if (e.kind() != DatabaseError::Kind::Locked) {
      waiting_.pop_front();  // it would fail again
      throw;
    }
    held(e);
    return false;
  }
  if (held_since_ > 0) spdlog::warn("'{}' is free again: all is stored", store_.path());
  held_since_ = next_try_ = 0;
  return true;
}

void PatientWriter::held(const DatabaseError& e) {
  double now = steady_seconds();
  next_try_ = now + patience_.retry;
  if (held_since_ == 0) {
    held_since_ = now;
    spdlog::warn("{}; finished trials wait in memory, for {:.0f} s at most", e.what(),
                 patience_.limit);
  }
  if (now - held_since_ < patience_.limit) return;
  throw DatabaseError(
      DatabaseError::Kind::Locked,
      fmt::format(
          "'{}' has been held by another process for {:.0f} s: {} finished trials and notes could "
          "not be stored; earlier trials are stored, and --resume continues from them",
          store_.path(), now - held_since_, waiting_.size()));
}

}  // namespace tilewright
