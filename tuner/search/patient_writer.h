// Writes to a database that another process may lock for a while.
#pragma once

#include <deque>
#include <functional>

#include "database/store.h"

namespace tilewright {

struct Patience {
  double retry = 10;  // seconds between two attempts
  double limit = 60;  // seconds until giving up
};

// Stores facts in their order of arrival. While another process locks the file, facts wait in
// memory and are tried again. For use by one thread.
class PatientWriter {
 public:
  // One transaction. It may be called again after a failed commit, or after put() has returned or
  // thrown, so it must own its data.
  using Write = std::function<void(database::Store&)>;

  explicit PatientWriter(database::Store& store, Patience patience = {})
      : store_(store), patience_(patience) {}

  // Throws DatabaseError. Kind Locked: the file was locked for longer than the limit; the message
  // has the number of lost facts. Other kinds are thrown at once, and their fact is dropped.
  void put(Write write);
  // Returns when everything is stored; throws like put().
  void flush();
  // The number of facts not stored yet.
  size_t waiting() const { return waiting_.size(); }

 private:
  bool store_all();  // false if the file is locked
  void held(const database::DatabaseError& e);

  database::Store& store_;
  Patience patience_;
  std::deque<Write> waiting_;
  double held_since_ = 0, next_try_ = 0;  // 0: not locked
};

}  // namespace tilewright
